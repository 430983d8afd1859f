package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/fakellm"
	"github.com/inferbeat/inferbeat/probes/workload"
)

const tokenizerFiles = "../probes/tokenizer/testdata"

const turns = "{{ bos_token }}<user>{{ messages[0].content | trim }}</user>{% if add_generation_prompt %}<model>{% endif %}"

// tokenizerFolder copies a tokenizer and puts a chat template beside it.
func tokenizerFolder(t *testing.T, name, template string) string {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile(filepath.Join(tokenizerFiles, name, "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string]string{"tokenizer.json": string(text), "chat_template.jinja": template, "tokenizer_config.json": `{"bos_token": "<s>"}`} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestExactLengths: prompts have the drawn length by every type of tokenizer, salted
// or not, with a chat template or without, as text and as ids.
func TestExactLengths(t *testing.T) {
	names := map[string]string{"cl100k_base": "tiktoken:cl100k_base", "o200k_base": "tiktoken:o200k_base"}
	for _, name := range []string{"gpt2", "llama3", "qwen", "deepseek", "llama2", "gemma", "t5", "unigram-bytes", "bert"} {
		names[name] = filepath.Join(tokenizerFiles, name)
		names[name+" with template"] = tokenizerFolder(t, name, turns)
	}
	var opened tokenizers
	for name, path := range names {
		t.Run(name, func(t *testing.T) {
			templated := strings.HasSuffix(name, "template")
			for _, ids := range []bool{false, true} {
				for _, salt := range []string{"", "run-1", "run-2"} {
					w := probes.Workload{
						Name: "w", Dataset: workload.Random, InputTokens: 300, OutputTokens: 10, RangeRatio: 0.3, Seed: 5,
						Tokenizer: path, ApplyChatTemplate: templated, TokenIDs: ids,
					}
					own, err := opened.openLocal(&w, "vllm")
					if err != nil {
						t.Fatal(err)
					}
					o := workload.Options{Tokenizer: own, Salt: salt, RunID: "r", Count: 20, AcceptsTokenIDs: true}
					if templated {
						o.Render = own.template.Render
					}
					source, err := workload.Open(context.Background(), w, o)
					if err != nil {
						t.Fatal(err)
					}
					if source.Inexact() != nil {
						t.Fatalf("lengths are not exact: %v", source.Inexact())
					}
					checkLengths(t, source, own, w, templated)
				}
			}
		})
	}
}

// checkLengths counts what is sent as the server would count it.
func checkLengths(t *testing.T, source *workload.Source, own *local, w probes.Workload, templated bool) {
	t.Helper()
	different := map[int]bool{}
	for range 20 {
		r, ok := source.Next()
		if !ok {
			t.Fatal("the workload has ended")
		}
		got := r.TokenIDs
		if !w.TokenIDs {
			var err error
			if got, err = own.Encode(r.Prompt); err != nil {
				t.Fatal(err)
			}
			if templated != strings.Contains(r.Prompt, "</user><model>") {
				t.Errorf("prompt %q, with a template: %t", r.Prompt, templated)
			}
		}
		if len(got) != r.InputTokens || r.InputTokens < 90 || r.InputTokens > 300 {
			t.Errorf("prompt has %d tokens, the request says %d", len(got), r.InputTokens)
		}
		want := probes.TokensClient
		if w.TokenIDs {
			want = probes.TokensServer
		}
		if r.InputSource != want {
			t.Errorf("source %s, want %s", r.InputSource, want)
		}
		different[r.InputTokens] = true
	}
	if len(different) < 10 {
		t.Errorf("20 prompts have %d lengths", len(different))
	}
}

// TestIDsAndTextsAgree: a prompt that is sent as ids is the text's tokenization.
func TestIDsAndTextsAgree(t *testing.T) {
	var opened tokenizers
	w := probes.Workload{Name: "w", Dataset: workload.Random, InputTokens: 64, OutputTokens: 1, RangeRatio: 1, Tokenizer: tokenizerFolder(t, "llama3", turns), ApplyChatTemplate: true}
	own, err := opened.openLocal(&w, "sglang")
	if err != nil {
		t.Fatal(err)
	}
	var requests [2]*probes.Request
	for i := range requests {
		w.TokenIDs = i == 1
		source, err := workload.Open(context.Background(), w, workload.Options{Tokenizer: own, Render: own.template.Render, Salt: "s", Count: 1, AcceptsTokenIDs: true})
		if err != nil {
			t.Fatal(err)
		}
		requests[i], _ = source.Next()
	}
	ids, err := own.Encode(requests[0].Prompt)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(ids, requests[1].TokenIDs) {
		t.Errorf("ids %v, tokenized text %v", requests[1].TokenIDs, ids)
	}
}

// TestVersionFollowsTheFile: a workload is the same wherever its tokenizer lies, and
// another one when the file says something else.
func TestVersionFollowsTheFile(t *testing.T) {
	var opened tokenizers
	version := func(path string) string {
		w := probes.Workload{Name: "w", Dataset: workload.Random, InputTokens: 64, OutputTokens: 1, RangeRatio: 1, Tokenizer: path}
		own, err := opened.openLocal(&w, "vllm")
		if err != nil {
			t.Fatal(err)
		}
		source, err := workload.Open(context.Background(), w, workload.Options{Tokenizer: own, Count: 1})
		if err != nil {
			t.Fatal(err)
		}
		return source.Version()
	}
	here, copied, other := version(tokenizerFiles+"/gpt2"), version(tokenizerFolder(t, "gpt2", turns)), version(tokenizerFiles+"/llama3")
	if here != copied || here == other {
		t.Errorf("versions: %s, copy %s, other file %s", here, copied, other)
	}
}

func TestTokenizersReadChangedFiles(t *testing.T) {
	dir := tokenizerFolder(t, "gpt2", turns)
	var opened tokenizers
	first, err := opened.open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := opened.open(dir); err != nil || again != first {
		t.Errorf("an unchanged file was read again: %v", err)
	}
	text, err := os.ReadFile(filepath.Join(tokenizerFiles, "bert", "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	if changed, err := opened.open(dir); err != nil || changed.Hash() == first.Hash() {
		t.Errorf("a changed file was not read again: %v", err)
	}
}

func TestOpenLocalErrors(t *testing.T) {
	tests := []struct {
		name, tokenizer, backend, want string
	}{
		{"chat backend", tokenizerFolder(t, "gpt2", turns), "vllm-chat", "backend vllm-chat applies the template itself"},
		{"no template", tokenizerFiles + "/gpt2", "vllm", "there is no chat template beside tokenizer"},
		{"encoding", "tiktoken:o200k_base", "vllm", "there is no chat template beside tokenizer"},
		{"broken template", tokenizerFolder(t, "gpt2", "{% if %}"), "vllm", "compile chat template"},
		{"no file", "nowhere", "vllm", "nothing is downloaded"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var opened tokenizers
			_, err := opened.openLocal(&probes.Workload{Tokenizer: tt.tokenizer, ApplyChatTemplate: true}, tt.backend)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("openLocal = %v, want an error with %q", err, tt.want)
			}
		})
	}
}

// TestChatLengths: for a server that applies the template the prompt is the message
// alone, and its length that of the whole.
func TestChatLengths(t *testing.T) {
	var opened tokenizers
	w := probes.Workload{Tokenizer: tokenizerFolder(t, "llama3", turns)}
	chat, err := opened.openLocal(&w, "vllm-chat")
	if err != nil {
		t.Fatal(err)
	}
	text, err := opened.openLocal(&w, "vllm")
	if err != nil {
		t.Fatal(err)
	}
	want, err := text.Tokenize(context.Background(), "<s><user>dog</user><model>")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := chat.Tokenize(context.Background(), " dog "); err != nil || !slices.Equal(got, want) {
		t.Errorf("chat: %v, %v, want %v", got, err, want)
	}
	plain, err := text.Tokenize(context.Background(), "dog")
	if err != nil || len(plain) >= len(want) {
		t.Errorf("completions: %v, %v", plain, err)
	}
}

// TestRetokenized: the answers of a run are counted after it, beside the server's
// count, and their text is gone unless somebody asked for it.
func TestRetokenized(t *testing.T) {
	for _, keep := range []bool{false, true} {
		t.Run(fmt.Sprintf("keep text %t", keep), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, runner := scripted(t, nil)
				defer runner.Close()
				spec := loadSpec()
				spec.Requests, spec.KeepText = 10, keep
				spec.Workload.Tokenizer, spec.Workload.InputTokens = "tiktoken:cl100k_base", 32
				var shown []string
				run := runner.Run(context.Background(), fakeTarget("vllm"), spec, nil, Hooks{Record: func(_ string, r *probes.Record) { shown = append(shown, r.Text) }})
				if run.Error != "" {
					t.Fatal(run.Error)
				}
				s, sum := &run.Summary, 0
				for i := range run.Records {
					n, ok := run.Records[i].RetokenizedOutput.Get()
					if !ok || n == 0 {
						t.Errorf("record %d: retokenized %v", i, run.Records[i].RetokenizedOutput)
					}
					sum += n
				}
				if got := s.RetokenizedOutput; got != probes.Known(sum) {
					t.Errorf("retokenized %v, want %d", got, sum)
				}
				if got, _ := s.RetokenizedRatio.Get(); !near(got, float64(sum)/1010) || s.OutputTokens != probes.Known(1010) || s.OutputSource != probes.TokensServer {
					t.Errorf("ratio %v, output %v by %s; want %v, 1010 by the server", got, s.OutputTokens, s.OutputSource, float64(sum)/1010)
				}
				if keep {
					own, err := runner.tokenizers.open(spec.Workload.Tokenizer)
					if err != nil {
						t.Fatal(err)
					}
					if n, err := own.Count(run.Records[3].Text); err != nil || run.Records[3].RetokenizedOutput != probes.Known(n) {
						t.Errorf("Count(%q) = %d, %v, want %v", run.Records[3].Text, n, err, run.Records[3].RetokenizedOutput)
					}
				}
				for i := range run.Records {
					if (run.Records[i].Text != "") != keep {
						t.Errorf("record %d: text %q, keep text %t", i, run.Records[i].Text, keep)
					}
				}
				if got := strings.Join(shown, "") != ""; got != keep || len(shown) == 0 {
					t.Errorf("%d records shown, with text: %t", len(shown), got)
				}
			})
		})
	}
}

// TestCountedByTheClient: a server that reports no usage leaves the counting to us.
func TestCountedByTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, runner := scripted(t, func(c *fakellm.Config) { c.Engine = fakellm.Truss })
		defer runner.Close()
		spec := loadSpec()
		spec.Requests, spec.Workload.InputTokens, spec.Workload.Tokenizer = 10, 32, "tiktoken:o200k_base"
		run := runner.Run(context.Background(), fakeTarget("truss"), spec, nil, Hooks{})
		s := &run.Summary
		if run.Error != "" || s.Completed != 10 {
			t.Fatalf("%d completed, error %q", s.Completed, run.Error)
		}
		if s.OutputSource != probes.TokensClient || s.OutputTokens != s.RetokenizedOutput || !s.OutputTokens.IsKnown() || s.RetokenizedRatio.IsKnown() {
			t.Errorf("output %v by %q, retokenized %v, ratio %v", s.OutputTokens, s.OutputSource, s.RetokenizedOutput, s.RetokenizedRatio)
		}
		if s.Distribution(probes.TPOT).N != 10 || run.Records[0].OutputSource != probes.TokensClient {
			t.Errorf("%d TPOT samples, source %s", s.Distribution(probes.TPOT).N, run.Records[0].OutputSource)
		}
		spec.Workload.Tokenizer = "approx"
		if run := runner.Run(context.Background(), fakeTarget("truss"), spec, nil, Hooks{}); run.Summary.OutputTokens.IsKnown() || run.Summary.RetokenizedOutput.IsKnown() {
			t.Errorf("without a tokenizer: output %v, retokenized %v", run.Summary.OutputTokens, run.Summary.RetokenizedOutput)
		}
	})
}

// TestTemplateRuns: the prompts that a server gets are the rendered ones.
func TestTemplateRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, runner := scripted(t, nil)
		defer runner.Close()
		spec := loadSpec()
		spec.Requests = 5
		spec.Workload.Tokenizer, spec.Workload.ApplyChatTemplate = tokenizerFolder(t, "gpt2", turns), true
		run := runner.Run(context.Background(), fakeTarget("vllm"), spec, nil, Hooks{})
		if run.Error != "" || run.Summary.Completed != 5 {
			t.Fatalf("%d completed, error %q", run.Summary.Completed, run.Error)
		}
		spec.Workload.Tokenizer = tokenizerFolder(t, "gpt2", `{{ raise_exception("not today") }}`)
		run = runner.Run(context.Background(), fakeTarget("vllm"), spec, nil, Hooks{})
		if run.Result != probes.RunFailed || !strings.Contains(run.Error, "not today") {
			t.Errorf("result %s, error %q", run.Result, run.Error)
		}
		if took := run.End.Sub(run.Start); took > time.Second {
			t.Errorf("refused after %v", took)
		}
	})
}
