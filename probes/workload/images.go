package workload

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"strconv"
	"strings"

	"github.com/inferbeat/inferbeat/probes"
)

const (
	// jpegQuality is bench_serving's.
	jpegQuality = 85
	// imageBytes bounds the images that are made before the run; later ones are made
	// when they are asked for, which costs the client time that its send lag shows.
	imageBytes = 256 << 20
	// markSize is the side of the squares that tell one image from all others. It is
	// the block of JPEG, so that a mark survives the compression.
	markSize = 8
	// marks is how many squares an image has, one bit each.
	marks = 62
)

// resolutions are bench_serving's presets, width and height.
var resolutions = map[string]image.Point{
	"4k": {3840, 2160}, "1080p": {1920, 1080}, "720p": {1280, 720}, "360p": {640, 360},
}

// sizes are those that the images of a workload have: one, or each side drawn on its
// own between two.
type sizes struct{ least, most image.Point }

// of is the size of an image's number.
func (s sizes) of(seed int64, number int) image.Point {
	if s.least == s.most {
		return s.most
	}
	draw := newSequence(seed, forImageSize, number)
	w := s.least.X + draw.below(s.most.X-s.least.X+1)
	return image.Point{X: w, Y: s.least.Y + draw.below(s.most.Y-s.least.Y+1)}
}

const (
	leastSide, mostSide = 64, 8192
	// randomSizes opens a range of sizes.
	randomSizes = "random:"
)

// resolution reads a preset, height x width in this order, or a range of the latter,
// as bench_serving does.
func resolution(text string) (sizes, error) {
	if size, ok := resolutions[text]; ok {
		return sizes{size, size}, nil
	}
	low, high := text, text
	if span, ok := strings.CutPrefix(text, randomSizes); ok {
		low, high, _ = strings.Cut(span, "-")
	}
	least, okLow := parseSize(low)
	most, okHigh := parseSize(high)
	switch {
	case !okLow || !okHigh:
		return sizes{}, fmt.Errorf("%q is neither 4k, 1080p, 720p or 360p nor height x width such as 512x768 or random:256x256-1024x768, each side from %d to %d", text, leastSide, mostSide)
	case least.X > most.X || least.Y > most.Y:
		return sizes{}, fmt.Errorf("%q ends below where it begins", text)
	}
	return sizes{least, most}, nil
}

func parseSize(text string) (image.Point, bool) {
	high, wide, ok := strings.Cut(text, "x")
	h, errH := strconv.Atoi(high)
	w, errW := strconv.Atoi(wide)
	return image.Point{X: w, Y: h}, ok && errH == nil && errW == nil && min(h, w) >= leastSide && max(h, w) <= mostSide
}

// imageTrace is the image dataset: a random text, and beside it images of noise or
// plain white. A row of small squares at the top of each image is salted, so that no
// two images are equal for a server that keeps what it has computed from one.
type imageTrace struct {
	*wordTrace
	size  sizes
	mark  salter
	ready map[int][]probes.Image
}

func openImages(ctx context.Context, w probes.Workload, o Options) (*imageTrace, error) {
	size, err := resolution(w.Images.Resolution)
	if err != nil {
		return nil, err
	}
	words, err := openWords(ctx, w, o)
	if err != nil {
		return nil, err
	}
	t := &imageTrace{wordTrace: words, size: size, mark: newSalter(w.Seed, o.Salt+"\nimage"), ready: map[int][]probes.Image{}}
	held := 0
	hold := func(index int) {
		if held < imageBytes && ctx.Err() == nil {
			t.ready[index] = t.images(index)
			for _, i := range t.ready[index] {
				held += len(i.Base64)
			}
		}
	}
	for i := range o.Warmup {
		hold(warmupIndex(i))
	}
	for i := range o.Count {
		hold(i)
	}
	return t, ctx.Err()
}

func (t *imageTrace) prompt(index int) (prompt, bool) {
	p, ok := t.wordTrace.prompt(index)
	images, made := t.ready[index]
	if made {
		delete(t.ready, index) // each index is asked for once
	} else {
		images = t.images(index)
	}
	p.images = images
	return p, ok
}

// images makes the images of one request.
func (t *imageTrace) images(index int) []probes.Image {
	shape := &t.workload.Images
	count := shape.Count
	if shape.RandomCount {
		count = length(t.workload.Seed, forImageCount, index, shape.Count, 0)
	}
	out := make([]probes.Image, count)
	for k := range out {
		// Numbered in one space with gaps: warm-up requests have negative indices.
		number := index*shape.Count + k
		if index < 0 {
			number = index*shape.Count - k
		}
		out[k] = t.encode(t.paint(number))
	}
	return out
}

// paint draws the image of a number.
func (t *imageTrace) paint(number int) *image.RGBA {
	img := image.NewRGBA(image.Rectangle{Max: t.size.of(t.workload.Seed, number)})
	if t.workload.Images.Content == ContentBlank {
		for i := range img.Pix {
			img.Pix[i] = 0xff
		}
	} else {
		noise := newSequence(t.workload.Seed, forImage, number)
		for i := 0; i < len(img.Pix); i += 4 {
			x := noise.next()
			img.Pix[i], img.Pix[i+1], img.Pix[i+2], img.Pix[i+3] = byte(x), byte(x>>8), byte(x>>16), 0xff
		}
	}
	paintMark(img, t.mark, number)
	return img
}

// paintMark draws the salted squares of a number at the top of an image, as many as
// it has room for.
func paintMark(img *image.RGBA, mark salter, number int) {
	var bits [marks]int
	mark.head(bits[:], number, 2)
	columns := max(img.Rect.Dx()/markSize, 1)
	for i, bit := range bits {
		grey := uint8(0xff)
		if bit == 1 {
			grey = 0xd0 // far enough from white to survive the compression
		}
		left, top := i%columns*markSize, i/columns*markSize
		for y := top; y < top+markSize; y++ {
			for x := left; x < left+markSize; x++ {
				img.SetRGBA(x, y, color.RGBA{grey, grey, grey, 0xff}) // outside of it nothing happens
			}
		}
	}
}

func (t *imageTrace) encode(img *image.RGBA) probes.Image {
	var b bytes.Buffer
	kind := t.workload.Images.Format
	// Neither encoder fails on a buffer and an image of these sizes.
	if kind == FormatPNG {
		_ = png.Encode(&b, img)
	} else {
		_ = jpeg.Encode(&b, img, &jpeg.Options{Quality: jpegQuality})
	}
	return probes.Image{MediaType: "image/" + kind, Base64: base64.StdEncoding.EncodeToString(b.Bytes())}
}
