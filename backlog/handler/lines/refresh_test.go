package lines

import (
	"strings"
	"testing"

	"backlog/backlog"
)

func TestRequestTellsOfAttempts(t *testing.T) {
	r := &backlog.Record{Key: backlog.NewKey(int64(7)), AttemptID: "a-1", Memory: &backlog.Memory{AttemptNo: 3}}
	line, err := request("a-1", r)
	if err != nil || !strings.Contains(string(line), `"attempt_uid":"a-1","attempt_no":3,"deadline":"","record":`) {
		t.Errorf("got %s, %v", line, err)
	}
}
