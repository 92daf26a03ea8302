# GNU make. `make` alone lists the targets.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# One line each from scripts/version.sh; overridable: make build VERSION=1.2.3
VERSION ?= $(shell scripts/version.sh version)
COMMIT  ?= $(shell scripts/version.sh commit)
DATE    ?= $(shell scripts/version.sh date)

# Version control is stamped by our own flags, so that a tarball builds as a
# clone does and a clone of another user's needs no git setting.
export GOFLAGS := $(strip $(filter-out -buildvcs=%,$(GOFLAGS)) -buildvcs=false)
BINARY  ?= bin/leafd
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT) -X main.date=$(DATE)

# What `make test` leaves to `make test-all`: browsers, builds of leafd with its profile
# or as a mutant, whole rigs, other programs (promtool, Redis and its drivers, systemd's),
# and what keeps three daemons and ZooKeeper under load for more than a quarter of a minute.
# A test that is not named here is run by `make test`. Tests whose drivers take long to
# compile (Chromium's, Redis') are in files with the build tag long.
LONG_TESTS    := TestDashboard|TestDashboardSaysWhatIsWrong|TestDashboardIsClosedToOtherPages|TestDashboardOfAThousandWorkersAndAHundredThousandTags|TestDashboardWaitsAndPauses|TestPackage|TestEachMutantBuilds|TestClusterRunsUntilItIsInterrupted|TestClusterGoesOnWithoutAPart
LONG_TESTS    := $(LONG_TESTS)|TestZooKeeperLosesItsDataUnderLoad|TestZooKeeperNetworkFailsUnderLoad|TestZooKeeperServerIsOutUnderLoad|TestEnsembleFailsUnderLoad
LONG_TESTS    := $(LONG_TESTS)|TestRestartWithoutZooKeeper|TestCrashThenRollbackRepeatsNothing|TestSixteenFirstStartsAtOnce|TestOutagesDontStarveTheWatchdog
LONG_TESTS    := $(LONG_TESTS)|TestSlicesOfAHolderThatIsCutOff
LONG_TESTS    := $(LONG_TESTS)|TestRestoredBeforeARelease
LONG_TESTS    := $(LONG_TESTS)|TestWayBackFromAWrongInit|TestNothingDestroysACluster|TestClientsHoldNoMoreThanTheirShare
LONG_TESTS    := $(LONG_TESTS)|TestPrograms|TestTranscriptsAreOfRedis|TestPromtool|TestSystemdSocketActivate
LONG_TESTS    := $(LONG_TESTS)|TestGalera|TestStates|TestExplore|TestExploreWithoutARule
LONG_PACKAGES := ./cmd/... ./segment/sqlstore ./server ./server/resp ./worker ./zkreg ./deploy/package ./test/...
TEST_TIMEOUT  ?= 15m
# Tests at once in a package. Most of them wait, for a claim to settle, a lease, a server: as many as there are processors leave these idle.
TEST_PARALLEL ?= 6
TEST_TMPDIR   ?= $(shell scripts/tmpdir.sh)
# Without the profile, with which all that leafd links is compiled once more; without vet, which lint runs over all of it.
TEST_FLAGS    := -count=1 -pgo=off -vet=off -parallel=$(TEST_PARALLEL)
RACE_TIMEOUT  ?= 25m
MODULES       := client test/bench test/goclient# beside the main one
RACE_PACKAGES ?= ./...
# Without the race detector alone: the tests that take minutes.
RACE_SKIP     ?= $(LONG_TESTS)
FUZZTIME      ?= 10s
SOAK_DURATION ?= 1h
SOAK_RATE     ?= 50000
SEED          ?= 1
MINUTES       ?= 5
STORY         ?=
FAULTS        ?=
CHAOS_DURATION ?= 10m
CHAOS_SEED    ?= 0
CHAOS_MIX     ?=
BENCH_SECONDS ?= 3
BENCH_ROUNDS  ?= 5
BUILDER       ?= docker
IMAGE         ?= leafd:$(VERSION)
PORTS         ?= 8000
ARGS          ?=

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":[^#]*## "} /^[a-z-]+:[^#]*## / {printf "  %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: build
build: ## bin/leafd: static, version stamped, profile-guided where cmd/leafd/default.pgo is there
	CGO_ENABLED=0 go build -trimpath -pgo=auto -ldflags '$(LDFLAGS)' -o $(BINARY) ./cmd/leafd

.PHONY: run
run: build ## build and serve on 127.0.0.1:8080 with embedded defaults; ARGS="--listen :9090 …" adds flags
	bin/leafd serve $(ARGS)

.PHONY: cluster
cluster: deps build ## ZooKeeper, MariaDB and three daemons until Ctrl-C, to kill and freeze; PORTS (8000), ARGS for the daemons
	go build -o bin/cluster ./test/devcluster
	bin/cluster -ports '$(PORTS)' -- $(ARGS)

.PHONY: screenshots
screenshots: deps-long ## take the pictures of docs/DASHBOARD.md again
	mkdir -p docs/dashboard
	LEAFDTEST_SCREENSHOTS=$(CURDIR)/docs/dashboard go test -tags=long -count=1 -run '^TestDashboard$$' ./cmd/leafd

.PHONY: api
api: ## write /openapi.json, the list of GET / and the lists of docs/API.md again, from server/api_test.go; part of docs
	LEAFDTEST_WRITE_API=1 go test -count=1 -run '^TestAPIIsCurrent$$' ./server

.PHONY: docs
docs: api deps ## write again what docs/ has from the code's tables: endpoints, errors, settings, commands, exit codes, metrics
	LEAFDTEST_WRITE_DOCS=1 TMPDIR=$(TEST_TMPDIR) go test -count=1 -run '^(TestReferenceIsCurrent|TestMetricsOfARealDaemon)$$' ./cmd/leafd/internal/cli ./cmd/leafd

.PHONY: deps
deps: ## install what the tests need and the machine lacks (MariaDB, ZooKeeper, Java)
	@scripts/deps.sh test

.PHONY: deps-long
deps-long: # what the tests that take minutes need, too
	@scripts/deps.sh test long

.PHONY: deps-race
deps-race:
	@scripts/deps.sh test race

.PHONY: deps-bench
deps-bench: ## install what the benchmarks need and the machine lacks (redis-server)
	@scripts/deps.sh bench

.PHONY: deps-spec
deps-spec: ## install what the model is checked with and the machine lacks (spin, gcc)
	@scripts/deps.sh spec

.PHONY: test
test: deps ## the tests, on servers of their own, but for those that take minutes
	printf '%s\n' $(MODULES) | TMPDIR=$(TEST_TMPDIR) xargs -P 3 -I{} go -C {} test $(TEST_FLAGS) -timeout=$(TEST_TIMEOUT) ./...
	TMPDIR=$(TEST_TMPDIR) go test $(TEST_FLAGS) -timeout=$(TEST_TIMEOUT) -skip='^($(LONG_TESTS))$$' ./...

.PHONY: test-all
test-all: deps-long test ## all tests
	TMPDIR=$(TEST_TMPDIR) go test -tags=long $(TEST_FLAGS) -timeout=$(TEST_TIMEOUT) -run='^($(LONG_TESTS))$$' $(LONG_PACKAGES)

.PHONY: test-mysql
test-mysql: ## the tests of the database on MySQL instead of MariaDB, Debian's package of it unpacked into bin/tools
	export LEAFDTEST_MYSQLD=$$(scripts/mysql.sh) TMPDIR=$(TEST_TMPDIR) && \
	  go test -count=1 -timeout=$(TEST_TIMEOUT) ./segment/... && go test -count=1 -timeout=$(TEST_TIMEOUT) -run='MySQL|Database' ./cmd/leafd

.PHONY: test-redis-clients
test-redis-clients: build ## redis-py, node-redis, ioredis, Jedis and Lettuce get IDs, through failovers too (Python, npm, Maven, a JDK)
	TMPDIR=$(TEST_TMPDIR) test/redisclients/run.sh bin/leafd

.PHONY: test-java
test-java: build ## client/java, the Java client and what joins it to frameworks (Maven, a JDK of 17 or later)
	@scripts/deps.sh java
	TMPDIR=$(TEST_TMPDIR) mvn -B -q -f client/java/pom.xml -Dleafd=$(abspath $(BINARY)) verify

.PHONY: test-clients
test-clients: build ## client/python and client/node on daemons that are killed and frozen (Python, Node, openssl)
	@scripts/deps.sh clients
	cd client/python && LEAFD=$(abspath $(BINARY)) PYTHONDONTWRITEBYTECODE=1 python3 -W ignore::ResourceWarning -m unittest
	cd client/node && LEAFD=$(abspath $(BINARY)) node --test

.PHONY: test-migration
test-migration: deps ## leafd beside Java Leafs, and docs/MIGRATION.md (Maven, a JDK); LEAF_JAR=leaf.jar of a real one, which TestRequests needs
	@for tool in mvn javac; do command -v $$tool >/dev/null || { echo "make test-migration needs $$tool: on Debian, apt-get install maven default-jdk-headless" >&2; exit 1; }; done
	@mvn -B -q -f test/migration/java/pom.xml package || { echo "make test-migration builds test/migration/java with what Maven downloads from Maven Central: see above why it could not" >&2; exit 1; }
	mkdir -p bin/migration/tmp # on a disk: leafd doctor is asked, too
	rm -rf bin/migration/leaf
	$(if $(LEAF_JAR),jar=$(abspath $(LEAF_JAR)) && mkdir bin/migration/leaf && cd bin/migration/leaf && jar xf "$$jar" && test -d BOOT-INF/lib)
	LEAFDTEST_MIGRATION=$(CURDIR)/bin/migration LEAFDTEST_LEAF=$(if $(LEAF_JAR),$(CURDIR)/bin/migration/leaf) \
	  TMPDIR=$(CURDIR)/bin/migration/tmp go test -tags migration -count=1 -v -timeout=$(TEST_TIMEOUT) $(if $(LEAF_JAR),,-skip '^TestRequests$$') ./test/migration

.PHONY: race race-client
race: deps-race ## the tests under the race detector; RACE_PACKAGES=./segment/... and RACE_RUN=TestGuard for some
	TMPDIR=$(TEST_TMPDIR) CGO_ENABLED=1 go test -race $(TEST_FLAGS) -timeout=$(RACE_TIMEOUT) -run='$(RACE_RUN)' -skip='^($(RACE_SKIP))$$' $(RACE_PACKAGES)
race-client: deps-race ## those of the Go client under the race detector
	TMPDIR=$(TEST_TMPDIR) CGO_ENABLED=1 go -C client test -race $(TEST_FLAGS) -timeout=$(RACE_TIMEOUT) ./...

.PHONY: lint
lint: ## golangci-lint, with vet and gofumpt
	linter=$$(scripts/golangci-lint.sh); for module in . $(MODULES); do (cd $$module && "$$linter" run ./...); done

.PHONY: fmt
fmt: ## rewrite the sources as the linter wants them formatted
	linter=$$(scripts/golangci-lint.sh); for module in . $(MODULES); do (cd $$module && "$$linter" fmt); done

.PHONY: explore
explore: ## every state of the real code's decisions about worker IDs within bounds, and with each rule taken out, 5 minutes
	LEAFDTEST_EXPLORE=all go test -tags=long $(TEST_FLAGS) -timeout=0 -run='^TestExplore' ./worker

.PHONY: prove prove-results
prove: ## prove spec/'s rules of worker IDs, slices and segments with z3 (Python's package), each rule taken out once, 2 minutes
	spec/prove.sh $(ARGS)
prove-results: ## the same, and spec/results.txt and decide.txt, which a test compares with worker.Decide
	spec/prove.sh results

.PHONY: spec
spec: deps-spec ## check what the proof takes as given of a data directory: the model of spec/, and what goes wrong without each rule
	spec/run.sh check

.PHONY: fuzz
fuzz: ## every fuzz target, FUZZTIME (10s) each; FUZZ=Accept for those with that in their name
	scripts/fuzz.sh $(FUZZTIME) $(FUZZ)

.PHONY: bench bench-report bench-http bench-redis bench-cost bench-gen bench-start
bench: bench-gen ## all benchmarks, as ratios beside their targets, 10 minutes; BENCH_SECONDS (3), BENCH_ROUNDS (5)
bench-report: ## the same, and docs/evidence/benchmarks.txt, its tables
	$(MAKE) -s bench | tee bin/benchmarks.txt && mv bin/benchmarks.txt docs/evidence/benchmarks.txt
bench-http: ## one ID, pipelined and in batches over HTTP, against a bare fasthttp server
bench-redis: ## segment and snowflake IDs against INCR of redis-server, by CPU time per ID
bench-cost: ## cost against clients
bench-gen: ## the generators against another library and an atomic add
	go -C test/bench test -run '^$$' -bench . -cpu 2 -benchtime $(BENCH_SECONDS)00ms -count $(BENCH_ROUNDS) ./gen | grep ^Benchmark
bench-start: ## time to the first ID, memory, 100,000 tags
bench bench-http bench-redis bench-cost bench-start: deps-bench build
	go -C test/bench build -trimpath -o ../../bin/bench/ ./barehttp ./cmd/leafbench ./cmd/rawload
	bin/bench/leafbench -leafd $(BINARY) -seconds $(BENCH_SECONDS) -rounds $(BENCH_ROUNDS) $(patsubst bench-%,%,$(filter bench-%,$@))

.PHONY: bench-fair
bench-fair: build ## what clients see beside crowds that take what they can: served, p50, p99; docs/evidence/figures.txt; ARGS="-only TLS" for some
	go build -o bin/fair ./test/fair
	TMPDIR=$(TEST_TMPDIR) bin/fair -leafd $(BINARY) $(ARGS)

.PHONY: bench-clients
bench-clients: build ## what IDs cost applications in Python, Node, Java and Go, and calls that fail in a kill -9; docs/evidence/clients.txt
	go -C test/bench build -o ../../bin/bench/clients ./cmd/clients
	TMPDIR=$(TEST_TMPDIR) bin/bench/clients -leafd $(BINARY) $(ARGS)

.PHONY: bench-scale
bench-scale: deps ## 10, 100 and 1,000 registries that start at once on one ZooKeeper: their requests, beside the bounds; 3 minutes
	go build -o bin/scale ./test/scale
	TMPDIR=$(TEST_TMPDIR) bin/scale $(ARGS)

.PHONY: soak
soak: deps build ## SOAK_DURATION (1h) of SOAK_RATE (50000/s), ZooKeeper and MariaDB restarted nine times: latency, leaks, IDs
	go build -o bin/soak ./test/soak
	TMPDIR=$(TEST_TMPDIR) bin/soak -leafd $(BINARY) -duration $(SOAK_DURATION) -rate $(SOAK_RATE) $(ARGS)

.PHONY: simulate
simulate: ## whole daemons in simulated time, under drawn faults; SEED (1), MINUTES (5), FAULTS (a regular expression), STORY (a file that a failure has printed)
	SEED='$(SEED)' MINUTES='$(MINUTES)' STORY='$(STORY)' FAULTS='$(FAULTS)' go test $(TEST_FLAGS) -timeout=0 -run='^TestSimulation$$' ./cmd/leafd/internal/simulation

.PHONY: chaos chaos-mutants chaos-build
chaos: chaos-build ## inject faults into a cluster and check every ID, docs/evidence/PROOF.md; CHAOS_SEED (the time), CHAOS_DURATION (10m), CHAOS_MIX
	bin/chaos run -seed '$(CHAOS_SEED)' -duration '$(CHAOS_DURATION)' -mix '$(CHAOS_MIX)' $(ARGS)
chaos-mutants: chaos-build ## the same with one guard taken out each: all have to be found; ARGS="floor lock" for some
	bin/chaos mutants $(ARGS)
chaos-build: deps-long
	go build -tags chaos -pgo=off -o bin/leafd-chaos ./cmd/leafd
	go build -o bin/chaos ./test/chaos

.PHONY: pgo
pgo: ## make the profile again that build compiles with, after a change of the request path
	go -C test/bench build -trimpath -o ../../bin/bench/ ./cmd/pgo ./cmd/rawload
	taskset -c 0 bin/bench/pgo -o cmd/leafd/default.pgo

.PHONY: deb rpm
deb: ## dist/leafd_VERSION_ARCH.deb, the package for Debian 12, Ubuntu 22.04 and later
rpm: ## dist/leafd-VERSION-1.ARCH.rpm, the package for Red Hat, Fedora and SUSE
deb rpm: build
	scripts/package.sh bin/leafd '$(VERSION)' '$(DATE)' dist $@

.PHONY: release
release: ## dist/VERSION: archives, packages, SBOMs, SHA256SUMS, the same on any machine; VERSION=v1.2.3
	scripts/release.sh '$(VERSION)'

.PHONY: check-release
check-release: ## make a release twice, in clones and build caches of their own, and compare; VERSION=v1.2.3
	scripts/release.sh '$(VERSION)' check

.PHONY: man
man: ## bin/manual: the pages of the manual (man1) and the completions of bash, zsh and fish
	SOURCE_DATE_EPOCH=$$(date -u -d '$(DATE)' +%s) TZ=UTC0 go run ./cmd/leafd/internal/manual bin/manual

.PHONY: notices
notices: build ## bin/NOTICES: the licences of what is linked into bin/leafd, for passing it on without the package
	scripts/notices.sh bin/leafd >bin/NOTICES

.PHONY: image
image: ## the container image, leafd:VERSION; IMAGE, BUILDER (docker, podman or buildah), ARGS for its build
	$(BUILDER) build -f deploy/container/Dockerfile -t '$(IMAGE)' \
	  --build-arg VERSION='$(VERSION)' --build-arg COMMIT='$(COMMIT)' --build-arg DATE='$(DATE)' $(ARGS) .

.PHONY: check-deploy
check-deploy: ## hold the manifests of deploy/kubernetes, the Helm chart and compose.yaml to the types of Kubernetes and Compose
	linter=$$(scripts/golangci-lint.sh) && cd test/deploy && "$$linter" run ./... && go test -count=1 ./...

.PHONY: clean
clean: ## remove what was built
	rm -rf bin dist
