package backlog_test

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"

	"backlog/backlog"
	"backlog/internal/testkit"
)

func TestKeyText(t *testing.T) {
	for _, c := range []struct {
		name string
		key  backlog.Key
		text string // String
		json string // MarshalJSON
	}{
		{"nothing", backlog.Key{}, "null", "null"},
		{"an integer", backlog.NewKey(int64(4)), "4", "4"},
		{"a negative integer", backlog.NewKey(int64(-4)), "-4", "-4"},
		{"the smallest integer", backlog.NewKey(int64(math.MinInt64)), "-9223372036854775808", "-9223372036854775808"},
		{"an integer above 2^53", backlog.NewKey(int64(1<<53 + 1)), "9007199254740993", "9007199254740993"},
		{"a float", backlog.NewKey(1.5), "1.5", "1.5"},
		{"an infinite one", backlog.NewKey(math.Inf(1)), "+Inf", `"+Inf"`},
		{"a negative one", backlog.NewKey(math.Inf(-1)), "-Inf", `"-Inf"`},
		{"no number", backlog.NewKey(math.NaN()), "NaN", `"NaN"`},
		{"a composite with infinite ones", backlog.NewKey(int64(1), math.Inf(1), math.Inf(-1), "a"), `[1,"+Inf","-Inf","a"]`, `[1,"+Inf","-Inf","a"]`},
		{"text", backlog.NewKey("ab c"), "ab c", `"ab c"`},
		{"text with a quote", backlog.NewKey(`a"b`), `a"b`, `"a\"b"`},
		{"text that looks like a number", backlog.NewKey("0042"), "0042", `"0042"`},
		{"empty text", backlog.NewKey(""), "", `""`},
		{"a BLOB", backlog.NewKey([]byte{0xff, 0, 1}), "/wAB", `"/wAB"`},
		{"a composite", backlog.NewKey(int64(7), "ab"), `[7,"ab"]`, `[7,"ab"]`},
		{"a composite with a BLOB and a large integer", backlog.NewKey([]byte{0xff}, int64(math.MaxInt64)), `["/w==",9223372036854775807]`, `["/w==",9223372036854775807]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.key.String(); got != c.text {
				t.Errorf("want the text %q, got %q", c.text, got)
			}
			got, err := json.Marshal(c.key)
			if err != nil || string(got) != c.json {
				t.Errorf("want the JSON %s, got %s, error %v", c.json, got, err)
			}
		})
	}
}

func TestKeyParts(t *testing.T) {
	parts := []any{int64(7), "ab", []byte{1}}
	for n := range len(parts) {
		k := backlog.NewKey(parts[:n+1]...)
		if k.Len() != n+1 || k.IsZero() {
			t.Errorf("want a key of %d parts that is not zero, got %d parts, zero %t", n+1, k.Len(), k.IsZero())
		}
		for i := range k.Len() {
			if !reflect.DeepEqual(k.Part(i), parts[i]) {
				t.Errorf("want part %d of %v to be %v, got %v", i, k, parts[i], k.Part(i))
			}
		}
	}
	if k := (backlog.Key{}); k.Len() != 0 || !k.IsZero() {
		t.Errorf("want the zero Key to have no part and be zero, got %d parts, zero %t", k.Len(), k.IsZero())
	}
}

// distinct are keys that a careless hash or text takes for one another.
var distinct = []backlog.Key{
	backlog.NewKey(int64(1)), backlog.NewKey(int64(0)), backlog.NewKey(int64(-1)), backlog.NewKey(int64(1 << 32)),
	backlog.NewKey(1.0), backlog.NewKey(0.0), backlog.NewKey("1"), backlog.NewKey([]byte("1")),
	backlog.NewKey(""), backlog.NewKey([]byte{}), backlog.NewKey("", ""), backlog.NewKey("", []byte{}),
	backlog.NewKey("ab", "c"), backlog.NewKey("a", "bc"), backlog.NewKey("abc"), backlog.NewKey("c", "ab"),
	backlog.NewKey(int64(1), int64(2)), backlog.NewKey(int64(2), int64(1)), backlog.NewKey(int64(1), "2"),
	backlog.NewKey(int64(1), int64(2), int64(3)), backlog.NewKey(int64(12)), backlog.NewKey(`["ab","c"]`),
	backlog.NewKey("a\x00b"), backlog.NewKey("a", "\x00b"),
	// As a hash of ("a", "b") without lengths would see it.
	backlog.NewKey("a", "b"), backlog.NewKey("as\x00\x00\x00\x00\x00\x00\x00\x00b"),
}

func TestKeyHashTellsKeysApart(t *testing.T) {
	by := make(map[uint64]backlog.Key)
	for _, k := range distinct {
		if other, ok := by[k.Hash()]; ok {
			t.Errorf("want different hashes for %v (%T) and %v (%T)", other, other.Part(0), k, k.Part(0))
		}
		by[k.Hash()] = k
	}
	for n := range 100_000 {
		k := backlog.NewKey(int64(n + 100))
		if other, ok := by[k.Hash()]; ok {
			t.Fatalf("want different hashes for %v and %v", other, k)
		}
		by[k.Hash()] = k
	}
}

func TestKeyHashIsThatOfTheValue(t *testing.T) {
	for _, k := range distinct {
		var parts []any
		for i := range k.Len() {
			part := k.Part(i)
			if b, ok := part.([]byte); ok {
				part = append([]byte{}, b...)
			}
			parts = append(parts, part)
		}
		if again := backlog.NewKey(parts...); again.Hash() != k.Hash() {
			t.Errorf("want the same hash for two keys of the same value %v", k)
		}
	}
}

// cursors cover every type a database gives, and values that JSON alone loses.
var cursors = []backlog.Cursor{
	{},
	{Order: int64(5), Key: backlog.NewKey(int64(1))},
	{Segment: 3, Order: int64(math.MaxInt64), Key: backlog.NewKey(int64(1<<53 + 1))},
	{Segment: -1, Order: int64(math.MinInt64), Key: backlog.NewKey(int64(-1)), Before: true},
	{Order: nil, Key: backlog.NewKey("no date")},
	{Order: 0.1, Key: backlog.NewKey(math.MaxFloat64)},
	{Order: 2460676.5000000005, Key: backlog.NewKey(math.SmallestNonzeroFloat64)},
	{Order: math.Copysign(0, -1), Key: backlog.NewKey(math.Inf(-1))},
	{Order: []byte{0, 0xff}, Key: backlog.NewKey([]byte{})},
	{Order: "", Key: backlog.NewKey("")},
	{Order: "2026-01-05 00:00:00", Key: backlog.NewKey("a\"b\\c\x00")},
	{Order: "\xff\xfe not UTF-8", Key: backlog.NewKey("\x80", []byte("\x80"), int64(math.MaxInt64), 1.5)},
	{Order: "<&>\u2028", Key: backlog.NewKey("5", int64(5))},
}

func TestCursorSurvivesJSON(t *testing.T) {
	for _, c := range cursors {
		if got := throughJSON(t, c); !reflect.DeepEqual(got, c) {
			t.Errorf("want %#v back, got %#v", c, got)
		}
	}
	nan := throughJSON(t, backlog.Cursor{Order: math.NaN(), Key: backlog.NewKey("x")})
	if f, ok := nan.Order.(float64); !ok || !math.IsNaN(f) {
		t.Errorf("want a NaN back, got %#v", nan.Order)
	}
}

func TestResumeSurvivesJSON(t *testing.T) {
	for i := range cursors {
		next := func(n int) backlog.Cursor { return cursors[(i+n)%len(cursors)] }
		r := backlog.Resume{FreshTop: next(0), FreshLast: next(3), FailedLast: next(4), TurnFailed: i%2 == 0}
		if got := throughJSON(t, r); !reflect.DeepEqual(got, r) {
			t.Errorf("want %#v back, got %#v", r, got)
		}
	}
	if r := throughJSON(t, backlog.Resume{}); !r.IsZero() {
		t.Errorf("want the zero Resume back as zero, got %#v", r)
	}
}

func TestResumeIsZero(t *testing.T) {
	at := cursors[1]
	for _, c := range []struct {
		r    backlog.Resume
		want bool
	}{
		{backlog.Resume{}, true},
		{backlog.Resume{FreshTop: at, FreshLast: at}, false},
		{backlog.Resume{FailedLast: at}, false},
		{backlog.Resume{TurnFailed: true}, false},
	} {
		if got := c.r.IsZero(); got != c.want {
			t.Errorf("want IsZero of %+v to be %t, got %t", c.r, c.want, got)
		}
	}
}

func TestCursorRefusesWhatItDidNotWrite(t *testing.T) {
	for _, c := range []struct{ name, text string }{
		{"not an object", `5`},
		{"not JSON", `{`},
		{"nothing", ``},
		{"without an order", `{"key":[{"t":"int","v":"5"}]}`},
		{"a key part that is null", `{"order":{"t":"int","v":"5"},"key":[{"t":"null"}]}`},
		{"a second key part that is null", `{"order":{"t":"int","v":"5"},"key":[{"t":"int","v":"5"},{"t":"null"}]}`},
		{"an unknown type", `{"order":{"t":"date","v":"5"},"key":[{"t":"int","v":"5"}]}`},
		{"an integer that is none", `{"order":{"t":"int","v":"five"},"key":[{"t":"int","v":"5"}]}`},
		{"an integer out of range", `{"order":{"t":"int","v":"9223372036854775808"},"key":[{"t":"int","v":"5"}]}`},
		{"a float that is none", `{"order":{"t":"real","v":"x"},"key":[{"t":"int","v":"5"}]}`},
		{"text that is not base64", `{"order":{"t":"text","v":"%"},"key":[{"t":"int","v":"5"}]}`},
		{"a BLOB that is not base64", `{"order":{"t":"int","v":"5"},"key":[{"t":"blob","v":"%"}]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := cursors[1]
			if err := got.UnmarshalJSON([]byte(c.text)); err == nil {
				t.Errorf("want an error for %s, got %#v", c.text, got)
			}
			if !reflect.DeepEqual(got, cursors[1]) {
				t.Errorf("want the cursor left as it was, got %#v", got)
			}
		})
	}
}

func FuzzCursor(f *testing.F) {
	for _, c := range cursors {
		text, err := json.Marshal(c)
		if err != nil {
			f.Fatalf("Marshal %#v: %v", c, err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"order":{"t":"real","v":"NaN"},"key":[{"t":"real","v":"-0x1p-1074"}]}`))
	f.Add([]byte(`{"segment":1e3,"order":{"t":"text"},"key":[{"t":"blob","v":"AA==\n"},{}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var c backlog.Cursor
		if err := c.UnmarshalJSON(text); err != nil {
			return
		}
		first, err := json.Marshal(c)
		if err != nil {
			t.Fatalf("accepted %q as %#v, which cannot be written: %v", text, c, err)
		}
		var again backlog.Cursor
		if err := json.Unmarshal(first, &again); err != nil {
			t.Fatalf("accepted %q, wrote %s, and cannot read that: %v", text, first, err)
		}
		second, err := json.Marshal(again)
		if err != nil || string(second) != string(first) {
			t.Fatalf("accepted %q, wrote %s, read it and wrote %s, error %v", text, first, second, err)
		}
		testkit.Equal(t, "segment that came back", again.Segment, c.Segment)
		testkit.Equal(t, "before that came back", again.Before, c.Before)
		testkit.Equal(t, "hash of the key that came back", again.Key.Hash(), c.Key.Hash())
		testkit.Equal(t, "type of the order that came back", reflect.TypeOf(again.Order), reflect.TypeOf(c.Order))
	})
}
