package checkpoint

import "testing"

// The state stays where it is when the password is changed, not when it is
// another database's.
func TestPlace(t *testing.T) {
	for _, x := range []struct {
		one, other string
		same       bool
	}{
		{"postgres://a:old@db.example.com/shop", "postgresql://a:new@DB.example.com:5432/shop?sslmode=require", true},
		{"postgres://a@db.example.com/shop", "postgres://b@db.example.com/shop", true},
		{"postgres://db.example.com/shop", "postgres://db.example.com/shop?search_path=other", false},
		{"postgres:///shop?host=/run/a", "postgres:///shop?host=/run/b", false},
		{"postgres://db.example.com/shop", "postgres://db.example.com:5433/shop", false},
		{"postgres://db.example.com/shop", "mysql://db.example.com:5432/shop", false},
		{"mysql://a:x@db.example.com/shop", "mariadb://a:y@db.example.com:3306/shop?tls=true", true},
		{"mysql://db.example.com/shop", "mysql://db.example.com/other", false},
		{"sqlite:shop.db", "sqlite:./shop.db?synchronous=normal", true},
		{"sqlite:shop.db", "sqlite:other.db", false},
		{"mysql://a:%zz@h/shop", "mysql://a:%zy@h/shop", false}, // no URL
	} {
		if same := databaseIdentity(x.one) == databaseIdentity(x.other); same != x.same {
			t.Errorf("%s and %s: the same %t, want %t (%s, %s)", x.one, x.other, same, x.same, databaseIdentity(x.one), databaseIdentity(x.other))
		}
	}
}
