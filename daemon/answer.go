package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/loadgen"
)

// ask puts the spec's question and says what became of it. The exchange is no
// part of the measurement: it leaves no record, and neither its prompt nor its
// answer leaves this function.
func ask(ctx context.Context, b loadgen.Backend, clock probes.Clock, run *probes.Run) probes.Answer {
	e := &run.Spec.Expect
	if *e == (probes.Expect{}) {
		return ""
	}
	sampling := run.Spec.Workload.Sampling
	sampling.Temperature, sampling.TopP, sampling.IgnoreEOS = 0, probes.Optional[float64]{}, false
	request := &probes.Request{
		ID: run.ID + "-answer", Prompt: e.Prompt.Reveal(), MaxOutputTokens: e.MaxTokens, Sampling: sampling, KeepText: true,
	}
	record := b.Do(ctx, clock, request, clock.Now())
	switch {
	case record.Outcome != probes.OK && record.Outcome != probes.Empty:
		return probes.AnswerMissing
	case expected(e, record.Text):
		return probes.AnswerRight
	}
	return probes.AnswerWrong
}

func expected(e *probes.Expect, answer string) bool {
	answer = strings.TrimSpace(answer)
	switch {
	case e.SHA256 != "":
		sum := sha256.Sum256([]byte(answer))
		return strings.EqualFold(hex.EncodeToString(sum[:]), e.SHA256)
	case e.Contains != "":
		return strings.Contains(answer, e.Contains.Reveal())
	}
	return answer == strings.TrimSpace(e.Equals.Reveal())
}
