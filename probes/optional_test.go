package probes

import (
	"encoding/json"
	"math"
	"testing"
	"time"
)

func TestOptionalJSON(t *testing.T) {
	for _, c := range []struct {
		value Optional[float64]
		want  string
	}{
		{Optional[float64]{}, "null"},
		{Known(0.0), "0"},
		{Known(1.5), "1.5"},
		{Known(math.Inf(1)), `"inf"`},
		{Known(math.Inf(-1)), `"-inf"`},
		{Known(math.NaN()), `"nan"`},
	} {
		got, err := json.Marshal(c.value)
		if err != nil || string(got) != c.want {
			t.Errorf("JSON of %v: got %s, %v, want %s", c.value, got, err, c.want)
		}
		var back Optional[float64]
		if err := json.Unmarshal(got, &back); err != nil {
			t.Errorf("read %s back: %v", got, err)
		}
		f, known := back.Get()
		want, wantKnown := c.value.Get()
		if known != wantKnown || f != want && !(math.IsNaN(f) && math.IsNaN(want)) {
			t.Errorf("read %s back: got %v, want %v", got, back, c.value)
		}
	}
	var d Optional[time.Duration]
	if err := json.Unmarshal([]byte("1500"), &d); err != nil || d != Known(1500*time.Nanosecond) {
		t.Errorf("read 1500 as a duration: got %v, %v", d, err)
	}
	var wrong Optional[float64]
	if err := json.Unmarshal([]byte(`"fast"`), &wrong); err == nil || wrong.IsKnown() {
		t.Errorf("read a word as a number: got %v, %v, want an error and unknown", wrong, err)
	}
}
