// The program gen writes the dashboards into the folder that is its argument.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/inferbeat/inferbeat/dashboards/boards"
)

func main() {
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func write(folder string) error {
	all, err := boards.All()
	if err != nil {
		return err
	}
	for _, b := range all {
		if err := os.WriteFile(filepath.Join(folder, b.UID+".json"), b.JSON, 0o644); err != nil {
			return fmt.Errorf("write dashboard: %w", err)
		}
	}
	return nil
}
