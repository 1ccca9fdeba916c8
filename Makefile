# The index of everything that can be run here; `make` alone prints it.

TARGET := $(or $(CARGO_TARGET_DIR),target)
SEEDS ?= 2000

.DEFAULT_GOAL := help
.PHONY: help setup demo test sim bench fmt lint clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## get what is missing: rustfmt, clippy, a PostgreSQL server
	@scripts/setup

demo: setup ## see the round trips disappear on a private server; ARGS="--help" for its options
	@cargo build --quiet --release -p onetrip-cli
	@$(TARGET)/release/onetrip demo $(ARGS)

test: ## every check and test; the last line says how many passed
	@scripts/test

sim: ## simulated networks and faults; SEEDS=2000 says how many, SEED=n traces one
	@cargo run --quiet --release -p onetrip-lab --bin onetrip-sim -- $(if $(SEED),--seed $(SEED) --trace,--seeds $(SEEDS))

bench: setup ## compare with other clients; ONLY=name for one benchmark
	@cargo run --quiet --release --manifest-path bench/Cargo.toml -- $(if $(ONLY),--only $(ONLY))

fmt: ## format the code
	@cargo fmt --all

lint: setup ## clippy, warnings are errors
	@cargo clippy --workspace --all-targets --all-features --quiet -- -D warnings

clean: ## remove what was built and downloaded
	@cargo clean
