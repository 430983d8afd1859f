// Command gen writes what the rules are with default options; go generate runs it in
// the folder of package alerts.
package main

import (
	"fmt"
	"os"

	"github.com/inferbeat/inferbeat/alerts"
)

func main() {
	for _, file := range []struct {
		path  string
		print func(alerts.Options) ([]byte, error)
	}{
		{"rules/inferbeat.yml", alerts.Rules},
		{"../deploy/kubernetes/prometheusrule.yaml", alerts.PrometheusRule},
		{"../deploy/alertmanager/alertmanager.yml", func(o alerts.Options) ([]byte, error) { return alerts.Alertmanager(o, nil) }},
	} {
		text, err := file.print(alerts.Options{})
		if err == nil {
			err = os.WriteFile(file.path, text, 0o644)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "write alerts:", err)
			os.Exit(1)
		}
	}
}
