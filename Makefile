# The front door. `make help` lists what there is.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TORCH_PYTHON := .venv-torch/bin/python
FULL = MUSTER_TEST_TORCH_PYTHON=$(abspath $(TORCH_PYTHON))
CLUSTER := env PYTHONPATH=tests $(BIN)/python -m cluster

.PHONY: help setup demo test test-cluster test-full cluster cluster-down chaos check fmt docs lock bench bench-lock \
  clean build-ahead

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(VENV)/.ready ## Make the virtual environment with everything for development

$(VENV)/.ready: requirements/dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Muster needs Python 3.11 or newer; say which: make PYTHON=python3.12 …"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check "uv==$$(sed -n 's/^uv==\([^ ]*\).*/\1/p' requirements/dev.lock)"
	$(BIN)/uv pip sync -q --python $(BIN)/python --compile-bytecode --require-hashes requirements/dev.lock
	$(BIN)/uv pip install -q --python $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $@

demo: setup ## Start Muster and run a two-node PyTorch training on this machine
	$(BIN)/python scripts/demo.py

test: setup ## Run the tests that need no big download (a few minutes)
	$(BIN)/pytest -q -m "not torch and not slow and not cluster" -n 2 --dist loadfile
	$(BIN)/pytest -q -m "cluster and not torch and not slow"
	@echo "Left out: tests with PyTorch and long ones (marks torch, slow). make test-full runs them all."

test-cluster: setup ## Run the tests on a real Kubernetes (the first time builds it: a quarter of an hour)
	$(CLUSTER) prepare
	$(BIN)/pytest -q -m "cluster and not torch"

# Building Kubernetes takes long: it is done aside, while the tests run that do without.
test-full: build-ahead check $(TORCH_PYTHON) ## Everything: checks, all tests, PyTorch (downloads a few GB once)
	$(BIN)/pytest -q -m "not torch and not slow and not cluster" -n 2 --dist loadfile
	$(FULL) $(BIN)/pytest -q -m "(torch or slow) and not cluster"
	$(CLUSTER) prepare
	$(FULL) $(BIN)/pytest -q -m cluster

build-ahead: setup
	@nohup nice -n 19 $(CLUSTER) prepare > /dev/null 2>&1 &

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
	rm -rf $(VENV) .venv-torch .bench .demo .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
