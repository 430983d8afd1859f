package cli

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/inferbeat/inferbeat/probes"
)

// maxTroubles is how many different failures are listed.
const maxTroubles = 5

// trouble is one way in which requests failed.
type trouble struct {
	outcome probes.Outcome
	status  int
	text    string
	count   int
}

// troubles says why requests failed, or why nothing was measured, and what to
// look at. It is empty when all is well.
func troubles(command string, run *probes.Run) string {
	var b strings.Builder
	switch {
	case run.Result == probes.RunAborted && run.Error != "": // by the interruption
		fmt.Fprintln(&b, "inferbeat "+command+": ended before anything was measured")
	case run.Result == probes.RunAborted:
		fmt.Fprintln(&b, "inferbeat "+command+": ended before it was complete")
	case run.Error != "":
		fmt.Fprintf(&b, "inferbeat %s: nothing was measured: %s\n", command, run.Error)
	}
	if run.Comparison == nil { // its records are of one part of one side
		b.WriteString(failureText(command, run))
	}
	return b.String()
}

// failureText says in what ways the requests of a run failed.
func failureText(command string, run *probes.Run) string {
	var b strings.Builder
	records := run.Records
	for i := range run.Steps {
		records = append(slices.Clip(records), run.Steps[i].Records...)
	}
	list, failed := failures(records)
	if failed == 0 {
		return ""
	}
	fmt.Fprintf(&b, "inferbeat %s: %d of %d requests to %s failed (backend %s)\n",
		command, failed, len(records), run.Target.BaseURL, run.Target.Backend)
	for i, t := range list {
		if i == maxTroubles {
			fmt.Fprintf(&b, "  and %d other ways\n", len(list)-maxTroubles)
			break
		}
		fmt.Fprintf(&b, "  %d %s: %s\n", t.count, t.outcome, t.text)
		if hint := t.hint(); hint != "" {
			fmt.Fprintf(&b, "    %s\n", hint)
		}
	}
	return b.String()
}

// failures groups the failed requests by what went wrong, in the order in which
// it first did.
func failures(records []probes.Record) (list []trouble, failed int) {
	at := map[trouble]int{}
	for i := range records {
		r := &records[i]
		if !r.Outcome.Failed() {
			continue
		}
		failed++
		key := trouble{outcome: r.Outcome, status: r.StatusCode, text: r.Error}
		n, known := at[key]
		if !known {
			n = len(list)
			at[key], list = n, append(list, key)
		}
		list[n].count++
	}
	return list, failed
}

// hint says what to look at first.
func (t trouble) hint() string {
	switch {
	case t.outcome == probes.DNS:
		return "check the host's name"
	case t.outcome == probes.Connect:
		return "check host and port, and that the server is up"
	case t.outcome == probes.TLSError:
		return "check that the server speaks https, and its certificate"
	case t.status == http.StatusUnauthorized, t.status == http.StatusForbidden:
		return "check the key: --api-key-file or OPENAI_API_KEY, api_key_file in a configuration"
	case t.status == http.StatusNotFound:
		return "check the backend, the URL's prefix and the model's name"
	case t.status/100 == 3:
		return "use the URL that it redirects to, or follow_redirects in a configuration"
	case t.outcome == probes.BadResponse:
		return "check that an inference server is behind the URL, and that it speaks the backend's dialect"
	}
	return ""
}
