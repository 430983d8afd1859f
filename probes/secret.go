package probes

import "net/url"

// redacted stands wherever a secret would have been printed.
const redacted = "<secret>"

// Secret is a string that prints as "<secret>" in every verb, log, JSON, YAML
// or error text. Only Reveal gives the value, and only the code that writes a
// request header may call it.
type Secret string

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return string(s) }

// String hides the value; the empty secret stays empty so that "not set" can be told.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// GoString hides the value from %#v.
func (s Secret) GoString() string { return `"` + s.String() + `"` }

// MarshalText hides the value from JSON and every other text encoder.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalYAML hides the value from YAML dumps.
func (s Secret) MarshalYAML() (any, error) { return s.String(), nil }

// PlainURL is a URL as it may be printed and kept: without user, query and fragment,
// any of which may be a secret. It is empty for what is no URL.
func PlainURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	u.User, u.RawQuery, u.ForceQuery, u.Fragment, u.RawFragment = nil, "", false, "", ""
	return u.String()
}
