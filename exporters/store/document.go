package store

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/inferbeat/inferbeat/probes"
)

// A stored run is in three pieces: documents that many runs have in common (its
// target, its spec, what its server said about itself), which are stored once, a body
// with everything else, and the samples.

// plainTarget is a target as it is stored: all that tells it apart, nothing that opens
// it. Its secrets are left out by their type; what remains are the places where people
// write them although they should not.
func plainTarget(t probes.Target) probes.Target {
	t.BaseURL = probes.PlainURL(t.BaseURL)
	t.MetricsURL = probes.PlainURL(t.MetricsURL)
	t.Connection.Proxy = probes.PlainURL(t.Connection.Proxy)
	t.Connection.APIKey, t.Connection.APIKeyFile, t.Connection.Headers = "", "", nil
	return t
}

// plainSpec is a spec as it is stored: without the pinned question, and without the URL
// of the data and what is merged over request bodies, which may hold keys.
func plainSpec(s probes.Spec) probes.Spec {
	s.Expect = probes.Expect{}
	s.Workload.URL, s.Workload.Sampling.ExtraBody = "", nil
	return s
}

// pieces are a run taken apart.
type pieces struct {
	target, spec, facts []byte
	body                []byte
	records             []group
}

// takeApart makes the pieces of a run, which it does not change.
func takeApart(run *probes.Run) (p pieces, err error) {
	p.records = groups(run)
	bare := strip(run)
	for _, doc := range []struct {
		to   *[]byte
		from any
	}{{&p.target, bare.Target}, {&p.spec, bare.Spec}, {&p.facts, bare.Facts}} {
		if *doc.to, err = marshal(doc.from); err != nil {
			return pieces{}, err
		}
	}
	bare.Target, bare.Spec, bare.Facts = probes.Target{}, probes.Spec{}, probes.ServerFacts{}
	p.body, err = marshal(bare)
	return p, err
}

// Bare is a run as the store keeps it, without its records.
func Bare(run *probes.Run) *probes.Run { return new(strip(run)) }

// Encode writes any value of the vocabulary as the store writes runs: zero values and
// secrets left out, and deflated. It is for states.
func (s *Store) Encode(v any) ([]byte, error) {
	text, err := marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return s.packer.pack(text, true)
}

// Decode reads what Encode wrote into what v points to.
func Decode(b []byte, v any) error {
	text, err := unpack(b)
	if err == nil {
		err = unmarshal(text, v)
	}
	if err != nil {
		return fmt.Errorf("decode %T: %w", v, err)
	}
	return nil
}

// Digest is equal for specs that are equal but for what is not stored.
func Digest(spec probes.Spec) (string, error) {
	text, err := marshal(plainSpec(spec))
	if err != nil {
		return "", fmt.Errorf("digest of spec %s: %w", spec.Probe, err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16]), nil
}

// strip copies a run without its records, without those of its steps and parts, and
// without what may not be stored.
func strip(run *probes.Run) probes.Run {
	bare := *run
	bare.Records, bare.Warmup = nil, nil
	bare.Target, bare.Spec = plainTarget(run.Target), plainSpec(run.Spec)
	bare.Steps = slices.Clone(run.Steps)
	for i := range bare.Steps {
		bare.Steps[i].Records, bare.Steps[i].Warmup = nil, nil
	}
	bare.Parts = slices.Clone(run.Parts)
	for i, part := range bare.Parts {
		part := strip(part.Run)
		bare.Parts[i].Run = &part
	}
	if run.Comparison != nil {
		comparison := *run.Comparison
		comparison.Reference = plainTarget(comparison.Reference)
		bare.Comparison = &comparison
	}
	return bare
}

// group is one list of records of a run: its own, its warm-up's, or one of a step or a
// part, and the id that the ids of its records begin with.
type group struct {
	records *[]probes.Record
	runID   string
}

// groups lists every list of records of a run, always in the same order.
func groups(run *probes.Run) []group {
	out := []group{{&run.Records, run.ID}, {&run.Warmup, run.ID}}
	for i := range run.Steps {
		out = append(out, group{&run.Steps[i].Records, run.ID}, group{&run.Steps[i].Warmup, run.ID})
	}
	for _, part := range run.Parts {
		out = append(out, groups(part.Run)...)
	}
	return out
}
