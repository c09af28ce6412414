package amqp

import (
	"strconv"
	"strings"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"
)

// rubyValue reads a value as Ruby's inspect shows it: a hash until 3.3 ({:a=>1, "b"=>2}) or
// from 3.4 on ({a: 1, "b" => 2}), a list, a text, a number, true, false or nil. What it
// does not know, such as a time, is a text; nil if the text ends too early.
func rubyValue(text string) any {
	p := &rubyText{rest: text}
	v := p.value()
	if p.broken {
		return nil
	}
	return v
}

// A rubyText is what is left to read.
type rubyText struct {
	rest   string
	broken bool
	depth  int
}

// mostNested bounds hashes and lists in each other.
const mostNested = 100

// take reports whether the text goes on with a token, and goes on behind it.
func (p *rubyText) take(token string) bool {
	p.rest = strings.TrimLeft(p.rest, " \t\n")
	rest, found := strings.CutPrefix(p.rest, token)
	if found {
		p.rest = rest
	}
	return found
}

// cut returns so many bytes, or what is left, and goes on behind them.
func (p *rubyText) cut(n int) string {
	text := p.rest[:min(n, len(p.rest))]
	p.rest = p.rest[len(text):]
	return text
}

func (p *rubyText) value() any {
	p.depth++
	defer func() { p.depth-- }()
	switch {
	case p.depth > mostNested:
		p.broken = true
		return nil
	case p.take("{"):
		return p.hash()
	case p.take("["):
		return p.list()
	case p.take(`"`):
		return p.quoted()
	}
	p.take(":") // of a symbol
	return p.bare()
}

func (p *rubyText) hash() amqp.Table {
	t := make(amqp.Table)
	for !p.take("}") && !p.broken {
		name := p.name()
		t[name] = p.value()
		p.separator("}")
	}
	return t
}

// name reads a name with what stands between it and its value.
func (p *rubyText) name() (name string) {
	symbol := p.take(":")
	if p.take(`"`) {
		name = p.quoted()
	} else {
		behind := strings.TrimLeft(p.rest, nameRunes)
		name = p.cut(len(p.rest) - len(behind))
	}
	if !p.take("=>") && (symbol || !p.take(":")) {
		p.broken = true
	}
	return name
}

const nameRunes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_?!"

func (p *rubyText) list() (list []any) {
	list = []any{}
	for !p.take("]") && !p.broken {
		list = append(list, p.value())
		p.separator("]")
	}
	return list
}

// separator goes on behind a comma, which may be missing only before the end.
func (p *rubyText) separator(end string) {
	if !p.take(",") && !strings.HasPrefix(p.rest, end) {
		p.broken = true
	}
}

// bare reads what has no quotes.
func (p *rubyText) bare() any {
	end := strings.IndexAny(p.rest, ",}]")
	if end < 0 {
		end = len(p.rest)
		p.broken = p.depth > 1
	}
	text := strings.TrimSpace(p.cut(end))
	switch text {
	case "nil":
		return nil
	case "true", "false":
		return text == "true"
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil {
		return f
	}
	return text
}

// escapes are the letters behind a backslash that stand for another.
var escapes = strings.NewReplacer("n", "\n", "t", "\t", "r", "\r", "e", "\x1b", "a", "\a", "b", "\b", "f", "\f", "v", "\v", "0", "\x00")

// quoted reads a text up to its closing quote.
func (p *rubyText) quoted() string {
	var b strings.Builder
	for {
		i := strings.IndexAny(p.rest, `"\`)
		if i < 0 || p.rest[i] == '\\' && i+1 == len(p.rest) {
			p.broken = true
			return ""
		}
		b.WriteString(p.rest[:i])
		closed := p.rest[i] == '"'
		p.rest = p.rest[i+1:]
		if closed {
			return b.String()
		}
		p.escape(&b)
	}
}

// escape reads what stands behind a backslash.
func (p *rubyText) escape(b *strings.Builder) {
	letter := p.cut(1)
	var digits string
	switch {
	case letter == "u" && strings.HasPrefix(p.rest, "{"):
		digits, p.rest, _ = strings.Cut(p.rest[1:], "}")
	case letter == "u":
		digits = p.cut(4)
	case letter == "x":
		digits = p.cut(2)
	default:
		b.WriteString(escapes.Replace(letter))
		return
	}
	n, err := strconv.ParseUint(digits, 16, 32)
	switch {
	case err != nil:
		p.broken = true
	case letter == "x":
		b.WriteByte(byte(n))
	default:
		b.Write(utf8.AppendRune(nil, rune(n)))
	}
}
