package http_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"backlog/backlog"
	handler "backlog/backlog/handler/http"
)

// BenchmarkHTTP compares the handler with a bare net/http client loop, both
// sending the same body to a server of the same machine, sixteen at a time. As
// in BenchmarkExec they take turns; "ratio" is the handler's speed as a fraction
// of the bare loop's.
func BenchmarkHTTP(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, `{"ok":true}`)
	}))
	defer server.Close()
	r := &backlog.Record{
		Key: backlog.NewKey(int64(4711)), Status: "NEW", Inserted: time.Unix(1_700_000_000, 0),
		Names:  []string{"id", "status", "payload"},
		Values: []any{int64(4711), "NEW", `{"to": "somebody@example.org", "amount": 12.5}`},
		Tier:   "1d", AttemptID: "01890a5d-ac96-774b-bcce-b302099a8057",
	}
	body, err := r.ColumnsJSON()
	if err != nil {
		b.Fatal(err)
	}
	const calls = 16
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: calls}}
	bare := func() error {
		resp, err := client.Post(server.URL+"/hook", "application/json", bytes.NewReader(body))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	plain := &handler.Handler{Settings: handler.Settings{URL: server.URL + "/hook"}, Source: "orders", Concurrency: calls}
	signed := &handler.Handler{
		Settings: handler.Settings{
			URL:     server.URL + "/hook/{id}",
			Secrets: []string{"whsec_MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1u"},
		},
		Source:      "orders",
		Concurrency: calls,
	}
	for _, bb := range []struct {
		name string
		h    *handler.Handler
	}{{"ratio", plain}, {"ratio, signed, with a column in the url", signed}} {
		b.Run(bb.name, func(b *testing.B) {
			handle := func() error {
				ctx, cancel := context.WithTimeout(b.Context(), 30*time.Second) // as the engine does
				defer cancel()
				return bb.h.Handle(ctx, r)
			}
			const batch = 1000
			atATime(b, calls, batch, bare) // connections
			atATime(b, calls, batch, handle)
			b.ResetTimer()
			var bareTook, handlerTook time.Duration
			for done := 0; done < b.N; done += batch {
				n := min(batch, b.N-done)
				bareTook += atATime(b, calls, n, bare)
				handlerTook += atATime(b, calls, n, handle)
			}
			b.ReportMetric(float64(b.N)/handlerTook.Seconds(), "records/s")
			b.ReportMetric(bareTook.Seconds()/handlerTook.Seconds(), "ratio")
		})
	}
}

func atATime(b *testing.B, calls, n int, run func() error) time.Duration {
	var left atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	start := time.Now()
	for range calls {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := run(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}
