package mail

import (
	"github.com/wneessen/go-mail"

	"backlog/backlog"
)

// Message returns the mail for a record.
func (h *Handler) Message(r *backlog.Record) (*mail.Msg, error) { return h.message(r) }
