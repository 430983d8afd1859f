package cli

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/inferbeat/inferbeat/daemon"
	"github.com/inferbeat/inferbeat/exporters/jsonl"
	"github.com/inferbeat/inferbeat/probes"
)

func (o *runFlags) defineShard(f *pflag.FlagSet) {
	f.StringVar(&o.shard, "shard", "", "`i/n`: send only the requests i, i+n, i+2n ... of the load, counted from 0, each at its own time")
	f.StringVar(&o.startAt, "start-at", "", "`time` at which the load of all shards starts, in RFC 3339 as in 2026-01-02T15:04:05Z, or +duration from now as in +90s")
}

// split makes the spec that of one shard.
func (o *runFlags) split(m *mistakes, spec *probes.Spec) {
	switch {
	case o.shard == "" && o.startAt == "":
		return
	case o.shard == "":
		m.add("start-at", "has no effect without --shard")
		return
	case o.startAt == "":
		m.add("shard", "needs --start-at, the time at which all shards start")
		return
	}
	shard, ok := parseShard(o.shard)
	if !ok {
		m.add("shard", "%q is not of the form i/n, with i from 0 to n-1", o.shard)
		return
	}
	now := time.Now()
	if shard.Start, ok = parseStart(o.startAt, now); !ok {
		m.add("start-at", "%q is neither a time as in 2026-01-02T15:04:05Z nor a duration from now as in +90s", o.startAt)
		return
	}
	if !shard.Start.After(now) {
		m.add("start-at", "%s is over", o.startAt)
	}
	if !o.outputDetails || o.outputFile == "" || o.format != jsonl.FormatSGLang {
		m.add("shard", "needs --output-file and --output-details, from which 'inferbeat merge' makes the result, in --format %s", jsonl.FormatSGLang)
	}
	spec.Shard = shard
	if len(*m) == 0 { // else the spec may be half made
		m.addFields(daemon.CheckShard(*spec))
	}
}

// parseShard reads i/n.
func parseShard(text string) (s probes.Shard, ok bool) {
	index, of, ok := strings.Cut(text, "/")
	if !ok {
		return s, false
	}
	i, err := strconv.Atoi(index)
	if err != nil {
		return s, false
	}
	n, err := strconv.Atoi(of)
	if err != nil || n < 1 || i < 0 || i >= n {
		return s, false
	}
	return probes.Shard{Index: i, Of: n}, true
}

// parseStart reads a time, or a duration from now. The result is in UTC, as it is
// written down.
func parseStart(text string, now time.Time) (time.Time, bool) {
	if after, ok := strings.CutPrefix(text, "+"); ok {
		d, err := time.ParseDuration(after)
		return now.Add(d).Round(0).UTC(), err == nil && d >= 0
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	return at.UTC(), err == nil
}
