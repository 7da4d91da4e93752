# What people who work on plughost run. Go and make are all that it needs;
# tools that it wants are built, at pinned versions, into .cache/bin.

GOLANGCI_LINT_VERSION      := v2.15.0
PROTOC_VERSION             := 3.21.12
PROTOC_GEN_GO_VERSION      := v1.36.12
PROTOC_GEN_GO_GRPC_VERSION := v1.6.2

# What can be set on the command line, as in `make fuzz FUZZTIME=1m`.
CONFIG       ?= config/services.hcl
ARGS         ?=
TEST_TIMEOUT ?= 20m
TESTFLAGS    ?=
BENCH        ?= .
STEPS        ?= 300
SEED         ?= 1
CHAOSFLAGS   ?=
FUZZ         ?= Fuzz
FUZZTIME     ?= 10s
PROTO_OUT    ?= shared/proto

EXE   := $(shell go env GOEXE)
TOOLS := $(CURDIR)/.cache/bin

golangci_lint      := $(TOOLS)/golangci-lint-$(GOLANGCI_LINT_VERSION)
protoc_gen_go      := $(TOOLS)/protoc-gen-go-$(PROTOC_GEN_GO_VERSION)
protoc_gen_go_grpc := $(TOOLS)/protoc-gen-go-grpc-$(PROTOC_GEN_GO_GRPC_VERSION)

export GOLANGCI_LINT_CACHE := $(CURDIR)/.cache/golangci-lint

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## List what there is to make
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build the host, the bridges and the example plugins into bin/
	go build -o bin/plughost$(EXE) ./host
	go build -o bin/ ./plugins/...

.PHONY: run
run: build ## Build, and run the host on config/services.hcl (CONFIG=, ARGS=)
	@exec bin/plughost$(EXE) run --config $(CONFIG) $(ARGS)

# The race detector needs cgo, and that a C compiler, except on macOS.
# -count=1 since tests run binaries, of which Go's cache of results knows
# nothing. With GORACE they end when they do, and not a second later, which some
# tests would take for a refusal.
.PHONY: test
test: build ## Run all tests, with the race detector (TESTFLAGS=, TEST_TIMEOUT=)
	@race=-race; \
	if [ "$$(go env CGO_ENABLED)" != 1 ] && [ "$$(go env GOOS)" != darwin ]; then \
		race=; \
		echo 'make test: no C compiler found: testing WITHOUT the race detector, which needs one (on Debian: apt-get install gcc libc6-dev)' >&2; \
	fi; \
	export GORACE="atexit_sleep_ms=0 $$GORACE"; \
	set -x; go test $$race -count=1 -timeout $(TEST_TIMEOUT) $(TESTFLAGS) ./...

.PHONY: docs
docs: ## Write the tables of docs/configuration.md anew, from the schema that decodes
	go generate ./host/internal/config

.PHONY: bench
bench: ## Run all benchmarks (BENCH= selects), runit beside them if it is there
	go test -run '^$$' -bench '$(BENCH)' -benchmem -timeout 60m ./...

# It tells only what it was, unless CHAOSFLAGS=-v; -h lists the flags.
.PHONY: chaos
chaos: build ## Do a storm of STEPS actions to a host, drawn by SEED (CHAOSFLAGS=)
	go build -o .cache/chaos/ ./test/chaos ./test/faultplugin
	.cache/chaos/chaos -bin bin -faults .cache/chaos/faultplugin -steps $(STEPS) -seed $(SEED) $(CHAOSFLAGS)

# go test fuzzes one function of one package at a time.
.PHONY: fuzz
fuzz: ## Run every fuzz test for FUZZTIME, 10s unless given (FUZZ= selects)
	@go list -f '{{range .TestGoFiles}}{{$$.ImportPath}} {{$$.Dir}}/{{.}}{{"\n"}}{{end}}{{range .XTestGoFiles}}{{$$.ImportPath}} {{$$.Dir}}/{{.}}{{"\n"}}{{end}}' ./... | \
	while read -r package file; do \
		[ -n "$$file" ] || continue; \
		for name in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$$file" | grep -E '$(FUZZ)'); do \
			echo "== $$package $$name"; \
			go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$package" </dev/null || exit 1; \
		done; \
	done

.PHONY: lint
lint: $(golangci_lint) ## Check the code: go vet, and linters and formatters of .golangci.yml
	go vet -tags clients ./...
	$(golangci_lint) fmt --diff ./...
	$(golangci_lint) run ./...

.PHONY: fmt
fmt: $(golangci_lint) ## Format the code with gofumpt and goimports
	$(golangci_lint) fmt ./...

.PHONY: proto
proto: $(protoc_gen_go) $(protoc_gen_go_grpc) ## Generate the Go code of shared/proto
	@version=$$(protoc --version 2>&1) || version='no protoc'; \
	if [ "$$version" != 'libprotoc $(PROTOC_VERSION)' ]; then \
		echo "make proto: protoc $(PROTOC_VERSION) is needed, but this is: $$version (on Debian 12: apt-get install protobuf-compiler)" >&2; \
		exit 1; \
	fi
	protoc -I shared/proto \
		--plugin=protoc-gen-go=$(protoc_gen_go) --go_out=$(PROTO_OUT) --go_opt=paths=source_relative \
		--plugin=protoc-gen-go-grpc=$(protoc_gen_go_grpc) --go-grpc_out=$(PROTO_OUT) --go-grpc_opt=paths=source_relative \
		$(patsubst shared/proto/%,%,$(wildcard shared/proto/*/*/*.proto))

.PHONY: clean
clean: ## Remove bin/ and .cache/
	rm -rf bin .cache

# install builds a tool under a name that has its version, so that another
# version is another file.
define install
	@mkdir -p $(TOOLS)
	GOBIN=$(TOOLS) GOFLAGS= GOOS= GOARCH= go install $(1)@$(2)
	@mv $(TOOLS)/$(notdir $(1))$(EXE) $@
endef

$(golangci_lint):
	$(call install,github.com/golangci/golangci-lint/v2/cmd/golangci-lint,$(GOLANGCI_LINT_VERSION))

$(protoc_gen_go):
	$(call install,google.golang.org/protobuf/cmd/protoc-gen-go,$(PROTOC_GEN_GO_VERSION))

$(protoc_gen_go_grpc):
	$(call install,google.golang.org/grpc/cmd/protoc-gen-go-grpc,$(PROTOC_GEN_GO_GRPC_VERSION))
