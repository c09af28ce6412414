package sqlite

import "backlog/backlog/table/db"

var text = db.Text{
	Name: "SQLite", Schemes: []string{"sqlite", "sqlite3"}, File: true, Driver: Driver,
	URLForm: "sqlite:PATH", Parameters: map[string]string{"synchronous": "full normal"}, UnknownParameter: "synchronous is the only one there is",
	Quotes: `"`, True: "1", False: "0", Blob: "x'%s'", RowList: "(VALUES %s)",
	// A unary plus hides the declared type of a column from the drivers. They would otherwise make
	// times and booleans of the stored values. It has no other effect.
	Raw: "+%s", Unindexed: "(%s) IS TRUE", PlaceholderMarks: "?@$", Brackets: true,
	Prepares: true, LazyUnion: true, PartialIndexes: true, EqualFirst: true, FoldsNames: true, SortsGroups: true,
	// SQLite prepares a statement with the schema that the connection has read, and only running a
	// statement reads a new schema.
	ReadSchema: "SELECT 1 FROM sqlite_schema LIMIT 1",
	Explain:    "EXPLAIN QUERY PLAN ", CreateIndex: "CREATE INDEX IF NOT EXISTS", NameLength: 1 << 10,
	Types: db.Types{
		Key: "INTEGER PRIMARY KEY", Integer: "INTEGER", Status: "TEXT", Text: "TEXT",
		Times: map[string]db.TimeType{ // forms that SQLite itself cannot write have no default
			"unix_s":  {Decl: "INTEGER", Default: "(unixepoch())"},
			"unix_ms": {Decl: "INTEGER", Default: "(CAST(unixepoch('subsec') * 1000 AS INTEGER))"},
			"unix_us": {Decl: "INTEGER"},
			"julian":  {Decl: "REAL", Default: "(julianday())"},
			"utc":     {Decl: "TEXT", Default: "CURRENT_TIMESTAMP"},
			"text":    {Decl: "TEXT"},
		},
	},
}

// Text implements db.Server.
func (*server) Text() *db.Text { return &text }
