# The front door. `make help` lists what there is.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TORCH_PYTHON := .venv-torch/bin/python
FULL = MUSTER_TEST_TORCH_PYTHON=$(abspath $(TORCH_PYTHON))
CLUSTER := env PYTHONPATH=tests $(BIN)/python -m cluster

.PHONY: .prepared .kubernetes .test-main .test-web .test-long .test-cluster help setup demo web web-api web-once test test-cluster test-training test-web test-full cluster cluster-down chaos \
  check fmt docs lock bench bench-lock clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(VENV)/.ready web-once ## Make the virtual environment with everything for development

$(VENV)/.ready: requirements/dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Muster needs Python 3.11 or newer; say which: make PYTHON=python3.12 …"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check "uv==$$(sed -n 's/^uv==\([^ ]*\).*/\1/p' requirements/dev.lock)"
	$(BIN)/uv pip sync -q --python $(BIN)/python --compile-bytecode --require-hashes requirements/dev.lock
	$(BIN)/uv pip install -q --python $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $@

WEB := src/muster/server/web/index.html
WEB_SOURCES := $(shell find web -path web/node_modules -prune -o -type f -print)

web: $(WEB) ## Build the web app into the package (needs Node.js 20.19 with npm)

$(WEB): web/node_modules/.ready $(WEB_SOURCES)
	cd web && npm run -s build
	@touch $@

web/node_modules/.ready: web/package-lock.json
	cd web && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

web-once: # at the first setup, where it can be built; `make web` builds it anew
	@if [ ! -e $(WEB) ]; then \
	  if command -v npm >/dev/null; then $(MAKE) -s web || echo "The web app was not built; all else works."; \
	  else echo "No npm here: the web app is not built. With Node.js 20.19 or newer, run: make web"; fi; fi

web-api: setup web/node_modules/.ready ## Write the web app's client from the OpenAPI document
	@mkdir -p .web
	$(BIN)/python scripts/openapi.py .web/openapi.json
	cd web && npm run -s api

demo: setup ## Start Muster and run a two-node PyTorch training on this machine
	$(BIN)/python scripts/demo.py

test: .test-main ## Run the tests that need no big download (a few minutes)
	$(BIN)/pytest -q -m "cluster and not torch and not slow and not training"
	@echo "Left out: tests with PyTorch, a browser, and long ones (marks torch, browser, slow). make test-full runs them all."

test-cluster: setup ## Run the tests on a real Kubernetes (the first time builds it: ten minutes)
	$(CLUSTER) prepare
	$(BIN)/pytest -q -m "cluster and not torch and not training"

test-training: $(TORCH_PYTHON) ## Run the tests on Volcano and Kubeflow's training operator (builds them the first time)
	$(CLUSTER) prepare --training
	$(FULL) $(BIN)/pytest -q -m training

test-web: setup ## Test the web app: its logic, its client, and all of it in Chromium
	@if ! command -v npm >/dev/null; then echo "SKIPPED: the tests of the web app need Node.js 20.19 with npm."; exit 0; fi; \
	  $(MAKE) -s .test-web

.test-web: web web-api
	git diff --exit-code --stat web/src/api/schema.d.ts \
	  || { echo "web/src/api/schema.d.ts is out of date: commit what make web-api wrote."; exit 1; }
	cd web && npm run -s check && npm run -s test
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	  && { apt-get -qq update; DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends chromium; } >/dev/null 2>&1; } \
	  || echo "SKIPPED: no Chromium here (package chromium): the browser tests are left out."
	$(BIN)/pytest -q -m "browser and not timed" tests/browser -n 2 --dist loadfile --durations=20
	$(BIN)/pytest -q -m "browser and timed" tests/browser

# Kubernetes is built first, not beside the tests: a compiler on all cores makes them slow, and some fail of it.
test-full: .prepared .test-main test-web .test-long .test-cluster ## Everything: checks, all tests, PyTorch (downloads a few GB once)

.prepared: setup
	$(MAKE) -j 2 check $(TORCH_PYTHON) .kubernetes

.kubernetes: setup
	$(CLUSTER) prepare

.test-main: setup
	$(BIN)/pytest -q -m "not torch and not slow and not browser and not cluster" -n 3 --dist loadfile

.test-long: $(TORCH_PYTHON)
	$(FULL) $(BIN)/pytest -q -m "(torch or slow) and not cluster and not browser" -n 2 --dist worksteal --durations=20

.test-cluster: $(TORCH_PYTHON)
	$(FULL) $(BIN)/pytest -q -m "cluster and not training" -n 2 --dist loadfile --durations=20

cluster: setup ## Start a Kubernetes on this machine, to try things on
	@$(CLUSTER) up

cluster-down: setup ## Remove it
	@$(CLUSTER) down

$(TORCH_PYTHON): examples/ddp/requirements.txt | setup
	$(BIN)/uv venv -q --clear --python $(BIN)/python .venv-torch
	$(BIN)/uv pip install -q --python $@ -r examples/ddp/requirements.txt
	@touch $@

RUNS ?= 10000
SERVER_KILLS ?= 100
AGENT_KILLS ?= 200
FREEZES ?= 50
DATABASE ?= sqlite
chaos: setup ## The long drill (20 minutes or more): kill and freeze at random, RUNS=… SEED=… DATABASE=sqlite|postgresql
	PYTHONPATH=tests $(BIN)/python -m chaos.drill --runs $(RUNS) --server-kills $(SERVER_KILLS) \
	  --agent-kills $(AGENT_KILLS) --freezes $(FREEZES) --database $(DATABASE) $(if $(SEED),--seed $(SEED)) \
	  --page docs/reliability.md

check: setup ## Lint, format, types, layers, generated docs
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

fmt: setup ## Format the code
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: setup ## Write the generated pages of docs/
	$(BIN)/python -m muster.cli.reference docs/reference/cli.md
	$(BIN)/python -m muster.cli.kindspage docs/reference/kinds.md

lock: setup ## Lock the dependencies anew
	$(BIN)/uv pip compile pyproject.toml --group dev --universal --generate-hashes --no-emit-index-url \
	  --no-header --python-version 3.11 -q --upgrade -o requirements/dev.lock

ROUNDS ?= 5
SCALE ?= 1
ONLY ?=
BENCH = --rounds $(ROUNDS) --scale $(SCALE) $(if $(ONLY),--only $(ONLY))
bench: setup $(TORCH_PYTHON) ## Measure side by side with peers (25 minutes; ONLY=start,burst ROUNDS=5)
	$(BIN)/python -m compileall -q src  # as an installer does
	PYTHONPATH=tests BENCH_COMMAND='make bench ROUNDS=$(ROUNDS) SCALE=$(SCALE) ONLY=$(ONLY)' \
	  $(BIN)/python -m bench $(BENCH) --torch-python $(abspath $(TORCH_PYTHON))

bench-lock: setup ## Lock the peers of the benchmarks anew
	for list in bench/requirements/*.in; do \
	  $(BIN)/uv pip compile $$list --universal --generate-hashes --no-emit-index-url --no-header \
	    --python-version 3.11 -q --upgrade -o $${list%.in}.txt || exit 1; done

clean: ## Remove what was made here
	rm -rf $(VENV) .venv-torch .bench .demo .web web/node_modules src/muster/server/web .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
