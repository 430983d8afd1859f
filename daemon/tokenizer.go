package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/backend"
	"github.com/inferbeat/inferbeat/probes/tokenizer"
	"github.com/inferbeat/inferbeat/probes/workload"
)

// CheckWorkload reports every mistake of a workload, its tokenizer's name included.
func CheckWorkload(w probes.Workload) error {
	err := workload.Validate(w)
	if w.LocalTokenizer() {
		if unusable := tokenizer.Check(w.Tokenizer); unusable != nil {
			err = errors.Join(err, fmt.Errorf("tokenizer: %w", unusable))
		}
	}
	return err
}

// tokenizers keeps those that runs have used, because a file takes longer to read than
// a short run. A file that has changed is read again. The zero value is ready.
type tokenizers struct {
	mu   sync.Mutex
	held map[string]heldTokenizer
}

type heldTokenizer struct {
	tokenizer *tokenizer.Tokenizer
	changed   time.Time
	size      int64
}

func (t *tokenizers) open(name string) (*tokenizer.Tokenizer, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fresh := heldTokenizer{}
	if file, err := tokenizer.File(name); err == nil { // not a table of the binary
		if info, err := os.Stat(file); err == nil {
			fresh.changed, fresh.size = info.ModTime(), info.Size()
		}
	}
	if held, ok := t.held[name]; ok && held.changed.Equal(fresh.changed) && held.size == fresh.size {
		return held.tokenizer, nil
	}
	var err error
	if fresh.tokenizer, err = tokenizer.Open(name); err != nil {
		return nil, err
	}
	if t.held == nil {
		t.held = map[string]heldTokenizer{}
	}
	t.held[name] = fresh
	return fresh.tokenizer, nil
}

// local is a run's own tokenizer; nil counts nothing.
type local struct {
	*tokenizer.Tokenizer
	// template is what a prompt goes through before the model sees it: here, or in a
	// server that takes messages. nil: nothing.
	template *tokenizer.Template
}

var _ workload.Tokenizer = local{}

// openLocal opens the tokenizer of a workload for one target.
func (t *tokenizers) openLocal(w *probes.Workload, backendName string) (*local, error) {
	chat := backend.AcceptsMessages(backendName)
	if w.ApplyChatTemplate && chat {
		return nil, fmt.Errorf("apply_chat_template: backend %s applies the template itself, choose a completions backend or leave it out", backendName)
	}
	opened, err := t.open(w.Tokenizer)
	if err != nil {
		return nil, err
	}
	l := &local{Tokenizer: opened}
	if !w.ApplyChatTemplate && !chat {
		return l, nil
	}
	if l.template, err = opened.Template(); err != nil {
		return nil, fmt.Errorf("open tokenizer %s: %w", w.Tokenizer, err)
	}
	if l.template == nil && w.ApplyChatTemplate {
		return nil, fmt.Errorf("apply_chat_template: there is no chat template beside tokenizer %s, neither chat_template.jinja nor an entry of tokenizer_config.json", w.Tokenizer)
	}
	return l, nil
}

// Tokenize gives what the model sees of a prompt.
func (l local) Tokenize(ctx context.Context, text string) ([]int, error) {
	if l.template != nil {
		var err error
		if text, err = l.template.Render(text); err != nil {
			return nil, err
		}
	}
	return l.Tokenizer.Tokenize(ctx, text)
}

// retokenize counts the answers of a run that has ended, so that counting takes no
// time from it. Where the server told no number, ours stands for it. Texts that
// nobody asked to keep are dropped.
func (l *local) retokenize(run *probes.Run) {
	for i := range run.Records {
		r := &run.Records[i]
		if l != nil && r.Outcome == probes.OK && r.Text != "" {
			if n, err := l.Count(r.Text); err == nil {
				r.RetokenizedOutput = probes.Known(n)
			}
		}
		if n, ok := r.RetokenizedOutput.Get(); ok && !r.OutputTokens.IsKnown() {
			r.OutputTokens, r.OutputSource = probes.Known(n), probes.TokensClient
		}
		if !run.Spec.KeepText {
			r.Text = ""
		}
	}
}
