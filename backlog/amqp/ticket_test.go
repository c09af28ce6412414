package amqp

import (
	"errors"
	"strings"
	"testing"

	"backlog/backlog"
	"backlog/internal/testkit"
)

const secret = "0123456789abcdef"

func testTicket() ticket {
	return ticket{
		Table: "orders-1", States: "s1", Row: backlog.Cursor{Key: backlog.NewKey(int64(1)<<60+1, "b", []byte{0, 255}, 1.5)}, Status: "FAILED",
		Failures: 3, Lane: backlog.Failed, Origin: 2, Tier: "1d", AttemptID: "a-1",
	}
}

func TestTicket(t *testing.T) {
	good := testTicket()
	text := good.sign(secret)
	other := good.sign("another secret of somebody")
	staging := good
	staging.Table = "orders-2"
	foreign := staging.sign(secret)
	forged := staging.sign("another secret of somebody")
	payload, mac, _ := strings.Cut(text, ".")
	stolen, _, _ := strings.Cut(foreign, ".")
	for _, c := range []struct {
		name, text string
		want       error
	}{
		{"good", text, nil},
		{"empty", "", errNoTicket},
		{"no base64", "?." + mac, errNoTicket},
		{"no JSON", "aGVsbG8." + mac, errNoTicket},
		{"no key", "e30." + mac, errNoTicket},
		{"another secret", other, errForged},
		{"no signature", payload, errForged},
		{"half a signature", payload + "." + mac[:20], errForged},
		{"another table", foreign, errOtherTable},
		{"another table, whatever its signature", forged, errOtherTable},
		{"another table with our signature", stolen + "." + mac, errOtherTable},
	} {
		got, err := readTicket(c.text, secret, "orders-1")
		if !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if c.want != nil || err != nil {
			continue
		}
		r := got.record()
		if got.Row.Key.Compare(good.Row.Key) != 0 {
			t.Errorf("%s: got the key %v, want %v", c.name, got.Row.Key, good.Row.Key)
		}
		testkit.Equal(t, c.name+": attempt", r.AttemptID, "a-1")
		testkit.Equal(t, c.name+": failures", r.Memory.Failures, 3)
		testkit.Equal(t, c.name+": lane", r.Lane, backlog.Failed)
	}
}

// What is changed of a ticket is never taken for ours.
func FuzzTicket(f *testing.F) {
	good := testTicket()
	text := good.sign(secret)
	f.Add(text)
	f.Add(text + "A")
	f.Add("e30.")
	f.Fuzz(func(t *testing.T, s string) {
		if _, err := readTicket(s, secret, "orders-1"); err == nil && strings.TrimRight(s, "\r\n") != text && !strings.HasPrefix(s, text[:strings.Index(text, ".")]) {
			t.Errorf("%q is taken", s)
		}
	})
}
