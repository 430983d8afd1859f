package prom

import (
	"cmp"
	"strconv"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/inferbeat/inferbeat/exporters/catalog"
	"github.com/inferbeat/inferbeat/probes"
)

// levelStats are the statistics of a gauge of the server.
var levelStats = []probes.Statistic{probes.StatMean, probes.StatMax}

// addServer adds what the server says about the time of a result.
func (e *Exporter) addServer(b *builder, s *probes.Summary, ids []*dto.LabelPair) {
	server := &s.Server
	if s.AcceptSource != probes.AcceptLifetime {
		// An average since the server's start hides what happened in this run.
		b.gauge(catalog.ResultAcceptLength, ids, orNaN(s.AcceptLength))
	}
	b.gauge(catalog.ResultAcceptanceRatio, ids, orNaN(server.AcceptanceRatio))
	b.gauge(catalog.ResultPrefixCacheHit, ids, orNaN(s.CacheHitRatio()))
	for _, level := range []struct {
		name string
		probes.Level
	}{
		{catalog.ResultServerQueue, server.Queue},
		{catalog.ResultServerRunning, server.Running},
		{catalog.ResultServerKVCacheUsage, server.KVUsage},
	} {
		if level.N == 0 {
			continue
		}
		b.gauge(level.name, ids, level.Mean, e.enum(catalog.LabelStat, string(probes.StatMean)))
		b.gauge(level.name, ids, level.Max, e.enum(catalog.LabelStat, string(probes.StatMax)))
	}
	if n, ok := server.Preemptions.Get(); ok {
		b.gauge(catalog.ResultServerPreemptions, ids, float64(n))
	}
	if server.TTFT.N > 0 {
		b.gauge(catalog.ResultServerTTFT, ids, server.TTFT.Mean)
	}
	if server.TPOT.N > 0 {
		b.gauge(catalog.ResultServerTPOT, ids, server.TPOT.Mean)
	}
	b.gauge(catalog.ResultClientTTFTExcess, ids, orNaN(s.TTFTExcess()))
	b.gauge(catalog.ResultOfflineGap, ids, orNaN(s.Offline.Gap))
}

// latestFacts are the facts of each target as its last run read them.
func latestFacts(statuses []probes.PairStatus) map[string]*probes.ServerFacts {
	facts, read := map[string]*probes.ServerFacts{}, map[string]time.Time{}
	for i := range statuses {
		last, target := statuses[i].Last, statuses[i].Pair.Target
		if last != nil && last.Facts.Known() && !last.End.Before(read[target]) {
			facts[target], read[target] = &last.Facts, last.End
		}
	}
	return facts
}

// serverFacts are the facts that are labels of inferbeat_target_info. What the
// server does not say may stand among the target's own labels.
func serverFacts(f *probes.ServerFacts, own map[string]string) []*dto.LabelPair {
	if f == nil {
		f = &probes.ServerFacts{}
	}
	fact := func(name, value string) *dto.LabelPair { return label(name, cmp.Or(value, own[name])) }
	return []*dto.LabelPair{
		fact("engine", f.Engine), fact("engine_version", f.Version), fact("quantization", f.Quantization), fact("dtype", f.DType),
		fact("tensor_parallel", optionalText(f.TensorParallel)), fact("data_parallel", optionalText(f.DataParallel)),
		fact("attention_backend", f.AttentionBackend), fact("speculative_algorithm", f.SpeculativeAlgorithm),
		fact("accelerator", f.Accelerator),
	}
}

func optionalText(n probes.Optional[int]) string {
	if v, ok := n.Get(); ok {
		return strconv.Itoa(v)
	}
	return ""
}
