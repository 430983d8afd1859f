package boards

import (
	"fmt"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/bargauge"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/statetimeline"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
	"github.com/grafana/grafana-foundation-sdk/go/units"

	"github.com/inferbeat/inferbeat/exporters/catalog"
)

const tokensPerSecond = "suffix: tok/s"

const noResult = "No valid result yet, or it is older than stale_after."

// target is the drill-down: requests first, then the exact results against their
// limits, then the inside of the server.
func target() *builderV1 {
	v := pairVars
	b := withWindow(withPairsBut(catalog.LabelTarget, frame(uidTarget, "Target", "What does this replica do, and can the numbers be believed?", "now-6h")))
	b = b.WithRow(dashboard.NewRowBuilder("Verdict"))
	for _, n := range targetNumbers(v) {
		b = b.WithPanel(n)
	}
	b = b.WithPanel(againstLimits(v)).
		WithPanel(timeSeries("Samples behind the numbers", about{
			asks: "How many observations stand behind each statistic?",
			good: "100 or more; below that a p99 is little more than the largest value.",
			act:  "Few samples: believe the median, ask for more requests.",
			none: noResult,
		}, units.Short, line(minBy("target, probe", v.of(catalog.ResultSamples, is("signal", "ttft"))), "{{target}} {{probe}}")).
			Thresholds(steps(orange, step{100, green})).
			ThresholdsStyle(common.NewGraphThresholdsStyleConfigBuilder().Mode(common.GraphThresholdsStyleModeDashed)))
	b = b.WithPanel(breaches(v))
	b = targetRequests(b.WithRow(dashboard.NewRowBuilder("Requests")), v)
	b = targetLatency(b.WithRow(dashboard.NewRowBuilder("Latency")), v)
	b = targetThroughput(b.WithRow(dashboard.NewRowBuilder("Throughput and workload")), v)
	b = targetServer(b.WithRow(dashboard.NewRowBuilder("Inside the server, while it was probed (other traffic included)")), v)
	return targetTrust(b.WithRow(dashboard.NewRowBuilder("Facts, and trust")), v)
}

func targetNumbers(v vars) []*statBuilder {
	last := func(title, asks, good, act, unit, expr string) *statBuilder {
		return number(title, about{asks: asks, good: good, act: act, none: noResult}, unit, line(expr, "")).DataLinks(links(runLink()))
	}
	return []*statBuilder{
		last("Success", "Which share of requests was answered in full?", "100 %.",
			"Errors by class below say what broke.", units.PercentUnit, "min("+v.of(catalog.ResultSuccess)+")").
			Thresholds(steps(red, step{0.9, orange}, step{0.99, green})),
		last("TTFT p99", "How long do the unlucky wait for their first token?", "Below its limit, see beside.",
			"The heat map tells a slow tail from a slow everything.", units.Seconds, "max("+v.latency("ttft", "p99")+")"),
		last("TTFT mean", "How long is the usual wait?", "A third of the p99 or more.",
			"A mean far below the p99 is a tail problem: queueing or cache misses.", units.Seconds, "max("+v.latency("ttft", "mean")+")"),
		last("TPOT p50", "How fast does the text flow?", "Below 50 ms a reader does not outrun it.",
			"Slow for all: the batch is full, or the build is slower.", units.Seconds, "max("+v.latency("tpot", "p50")+")"),
		last("Tail ratio", "How much worse than the mean is the p99 TTFT?", "Below 4.",
			"From 5 on a few requests wait behind something: long prompts, preemption, a stalling replica.", "suffix:x",
			"max("+v.of(catalog.ResultTailRatio, is("signal", "ttft"))+")").Thresholds(steps(green, step{4, orange}, step{5, red})),
		last("Output tokens", "What throughput did the last result have?", "As last night.",
			"Compare with offered and achieved rates below.", tokensPerSecond, "sum("+maxBy("target, probe", v.of(catalog.ResultOutputTokensPerSecond))+")"),
		number("Accept length", about{asks: "How many tokens does a speculative step bring?", good: "As last week; it moves with the workload.",
			act:  "A drop slows decoding with no other sign: draft model, sampling or prompts changed.",
			none: "No speculative decoding, or the engine does not tell it."},
			units.Short, line("min("+v.of(catalog.ResultAcceptLength)+")", "")).Decimals(2),
		number("Prefix cache hits", about{asks: "Which share of the prompt came from the cache?", good: "Near 0 for a cold workload, as designed for a warm one.",
			act:  "Hits in a cold workload make TTFT look better than it is.",
			none: "The engine does not tell its cache hits."},
			units.PercentUnit, line("max("+v.of(catalog.ResultPrefixCacheHit)+")", "")),
	}
}

// againstLimits shows each result as a share of the limit that the configuration
// gives it, so that one look suffices whatever the limits are.
func againstLimits(v vars) *bargauge.PanelBuilder {
	const labels = "target, probe, signal, stat"
	q := line(fmt.Sprintf("%s / on (%s) %s", maxBy(labels, v.of(catalog.ResultLatency)), labels, minBy(labels, v.of(catalog.LatencyThreshold))),
		"{{target}} {{probe}} {{signal}} {{stat}}")
	a := about{
		asks: "How near is each result to its limit?",
		good: "Below 80 %.",
		act:  "Above 100 % an alert is due; the latency panels show since when.",
		none: "The probes of this selection have no limits.",
	}
	return gauges("Results as a share of their limits", a, units.PercentUnit, q).Min(0).Max(1.5).
		Thresholds(steps(green, step{0.8, orange}, step{1, red})).DataLinks(links(runLink()))
}

func targetRequests(b *builderV1, v vars) *builderV1 {
	return b.WithPanel(bars("Requests by outcome", about{
		asks: "How many requests ended how?",
		good: "All green.",
		act:  "Errors: see their classes. Dropped: the prober could not send them in time, see prober health.",
		none: "No request ended in the window.",
	}, units.Short, line(sumBy("outcome", increase(v.of(catalog.Requests))), "{{outcome}}")).
		OverrideByName("success", fixed(green)).OverrideByName("error", fixed(red)).
		OverrideByName("dropped", fixed(orange)).OverrideByName("cancelled", fixed("purple"))).
		WithPanel(bars("Errors by class", about{
			asks: "Why did requests fail?",
			good: "Nothing to see.",
			act:  "http_429 and http_5xx: the server sheds load. truncated and stream_error: it breaks off. timeouts: it hangs. connect and dns: the way to it.",
			none: "No request failed in the window.",
		}, units.Short, line(sumBy("target, class", increase(v.of(catalog.RequestErrors)))+" > 0", "{{target}} {{class}}"))).
		WithPanel(timeSeries("Success ratio", about{
			asks: "Since when, and how much?",
			good: "A line at 100 %.",
			act:  "A step is a crash or a deploy (see the marks); a slope is overload.",
			none: "No request ended in the window.",
		}, units.PercentUnit, line(v.successRatio("target, probe"), "{{target}} {{probe}}")).Max(1).AxisSoftMin(0.9).DataLinks(links(runLink()))).
		WithPanel(timeSeries("In flight", about{
			asks: "How many requests are out now?",
			good: "At most what the environment's limits allow.",
			act:  "A plateau at the limit: the offered rate is more than the target can take.",
		}, units.Short, line(maxBy("target, probe", v.of(catalog.RequestsInFlight)), "{{target}} {{probe}}")))
}

// signal is one latency as a histogram and as an exact result.
type signal struct{ name, title, label, asks string }

func targetLatency(b *builderV1, v vars) *builderV1 {
	for _, s := range []signal{
		{catalog.TimeToFirstToken, "TTFT", "ttft", "How long until the first token?"},
		{catalog.TimePerOutputToken, "TPOT", "tpot", "How long does each further token take, on average in a request?"},
		{catalog.InterTokenLatency, "ITL", "itl", "How long are the gaps between tokens?"},
		{catalog.RequestDuration, "E2E", "e2e", "How long does a whole answer take?"},
	} {
		b = b.WithPanel(latencyPanel(v, s))
	}
	return b.WithPanel(heat("Distribution of TTFT", about{
		asks: "Is everything slow, or only some of it?",
		good: "One narrow band.",
		act:  "Two bands are two populations: cache hits and misses, short and long prompts, a good and a sick replica.",
		none: "No request ended in the window.",
	}, units.Seconds, v, catalog.TimeToFirstToken)).
		WithPanel(timeSeries("Tail ratio of TTFT", about{
			asks: "Is the tail growing away from the mean?",
			good: "Below the dashed limits.",
			act:  "A growing ratio with a quiet mean: queueing, preemption, or one slow replica behind a router.",
			none: noResult,
		}, "suffix:x", line(maxBy("target, probe", v.of(catalog.ResultTailRatio, is("signal", "ttft"))), "{{target}} {{probe}}"),
			line(minBy("severity", v.of(catalog.TailRatioThreshold, is("signal", "ttft"))), limitLegend+" {{severity}}")).
			Height(9).DataLinks(links(runLink())))
}

func latencyPanel(v vars, s signal) *timeseries.PanelBuilder {
	quantile := func(q float64, name string) query {
		return query{expr: v.quantile(q, "target", s.name), legend: name + " {{target}}", exemplars: q == 0.99}
	}
	return timeSeries(s.title, about{
		asks: s.asks,
		good: "Flat, below the dashed limit. Points are exact results, lines come from histograms.",
		act:  "p99 up, p50 quiet: queueing or a sick part. Both up: load or a slower build. Click a point for its run.",
		none: "No request ended in the window, or the engine does not tell the tokens of a chunk.",
	}, units.Seconds, quantile(0.5, "p50"), quantile(0.9, "p90"), quantile(0.99, "p99"),
		line(maxBy("target, probe", v.latency(s.label, "p99")), "exact p99 {{target}} {{probe}}"),
		line(minBy("severity", v.of(catalog.LatencyThreshold, is("signal", s.label), is("stat", "p99"))), limitLegend+" p99 {{severity}}")).
		OverrideByRegexp("/^exact .*/", []dashboard.DynamicConfigValue{
			property("custom.drawStyle", "points"), property("custom.showPoints", "always"), property("custom.pointSize", 5),
		}).Height(9).DataLinks(links(runLink()))
}

func targetThroughput(b *builderV1, v vars) *builderV1 {
	result := func(name string) string { return maxBy("target, probe", v.of(name)) }
	return b.WithPanel(timeSeries("Request rate of results", about{
		asks: "Did the target keep up with what it was asked?",
		good: "Completed equals offered; goodput, what also met the objectives, equals both.",
		act:  "Completed below offered: it is saturated. Achieved below offered: the prober was, and the result says so.",
		none: noResult,
	}, units.RequestsPerSecond,
		line(result(catalog.ResultRequestsPerSecond), "completed {{target}} {{probe}}"),
		line(result(catalog.ResultGoodputRequestsPerSecond), "goodput {{target}} {{probe}}"),
		line(result(catalog.ResultAchievedRequestsPerSecond), "achieved {{target}} {{probe}}"),
		line(result(catalog.ResultOfferedRequestsPerSecond)+" < Inf", "offered {{target}} {{probe}}")).
		OverrideByRegexp("/^offered .*/", []dashboard.DynamicConfigValue{
			property("custom.lineStyle", map[string]any{"fill": "dash", "dash": []int{8, 6}}), property("custom.fillOpacity", 0),
		})).
		WithPanel(timeSeries("Token rates", about{
			asks: "How many tokens a second go in and come out, now?",
			good: "Steady: the probes ask for the same every time.",
			act:  "Output falling with steady input: answers are shorter or cut, see the workload check.",
			none: "No request ended in the window.",
		}, tokensPerSecond, line(sumBy("target", rate(v.of(catalog.OutputTokens))), "out {{target}}"),
			line(sumBy("target", rate(v.of(catalog.InputTokens))), "in {{target}}"),
			line(sumBy("target", rate(v.of(catalog.CachedInputTokens))), "in, cached {{target}}"))).
		WithPanel(timeSeries("Workload check", about{
			asks: "Was the server asked what we meant to ask?",
			good: "Input and output tokens as configured; output of 100 or more.",
			act:  "Short outputs make TPOT meaningless; the server may stop early or cut answers.",
			none: noResult,
		}, "suffix: tok", line(result(catalog.ResultInputTokensMean), "in {{target}} {{probe}}"), line(result(catalog.ResultOutputTokensMean), "out {{target}} {{probe}}")).Span(8)).
		WithPanel(timeSeries("Concurrency", about{
			asks: "How many requests were in flight in each result?",
			good: "As planned: rate times duration.",
			act:  "Growing from run to run at a constant rate means the target falls behind.",
			none: noResult,
		}, units.Short, line(result(catalog.ResultConcurrency), "mean {{target}} {{probe}}"), line(result(catalog.ResultMaxConcurrentRequests), "max {{target}} {{probe}}")).Span(8)).
		WithPanel(timeSeries("Text against token count", about{
			asks: "Do the answers' texts hold as many tokens as the server counts?",
			good: "Near 100 %.",
			act:  "Far away: garbled text, or another tokenizer than the model's.",
			none: "The workload has no tokenizer of its own to count with.",
		}, units.PercentUnit, line(result(catalog.ResultRetokenized), "{{target}} {{probe}}")).Span(8))
}

func targetServer(b *builderV1, v vars) *builderV1 {
	const silent = "The engine's own metrics are not read, or it does not tell this."
	third := func(title, asks, good, act, unit string, queries ...query) *timeseries.PanelBuilder {
		return timeSeries(title, about{asks: asks, good: good, act: act, none: silent}, unit, queries...).Span(8)
	}
	stat := func(name, which string) query {
		return line(maxBy("target, probe", v.of(name, is(catalog.LabelStat, which))), which+" {{target}} {{probe}}")
	}
	plain := func(name, prefix string) query {
		return line(maxBy("target, probe", v.of(name)), strings.TrimSpace(prefix+" {{target}} {{probe}}"))
	}
	return b.
		WithPanel(timeSeries("Requests of all clients, and of inferbeat", about{
			asks: "Is the target slow because somebody else uses it?",
			good: "The traffic of this hour of the day; inferbeat a small part of it.",
			act:  "A rise with slower results: load, not a fault. None but inferbeat's on a production target: its router has taken it out.",
			none: "The engine does not count its requests, or its metrics are not read.",
		}, units.RequestsPerSecond, line(maxBy("target", v.of(catalog.ServerRequests)), "all clients {{target}}"),
			line(ownRequests(v), "inferbeat {{target}}")).Span(24).Height(7)).
		WithPanel(third("Waiting in the server", "Do requests queue before they are worked on?", "Near 0.",
			"10 or more: TTFT is queueing time; add replicas or shed load.", units.Short, stat(catalog.ResultServerQueue, "mean"), stat(catalog.ResultServerQueue, "max"),
			line(minBy("severity", v.of(catalog.QueueThreshold)), limitLegend+" {{severity}}"))).
		WithPanel(third("Running in the server", "How full is the batch?", "Below the engine's largest batch.",
			"At the top, with a queue: saturated. Low, with a queue: KV cache is the bottleneck.", units.Short, stat(catalog.ResultServerRunning, "mean"), stat(catalog.ResultServerRunning, "max"))).
		WithPanel(third("KV cache in use", "Is there memory for one more sequence?", "Below 90 %.",
			"Near 100 % sequences are preempted: lower concurrency, or shorter contexts.", units.PercentUnit, stat(catalog.ResultServerKVCacheUsage, "mean"), stat(catalog.ResultServerKVCacheUsage, "max")).Max(1)).
		WithPanel(third("Client's TTFT above the server's", "Does the time get lost before the engine?", "A few milliseconds.",
			"More: connection, network, router or the engine's front end, not the engine.", units.Seconds, plain(catalog.ResultClientTTFTExcess, ""))).
		WithPanel(third("Speculative decoding", "Do drafts pay?", "As last week.",
			"A falling accept length slows decoding with no other sign.", units.Short, plain(catalog.ResultAcceptLength, "accept length"))).
		WithPanel(third("Prefix cache hits over time", "Which share of the prompts was in the cache?", "Near 0 for a cold workload.",
			"Unexpected hits make the measurement too good; unexpected misses make the service slow.", units.PercentUnit, plain(catalog.ResultPrefixCacheHit, "")).Max(1))
}

func targetTrust(b *builderV1, v vars) *builderV1 {
	return b.WithPanel(facts(v)).
		WithPanel(states("Results to doubt", about{
			asks: "Which results are only shown with reasons to doubt them?",
			good: "Trusted.",
			act:  "The run's page lists the reasons: too few samples, short outputs, a late client, a restarted server.",
			none: noResult,
		}, valueNames(value{0, "trusted", green}, value{1, "suspect", orange}),
			line(maxBy("target, probe", v.of(catalog.ResultSuspect)), "{{target}} {{probe}}")).Span(12).DataLinks(links(runLink()))).
		WithPanel(timeSeries("Age of the last result", about{
			asks: "Is this now, or yesterday?",
			good: "A saw tooth as high as the probe's interval.",
			act:  "A line that only rises: runs fail, are invalid or are skipped.",
			none: noResult,
		}, units.Seconds, line(v.age("target, probe"), "{{target}} {{probe}}")).Height(7))
}

func facts(v vars) *table.PanelBuilder {
	const labels = "target, pool, target_env, model, backend, engine, engine_version, quantization, tensor_parallel, attention_backend, speculative_algorithm, accelerator"
	return columns(rows("Facts", about{
		asks: "What runs there?",
		good: "The same build on all replicas of a pool.",
		act:  "A replica with other facts explains a replica with other numbers.",
	}, units.Short, line(maxBy(labels, v.of(catalog.TargetInfo)), "")),
		column{field: "target", heading: "Target"}, column{field: "pool", heading: "Pool"}, column{field: "target_env", heading: "Environment", width: 120},
		column{field: "model", heading: "Model"}, column{field: "backend", heading: "Backend"}, column{field: "engine", heading: "Engine", width: 90},
		column{field: "engine_version", heading: "Version", width: 110}, column{field: "quantization", heading: "Quantisation", width: 120},
		column{field: "tensor_parallel", heading: "TP", width: 60}, column{field: "attention_backend", heading: "Attention", width: 110},
		column{field: "speculative_algorithm", heading: "Speculation", width: 120}, column{field: "accelerator", heading: "Accelerator", width: 120},
	).Height(6)
}

func fixed(color string) []dashboard.DynamicConfigValue {
	return []dashboard.DynamicConfigValue{property("color", map[string]any{"mode": "fixed", "fixedColor": color})}
}

// breaches say whether a limit is broken once or again and again.
func breaches(v vars) *statetimeline.PanelBuilder {
	return states("Results in a row above a limit", about{
		asks: "Is it one bad result, or do they all break the limit?",
		good: "No band: only limits that are broken have one.",
		act:  "One may be noise; from two on it is not, and a critical limit pages.",
		none: "No result of this selection is above a limit.",
	}, valueNames(value{1, "one", orange}, value{2, "two or more", red}),
		line("clamp_max("+maxBy("target, probe, signal, stat, severity", v.of(catalog.BreachRuns))+" > 0, 2)", "{{target}} {{probe}} {{signal}} {{stat}} {{severity}}")).
		Thresholds(steps(orange, step{2, red})).DataLinks(links(runLink()))
}
