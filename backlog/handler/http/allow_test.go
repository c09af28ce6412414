package http

import (
	"net"
	"net/netip"
	"net/url"
	"testing"
)

func allowListOf(t *testing.T, entries ...string) (list allowList) {
	t.Helper()
	for _, entry := range entries {
		a, ok := parseAllowed(entry)
		if !ok {
			t.Fatalf("%q is no host", entry)
		}
		list = append(list, a)
	}
	return list
}

func TestAllowTarget(t *testing.T) {
	t.Parallel()
	list := allowListOf(t,
		"Hooks.Example.org", "only.example.org:8443", "*.below.example.org", " spaces.example.org ", "dot.example.org.",
		"192.0.2.7", "192.0.2.8:81", "198.51.100.0/24", "2001:db8::7", "[2001:db8::8]", "[2001:db8::9]:81", "127.0.0.0/8",
	)
	for target, want := range map[string]bool{
		"https://hooks.example.org/x":            true,
		"http://HOOKS.example.ORG.:8080/":        true,
		"https://xhooks.example.org/":            false,
		"https://hooks.example.org.evil.org/":    false,
		"https://only.example.org:8443/":         true,
		"https://only.example.org/":              false,
		"https://a.below.example.org/":           true,
		"https://a.b.below.example.org/":         true,
		"https://below.example.org/":             false,
		"https://evilbelow.example.org/":         false,
		"https://spaces.example.org/":            true,
		"https://dot.example.org/":               true,
		"http://192.0.2.7:1234/":                 true,
		"http://192.0.2.9/":                      false,
		"http://192.0.2.8:81/":                   true,
		"http://192.0.2.8/":                      false,
		"http://198.51.100.255/":                 true,
		"http://[::ffff:198.51.100.255]/":        true,
		"http://198.51.101.0/":                   false,
		"http://[2001:db8::7]/":                  true,
		"http://[2001:DB8:0::8]/":                true,
		"http://[2001:db8::9]:81/":               true,
		"http://[2001:db8::9]/":                  false,
		"http://127.1/":                          false, // some resolvers would take it
		"http://2130706433/":                     false,
		"http://0x7f.0.0.1/":                     false,
		"http://localhost/":                      false,
		"http://127.9.9.9/":                      true,
		"http://[fe80::1%25eth0]/":               false,
		"http://169.254.169.254/latest/metadata": false,
	} {
		u, err := url.Parse(target)
		if err != nil {
			t.Fatal(err)
		}
		if err := list.checkURL(u); (err == nil) != want {
			t.Errorf("%s: %v, want allowed: %v", target, err, want)
		}
	}
}

func TestAllowDial(t *testing.T) {
	t.Parallel()
	all := []string{"hooks.example.org", "billing.internal", "localhost", "10.1.0.0/16", "10.2.0.1:8080", "0.0.0.0/0", "::/0", "fd00:7::/32"}
	for _, tt := range []struct {
		host, port, addr string
		want             string // "": allowed
	}{
		{"hooks.example.org", "443", "93.184.216.34", ""},
		{"hooks.example.org", "443", "2606:2800:220:1::1", ""},
		{"hooks.example.org", "443", "::ffff:93.184.216.34", ""},
		{"hooks.example.org", "443", "64:ff9b::5db8:d822", ""}, // 93.184.216.34 behind NAT64
		{"hooks.example.org", "443", "127.0.0.1", "hooks.example.org is at 127.0.0.1, which is not on the public internet; add the address to allow if that is meant"},
		{"hooks.example.org", "443", "169.254.169.254", "hooks.example.org is at 169.254.169.254, which is not on the public internet; add the address to allow if that is meant"},
		{"hooks.example.org", "443", "192.168.1.1", "hooks.example.org is at 192.168.1.1, which is not on the public internet; add the address to allow if that is meant"},
		{"hooks.example.org", "443", "0.0.0.0", "hooks.example.org is at 0.0.0.0, which is not on the public internet; add the address to allow if that is meant"},
		{"hooks.example.org", "443", "::", "hooks.example.org is at ::, which is not on the public internet; add the address to allow if that is meant"},
		{"hooks.example.org", "443", "224.0.0.1", "hooks.example.org is at 224.0.0.1, which is not on the public internet; add the address to allow if that is meant"},
		{"hooks.example.org", "443", "::ffff:127.0.0.1", "hooks.example.org is at 127.0.0.1, which is not on the public internet; add the address to allow if that is meant"},
		{"hooks.example.org", "443", "fe80::1%eth0", "hooks.example.org is at fe80::1, which is not on the public internet; add the address to allow if that is meant"},
		{"hooks.example.org", "443", "10.1.2.3", ""},
		{"hooks.example.org", "443", "10.2.0.1", "hooks.example.org is at 10.2.0.1, which is not on the public internet; add the address to allow if that is meant"},
		{"hooks.example.org", "8080", "10.2.0.1", ""},
		{"hooks.example.org", "443", "fd00:7::1", ""},
		{"billing.internal", "443", "10.9.9.9", ""},
		{"other.internal", "443", "10.9.9.9", "other.internal is at 10.9.9.9, which is not on the public internet; add the address to allow if that is meant"},
		{"billing.internal", "443", "169.254.169.254", "billing.internal is at 169.254.169.254, which is not on the public internet; add the address to allow if that is meant"},
		{"LOCALHOST.", "80", "127.0.0.1", ""},
		{"localhost", "80", "::1", ""},
	} {
		list := allowListOf(t, all...)
		got := ""
		if err := list.checkAddress(tt.host, tt.port, netip.MustParseAddr(tt.addr)); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s at %s: %q, want %q", tt.host, tt.addr, got, tt.want)
		}
	}
}

func TestSpecialAddresses(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]bool{
		"1.1.1.1": false, "8.8.8.8": false, "100.63.255.255": false, "100.64.0.0": true, "100.127.255.255": true, "100.128.0.0": false,
		"9.255.255.255": false, "10.0.0.0": true, "11.0.0.0": false, "172.15.255.255": false, "172.16.0.0": true, "172.31.255.255": true,
		"172.32.0.0": false, "192.167.255.255": false, "192.168.0.0": true, "169.253.255.255": false, "169.254.0.1": true, "126.255.255.255": false,
		"127.0.0.1": true, "128.0.0.0": false, "0.1.2.3": true, "198.17.255.255": false, "198.18.0.0": true, "198.20.0.0": false,
		"223.255.255.255": false, "224.0.0.0": true, "239.255.255.255": true, "240.0.0.1": true, "255.255.255.255": true,
		"168.63.129.16": true, "100.100.100.200": true, "192.0.0.192": true, // providers' metadata
		"::": true, "::1": true, "::7f00:1": true, "fc00::1": true, "fd00:ec2::254": true, "fe80::1": true, "fec0::1": true, "ff02::1": true,
		"64:ff9b::7f00:1": true, "64:ff9b::a00:1": true, "64:ff9b::101:101": false, "64:ff9b:1::101:101": true,
		"2002:7f00:1::": true, "2001::1": true, "2001:db8::1": true, "2001:200::1": false, "2606:4700::1111": false, "2a00:1450::1": false,
		"4000::1": true, "100::1": true,
	} {
		if got := isSpecial(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: special %v, want %v", addr, got, want)
		}
	}
	if !isSpecial(netip.Addr{}) {
		t.Error("an address that cannot be read would be called")
	}
}

func TestAllowErrors(t *testing.T) {
	t.Parallel()
	for _, entry := range []string{
		"", "https://example.org/", "example.org/hook", "10.0.0.0/33", "10.1", "*", "a.*.org", "u@example.org", "example.org:http", "example.org:0", "a:b:c",
	} {
		if _, ok := parseAllowed(entry); ok {
			t.Errorf("%q is taken for a host", entry)
		}
	}
}

func FuzzAllow(f *testing.F) {
	for _, s := range []string{"a.example.org:81", "*.x", "10.0.0.0/8", "[::1]:80", "::1", "1.2.3.4:5"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, entry string) {
		a, ok := parseAllowed(entry)
		if ok && a.name == "" && !a.net.IsValid() {
			t.Fatalf("%q allows neither a name nor addresses", entry)
		}
	})
}

// The address that counts is the one that is connected to.
func TestAllowCountsWhenDialing(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for allow, want := range map[string]string{
		"hooks.example.org": "localhost is at 127.0.0.1, which is not on the public internet; add the address to allow if that is meant",
		"localhost":         "",
		"127.0.0.0/8":       "",
	} {
		p, err := newClient(&Handler{Settings: Settings{URL: "{u}", Allow: []string{allow}}})
		if err != nil {
			t.Fatal(err)
		}
		c, err := p.transport.DialContext(t.Context(), "tcp4", "localhost:"+port)
		got := ""
		if err != nil {
			got, _ = describeNetError(err)
		} else {
			c.Close()
		}
		if got != want {
			t.Errorf("allow %s: %q, want %q", allow, got, want)
		}
	}
}
