// Command gen writes REFERENCE.md from the flag sets of package cli.
package main

import (
	"fmt"
	"os"

	"github.com/inferbeat/inferbeat/daemon/cli"
)

func main() {
	if err := os.WriteFile("REFERENCE.md", cli.Reference(), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "write reference:", err)
		os.Exit(1)
	}
}
