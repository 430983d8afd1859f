package daemon

import (
	"strings"
	"testing"
	"time"

	"github.com/inferbeat/inferbeat/probes/fakellm"
)

// fleet are simulated engines by their addresses.
type fleet struct {
	*network
	engines map[string]*fakellm.Engine
}

// fleetOf serves replicas that are alike but for their dialect and what they draw.
func fleetOf(t *testing.T, kinds ...string) fleet {
	t.Helper()
	f := fleet{newNetwork(t), map[string]*fakellm.Engine{}}
	for i, kind := range kinds {
		engine, err := fakellm.New(fakellm.Config{
			Model: "m", Engine: kind, MaxBatch: 32, Jitter: 0.1, MeanOutputTokens: 1_000_000, Seed: int64(i),
			PrefillBase: 30 * time.Millisecond, DecodeBase: 10 * time.Millisecond, DecodePerSequence: 200 * time.Microsecond,
		})
		if err != nil {
			t.Fatal(err)
		}
		f.engines[strings.TrimPrefix(f.Serve(engine.Handler()), "http://")] = engine
	}
	return f
}

// fall gives a replica faults, or stops it where there are none.
func (f fleet) fall(address string, faults []fakellm.Fault) {
	f.t.Helper()
	err := f.engines[address].SetFaults(faults...)
	if len(faults) == 0 {
		err = f.Stop("http://" + address)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}
