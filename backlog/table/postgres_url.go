package table

import (
	"net/url"
	"strings"
)

const postgresCure = "write postgres://USER:PASSWORD@HOST:5432/DATABASE, what is none of a-z, 0-9 and -._~ in the user and the password as %XX; the password may instead be in PGPASSWORD or ~/.pgpass"

// checkPostgresURL says what is wrong with a URL without showing any of it but
// names of parameters: the driver's own errors have parts that may be secret.
func checkPostgresURL(raw string) error {
	scheme, rest, _ := strings.Cut(raw, ":")
	if !strings.HasPrefix(rest, "//") {
		return problem(postgresCure, "the database URL has no // behind %s:", strings.ToLower(scheme))
	}
	u, err := url.Parse(raw)
	if err != nil || u.Opaque != "" || u.Fragment != "" || strings.Count(raw, "@") > 1 || !aHost().MatchString(u.Host) {
		return problem(postgresCure, "the database URL cannot be read")
	}
	if strings.Contains(strings.TrimPrefix(u.Path, "/"), "/") || strings.Contains(u.Path+u.RawQuery, "@") {
		return problem(postgresCure, "the database URL has more behind its host than the name of a database")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return problem(postgresCure, "the database URL's parameters cannot be read")
	}
	for name, list := range query {
		switch known := postgresValues[name]; {
		case !aSetting().MatchString(name):
			return problem(postgresCure, "the database URL has a parameter that is not known")
		case len(list) != 1 || list[0] == "":
			return problem("write NAME=VALUE, each name once", "a parameter of the database URL has no value, or several")
		case known != "" && !strings.Contains(" "+known+" ", " "+list[0]+" "):
			return problem("write one of "+strings.ReplaceAll(known, " ", ", "), "the database URL's parameter %s has a value that is not known", name)
		}
	}
	return nil
}

// aSetting matches the names of parameters, the server's settings among them.
var aSetting = pattern(`^[a-zA-Z_.]{1,63}$`)

// postgresValues are those of the parameters in which people go wrong most.
var postgresValues = map[string]string{
	"sslmode":                 "disable allow prefer require verify-ca verify-full",
	"default_query_exec_mode": "cache_statement cache_describe describe_exec exec simple_protocol",
	"target_session_attrs":    "any read-write read-only primary standby prefer-standby",
}

// shownPostgres returns the URL without user, password and parameters, or no
// more than its kind where it is not certain what is what.
func shownPostgres(scheme, raw string) string {
	u, err := url.Parse(raw)
	if err != nil || checkPostgresURL(raw) != nil || u.User == nil && strings.Contains(raw, "@") || !aDatabase().MatchString(u.Path) {
		return scheme + ":…"
	}
	return scheme + "://" + u.Host + u.Path
}

var (
	// aHost matches names and numbers of hosts, with their ports.
	aHost = pattern(`^([A-Za-z0-9._-]*|\[[0-9a-fA-F:.]*\])(:[0-9]+)?(,([A-Za-z0-9._-]*|\[[0-9a-fA-F:.]*\])(:[0-9]+)?)*$`)

	// aDatabase matches a path that is the plain name of one.
	aDatabase = pattern(`^(/[A-Za-z0-9._-]*)?$`)
)
