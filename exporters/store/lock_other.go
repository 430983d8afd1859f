//go:build !unix

package store

import (
	"fmt"
	"os"
)

// lockFile relies on the system to refuse a second opening for writing where it does.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return nil, fmt.Errorf("lock the folder: %w", err)
	}
	return f, nil
}
