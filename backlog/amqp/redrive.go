package amqp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"
)

// A Redriven is what Redrive has done.
type Redriven struct {
	Matched    int `json:"matched"` // published to the main exchange again, or to be
	Unmatched  int `json:"unmatched"`
	Unreadable int `json:"unreadable"` // in neither form
}

// Redrive looks at each message of the error queue once and gives those back to the
// main exchange whose error has the text, as if they had never failed. Where dry is set
// it only counts. What it leaves keeps its place, but for the mark that it was delivered
// before.
func (c *Source) Redrive(ctx context.Context, match string, dry bool) (n Redriven, err error) {
	p, err := c.open(ctx)
	if err != nil {
		return n, err
	}
	queue := c.errorExchange()
	defer c.Close() // what is not acknowledged goes back to its place
	ready, missing, err := p.inspect(ctx, queue)
	if err != nil || missing {
		return n, err
	}
	for range ready.Messages { // held to the end: else get would meet them again
		d, ok, err := p.get(ctx, queue)
		if err != nil || !ok {
			return n, err
		}
		m, text, ok := decode(&d)
		switch {
		case !ok:
			n.Unreadable++
			continue
		case !strings.Contains(text, match):
			n.Unmatched++
			continue
		}
		n.Matched++
		if !dry {
			exchange, key := c.mainKey(d.RoutingKey)
			refused, err := p.post(ctx, message{exchange, key, m})
			if err = cmp.Or(err, refused); err == nil {
				err = d.Ack(false)
			}
			if err != nil {
				return n, fmt.Errorf("exchange %s, routing key %s: %w", exchange, key, err)
			}
		}
	}
	return n, nil
}

// decode returns the message that ended in the error queue, and the text of its error.
func decode(d *amqp.Delivery) (m amqp.Publishing, text string, ok bool) {
	m = again(d)
	if info, is := d.Headers[retryInfo].(string); is { // Kicks: the body as it was
		var list []reason
		delete(m.Headers, retryInfo)
		if json.Unmarshal([]byte(info), &list) != nil && json.Unmarshal([]byte("["+info+"]"), &list) != nil || len(list) == 0 {
			return m, "", true
		}
		return m, list[0].Error + " " + list[0].Message, true
	}
	var f failure
	if json.Unmarshal(d.Body, &f) != nil || f.Payload == "" && f.Attempts == 0 {
		return m, "", false
	}
	body, err := decode64(f.Payload)
	if err != nil {
		return m, "", false
	}
	m.Body, m.ContentType, m.ContentEncoding = body, "", ""
	if raw, err := decode64(f.Properties); err == nil {
		was := originalProperties(raw)
		m.ContentType, m.ContentEncoding = was["content_type"], was["content_encoding"]
	}
	return m, f.Error + " " + f.Message, true
}

func decode64(text string) ([]byte, error) {
	return base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
}

// rubyProperty finds a property in the text of a hash, as Ruby shows it until 3.3 and from 3.4 on.
var rubyProperty = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\b(content_type|content_encoding)(?:=>|: )"([^"]*)"`)
})

// originalProperties reads a JSON object, or a JSON string with the text of a Ruby hash.
func originalProperties(raw []byte) map[string]string {
	was := make(map[string]string)
	object := make(map[string]any)
	if json.Unmarshal(raw, &object) == nil {
		for name, v := range object {
			was[name], _ = v.(string)
		}
		return was
	}
	for _, m := range rubyProperty().FindAllSubmatch(bytes.ReplaceAll(raw, []byte(`\"`), []byte(`"`)), -1) {
		was[string(m[1])] = string(m[2])
	}
	return was
}
