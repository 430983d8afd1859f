package store

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/inferbeat/inferbeat/probes"
)

// filler makes values in which every exported field is set, so that a field that the
// store forgets shows as a difference, whoever adds it to the vocabulary.
type filler struct {
	*rand.Rand
	depth int
}

func newFiller(seed uint64) *filler { return &filler{Rand: rand.New(rand.NewPCG(seed, 1))} }

func fillOne[T any](f *filler) (v T) {
	f.fill(reflect.ValueOf(&v).Elem())
	return v
}

func (f *filler) fill(v reflect.Value) {
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Unix(1_700_000_000+f.Int64N(1e8), f.Int64N(1e9)).UTC()))
		return
	case []probes.Part:
		if f.depth > 0 { // parts have no parts
			return
		}
		f.depth++
		defer func() { f.depth-- }()
	case []probes.Chunk:
		v.Set(reflect.ValueOf(f.chunks()))
		return
	}
	if isSelfCoded(v.Type()) {
		f.optional(v)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				f.fill(v.Field(i))
			}
		}
	case reflect.Slice:
		n := 1 + f.IntN(2)
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			f.fill(v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			f.fill(v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 1 + f.IntN(2) {
			key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			f.fill(key)
			f.fill(elem)
			v.SetMapIndex(key, elem)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem())
	case reflect.Interface:
		v.Set(reflect.ValueOf("free"))
	default:
		f.scalar(v)
	}
}

func (f *filler) scalar(v reflect.Value) {
	switch {
	case v.Kind() == reflect.String:
		v.SetString(fmt.Sprintf("t%d \"ü\x01", f.IntN(1000)))
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.CanInt():
		bits := v.Type().Bits()
		v.SetInt(1 + f.Int64N(1<<min(bits-2, 40)))
	case v.CanUint():
		v.SetUint(1 + f.Uint64N(1<<min(v.Type().Bits()-2, 40)))
	case v.CanFloat():
		v.SetFloat(f.float())
	default:
		panic("fill: cannot fill " + v.Type().String())
	}
}

func (f *filler) float() float64 {
	switch f.IntN(20) {
	case 0:
		return math.Inf(1)
	case 1:
		return math.Inf(-1)
	}
	return f.NormFloat64() * math.Pow(10, float64(f.IntN(20)-10))
}

func (f *filler) optional(v reflect.Value) {
	switch v.Addr().Interface().(type) {
	case *probes.Optional[int]:
		v.Set(reflect.ValueOf(probes.Known(f.IntN(1 << 30))))
	case *probes.Optional[float64]:
		v.Set(reflect.ValueOf(probes.Known(f.float())))
	case *probes.Optional[time.Duration]:
		v.Set(reflect.ValueOf(probes.Known(time.Duration(f.Int64N(1 << 40)))))
	case *probes.Optional[bool]:
		v.Set(reflect.ValueOf(probes.Known(f.IntN(2) == 0)))
	case *probes.Optional[string]:
		v.Set(reflect.ValueOf(probes.Known("known")))
	default:
		panic("fill: cannot fill " + v.Type().String())
	}
}

func (f *filler) chunks() []probes.Chunk {
	chunks := make([]probes.Chunk, f.IntN(6))
	at := time.Duration(f.Int64N(1e9))
	tokens := int32(f.IntN(3))
	for i := range chunks {
		if f.IntN(3) == 0 {
			tokens = int32(f.IntN(9))
		}
		at += time.Duration(f.Int64N(1e8))
		chunks[i] = probes.Chunk{At: at, Tokens: tokens}
	}
	return chunks
}

// storable is what may come back of a run: everything but what must not be kept.
func storable(run *probes.Run) *probes.Run {
	out := *run
	out.Target, out.Spec = plainTarget(run.Target), plainSpec(run.Spec)
	withoutText := func(records []probes.Record) []probes.Record {
		records = append([]probes.Record(nil), records...)
		for i := range records {
			records[i].Text = ""
		}
		return records
	}
	out.Records, out.Warmup = withoutText(run.Records), withoutText(run.Warmup)
	out.Steps = append([]probes.Step(nil), run.Steps...)
	for i := range out.Steps {
		out.Steps[i].Records, out.Steps[i].Warmup = withoutText(out.Steps[i].Records), withoutText(out.Steps[i].Warmup)
	}
	out.Parts = append([]probes.Part(nil), run.Parts...)
	for i := range out.Parts {
		out.Parts[i].Run = storable(out.Parts[i].Run)
	}
	if run.Comparison != nil {
		comparison := *run.Comparison
		comparison.Reference = plainTarget(comparison.Reference)
		out.Comparison = &comparison
	}
	return &out
}

var equate = cmp.Options{cmpopts.EquateEmpty(), cmpopts.EquateNaNs()}
