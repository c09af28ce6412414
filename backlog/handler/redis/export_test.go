package redis

import "backlog/backlog"

// Answers returns the answer in an item, if it is one.
func Answers(item string) []backlog.Answer {
	answers, _ := (&Handler{Settings: *NewSettings()}).read([]string{item})
	return answers
}
