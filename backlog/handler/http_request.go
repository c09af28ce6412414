package handler

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"backlog/backlog"
)

// request makes the request for an attempt on r. What is wrong is wrong with
// the record.
func (p *httpPlan) request(ctx context.Context, r *backlog.Record, keys [][]byte, now time.Time) (*http.Request, []byte, error) {
	u, err := p.url.expand(r)
	if err != nil {
		return nil, nil, err
	}
	if p.url.base == nil {
		if err := p.allow.target(u); err != nil {
			return nil, nil, fmt.Errorf("url: %w", err)
		}
	}
	var body []byte
	if !p.bodiless {
		if body, err = r.ColumnsJSON(); err != nil {
			return nil, nil, fmt.Errorf("the record cannot be written as JSON: %w", err)
		}
	}
	req := &http.Request{
		Method: p.method, URL: u, Host: p.host, Header: p.header(r, keys, body, now),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	if !p.bodiless {
		req.ContentLength = int64(len(body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		req.Body, _ = req.GetBody()
	}
	return req.WithContext(ctx), body, nil
}

func (p *httpPlan) header(r *backlog.Record, keys [][]byte, body []byte, now time.Time) http.Header {
	h := make(http.Header, len(p.headers)+8)
	for name, values := range p.headers {
		h[name] = values
	}
	id := recordID(p.source, r)
	// Spelled so, it is net/http's leave to send the request again where a
	// connection that had been used before ends without a byte of an answer:
	// mostly the server had closed it before the request came.
	h["Idempotency-Key"] = []string{id}
	h["Webhook-Id"] = []string{id}
	set := func(name, text string) {
		if text = headerText(text); text != "" {
			h[name] = []string{text}
		}
	}
	set("Backlog-Attempt-Id", r.AttemptID)
	set("Backlog-Tier", r.Tier)
	if r.Reason != "" {
		set("Backlog-Reason", r.Reason)
		set("Backlog-Error", r.Error)
	}
	if len(keys) > 0 {
		timestamp := strconv.FormatInt(now.Unix(), 10)
		h["Webhook-Timestamp"] = []string{timestamp}
		h["Webhook-Signature"] = []string{signature(keys, id, timestamp, body)}
	}
	return h
}
