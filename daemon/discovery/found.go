package discovery

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
)

// The labels that decide, beside __address__ and __scheme__.
const (
	basePathLabel = "__base_path__" // between the address and the backend's own path
	nameLabel     = "target"
	poolLabel     = "pool"
	modelLabel    = "model"
)

// Found is one target that discovery has found.
type Found struct {
	Entry   string // whose discovery it was
	Name    string // empty when relabelling has written none
	Address string // host, port and base path
	URL     string
	Pool    string // empty, or in place of the entry's
	Model   string // likewise
	// Labels are the others that relabelling has left.
	Labels map[string]string
}

// find relabels one target; false when it is dropped or has no address.
func find(entry string, rules []*relabel.Config, group, target model.LabelSet) (Found, bool) {
	b := labels.NewBuilder(labels.EmptyLabels())
	b.Set(model.SchemeLabel, "http")
	for _, set := range []model.LabelSet{group, target} {
		for name, value := range set {
			b.Set(string(name), string(value))
		}
	}
	if !relabel.ProcessBuilder(b, rules...) {
		return Found{}, false
	}
	address := b.Get(model.AddressLabel)
	if address == "" {
		return Found{}, false
	}
	path := strings.Trim(b.Get(basePathLabel), "/")
	if path != "" {
		path = "/" + path
	}
	f := Found{
		Entry: entry, Name: b.Get(nameLabel), Address: address + path,
		// Not by url.URL, which would mend what the check of the URL must see.
		URL:  b.Get(model.SchemeLabel) + "://" + address + (&url.URL{Path: path}).EscapedPath(),
		Pool: b.Get(poolLabel), Model: b.Get(modelLabel),
	}
	b.Range(func(l labels.Label) {
		switch l.Name {
		case nameLabel, poolLabel, modelLabel:
			return
		}
		if strings.HasPrefix(l.Name, model.ReservedLabelPrefix) {
			return
		}
		if f.Labels == nil {
			f.Labels = map[string]string{}
		}
		f.Labels[l.Name] = l.Value
	})
	return f, true
}

// findAll relabels groups, in the order of the addresses. What several providers have
// found alike is one target.
func findAll(entry string, rules []*relabel.Config, groups []*targetgroup.Group) []Found {
	var out []Found
	for _, g := range groups {
		for _, target := range g.Targets {
			if f, ok := find(entry, rules, g.Labels, target); ok {
				out = append(out, f)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Found) int {
		return cmp.Or(strings.Compare(a.URL, b.URL), strings.Compare(a.Name, b.Name))
	})
	return slices.CompactFunc(out, func(a, b Found) bool { return a.URL == b.URL && a.Name == b.Name })
}
