package jsonl

import (
	"cmp"
	"slices"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// details are bench_serving's arrays, one entry per measured request in request
// order, in seconds. Where that tool writes 0 for a failed request this is null.
type details struct {
	InputLens      []optional  `json:"input_lens"`
	OutputLens     []optional  `json:"output_lens"`
	TTFTs          []*number   `json:"ttfts"`
	ITLs           [][]float64 `json:"itls"`
	GeneratedTexts []string    `json:"generated_texts"`
	Errors         []string    `json:"errors"`
}

// ourDetails are further arrays in the same order, offsets from the run's start.
type ourDetails struct {
	RequestIDs []string    `json:"request_ids"`
	Outcomes   []string    `json:"outcomes"`
	Due        []number    `json:"due"`
	Planned    []*number   `json:"planned,omitempty"`  // by the trace; of replays
	Sessions   []string    `json:"sessions,omitempty"` // of the trace; of replays
	Sent       []*number   `json:"sent"`
	E2Es       []*number   `json:"e2e"`
	ChunkGaps  [][]float64 `json:"chunk_gaps"`
	Cached     []optional  `json:"cached_tokens"`

	raw
}

// inRequestOrder sorts without touching the run, which others read.
func inRequestOrder(records []probes.Record) []*probes.Record {
	out := make([]*probes.Record, len(records))
	for i := range records {
		out[i] = &records[i]
	}
	slices.SortStableFunc(out, func(a, b *probes.Record) int { return cmp.Compare(a.Index, b.Index) })
	return out
}

func newDetails(run *probes.Run) *details {
	n := len(run.Records)
	d := &details{
		InputLens: make([]optional, n), OutputLens: make([]optional, n), TTFTs: make([]*number, n),
		ITLs: make([][]float64, n), GeneratedTexts: make([]string, n), Errors: make([]string, n),
	}
	for i, r := range inRequestOrder(run.Records) {
		d.InputLens[i] = r.PromptTokens
		if !r.PromptTokens.IsKnown() && r.RequestedInput > 0 {
			d.InputLens[i] = probes.Known(r.RequestedInput)
		}
		d.OutputLens[i] = r.OutputTokens
		d.TTFTs[i] = inSeconds(r.TTFT())
		d.ITLs[i] = r.AppendITL([]float64{}) // [] and not null: notebooks concatenate them
		d.GeneratedTexts[i] = r.Text
		d.Errors[i] = r.Error
	}
	return d
}

func newOurDetails(run *probes.Run) *ourDetails {
	n := len(run.Records)
	d := &ourDetails{
		RequestIDs: make([]string, n), Outcomes: make([]string, n), Due: make([]number, n), Sent: make([]*number, n),
		E2Es: make([]*number, n), ChunkGaps: make([][]float64, n), Cached: make([]optional, n),
		raw: newRaw(run),
	}
	for i, r := range inRequestOrder(run.Records) {
		d.RequestIDs[i] = r.ID
		d.Outcomes[i] = string(r.Outcome)
		d.Due[i] = number(r.Due.Seconds())
		if run.Spec.Arrivals.Process == probes.FromTrace {
			d.Planned = append(d.Planned, inSeconds(r.Planned))
			d.Sessions = append(d.Sessions, r.Session)
		}
		if r.Outcome != probes.Dropped {
			d.Sent[i] = new(number(r.Sent.Seconds()))
		}
		d.E2Es[i] = inSeconds(r.E2E())
		d.ChunkGaps[i] = r.AppendChunkGaps([]float64{})
		d.Cached[i] = r.CachedTokens
	}
	return d
}

func inSeconds(d probes.Optional[time.Duration]) *number {
	if v, ok := d.Get(); ok {
		return new(number(v.Seconds()))
	}
	return nil
}
