package cli

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// Reference is REFERENCE.md: every command and flag, written from the flag sets
// that parse them.
func Reference() []byte {
	var b bytes.Buffer
	b.WriteString(referenceHead)
	for _, c := range commands() {
		fmt.Fprintf(&b, "\n## inferbeat %s\n\n    inferbeat %s\n\n%s\n", c.name, c.usage, c.about)
		flags := &flagSet{FlagSet: newFlags()}
		c.define(flags)
		for _, g := range flags.groups {
			if len(flags.groups) > 1 {
				fmt.Fprintf(&b, "\n### %s\n", g.title)
			}
			b.WriteString("\n| flag | value | default | meaning |\n| --- | --- | --- | --- |\n")
			g.flags.VisitAll(func(f *pflag.Flag) { b.WriteString(referenceRow(f)) })
		}
	}
	return b.Bytes()
}

const referenceHead = `<!-- Written by go generate from the flag sets of daemon/cli. Do not edit. -->

# Command line reference

Flags are written ` + "`--name value` or `--name=value`" + `; switches are ` + "`--name`" + `. All mistakes of a call are reported at once.

| exit status | meaning |
| --- | --- |
| 0 | pass: no promise was broken, or the command did its work |
| 1 | fail: a promise was broken, or the target did not answer |
| 2 | the call, the configuration or a file is wrong |
| 3 | unknown: nothing was measured, the measurement is invalid, or it was cut short |

Results go to the standard output; mistakes, failures, logs and progress to the standard error. The values of secrets are in neither.
`

func referenceRow(f *pflag.Flag) string {
	kind, meaning := pflag.UnquoteUsage(f)
	if kind = strings.TrimSpace(kind); kind == "" || f.Value.Type() == "bool" {
		kind = "switch"
	}
	byDefault := ""
	if f.DefValue != "" && f.DefValue != "[]" && f.DefValue != "false" && !strings.Contains(meaning, "(default") {
		byDefault = "`" + f.DefValue + "`"
	}
	return fmt.Sprintf("| `--%s` | %s | %s | %s |\n", f.Name, kind, byDefault, strings.ReplaceAll(meaning, "|", `\|`))
}
