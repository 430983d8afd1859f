package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/inferbeat/inferbeat/probes"
)

// Redacted is the effective configuration as YAML, defaults included and every
// secret as <secret>. It can be loaded again.
func (c *Config) Redacted() ([]byte, error) {
	n, err := c.node(reflect.ValueOf(c.doc), root, "")
	if err != nil {
		return nil, fmt.Errorf("write configuration: %w", err)
	}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(n); err != nil {
		return nil, fmt.Errorf("write configuration: %w", err)
	}
	return b.Bytes(), nil
}

// SHA256 identifies the effective configuration. It is the hash of
// [Config.Redacted]: nothing about a secret can be found out from it, and it
// stays the same when one is rotated.
func (c *Config) SHA256() string {
	text, err := c.Redacted()
	if err != nil {
		panic(err) // every value came from YAML
	}
	return hexSum(text)
}

func hexSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Fingerprint identifies the content of files. It reads through symbolic links,
// so that the swap of a Kubernetes ConfigMap, which touches no file that anyone
// could watch, changes it. Files that cannot be read are part of it.
func Fingerprint(files []string) string {
	all := sha256.New()
	for _, name := range files {
		text, err := os.ReadFile(name)
		state := hexSum(text)
		if err != nil {
			state = cause(err)
		}
		io.WriteString(all, name+"\x00"+state+"\x00")
	}
	return hex.EncodeToString(all.Sum(nil))
}

// node writes a value as its field is read. Keys that are not set are left out,
// unless their default is not zero.
func (c *Config) node(v reflect.Value, f field, path string) (*yaml.Node, error) {
	switch {
	case f.isNamed():
		n := &yaml.Node{Kind: yaml.SequenceNode}
		for _, name := range sortedKeys(keysOf(v)) {
			item, err := c.node(v.MapIndex(reflect.ValueOf(name)), f.elem(), path+"["+name+"]")
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, item)
		}
		return n, nil
	case v.Kind() == reflect.Map && f.typ.Elem().Kind() != reflect.Interface:
		n := &yaml.Node{Kind: yaml.MappingNode}
		for _, name := range sortedKeys(keysOf(v)) {
			if err := c.put(n, name, v.MapIndex(reflect.ValueOf(name)), f.elem(), join(path, name)); err != nil {
				return nil, err
			}
		}
		return n, nil
	case v.Kind() == reflect.Struct:
		n := &yaml.Node{Kind: yaml.MappingNode}
		for i, sub := range f.fields() {
			at := join(path, sub.key)
			_, defaulted := sub.tag.Lookup("default")
			_, set := c.set[at]
			if empty(v.Field(i)) && !defaulted && !set {
				continue
			}
			if err := c.put(n, sub.key, v.Field(i), sub, at); err != nil {
				return nil, err
			}
		}
		return n, nil
	}
	var n yaml.Node
	if raw, ok := v.Interface().(rawYAML); ok {
		return raw.node()
	}
	return &n, n.Encode(plain(v.Interface()))
}

func (c *Config) put(n *yaml.Node, key string, v reflect.Value, f field, path string) error {
	value, err := c.node(v, f, path)
	if err != nil {
		return err
	}
	if (value.Kind == yaml.MappingNode || value.Kind == yaml.SequenceNode) && len(value.Content) == 0 {
		value.Style = yaml.FlowStyle
	}
	name := &yaml.Node{Kind: yaml.ScalarNode}
	name.SetString(key)
	n.Content = append(n.Content, name, value)
	return nil
}

func keysOf(v reflect.Value) map[string]bool {
	out := map[string]bool{}
	for _, k := range v.MapKeys() {
		out[k.String()] = true
	}
	return out
}

func empty(v reflect.Value) bool {
	if v.Kind() == reflect.Map {
		return v.Len() == 0
	}
	return v.IsZero()
}

// plain is what YAML shall show of a leaf.
func plain(v any) any {
	switch x := v.(type) {
	case time.Duration:
		return formatDuration(x)
	case probes.Secret:
		return x.String()
	case string:
		return strings.ReplaceAll(x, "${", "$${") // it would be replaced when loaded again
	case probes.Environment:
		return string(x)
	}
	return v
}
