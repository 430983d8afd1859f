package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/inferbeat/inferbeat/daemon/config"
)

// flagSet is a command's flags in the groups of its help text.
type flagSet struct {
	*pflag.FlagSet // all of them, once parse has joined the groups
	groups         []flagGroup
	operands       bool // arguments that belong to no flag are the command's
}

// several are the flags whose values may follow each other, as in --lora-name a b c,
// which is how the Python tools take lists.
var several = []string{"lora-name", "batch-size"}

type flagGroup struct {
	title string
	flags *pflag.FlagSet
}

func newFlags() *pflag.FlagSet {
	f := pflag.NewFlagSet("inferbeat", pflag.ContinueOnError)
	f.SortFlags = false
	f.SetOutput(io.Discard)
	f.Usage = func() {}
	return f
}

// group begins a new group.
func (f *flagSet) group(title string) *pflag.FlagSet {
	g := flagGroup{title, newFlags()}
	f.groups = append(f.groups, g)
	return g.flags
}

// join makes the flags of all groups the set's own.
func (f *flagSet) join() {
	for _, g := range f.groups {
		f.AddFlagSet(g.flags)
	}
}

// help lists the flags, group by group.
func (f *flagSet) help() string {
	var b strings.Builder
	for _, g := range f.groups {
		fmt.Fprintf(&b, "\n%s:\n%s", g.title, g.flags.FlagUsagesWrapped(110))
	}
	return b.String()
}

// parse reads the arguments and refuses stray ones.
func (f *flagSet) parse(command string, args []string) error {
	f.join()
	err := f.Parse(f.spread(args))
	var unknown *pflag.NotExistError
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return err
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		var known []string
		f.VisitAll(func(flag *pflag.Flag) { known = append(known, "--"+flag.Name) })
		name := "--" + unknown.GetSpecifiedName()
		return fmt.Errorf("unknown flag %s%s", name, orSee(config.DidYouMean(name, known), "'inferbeat "+command+" --help' lists them"))
	case err != nil:
		return fmt.Errorf("%w; see 'inferbeat %s --help'", err, command)
	case f.NArg() > 0 && !f.operands:
		// The argument itself is not repeated: it may be the rest of a header
		// whose value has a space, and that is a key.
		return fmt.Errorf("argument %d belongs to no flag: options are written --name value, and a value with spaces in quotes; see 'inferbeat %s --help'",
			1+position(args, f.Arg(0)), command)
	}
	return nil
}

// spread repeats a flag before each of its values.
func (f *flagSet) spread(args []string) []string {
	var out []string
	flag, valued := "", false // that takes what follows, and whether it has a value
	for i, arg := range args {
		switch name, _, withValue := strings.Cut(arg, "="); {
		case arg == "--":
			return append(out, args[i:]...)
		case strings.HasPrefix(arg, "--") && slices.Contains(several, name[2:]) && f.Lookup(name[2:]) != nil:
			flag, valued = name, withValue
		case strings.HasPrefix(arg, "-") && (flag == "" || valued):
			flag = ""
		case flag != "" && valued:
			out = append(out, flag)
		default:
			valued = true
		}
		out = append(out, arg)
	}
	return out
}

// orSee is a suggestion, or else where to look.
func orSee(suggestion, see string) string {
	if suggestion == "" {
		return "; " + see
	}
	return suggestion
}

// position is where the last argument of that text stands.
func position(args []string, text string) int {
	for i := len(args) - 1; i >= 0; i-- {
		if args[i] == text {
			return i
		}
	}
	return 0
}

// mistakes collects what is wrong with a call.
type mistakes []error

// add reports a mistake in one flag.
func (m *mistakes) add(flag, format string, args ...any) {
	*m = append(*m, fmt.Errorf("--%s: %s", flag, fmt.Sprintf(format, args...)))
}

// addFields reports what a stage has found wrong, each mistake under the flag
// that sets its field.
func (m *mistakes) addFields(err error) {
	if err == nil {
		return
	}
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range several.Unwrap() {
			m.addFields(e)
		}
		return
	}
	field, text, _ := strings.Cut(err.Error(), ": ")
	if flag, ok := flagOf[field]; ok {
		m.add(flag, "%s", inFlags.Replace(text))
		return
	}
	*m = append(*m, err)
}

// flagOf names the flag that sets a field of the configuration.
var flagOf = map[string]string{
	"dataset": "dataset-name", "path": "dataset-path", "tokenizer": "tokenizer", "apply_chat_template": "apply-chat-template", "vocab_size": "vocab-size",
	"input_tokens": "random-input-len", "output_tokens": "random-output-len", "range_ratio": "random-range-ratio",
	"url": "dataset-url", "sha256": "dataset-sha256", "skip_bad_rows": "skip-bad-rows",
	"gsp_num_groups": "gsp-num-groups", "gsp_prompts_per_group": "gsp-prompts-per-group", "gsp_system_prompt_len": "gsp-system-prompt-len",
	"gsp_question_len": "gsp-question-len", "gsp_output_len": "gsp-output-len", "gsp_range_ratio": "gsp-range-ratio", "gsp_zipf_alpha": "gsp-zipf-alpha",
	"image_count": "image-count", "image_resolution": "image-resolution", "image_format": "image-format", "image_content": "image-content",
	"mooncake_slowdown_factor": "mooncake-slowdown-factor", "mooncake_num_rounds": "mooncake-num-rounds", "mooncake_workload": "mooncake-workload",
	"block_tokens": "block-tokens", "time_unit": "time-unit",
	"fixed_output_tokens": "sharegpt-output-len", "context_tokens": "sharegpt-context-len", "token_ids": "tokenize-prompt",
	"temperature": "temperature", "extra_body": "extra-request-body",
	"lora": "lora-name", "lora_request_distribution": "lora-request-distribution", "lora_zipf_alpha": "lora-zipf-alpha",
	"shard": "shard",
	"rate":  "request-rate", "cv": "burstiness", "max_concurrency": "max-concurrency", "ramp": "ramp", "start_together": "start-together",
}

// inFlags says with flags what a stage says with keys of the configuration.
var inFlags = strings.NewReplacer(
	"tokenizer: server", "--tokenizer server", "lora names", "--lora-name names", "lora_request_distribution is", "--lora-request-distribution is", "token_ids: true", "--tokenize-prompt",
	"the workload's own stream option", "--disable-stream", "api_key_file or headers", "--api-key-file or --header",
)

func (m mistakes) join() error { return errors.Join(m...) }
