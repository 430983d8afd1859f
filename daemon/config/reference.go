package config

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
)

// Reference is REFERENCE.md: every key of the configuration file, written from
// the types that read it.
func Reference() []byte {
	var b bytes.Buffer
	b.WriteString(referenceHead)
	section(&b, root, "", map[reflect.Type]string{})
	return b.Bytes()
}

const referenceHead = `<!-- Written by go generate from daemon/config/schema.go. Do not edit. -->

# Configuration reference

A configuration is one or more YAML files, environment variables and flags; later ones win. Mappings merge key by
key, lists of named things merge by name, all other lists are replaced as a whole. Unknown keys, keys without a value
and keys that occur twice are errors, and all mistakes are reported at once.

- **Durations** have a unit: ` + "`300ms`, `30s`, `1h30m`, `7d`, `2w`" + `. Only ` + "`0`" + ` may be bare.
- **Counts** may be written in thousands, millions and billions: ` + "`200k`, `5M`, `4G`" + `.
- **Sizes** are in bytes, thousands of them and so on: ` + "`512MB`, `4GB`" + `.
- **Shares** are ` + "`99%` or `0.99`" + `.
- **Names** match ` + "`[a-zA-Z0-9][a-zA-Z0-9_.:/-]*`" + `.
- **Paths** are relative to the file they stand in; those from the environment and from flags to the working directory.
- **` + "`${NAME}`" + `** in a value of a file is replaced by the environment variable; a missing or empty one is an error. Inside braces it needs quotes: ` + "`{api_key: \"${KEY}\"}`. `$${`" + ` stands for ` + "`${`" + `.
- **Environment**: ` + "`INFERBEAT_WEB__LISTEN_ADDRESS`" + ` sets ` + "`web.listen_address`" + `. Two underscores separate levels; what is no letter or
  digit in a name is an underscore. A name that is no key is an error. Lists are written ` + "`[a, b]`" + `.
`

// section writes the table of one struct, and then the sections below it. seen
// holds the path of each type, so that none is explained twice.
func section(b *bytes.Buffer, f field, path string, seen map[reflect.Type]string) {
	title := path
	if title == "" {
		title = "Top level"
	}
	fmt.Fprintf(b, "\n## %s\n\n", title)
	if doc := f.tag.Get("doc"); doc != "" {
		fmt.Fprintf(b, "%s\n\n", doc)
	}
	b.WriteString("| key | value | default | meaning |\n| --- | --- | --- | --- |\n")
	type below struct {
		f    field
		path string
	}
	var subs []below
	for _, c := range f.fields() {
		kind, sub := describe(c)
		if sub.typ != nil {
			at := join(path, c.key+map[bool]string{true: "[]", false: ""}[c.isNamed()])
			if c.typ.Kind() == reflect.Map && !c.isNamed() {
				at += ".NAME"
				if list := c.tag.Get("enum"); list != "" {
					at = join(path, c.key) + "." + strings.ToUpper(list)
				}
			}
			if first, ok := seen[sub.typ]; ok {
				at = first
			} else {
				seen[sub.typ] = at
				sub.tag = c.tag
				subs = append(subs, below{sub, at})
			}
			what, keys, _ := strings.Cut(kind, " by ")
			kind = fmt.Sprintf("[%s](#%s)", what, anchor(at))
			if keys != "" {
				kind += " by " + keys
			}
		}
		def := c.tag.Get("default")
		if def != "" {
			def = "`" + def + "`"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", c.key, kind, def, strings.ReplaceAll(c.tag.Get("doc"), "|", `\|`))
	}
	for _, s := range subs {
		section(b, s.f, s.path, seen)
	}
}

// describe names what a key takes, and the struct below it if there is one.
func describe(f field) (string, field) {
	oneOf := "`" + strings.Join(enums[f.tag.Get("enum")], "`, `") + "`"
	switch {
	case f.isNamed():
		return "list", f.elem()
	case f.typ.Kind() == reflect.Map && f.typ.Elem().Kind() == reflect.Struct:
		if f.tag.Get("enum") != "" {
			return "mapping by " + oneOf, f.elem()
		}
		return "mapping by name", f.elem()
	case f.typ.Kind() == reflect.Map && f.typ.Elem().Kind() == reflect.Float64:
		return "mapping of shares", field{}
	case f.typ.Kind() == reflect.Map:
		return "mapping", field{}
	case f.typ.Kind() == reflect.Struct && f.tag.Get("scalar") != "":
		sub, _ := f.child(f.tag.Get("scalar"))
		kind, _ := describe(sub)
		return kind + " or mapping", field{typ: f.typ}
	case f.typ.Kind() == reflect.Struct:
		return "mapping", field{typ: f.typ}
	case f.typ.Kind() == reflect.Slice && f.tag.Get("enum") != "":
		return "list of " + oneOf, field{}
	case f.typ.Kind() == reflect.Slice && f.typ.Elem().Kind() == reflect.Float64:
		return "list of numbers", field{}
	case f.typ.Kind() == reflect.Slice && f.tag.Get("single") != "":
		return "name or list of names", field{}
	case f.typ.Kind() == reflect.Slice:
		return "list of names", field{}
	case f.tag.Get("enum") != "":
		return oneOf, field{}
	case f.typ == durationType:
		return "duration", field{}
	case f.typ == secretType:
		return "secret", field{}
	case f.typ == rawType:
		return "list, [as in Prometheus](https://prometheus.io/docs/prometheus/latest/configuration/configuration/#" + strings.TrimSuffix(f.key, "s") + ")", field{}
	case f.typ.Kind() == reflect.Bool:
		return "`true`, `false`", field{}
	case f.tag.Get("as") == "size":
		return "size", field{}
	case f.isInt():
		return "count", field{}
	case f.tag.Get("as") == "rate":
		return "number or `inf`", field{}
	case f.tag.Get("as") == "ratio":
		return "share", field{}
	case f.isFloat():
		return "number", field{}
	case f.tag.Get("as") != "":
		return f.tag.Get("as"), field{}
	}
	return "string", field{}
}

// anchor is GitHub's link to a heading.
func anchor(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return -1
	}, title)
}
