package workload

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	"image/color"
	_ "image/jpeg" // pictures of the dataset are of both kinds
	"image/png"
	"io"
	"os"

	"github.com/parquet-go/parquet-go"

	"github.com/inferbeat/inferbeat/probes"
)

// mmmuRow is what is read of a row of MMMU; the other columns are not touched.
type mmmuRow struct {
	Question string     `parquet:"question,optional"`
	Image    *mmmuImage `parquet:"image_1,optional"`
}

type mmmuImage struct {
	Bytes []byte `parquet:"bytes,optional"`
}

// mmmuTrace is the mmmu dataset, a local parquet file such as the Math part of MMMU:
// each request is a question with its first image, put as bench_serving puts it.
// Options are not part of it, and rows without an image are left out. Rows come in an
// order shuffled by the seed, warm-up rows from its end.
//
// A salted run marks the image in its top rows and puts a line of words before the
// question, so that neither comes out of a cache.
type mmmuTrace struct {
	workload  probes.Workload
	salter    salter
	mark      salter
	salted    bool
	file      *os.File
	rows      *parquet.GenericReader[mmmuRow]
	order     []int32
	front     int
	back      int
	tokenizer Tokenizer
	learnt    *calibration

	measured, warm []prompt // read before the run
	inexact        error
	err            error
}

func (t *mmmuTrace) failure() error { return t.err }
func (t *mmmuTrace) close() error   { return errors.Join(t.rows.Close(), t.file.Close()) }

func openMMMU(ctx context.Context, w probes.Workload, o Options) (t *mmmuTrace, err error) {
	t = &mmmuTrace{
		workload: w, salter: newSalter(w.Seed, o.Salt), mark: newSalter(w.Seed, o.Salt+"\nimage"), salted: o.Salt != "",
		tokenizer: o.Tokenizer, learnt: estimated(),
	}
	if err := t.open(); err != nil {
		return nil, err
	}
	if err := t.prepare(ctx, o); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

// open reads the file's footer. A reader of broken files panics.
func (t *mmmuTrace) open() (err error) {
	if t.file, err = os.Open(t.workload.Path); err != nil {
		return fmt.Errorf("path: %w", err)
	}
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("%v", cause)
		}
		if err != nil {
			t.file.Close()
			err = fmt.Errorf("read %s: %w; is it a parquet file of MMMU?", t.workload.Path, err)
		}
	}()
	info, err := t.file.Stat()
	if err != nil {
		return err
	}
	file, err := parquet.OpenFile(t.file, info.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return err
	}
	for _, column := range []string{"question", "image_1"} {
		if file.Root().Column(column) == nil {
			return fmt.Errorf("has no column %q", column)
		}
	}
	t.rows = parquet.NewGenericReader[mmmuRow](file)
	t.order = make([]int32, file.NumRows())
	t.back = len(t.order)
	shuffle := newSequence(t.workload.Seed, forShuffle, 0)
	for i := range t.order {
		j := shuffle.below(i + 1)
		t.order[i], t.order[j] = t.order[j], int32(i)
	}
	return nil
}

func (t *mmmuTrace) prepare(ctx context.Context, o Options) error {
	if t.tokenizer != nil {
		learnt, verified := o.Cache.get()
		if learnt == nil {
			var err error
			if learnt, err = calibrate(ctx, t.tokenizer); err != nil {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				t.tokenizer, t.inexact, learnt = nil, err, estimated()
			} else {
				o.Cache.put(learnt, verified)
			}
		}
		t.learnt = learnt
	}
	if o.Count == 0 {
		o.Count = unknownCount
	}
	held := 0
	for _, part := range []struct {
		into  *[]prompt
		n     int
		index func(int) int
	}{
		{&t.warm, o.Warmup, warmupIndex}, {&t.measured, o.Count, func(i int) int { return i }},
	} {
		for len(*part.into) < part.n && held < imageBytes && ctx.Err() == nil {
			p, ok := t.draw(ctx, part.index(len(*part.into)))
			if !ok {
				break
			}
			*part.into = append(*part.into, p)
			held += len(p.images[0].Base64)
		}
	}
	// From here on nothing may be asked any more: a run is being measured.
	t.tokenizer = nil
	if t.err == nil && len(t.measured) == 0 && ctx.Err() == nil {
		return fmt.Errorf("read %s: holds no row with an image", t.workload.Path)
	}
	return errors.Join(t.err, ctx.Err())
}

func (t *mmmuTrace) prompt(index int) (prompt, bool) {
	held, i := t.measured, index
	if index < 0 {
		held, i = t.warm, warmupIndex(index)
	}
	if i < len(held) {
		p := held[i]
		held[i] = prompt{} // each index is asked for once
		return p, true
	}
	if t.err != nil {
		return prompt{}, false
	}
	return t.draw(context.Background(), index)
}

// draw takes the next row with an image from its end of the order.
func (t *mmmuTrace) draw(ctx context.Context, index int) (prompt, bool) {
	for t.front < t.back {
		row := 0
		if index >= 0 {
			row = int(t.order[t.front])
			t.front++
		} else {
			t.back--
			row = int(t.order[t.back])
		}
		p, ok, err := t.read(ctx, row, index)
		if err != nil {
			t.err = fmt.Errorf("read %s: row %d: %w", t.workload.Path, row+1, err)
			return prompt{}, false
		}
		if ok {
			return p, true
		}
	}
	return prompt{}, false
}

func (t *mmmuTrace) read(ctx context.Context, row, index int) (p prompt, ok bool, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("%v", cause)
		}
	}()
	if err := t.rows.SeekToRow(int64(row)); err != nil {
		return p, false, err
	}
	var rows [1]mmmuRow
	if n, err := t.rows.Read(rows[:]); n != 1 {
		return p, false, noRow(err)
	}
	picture := rows[0].Image
	if picture == nil || len(picture.Bytes) == 0 {
		return p, false, nil
	}
	encoded, err := t.picture(picture.Bytes, index)
	if err != nil {
		return p, false, fmt.Errorf("image_1: %w", err)
	}
	p.images = []probes.Image{encoded}
	p.text = "Question: " + rows[0].Question + "\n\nAnswer: "
	if t.salted {
		p.text = headText(t.learnt, t.salter, index, headSize) + headBreak + p.text
	}
	p.output = t.workload.OutputTokens
	p.tokens, p.source = estimateTokens(p.text), probes.TokensApprox
	if t.tokenizer != nil {
		ids, err := t.tokenizer.Tokenize(ctx, p.text)
		if err == nil {
			p.tokens, p.source = len(ids), probes.TokensClient
		} else if ctx.Err() == nil {
			t.tokenizer, t.inexact = nil, err
		}
	}
	return p, true, ctx.Err()
}

// noRow is why no row came.
func noRow(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// picture is an image as it is sent: PNG without transparency.
func (t *mmmuTrace) picture(raw []byte, index int) (probes.Image, error) {
	from, _, err := image.Decode(bytes.NewReader(raw))
	if err != nil {
		return probes.Image{}, err
	}
	b := from.Bounds()
	to := image.NewRGBA(image.Rect(0, 0, b.Dx(), b.Dy()))
	for y := range b.Dy() {
		for x := range b.Dx() {
			c := color.NRGBAModel.Convert(from.At(b.Min.X+x, b.Min.Y+y)).(color.NRGBA)
			to.SetRGBA(x, y, color.RGBA{c.R, c.G, c.B, 0xff})
		}
	}
	if t.salted {
		paintMark(to, t.mark, index)
	}
	var out bytes.Buffer
	if err := png.Encode(&out, to); err != nil {
		return probes.Image{}, err
	}
	return probes.Image{MediaType: "image/png", Base64: base64.StdEncoding.EncodeToString(out.Bytes())}, nil
}
