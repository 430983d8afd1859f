package regression

import (
	"encoding/csv"
	"encoding/json"
	"math"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

// normal are the settings that the reference vectors were made with.
func normal(direction int) Settings {
	return Settings{Direction: direction, Threshold: 4, MinEffect: 0.03, Prior: 0.05, Floor: 0.005}
}

var firstNight = time.Date(2026, 1, 1, 2, 0, 0, 0, time.UTC)

// nightly are values of one night after the other.
func nightly(values []float64) []Night {
	nights := make([]Night, len(values))
	for i, v := range values {
		nights[i] = Night{At: firstNight.AddDate(0, 0, i), Value: v, Runs: 1}
	}
	return nights
}

type vectorEvent struct {
	Night int
	Kind  string
	At    int
	Pct   *float64
	Lo    *float64
	Hi    *float64
	Score *float64
}

type vector struct {
	Name       string
	Direction  int
	Params     struct{ Me, S0 *float64 }
	AutoAccept *int `json:"auto_accept"`
	Values     []float64
	Events     []vectorEvent
	Scan       []*struct {
		Score, B, S, Infl, Eff float64
		K, N                   int
	}
}

func vectors(t *testing.T) []vector {
	t.Helper()
	text, err := os.ReadFile("testdata/regress_vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []vector }
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	return file.Cases
}

// rounded is the digits that the vectors were written with.
func rounded(o probes.Optional[float64], scale float64) *float64 {
	v, ok := o.Get()
	if !ok {
		return nil
	}
	v = math.Round(v*scale*1e4) / 1e4
	return &v
}

func TestReferenceVectors(t *testing.T) {
	cases := vectors(t)
	if len(cases) != 11 {
		t.Fatalf("got %d vectors, want 11", len(cases))
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			settings := normal(c.Direction)
			if c.Params.Me != nil {
				settings.MinEffect = *c.Params.Me
			}
			if c.Params.S0 != nil {
				settings.Prior = *c.Params.S0
			}
			if c.AutoAccept != nil {
				settings.AutoAccept = *c.AutoAccept
			}
			got := []vectorEvent{}
			for _, e := range Detect(nightly(c.Values), settings, Nightly, nil).Events {
				got = append(got, vectorEvent{e.Night, string(e.Kind), e.Since, rounded(e.Change, 100), rounded(e.Low, 100), rounded(e.High, 100), rounded(e.Score, 1)})
			}
			if diff := cmp.Diff(c.Events, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			s := newScanner(settings, Nightly)
			for i, want := range c.Scan {
				y := make([]float64, i+1)
				for j := range y {
					y[j] = float64(c.Direction) * math.Log(c.Values[j])
				}
				got, ok := s.scan(y)
				if ok != (want != nil) {
					t.Fatalf("scan of %d nights: known = %v, want %v", i+1, ok, want != nil)
				}
				if !ok {
					continue
				}
				six := func(x float64) float64 { // as the vectors' writer rounded
					r, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'f', 6, 64), 64)
					return r
				}
				if six(got.score) != want.Score || got.k != want.K || six(got.base.center) != want.B || six(got.base.sigma) != want.S ||
					got.base.n != want.N || six(got.inflow) != want.Infl || six(got.shift) != want.Eff {
					t.Errorf("scan of %d nights = %+v, want %+v", i+1, got, *want)
				}
			}
		})
	}
}

// TestTigerBeetle is a series of a real benchmark, higher is better. The two big steps
// (15, 71) are those that its owners' own tests name.
func TestTigerBeetle(t *testing.T) {
	file, err := os.Open("testdata/otava_tigerbeetle.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var values []float64
	for _, row := range rows[1:] {
		v, err := strconv.ParseFloat(row[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, v)
	}
	settings := Settings{Direction: -1, Threshold: 4, MinEffect: 0.01, Prior: 0.02, Floor: 0.005, AutoAccept: 14}
	type step struct {
		Kind         EventKind
		Night, Since int
		Percent      float64
	}
	want := []step{
		{Regressed, 16, 15, -12.2444},
		{Accepted, 30, 15, 0},
		{Improved, 63, 61, 3.0866},
		{Improved, 75, 71, 15.7169},
		{Regressed, 99, 95, -4.3987},
		{Accepted, 113, 95, 0},
		{Improved, 139, 131, 3.4965},
		{Improved, 199, 194, 2.4669},
	}
	var got []step
	for _, e := range Detect(nightly(values), settings, Nightly, nil).Events {
		got = append(got, step{e.Kind, e.Night, e.Since, math.Round(e.Change.Or(0)*1e6) / 1e4})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
