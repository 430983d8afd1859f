// Package table lays runs and their requests out as rows, for spreadsheets, notebooks
// and databases.
//
// The story of the data: [Runs] and [Requests] turn runs into rows of one struct each,
// whose tags name the columns; [WriteCSV] and [WriteParquet] write rows of either, so
// that both forms have the same columns. What is not known is an empty cell in CSV and
// null in Parquet, never 0.
package table

import (
	"encoding/csv"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/inferbeat/inferbeat/probes"
)

// Run is a run as a row. Latencies are in seconds, rates per second.
type Run struct {
	ID               string   `parquet:"run_id"`
	Start            string   `parquet:"start"` // RFC 3339, as End
	End              string   `parquet:"end"`
	Target           string   `parquet:"target"`
	Pool             string   `parquet:"pool"`
	Environment      string   `parquet:"target_env"`
	Model            string   `parquet:"model"`
	Probe            string   `parquet:"probe"`
	Kind             string   `parquet:"kind"`
	Result           string   `parquet:"result"`
	Validity         string   `parquet:"validity"`
	Verdict          string   `parquet:"verdict"`
	Fingerprint      string   `parquet:"fingerprint"`
	Engine           string   `parquet:"engine"`
	EngineVersion    string   `parquet:"engine_version"`
	Requests         int64    `parquet:"requests"`
	Completed        int64    `parquet:"completed"`
	Failed           int64    `parquet:"failed"`
	Duration         float64  `parquet:"duration_seconds"`
	TTFTMean         *float64 `parquet:"ttft_mean_seconds,optional"`
	TTFTp50          *float64 `parquet:"ttft_p50_seconds,optional"`
	TTFTp99          *float64 `parquet:"ttft_p99_seconds,optional"`
	TPOTp50          *float64 `parquet:"tpot_p50_seconds,optional"`
	TPOTp99          *float64 `parquet:"tpot_p99_seconds,optional"`
	E2Ep50           *float64 `parquet:"e2e_p50_seconds,optional"`
	E2Ep99           *float64 `parquet:"e2e_p99_seconds,optional"`
	RequestRate      *float64 `parquet:"requests_per_second,optional"`
	InputThroughput  *float64 `parquet:"input_tokens_per_second,optional"`
	OutputThroughput *float64 `parquet:"output_tokens_per_second,optional"`
	SuccessRatio     *float64 `parquet:"success_ratio,optional"`
	AcceptLength     *float64 `parquet:"spec_accept_length,optional"`
	CacheHitRatio    *float64 `parquet:"prefix_cache_hit_ratio,optional"`
	Capacity         *float64 `parquet:"capacity_requests_per_second,optional"`
}

// Runs gives one row a run.
func Runs(runs []*probes.Run) []Run {
	rows := make([]Run, len(runs))
	for i, run := range runs {
		s := &run.Summary
		stat := func(signal probes.Signal, stat probes.Statistic) *float64 {
			return known(s.Distribution(signal).Get(stat))
		}
		rows[i] = Run{
			ID: run.ID, Start: instant(run.Start), End: instant(run.End), Target: run.Target.Name, Pool: run.Target.Pool,
			Environment: string(run.Target.Environment), Model: run.Target.Model, Probe: run.Spec.Probe, Kind: string(run.Spec.Kind),
			Result: string(run.Result), Validity: string(run.Validity.State), Verdict: string(run.Verdict.State), Fingerprint: run.Fingerprint,
			Engine: run.Facts.Engine, EngineVersion: run.Facts.Version,
			Requests: int64(s.Requests), Completed: int64(s.Completed), Failed: int64(s.Failed), Duration: s.Duration.Seconds(),
			TTFTMean: stat(probes.TTFT, probes.StatMean), TTFTp50: stat(probes.TTFT, probes.StatP50), TTFTp99: stat(probes.TTFT, probes.StatP99),
			TPOTp50: stat(probes.TPOT, probes.StatP50), TPOTp99: stat(probes.TPOT, probes.StatP99),
			E2Ep50: stat(probes.E2E, probes.StatP50), E2Ep99: stat(probes.E2E, probes.StatP99),
			RequestRate: known(s.RequestThroughput), InputThroughput: known(s.InputThroughput), OutputThroughput: known(s.OutputThroughput),
			SuccessRatio: known(s.SuccessRatio), AcceptLength: known(s.AcceptLength), CacheHitRatio: known(s.CacheHitRatio()),
			Capacity: known(run.Capacity.Rate),
		}
	}
	return rows
}

// Request is a measured request as a row. Instants are seconds from the run's start.
type Request struct {
	RunID        string   `parquet:"run_id"`
	Target       string   `parquet:"target"`
	Probe        string   `parquet:"probe"`
	ID           string   `parquet:"request_id"`
	Index        int64    `parquet:"index"`
	Outcome      string   `parquet:"outcome"`
	Status       int64    `parquet:"status"`
	Due          float64  `parquet:"due_seconds"`
	Sent         *float64 `parquet:"sent_seconds,optional"`
	TTFT         *float64 `parquet:"ttft_seconds,optional"`
	TPOT         *float64 `parquet:"tpot_seconds,optional"`
	E2E          *float64 `parquet:"e2e_seconds,optional"`
	Chunks       int64    `parquet:"chunks"`
	InputTokens  *int64   `parquet:"input_tokens,optional"`
	CachedTokens *int64   `parquet:"cached_tokens,optional"`
	OutputTokens *int64   `parquet:"output_tokens,optional"`
}

// Requests gives one row for each measured request of the runs that have their records
// still, those of sweeps and their steps included.
func Requests(runs []*probes.Run) []Request {
	var rows []Request
	for _, run := range runs {
		rows = appendRequests(rows, run, run.Records)
		for i := range run.Steps {
			rows = appendRequests(rows, run, run.Steps[i].Records)
		}
	}
	return rows
}

func appendRequests(rows []Request, run *probes.Run, records []probes.Record) []Request {
	for i := range records {
		r := &records[i]
		row := Request{
			RunID: run.ID, Target: run.Target.Name, Probe: run.Spec.Probe, ID: r.ID, Index: int64(r.Index), Outcome: string(r.Outcome),
			Status: int64(r.StatusCode), Due: r.Due.Seconds(), TTFT: seconds(r.TTFT()), TPOT: seconds(r.TPOT()), E2E: seconds(r.E2E()),
			Chunks: int64(len(r.Chunks)), InputTokens: count(r.PromptTokens), CachedTokens: count(r.CachedTokens), OutputTokens: count(r.OutputTokens),
		}
		if r.Outcome != probes.Dropped {
			row.Sent = new(r.Sent.Seconds())
		}
		rows = append(rows, row)
	}
	return rows
}

func known(o probes.Optional[float64]) *float64 {
	if f, ok := o.Get(); ok {
		return &f
	}
	return nil
}

func seconds(o probes.Optional[time.Duration]) *float64 {
	if d, ok := o.Get(); ok {
		return new(d.Seconds())
	}
	return nil
}

func count(o probes.Optional[int]) *int64 {
	if n, ok := o.Get(); ok {
		return new(int64(n))
	}
	return nil
}

func instant(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// WriteParquet writes rows as a Parquet file.
func WriteParquet[T Run | Request](w io.Writer, rows []T) error {
	if err := parquet.Write(w, rows); err != nil {
		return fmt.Errorf("write parquet: %w", err)
	}
	return nil
}

// WriteCSV writes a line of column names and one line a row.
func WriteCSV[T Run | Request](w io.Writer, rows []T) error {
	out := csv.NewWriter(w)
	t := reflect.TypeFor[T]()
	line := make([]string, t.NumField())
	for i := range line {
		line[i] = column(t.Field(i).Tag.Get("parquet"))
	}
	if err := out.Write(line); err != nil {
		return fmt.Errorf("write csv: %w", err)
	}
	for i := range rows {
		v := reflect.ValueOf(&rows[i]).Elem()
		for j := range line {
			line[j] = cell(v.Field(j))
		}
		if err := out.Write(line); err != nil {
			return fmt.Errorf("write csv: %w", err)
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("write csv: %w", err)
	}
	return nil
}

func column(tag string) string {
	for i := range tag {
		if tag[i] == ',' {
			return tag[:i]
		}
	}
	return tag
}

func cell(v reflect.Value) string {
	switch {
	case v.Kind() == reflect.Pointer && v.IsNil():
		return ""
	case v.Kind() == reflect.Pointer:
		return cell(v.Elem())
	case v.CanInt():
		return strconv.FormatInt(v.Int(), 10)
	case v.CanFloat():
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	}
	return v.String()
}
