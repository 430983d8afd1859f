package web

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

func TestSweepShowsItsCapacity(t *testing.T) {
	p := probes.PairStatus{Kind: probes.Sweep, Result: &probes.Result{
		Summary:  probes.Summary{Requests: 900},
		Capacity: probes.Capacity{Rate: probes.Known(14.02), Low: probes.Known(12.5), Safe: probes.Known(11.2), Bracketed: true, Objective: "ttft_p99"},
	}}
	if r := newRow(&p, time.Time{}); r.Output != "14.0 req/s" || r.Samples != "900" || r.TTFTp99 != dash {
		t.Errorf("row %+v", r)
	}
	text, err := json.Marshal(newPairsJSON([]probes.PairStatus{p})[0].Result.Capacity)
	if want := `{"rate":14.02,"low":12.5,"high":null,"safe":11.2,"bracketed":true,"objective":"ttft_p99"}`; err != nil || string(text) != want {
		t.Errorf("got %s, %v, want %s", text, err, want)
	}
	p.Result.Capacity.Bracketed = false
	if r := newRow(&p, time.Time{}); r.Output != "≥ 14.0 req/s" {
		t.Errorf("a lower bound is shown as %q", r.Output)
	}
	p.Result.Capacity.Rate = probes.Optional[float64]{}
	if r := newRow(&p, time.Time{}); r.Output != dash {
		t.Errorf("no capacity is shown as %q", r.Output)
	}
	p.Kind = probes.Load
	if newPairsJSON([]probes.PairStatus{p})[0].Result.Capacity != nil {
		t.Error("a load has a capacity")
	}
}
