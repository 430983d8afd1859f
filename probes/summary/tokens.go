package summary

import (
	"math"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// countInput adds up the prompts of completed requests. The server's count wins
// over the dataset's: it is what was prefilled.
func countInput(s *probes.Summary, in Input) {
	var tokens, cached, pictures int
	var cachedKnown, pictured bool
	var source probes.TokenSource
	for i := range in.Records {
		r := &in.Records[i]
		if r.Outcome != probes.OK {
			continue
		}
		if n, ok := r.PromptTokens.Get(); ok {
			tokens += n
			source = lessTrusted(source, probes.TokensServer)
			if r.Images > 0 {
				pictures += max(0, n-r.RequestedInput)
				pictured = true
			}
		} else {
			tokens += r.RequestedInput
			source = lessTrusted(source, datasetSource(&in.Spec.Workload))
		}
		if n, ok := r.CachedTokens.Get(); ok {
			cached += n
			cachedKnown = true
		}
	}
	if source != "" {
		s.InputTokens, s.InputSource = probes.Known(tokens), source
	}
	if cachedKnown {
		s.CachedTokens = probes.Known(cached)
	}
	if pictured {
		s.ImageTokens = probes.Known(pictures)
	}
}

// countRetokenized adds up our own counts of the completed answers. The sum is known
// when every answer has one; the ratio is of those that the server has counted too.
func countRetokenized(s *probes.Summary, records []probes.Record) {
	var all, compared, served int
	whole := false
	for i := range records {
		r := &records[i]
		if r.Outcome != probes.OK {
			continue
		}
		n, ok := r.RetokenizedOutput.Get()
		if !ok {
			whole = false
			break
		}
		whole = true
		all += n
		if m, ok := r.OutputTokens.Get(); ok && r.OutputSource == probes.TokensServer {
			compared += n
			served += m
		}
	}
	if !whole {
		return
	}
	s.RetokenizedOutput = probes.Known(all)
	if served > 0 {
		s.RetokenizedRatio = probes.Known(float64(compared) / float64(served))
	}
}

// datasetSource is how the lengths that were asked for are known.
func datasetSource(w *probes.Workload) probes.TokenSource {
	if w.Tokenizer == "approx" && !w.TokenIDs {
		return probes.TokensApprox
	}
	return probes.TokensClient
}

func trust(s probes.TokenSource) int {
	switch s {
	case probes.TokensServer:
		return 2
	case probes.TokensClient:
		return 1
	}
	return 0
}

// lessTrusted treats an empty source as "nothing yet".
func lessTrusted(a, b probes.TokenSource) probes.TokenSource {
	if a == "" || (b != "" && trust(b) < trust(a)) {
		return b
	}
	return a
}

// countOutput adds up the answers: the counts of completed requests, and what
// the end of the window cut off, as far as it had been delivered by then.
// Leaving the cut answers out would make the throughput fall with the share of
// long answers.
//
// When the tokens of any answer are unknown the sum is a lower bound, so it is
// kept beside UnknownOutputs, but no rate is made of it.
func countOutput(s *probes.Summary, in Input, w span) {
	ratio := tokensPerChunk(in.Records)
	var completed int
	var delivered float64
	counted, whole := false, true
	for i := range in.Records {
		r := &in.Records[i]
		switch r.Outcome {
		case probes.OK:
			n, ok := r.OutputTokens.Get()
			if !ok {
				s.UnknownOutputs++
				continue
			}
			completed += n
			counted = true
			s.OutputSource = lessTrusted(s.OutputSource, r.OutputSource)
		case probes.Cancelled:
			n, ok := deliveredTokens(r, ratio, in, w)
			delivered += n
			counted = counted || ok
			whole = whole && ok
		}
	}
	if !counted {
		return
	}
	s.OutputTokens = probes.Known(completed + int(math.Round(delivered)))
	if whole && s.UnknownOutputs == 0 {
		s.OutputThroughput = w.perSecond(float64(completed) + delivered)
		s.PeakOutputThroughput = peakOutput(in, ratio, w)
	}
}

// tokensPerChunk is the mean over completed streamed answers whose tokens are known.
func tokensPerChunk(records []probes.Record) probes.Optional[float64] {
	var tokens, chunks int
	for i := range records {
		r := &records[i]
		if n, ok := r.OutputTokens.Get(); ok && r.Outcome == probes.OK && len(r.Chunks) > 0 {
			tokens += n
			chunks += len(r.Chunks)
		}
	}
	if chunks == 0 {
		return probes.Optional[float64]{}
	}
	return probes.Known(float64(tokens) / float64(chunks))
}

// silentChunk is how many tokens each chunk of r stands for that does not say
// so itself: an equal part of what the others leave of the request's count, else
// the run's mean.
func silentChunk(r *probes.Record, ratio probes.Optional[float64]) (tokens float64, ok bool) {
	said, silent := 0, 0
	for _, c := range r.Chunks {
		if c.Tokens > 0 {
			said += int(c.Tokens)
		} else {
			silent++
		}
	}
	if silent == 0 {
		return 0, true
	}
	if n, known := r.OutputTokens.Get(); known {
		return float64(max(0, n-said)) / float64(silent), true
	}
	return ratio.Get()
}

// inWindow reports whether an instant lies before the end of the window that
// cuts requests. Without such a window everything counts.
func inWindow(in Input, w span, at time.Duration) bool {
	return in.Pooled || !in.End.IsKnown() || at <= w.end
}

// deliveredTokens is what a cut request had brought. It is known to be 0 without
// chunks.
func deliveredTokens(r *probes.Record, ratio probes.Optional[float64], in Input, w span) (float64, bool) {
	silent, ok := silentChunk(r, ratio)
	if !ok {
		return 0, false
	}
	var sum float64
	for _, c := range r.Chunks {
		if !inWindow(in, w, c.At) {
			break
		}
		if c.Tokens > 0 {
			sum += float64(c.Tokens)
		} else {
			sum += silent
		}
	}
	return sum, true
}

// peakOutput is the fullest of the one-second buckets that start with the span.
// It counts tokens and not chunks, which would be too low by the speculative
// accept length. Answers that were not streamed are no part of it: all of their
// tokens would fall on one instant.
func peakOutput(in Input, ratio probes.Optional[float64], w span) probes.Optional[float64] {
	if in.Pooled || w.length() == 0 {
		return probes.Optional[float64]{}
	}
	buckets := make([]float64, w.length()/time.Second+1)
	peak := probes.Optional[float64]{}
	for i := range in.Records {
		r := &in.Records[i]
		if r.Outcome != probes.OK && r.Outcome != probes.Cancelled {
			continue
		}
		silent, _ := silentChunk(r, ratio)
		for _, c := range r.Chunks {
			if c.At < w.start || c.At > w.end {
				continue
			}
			tokens := silent
			if c.Tokens > 0 {
				tokens = float64(c.Tokens)
			}
			b := (c.At - w.start) / time.Second
			buckets[b] += tokens
			if highest, ok := peak.Get(); !ok || buckets[b] > highest {
				peak = probes.Known(buckets[b])
			}
		}
	}
	return peak
}

// inputLengths lays asked beside served, over all requests for which both are known.
// What a request with images asks for is the text alone, so it says nothing here.
func inputLengths(records []probes.Record) probes.InputLengths {
	var l probes.InputLengths
	var requested, served int
	for i := range records {
		r := &records[i]
		n, ok := r.PromptTokens.Get()
		if !ok || r.RequestedInput <= 0 || r.Images > 0 {
			continue
		}
		l.N++
		requested += r.RequestedInput
		served += n
		off := math.Abs(float64(n-r.RequestedInput)) / float64(r.RequestedInput)
		l.MaxDeviation = max(l.MaxDeviation, off)
		if n != r.RequestedInput {
			l.Off++
		}
	}
	if l.N > 0 {
		l.MeanRequested = float64(requested) / float64(l.N)
		l.MeanServer = float64(served) / float64(l.N)
	}
	return l
}
