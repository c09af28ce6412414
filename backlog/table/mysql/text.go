package mysql

import "backlog/backlog/table/db"

var text = db.Text{
	Name: "MySQL", Schemes: []string{"mysql", "mariadb"}, Driver: "github.com/go-sql-driver/mysql",
	URLForm:          "mysql://user:password@host:3306/database, in the password %40 for @, %2F for /, %3A for :, %23 for #, %3F for ? and %25 for %",
	HostHint:         "name host and port of a MySQL or MariaDB server in the database URL",
	CertificateHint:  "name the host as the certificate does, or write tls=skip-verify in the URL to trust any",
	Parameters:       map[string]string{"tls": "true false skip-verify preferred", "socket": ""},
	UnknownParameter: "tls and socket are the ones there are", NeedsHost: true,
	Quotes: "`", True: "1", False: "0", Blob: "x'%s'", Backslashes: true,
	// Comparing rows would be faster. But if a date is part of the key of a partitioned table,
	// MySQL 9.7 prepares such a statement with uninitialized memory in its place.
	RowList: "",
	Raw:     "%s", Unindexed: "IF(%s, 1, 0)", LockRow: " FOR UPDATE", NoWait: " NOWAIT", PlaceholderMarks: "?", HashComments: true, PlainLimit: true,
	NowMicros: "CAST(unix_timestamp(now(6)) * 1000000 AS SIGNED)",
	// Without a hint MariaDB prefers to look up the status in the index, where most rows have that
	// status. It then reads from the newest row to the place of the page, so that each page reads
	// everything that the pages before it have read.
	IndexHint: "%s FORCE INDEX (%s)",
	Prepares:  true, EqualFirst: true, FoldsNames: true,
	BeginPlan: "START TRANSACTION READ WRITE", Explain: "EXPLAIN FORMAT=TRADITIONAL ", CreateIndex: "CREATE INDEX", NameLength: 64,
	// What a trigger has written to a table without transactions cannot be rolled back, which the
	// server reports as a warning.
	WarningsQuery: "SHOW WARNINGS",
	Types: db.Types{
		Key: "BIGINT AUTO_INCREMENT PRIMARY KEY", Integer: "BIGINT", Status: "VARCHAR(191)", Text: "TEXT",
		Options: " ENGINE = InnoDB DEFAULT CHARSET = utf8mb4",
		Times: map[string]db.TimeType{ // CURRENT_TIMESTAMP would use the zone of the session that inserts, and a TIMESTAMP ends in 2038
			"unix_s":  {Decl: "BIGINT", Default: "(UNIX_TIMESTAMP())"},
			"unix_ms": {Decl: "BIGINT", Default: "(CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED))"},
			"unix_us": {Decl: "BIGINT", Default: "(CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED))"},
			"julian":  {Decl: "DOUBLE"},
			"utc":     {Decl: "DATETIME(3)", Default: "(UTC_TIMESTAMP(3))"},
			"native":  {Decl: "DATETIME(3)"},
			"text":    {Decl: "VARCHAR(40)"},
		},
	},
}

// Text implements db.Server.
func (*server) Text() *db.Text { return &text }
