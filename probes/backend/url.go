package backend

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/inferbeat/inferbeat/probes"
)

// BaseURL makes a base URL of a host and a port, as flags give them. Port 0 means
// not given: the backend's default port is used then, and a host such as ::1:8000
// is refused, because it is an address as well as an address with a port. An IPv6
// address may stand with or without brackets and may have a zone.
func BaseURL(name, host string, port int) (string, error) {
	if port < 0 || port > 65535 {
		return "", fmt.Errorf("build base url: port %d is out of range", port)
	}
	bare, bracketed := host, false
	if strings.HasPrefix(host, "[") {
		inner, rest, closed := strings.Cut(host[1:], "]")
		if !closed || (rest != "" && (port != 0 || !isPort(strings.TrimPrefix(rest, ":")) || rest[0] != ':')) {
			return "", fmt.Errorf("build base url: host %q is malformed, write [address] or [address]:port", host)
		}
		bare, bracketed = inner, true
		if rest != "" {
			port, _ = strconv.Atoi(rest[1:])
		}
	}
	if at := strings.LastIndexByte(bare, ':'); at >= 0 && !bracketed && port == 0 {
		before, after := bare[:at], bare[at+1:]
		switch {
		case !strings.Contains(before, ":") && isPort(after): // name:8000
			bare = before
			port, _ = strconv.Atoi(after)
		case isIPv6(before) && isPort(after):
			return "", fmt.Errorf("build base url: host %q is ambiguous, write [%s]:%s", host, before, after)
		}
	}
	if bare == "" || strings.ContainsAny(bare, "/?#@[] \t\r\n") {
		return "", fmt.Errorf("build base url: %q is not a host", host)
	}
	authority := bare
	if bracketed || strings.Contains(bare, ":") {
		if !isIPv6(bare) {
			return "", fmt.Errorf("build base url: %q is not an IPv6 address", host)
		}
		authority = "[" + escapeZone(bare) + "]"
	}
	if port == 0 {
		port = defaultPort(name)
	}
	switch port {
	case 0:
		return "http://" + authority, nil
	case 443:
		return "https://" + authority, nil
	}
	return "http://" + authority + ":" + strconv.Itoa(port), nil
}

// escapeZone writes the zone of an IPv6 address as a URL must hold it.
func escapeZone(address string) string {
	ip, zone, ok := strings.Cut(address, "%")
	if !ok {
		return address
	}
	return ip + "%25" + strings.TrimPrefix(zone, "25")
}

func isIPv6(s string) bool {
	addr, err := netip.ParseAddr(strings.Replace(s, "%25", "%", 1))
	return err == nil && addr.Is6()
}

func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0
}

// CleanURL checks a base URL and brings it into the form in which it may be
// printed and joined, without a slash at the end: scheme://host[:port][/prefix], or for
// a socket of this host unix:///path/of.sock[:/prefix], as nginx writes it.
// Its errors do not repeat the URL, which may hold a password.
func CleanURL(raw string) (string, error) {
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil {
		return "", errors.New("parse base url: malformed, write scheme://host[:port][/prefix], an IPv6 address in brackets")
	}
	switch host := u.Hostname(); {
	case u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "unix":
		return "", errors.New("parse base url: must start with http:// or https:// (or be unix:///path/of.sock)")
	case u.User != nil:
		return "", errors.New("parse base url: must not hold a user or password; use api_key_file or headers")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "", errors.New("parse base url: must not hold a query or a fragment")
	case u.Scheme == "unix":
		return cleanSocket(u)
	case host == "":
		return "", errors.New("parse base url: has no host")
	case strings.Contains(host, ":") != strings.HasPrefix(u.Host, "["):
		return "", fmt.Errorf("parse base url: host is ambiguous, write an IPv6 address in brackets, as in %s://[::1]:8000", u.Scheme)
	}
	if p := u.Port(); strings.HasSuffix(u.Host, ":") || p != "" && !isPort(p) {
		return "", errors.New("parse base url: the port must be a number from 1 to 65535")
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), strings.TrimRight(u.RawPath, "/")
	return u.String(), nil
}

// cleanSocket is CleanURL for a socket.
func cleanSocket(u *url.URL) (string, error) {
	socket, prefix, _ := strings.Cut(u.EscapedPath(), ":")
	prefix = strings.TrimRight(prefix, "/")
	if u.Host != "" || !strings.HasPrefix(socket, "/") || strings.HasSuffix(socket, "/") || prefix != "" && prefix[0] != '/' {
		return "", errors.New("parse base url: write a socket as unix:///path/of.sock, with a prefix as unix:///path/of.sock:/prefix")
	}
	if prefix == "" {
		return "unix://" + socket, nil
	}
	return "unix://" + socket + ":" + prefix, nil
}

// joinURL appends a request path to a base URL. A prefix of the base is kept; a
// base that ends in /v1 and a path that starts with it share that part.
func joinURL(base, path string) (string, error) {
	server, prefix, err := splitBase(base)
	if err != nil {
		return "", err
	}
	path = "/" + strings.TrimLeft(path, "/")
	if strings.HasSuffix(prefix, "/v1") && (path == "/v1" || strings.HasPrefix(path, "/v1/")) {
		prefix = strings.TrimSuffix(prefix, "/v1")
	}
	return server + prefix + path, nil
}

// splitBase takes a base URL apart where a request path would follow the server.
func splitBase(base string) (server, prefix string, err error) {
	if base, err = CleanURL(base); err != nil {
		return "", "", err
	}
	scheme, rest, _ := strings.Cut(base, "://")
	if scheme == "unix" {
		socket, prefix, _ := strings.Cut(rest, ":")
		return "unix://" + socket + ":", prefix, nil
	}
	if at := strings.IndexByte(rest, '/'); at >= 0 {
		rest, prefix = rest[:at], rest[at:]
	}
	return scheme + "://" + rest, prefix, nil
}

// sameOrigin reports whether two URLs have scheme, host and port in common.
func sameOrigin(a, b string) bool {
	one, err := url.Parse(a)
	other, failed := url.Parse(b)
	return err == nil && failed == nil && one.Scheme == other.Scheme && one.Host != "" &&
		strings.EqualFold(one.Hostname(), other.Hostname()) && portOf(one) == portOf(other)
}

func portOf(u *url.URL) string {
	if u.Port() == "" && u.Scheme == "https" {
		return "443"
	}
	if u.Port() == "" {
		return "80"
	}
	return u.Port()
}

// engineURL joins a path of the engine's own API, which lies beside /v1 and not
// below it.
func engineURL(base, path string) (string, error) {
	server, prefix, err := splitBase(base)
	if err != nil {
		return "", err
	}
	return server + strings.TrimSuffix(prefix, "/v1") + "/" + strings.TrimLeft(path, "/"), nil
}

// withoutQuery is a URL as it may be printed: no user, query or fragment.
func withoutQuery(raw string) string {
	return cmp.Or(probes.PlainURL(raw), "(unreadable)")
}
