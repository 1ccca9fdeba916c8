# The index of everything that can be run here; `make` alone prints it.

SEEDS ?= 2000
# The directory where rustup installs cargo, for shells that don't have it in their PATH yet.
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin

.DEFAULT_GOAL := help
.PHONY: help setup demo test proof quick client node python docs sim fuzz mutants bench bench-page bench-against counted-page package fmt lint clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install missing tools: rustfmt, clippy, PostgreSQL servers, PgBouncer, Redis
	@scripts/setup

demo: ## show what round trips cost, in tables and in target/demo/report.html, also for Node and Python; ARGS="--help" for options
	@scripts/demo $(ARGS)

test: ## what shows that a change is right, as CI runs it; the last line says how many passed
	@scripts/test

proof: ## every check and test that there is, and mutants for 45 minutes; writes target/proof.json and says what was not run
	@scripts/proof

quick: ## a fast check after each change, without a server: format, lints, core tests, 200 simulation seeds
	@scripts/setup build checks
	@scripts/quick

client: ## the tests of the Rust client whose names contain T, on a private server
	@scripts/setup build server redis
	@cargo test --quiet -p onetrip --lib --tests -- $(T)

node: ## one test file of the Node packages: T=neighbours for faces/node/test/neighbours.test.ts
	@scripts/setup build server redis js
	@npm --silent --prefix faces/node run pretest
	@cargo run --quiet -p onetrip-lab --bin onetrip-private -- \
		sh -c 'cd faces/node && node --test --test-concurrency=$$(nproc) --test-reporter=spec build/test/$(or $(T),*).test.js'

python: ## the wheel for Python, tested in a virtual environment of its own; T="-k name" for some tests
	@scripts/setup build server redis python
	@scripts/python $(T)

docs: ## build the documentation as a site with search, target/site/index.html, and check its links
	@scripts/docs --lists
	@scripts/setup docs
	@scripts/docs

sim: ## simulate networks and faults; SEEDS=2000 sets how many, SEED=n traces one; REDIS=1, CLUSTER=1, SENTINEL=1 or MIGRATIONS=1 chooses a simulation
	@scripts/setup build
	@cargo run --quiet --release -p onetrip-lab --bin onetrip-sim -- $(if $(REDIS),--redis) $(if $(CLUSTER),--cluster) $(if $(SENTINEL),--sentinel) $(if $(MIGRATIONS),--migrations) $(if $(SEED),--seed $(SEED) --trace,--seeds $(SEEDS))

fuzz: ## run the fuzz targets; TARGET=name for one, SECONDS=30 sets the time for each
	@scripts/setup build
	@ONETRIP_FUZZ_SECONDS=$(or $(SECONDS),30) scripts/fuzz $(TARGET)

mutants: ## reintroduce known defects one by one: the tests named with each must fail; ONLY=name for one
	@scripts/setup build server redis js
	@scripts/mutants $(ONLY)

bench: ## measure against other clients; ONLY=name for one benchmark
	@scripts/setup build server redis
	@cargo run --quiet --release --manifest-path proof/bench/Cargo.toml -- $(if $(ONLY),--only $(ONLY))

bench-against: ## compare with another revision: CPU must not rise; REV=…, ONLY=name for one benchmark, ROUNDS=25
	@scripts/setup build server redis
	@scripts/bench-against "$(REV)" $(if $(ONLY),--only $(ONLY)) $(if $(ROUNDS),--rounds $(ROUNDS))

bench-page: ## make a page with charts from the results of bench, in docs/benchmarks; FILES="a.json b.json" for several runs, DATE=2026-11-24
	@scripts/setup build
	@cargo run --quiet -p onetrip-measure --bin onetrip-bench-page -- $(if $(DATE),--date $(DATE)) --out docs/benchmarks $(or $(FILES),target/bench.json)

counted-page: ## draw what an operation took over the last changes of proof/counted/table.json, of git's history, in docs/benchmarks
	@scripts/counted-page

package: ## build the packages to publish in target/package and test them from outside; uploads nothing
	@scripts/package

fmt: ## format the code
	@scripts/setup checks
	@cargo fmt --all

lint: ## clippy, warnings are errors
	@scripts/setup build checks
	@cargo clippy --workspace --all-targets --all-features --quiet -- -D warnings

clean: ## remove build results, downloads, and the templates of private servers
	@scripts/clean
