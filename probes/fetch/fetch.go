// Package fetch brings a dataset's file to this machine once.
//
// The story of the data:
//
//  1. [Files.Get] is given a URL and the SHA-256 that its content must have; without
//     both nothing is ever fetched.
//  2. When the file is there and has that hash, it is used. A file that has another
//     one is the user's, and is never overwritten.
//  3. Else it is fetched into a file beside it, which a later attempt goes on with
//     where an interrupted one has stopped.
//  4. What has arrived is hashed as a whole. Only the right content gets the file's
//     name, and wrong content is thrown away.
package fetch

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// stall is how long a transfer may stand still.
const stall = time.Minute

// Files fetches files and remembers which ones are right. The zero value is ready; it
// may be shared, and fetches one file at a time.
type Files struct {
	// Transport replaces the network's; nil is [http.DefaultTransport].
	Transport http.RoundTripper
	// Dir is where files without a path are kept; empty is inferbeat/datasets in the
	// user's cache folder.
	Dir string

	mu    sync.Mutex
	right map[string]state
}

// state tells whether a file has changed since it was hashed.
type state struct {
	size     int64
	modified time.Time
	sum      string
}

// Get returns the path of a file with the content of that hash. keep is where the
// file shall be; empty is a name made from the hash.
func (f *Files) Get(ctx context.Context, rawURL, sum, keep string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	sum = strings.ToLower(sum)
	if keep == "" {
		var err error
		if keep, err = f.place(rawURL, sum); err != nil {
			return "", err
		}
	}
	switch err := f.check(ctx, keep, sum); {
	case err == nil:
		return keep, nil
	case !errors.Is(err, os.ErrNotExist):
		return "", err
	}
	part := keep + ".part"
	if err := f.load(ctx, rawURL, part); err != nil {
		return "", fmt.Errorf("fetch %s: %w", printable(rawURL), err)
	}
	got, err := hashFile(ctx, part)
	if err != nil {
		return "", err
	}
	if got != sum {
		if err := os.Remove(part); err != nil {
			return "", fmt.Errorf("remove wrong content: %w", err)
		}
		return "", fmt.Errorf("fetch %s: its sha256 is %s, want %s; nothing was kept", printable(rawURL), got, sum)
	}
	if err := os.Rename(part, keep); err != nil {
		return "", fmt.Errorf("keep fetched file: %w", err)
	}
	return keep, f.check(ctx, keep, sum)
}

// place names a file in the cache by its hash, with the ending that the URL has.
func (f *Files) place(rawURL, sum string) (string, error) {
	dir := f.Dir
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("find cache folder: %w; set a path for the dataset", err)
		}
		dir = filepath.Join(cache, "inferbeat", "datasets")
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", fmt.Errorf("make cache folder: %w", err)
	}
	ending := ""
	if u, err := url.Parse(rawURL); err == nil {
		ending = path.Ext(u.Path)
	}
	return filepath.Join(dir, sum+ending), nil
}

// check hashes a file, unless it is the one that was right the last time.
func (f *Files) check(ctx context.Context, file, sum string) error {
	info, err := os.Stat(file)
	if err != nil {
		return fmt.Errorf("path: %w", err)
	}
	now := state{info.Size(), info.ModTime(), sum}
	if before, ok := f.right[file]; ok && before.size == now.size && before.sum == sum && before.modified.Equal(now.modified) {
		return nil
	}
	got, err := hashFile(ctx, file)
	if err != nil {
		return err
	}
	if got != sum {
		return fmt.Errorf("check %s: its sha256 is %s, want %s; move it away or correct the checksum", file, got, sum)
	}
	if f.right == nil {
		f.right = map[string]state{}
	}
	f.right[file] = now
	return nil
}

// load brings the rest of a file that may have begun to arrive.
func (f *Files) load(ctx context.Context, rawURL, part string) error {
	out, err := os.OpenFile(part, os.O_CREATE|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	defer out.Close()
	have, err := out.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(stall, func() { cancel(fmt.Errorf("nothing arrived for %s", stall)) })
	defer watch.Stop()
	response, err := f.ask(ctx, rawURL, have)
	if err != nil {
		return cause(ctx, err)
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode == http.StatusPartialContent && have > 0:
	case response.StatusCode == http.StatusRequestedRangeNotSatisfiable && have > 0:
		return nil // all of it is there already; the hash will tell
	case response.StatusCode == http.StatusOK:
		// The server knows no ranges: from the beginning.
		if err := out.Truncate(0); err != nil {
			return err
		}
		if _, err := out.Seek(0, io.SeekStart); err != nil {
			return err
		}
	default:
		return fmt.Errorf("the server answered %s", response.Status)
	}
	if _, err := io.Copy(out, alive{response.Body, watch}); err != nil {
		return fmt.Errorf("%w; a later attempt goes on from here", cause(ctx, err))
	}
	return out.Close()
}

func (f *Files) ask(ctx context.Context, rawURL string, have int64) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, rawURL, nil)
	if err != nil {
		return nil, errors.New("the url is malformed")
	}
	request.Header.Set("User-Agent", "inferbeat")
	request.Header.Set("Accept-Encoding", "identity") // a range is one of the file's bytes
	if have > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", have))
	}
	client := http.Client{Transport: f.Transport}
	response, err := client.Do(request)
	var failed *url.Error
	if errors.As(err, &failed) {
		return nil, failed.Err // without the URL, whose query may be a secret
	}
	return response, err
}

// cause is why we ended a transfer ourselves, or the error as it is.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// alive puts off the end of a transfer as long as bytes arrive.
type alive struct {
	io.Reader
	watch *time.Timer
}

func (a alive) Read(b []byte) (int, error) {
	n, err := a.Reader.Read(b)
	if n > 0 {
		a.watch.Reset(stall)
	}
	return n, err
}

func hashFile(ctx context.Context, name string) (string, error) {
	file, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("hash file: %w", err)
	}
	defer file.Close()
	sum := sha256.New()
	buffer := make([]byte, 1<<20)
	for {
		n, err := file.Read(buffer)
		sum.Write(buffer[:n])
		if errors.Is(err, io.EOF) {
			return hex.EncodeToString(sum.Sum(nil)), nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return "", fmt.Errorf("hash %s: %w", name, err)
		}
	}
}

// printable is a URL without what may be a secret.
func printable(rawURL string) string {
	return cmp.Or(probes.PlainURL(rawURL), "the dataset")
}
