// Package workload turns a workload and its seed into requests.
//
// The story of the data:
//
//  1. [Open] validates the workload, asks the target's tokenizer what it must know
//     (which plain words are one token each, what is added around a text), and
//     prepares the prompts. All calls happen there, before any clock runs.
//  2. A workload and its seed are one frozen trace: the lengths and the text of
//     request i depend on the seed and i alone, so that two runs differ by the
//     server and not by the dice.
//  3. Only the head of a prompt, its first tokens, depends on the run's salt. No
//     two runs, and no two requests of a run, begin with the same 16-token block,
//     so a prefix cache never answers for the model. Salting changes no length.
//  4. Warm-up requests live in an index space of their own and never share a
//     prompt with a measured one.
//  5. [Source.Next] hands out the requests one by one. Every request says how its
//     length is known: "server" when token ids are sent, "client" when the target's
//     tokenizer stands behind it, "approx" when it is an estimate.
//
// Estimates are: one token per word in composed prompts, one token per four bytes
// (rounded up) in texts of a dataset.
package workload

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// generatorVersion names the rules that turn a seed into a trace. It must change
// whenever a prompt, a length or the order of the words would, because runs of
// different traces cannot be compared.
const generatorVersion = "1"

// Options are what a run adds to a workload.
type Options struct {
	// Tokenizer makes lengths exact; nil, or a workload with tokenizer: approx,
	// leaves estimates.
	Tokenizer Tokenizer
	// Render makes the text that is sent of a prompt, by a chat template; nil sends
	// the prompt itself. The Tokenizer then counts rendered texts.
	Render func(prompt string) (string, error)
	// Salt is the run's nonce. When empty, prompts are equal between runs, which
	// is what a workload with cache: warm asks for.
	Salt string
	// RunID is the first part of every request's ID.
	RunID string
	// Count and Warmup are how many requests will be asked for at least; so many
	// are prepared. 0 is unknown.
	Count, Warmup int
	// AcceptsTokenIDs, AcceptsMessages and AcceptsImages say what the target's dialect
	// can send.
	AcceptsTokenIDs, AcceptsMessages, AcceptsImages bool
	// Timed asks for requests with times: every row of a trace must have one.
	Timed bool
	// Cache is optional: what earlier runs learnt about this target's tokenizer.
	Cache *Calibrations
	// Files is optional: what earlier runs learnt about dataset files. It may be
	// shared by all targets.
	Files *Files
}

// prompt is what a generator knows about one request.
type prompt struct {
	text   string
	ids    []int
	tokens int
	source probes.TokenSource
	output int

	messages []probes.Message
	images   []probes.Image
	at       probes.Optional[time.Duration]
	session  string
	// turn of turns: messages are the new ones alone, see [probes.Request].
	turn, turns int
	sampling    func(*probes.Sampling) // nil: as the workload has it
}

// generator makes the prompt of one index; warm-up indices are negative. Indices of
// either kind are asked for in order, and false ends that kind.
type generator interface {
	prompt(index int) (prompt, bool)
}

// Source hands out the requests of one run. It is safe for concurrent use.
type Source struct {
	workload probes.Workload
	runID    string
	version  string
	short    int
	inexact  error
	render   func(prompt string) (string, error)
	adapters adapters
	// estimated is whether all lengths are estimates against the workload's will.
	estimated bool

	mu        sync.Mutex
	generator generator
	next      int
	warmed    int
	failed    error // of Render
}

// Open prepares the requests of one run.
//
// It fails when the workload is wrong, its file cannot be used, ctx ends, or token
// ids are needed that the tokenizer does not give. A tokenizer that merely does not
// answer is no reason to send nothing, since an unreachable target must show up as
// failed requests: lengths are then estimates, and [Source.Inexact] says why.
func Open(ctx context.Context, w probes.Workload, o Options) (*Source, error) {
	s, err := open(ctx, w, o)
	if err != nil {
		return nil, fmt.Errorf("open workload %q: %w", w.Name, err)
	}
	return s, nil
}

func open(ctx context.Context, w probes.Workload, o Options) (*Source, error) {
	if err := Validate(w); err != nil {
		return nil, err
	}
	if w.TokenIDs && !o.AcceptsTokenIDs {
		return nil, fmt.Errorf("token_ids: the target's backend cannot send token ids, set token_ids: false or choose a completions backend")
	}
	if HasImages(w.Dataset) && !o.AcceptsImages {
		return nil, fmt.Errorf("dataset: the target's backend cannot send images, choose a chat backend or sglang")
	}
	if w.Tokenizer == TokenizerApprox {
		o.Tokenizer = nil
	}
	w = withDefaults(w)
	s := &Source{workload: w, runID: o.RunID, render: o.Render, adapters: newAdapters(w)}
	dataset, err := s.openDataset(ctx, w, o)
	if err != nil {
		return nil, err
	}
	if t, ok := o.Tokenizer.(interface{ Hash() string }); ok && w.LocalTokenizer() {
		w.Tokenizer = t.Hash() // what it does, wherever its file lies
	}
	s.version, err = version(w, dataset, s.estimated, talks(w, o))
	return s, err
}

// openDataset sets the generator and returns the hash of the dataset's bytes, which
// is empty for a dataset without a file.
func (s *Source) openDataset(ctx context.Context, w probes.Workload, o Options) (dataset string, err error) {
	switch {
	case w.Dataset == ShareGPT:
		rows, err := openRows(ctx, w, o)
		if err != nil {
			return "", err
		}
		s.generator, s.inexact, s.estimated = rows, rows.inexact, rows.inexact != nil
		s.short = max(0, o.Count-len(rows.measured))
		return rows.index.sha256, nil
	case w.Dataset == RandomIDs && w.TokenIDs:
		s.generator = newIDTrace(w, o.Salt)
		return "", nil
	case w.Dataset == RandomIDs:
		s.generator, err = openIDTexts(ctx, w, o)
		return "", err
	case w.Dataset == GeneratedSharedPrefix:
		groups, err := openGroups(ctx, w, o)
		if err != nil {
			return "", err
		}
		s.generator, s.inexact, s.estimated = groups, groups.words.inexact, groups.words.estimated
		s.short = max(0, o.Count-len(groups.order))
		return "", nil
	case w.Dataset == Image:
		images, err := openImages(ctx, w, o)
		if err != nil {
			return "", err
		}
		s.generator, s.inexact, s.estimated = images, images.inexact, images.estimated
		return "", nil
	case ReadsFile(w.Dataset):
		return s.openFile(ctx, w, o)
	}
	words, err := openWords(ctx, w, o)
	if err != nil {
		return "", err
	}
	s.generator, s.inexact, s.estimated = words, words.inexact, words.estimated
	return "", nil
}

// openFile opens the datasets that read a file while the run goes on.
func (s *Source) openFile(ctx context.Context, w probes.Workload, o Options) (dataset string, err error) {
	if w.Path, err = traceFile(w); err != nil {
		return "", err
	}
	if dataset, err = o.Files.sum(ctx, w.Path); err != nil {
		return "", err
	}
	if w.Dataset == Text {
		text, err := openText(ctx, w, o)
		if err != nil {
			return "", err
		}
		s.generator, s.inexact, s.estimated = text, text.inexact, text.inexact != nil
		return dataset, nil
	}
	if w.Dataset == MMMU {
		questions, err := openMMMU(ctx, w, o)
		if err != nil {
			return "", err
		}
		s.generator, s.inexact, s.estimated = questions, questions.inexact, questions.inexact != nil
		if questions.front >= questions.back {
			s.short = max(0, o.Count-len(questions.measured))
		}
		return dataset, nil
	}
	rows, err := openRowTrace(ctx, w, o)
	if err != nil {
		return "", err
	}
	s.generator, s.inexact, s.estimated = rows, rows.inexact, rows.words.estimated
	if rows.exhausted {
		s.short = max(0, o.Count-len(rows.ready))
	}
	return dataset, nil
}

// Next returns the next measured request. Random datasets never end; those of a file
// end when it is used up, because repeating rows would measure the prefix cache.
func (s *Source) Next() (*probes.Request, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.prompt(s.next)
	if !ok {
		return nil, false
	}
	r := s.request(p, s.next, "-")
	s.adapters.choose(r)
	s.next++
	return r, true
}

// NextWarmup returns the next warm-up request. The prompts are never those of
// measured requests; sharegpt ends when no rows are left.
func (s *Source) NextWarmup() (*probes.Request, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.prompt(warmupIndex(s.warmed))
	if !ok {
		return nil, false
	}
	r := s.request(p, s.warmed, "-w")
	r.Warmup = true
	s.adapters.choose(r)
	s.warmed++
	return r, true
}

// prompt is the prompt of an index as it is sent.
func (s *Source) prompt(index int) (prompt, bool) {
	p, ok := s.generator.prompt(index)
	if !ok || s.render == nil || p.ids != nil || p.messages != nil { // ids stand for a rendered prompt
		return p, ok
	}
	p.text, s.failed = s.render(p.text)
	return p, s.failed == nil
}

func (s *Source) request(p prompt, index int, mark string) *probes.Request {
	sampling := s.workload.Sampling
	if p.sampling != nil {
		p.sampling(&sampling)
	}
	return &probes.Request{
		ID:              s.runID + mark + strconv.Itoa(index),
		Index:           index,
		Prompt:          p.text,
		TokenIDs:        p.ids,
		Messages:        p.messages,
		Images:          p.images,
		At:              p.at,
		Session:         p.session,
		Turn:            p.turn,
		Turns:           p.turns,
		KeepText:        p.turn < p.turns,
		InputTokens:     p.tokens,
		InputSource:     p.source,
		MaxOutputTokens: p.output,
		Sampling:        sampling,
	}
}

// Version is a hex hash over everything that makes two workloads comparable: what
// is asked, the bytes of the dataset and the rules of this package, never the salt
// or a name. It differs too when lengths had to be estimated although a tokenizer
// was asked for, since such a run carries other prompts.
func (s *Source) Version() string { return s.version }

// Short is how many of the Count requests the dataset cannot give.
func (s *Source) Short() int { return s.short }

// Inexact says why lengths are estimates although there is a tokenizer; nil when
// they are not.
func (s *Source) Inexact() error { return s.inexact }

// Err says why the requests ended before the dataset was used up; nil when they did
// not.
func (s *Source) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		return s.failed
	}
	if rows, ok := s.generator.(interface{ failure() error }); ok {
		return rows.failure()
	}
	return nil
}

// Skipped is how many rows of the dataset could not be used so far and were left
// out, as a workload with skip_bad_rows asks for.
func (s *Source) Skipped() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if rows, ok := s.generator.(interface{ skippedRows() int }); ok {
		return rows.skippedRows()
	}
	return 0
}

// Close closes the dataset's file. No request may be asked for after it.
func (s *Source) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if file, ok := s.generator.(interface{ close() error }); ok {
		_ = file.close() // it was only read
	}
}

func version(w probes.Workload, dataset string, estimated, conversation bool) (string, error) {
	w.Name, w.Path, w.URL, w.SHA256, w.Trace.Name = "", "", "", "", ""
	if w.Dataset == RandomIDs && w.VocabSize == 0 {
		w.VocabSize = DefaultVocabSize
	}
	text, err := json.Marshal(struct {
		Generator string
		Dataset   string
		Estimated bool
		Workload  probes.Workload
		// Absent for all else, which was there before conversations.
		Conversation bool `json:",omitempty"`
	}{generatorVersion, dataset, estimated, w, conversation})
	if err != nil {
		return "", fmt.Errorf("extra_body: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16]), nil
}
