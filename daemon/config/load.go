package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"
	"go.yaml.in/yaml/v3"
)

// loader collects layers and problems.
type loader struct {
	env      map[string]string
	checks   Checks
	layers   []map[string]any
	expanded map[string]string   // values that came from ${NAME}, with that text
	where    map[string]position // of every key that was written, valid or not
	raws     map[string]rawText  // where the lines of a rawYAML were written
	problems Problems
	// unreadable is set when a file is missing as a whole: what it defines would
	// otherwise be reported as undefined.
	unreadable bool
}

// set reports whether a key was written, valid or not.
func (l *loader) set(path string) bool { _, ok := l.where[path]; return ok }

// report adds a problem at a key, or at the nearest key around it that was written.
func (l *loader) report(path, format string, args ...any) {
	p := Problem{Path: path, Message: strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; ")}
	for at := path; at != ""; at = at[:max(0, strings.LastIndexAny(at, ".["))] {
		if pos, ok := l.where[at]; ok {
			p.File, p.Line = pos.file, pos.line
			break
		}
	}
	l.problems = append(l.problems, p)
}

// reader reads one source; relative paths in it are relative to dir.
func (l *loader) reader(source, dir string) *reader {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs // so that the printed configuration means the same elsewhere
	}
	return &reader{file: source, dir: dir, where: l.where, raws: l.raws, problems: &l.problems, budget: maxNodes}
}

func (l *loader) add(r *reader, n *yaml.Node) {
	if tree, ok := r.value(n, root, ""); ok {
		l.layers = append(l.layers, tree.(map[string]any))
	}
}

// file reads one YAML file. An empty file says nothing.
func (l *loader) file(name string) {
	r := l.reader(name, filepath.Dir(name))
	r.env, r.expanded = l.env, l.expanded
	fail := func(line int, text string) {
		l.unreadable = true
		l.problems = append(l.problems, Problem{File: name, Line: line, Message: text})
	}
	text, err := os.ReadFile(name)
	if err != nil {
		fail(0, "read file: "+cause(err))
		return
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return
	case err != nil:
		fail(syntaxError(err))
		return
	}
	switch err := dec.Decode(&more); {
	case err == nil:
		fail(more.Line, "holds a second document: one file is one document")
	case !errors.Is(err, io.EOF):
		fail(syntaxError(err))
	}
	if n := doc.Content[0]; n.ShortTag() != "!!null" || n.Value != "" {
		l.add(r, n)
	}
}

var syntaxRE = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)`)

// syntaxError takes the line out of a YAML error. Anchors are the only piece of
// the file that such an error repeats, and an unquoted secret may look like one.
func syntaxError(err error) (int, string) {
	m := syntaxRE.FindStringSubmatch(err.Error())
	if m == nil {
		return 0, "is not YAML"
	}
	line, _ := strconv.Atoi(m[1])
	if strings.Contains(m[2], "anchor") {
		return line, "is not YAML: unknown anchor; a value that starts with * needs quotes"
	}
	if strings.Contains(m[2], "expected ',' or '}'") {
		return line, "is not YAML: " + m[2] + "; inside braces a value with { } [ ] , or : needs quotes, ${NAME} too"
	}
	return line, "is not YAML: " + m[2]
}

// cause is why a file could not be read, without its name.
func cause(err error) string {
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		err = pe.Err
	}
	return err.Error()
}

// merge lays the layers over the defaults and decodes the result.
func (l *loader) merge() (document, error) {
	var doc document
	// Names may hold any delimiter that could be typed.
	written := koanf.New("\x00")
	for _, layer := range l.layers {
		if err := written.Load(confmap.Provider(layer, ""), nil); err != nil {
			return doc, fmt.Errorf("merge configuration: %w", err)
		}
	}
	tree := written.Raw()
	all := koanf.New("\x00")
	for _, layer := range []map[string]any{defaults(root, tree), tree} {
		if err := all.Load(confmap.Provider(layer, ""), nil); err != nil {
			return doc, fmt.Errorf("merge configuration: %w", err)
		}
	}
	if err := all.UnmarshalWithConf("", &doc, koanf.UnmarshalConf{Tag: "yaml"}); err != nil {
		return doc, fmt.Errorf("decode configuration: %w", err)
	}
	return doc, nil
}

// defaults is the first layer: the default tags of every section, and of every
// named thing that the tree defines.
func defaults(f field, tree map[string]any) map[string]any {
	out := map[string]any{}
	if f.typ.Kind() == reflect.Map {
		for name, entry := range tree {
			sub, _ := entry.(map[string]any)
			out[name] = defaults(f.elem(), sub)
		}
		return out
	}
	for _, c := range f.fields() {
		sub, _ := tree[c.key].(map[string]any)
		switch text, ok := c.tag.Lookup("default"); {
		case ok:
			out[c.key], _ = parseScalar(c, text, "")
		case c.typ.Kind() == reflect.Struct,
			c.typ.Kind() == reflect.Map && c.typ.Elem().Kind() == reflect.Struct:
			out[c.key] = defaults(c, sub)
		}
	}
	return out
}

const envPrefix = "INFERBEAT_"

// reservedRE are names that are not keys: what the command line reads, and what
// Kubernetes sets in every pod when a Service is called inferbeat or inferbeat-x.
var reservedRE = regexp.MustCompile(`^INFERBEAT_(CONFIG|([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?))$`)

func environ(list []string) map[string]string {
	out := map[string]string{}
	for _, kv := range list {
		if name, value, ok := strings.Cut(kv, "="); ok {
			out[name] = value
		}
	}
	return out
}

// leaf is a value that can be set from the environment or by a flag.
type leaf struct {
	keys  []string
	field field
}

func (f leaf) envName() string {
	name := envPrefix + strings.ToUpper(strings.Join(f.keys, "__"))
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, name)
}

// leaves lists the values of the schema, those of named things under the names
// that the layers define.
func leaves(f field, layers []map[string]any, keys []string) []leaf {
	sub := func(c field, key string) []leaf {
		var under []map[string]any
		for _, layer := range layers {
			if m, ok := layer[key].(map[string]any); ok {
				under = append(under, m)
			}
		}
		return leaves(c, under, append(slices.Clip(keys), key))
	}
	var out []leaf
	switch {
	case f.typ.Kind() == reflect.Struct:
		if f.tag.Get("scalar") != "" {
			out = append(out, leaf{keys, f})
		}
		for _, c := range f.fields() {
			out = append(out, sub(c, c.key)...)
		}
	case f.typ.Kind() == reflect.Map && f.typ.Elem().Kind() != reflect.Interface:
		names := map[string]bool{}
		for _, name := range enums[f.tag.Get("enum")] {
			names[name] = true
		}
		for _, layer := range layers {
			for name := range layer {
				names[name] = true
			}
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			out = append(out, sub(f.elem(), name)...)
		}
	default:
		out = append(out, leaf{keys, f})
	}
	return out
}

// variables reads INFERBEAT_… variables. Two underscores separate levels; one is
// understood where only one key can be meant.
func (l *loader) variables() {
	var names []string
	for name := range l.env {
		if strings.HasPrefix(name, envPrefix) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return
	}
	exact, loose := map[string][]leaf{}, map[string][]leaf{}
	for _, f := range leaves(root, l.layers, nil) {
		name := f.envName()
		flat := strings.ReplaceAll(name, "__", "_")
		exact[name] = append(exact[name], f)
		loose[flat] = append(loose[flat], f)
	}
	known := slices.Sorted(maps.Keys(exact))
	for _, name := range slices.Sorted(slices.Values(names)) {
		r := l.reader("environment variable "+name, ".")
		found := exact[name]
		if found == nil {
			found = loose[name]
		}
		switch text := l.env[name]; {
		case len(found) > 1:
			var keys []string
			for _, f := range found {
				keys = append(keys, strings.Join(f.keys, "."))
			}
			r.problem(&yaml.Node{}, "", "may mean %s: set it in a file", strings.Join(keys, " or "))
		case len(found) == 1:
			l.add(r, nest(root, found[0].keys, envNode(found[0].field, text)))
		case !reservedRE.MatchString(name):
			r.problem(&yaml.Node{}, "", "unknown name%s", DidYouMean(name, known))
		}
	}
}

// envNode is a variable's text as YAML: a string where the field holds one, so
// that a key of digits stays a string.
func envNode(f field, text string) *yaml.Node {
	str := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
	if f.typ.Kind() == reflect.String && f.typ != rawType || text == "" {
		return str
	}
	var doc yaml.Node
	if yaml.Unmarshal([]byte(text), &doc) != nil || len(doc.Content) == 0 {
		return str
	}
	unline(doc.Content[0])
	return doc.Content[0]
}

// unline removes line numbers, which mean nothing outside of a file.
func unline(n *yaml.Node) {
	n.Line = 0
	for _, c := range n.Content {
		unline(c)
	}
}

// overrides reads the values of flags.
func (l *loader) overrides(values map[string]any) {
	if len(values) == 0 {
		return
	}
	known := map[string][]string{} // names may hold dots
	for _, f := range leaves(root, l.layers, nil) {
		for i := range f.keys {
			known[strings.Join(f.keys[:i+1], ".")] = f.keys[:i+1]
		}
	}
	for _, path := range slices.Sorted(maps.Keys(values)) {
		r := l.reader("command line", ".")
		var n yaml.Node
		if err := n.Encode(values[path]); err != nil {
			r.problem(&n, path, "holds a value that YAML cannot hold")
			continue
		}
		head, rest := path, []string(nil)
		for known[head] == nil && head != "" {
			cut := max(0, strings.LastIndexByte(head, '.'))
			rest = append(rest, strings.TrimPrefix(head[cut:], "."))
			head = head[:cut]
		}
		slices.Reverse(rest)
		l.add(r, nest(root, slices.Concat(known[head], rest), &n))
	}
}

// nest wraps a value into the mappings and lists that lead to it.
func nest(f field, keys []string, v *yaml.Node) *yaml.Node {
	if len(keys) == 0 {
		return v
	}
	key := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: keys[0]}
	next, isMap := field{}, f.typ != nil && f.typ.Kind() == reflect.Map
	if isMap {
		next = f.elem()
	} else if c, ok := f.child(keys[0]); ok {
		next = c
	}
	inner := nest(next, keys[1:], v)
	if isMap && f.isNamed() {
		if inner.Kind == yaml.MappingNode {
			name := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: "name"}
			inner.Content = append([]*yaml.Node{name, key}, inner.Content...)
		}
		return &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{inner}}
	}
	return &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{key, inner}}
}
