package workload

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/inferbeat/inferbeat/probes"
)

// Values of [probes.ImageShape].
const (
	FormatJPEG    = "jpeg"
	FormatPNG     = "png"
	ContentRandom = "random"
	ContentBlank  = "blank"
)

// MooncakeTraces are the names of the public traces; <name>_trace.jsonl are their files.
var MooncakeTraces = []string{"conversation", "mooncake", "toolagent", "synthetic"}

// TimeUnits are what a number as a time may count.
var TimeUnits = []string{"s", "ms", "us", "ns"}

// ReadsFile reports whether a dataset is a file.
func ReadsFile(dataset string) bool {
	return dataset == ShareGPT || dataset == Custom || dataset == Text || dataset == MMMU || HasTimes(dataset)
}

// HasImages reports whether the requests of a dataset hold images.
func HasImages(dataset string) bool { return dataset == Image || dataset == MMMU }

// HasTimes reports whether the requests of a dataset bring times of their own, so
// that they can be replayed.
func HasTimes(dataset string) bool {
	return slices.Contains([]string{TraceRows, Mooncake, BurstGPT, Azure}, dataset)
}

// Shares reports whether the prompts of a dataset share prefixes on purpose, so that
// nothing about it can be cold.
func Shares(dataset string) bool { return dataset == GeneratedSharedPrefix || dataset == Mooncake }

// withDefaults fills what zero cannot mean, as bench_serving has it.
func withDefaults(w probes.Workload) probes.Workload {
	set := func(field *string, value string) {
		if *field == "" {
			*field = value
		}
	}
	if w.Dataset == Image {
		w.Images.Count = max(w.Images.Count, 1)
		set(&w.Images.Resolution, "1080p")
		set(&w.Images.Format, FormatJPEG)
		set(&w.Images.Content, ContentRandom)
	}
	return w
}

func validateGroups(w probes.Workload, refuse refuseFunc) {
	g := w.Groups
	for _, n := range []struct {
		field string
		value int
	}{
		{"gsp_num_groups", g.Count}, {"gsp_prompts_per_group", g.PromptsOfEach}, {"gsp_system_prompt_len", g.SystemTokens},
		{"gsp_question_len", g.QuestionTokens}, {"gsp_output_len", g.OutputTokens},
	} {
		if n.value < 1 || n.value > maxLength {
			refuse(n.field, "%d is not from 1 to %d", n.value, maxLength)
		}
	}
	if g.Count > 0 && g.PromptsOfEach > maxLength/g.Count {
		refuse("gsp_prompts_per_group", "%d groups of %d are too many prompts", g.Count, g.PromptsOfEach)
	}
	if !(g.RangeRatio >= 0 && g.RangeRatio <= 1) {
		refuse("gsp_range_ratio", "%v is outside 0 to 1", g.RangeRatio)
	}
	if !(g.ZipfAlpha >= 0 && g.ZipfAlpha <= 10) {
		refuse("gsp_zipf_alpha", "%v is outside 0 to 10; 0 makes all groups equally popular", g.ZipfAlpha)
	}
	validateShared(w, refuse)
	validateNoFile(w, refuse)
	if w.TokenIDs && w.Tokenizer == TokenizerApprox {
		refuse("token_ids", "words cannot be sent as ids without a tokenizer, set tokenizer: server")
	}
}

func validateShared(w probes.Workload, refuse refuseFunc) {
	if w.Cache == probes.CacheCold {
		refuse("cache", "prompts of dataset %s share prefixes on purpose, use shared or warm", w.Dataset)
	}
}

func validateNoFile(w probes.Workload, refuse refuseFunc) {
	if w.Path != "" {
		refuse("path", "dataset %s reads no file", w.Dataset)
	}
}

func validateImages(s probes.ImageShape, refuse refuseFunc) {
	if s.Count < 0 || s.Count > 64 {
		refuse("image_count", "%d is not from 1 to 64", s.Count)
	}
	if s.Resolution != "" {
		if _, err := resolution(s.Resolution); err != nil {
			refuse("image_resolution", "%v", err)
		}
	}
	if !slices.Contains([]string{"", FormatJPEG, FormatPNG}, s.Format) {
		refuse("image_format", "unknown %q, use jpeg or png", s.Format)
	}
	if !slices.Contains([]string{"", ContentRandom, ContentBlank}, s.Content) {
		refuse("image_content", "unknown %q, use random or blank", s.Content)
	}
}

func validateFile(w probes.Workload, refuse refuseFunc) {
	if w.Path == "" && w.URL == "" {
		refuse("path", "missing, name the file of dataset %s", w.Dataset)
	}
	if w.TokenIDs && slices.Contains([]string{Custom, TraceRows, Text, MMMU}, w.Dataset) {
		refuse("token_ids", "dataset %s is sent as text only", w.Dataset)
	}
	if w.TokenIDs && w.Tokenizer == TokenizerApprox {
		refuse("token_ids", "words cannot be sent as ids without a tokenizer, set tokenizer: server")
	}
	validateURL(w, refuse)
}

// validateURL holds that nothing is fetched whose content is not written down.
func validateURL(w probes.Workload, refuse refuseFunc) {
	switch sum, err := hex.DecodeString(w.SHA256); {
	case w.URL == "" && w.SHA256 == "":
	case w.URL == "":
		refuse("sha256", "belongs to a url, which is missing")
	case !strings.HasPrefix(w.URL, "https://") && !strings.HasPrefix(w.URL, "http://"):
		refuse("url", "must start with http:// or https://")
	case w.SHA256 == "":
		refuse("sha256", "missing: nothing is fetched without a checksum")
	case err != nil || len(sum) != 32:
		refuse("sha256", "must be 64 hexadecimal digits")
	}
}

func validateTrace(w probes.Workload, refuse refuseFunc) {
	t := w.Trace
	if w.Dataset == Mooncake {
		validateShared(w, refuse)
	}
	if t.TimeUnit != "" && !slices.Contains(TimeUnits, t.TimeUnit) {
		refuse("time_unit", "unknown %q, use one of %q", t.TimeUnit, TimeUnits)
	}
	if t.TimeUnit != "" && w.Dataset != TraceRows {
		refuse("time_unit", "has no effect on dataset %s, whose unit is known", w.Dataset)
	}
	if !(t.Slowdown >= 0 && t.Slowdown <= 1e6) {
		refuse("mooncake_slowdown_factor", "%v is not a factor above 0, such as 2 for half the speed", t.Slowdown)
	}
	if t.Rounds < 0 || t.Rounds > 1000 {
		refuse("mooncake_num_rounds", "%d is not from 1 to 1000", t.Rounds)
	}
	if t.Rounds > 1 && w.Dataset != Mooncake {
		refuse("mooncake_num_rounds", "has no effect on dataset %s", w.Dataset)
	}
	if t.Name != "" && !slices.Contains(MooncakeTraces, t.Name) {
		refuse("mooncake_workload", "unknown %q, use one of %q", t.Name, MooncakeTraces)
	}
	if t.BlockTokens != 0 && t.BlockTokens < headSize+4 {
		refuse("block_tokens", "%d is too small, it must be at least %d", t.BlockTokens, headSize+4)
	}
	if w.OutputTokens < 0 {
		refuse("output_tokens", "%d is negative", w.OutputTokens)
	}
	if w.FixedOutputTokens < 0 || w.ContextTokens < 0 {
		refuse("context_tokens", "lengths must not be negative")
	}
}

// traceFile is the file to read: the path, or the named mooncake trace in it.
func traceFile(w probes.Workload) (string, error) {
	info, err := os.Stat(w.Path)
	if err != nil {
		return "", fmt.Errorf("path: %w", err)
	}
	if !info.IsDir() {
		return w.Path, nil
	}
	if w.Dataset != Mooncake {
		return "", fmt.Errorf("path: %s is a folder, name a file", w.Path)
	}
	name := w.Trace.Name
	if name == "" {
		name = MooncakeTraces[0]
	}
	return filepath.Join(w.Path, name+"_trace.jsonl"), nil
}
