# The commands of the project. `make` lists them.

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS  = -s -w -X backlog/cmd.Version=$(VERSION)

# The linter is run at a fixed version without becoming a dependency.
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2

# The second SQLite driver needs a C compiler.
HAVE_CGO := $(shell $(GO) env CGO_ENABLED | grep -q 1 && command -v $$($(GO) env CC) >/dev/null && echo yes)

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# How the program is built, and in a gate whatever does not test the driver in C: each
# other way compiles some 100,000 lines again.
STATIC = CGO_ENABLED=0 GOFLAGS='$(shell $(GO) env GOFLAGS) -trimpath'
# What attacks a promise misses no server and no tool: a test that would be skipped fails, as in CI.
NO_SKIP = CI=true

build: ## build bin/backlog, linked with nothing of the system
	$(STATIC) $(GO) build -ldflags '$(LDFLAGS)' -o bin/backlog .

build-cgo: ## build bin/backlog with the other SQLite driver, in C, which is faster
	CGO_ENABLED=1 $(GO) build -trimpath -tags cgo_sqlite -ldflags '$(LDFLAGS)' -o bin/backlog .

licences: build ## write the licences of all that is linked into the program to bin/
	GO='$(GO)' $(STATIC) $(GO) run ./packaging/licences bin/backlog >bin/THIRD_PARTY_LICENSES

# The packager is run at a fixed version, likewise.
NFPM = github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2
# A version of a package begins with a digit and has no dash in it.
PACKAGED = $(subst -,.,$(patsubst v%,%,$(if $(filter v%,$(VERSION)),,0.0.0+)$(VERSION)))
package: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null)

package: licences ## write a .deb and a .rpm to bin/
	rm -rf bin/package bin/*.deb bin/*.rpm && mkdir -p bin/package/man
	for shell in bash zsh fish; do bin/backlog completion $$shell >bin/package/$$shell; done
	$(STATIC) $(GO) run ./packaging/man bin/package/man && gzip -9n bin/package/man/*
	sed 's,/schedule\.,/%i.,; s,^Description=.*,& of %i,' packaging/backlog.service >bin/package/backlog@.service
	sed 's,$$schema=.*,$$schema=/usr/share/backlog/schedule.schema.json,' schedule.example.yaml >bin/package/schedule.yaml
	for kind in deb rpm; do PACKAGED=$(PACKAGED) ARCH=$$($(GO) env GOARCH) $(STATIC) $(GO) run $(NFPM) package -f packaging/nfpm.yaml -p $$kind -t bin; done

demo: build ## work off a sample backlog and show what happened
	@$(STATIC) ./testdata/demo/demo.sh

test: ## run every test, under both SQLite drivers where there is a C compiler
	./testdata/test.sh '$(GO)' '$(HAVE_CGO)'

services: ## start PostgreSQL, MariaDB, Redis and RabbitMQ for the tests, unless they run already
	@./testdata/services.sh

# The packages that make system calls, apart from cmd, which would take SQLite along.
SYSTEM_CALLS = ./backlog/handler/... ./backlog/checkpoint ./backlog/config ./backlog/metrics ./backlog/web

lint: ## check format, vet, staticcheck
	@files=$$(gofmt -s -l $$(git ls-files -co --exclude-standard '*.go')); test -z "$$files" || { echo "gofmt -s would change:" $$files; exit 1; }
	$(STATIC) $(GO) vet ./... ./testdata/demo ./testdata/minimal ./testdata/kills
	$(STATIC) $(GO) run $(STATICCHECK) ./... ./testdata/demo ./testdata/minimal ./testdata/kills
	for system in darwin freebsd; do GOOS=$$system $(STATIC) $(GO) vet $(SYSTEM_CALLS) || exit; done
ifeq ($(HAVE_CGO),yes)
	$(GO) vet $(if $(CI),-race) -tags cgo_sqlite $$(git grep -l cgo_sqlite -- '*.go' | xargs -n 1 dirname | sort -u | sed 's|^|./|')
endif

platforms: ## build the program for every platform that docs/platforms.md names
	./testdata/platforms.sh '$(GO)'

bench: ## measure, as ratios to bare loops in the same run (SHORT=1: once, on few rows)
	$(if $(SHORT),$(STATIC)) ./testdata/bench.sh '$(GO)' '$(HAVE_CGO)' $(SHORT)

# The other libraries are no dependencies: they are in a module of their own, which the commands above leave out.
peers: ## drain N=300000 records with River, goqite, backlite, asynq and backlog, RUNS=3 times each in turn
	cd testdata/peers && $(STATIC) $(GO) vet .
	cd testdata/peers && $(STATIC) $(GO) run -ldflags '-X main.ourVersion=$(VERSION)' . -n $(or $(N),300000) -runs $(or $(RUNS),3) -run '$(RUN)'

growth: build ## measure what grows with the table, from 10^4 to 10^MAX rows (MAX=7)
	$(STATIC) ./testdata/growth.sh '$(GO)' $(or $(MAX),7)

orphans: ## run N=10000 handlers that leave processes behind, under a first process as in a container
	BACKLOG_ORPHANS=$(or $(N),10000) $(STATIC) $(GO) test -v -count=1 -run '^TestOrphans$$' ./backlog/handler/exec

fuzz: ## fuzz every parser for FUZZTIME=30s, and on until QUIET=10m reach no new statement; RUN=FuzzCron only those that match
	RUN='$(RUN)' QUIET='$(QUIET)' ./testdata/fuzz.sh '$(GO)' $(or $(FUZZTIME),30s)

torture: ## kill source, daemon and worker at each arrow to RabbitMQ, N=200 times
	$(NO_SKIP) ./testdata/torture.sh '$(GO)' $(or $(N),200) $(RUN)

kills: ## kill whatever works, N=1000 times at random, on every database and under every policy
	$(NO_SKIP) ./testdata/kills.sh '$(GO)' $(or $(N),1000) $(RUN)

faults: ## plant faults in the program that its kills must find
	$(NO_SKIP) BACKLOG_FAULTS=1 $(STATIC) $(GO) test -v -count=1 -timeout=2h -run '^TestPlantedFaults$$' ./cmd

hostile: ## draw tables that refuse some of their rows, and what happens to them, N=1000 times for each database
	$(NO_SKIP) BACKLOG_HOSTILE=$(or $(N),1000) $(STATIC) $(GO) test -count=1 -timeout=12h -run '^TestHostileTables$$' ./cmd

power: ## lose the power N=5000 times while once and a daemon write to SQLite, in each journal mode
	$(NO_SKIP) BACKLOG_POWER=$(or $(N),5000) $(STATIC) $(GO) test -v -count=1 -timeout=12h -run '^TestPowerLoss$$' ./cmd

syscalls: ## kill a pass before each of its system calls, and let each fail, for each database
	$(NO_SKIP) BACKLOG_SYSCALLS=all $(STATIC) $(GO) test -v -count=1 -timeout=12h -run '^TestSystemCalls$$' ./cmd

network: ## draw what happens to the network between program and servers, N=1000 times for each, from SEED=1 on
	$(NO_SKIP) BACKLOG_NETWORK=$(or $(N),1000) BACKLOG_NETWORK_SEED=$(or $(SEED),1) $(GO) test -v -count=1 -timeout=24h -parallel=12 -run '^TestNetwork' ./cmd

soak: ## keep daemons at work: 1,000 reloads, 500 outages, 10,000 passes, 10,000,000 records, or SCALE=0.1 of that
	$(NO_SKIP) BACKLOG_SOAK=$(or $(SCALE),1) $(STATIC) $(GO) test -v -count=1 -timeout=12h -run '^TestSoak$$' ./cmd

truth: ## compare what advise learns and proposes with the truths that records are drawn from, in N=20 worlds of each
	BACKLOG_TRUTH=$(or $(N),20) $(STATIC) $(GO) test -v -count=1 -timeout=2h -run '^Test(TruthOfManySeeds|Money.*|PolicyMoney|EvaluateIsPlayed|PolicyIsPlayed)$$' ./backlog/advise/...

model: ## check the models of locks, a row and ticks by spin, and that each of their mutants fails
	@./testdata/model.sh

.PHONY: help build build-cgo licences package demo test services lint platforms bench peers growth orphans fuzz torture kills faults hostile power syscalls network soak truth model
