package web

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// Runs is where runs come from that have ended.
type Runs interface {
	// Run is the run whose id is, or begins with, the text; ErrNoRun when there is none.
	Run(ctx context.Context, id string) (*probes.Run, error)
	// History are the last runs that started until then, the oldest first, without their
	// records; a zero time is now, and empty names are all.
	History(ctx context.Context, target, probe string, until time.Time, limit int) ([]*probes.Run, error)
}

// ErrNoRun is the answer when no run has the id.
var ErrNoRun = errors.New("no such run")

const (
	defaultRuns = 50
	mostRuns    = 1000
)

var runPage = parsePage("run.html")

// handleRuns serves /api/v1/runs, /api/v1/runs/{id}, /ui/runs/{id} and
// /ui/targets/{target}/probes/{probe}. Nothing of it holds a prompt or an answer.
func handleRuns(mux *http.ServeMux, runs Runs) {
	get := func(path string, answer func(w http.ResponseWriter, r *http.Request) error) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			if runs == nil {
				http.Error(w, "this daemon keeps no runs; set storage.path in the configuration", http.StatusNotFound)
				return
			}
			var bad badRequest
			switch err := answer(w, r); {
			case err == nil:
			case errors.Is(err, ErrNoRun):
				http.Error(w, "no such run; it may be older than storage.retention", http.StatusNotFound)
			case errors.As(err, &bad):
				http.Error(w, bad.Error(), http.StatusBadRequest)
			default:
				http.Error(w, err.Error(), http.StatusInternalServerError)
			}
		})
	}
	get("/api/v1/runs", func(w http.ResponseWriter, r *http.Request) error {
		found, err := history(r, runs, r.FormValue("target"), r.FormValue("probe"))
		if err != nil {
			return err
		}
		list := make([]storedJSON, 0, len(found))
		for _, run := range found {
			list = append(list, newStoredJSON(run))
		}
		serveJSON(func() any { return list })(w, r)
		return nil
	})
	get("/api/v1/runs/{id}", func(w http.ResponseWriter, r *http.Request) error {
		run, err := runs.Run(r.Context(), r.PathValue("id"))
		if err != nil {
			return err
		}
		serveJSON(func() any { return newStoredJSON(run) })(w, r)
		return nil
	})
	get("/ui/runs/{id}", func(w http.ResponseWriter, r *http.Request) error {
		run, err := runs.Run(r.Context(), r.PathValue("id"))
		if err != nil {
			return err
		}
		return drawRuns(w, runsView{Run: newRunView(run)})
	})
	get("/ui/targets/{target}/probes/{probe}", func(w http.ResponseWriter, r *http.Request) error {
		target, probe := r.PathValue("target"), r.PathValue("probe")
		found, err := history(r, runs, target, probe)
		if err != nil {
			return err
		}
		v := runsView{Target: target, Probe: probe}
		for i := len(found) - 1; i >= 0; i-- { // the youngest first
			v.Rows = append(v.Rows, newRunView(found[i]))
		}
		return drawRuns(w, v)
	})
}

// badRequest is a mistake in the address.
type badRequest struct{ error }

// history reads the runs that the query of an address asks for.
func history(r *http.Request, runs Runs, target, probe string) ([]*probes.Run, error) {
	limit := defaultRuns
	if text := r.FormValue("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > mostRuns {
			return nil, badRequest{fmt.Errorf("limit must be a number from 1 to %d", mostRuns)}
		}
		limit = n
	}
	until, err := readInstant(r.FormValue("at"))
	if err != nil {
		return nil, badRequest{err}
	}
	return runs.History(r.Context(), target, probe, until, limit)
}

// readInstant reads what Grafana puts into a link, milliseconds since 1970, or RFC 3339.
func readInstant(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
		return time.UnixMilli(ms), nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, errors.New("at must be milliseconds since 1970, or like 2026-05-01T02:00:00Z")
	}
	return at, nil
}

// runsView is one run, or those of a pair.
type runsView struct {
	Run           *runView
	Target, Probe string
	Rows          []*runView
}

// runView is a run as finished text.
type runView struct {
	ID, Target, Probe, Model, State, Validity, Start, Duration  string
	Kind                                                        probes.Kind
	Result                                                      probes.RunResult
	TTFTp50, TTFTp99, TPOTp50, E2Ep99, Output, Success, Samples string
	Fingerprint                                                 string
	PairURL                                                     string
	Reasons, Traps                                              []string
	Facts                                                       []probes.Fact
	Latencies                                                   []latencyView
	Requests, Completed, Failed, Records                        int
}

type latencyView struct {
	Signal                                probes.Signal
	N                                     int
	Mean, P50, P90, P95, P99, Max, Stddev string
}

func newRunView(run *probes.Run) *runView {
	var r row
	fillResult(&r, &probes.Result{Summary: run.Summary, Validity: run.Validity, Verdict: run.Verdict, Capacity: run.Capacity})
	if run.Spec.Kind == probes.Sweep {
		fillSweep(&r, &probes.Result{Summary: run.Summary, Capacity: run.Capacity})
	}
	s := &run.Summary
	v := &runView{
		ID: run.ID, Target: run.Target.Name, Probe: run.Spec.Probe, Model: run.Target.Model, State: string(run.Verdict.State), Validity: string(run.Validity.State),
		Start: run.Start.UTC().Format("2006-01-02 15:04:05 UTC"), Duration: run.End.Sub(run.Start).Round(time.Millisecond).String(), Kind: run.Spec.Kind, Result: run.Result,
		TTFTp50: r.TTFTp50, TTFTp99: r.TTFTp99, TPOTp50: r.TPOTp50, E2Ep99: r.E2Ep99, Output: cmp.Or(r.Output, dash), Success: cmp.Or(r.Success, dash), Samples: r.Samples,
		PairURL:     pairURL(run.Target.Name, run.Spec.Probe),
		Fingerprint: run.Fingerprint, Reasons: reasons(run), Traps: texts(run.Traps), Facts: run.Facts.All(),
		Requests: s.Requests, Completed: s.Completed, Failed: s.Failed, Records: len(run.Records),
	}
	for _, signal := range probes.Signals {
		d := s.Distribution(signal)
		if d.N == 0 {
			continue
		}
		ms := func(stat probes.Statistic) string { return millis(d.Get(stat)) }
		v.Latencies = append(v.Latencies, latencyView{signal, d.N, ms(probes.StatMean), ms(probes.StatP50), ms(probes.StatP90), ms(probes.StatP95), ms(probes.StatP99), ms(probes.StatMax), ms(probes.StatStddev)})
	}
	return v
}

// pairURL is the page of a pair; names may hold a slash.
func pairURL(target, probe string) string {
	return "/ui/targets/" + url.PathEscape(target) + "/probes/" + url.PathEscape(probe)
}

func drawRuns(w http.ResponseWriter, v runsView) error {
	var out bytes.Buffer
	if err := runPage.Execute(&out, v); err != nil {
		return fmt.Errorf("draw page: %w", err)
	}
	secure(w.Header(), "text/html; charset=utf-8")
	_, _ = out.WriteTo(w)
	return nil
}

// storedJSON is one run on /api/v1/runs. Latencies are in seconds.
type storedJSON struct {
	runJSON
	Target           string                                 `json:"target"`
	Pool             string                                 `json:"pool"`
	Environment      probes.Environment                     `json:"target_env"`
	Model            string                                 `json:"model"`
	Probe            string                                 `json:"probe"`
	Kind             probes.Kind                            `json:"kind"`
	Traps            []probes.Reason                        `json:"traps,omitempty"`
	Server           probes.ServerFacts                     `json:"server"`
	Requests         int                                    `json:"requests"`
	Completed        int                                    `json:"completed"`
	SuccessRatio     probes.Optional[float64]               `json:"success_ratio"`
	OutputThroughput probes.Optional[float64]               `json:"output_tokens_per_second"`
	Capacity         *capacityJSON                          `json:"capacity,omitempty"`
	Latency          map[probes.Signal]*probes.Distribution `json:"latency_seconds,omitempty"`
}

func newStoredJSON(run *probes.Run) storedJSON {
	s := &run.Summary
	j := storedJSON{
		runJSON: *newRunJSON(run),
		Target:  run.Target.Name, Pool: run.Target.Pool, Environment: run.Target.Environment, Model: run.Target.Model, Probe: run.Spec.Probe, Kind: run.Spec.Kind,
		Traps: run.Traps, Server: run.Facts, Requests: s.Requests, Completed: s.Completed, SuccessRatio: s.SuccessRatio, OutputThroughput: s.OutputThroughput,
	}
	if run.Spec.Kind == probes.Sweep {
		j.Capacity = newCapacityJSON(run.Capacity)
	}
	if len(s.Latency) > 0 {
		j.Latency = map[probes.Signal]*probes.Distribution{}
	}
	for signal, d := range s.Latency {
		j.Latency[signal] = &d
	}
	return j
}
