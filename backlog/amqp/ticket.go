package amqp

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"

	"backlog/backlog"
)

// A ticket is what an outcome needs to be settled by whoever leads then: the row as it was
// read. It is signed, so that a worker can settle no other row.
type ticket struct {
	Table     string         `json:"table"`  // that the attempt is of
	States    string         `json:"states"` // what Origin is of; other settings read rows otherwise
	Row       backlog.Cursor `json:"row"`    // its key, with the types of its parts
	Status    string         `json:"status"`
	Failures  int            `json:"failures"`
	Lane      backlog.Lane   `json:"lane"`
	Origin    int            `json:"origin"`
	Tier      string         `json:"tier"`
	AttemptID string         `json:"attempt_id"`
}

func ticketOf(r *backlog.Record, table, states string) ticket {
	return ticket{table, states, backlog.Cursor{Key: r.Key}, r.Status, r.Failures.Count, r.Lane, r.Origin, r.Tier, r.AttemptID}
}

// record returns the record as far as a settlement needs it.
func (t *ticket) record() backlog.Record {
	return backlog.Record{
		Key: t.Row.Key, Status: t.Status, Failures: backlog.Failures{Count: t.Failures}, Lane: t.Lane, Origin: t.Origin,
		Tier: t.Tier, AttemptID: t.AttemptID,
	}
}

func signature(text, secret string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(text))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// sign returns the ticket as text.
func (t *ticket) sign(secret string) string {
	b, _ := json.Marshal(t) // texts and numbers
	text := base64.RawURLEncoding.EncodeToString(b)
	return text + "." + signature(text, secret)
}

var (
	errNoTicket   = errors.New("it has no ticket that can be read")
	errForged     = errors.New("its ticket is signed with another secret")
	errOtherTable = errors.New("its ticket is of another table")
)

// readTicket returns what sign wrote. With errOtherTable the signature is not looked at:
// that table's daemon may have another secret.
func readTicket(text, secret, table string) (t ticket, err error) {
	payload, mac, _ := strings.Cut(text, ".")
	b, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil || json.Unmarshal(b, &t) != nil || t.Row.IsZero() {
		return t, errNoTicket
	}
	switch {
	case t.Table != table:
		return t, errOtherTable
	case !hmac.Equal([]byte(mac), []byte(signature(payload, secret))):
		return t, errForged
	}
	return t, nil
}
