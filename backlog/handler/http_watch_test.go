package handler

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// A file that is being written is waited for, one that stays bad only once.
func TestWatchedSettles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "word")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Error(err)
		}
	}
	w := &watched[string]{paths: []string{path}, parse: func(contents [][]byte) (string, error) {
		if len(contents[0]) < 3 {
			return "", errors.New("is too short")
		}
		return string(contents[0]), nil
	}}
	synctest.Test(t, func(t *testing.T) {
		want := func(value, text string, after time.Duration) {
			t.Helper()
			began := time.Now()
			got, err := w.get()
			if said := ""; err != nil {
				if said = err.Error(); said != text {
					t.Errorf("error %q, want %q", said, text)
				}
			} else if got != value || text != "" {
				t.Errorf("%q, want %q and error %q", got, value, text)
			}
			if waited := time.Since(began); waited != after {
				t.Errorf("after %v, want %v", waited, after)
			}
		}
		missing := path + " does not exist; create it or correct the path"
		want("", missing, 0)
		write("on")
		want("", "is too short", 0)
		write("one")
		want("one", "", 0)

		write("")
		time.AfterFunc(time.Second-time.Millisecond, func() { write("a second") })
		want("a second", "", time.Second)

		write("")
		want("", "is too short", 2*time.Second)
		want("", "is too short", 0)
		os.Remove(path)
		want("", missing, 0)
		write("the third")
		want("the third", "", 0)
		os.Remove(path)
		time.AfterFunc(time.Millisecond, func() { write("and the fourth") })
		want("and the fourth", "", lookAgain)
	})
}
