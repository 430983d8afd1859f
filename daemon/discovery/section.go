package discovery

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	commonconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/discovery/dns"
	"github.com/prometheus/prometheus/discovery/file"
	"github.com/prometheus/prometheus/discovery/http"
	"github.com/prometheus/prometheus/discovery/kubernetes"
	"github.com/prometheus/prometheus/model/relabel"
	yamlv2 "go.yaml.in/yaml/v2" // the YAML that Prometheus's types read themselves from
	"go.yaml.in/yaml/v3"
)

// Section is the value of one key of service discovery.
type Section struct {
	Key  string // one of the mechanisms' keys, or relabel_configs
	Dir  string // relative paths are relative to it
	YAML string // a list in block style; may hold secrets
}

// Problem is a mistake in a section. It repeats no value that may be a secret.
type Problem struct {
	Line    int // of the section's text, from 1; 0 is the section as a whole
	Message string
	Unknown string // an unknown key, to be compared with Known
	Known   []string
}

// relabelKey is the one key that names no mechanism.
const relabelKey = "relabel_configs"

// mechanisms are the ways of finding targets, by their keys.
var mechanisms = map[string]func() discovery.Config{
	"file_sd_configs":       func() discovery.Config { return &file.SDConfig{} },
	"http_sd_configs":       func() discovery.Config { return &http.SDConfig{} },
	"dns_sd_configs":        func() discovery.Config { return &dns.SDConfig{} },
	"kubernetes_sd_configs": func() discovery.Config { return &kubernetes.SDConfig{} },
}

// item is one element of a section's list.
type item struct {
	text string // identifies it: equal texts find equal targets
	line int
	// One of the two is set.
	config  discovery.Config
	relabel *relabel.Config
}

// value is what is printed of it.
func (i *item) value() any {
	if i.relabel != nil {
		return i.relabel
	}
	return i.config
}

// Check reads a section. shown is its YAML with all defaults, absolute paths and every
// secret hidden; without meaning when there are problems.
func Check(s Section) (shown string, problems []Problem) {
	items, problems := s.items()
	if len(problems) > 0 {
		return "", problems
	}
	values := make([]any, len(items))
	for i := range items {
		values[i] = items[i].value()
		if c, ok := values[i].(*http.SDConfig); ok {
			hidden := *c
			hidden.URL = withoutQuery(c.URL, "?<secret>")
			values[i] = &hidden
		}
	}
	text, err := yamlv2.Marshal(values)
	if err != nil {
		return "", []Problem{{Message: "cannot be printed"}}
	}
	return string(text), nil
}

// items reads the list.
func (s Section) items() (items []item, problems []Problem) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(s.YAML), &doc); err != nil || len(doc.Content) == 0 || doc.Content[0].Kind != yaml.SequenceNode {
		return nil, []Problem{{Message: "must be a list"}}
	}
	for _, n := range doc.Content[0].Content {
		text, err := yaml.Marshal(n)
		if err != nil || n.Kind != yaml.MappingNode {
			problems = append(problems, Problem{Line: n.Line, Message: "holds an item that is not a mapping"})
			continue
		}
		it := item{text: string(text), line: n.Line}
		found := it.read(s)
		items, problems = append(items, it), append(problems, found...)
	}
	return items, problems
}

// read decodes the item as what its section holds.
func (i *item) read(s Section) []Problem {
	var into any
	if s.Key == relabelKey {
		i.relabel = &relabel.Config{}
		into = i.relabel
	} else {
		i.config = mechanisms[s.Key]()
		into = i.config
	}
	if err := yamlv2.UnmarshalStrict([]byte(i.text), into); err != nil {
		return i.problems(err, into)
	}
	if i.relabel != nil {
		i.relabel.NameValidationScheme = model.LegacyValidation
		return i.problems(i.relabel.Validate(model.LegacyValidation), into)
	}
	if c, ok := i.config.(*http.SDConfig); ok {
		if u, err := url.Parse(c.URL); err != nil || u.User != nil {
			return []Problem{{Line: i.line, Message: "must not hold a user or a password in url: send them with basic_auth"}}
		}
	}
	if c, ok := i.config.(commonconfig.DirectorySetter); ok {
		c.SetDirectory(s.Dir)
	}
	return nil
}

var (
	lineRE    = regexp.MustCompile(`^line (\d+): (.*)$`)
	unknownRE = regexp.MustCompile(`^field (.+) not found in type `)
	twiceRE   = regexp.MustCompile(`^(?:field|key) "?(.+?)"? already set`)
	typeRE    = regexp.MustCompile("^cannot unmarshal !!([a-z]+)(?: `.*`)? into (\\S+)$")
	plainRE   = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)
	quotedRE  = regexp.MustCompile("`[^`]*`|\"[^\"]*(?:://|@)[^\"]*\"")
)

// problems puts the words of Prometheus and its YAML reader into ours. They quote what
// they cannot read, which may be a password in the wrong place.
func (i *item) problems(err error, into any) (out []Problem) {
	if err == nil {
		return nil
	}
	var several *yamlv2.TypeError
	if !errors.As(err, &several) {
		// With the cause alone: the URL of a parse error is what holds the password.
		var bad *url.Error
		if errors.As(err, &bad) {
			return []Problem{{Line: i.line, Message: "holds a URL that is none"}}
		}
		return []Problem{{Line: i.line, Message: quotedRE.ReplaceAllString(err.Error(), "(not shown)")}}
	}
	for _, text := range several.Errors {
		p := Problem{Line: i.line, Message: text}
		if m := lineRE.FindStringSubmatch(text); m != nil {
			line, _ := strconv.Atoi(m[1])
			p.Line, p.Message = i.line+line-1, m[2]
		}
		switch {
		case unknownRE.MatchString(p.Message):
			p.Unknown = unknownRE.FindStringSubmatch(p.Message)[1]
			p.Message, p.Known = "unknown key "+shownKey(p.Unknown), knownKeys(into)
		case twiceRE.MatchString(p.Message):
			p.Message = "key " + shownKey(twiceRE.FindStringSubmatch(p.Message)[1]) + " occurs twice"
		case typeRE.MatchString(p.Message):
			m := typeRE.FindStringSubmatch(p.Message)
			p.Message = fmt.Sprintf("holds a %s where Prometheus wants %s", kindOf(m[1]), typeWord(m[2]))
		default:
			p.Message = quotedRE.ReplaceAllString(p.Message, "(not shown)")
		}
		out = append(out, p)
	}
	return out
}

func shownKey(key string) string {
	if !plainRE.MatchString(key) {
		return "(not shown, it is not a plain word)"
	}
	return key
}

func kindOf(tag string) string {
	if word, ok := map[string]string{"map": "mapping", "seq": "list", "str": "string"}[tag]; ok {
		return word
	}
	return "value of kind " + tag
}

func typeWord(name string) string {
	switch {
	case strings.HasPrefix(name, "[]"), strings.HasSuffix(name, "LabelNames"):
		return "a list"
	case name == "string", name == "bool":
		return "a " + name
	case name == "int", name == "uint64", name == "float64":
		return "a number"
	}
	return "a mapping or another kind of value"
}

// knownKeys are all keys that may stand anywhere inside.
func knownKeys(of any) []string {
	keys := map[string]bool{}
	var walk func(t reflect.Type, depth int)
	walk = func(t reflect.Type, depth int) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || depth == 0 {
			return
		}
		for field := range t.Fields() {
			if key, _, _ := strings.Cut(field.Tag.Get("yaml"), ","); key != "" && key != "-" {
				keys[key] = true
			}
			if field.IsExported() {
				walk(field.Type, depth-1)
			}
		}
	}
	walk(reflect.TypeOf(of), 5)
	return slices.Sorted(maps.Keys(keys))
}

// withoutQuery cuts off what may hold a token.
func withoutQuery(text, mark string) string {
	if before, _, ok := strings.Cut(text, "?"); ok {
		return before + mark
	}
	return text
}
