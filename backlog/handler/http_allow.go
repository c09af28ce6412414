package handler

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// An allowList says where records may lead.
type allowList []allowed

// allowed is an entry of it: a name, the names below one, or addresses.
type allowed struct {
	name  string       // in lower case; "" for addresses
	below bool         // the names below it are meant, written *.name
	net   netip.Prefix // the addresses
	port  string       // "": any
}

// parseAllow reads entries such as hooks.example.org, *.example.org,
// 192.0.2.7:8443, [2001:db8::7] and 192.0.2.0/24.
func parseAllow(entries []string) (allowList, error) {
	list := make(allowList, len(entries))
	for i, entry := range entries {
		var err error
		if list[i], err = parseAllowed(strings.ToLower(strings.TrimSpace(entry))); err != nil {
			return nil, fmt.Errorf("allow: %q %w", entry, err)
		}
	}
	return list, nil
}

func parseAllowed(text string) (a allowed, err error) {
	if strings.Contains(text, "://") || text == "" {
		return a, errors.New("is not a host; write its name or address alone, such as hooks.example.org")
	}
	if strings.Contains(text, "/") {
		p, err := netip.ParsePrefix(text)
		if err != nil || p.Addr().Is4In6() {
			return a, errors.New("is no network; write one like 192.0.2.0/24")
		}
		return allowed{net: p.Masked()}, nil
	}
	host := text
	if addr, ok := parseAddress(strings.Trim(text, "[]")); ok {
		return allowed{net: netip.PrefixFrom(addr, addr.BitLen())}, nil
	}
	if strings.Contains(text, ":") {
		if host, a.port, err = net.SplitHostPort(text); err != nil {
			return a, errors.New("is no host and port; write them like hooks.example.org:8443 or [2001:db8::7]:8443")
		}
		if n, err := strconv.ParseUint(a.port, 10, 16); err != nil || n == 0 {
			return a, errors.New("has a port that is not a number from 1 to 65535")
		}
	}
	if addr, ok := parseAddress(host); ok {
		a.net = netip.PrefixFrom(addr, addr.BitLen())
		return a, nil
	}
	a.name, a.below = strings.CutPrefix(strings.TrimSuffix(host, "."), "*.")
	last := a.name[strings.LastIndexByte(a.name, '.')+1:]
	if last == "" || strings.ContainsFunc(a.name, notOfHost) || strings.ContainsAny(a.name, ":[]") || '0' <= last[0] && last[0] <= '9' {
		return a, errors.New("is no host; write a name, *.name for all names below one, or an address")
	}
	return a, nil
}

// parseAddress reads an address. An IPv4 one has the same form however it is
// written.
func parseAddress(text string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(text)
	return plain(addr), err == nil
}

func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// A refusal is the error for a place that is not allowed.
type refusal struct{ text string }

func (r *refusal) Error() string { return r.text }

// maxHost is the length of the longest name in DNS.
const maxHost = 253

// target returns an error unless the URL's host is in the list. What
// addresses a name has is left to dial.
func (list allowList) target(u *url.URL) error {
	host, port := hostOf(u.Hostname()), portOf(u)
	if len(host) > maxHost {
		return &refusal{fmt.Sprintf("%.40q… is no host: it has %d bytes, and a name has %d at most", host, len(host), maxHost)}
	}
	addr, isAddr := parseAddress(host)
	for _, a := range list {
		switch {
		case a.port != "" && a.port != port:
		case isAddr && a.name == "" && a.net.Contains(addr), !isAddr && a.matches(host):
			return nil
		}
	}
	return &refusal{fmt.Sprintf("%s is not in allow; add it if it may be called", net.JoinHostPort(host, port))}
}

// dial returns an error if a connection to the host, which target has found to
// be allowed, would lead to an address that no partner on the internet has,
// and that is not meant. It is meant if the list has the address, or a network
// of such addresses. A name is enough only for private addresses of a host that
// cannot have others: the owner of a public one decides where it points to.
func (list allowList) dial(host, port string, addr netip.Addr) error {
	addr = plain(addr)
	kind := special(addr)
	if kind == "" {
		return nil
	}
	host = hostOf(host)
	byName := isLocalName(host) && (addr.IsLoopback() || addr.IsPrivate())
	for _, a := range list {
		switch {
		case a.port != "" && a.port != port:
		case a.name == "" && a.net.Contains(addr) && withinSpecial(a.net), byName && a.matches(host):
			return nil
		}
	}
	if _, isAddr := parseAddress(host); isAddr {
		return &refusal{fmt.Sprintf("%s is %s address; add it to allow if that is meant", addr, kind)}
	}
	return &refusal{fmt.Sprintf("%s is at %s, %s address; add the address to allow if that is meant", host, addr, kind)}
}

func (a allowed) matches(host string) bool {
	if a.below {
		return strings.HasSuffix(host, "."+a.name)
	}
	return a.name != "" && a.name == host
}

// hostOf returns the host as it is compared.
func hostOf(host string) string { return strings.TrimSuffix(strings.ToLower(host), ".") }

// isLocalName reports whether the name cannot be one of the public internet:
// it has no dot, or a last label that is reserved for private use.
func isLocalName(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	switch last {
	case host, "localhost", "local", "internal", "test":
		return true
	}
	return strings.HasSuffix(host, ".home.arpa")
}

// specials are the networks in which there are no partners: IANA's registries
// of special addresses, and where providers keep the secrets of a machine. Of
// IPv6 only 2000::/3 is in public use.
var specials = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16/32", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
	"192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	"::/3", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "4000::/2", "8000::/1",
)

// nat64 are IPv6 addresses for IPv4 ones, in their last 32 bits.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

func prefixes(texts ...string) []netip.Prefix {
	list := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		list[i] = netip.MustParsePrefix(text)
	}
	return list
}

// special returns the kind of a plain address that is not one of the public
// internet, with its article, else "".
func special(addr netip.Addr) string {
	if nat64.Contains(addr) {
		b := addr.As16()
		addr = netip.AddrFrom4([4]byte(b[12:]))
	}
	if !withinSpecial(netip.PrefixFrom(addr, addr.BitLen())) {
		return ""
	}
	switch {
	case addr.IsLoopback():
		return "a loopback"
	case addr.IsPrivate():
		return "a private"
	case addr.IsLinkLocalUnicast():
		return "a link-local"
	case addr.IsMulticast():
		return "a multicast"
	}
	return "an internal"
}

// withinSpecial reports whether the network has none but special addresses.
func withinSpecial(p netip.Prefix) bool {
	for _, s := range specials {
		if s.Bits() <= p.Bits() && s.Contains(p.Addr()) {
			return true
		}
	}
	return false
}
