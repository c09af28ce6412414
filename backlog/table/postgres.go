package table

import _ "github.com/jackc/pgx/v5/stdlib"

func openPostgres(string, Options) (*DB, error) {
	return nil, problem("write sqlite:PATH, such as sqlite:backlog.db", "databases of the kind postgres are not supported yet")
}
