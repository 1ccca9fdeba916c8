# The index of everything that can be run here; `make` alone prints it.

SEEDS ?= 2000
# Where rustup puts cargo, for shells that have not heard of it yet.
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin

.DEFAULT_GOAL := help
.PHONY: help setup demo test quick client node python docs sim fuzz mutants bench bench-page bench-against package fmt lint clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## get what is missing: rustfmt, clippy, PostgreSQL servers, PgBouncer, Redis
	@scripts/setup

demo: ## see the round trips disappear, in tables and in target/demo/report.html, and for Node; ARGS="--help" for options
	@scripts/setup build server redis js
	@cargo run --quiet --release -p onetrip-cli -- demo --out target/demo $(ARGS)
	@$(if $(ARGS),,scripts/demo-node)

test: ## every check and test; the last line says how many passed
	@scripts/test

quick: ## format, lints, the tests of the core and 200 seeds, without a server: for whoever changes a line
	@scripts/setup build checks
	@scripts/quick

client: ## the tests of the Rust client whose name contains T, on a private server
	@scripts/setup build server redis
	@cargo test --quiet -p onetrip --lib --tests -- $(T)

node: ## one file of tests of Node's packages: T=neighbours for faces/node/test/neighbours.test.ts
	@scripts/setup build server redis js
	@npm --silent --prefix faces/node run pretest
	@cargo run --quiet -p onetrip-lab --bin onetrip-private -- \
		sh -c 'cd faces/node && node --test --test-reporter=spec build/test/$(or $(T),*).test.js'

python: ## the wheel for Python, tested in a virtual environment of its own; T="-k name" for some tests
	@scripts/setup build server redis
	@scripts/python $(T)

docs: ## the documentation as a site with search, target/site/index.html; its links are checked
	@scripts/setup docs
	@scripts/docs

sim: ## simulated networks and faults; SEEDS=2000 says how many, SEED=n traces one, REDIS=1 of Redis, CLUSTER=1 of a cluster
	@scripts/setup build
	@cargo run --quiet --release -p onetrip-lab --bin onetrip-sim -- $(if $(REDIS),--redis) $(if $(CLUSTER),--cluster) $(if $(SEED),--seed $(SEED) --trace,--seeds $(SEEDS))

fuzz: ## hostile inputs without end; TARGET=name for one kind, SECONDS=30 says how long each
	@scripts/setup build
	@ONETRIP_FUZZ_SECONDS=$(or $(SECONDS),30) scripts/fuzz $(TARGET)

mutants: ## bring known defects back, one by one: the tests named beside each must fail; ONLY=name for one
	@scripts/setup build server redis js
	@scripts/mutants $(ONLY)

bench: ## compare with other clients; ONLY=name for one benchmark
	@scripts/setup build server redis
	@cargo run --quiet --release --manifest-path proof/bench/Cargo.toml -- $(if $(ONLY),--only $(ONLY))

bench-against: ## compare with another revision: CPU may not rise; REV=…, ONLY=name for one benchmark, ROUNDS=25
	@scripts/setup build server redis
	@scripts/bench-against "$(REV)" $(if $(ONLY),--only $(ONLY)) $(if $(ROUNDS),--rounds $(ROUNDS))

bench-page: ## a page with charts of what bench found, in docs/benchmarks; FILES="a.json b.json" of several runs, DATE=2026-11-24
	@scripts/setup build
	@cargo run --quiet -p onetrip-measure --bin onetrip-bench-page -- $(if $(DATE),--date $(DATE)) --out docs/benchmarks $(or $(FILES),target/bench.json)
package: ## make what is published, into target/package, and use it as others will; nothing is uploaded
	@scripts/package

fmt: ## format the code
	@scripts/setup checks
	@cargo fmt --all

lint: ## clippy, warnings are errors
	@scripts/setup build checks
	@cargo clippy --workspace --all-targets --all-features --quiet -- -D warnings

clean: ## remove what was built and downloaded, and the templates of private servers
	@scripts/clean
