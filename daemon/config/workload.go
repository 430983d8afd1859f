package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/inferbeat/inferbeat/probes"
)

// datasetKeys are keys that mean something for some datasets only. Written for
// another one they would be a wish that nobody fulfils.
var datasetKeys = []struct {
	keys     []string
	datasets []string
}{
	{[]string{"gsp_num_groups", "gsp_prompts_per_group", "gsp_system_prompt_len", "gsp_question_len", "gsp_output_len", "gsp_range_ratio", "gsp_zipf_alpha", "gsp_ordered"},
		[]string{"generated-shared-prefix"}},
	{[]string{"image_count", "random_image_count", "image_resolution", "image_format", "image_content"}, []string{"image"}},
	{[]string{"time_unit"}, []string{"trace"}},
	{[]string{"mooncake_slowdown_factor"}, []string{"trace", "mooncake", "burstgpt", "azure"}},
	{[]string{"mooncake_num_rounds", "mooncake_workload"}, []string{"mooncake"}},
	{[]string{"block_tokens"}, []string{"trace", "mooncake"}},
	{[]string{"skip_bad_rows"}, []string{"sharegpt", "custom", "trace", "mooncake", "burstgpt", "azure"}},
	{[]string{"url", "sha256"}, []string{"sharegpt", "mmmu", "custom", "text", "trace", "mooncake", "burstgpt", "azure"}},
}

// dataset fills in what a dataset has as defaults, and reports keys that belong to
// another one.
func (b *builder) dataset(path string, w *workload) {
	for _, d := range datasetKeys {
		for _, key := range d.keys {
			if w.Dataset != "" && b.set(path+"."+key) && !slices.Contains(d.datasets, w.Dataset) {
				b.report(path+"."+key, "has no effect on dataset %s, it belongs to %s", w.Dataset, strings.Join(d.datasets, ", "))
			}
		}
	}
	switch w.Dataset {
	case "generated-shared-prefix":
		w.GSPGroups, w.GSPPrompts = or(w.GSPGroups, 64), or(w.GSPPrompts, 16)
		w.GSPSystem, w.GSPQuestion, w.GSPOutput = or(w.GSPSystem, 2048), or(w.GSPQuestion, 128), or(w.GSPOutput, 256)
		if !b.set(path + ".gsp_range_ratio") {
			w.GSPRangeRatio = 1
		}
	case "image":
		w.ImageCount, w.ImageResolution = or(w.ImageCount, 1), or(w.ImageResolution, "1080p")
		w.ImageFormat, w.ImageContent = or(w.ImageFormat, "jpeg"), or(w.ImageContent, "random")
	}
	if slices.Contains([]string{"generated-shared-prefix", "mooncake", "trace"}, w.Dataset) && !b.set(path+".cache") {
		w.Cache = string(probes.CacheShared)
	}
}

// shape is the part of a workload that its dataset's own keys make up.
func (w *workload) shape(out *probes.Workload) {
	out.URL, out.SHA256, out.SkipBadRows = w.URL, w.SHA256, w.SkipBadRows
	out.Groups = probes.Groups{
		Count: w.GSPGroups, PromptsOfEach: w.GSPPrompts, SystemTokens: w.GSPSystem, QuestionTokens: w.GSPQuestion,
		OutputTokens: w.GSPOutput, RangeRatio: w.GSPRangeRatio, ZipfAlpha: w.GSPZipf, Ordered: w.GSPOrdered,
	}
	out.Images = probes.ImageShape{Count: w.ImageCount, RandomCount: w.RandomImageCount, Resolution: w.ImageResolution, Format: w.ImageFormat, Content: w.ImageContent}
	out.SetAdapters(w.adapters())
	out.Trace = probes.Trace{TimeUnit: w.TimeUnit, Slowdown: w.Slowdown, Rounds: w.Rounds, Name: w.MooncakeTrace, BlockTokens: w.BlockTokens}
}

// adapters are the LoRA adapters of the requests.
func (w *workload) adapters() probes.Adapters {
	a := probes.Adapters{Names: w.LoRA, Choice: probes.AdapterChoice(w.LoRADistribution), Alpha: w.LoRAAlpha}
	if a.Choice == probes.AdaptersSkewed {
		a.Alpha = or(a.Alpha, 1.5)
	}
	if len(a.Names) == 0 && a.Choice == probes.AdaptersUniform {
		a.Choice = "" // the default of nothing
	}
	return a
}

// lengths are the largest prompt and answer of a workload; 0 is not known.
func lengths(w probes.Workload) (in, out int) {
	switch w.Dataset {
	case "sharegpt", "custom", "trace", "mooncake", "burstgpt", "azure":
		return w.ContextTokens, or(w.FixedOutputTokens, w.ContextTokens)
	case "generated-shared-prefix":
		return w.Groups.SystemTokens + w.Groups.QuestionTokens, w.Groups.OutputTokens
	case "image", "mmmu":
		// What an image adds only the server's model knows.
		return 0, w.OutputTokens
	}
	return w.InputTokens, w.OutputTokens
}

// file reports a dataset's file that cannot be read. A mooncake trace may be named
// inside a folder.
func (b *builder) file(path string, w *workload) {
	if info, err := os.Stat(w.Path); w.Dataset == "mooncake" && err == nil && info.IsDir() {
		b.readable(path, filepath.Join(w.Path, or(w.MooncakeTrace, "conversation")+"_trace.jsonl"))
		return
	}
	b.readable(path, w.Path)
}
