# Nothing here needs more than Go, but for conformance and golden, which need
# Cargo, Python, npm and Maven, web, web-test, shots and lint, which need npm, and lint and bench, which install their tools
# into bin through Go.

GO       ?= go
MODULES  := . collector exporter/autoexport examples examples/recipes internal/testkit/bench viewer/web/build
# Not examples/recipes: to check its frameworks takes minutes.
CHECKED  := $(filter-out examples/recipes,$(MODULES))
BIN      := $(CURDIR)/bin
FUZZTIME ?= 10s
COUNT    ?= 10
# The tests that soak runs, each of which has to be there.
SOAK     := TestKillUnderLoad TestKillChain TestWaitingSpans TestKillAtEverySyscall TestKillDuringRecovery \
  TestKillWhileJournalIsReplaced TestKillWhileSuspended TestKillWhileJournalIsSuspended TestKillWithSpansLeftBehind TestKillWhileFileIsMended TestKillDuringRecoveryOfRotation TestKillDuringRecoveryOfCorrupt TestKillDuringFinalize TestPowerCut \
  TestPowerCutDuringFinalize TestFullDisk TestMoreThan4GiB TestCreateOnFullDisk \
  TestFrozenDisk
SOAKRING := TestCallsReturnWhileTheDiskStands TestKillAndRecover TestKillWhileTracing TestRingOnFullDisk TestHammer TestTornRing TestWaysToDie TestSnapshotIsPartOfStream TestFolderLimits
SOAKVIEW := TestDeepAndWide TestHeap TestExtendSeveral TestViewAsModel
SOAKCUT  := TestCutAtEveryByteReader TestCutAtEveryByteInspect TestCutAtEveryByteRecover
space    := $(subst ,, )
pattern   = ^($(subst $(space),|,$(strip $(1))))$$
BENCHTIME ?= 200ms
REQUESTS ?= 8000

RELEASE  ?= v0.1.0
COMMIT   ?= $(shell git rev-parse HEAD)
TARGETS  ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 freebsd/amd64 openbsd/amd64 netbsd/amd64
OUT      ?= $(BIN)/release
VETTED   ?= linux/arm64 linux/386 darwin/arm64 windows/amd64 freebsd/amd64 openbsd/amd64 netbsd/amd64

GOLANGCI_VERSION := v2.15.0
BENCHSTAT_VERSION := v0.0.0-20260908200009-22c9c6c9d4da

.PHONY: help demo test race kills soak fuzz bench lint vet ports golden conformance web web-test web-bench shots tools release clean

help: ## say what there is to make
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## record a shop of three processes in which something goes wrong, and explain what
	rm -rf demo
	$(GO) run ./examples/shop -dir demo
	$(GO) run ./cmd/entrace explain demo
	@echo; echo "now try: $(GO) run ./cmd/entrace view demo    (or tree, top, grep tenant=acme; --help has all)"

# With nomsgpack, gin in examples/recipes does not need a package that takes longer to compile than all others.
test: ## test every module
	@set -e; for m in $(MODULES); do echo "== $$m"; (cd $$m && GOWORK=off $(GO) test -tags nomsgpack -timeout 30m ./...); done

race: ## test under the race detector, without what -short leaves out; test and vet have vetted the code
	@set -e; export GORACE=atexit_sleep_ms=0; for m in . collector exporter/autoexport; do (cd $$m && GOWORK=off $(GO) test -race -short -vet=off -timeout 30m ./...); done

soak: ## kill, fill and cut the power for half an hour, which needs root, strace and mkfs.ext4
	@[ "$$(id -u)" = 0 ] || { echo "soak mounts file systems: it needs root" >&2; exit 1; }
	@set -e; check() { n=$$($(GO) test -list "$$2" "$$1" | grep -c ^Test); \
	  [ "$$n" = "$$3" ] || { echo "soak: $$1 has $$n of its $$3 tests" >&2; exit 1; }; }; \
	  check ./recorder '$(call pattern,$(SOAK))' $(words $(SOAK)); check ./control '$(call pattern,$(SOAKRING))' $(words $(SOAKRING)); \
	  check ./view '$(call pattern,$(SOAKVIEW))' $(words $(SOAKVIEW)); check ./format '$(call pattern,$(SOAKCUT))' $(words $(SOAKCUT))
	ENTRACE_CI=1 ENTRACE_SOAK=1 $(GO) test -count 1 -timeout 60m -v -run '$(call pattern,$(SOAK))' ./recorder
	ENTRACE_CI=1 ENTRACE_SOAK=1 $(GO) test -count 1 -timeout 60m -v -run '$(call pattern,$(SOAKRING))' ./control
	ENTRACE_CI=1 ENTRACE_SOAK=1 $(GO) test -count 1 -timeout 60m -v -run '$(call pattern,$(SOAKVIEW))' ./view
	ENTRACE_CI=1 ENTRACE_SOAK=1 $(GO) test -count 1 -timeout 60m -v -run '$(call pattern,$(SOAKCUT))' ./format
	ENTRACE_CI=1 ENTRACE_SOAK=1 $(GO) test -count 1 -timeout 60m -v -run '^(TestWorkIsLinear|TestReleaseIsReproducible|TestBudget|TestUIRandomKeys)$$' ./cmd/entrace
	ENTRACE_CI=1 ENTRACE_SOAK=1 $(GO) test -count 1 -timeout 60m -v -run '^(TestFrozenFolderTakesRequestsWhole|TestOverloadTakesRequestsWhole)$$' ./internal/otel/receive

kills: ## kill recording programs for five minutes, which soak does for longer
	ENTRACE_CI=1 ENTRACE_SOAK=1 ENTRACE_SOAK_KILLS=700 $(GO) test -count 1 -timeout 30m -run '$(call pattern,TestKillUnderLoad TestKillChain TestWaitingSpans)' ./recorder

# A run whose time is over while an input is on its way ends with an error that is
# none, unless there is a failing input.
fuzz: ## run every fuzz target for FUZZTIME
	@set -e; for p in $$($(GO) list -f '{{.Dir}}' ./...); do \
	  grep -qs '^func Fuzz' $$p/*_test.go || continue; \
	  for f in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(f \*testing.F).*/\1/p' $$p/*_test.go); do \
	    out=$$($(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x $$p 2>&1) && ok=1 || ok=; \
	    echo "$$out" | tail -n 3; \
	    case "$$ok$$out" in 1*) ;; *'Failing input'*|*panic*) echo "$$out"; exit 1;; \
	      *'context deadline exceeded'*) ;; *) echo "$$out"; exit 1;; esac; \
	  done; done

bench: $(BIN)/benchstat ## run the benchmarks COUNT times, print medians and what they are against others
	@mkdir -p $(BIN) && rm -f $(BIN)/bench.txt
	@set -e; for i in $$(seq $(COUNT)); do \
	  $(GO) test -run '^$$' -bench . -benchtime $(BENCHTIME) ./format ./view ./query ./convert/... ./remote; \
	  (cd internal/testkit/bench && export GOWORK=off \
	    && $(GO) test -run '^$$' -bench 'File|Buffered|Handler|Durability|Span|Provider' -benchtime $(BENCHTIME) . \
	    && $(GO) test -run '^$$' -bench Finalize -benchtime 1000000x . \
	    && $(GO) test -run '^$$' -bench 'Service|FlightRecorder' -benchtime $(REQUESTS)x .); \
	done | tee $(BIN)/bench.txt
	$(BIN)/benchstat $(BIN)/bench.txt
	cd internal/testkit/bench && GOWORK=off $(GO) run ./ratios $(BIN)/bench.txt
	$(GO) test -tags conformance -run '^$$' -bench QueryDuckDB -benchtime 20x ./internal/testkit/conformance
	cd internal/testkit/conformance/collector && GOWORK=off $(GO) test -tags conformance -run '^$$' -bench TimesAsFast -benchtime 20x . \
	  && GOWORK=off $(GO) test -tags conformance -run '^$$' -bench ReceiveBesideCollector -benchtime 1x -timeout 20m .

lint: $(BIN)/golangci-lint ## golangci-lint, go fix, go mod tidy, internal/testkit/heads and Biome find nothing to change
	@set -e; for m in $(CHECKED); do echo "== $$m"; \
	  (cd $$m && GOWORK=off $(BIN)/golangci-lint run --config $(CURDIR)/.golangci.yml ./... \
	    && GOWORK=off $(GO) fix -diff ./... && GOWORK=off $(GO) mod tidy -diff); done
	@$(GO) run ./internal/testkit/heads $$(git ls-files '*.go')
	viewer/web/test/run lint

vet: ## vet what a service links and the command for other systems, the rest for this one
	@set -e; for m in $(CHECKED); do echo "== $$m"; (cd $$m && GOWORK=off $(GO) vet ./...); done
	@set -e; for t in $(VETTED); do echo "== $$t"; \
	  GOWORK=off GOOS=$${t%/*} GOARCH=$${t#*/} CGO_ENABLED=0 $(GO) vet ./...; done

ports: ## test on other processors under qemu and on Windows under wine, and all that a release has, which needs root and Debian or Ubuntu
	internal/testkit/crosstest/run
	.ci/release/check

conformance: ## test against the other side, which needs Cargo, Python with venv, npm and Maven
	$(GO) vet -tags conformance ./internal/testkit/conformance
	$(GO) test -count 1 -timeout 25m -tags conformance ./internal/testkit/conformance
	cd internal/testkit/conformance/collector && export GOWORK=off && $(GO) vet -tags conformance . && $(GO) test -count 1 -tags conformance .

web: ## bundle the viewer's page into viewer/dist, which needs npm
	viewer/web/test/run build

web-test: ## test the viewer in a browser, which needs npm
	viewer/web/test/run

web-bench: ## time the viewer with ten million entries in a browser, which needs npm
	viewer/web/test/run bench

shots: ## take the pictures of docs anew that are of test traces, which needs npm
	SHOTS=$(CURDIR)/docs ONLY='states: |flame in time: lanes' viewer/web/test/run

golden: ## let ENTRACE's own crate make the fixtures again, which needs Cargo
	$(GO) test -count 1 -tags conformance -run '^TestReadTheirs$$' ./internal/testkit/conformance -update

tools: $(BIN)/golangci-lint $(BIN)/benchstat ## install the tools

$(BIN)/golangci-lint: Makefile
	GOWORK=off GOBIN=$(BIN) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	@touch $@

$(BIN)/benchstat: Makefile
	GOWORK=off GOBIN=$(BIN) $(GO) install golang.org/x/perf/cmd/benchstat@$(BENCHSTAT_VERSION)
	@touch $@

# Everything that could differ from machine to machine is said: the path of the source, the commit,
# C libraries, and what a processor has.
release: ## build the command of version RELEASE for TARGETS into OUT, always the same bytes; nothing is published
	@rm -rf $(OUT) && mkdir -p $(OUT)
	@set -e; export CGO_ENABLED=0 GOWORK=off GOFLAGS= GOAMD64=v1 GOARM64=v8.0 GOEXPERIMENT=; for t in $(TARGETS); do \
	  ext=; [ $${t%/*} != windows ] || ext=.exe; \
	  GOOS=$${t%/*} GOARCH=$${t#*/} $(GO) build -trimpath -buildvcs=false -ldflags '-s -w -buildid= -X main.release=$(RELEASE) -X main.commit=$(COMMIT)' \
	    -o $(OUT)/entrace_$(RELEASE)_$${t%/*}_$${t#*/}$$ext ./cmd/entrace; done
	@cd $(OUT) && sha256sum entrace_* | tee SHA256SUMS

clean: ## remove what was built
	rm -rf $(BIN)
