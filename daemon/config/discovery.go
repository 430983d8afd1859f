package config

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/inferbeat/inferbeat/probes"
)

// rawYAML is a value whose inside belongs to somebody else. It is kept as the text of a
// YAML document of its own, which merging cannot mangle: a later file replaces it as a
// whole.
type rawYAML string

var rawType = reflect.TypeFor[rawYAML]()

// discoveryKeys are the keys of service discovery; their inside is Prometheus's own.
var discoveryKeys = []string{"file_sd_configs", "http_sd_configs", "dns_sd_configs", "kubernetes_sd_configs", "relabel_configs"}

// Section is the value of one of the keys of service discovery.
type Section struct {
	Key  string        // e.g. file_sd_configs
	Dir  string        // relative paths are relative to it
	YAML probes.Secret // a list; the values of ${NAME} and passwords are in it
}

// SectionProblem is a mistake inside a section.
type SectionProblem struct {
	Line    int    // of the section's YAML, from 1; 0 is the section as a whole
	Message string // must not repeat a value that may be a secret
	Unknown string // an unknown key, to be compared with Known
	Known   []string
}

// Entry is an entry of targets whose targets are found by service discovery. Everything
// but their addresses, and the labels that come with them, is the entry's.
type Entry struct {
	Name     string
	Sections []Section
	// Target is what its targets have in common; it has no address.
	Target probes.Target
	Pairs  []Pair // of Target

	metricsURL string // as it is written
}

// Mechanisms are the words for how the entry's targets are found, e.g. file.
func (e *Entry) Mechanisms() []string {
	var out []string
	for _, s := range e.Sections {
		if name, ok := strings.CutSuffix(s.Key, "_sd_configs"); ok {
			out = append(out, name)
		}
	}
	return out
}

// Discovered is a target that discovery has found for an entry: its name, which may be
// empty, its base URL and the labels that relabelling has left.
type Discovered struct {
	Entry, Name, Address, URL, Pool, Model string
	Labels                                 map[string]string
}

// Rejected is a target that discovery has found and that is not probed.
type Rejected struct {
	Entry, Name string
	Reason      string // what to do about it
}

// maxDiscoveredLabels and maxDiscoveredValue bound what a discovered target brings along:
// a labelmap of Kubernetes can bring anything.
const (
	maxDiscoveredName   = 200
	maxDiscoveredLabels = 20
	maxDiscoveredValue  = 200
)

// Entries lists the entries with service discovery, sorted by name.
func (c *Config) Entries() []Entry { return c.entries }

// EntryOf is the entry whose discovery has found a target; empty for one of the file.
func (c *Config) EntryOf(target string) string { return c.found[target] }

// With is the configuration with discovered targets in it, in so far as keep lets their
// names pass; nil lets all. What is written in the file comes first and then what is
// found, in the order that it is given in: of two of one name the first stays. The
// configuration itself is not changed.
func (c *Config) With(found []Discovered, keep func(target string) bool) (*Config, []Rejected) {
	out := *c
	out.targets, out.pairs, out.comparisons, out.found = nil, nil, nil, map[string]string{}
	kept := func(name string) bool { return keep == nil || keep(name) }
	taken := map[string]bool{}
	for _, t := range c.targets {
		taken[t.Name] = true
		if kept(t.Name) {
			out.targets = append(out.targets, t)
		}
	}
	for _, p := range c.pairs {
		if kept(p.Target.Name) {
			out.pairs = append(out.pairs, p)
		}
	}
	var rejected []Rejected
	all := map[string][]probes.Target{} // by entry, those of other shards included
	for _, d := range found {
		i := slices.IndexFunc(c.entries, func(e Entry) bool { return e.Name == d.Entry })
		if i < 0 {
			continue
		}
		e := &c.entries[i]
		t, err := e.instance(d)
		switch {
		case err != nil:
			rejected = append(rejected, Rejected{d.Entry, t.Name, err.Error()})
			continue
		case taken[t.Name]:
			rejected = append(rejected, Rejected{d.Entry, t.Name, "another target has that name: let relabel_configs write one of its own into the label target"})
			continue
		}
		taken[t.Name], out.found[t.Name] = true, e.Name
		all[e.Name] = append(all[e.Name], t)
		if !kept(t.Name) {
			continue
		}
		out.targets = append(out.targets, t)
		for _, p := range e.Pairs {
			p.Target = withTimeouts(t, p.Target.Timeouts)
			out.pairs = append(out.pairs, p)
		}
	}
	slices.SortStableFunc(out.targets, func(a, b probes.Target) int { return strings.Compare(a.Name, b.Name) })
	slices.SortStableFunc(out.pairs, func(a, b Pair) int { return strings.Compare(a.Target.Name, b.Target.Name) })
	for _, list := range all {
		slices.SortFunc(list, func(a, b probes.Target) int { return strings.Compare(a.Name, b.Name) })
	}
	for _, compared := range c.comparisons {
		if compared, ok := compared.between(all); ok && kept(compared.Candidate.Name) {
			out.comparisons = append(out.comparisons, compared)
		}
	}
	return &out, rejected
}

// Without is the configuration without some targets, and without the comparisons that
// would ask them.
func (c *Config) Without(targets map[string]bool) *Config {
	out := *c
	out.targets = slices.DeleteFunc(slices.Clone(c.targets), func(t probes.Target) bool { return targets[t.Name] })
	out.pairs = slices.DeleteFunc(slices.Clone(c.pairs), func(p Pair) bool { return targets[p.Target.Name] })
	out.comparisons = slices.DeleteFunc(slices.Clone(c.comparisons), func(p plannedComparison) bool {
		return targets[p.Reference.Name] || targets[p.Candidate.Name]
	})
	return &out
}

func withTimeouts(t probes.Target, timeouts probes.Timeouts) probes.Target {
	t.Timeouts = timeouts
	return t
}

// side is which target of an entry stands on one side of a comparison; the zero side is
// a target of the file.
type side struct {
	entry string
	name  string // empty: the first by name
}

// plannedComparison is one whose targets may still have to be discovered.
type plannedComparison struct {
	Comparison
	sides [2]side // reference, candidate
}

// between puts the targets that have been found onto the sides that wait for one; false
// while there is none. The time-outs stay those of the comparison.
func (c plannedComparison) between(found map[string][]probes.Target) (plannedComparison, bool) {
	for _, s := range []struct {
		side   side
		target *probes.Target
	}{{c.sides[0], &c.Reference}, {c.sides[1], &c.Candidate}} {
		if s.side.entry == "" {
			continue
		}
		list := found[s.side.entry]
		i := slices.IndexFunc(list, func(t probes.Target) bool { return s.side.name == "" || t.Name == s.side.name })
		if i < 0 {
			return c, false
		}
		*s.target = withTimeouts(list[i], s.target.Timeouts)
	}
	discovered := c.sides != [2]side{}
	return c, !discovered || c.Reference.BaseURL != c.Candidate.BaseURL // two entries may have found one server
}

// instance makes a target of the entry out of what was found. Its name is known even
// when there is an error.
func (e *Entry) instance(d Discovered) (probes.Target, error) {
	t := e.Target
	t.Name = d.Name
	if d.Name == "" {
		t.Name = e.Name + "-" + nameOf(d.Address)
	}
	if len(t.Name) > maxDiscoveredName || !nameRE.MatchString(t.Name) {
		t.Name = nameOf(t.Name[:min(len(t.Name), maxDiscoveredName)])
		return t, fmt.Errorf("its name must match %s and have at most %d letters: see the label target of relabel_configs", nameRE, maxDiscoveredName)
	}
	base, err := parseURL(d.URL)
	if err != nil {
		return t, fmt.Errorf("its address gives no URL: %w", err)
	}
	t.BaseURL = base
	if e.metricsURL != "" {
		if t.MetricsURL, err = MetricsURL(base, e.metricsURL); err != nil {
			return t, fmt.Errorf("its metrics_url %w", err)
		}
	}
	t.Pool, t.Model = or(d.Pool, t.Pool), or(d.Model, t.Model)
	if len(t.Pool) > maxDiscoveredValue || len(t.Model) > maxDiscoveredValue {
		return t, fmt.Errorf("its label pool or model has more than %d letters", maxDiscoveredValue)
	}
	t.Labels = e.labels(d.Labels)
	return t, nil
}

// labels are those of the entry and of the discovered target, as many as are let through.
// The entry's own win: what is written down cannot be denied by what is found.
func (e *Entry) labels(found map[string]string) map[string]string {
	if len(found) == 0 {
		return e.Target.Labels
	}
	out := map[string]string{}
	for _, name := range sortedKeys(found) {
		value := found[name]
		if labelRE.MatchString(name) && !reservedLabel(name) && value != "" && len(value) <= maxDiscoveredValue && len(out) < maxDiscoveredLabels {
			out[name] = value
		}
	}
	maps.Copy(out, e.Target.Labels)
	return out
}

// nameOf makes what may stand in a name out of an address.
func nameOf(address string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x80 && nameRE.MatchString("a"+string(r)) {
			return r
		}
		return '-'
	}, address)
}

// reportInside adds a problem at a line of a section.
func (l *loader) reportInside(path string, p SectionProblem) {
	message := p.Message
	if p.Unknown != "" {
		message += DidYouMean(p.Unknown, p.Known)
	}
	l.report(path, "%s", message)
	raw, ok := l.raws[path]
	if p.Line > 0 && ok && p.Line < len(raw.lines) {
		last := &l.problems[len(l.problems)-1]
		last.File, last.Line = raw.file, raw.lines[p.Line]
	}
}

// discovery reads the keys of service discovery of an entry of targets, and writes back
// what may be shown of them. It is empty for an entry without.
func (b *builder) discovery(path string, t *target) []Section {
	var sections []Section
	found := false
	for _, key := range discoveryKeys {
		text := t.raw(key)
		at := path + "." + key
		if *text == "" {
			found = found || b.set(at) && key != "relabel_configs"
			continue
		}
		found = found || key != "relabel_configs"
		section := Section{Key: key, Dir: b.raws[at].dir, YAML: probes.Secret(*text)}
		shown := "[]"
		if check := b.checks.Discovery; check != nil {
			var problems []SectionProblem
			shown, problems = check(section)
			for _, p := range problems {
				b.reportInside(at, p)
			}
		}
		*text = b.printable(at, key, shown)
		sections = append(sections, section)
	}
	switch {
	case !found && len(sections) > 0:
		b.report(path+".relabel_configs", "has no effect without service discovery: add one of %s", strings.Join(discoveryKeys[:len(discoveryKeys)-1], ", "))
	case found && b.set(path+".url"):
		b.report(path+".url", "must not be written beside service discovery, which gives the addresses")
	}
	if !found {
		return nil
	}
	if len(sections) == 0 { // all of them were wrong, and are reported
		sections = []Section{{Key: discoveryKeys[0], YAML: "[]"}}
	}
	return sections
}

// printable puts ${NAME} back where the value of a variable stands, so that what is
// printed can be loaded again and holds no secret; not where variables mean nothing.
func (b *builder) printable(path, key, shown string) rawYAML {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(shown), &doc); err != nil || len(doc.Content) == 0 {
		return "[]"
	}
	if key != "relabel_configs" {
		values := slices.SortedFunc(maps.Keys(b.expanded), func(x, y string) int { return cmp.Or(len(y)-len(x), strings.Compare(x, y)) })
		eachText(doc.Content[0], func(text string) string {
			text = plain(text).(string)
			for _, value := range values {
				if len(value) > 4 {
					text = strings.ReplaceAll(text, value, b.expanded[value])
				}
			}
			return text
		})
	}
	text, err := yaml.Marshal(doc.Content[0])
	if err != nil {
		b.report(path, "cannot be printed")
	}
	return rawYAML(text)
}

func eachText(n *yaml.Node, change func(string) string) {
	if n.Kind == yaml.ScalarNode {
		n.Value = change(n.Value)
	}
	for _, c := range n.Content {
		eachText(c, change)
	}
}

func (t *target) raw(key string) *rawYAML {
	switch key {
	case "file_sd_configs":
		return &t.FileSD
	case "http_sd_configs":
		return &t.HTTPSD
	case "dns_sd_configs":
		return &t.DNSSD
	case "kubernetes_sd_configs":
		return &t.KubernetesSD
	}
	return &t.Relabel
}

// addressed gives a target that is still to be discovered an address of its own.
func addressed(t probes.Target, name string) probes.Target {
	if t.BaseURL == "" {
		t.BaseURL = "http://" + nameOf(name) + ".discovered"
	}
	return t
}

// entryOf finds the entry whose discovery will bring a target of a name: the entry
// itself, ENTRY/NAME for a name that relabelling writes, and ENTRY-ADDRESS.
func (b *builder) entryOf(name string) (side, bool) {
	for _, match := range []func(entry string) (string, bool){
		func(entry string) (string, bool) { return "", name == entry },
		func(entry string) (string, bool) { return strings.CutPrefix(name, entry+"/") },
		func(entry string) (string, bool) { return name, strings.HasPrefix(name, entry+"-") },
	} {
		best := side{}
		for _, e := range b.cfg.entries {
			if target, ok := match(e.Name); ok && len(e.Name) > len(best.entry) {
				best = side{e.Name, target}
			}
		}
		if best.entry != "" {
			return best, true
		}
	}
	return side{}, false
}
