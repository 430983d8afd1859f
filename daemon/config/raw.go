package config

import (
	"bytes"

	"go.yaml.in/yaml/v3"
)

// rawText says where a rawYAML comes from.
type rawText struct {
	file  string
	dir   string // relative paths in it are relative to it
	lines []int  // in the file, by the line of the text; index 0 is not used
}

// raw reads a list whose items belong to somebody else. The text has one value a line, so
// that a mistake inside can be told by its line in the file.
func (r *reader) raw(n *yaml.Node, f field, path string) (any, bool) {
	if n.Kind != yaml.SequenceNode {
		r.problem(n, path, "must be a list, not a %s", kindName(n))
		return nil, false
	}
	expands := r.env != nil && f.tag.Get("verbatim") == ""
	block, ok := r.block(n, path, expands, maxDepth)
	if !ok {
		return nil, false
	}
	text, again, err := encodeBlock(block)
	if err != nil {
		r.problem(n, path, "holds a value that YAML cannot hold")
		return nil, false
	}
	raw := rawText{file: r.file, dir: r.dir, lines: make([]int, 2+bytes.Count(text, []byte("\n")))}
	raw.locate(again, block)
	r.raws[path] = raw
	return string(text), true
}

func encodeBlock(n *yaml.Node) (text []byte, again *yaml.Node, err error) {
	if text, err = yaml.Marshal(n); err != nil {
		return nil, nil, err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, nil, err
	}
	return text, doc.Content[0], nil
}

// locate walks two trees of one shape and notes which line of the one is which of the
// other.
func (t *rawText) locate(in, from *yaml.Node) {
	if in.Line < len(t.lines) && t.lines[in.Line] == 0 {
		t.lines[in.Line] = from.Line
	}
	for i := range min(len(in.Content), len(from.Content)) {
		t.locate(in.Content[i], from.Content[i])
	}
}

// block copies a tree without its aliases, comments and braces. Plain values in which a
// variable was replaced are read anew, as if they had been written like that.
func (r *reader) block(n *yaml.Node, path string, expands bool, depth int) (*yaml.Node, bool) {
	if depth == 0 {
		r.problem(n, path, "is nested more than %d deep", maxDepth)
		return nil, false
	}
	if !r.spend(1, n, path) {
		return nil, false
	}
	if n.Kind == yaml.AliasNode {
		return r.block(n.Alias, path, expands, depth-1)
	}
	out := &yaml.Node{Kind: n.Kind, Tag: n.Tag, Value: n.Value, Line: n.Line}
	if n.Kind == yaml.ScalarNode {
		out.Style = n.Style &^ yaml.TaggedStyle
		if !expands {
			return out, true
		}
		text, err := expand(n.Value, r.env, r.expanded)
		if err != nil {
			r.problem(n, path, "%v", err)
			return nil, false
		}
		if text != n.Value && n.Style == 0 {
			out.Tag = ""
		}
		out.Value = text
		return out, true
	}
	all := true
	for _, c := range n.Content {
		item, ok := r.block(c, path, expands, depth-1)
		out.Content, all = append(out.Content, item), all && ok
	}
	if len(out.Content) == 0 {
		out.Style = yaml.FlowStyle
	}
	return out, all
}

// node is a rawYAML as a value of the printed configuration.
func (text rawYAML) node() (*yaml.Node, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		return nil, err
	}
	if len(doc.Content) == 0 {
		return &yaml.Node{Kind: yaml.SequenceNode}, nil
	}
	return doc.Content[0], nil
}
