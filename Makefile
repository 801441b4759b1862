# `make` or `make help` lists what can be made. Everything is built from source;
# nothing is installed outside the cache and ./bin.

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

GO          ?= go
PKG         ?= ./...
IMAGE       ?= fairlead:dev
BASE        ?= scratch
FUZZTIME    ?= 20000x
TESTFLAGS   ?=
LONGTIMEOUT ?= 60m

CACHE := $(or $(FAIRLEAD_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/fairlead)
# A tool is built anew for other versions of the tools and of Go: a linter that
# was built with an older Go cannot read the sources of a newer one.
TOOLS := $(CACHE)/tools/$(shell { $(GO) env GOVERSION; cat tools/go.mod tools/go.sum; } | cksum | cut -d' ' -f1)
LINT  := $(TOOLS)/golangci-lint
CGEN  := $(TOOLS)/controller-gen
CGEN_VERSION := $(shell sed -n 's|.*sigs.k8s.io/controller-tools \(v[^ ]*\).*|\1|p' tools/go.mod)

# Built as the program and the development cluster are, so that what they have in
# common is compiled once.
TEST := CGO_ENABLED=0 $(GO) test -trimpath

# What has to be free of data races is tested with the detector as well.
RACY := ./internal/proxy/... ./internal/controller/...

.PHONY: help build test test-long fuzz lint fmt generate check-generate cross demo image devcluster tools clean needs

help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} \
	  /^##@ / {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z][a-z-]*:.*## / {printf "  make %-18s %s\n", $$1, $$2}' Makefile

##@ Build

build: ## the program, into ./bin
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o bin/ ./cmd/...

cross: ## the program for other systems, into ./bin
	@for target in darwin/arm64 windows/amd64; do \
	  echo "building for $$target"; \
	  GOOS=$${target%/*} GOARCH=$${target#*/} CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' \
	    -o "bin/$$(echo $$target | tr / -)/" ./cmd/... || exit 1; \
	done

image: ## a container image (IMAGE=fairlead:dev, BASE=scratch) by podman, buildah or docker
	GOOS=linux CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o bin/image/fairlead ./cmd/fairlead
	@for tool in podman buildah docker; do \
	  command -v $$tool >/dev/null || continue; \
	  echo "building $(IMAGE) with $$tool"; \
	  exec $$tool build --build-arg BASE=$(BASE) -f deploy/Containerfile -t $(IMAGE) bin/image; \
	done; \
	echo "an image is built by podman, buildah or docker, and none of them is installed" >&2; exit 1

##@ Try

demo: ## a real API server and a Service with a load balancer, on this machine (ONCE=1: show it and end)
	@echo "compiling fairlead: a minute or two the first time" >&2
	@$(GO) run ./cmd/fairlead demo $(if $(ONCE),--once)

devcluster: ## build the development API server, once (minutes; seconds when cached), and print its path
	@$(GO) run ./internal/devcluster/build

##@ Test

test: needs devcluster ## all tests, and the racy packages with the race detector
	$(TEST) $(TESTFLAGS) $(PKG)
	$(GO) test $(TESTFLAGS) -race $(RACY)
	cd devcluster && CGO_ENABLED=0 $(GO) test -trimpath -vet=off $(TESTFLAGS) ./...

test-long: needs devcluster ## the same, with the cases that take long
	FAIRLEAD_TEST_LONG=1 $(TEST) $(TESTFLAGS) -timeout $(LONGTIMEOUT) $(PKG)

fuzz: ## every fuzz target for a while (FUZZTIME=20000x)
	@grep -rn --include='*_test.go' --exclude-dir=devcluster -o '^func Fuzz[A-Za-z0-9_]*' . | sort | \
	while IFS=: read -r file _ name; do \
	  name=$${name#func }; echo "fuzzing $$name of $${file%/*}"; \
	  $(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$${file%/*}" </dev/null || exit 1; \
	done

bench-controller: ## how the controller copes with thousands of Services
bench-proxy: ## the data plane beside HAProxy and nginx, as ratios (4 minutes)
bench-%:
	$(GO) run ./bench/$*

# Not a test of anything: it says what the tests will skip, so that green is
# not taken for complete.
needs:
	@[ "$(FAIRLEAD_TEST_REQUIRE)" = 1 ] && exit 0; \
	for program in haproxy nginx ip; do \
	  PATH="$$PATH:/usr/sbin:/sbin" command -v $$program >/dev/null || \
	    echo "absent: $$program; tests against it are skipped"; \
	done; \
	[ "$$(id -u)" = 0 ] || echo "not root: tests in network namespaces are skipped"

##@ Check

lint: $(LINT) ## golangci-lint, with the import rules and the budgets
	$(LINT) run $(PKG)

fmt: $(LINT) ## format the sources
	$(LINT) fmt

generate: $(CGEN) ## CRDs, deep copies and the pages made from tables
	$(CGEN) object crd paths=./api/v1alpha1 output:crd:dir=deploy/crds
	$(GO) run ./api/annotation/gen

check-generate: $(CGEN) ## fail when a generated file is not what its source says
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && mkdir $$dir/crds $$dir/copies && \
	$(CGEN) object crd paths=./api/v1alpha1 output:crd:dir=$$dir/crds output:object:dir=$$dir/copies && \
	diff -r deploy/crds $$dir/crds && \
	diff api/v1alpha1/zz_generated.deepcopy.go $$dir/copies/zz_generated.deepcopy.go || \
	{ echo "the CRDs or deep copies are stale; run make generate" >&2; exit 1; }
	$(GO) run ./api/annotation/gen -check
	$(GO) mod tidy -diff

##@ Tools

tools: $(LINT) $(CGEN) ## build the linter and the generator into the cache, once

$(LINT):
	@$(call build-tool,golangci-lint,github.com/golangci/golangci-lint/v2/cmd/golangci-lint,-s -w,4 minutes)

$(CGEN):
	@$(call build-tool,controller-gen,sigs.k8s.io/controller-tools/cmd/controller-gen,-s -w -X sigs.k8s.io/controller-tools/pkg/version.version=$(CGEN_VERSION),2 minutes)

# build-tool NAME PACKAGE LDFLAGS TIME: by another name first, so that a build
# that is cut short leaves nothing that looks finished.
define build-tool
echo "building $(1) from source, once: about $(4) on two idle cores" >&2 && mkdir -p $(TOOLS) && start=$$(date +%s) && \
cd tools && CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(3)' -o $(TOOLS)/$(1).$$$$ $(2) && \
mv $(TOOLS)/$(1).$$$$ $(TOOLS)/$(1) && echo "built $(TOOLS)/$(1) in $$(( $$(date +%s) - start )) s" >&2
endef

clean: ## remove what was built here; the cache stays
	rm -rf bin dist
