package db

import (
	"fmt"
	"slices"
	"sync"
)

// A Notebook has what a person should know, though it works. The zero value is empty.
type Notebook struct {
	mu    sync.Mutex
	notes []string
	tell  func(string) // of each note; nil: nobody listens
}

// Notes returns what is in it.
func (n *Notebook) Notes() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.notes)
}

// TellNotes calls tell, once, with each of the notes and with those to come.
func (n *Notebook) TellNotes(tell func(string)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, text := range n.notes {
		tell(text)
	}
	n.tell = tell
}

// Notef adds a note, once.
func (n *Notebook) Notef(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	n.mu.Lock()
	defer n.mu.Unlock()
	if slices.Contains(n.notes, text) {
		return
	}
	if n.notes = append(n.notes, text); n.tell != nil {
		n.tell(text)
	}
}
