package config

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// position is where a key was written.
type position struct {
	file string
	line int
}

// reader turns the YAML nodes of one source into a layer, checking every value
// against the schema where it stands.
type reader struct {
	file     string            // names the source in problems
	dir      string            // relative paths are relative to it
	env      map[string]string // for ${NAME}; nil leaves it alone
	expanded map[string]string // collects NAME by value
	where    map[string]position
	raws     map[string]rawText
	problems *Problems
	// budget is how many nodes may still be visited: aliases of aliases make a
	// small file unfold into millions of values.
	budget int
	merges int // depth of << at this moment
}

const (
	maxNodes = 250_000
	maxDepth = 50 // of extra_body; an alias may refer to itself
)

func (r *reader) problem(n *yaml.Node, path, format string, args ...any) {
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; ")
	*r.problems = append(*r.problems, Problem{File: r.file, Line: n.Line, Path: path, Message: text})
}

// spend takes nodes off the budget. What is beyond it is reported once.
func (r *reader) spend(nodes int, n *yaml.Node, path string) bool {
	before := r.budget
	r.budget -= nodes
	if r.budget < 0 && before >= 0 {
		r.problem(n, path, "the file unfolds to more than %d values: are there aliases of aliases?", maxNodes)
	}
	return r.budget >= 0
}

// value reads the node as what the field holds. It reports false after a problem.
func (r *reader) value(n *yaml.Node, f field, path string) (any, bool) {
	if !r.spend(1, n, path) {
		return nil, false
	}
	if n.Kind == yaml.AliasNode {
		n = &yaml.Node{Kind: n.Alias.Kind, Tag: n.Alias.Tag, Value: n.Alias.Value, Style: n.Alias.Style, Content: n.Alias.Content, Line: n.Line}
	}
	if _, seen := r.where[path]; !seen || n.Kind == yaml.ScalarNode {
		r.where[path] = position{r.file, n.Line}
	}
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		// An empty key over a section must not wipe it, and never mean zero.
		r.problem(n, path, "is empty: write a value, or remove the key")
		return nil, false
	}
	switch {
	case f.typ == rawType:
		return r.raw(n, f, path)
	case f.tag.Get("scalar") != "" && n.Kind == yaml.ScalarNode:
		sub, _ := f.child(f.tag.Get("scalar"))
		v, ok := r.value(n, sub, path)
		return map[string]any{sub.key: v}, ok
	case f.isNamed():
		return r.named(n, f, path)
	case f.typ.Kind() == reflect.Struct:
		return r.structure(n, f, path)
	case f.typ.Kind() == reflect.Map && f.typ.Elem().Kind() == reflect.Interface:
		v, ok := r.free(n, path, maxDepth)
		if _, isMap := v.(map[string]any); ok && !isMap {
			r.problem(n, path, "must be a mapping, not a %s", kindName(n))
			return nil, false
		}
		return v, ok
	case f.typ.Kind() == reflect.Map:
		return r.mapping(n, f, path)
	case f.typ.Kind() == reflect.Slice && f.typ.Elem().Kind() == reflect.Float64:
		return r.numbers(n, f, path)
	case f.typ.Kind() == reflect.Slice:
		return r.words(n, f, path)
	}
	return r.scalar(n, f, path)
}

type entry struct {
	key   string
	name  *yaml.Node
	value *yaml.Node
}

// entries lists the keys of a mapping, those of << included, and reports keys
// that occur twice.
func (r *reader) entries(n *yaml.Node, path string, hideKeys bool) []entry {
	if n.Kind != yaml.MappingNode {
		r.problem(n, path, "must be a mapping, not a %s", kindName(n))
		return nil
	}
	var list, merged []entry
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Tag == "!!merge" {
			merged = append(merged, r.merged(v, path, hideKeys)...)
			continue
		}
		if k.Kind != yaml.ScalarNode {
			r.problem(k, path, "holds a key that is a %s", kindName(k))
			continue
		}
		if first, twice := lines[k.Value]; twice {
			name := k.Value
			if hideKeys || !plainRE.MatchString(name) {
				name = "(not shown)"
			}
			r.problem(k, path, "key %s occurs twice, first in line %d", name, first)
			continue
		}
		lines[k.Value] = k.Line
		list = append(list, entry{k.Value, k, v})
	}
	for _, e := range merged {
		if _, own := lines[e.key]; !own {
			lines[e.key] = e.name.Line
			list = append(list, e)
		}
	}
	return list
}

// merged lists what a << key brings in.
func (r *reader) merged(v *yaml.Node, path string, hideKeys bool) []entry {
	if r.merges++; r.merges > maxDepth { // a mapping can merge itself
		r.problem(v, path, "<< is nested too deep")
		return nil
	}
	defer func() { r.merges-- }()
	switch v.Kind {
	case yaml.AliasNode:
		return r.merged(v.Alias, path, hideKeys)
	case yaml.SequenceNode:
		var list []entry
		for _, item := range v.Content {
			list = append(list, r.merged(item, path, hideKeys)...)
		}
		return list
	}
	if !r.spend(len(v.Content), v, path) {
		return nil
	}
	return r.entries(v, path, hideKeys)
}

func (r *reader) structure(n *yaml.Node, f field, path string) (any, bool) {
	out := map[string]any{}
	var known []string
	for _, c := range f.fields() {
		known = append(known, c.key)
	}
	for _, e := range r.entries(n, path, false) {
		c, ok := f.child(e.key)
		if !ok {
			r.unknown(e, path, known)
			continue
		}
		if v, ok := r.value(e.value, c, join(path, e.key)); ok {
			out[e.key] = v
		}
	}
	return out, n.Kind == yaml.MappingNode
}

func (r *reader) unknown(e entry, path string, known []string) {
	if !plainRE.MatchString(e.key) {
		r.problem(e.name, path, "unknown key (not shown, it is not a plain word)")
		return
	}
	r.problem(e.name, join(path, e.key), "unknown key%s", DidYouMean(e.key, known))
	if meant := nearest(e.key, known); meant != "" {
		// What was meant is then not reported as missing on top.
		r.where[join(path, meant)] = position{r.file, e.name.Line}
	}
}

// mapping reads a map whose keys are the user's, or a closed list.
func (r *reader) mapping(n *yaml.Node, f field, path string) (any, bool) {
	out := map[string]any{}
	valid := enums[f.tag.Get("enum")]
	for _, e := range r.entries(n, path, f.typ.Elem() == secretType) {
		switch {
		case valid != nil && !slices.Contains(valid, e.key):
			r.unknown(e, path, valid)
			continue
		case f.typ.Elem() == secretType && !tokenRE.MatchString(e.key):
			// The key is not shown: "Authorization: Bearer x" in quotes is one key.
			r.problem(e.name, path, "holds a header name that is none; is the value inside the quotes of the name?")
			continue
		case f.key == "labels" && !labelRE.MatchString(e.key):
			r.problem(e.name, path, "label name %q must match %s", e.key, labelRE)
			continue
		case f.typ.Elem().Kind() == reflect.Struct && !nameRE.MatchString(e.key):
			r.problem(e.name, path, "name %q must match %s", e.key, nameRE)
			continue
		}
		if v, ok := r.value(e.value, f.elem(), join(path, e.key)); ok {
			out[e.key] = v
		}
	}
	return out, n.Kind == yaml.MappingNode
}

// named reads a list of named things as a map by name.
func (r *reader) named(n *yaml.Node, f field, path string) (any, bool) {
	if n.Kind != yaml.SequenceNode {
		r.problem(n, path, "must be a list, not a %s", kindName(n))
		return nil, false
	}
	out := map[string]any{}
	for i, item := range n.Content {
		nth := fmt.Sprintf("%s[#%d]", path, i+1)
		name := &yaml.Node{}
		plain := item
		if item.Kind == yaml.AliasNode {
			plain = item.Alias
		}
		for k := 0; k+1 < len(plain.Content) && plain.Kind == yaml.MappingNode; k += 2 {
			if plain.Content[k].Value == "name" {
				name = plain.Content[k+1]
			}
		}
		switch {
		case name.Kind != yaml.ScalarNode:
			r.problem(item, nth, "needs a name")
		case !nameRE.MatchString(name.Value):
			r.problem(name, nth+".name", "must match %s", nameRE)
		case out[name.Value] != nil:
			r.problem(item, path+"["+name.Value+"]", "the name occurs twice in this list")
		default:
			v, ok := r.value(item, f.elem(), path+"["+name.Value+"]")
			if entry, isMap := v.(map[string]any); ok && isMap {
				entry["name"] = name.Value // also when it is not a string to YAML, e.g. 1
				out[name.Value] = entry
			}
		}
	}
	return out, true
}

// words reads a list of strings.
func (r *reader) words(n *yaml.Node, f field, path string) (any, bool) {
	if n.Kind == yaml.ScalarNode && f.tag.Get("single") != "" {
		n = &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{n}}
	}
	if n.Kind != yaml.SequenceNode {
		r.problem(n, path, "must be a list, e.g. [a, b], not a %s", kindName(n))
		return nil, false
	}
	item := field{typ: f.typ.Elem(), tag: f.tag}
	out := []string{}
	for _, c := range n.Content {
		v, ok := r.scalar(c, item, path)
		if !ok {
			continue
		}
		if slices.Contains(out, v.(string)) {
			r.problem(c, path, "names %q twice", v)
			continue
		}
		out = append(out, v.(string))
	}
	return out, true
}

// numbers reads a list of numbers.
func (r *reader) numbers(n *yaml.Node, f field, path string) (any, bool) {
	if n.Kind != yaml.SequenceNode {
		r.problem(n, path, "must be a list, e.g. [1, 2], not a %s", kindName(n))
		return nil, false
	}
	item := field{typ: f.typ.Elem(), tag: f.tag}
	out := []float64{}
	for _, c := range n.Content {
		if v, ok := r.scalar(c, item, path); ok {
			out = append(out, v.(float64))
		}
	}
	return out, len(out) == len(n.Content)
}

// scalar reads one value. A problem quotes it as it is written in the file, with
// ${NAME} in place, and not at all where it may be a secret.
func (r *reader) scalar(n *yaml.Node, f field, path string) (any, bool) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	isText := f.typ.Kind() == reflect.String
	if n.Kind != yaml.ScalarNode {
		r.problem(n, path, "must be a %s, not a %s", typeName(f), kindName(n))
		return nil, false
	}
	if isText && n.ShortTag() != "!!str" {
		r.problem(n, path, "must be a string: put the value in quotes")
		return nil, false
	}
	text := n.Value
	if r.env != nil {
		var err error
		if text, err = expand(text, r.env, r.expanded); err != nil {
			r.problem(n, path, "%v", err)
			return nil, false
		}
	}
	v, err := parseScalar(f, text, r.dir)
	switch {
	case err != nil && f.secret():
		r.problem(n, path, "%v", err)
	case err != nil:
		r.problem(n, path, "%v, got %q%s", err, n.Value, DidYouMean(n.Value, enums[f.tag.Get("enum")]))
	case isText && text == "":
		r.problem(n, path, "is empty: write a value, or remove the key")
	default:
		return v, true
	}
	return nil, false
}

// free reads what has no schema, as JSON can hold it.
func (r *reader) free(n *yaml.Node, path string, depth int) (any, bool) {
	if depth == 0 {
		r.problem(n, path, "is nested more than %d deep", maxDepth)
		return nil, false
	}
	if !r.spend(1, n, path) {
		return nil, false
	}
	switch n.Kind {
	case yaml.AliasNode:
		return r.free(n.Alias, path, depth-1)
	case yaml.MappingNode:
		out := map[string]any{}
		all := true
		for _, e := range r.entries(n, path, false) {
			v, ok := r.free(e.value, path, depth-1)
			out[e.key], all = v, all && ok
		}
		return out, all
	case yaml.SequenceNode:
		out, all := []any{}, true
		for _, c := range n.Content {
			v, ok := r.free(c, path, depth-1)
			out, all = append(out, v), all && ok
		}
		return out, all
	}
	if n.ShortTag() == "!!null" && n.Value == "" {
		r.problem(n, path, "holds an empty key: write a value, or null")
		return nil, false
	}
	var v any
	if tag := n.ShortTag(); tag == "!!timestamp" || tag == "!!str" {
		v = n.Value
	} else if err := n.Decode(&v); err != nil {
		r.problem(n, path, "holds a value that JSON cannot hold")
		return nil, false
	}
	if x, ok := v.(float64); ok && (math.IsNaN(x) || math.IsInf(x, 0)) {
		r.problem(n, path, "holds a number that JSON cannot hold")
		return nil, false
	}
	return v, true
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func kindName(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "mapping"
	case yaml.SequenceNode:
		return "list"
	case yaml.AliasNode:
		return kindName(n.Alias)
	}
	return "single value"
}

func typeName(f field) string {
	switch {
	case f.typ == durationType:
		return "duration"
	case f.typ.Kind() == reflect.String:
		return "string"
	case f.typ.Kind() == reflect.Bool:
		return "boolean"
	}
	return "number"
}
