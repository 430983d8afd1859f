// Command gen writes METRICS.md from the catalogue; go generate runs it in the
// package's folder.
package main

import (
	"fmt"
	"os"

	"github.com/inferbeat/inferbeat/exporters/catalog"
)

func main() {
	if err := os.WriteFile("METRICS.md", []byte(catalog.Markdown()), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "write metrics page:", err)
		os.Exit(1)
	}
}
