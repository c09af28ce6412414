package cmd_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"backlog/internal/testserver"
)

// TestWorkersOnServers kills a daemon whose table's key has a type of its server: what its
// workers answer meanwhile is settled by the next one through the tickets.
func TestWorkersOnServers(t *testing.T) {
	t.Parallel()
	u, _ := testserver.RabbitMQVhost(t)
	keys := map[*siteKind]string{onPostgres: "uuid DEFAULT gen_random_uuid()", onMySQL: "uuid DEFAULT uuid()"}
	onSites(t, serverKinds, func(t *testing.T, kind *siteKind) {
		const rows = 3
		s := newSite(t, kind, map[string]string{"handler.sh": stageHandler})
		s.mustExec(`DROP TABLE "BACKLOG"`)
		for _, text := range kind.table {
			s.mustExec(strings.Replace(text, "id bigint", "id "+keys[kind], 1))
		}
		for range rows {
			s.mustExec(`INSERT INTO "BACKLOG" (status) VALUES ('NEW')`)
		}
		amqp := fmt.Sprintf("{url: %q, name: %s", u, kind.name)
		s.write("schedule.yaml", fmt.Sprintf("database: %q\nhandler: {amqp: %s, lease: 1s, secret: 0123456789abcdef}, timeout: 30s, concurrency: 4}\ntiers: [{max_age: 7d, every: 1s}]\n", s.url(nil), amqp))
		s.write("worker.yaml", fmt.Sprintf("worker: {concurrency: 4, amqp: %s}, handler: {exec: [./handler.sh]}}\n", amqp))
		s.write("wait", "")
		d := s.start("run")
		s.start("worker", "--config", "worker.yaml")
		sees := func(kind string) {
			t.Helper()
			if !eventually(func() bool { return strings.Count(s.read("work.log"), kind) == rows }) {
				t.Fatalf("there are no %d times %q:\n%s\n%s", rows, kind, s.read("work.log"), d.log)
			}
		}
		sees("start")
		d.signal(syscall.SIGKILL)
		<-d.end
		(&works{shop: s.shop}).remove("wait")
		sees("done")
		d = s.start("run")
		if !eventually(func() bool { return s.count("SUCCESS") == rows }) {
			t.Fatalf("not all are settled:\n%s", d.log)
		}
		late := func() int { return strings.Count(d.log.String(), `"msg":"an outcome came late"`) }
		if !eventually(func() bool { return late() >= rows }) || late() > rows { // it is logged behind the commit
			t.Errorf("%d outcomes came late:\n%s", late(), d.log)
		}
		d.signal(syscall.SIGTERM)
		d.ends()
		sees("done")
	})
}
