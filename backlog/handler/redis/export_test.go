package redis

import "backlog/backlog"

// Answers returns the answer in an item, none if the item is not an answer.
func Answers(item string) []backlog.Answer {
	answers, _ := (&Handler{Settings: *NewSettings()}).parseAnswers([]string{item})
	return answers
}
