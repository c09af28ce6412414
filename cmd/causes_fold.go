package cmd

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"backlog/backlog"
)

const (
	// maxFolded is the most bytes that fold returns.
	maxFolded = 512
	// maxFolding is how many bytes of a text fold looks at, half of them at
	// its end, where programs say what was wrong.
	maxFolding = 8 << 10
)

// fold returns the text of an error without what makes one record's differ
// from another's, so that errors of one cause become one text: "#" stands for
// numbers, for ids (UUIDs, hexadecimal and random ones), for mail addresses,
// for what is in quotes and for the texts own, those of ownOf. White space
// becomes one space. Numbers that are a status stay, and so do names in JSON and
// what stands behind those that introduce a message, such as "error".
//
// The result is valid UTF-8 of at most maxFolded bytes, cut in the middle if
// need be; folding it again changes nothing.
func fold(text string, own []string) string {
	text = strings.ToValidUTF8(cutMiddle(text, maxFolding), "?")
	f := folder{text: text, own: own, out: make([]byte, 0, len(text))}
	for {
		// No round makes it longer, and none undoes another's work: what
		// changes becomes shorter, or a # or a space. So this ends, and
		// what it returns is what folding leaves alone.
		f.round()
		if string(f.out) == text && len(text) <= maxFolded {
			return text
		}
		text = cutMiddle(string(f.out), maxFolded)
		f.text = text
	}
}

// ownOf returns what only this attempt's error may have in it: the parts of the
// record's key and the attempt's id.
func ownOf(r *backlog.Record) []string {
	own := make([]string, r.Key.Len(), r.Key.Len()+1)
	for i := range own {
		own[i] = backlog.NewKey(r.Key.Part(i)).String()
	}
	return append(own, r.AttemptID)
}

// cutMiddle returns the text, or as much of its beginning and end as have room,
// with a mark between them, in size bytes.
func cutMiddle(s string, size int) string {
	const mark = "…"
	if len(s) <= size {
		return s
	}
	head, tail := (size-len(mark))/2, len(s)-(size-len(mark))/2
	for head > 0 && !utf8.RuneStart(s[head]) {
		head--
	}
	for tail < len(s) && !utf8.RuneStart(s[tail]) {
		tail++
	}
	return s[:head] + mark + s[tail:]
}

// A folder is fold at work.
type folder struct {
	text     string
	own      []string
	out      []byte
	unclosed [256]bool // quotes of which no closing one follows any more
}

// round folds text to out.
func (f *folder) round() {
	for _, k := range f.own {
		f.text = withoutWord(f.text, k)
	}
	f.out, f.unclosed = f.out[:0], [256]bool{}
	closing := -1 // the end of quotes whose content stays
	for i := 0; i < len(f.text); {
		switch c := f.text[i]; {
		case isSpace(c):
			if n := len(f.out); n > 0 && f.out[n-1] != ' ' {
				f.out = append(f.out, ' ')
			}
			i++
		case isWord(c):
			i += f.word(i)
		case c == '#':
			f.mark()
			i++
		case c == '@':
			i += f.address(i)
		case (c == '"' || c == '\'' || c == '`') && i > closing:
			end := f.quoted(i)
			switch {
			case end < 0:
			case f.speaks(end):
				closing = end
			default:
				f.out = append(f.out, c)
				f.mark()
				i = end
			}
			f.out = append(f.out, c)
			i++
		default:
			f.out = append(f.out, c)
			i++
		}
	}
	f.out = bytes.TrimSuffix(f.out, []byte(" "))
}

// mark writes a #. Several in a row, as in 10.0.0.1:5432 or 1,234.5, are one.
func (f *folder) mark() {
	n := len(f.out)
	switch {
	case n > 0 && f.out[n-1] == '#':
	case n > 1 && f.out[n-2] == '#' && strings.IndexByte(".,:", f.out[n-1]) >= 0:
		f.out = f.out[:n-1]
	default:
		f.out = append(f.out, '#')
	}
}

// word folds the word at i and returns its length in the text.
func (f *folder) word(i int) int {
	const uuid = len("01234567-0123-0123-0123-0123456789ab")
	if s := f.text[i:]; len(s) >= uuid && isUUID(s[:uuid]) && (len(s) == uuid || !isWord(s[uuid])) {
		f.mark()
		return uuid
	}
	n, digits, runs, all := 0, 0, 0, class(0)
	for digit := class(0); i+n < len(f.text) && isWord(f.text[i+n]); n++ {
		c := classes[f.text[i+n]]
		all |= c
		if c == aDigit {
			if digits++; digit == 0 {
				runs++
			}
		}
		digit = c & aDigit
	}
	w := f.text[i : i+n]
	switch {
	case digits == 0, digits == n && f.isStatus(w, f.text[i+n:]):
		f.out = append(f.out, w...)
	case digits == n, // a number
		all&^(aDigit|hexLetter) == 0 && n >= 6,                                   // 7f3a9c
		all&foreign == 0 && (runs >= 3 || n >= 16 || strings.HasPrefix(w, "0x")): // x8sKd93kD0
		f.mark()
	default: // sha256, 17th
		for j := range n {
			if c := w[j]; classes[c] == aDigit {
				f.mark()
			} else {
				f.out = append(f.out, c)
			}
		}
	}
	return n
}

// isStatus reports whether the number that comes next, before rest, is one that
// says what is wrong: of an exit, or of HTTP as in "503 Service Unavailable".
// Behind a word that says so it is, be it the record's id besides.
func (f *folder) isStatus(number, rest string) bool {
	if len(number) > 3 {
		return false
	}
	if len(f.out) == 0 && !slices.Contains(f.own, number) && len(number) == 3 && number[0] >= '1' && number[0] <= '5' {
		after := strings.TrimPrefix(rest, " ")
		return rest == "" || rest[0] == ':' || after != rest && after != "" && after[0] >= 'A' && after[0] <= 'Z'
	}
	switch strings.ToLower(lastWord(f.out, " :=")) {
	case "status", "http", "code", "signal":
		return true
	}
	return false
}

// quoted returns where the quotes end that may begin at i, or -1.
func (f *folder) quoted(i int) int {
	c := f.text[i]
	if f.unclosed[c] || i > 0 && isWord(f.text[i-1]) { // as in: can't
		return -1
	}
	for j := i + 1; j < len(f.text); j++ {
		switch {
		case f.text[j] == '\\':
			j++
		case f.text[j] == c && (j+1 == len(f.text) || !isWord(f.text[j+1])):
			if j == i+1 {
				return -1
			}
			return j
		}
	}
	f.unclosed[c] = true
	return -1
}

// speaks reports whether what is in the quotes that come next, and end there,
// says what is wrong: a name in JSON, or a message.
func (f *folder) speaks(end int) bool {
	before := bytes.TrimRight(f.out, " ")
	if len(before) == 0 {
		return false
	}
	switch before[len(before)-1] {
	case '{', ',':
		return strings.HasPrefix(f.text[end+1:], ":")
	case ':', '=':
		switch strings.ToLower(lastWord(before, `"' :=`)) {
		case "error", "message", "msg", "code", "reason", "detail", "title", "type", "description":
			return true
		}
	}
	return false
}

// address folds a mail address around the @ at i, and returns how much of the
// text from i on that is.
func (f *folder) address(i int) int {
	n := len(f.out)
	for n > 0 && (isWord(f.out[n-1]) || strings.IndexByte("#._+-", f.out[n-1]) >= 0) {
		n--
	}
	end := i + 1
	for end < len(f.text) && (isWord(f.text[end]) || strings.IndexByte("#.-", f.text[end]) >= 0) {
		end++
	}
	for f.text[end-1] == '.' { // that of the sentence
		end--
	}
	if n == len(f.out) || end == i+1 {
		f.out = append(f.out, '@')
		return 1
	}
	f.out = f.out[:n]
	f.mark()
	return end - i
}

// withoutWord returns the text with # for the word, which may be several. One
// that is short, or of digits only, may be anything.
func withoutWord(text, word string) string {
	if len(word) < 3 || strings.Trim(word, "0123456789") == "" || !strings.Contains(text, word) {
		return text
	}
	var b strings.Builder
	written, from := 0, 0
	for {
		i := strings.Index(text[from:], word)
		if i < 0 {
			b.WriteString(text[written:])
			return b.String()
		}
		i += from
		end := i + len(word)
		if i > 0 && isWord(text[i-1]) || end < len(text) && isWord(text[end]) {
			from = i + 1
			continue
		}
		b.WriteString(text[written:i])
		b.WriteByte('#')
		written, from = end, end
	}
}

// lastWord returns the word at the end of the text, which the characters in
// between may follow.
func lastWord(text []byte, between string) string {
	text = bytes.TrimRight(text, between)
	n := len(text)
	for n > 0 && isWord(text[n-1]) {
		n--
	}
	return string(text[n:])
}

func isSpace(c byte) bool { return c <= ' ' }

// isWord reports whether the byte is a letter's or a digit.
func isWord(c byte) bool { return classes[c] != 0 }

// A class says what bytes may be part of; 0: no word.
type class uint8

const (
	aDigit    class = 1 << iota
	hexLetter       // a to f
	letter          // g to z
	foreign         // part of a character that is not ASCII
)

var classes = func() (of [256]class) {
	for c := range of {
		switch lower := c | 0x20; {
		case c >= '0' && c <= '9':
			of[c] = aDigit
		case lower >= 'a' && lower <= 'f' && c < utf8.RuneSelf:
			of[c] = hexLetter
		case lower >= 'g' && lower <= 'z' && c < utf8.RuneSelf:
			of[c] = letter
		case c >= utf8.RuneSelf:
			of[c] = foreign
		}
	}
	return of
}()

// isUUID reports whether s, of the length of one, is a UUID.
func isUUID(s string) bool {
	for i := range len(s) {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if s[i] != '-' {
				return false
			}
		} else if classes[s[i]]&(aDigit|hexLetter) == 0 {
			return false
		}
	}
	return true
}
