package table

import _ "github.com/go-sql-driver/mysql"

func openMySQL(string, Options) (*DB, error) {
	return nil, problem("write sqlite:PATH, such as sqlite:backlog.db", "databases of the kind mysql are not supported yet")
}
