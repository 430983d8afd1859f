//go:build unix

package store

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// lockFile holds a lock that ends with the process, however it ends, and writes down
// whose it is.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return nil, fmt.Errorf("lock the folder: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			owner := make([]byte, 20)
			n, _ := f.Read(owner)
			return nil, fmt.Errorf("another daemon (process %s) has it; end that one, or choose another storage.path", strings.TrimSpace(string(owner[:n])))
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	// Who holds it is for people; that it is held is the lock itself.
	_ = f.Truncate(0)
	_, _ = fmt.Fprintf(f, "%d\n", os.Getpid())
	return f, nil
}
