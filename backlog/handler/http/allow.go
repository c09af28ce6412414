package http

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"code.dny.dev/ssrf"
)

// An allowList says where records may lead.
type allowList []allowed

// allowed is an entry of it: a name, the names below one, or addresses.
type allowed struct {
	name string       // in lower case, with a dot in front for those below it; "" for addresses
	net  netip.Prefix // the addresses
	port string       // "": any
}

// parseAllowed reads an entry such as hooks.example.org, *.example.org,
// 192.0.2.7:8443, [2001:db8::7] or 192.0.2.0/24.
func parseAllowed(text string) (a allowed, ok bool) {
	text = strings.ToLower(strings.TrimSpace(text))
	if p, err := netip.ParsePrefix(text); err == nil {
		return allowed{net: p.Masked()}, !p.Addr().Is4In6()
	}
	host := strings.Trim(text, "[]")
	if _, isAddr := parseAddress(host); !isAddr && strings.Contains(text, ":") {
		var err error
		if host, a.port, err = net.SplitHostPort(text); err != nil {
			return a, false
		}
		if n, err := strconv.ParseUint(a.port, 10, 16); err != nil || n == 0 {
			return a, false
		}
	}
	if addr, isAddr := parseAddress(host); isAddr {
		a.net = netip.PrefixFrom(addr, addr.BitLen())
		return a, true
	}
	name, below := strings.CutPrefix(strings.TrimSuffix(host, "."), "*.")
	if a.name = name; below {
		a.name = "." + name
	}
	last := name[strings.LastIndexByte(name, '.')+1:]
	return a, last != "" && !strings.ContainsFunc(name, notOfHost) && !strings.ContainsAny(name, ":[]") && (last[0] < '0' || '9' < last[0])
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

// target returns an error unless the URL's host is in the list. What
// addresses a name has is left to dial.
func (list allowList) target(u *url.URL) error {
	host, port := hostOf(u.Hostname()), portOf(u)
	addr, isAddr := parseAddress(host)
	for _, a := range list {
		if a.takes(port) && (isAddr && a.name == "" && a.net.Contains(addr) || !isAddr && a.matches(host)) {
			return nil
		}
	}
	return &refusal{fmt.Sprintf("%.300s is not in allow; add it if it may be called", net.JoinHostPort(host, port))}
}

// dial returns an error if a connection to the host, which target has found to
// be allowed, would lead to an address that no partner on the internet has,
// and that is not meant. It is meant if the list has the address, or a network
// of such addresses. A name is enough only for private addresses of a host that
// cannot have others: the owner of a public one decides where it points to.
func (list allowList) dial(host, port string, addr netip.Addr) error {
	addr = plain(addr)
	if !special(addr) {
		return nil
	}
	host = hostOf(host)
	byName := isLocalName(host) && (addr.IsLoopback() || addr.IsPrivate())
	for _, a := range list {
		if a.takes(port) && (a.name == "" && a.net.Contains(addr) && allSpecial(a.net) || byName && a.matches(host)) {
			return nil
		}
	}
	return &refusal{fmt.Sprintf("%s is at %s, which is not on the public internet; add the address to allow if that is meant", host, addr)}
}

func (a allowed) takes(port string) bool { return a.port == "" || a.port == port }

func (a allowed) matches(host string) bool {
	return a.name != "" && (a.name == host || a.name[0] == '.' && strings.HasSuffix(host, a.name))
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

// guard refuses addresses that no partner has: IANA's registries of special
// addresses, and the one at which a provider keeps the secrets of a machine.
var (
	guard    = ssrf.New(ssrf.WithAnyPort(), ssrf.WithDeniedV4Prefixes(provider))
	provider = netip.MustParsePrefix("168.63.129.16/32")
	special4 = append([]netip.Prefix{provider}, ssrf.IPv4DeniedPrefixes...)
)

// special reports whether an address is not one of the public internet.
func special(addr netip.Addr) bool {
	if ssrf.IPv6NAT64Prefix.Contains(addr) { // stands for an IPv4 address
		b := addr.As16()
		addr = netip.AddrFrom4([4]byte(b[12:]))
	}
	return guard.SafeAddr(addr) != nil
}

// allSpecial reports whether the network has none but special addresses.
func allSpecial(p netip.Prefix) bool {
	list := special4
	if p.Addr().Is6() {
		if list = ssrf.IPv6DeniedPrefixes; !ssrf.IPv6GlobalUnicast.Overlaps(p) {
			return true
		}
	}
	return slices.ContainsFunc(list, func(s netip.Prefix) bool { return s.Bits() <= p.Bits() && s.Contains(p.Addr()) })
}
