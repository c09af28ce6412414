package handler

import (
	"encoding/json"
	"fmt"
	"time"

	"backlog/backlog"
)

// appendRequest appends the line by which a worker is given r: a JSON object
// and a newline. The attempt comes first, so that a worker that has no JSON
// parser can cut it out.
func appendRequest(b []byte, attempt string, r *backlog.Record) ([]byte, error) {
	key, err := r.Key.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("the key cannot be written as JSON: %w", err)
	}
	columns, err := r.ColumnsJSON()
	if err != nil {
		return nil, fmt.Errorf("the record cannot be written as JSON: %w", err)
	}
	b = appendJSON(append(b, `{"attempt_id":`...), attempt)
	b = append(append(b, `,"id":`...), key...)
	b = appendJSON(append(b, `,"status":`...), r.Status)
	b = append(b, `,"inserted":`...)
	if r.Inserted.IsZero() {
		b = append(b, "null"...)
	} else {
		b = append(r.Inserted.UTC().AppendFormat(append(b, '"'), time.RFC3339Nano), '"')
	}
	b = appendJSON(append(b, `,"tier":`...), r.Tier)
	if r.Reason != "" {
		b = appendJSON(append(b, `,"reason":`...), r.Reason)
		b = appendJSON(append(b, `,"error":`...), head(r.Error))
	}
	b = append(append(b, `,"record":`...), columns...)
	return append(b, "}\n"...), nil
}

// appendJSON appends text as a JSON string. Most texts are their own.
func appendJSON(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(text) // of a string that cannot fail
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), text...), '"')
}
