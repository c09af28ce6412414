package redis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"backlog/backlog"
)

// batch is how many answers are read at once.
const batch = 100

// Collect reads answers until there are none, tells of them, and only then removes
// them: a crash repeats answers, and loses none. tell is [backlog.Engine.Resolve].
// What is no answer is moved to the list Output-bad.
func (h *Handler) Collect(ctx context.Context, tell func(context.Context, []backlog.Answer) ([]error, error)) (err error) {
	defer func() { h.deaf(ctx, err) }()
	c, err := h.open()
	if err != nil {
		return err
	}
	for {
		items, err := c.LRange(ctx, h.Output, 0, batch-1).Result()
		if err != nil {
			return h.worded(err)
		}
		answers, bad := h.read(items)
		if len(answers) > 0 {
			reasons, err := tell(ctx, answers)
			if err != nil {
				return err
			}
			h.warn(ctx, answers, reasons)
		}
		if err := h.remove(ctx, c, items, bad); err != nil || len(items) < batch {
			return h.worded(err)
		}
	}
}

// deaf logs what keeps answers from being read, once until it is something else: without
// it, there would only be attempts that time out.
func (h *Handler) deaf(ctx context.Context, err error) {
	now := fmt.Sprint(err)
	if last := h.deafness.Swap(now); err != nil && last != now && ctx.Err() == nil && h.Log != nil {
		h.Log.WarnContext(ctx, "answers are not read", "list", h.Output, "err", err)
	}
}

// remove removes items that were read. Each is removed by what it says: who collects
// at the same time removes none that was not seen.
func (h *Handler) remove(ctx context.Context, c *redis.Client, items, bad []string) error {
	if len(items) == 0 {
		return nil
	}
	_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		if len(bad) > 0 {
			p.RPush(ctx, h.Output+badSuffix, bad)
		}
		for _, item := range items {
			p.LRem(ctx, h.Output, 1, item)
		}
		return nil
	})
	if len(bad) > 0 && err == nil && h.Log != nil {
		h.Log.WarnContext(ctx, fmt.Sprintf("%s has what is no answer; it is in %s now", h.Output, h.Output+badSuffix), "n", len(bad), "first", backlog.Beginning(bad[0], 200))
	}
	return err
}

// warn logs answers that were dropped.
func (h *Handler) warn(ctx context.Context, answers []backlog.Answer, reasons []error) {
	var foreign []string
	for i, err := range reasons {
		switch {
		case err == nil || h.Log == nil:
		case errors.Is(err, backlog.ErrConflict):
			foreign = append(foreign, answers[i].UID)
		default: // it is not taken: the deadline ends the attempt
			h.Log.ErrorContext(ctx, "an answer was not written", "attempt_uid", answers[i].UID, "err", err)
		}
	}
	if len(foreign) > 0 {
		h.Log.WarnContext(ctx, "answers of attempts that do not run were dropped", "n", len(foreign), "first", foreign[0])
	}
}

// types are the words for outcomes.
var types = map[string]backlog.Outcome{
	"success": backlog.Succeeded, "failure": backlog.Errored, "reject": backlog.Rejected, "user_friendly_status": backlog.Skipped,
}

// read returns the answers in the items, and the items that are none.
func (h *Handler) read(items []string) (answers []backlog.Answer, bad []string) {
	for _, item := range items {
		if a, ok := h.answer(item); ok {
			answers = append(answers, a)
		} else {
			bad = append(bad, item)
		}
	}
	return answers, bad
}

// maxText is how much of a text is kept.
const maxText = 2 << 10

func (h *Handler) answer(item string) (a backlog.Answer, ok bool) {
	var fields map[string]any
	if json.Unmarshal([]byte(item), &fields) != nil {
		return a, false
	}
	word, _ := fields["type"].(string)
	a.UID, _ = fields[h.Fields[attemptOut][0]].(string)
	a.Outcome, ok = types[word]
	text, given := fields["error"]
	if a.Outcome == backlog.Skipped {
		text, given = fields["message"]
		ok = ok && given && text != nil
	}
	if given && text != nil {
		var isText bool
		a.Text, isText = text.(string)
		ok = ok && isText
	}
	// Some databases have no U+0000 in a text, not even to look for.
	a.Text = backlog.Beginning(strings.ReplaceAll(a.Text, "\x00", "\uFFFD"), maxText)
	return a, ok && isUID(a.UID)
}

// isUID reports whether a text could be the UID of an attempt. A database would
// refuse to look for some others, and with them all answers of a batch.
func isUID(text string) bool {
	odd := func(b byte) bool { return b <= ' ' || b > '~' }
	return text != "" && len(text) <= 255 && !slices.ContainsFunc([]byte(text), odd)
}
