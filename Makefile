# make help lists the targets.
GO       ?= go
FUZZTIME ?= 30s

.DEFAULT_GOAL := help

.PHONY: help build test check check-all race fuzz bench load producers docs pictures release rename

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/experiment and bin/seed
	$(GO) build -o bin/ ./cmd/...

test: ## what a user runs
	$(GO) test ./...

check: ## format, vet for three systems, and the tests with the race detector
	@test -z "$$(gofmt -l .)" || { echo "gofmt would change:"; gofmt -l .; exit 1; }
	$(GO) vet ./...
	GOOS=darwin $(GO) vet ./...
	GOOS=windows $(GO) vet ./...
	$(GO) test -race ./...

check-all: ## everything that CI runs, whole: an hour and more
	CHECK=all .ci/run

race: ## the tests with the race detector
	$(GO) test -race ./...

fuzz: ## every fuzz target for FUZZTIME
	.ci/fuzz $(FUZZTIME)

producers: ## write the PDF files of the tests anew, with the tools that are on this machine
	$(GO) test ./harness/answers/pdf -run TestProducers -update -v

bench: ## every benchmark
	$(GO) test -run '^$$' -bench . -benchmem ./...

load: ## what a run costs, see docs/performance.md; some minutes
	$(GO) run ./internal/load $(LOAD)

docs: ## write the generated parts of the documentation anew
	$(GO) test ./scoring -run TestMetricsDoc -update
	$(GO) test ./cmd/experiment -run TestReadme -update

pictures: ## make the pictures of the README anew, in a Chromium
	$(GO) test ./cmd/experiment -run TestPictures -update

release: ## archives for six systems in dist/, VERSION=0.2.0
	.ci/release $(VERSION)

rename: ## give the module another path, MODULE=example.org/team/experiment
	.ci/rename $(MODULE)
