package workload

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// followUpTokens is the question that each further round of a session adds to the
// conversation so far.
const followUpTokens = 64

// lineTrace is a dataset whose rows are read one by one while the run goes on, so
// that a file of any size needs the memory of a few rows: custom, trace, mooncake,
// burstgpt and azure.
//
// Rows with a text are sent as they are, behind a salted line; the length of those
// that are read before the run is counted by the tokenizer, that of later ones
// estimated, because nothing may be asked while a run is being measured. For rows
// that are lengths alone a [composer] writes the prompt.
type lineTrace struct {
	workload probes.Workload
	options  Options
	lines    *lineReader
	decode   decoder
	compose  *composer
	words    *wordTrace // calibration, and the prompts of warm-up requests
	salter   salter

	tokenizer Tokenizer // nil once lengths are estimates
	inexact   error

	ready   []prompt // read before the run, in order
	pending []prompt // further rounds of the row that was read last
	shapes  [][2]int // input and output lengths for warm-up requests
	read    int      // rows used
	first   probes.Optional[time.Duration]
	last    time.Duration
	skipped int
	// exhausted: the file ended before as many rows were read ahead as were asked.
	exhausted bool
	err       error
}

func (t *lineTrace) failure() error   { return t.err }
func (t *lineTrace) skippedRows() int { return t.skipped }
func (t *lineTrace) close() error     { return t.lines.close() }

// prepareRows is how many rows are read ahead so that mistakes at the beginning of a
// file show before anything is sent.
const prepareRows = 32

func openRowTrace(ctx context.Context, w probes.Workload, o Options) (*lineTrace, error) {
	lines, err := openLines(w.Path)
	if err != nil {
		return nil, err
	}
	t := &lineTrace{workload: w, options: o, lines: lines, salter: newSalter(w.Seed, o.Salt), tokenizer: o.Tokenizer}
	if t.decode, err = newDecoder(lines, w); err != nil {
		lines.close()
		return nil, err
	}
	if err := t.prepare(ctx); err != nil {
		lines.close()
		return nil, err
	}
	return t, nil
}

func newDecoder(l *lineReader, w probes.Workload) (decoder, error) {
	switch w.Dataset {
	case Mooncake:
		return jsonLines("ms"), nil
	case BurstGPT:
		return csvRows(l, columns{clock: secondsTime, failures: true},
			[3]string{"Timestamp", "Request tokens", "Response tokens"}, "Session ID")
	case Azure:
		return csvRows(l, columns{clock: textTime}, [3]string{"TIMESTAMP", "ContextTokens", "GeneratedTokens"}, "")
	}
	return jsonLines(w.Trace.TimeUnit), nil
}

// prepare learns what the tokenizer adds, and reads the first rows: as many as will
// be asked when each has to be counted, a few else.
func (t *lineTrace) prepare(ctx context.Context) error {
	w := t.workload
	w.InputTokens, w.OutputTokens, w.RangeRatio, w.Dataset = 256, 1, 1, Random // what the calibration is tried on
	o := t.options
	o.Count, o.Warmup = 4, 0
	t.words = &wordTrace{workload: w, salter: newSalter(w.Seed, o.Salt+"\nwarmup")}
	if err := t.words.learn(ctx, o); err != nil {
		return err
	}
	t.inexact = t.words.inexact
	t.compose = newComposer(t.workload, o.Salt, t.words.learnt, t.words.source)
	if t.words.estimated {
		t.tokenizer = nil
	}
	want, held, composed := t.options.Count, 0, false
	if want == 0 {
		want = prepareRows
	}
	for len(t.ready) < want && held < preparedBytes && !(composed && len(t.ready) >= prepareRows) {
		p, isComposed, err := t.draw(ctx)
		if errors.Is(err, io.EOF) {
			t.exhausted = true
			break
		}
		if err != nil {
			return err
		}
		composed = composed || isComposed
		t.ready = append(t.ready, p)
		held += len(p.text) + 8*len(p.ids)
		for _, m := range p.messages {
			held += len(m.Content)
		}
	}
	if len(t.ready) == 0 {
		return fmt.Errorf("read %s: holds no row that can be used (%d were skipped)", t.lines.path, t.skipped)
	}
	// From here on nothing may be asked any more: a run is being measured.
	t.tokenizer = nil
	return nil
}

// salted reports whether rows with a text get a head. A warm workload repeats itself.
func (t *lineTrace) salted() bool { return t.options.Salt != "" }

// sharedHead is how much of a text decides its head in a shared workload: about one
// block of a prefix cache.
const sharedHead = 64

// head is the salted line before a row's text. In a cold workload every row has its
// own. In a shared one it depends on how the text begins, so that rows which share a
// block go on to do so, and no others start to.
func (t *lineTrace) head(text string, index int) string {
	if !t.salted() {
		return ""
	}
	if t.workload.Cache == probes.CacheShared {
		sum := fnv.New64a()
		io.WriteString(sum, text[:min(len(text), sharedHead)])
		index = int(sum.Sum64() >> 2)
	}
	return headText(t.words.learnt, t.salter, index, headSize) + headBreak
}

// prompt hands out what was read ahead, then reads on.
func (t *lineTrace) prompt(index int) (prompt, bool) {
	if index < 0 {
		shape := t.shapes[warmupIndex(index)%len(t.shapes)]
		w := &t.words.workload
		w.InputTokens, w.OutputTokens = shape[0], shape[1]
		return t.words.compose(index, 0), true
	}
	if len(t.ready) > 0 {
		p := t.ready[0]
		t.ready[0] = prompt{} // its text is not needed any more
		t.ready = t.ready[1:]
		return p, true
	}
	if t.err != nil {
		return prompt{}, false
	}
	p, _, err := t.draw(context.Background())
	if err != nil {
		if !errors.Is(err, io.EOF) {
			t.err = err
		}
		return prompt{}, false
	}
	return p, true
}

// draw makes the next prompt. Its error is io.EOF after the last row.
func (t *lineTrace) draw(ctx context.Context) (p prompt, composed bool, err error) {
	if len(t.pending) > 0 {
		p = t.pending[0]
		t.pending = t.pending[1:]
		return p, true, nil
	}
	for {
		line, err := t.lines.next()
		if err != nil {
			return p, false, err
		}
		r, err := t.decode(line)
		if err == nil && r == nil {
			continue
		}
		if err == nil {
			err = t.check(r)
		}
		if err != nil {
			if t.workload.SkipBadRows {
				t.skipped++
				continue
			}
			return p, false, t.lines.at(err)
		}
		p, keep, err := t.turn(ctx, r)
		if err != nil {
			return p, false, err
		}
		if !keep {
			continue
		}
		t.read++
		if len(t.shapes) < prepareRows {
			t.shapes = append(t.shapes, [2]int{p.tokens, p.output})
		}
		return p, r.composed(), nil
	}
}

// check holds a row against the one before it and against what the target can take.
func (t *lineTrace) check(r *row) error {
	switch {
	case r.messages != nil && !t.options.AcceptsMessages:
		return errors.New("messages: the target's backend takes one prompt and no conversation, choose a chat backend")
	case r.images != nil && !t.options.AcceptsImages:
		return errors.New("messages: the target's backend takes no images")
	case t.workload.TokenIDs && !r.composed():
		return errors.New("a text cannot be sent as token ids, set token_ids: false")
	case r.output == 0 && r.answer == "" && t.workload.FixedOutputTokens == 0 && t.workload.OutputTokens == 0:
		return errors.New("has no output_length, and the workload has no output_tokens to stand for it")
	case r.hashIDs != nil && r.composed() && (len(r.hashIDs)-1)*t.compose.block >= r.input:
		return fmt.Errorf("hash_ids: %d blocks of %d tokens are more than an input_length of %d; is block_tokens right?",
			len(r.hashIDs), t.compose.block, r.input)
	}
	at, known := r.at.Get()
	switch {
	case !known && t.options.Timed:
		return errors.New("timestamp: missing, a replay needs one in every row")
	case !known:
	case !t.first.IsKnown():
		t.first, t.last = probes.Known(at), at
	case at < t.last:
		return fmt.Errorf("timestamp: goes back by %s; sort the file by time", t.last-at)
	default:
		t.last = at
	}
	return nil
}

// turn makes the prompt of a row, and those of its further rounds.
func (t *lineTrace) turn(ctx context.Context, r *row) (p prompt, keep bool, err error) {
	if r.composed() {
		p = t.compose.compose(r.hashIDs, r.input, r.input, t.read)
	} else if p, err = t.measure(ctx, r); err != nil {
		return p, false, err
	}
	t.output(ctx, r, &p)
	if p.output < 1 || t.workload.ContextTokens > 0 && p.tokens+p.output > t.workload.ContextTokens {
		return p, false, ctx.Err()
	}
	if at, ok := r.at.Get(); ok {
		p.at = probes.Known(stretch(at-t.first.Or(at), t.workload.Trace.Slowdown))
	}
	p.session, p.sampling, p.images = r.session, r.sampling, r.images
	if rounds := t.workload.Trace.Rounds; rounds > 1 && r.composed() {
		p.session = fmt.Sprintf("row%d", t.read)
		t.addRounds(&p, r, rounds)
	}
	return p, true, nil
}

// talks reports whether the rounds of a session are a real conversation: somebody waits
// for the answers, and they can be sent back.
func talks(w probes.Workload, o Options) bool {
	return w.Trace.Rounds > 1 && o.AcceptsMessages && o.Timed && !w.TokenIDs
}

// addRounds makes a row the first turn of a session. Where conversations can be sent, a
// later turn is a question of its own behind the server's real answers, whose lengths
// nobody knows beforehand; else it is a prompt as long as that would be.
func (t *lineTrace) addRounds(p *prompt, r *row, rounds int) {
	talk := talks(t.workload, t.options)
	for k := 1; k < rounds; k++ {
		input := r.input + k*(p.output+followUpTokens)
		next := prompt{}
		if talk {
			next = t.compose.compose(nil, 0, followUpTokens, followUpRow(t.read, k, rounds))
			next.messages, next.text = []probes.Message{{Role: "user", Content: next.text}}, ""
			next.tokens, next.source, next.turn, next.turns = input, probes.TokensApprox, k+1, rounds
		} else {
			next = t.compose.compose(r.hashIDs, r.input, input, t.read)
		}
		next.output, next.at, next.session, next.sampling = p.output, p.at, p.session, p.sampling
		t.pending = append(t.pending, next)
	}
	if talk {
		p.messages, p.text = []probes.Message{{Role: "user", Content: p.text}}, ""
		p.turn, p.turns = 1, rounds
	}
}

// followUpRow numbers follow-up questions apart from the rows of the file.
func followUpRow(row, round, rounds int) int { return 1<<40 + row*rounds + round }

// output decides the length of the answer: the workload's own, the row's, that of
// the recorded answer, or what stands for it in files that have none.
func (t *lineTrace) output(ctx context.Context, r *row, p *prompt) {
	switch {
	case t.workload.FixedOutputTokens > 0:
		p.output = t.workload.FixedOutputTokens
	case r.output > 0:
		p.output = r.output
	case r.answer != "":
		p.output, _ = t.count(ctx, r.answer)
	default:
		p.output = t.workload.OutputTokens
	}
}

// measure counts a row's text. The length of a conversation is an estimate even
// when its texts are counted: only the server's template knows what it adds.
func (t *lineTrace) measure(ctx context.Context, r *row) (p prompt, err error) {
	if r.messages == nil {
		p.text = t.head(r.text, t.read) + r.text
		p.tokens, p.source = t.count(ctx, p.text)
		if p.source != probes.TokensApprox {
			p.tokens += t.words.learnt.overhead()
		}
		return p, ctx.Err()
	}
	p.messages = r.messages
	p.messages[0].Content = t.head(p.messages[0].Content, t.read) + p.messages[0].Content
	for _, m := range p.messages {
		n, _ := t.count(ctx, m.Content)
		p.tokens += n
	}
	p.source = probes.TokensApprox
	return p, ctx.Err()
}

// count is the tokens of a text alone, without what is added around a prompt.
func (t *lineTrace) count(ctx context.Context, text string) (int, probes.TokenSource) {
	if t.tokenizer != nil {
		ids, err := t.tokenizer.Tokenize(ctx, text)
		if err == nil {
			return len(ids) - t.words.learnt.overhead(), probes.TokensClient
		}
		if ctx.Err() == nil {
			t.tokenizer, t.inexact = nil, err
		}
	}
	return estimateTokens(text), probes.TokensApprox
}

// stretch is a time of the trace, slowed down.
func stretch(at time.Duration, slowdown float64) time.Duration {
	if slowdown == 0 || slowdown == 1 {
		return at
	}
	x := float64(at) * slowdown
	if x >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(math.Round(x))
}
