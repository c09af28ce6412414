package cmd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"
)

var configSchema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	return jsonschema.NewCompiler().Compile("../docs/schedule.schema.json")
})

// validate returns what an editor that knows the schema finds wrong with a configuration.
func validate(text []byte) error {
	s, err := configSchema()
	if err != nil {
		return err
	}
	var c any
	if err := yaml.Unmarshal(text, &c); err != nil {
		return err
	}
	return s.Validate(plain(c))
}

// plain returns the value in types of JSON.
func plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			v[key] = plain(inner)
		}
	case map[any]any: // with a key that is no text
		all := make(map[string]any)
		for key, inner := range v {
			all[fmt.Sprint(key)] = plain(inner)
		}
		return all
	case []any:
		for i, inner := range v {
			v[i] = plain(inner)
		}
	case time.Time:
		return v.String()
	}
	return v
}

// beyond are the files of testdata that are refused for what no schema sees: parts that
// contradict each other, values that mean nothing, variables, how the YAML is written.
var beyond = strings.Fields(`
	column-written-twice cron-every cron-impossible cron-malformed cron-zone env-empty env-malformed env-unset exit-status-twice handler-input
	http-allow-missing-host http-allow-missing-port http-allow-missing-url http-client-cert http-client-key http-headers-own http-max-pause
	http-status-both http-status-reject http-success-empty http-url-begins http-url-brace http-url-broken http-url-column-empty
	http-url-fragment http-url-host http-url-scheme keep-not-error key-missing merge-key on-dead-without-dead policy-attempts
	policy-columns-inserted policy-columns-own-times policy-columns-same policy-columns-set policy-columns-taken-by-default policy-columns-taken
	pings-tier pings-url policy-duration-zero policy-none-keep policy-none-same policy-none-set policy-refresh-columns policy-seconds-large policy-seconds-odd
	policy-touch-planned policy-touch rate-too-large rate-unit rate-zero redis-no-refresh refresh-english refresh-told source-keys source-shared
	sql-refresh state-dead-is-success-when state-dead-is-success state-dead-sets-success state-error-is-success state-error-lost
	state-no-status-column state-set-not-when state-success-is-dead state-success-is-error state-success-is-new state-success-stays-new
	status-in-where tag tiers-order tiers-same-name timezone trace-sql two-documents zero-byte
`)

// Each example is valid by the schema, and each file that must be refused for its shape is not.
func TestSchema(t *testing.T) {
	compose, err := os.ReadFile("../docs/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var example struct {
		Configs map[string]struct{ Content string }
	}
	if err := yaml.Unmarshal(compose, &example); err != nil {
		t.Fatal(err)
	}
	if err := validate([]byte(example.Configs["schedule"].Content)); err != nil {
		t.Errorf("docs/compose.yaml: %v", err)
	}
	for _, pattern := range []string{
		"../schedule.example.yaml", "../testdata/config/*.yaml", "../testdata/demo/*.yaml", "../testdata/golden/*.yaml", "../testdata/wild/*/schedule.yaml",
	} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v %v", pattern, files, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			name := strings.TrimSuffix(filepath.Base(file), ".yaml")
			bad := strings.Contains(file, "/config/") && !strings.HasPrefix(name, "ok-")
			shapely := !bad
			for _, b := range beyond {
				shapely = shapely || bad && b == name
			}
			if err := validate(text); (err == nil) != shapely {
				t.Errorf("%s: want valid %v, got %v", file, shapely, err)
			}
		}
	}
}
