package db

import (
	"context"
	"slices"
	"strings"

	"backlog/backlog/mapping"
	"backlog/backlog/table/timeform"
)

// A Kind is what a name stands for.
type Kind int

const (
	Missing Kind = iota
	Relation
	Partitioned
	View
)

// A Catalog is what the database says about a table, about the user, and about
// itself.
type Catalog struct {
	Kind        Kind
	Name        string // of the table, as the catalogue writes it
	Schema      string // in which it is, where somebody else may find another of its name
	In          string // in which it is, where Schema does not say it
	Columns     []Column
	Partial     bool       // there may be columns that this user may not see
	Uniques     [][]string // sets of columns without duplicates
	Triggers    []string   // that run at updates
	Indexes     []Index
	Implied     []string // columns that every index has at its end
	Engine      string   // that stores the rows, where it has no transactions
	Deferred    bool     // constraints would speak up at the commit
	Wrong       error    // why the table cannot be worked; nil: nothing is known
	User, Grant string   // the user as GRANT names it, "" for none, and the table
	Zone        string   // of a session whose program asks for none; "": it is UTC, or says nothing
	Advice      string   // for the owner of the database; "": none
}

// A Class is what a column can hold, as far as literals are concerned.
type Class int

const (
	Any Class = iota // any value, as it was written
	Textual
	Integer
	Real
	Numeric // numbers become numbers, other text stays
	Boolean
	Bytes
)

// A Column is one of the table's.
type Column struct {
	Name      string
	Decl      string // the type as declared
	Class     Class
	Length    int // of text, in characters; 0: no limit
	NotNull   bool
	Generated bool
	JSON      bool

	Octets  int             // of text, in bytes of UTF-8 at most; 0: no limit
	Holds   func(rune) bool // of text: whether it takes the character; nil: it takes all
	Expr    string          // by which it is read, as JSON; "": as it is stored
	Labels  []string        // of an ENUM or a SET: no other text is legal; nil: any is
	Domain  string          // the type as the database has it where it is a domain
	Low     int64           // the smallest whole number
	High    int64           // the largest; 0: any
	Most    int64           // the largest, where somebody may count that far; 0: a larger one
	Ordinal bool            // its order is not the order of its texts
	Long    bool            // of text: an index has only its beginnings
	Updated bool            // the database sets it itself when the row is written
	Time    *Calendar       // the form of its times, where its type says it; without a zone: in any
	Zero    string          // behind its name: the condition for zero dates, such as [ZeroNumber]; "": it holds none
}

// IsDecimal reports whether the column keeps the digits of numbers, however many
// they are.
func (c *Column) IsDecimal() bool {
	decl := strings.ToLower(c.Decl)
	return strings.HasPrefix(decl, "decimal") || strings.HasPrefix(decl, "numeric")
}

// A Calendar is how a type writes dates and times.
type Calendar = timeform.Calendar

// An Index is one of the table's.
type Index struct {
	Name    string
	Columns []string // "" for an expression
	Down    []bool   // which of the columns are in descending order
	Where   string   // the condition of a partial index; "" for others
	Unique  bool
	Sorted  bool // its order is the order of the columns' whole values
	Hidden  bool // the planner does not use it
}

// Find returns the column of that name; with fold it may be written in another
// case.
func (c *Catalog) Find(name string, fold bool) *Column {
	i := slices.IndexFunc(c.Columns, func(x Column) bool { return x.Name == name })
	if i < 0 && fold {
		i = slices.IndexFunc(c.Columns, func(x Column) bool { return strings.EqualFold(x.Name, name) })
	}
	if i < 0 {
		return nil
	}
	return &c.Columns[i]
}

// Names lists the columns.
func (c *Catalog) Names() string {
	list := strings.Join(c.ColumnNames(), ", ")
	if c.Partial {
		list += ", and such as this user may not read"
	}
	return list
}

// ColumnNames returns the names of the columns.
func (c *Catalog) ColumnNames() []string {
	return Mapped(c.Columns, func(x Column) string { return x.Name })
}

// NoColumn returns the problem of a setting's column that is not there.
func (c *Catalog) NoColumn(setting, table, name string) error {
	return Problemf(mapping.DidYouMean(name, c.ColumnNames(), "the columns are: "+c.Names()), "%s: table %s has no column %q", setting, table, name)
}

// NoTable says in Wrong that the table is not there; the query lists the tables that
// are where it was looked for.
func (c *Catalog) NoTable(ctx context.Context, q Querier, where, set, query string, args ...any) error {
	have, err := Texts(ctx, q, query, args...)
	list := "there are no tables"
	if len(have) > 0 {
		list = "the tables are: " + strings.Join(have, ", ")
	}
	hint := mapping.DidYouMean(c.Name, have, "set "+set+"; `backlog init --create-table` creates it; "+list)
	if schema, name, dotted := strings.Cut(c.Name, "."); dotted {
		hint = "if that is schema and name, write table: {schema: " + mapping.InYAML(schema) + ", name: " + mapping.InYAML(name) + "}; " + hint
	}
	c.Wrong = Problemf(hint, "table %s does not exist in %s", c.Name, where)
	return err
}

// AddIndexes adds the indexes. Each row tells one column of one index, in order: name,
// cond (of a partial index) and col are text, uniq, sorted, hidden and down say yes or
// no.
func (c *Catalog) AddIndexes(rows []Row) {
	for _, r := range rows {
		if n := len(c.Indexes); n == 0 || c.Indexes[n-1].Name != r["name"] {
			c.Indexes = append(c.Indexes, Index{Name: r["name"], Where: r["cond"], Unique: r.Is("uniq"), Sorted: true, Hidden: r.Is("hidden")})
		}
		x := &c.Indexes[len(c.Indexes)-1]
		x.Columns, x.Down, x.Sorted = append(x.Columns, r["col"]), append(x.Down, r.Is("down")), x.Sorted && r.Is("sorted")
	}
	for _, x := range c.Indexes {
		if x.Unique && x.Where == "" && !slices.Contains(x.Columns, "") {
			c.Uniques = append(c.Uniques, x.Columns)
		}
	}
}

// Unique reports whether no two rows can have the same values in the columns.
func (c *Catalog) Unique(cols []string) bool {
	isOther := func(name string) bool { return !slices.Contains(cols, name) }
	return slices.ContainsFunc(c.Uniques, func(u []string) bool { return !slices.ContainsFunc(u, isOther) })
}

// Serving returns the indexes by which rows with one value in each of the columns
// equal come in the given order. A partial index may leave out some of the former,
// which its condition says.
func (c *Catalog) Serving(equal, order []string) (list []Index) {
	for _, x := range append(slices.Clip(c.Indexes), Index{Columns: c.Implied, Down: make([]bool, len(c.Implied)), Sorted: true}) {
		columns, down := x.Columns, x.Down
		for _, name := range c.Implied {
			if !slices.Contains(columns, name) {
				columns, down = append(slices.Clip(columns), name), append(slices.Clip(down), false)
			}
		}
		n := 0
		for n < len(columns) && slices.Contains(equal, columns[n]) {
			n++
		}
		rest := slices.DeleteFunc(slices.Clone(order), func(name string) bool { return slices.Contains(columns[:n], name) })
		if x.Hidden || !x.Sorted || x.Where == "" && n < len(equal) || len(columns) < n+len(rest) {
			continue
		}
		if slices.Equal(columns[n:n+len(rest)], rest) && (len(rest) == 0 || !slices.Contains(down[n:n+len(rest)], !down[n])) {
			list = append(list, x)
		}
	}
	return list
}
