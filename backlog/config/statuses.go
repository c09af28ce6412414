package config

// Statuses are the states of a record. New and Error are pending: a record in
// one of them is due to be tried.
type Statuses struct {
	New     State // never tried
	Error   State // tried and failed
	Success State // done
	Dead    State // never to be tried again; the zero State if there is none
}

// A State is a condition that tells which records are in it and an assignment
// that gets a record into it. Either Values are both, on the status column, or
// When and Set are. New always has a condition; Success, and Dead if it is
// Given, always have an assignment; Error has an assignment unless it is to
// Keep. Any other half may be missing.
type State struct {
	Values []Value // one of these; the first is what is written
	When   []Condition
	Set    []Assignment
	Keep   bool // Error only: a failed record is left as it is
	Given  bool // the file has it; if not, this is the default
}

// A role is which of the states a state is.
type role struct {
	name  string
	state func(*Statuses) *State
}

// roles are all of them, in the order of a record's life.
var roles = []role{
	{"new", func(s *Statuses) *State { return &s.New }},
	{"error", func(s *Statuses) *State { return &s.Error }},
	{"success", func(s *Statuses) *State { return &s.Success }},
	{"dead", func(s *Statuses) *State { return &s.Dead }},
}

func defaultStatuses() Statuses {
	return Statuses{
		New:     State{Values: []Value{{Text: "NEW"}}},
		Error:   State{Values: []Value{{Text: "ERROR"}}},
		Success: State{Values: []Value{{Text: "SUCCESS"}}},
	}
}

func (v value) statuses() Statuses {
	s := defaultStatuses()
	known := make(keys)
	for _, r := range roles {
		known[r.name] = func(v value) { *r.state(&s) = v.state(r.name) }
	}
	v.object(known)
	return s
}

// state decodes a state: a value, a list of values, when and set, or keep.
func (v value) state(name string) State {
	s := State{Given: true}
	switch {
	case v.isMapping():
		v.object(keys{
			"when": func(v value) { s.When = v.conditions() },
			"set":  func(v value) { s.Set = v.assignments() },
		})
		v.requireHalf(name)
	case !v.says("keep"):
		s.Values = v.values()
	case name == "error":
		s.Keep = true
	default:
		v.fail("keep is for error only; put it in quotes if it is a value of the column")
	}
	return s
}

// requireHalf notes that a state in the long form lacks the half that it
// cannot do without.
func (v value) requireHalf(name string) {
	half, why := "set", "it says how a record gets there"
	if name == "new" {
		half, why = "when", "it says which records to take"
	}
	if !v.has(half) {
		v.fail("no %s; %s", half, why)
	}
}
