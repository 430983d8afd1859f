// Command gen writes REFERENCE.md from the types of package config.
package main

import (
	"fmt"
	"os"

	"github.com/inferbeat/inferbeat/daemon/config"
)

func main() {
	if err := os.WriteFile("REFERENCE.md", config.Reference(), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "write reference:", err)
		os.Exit(1)
	}
}
