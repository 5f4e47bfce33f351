# Everything a newcomer and CI need. `make help` lists it; each target builds what it needs.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help dev demo check lint types imports fresh test fast explore kube-apiserver helm manifests docs engines long long-sample generate lock system clean

VENV := .venv
BIN := $(VENV)/bin
# The newest Python that is here and at least 3.11; name another with make PYTHON=…
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
UV ?= $(shell command -v uv)
ARGS ?=
PYTEST := $(BIN)/python -m pytest

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

$(VENV)/.ready: requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "no Python 3.11 or newer was found; install one or say make PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "building $(VENV) with $(PYTHON)$(if $(UV), and uv)" >&2
ifneq ($(UV),)
	@$(UV) venv --quiet --allow-existing --python $(PYTHON) $(VENV) >&2
	@VIRTUAL_ENV=$(VENV) $(UV) pip sync --quiet requirements.lock >&2
	@VIRTUAL_ENV=$(VENV) $(UV) pip install --quiet --no-deps --no-build-isolation --editable . >&2
else
	@$(PYTHON) -m venv $(VENV) >&2
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock >&2
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable . >&2
endif
	@touch $@

dev: $(VENV)/.ready ## Build .venv with the command .venv/bin/tierscope
	@echo "ready: $(BIN)/tierscope --help" >&2

demo: $(VENV)/.ready ## A whole deployment on loopback: testbed, exporter, collector, API (ARGS="--headless --duration 30 --json")
	@$(BIN)/tierscope demo $(ARGS)

check: lint types imports fresh test ## Everything that needs no real engine: format, lint, types, imports, generated files, tests

fast: lint types imports fresh ## The part of check that takes seconds, and the unit tests
	$(PYTEST) tests/unit tests/contract -q

lint: $(VENV)/.ready
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .

types: $(VENV)/.ready
	$(BIN)/mypy

imports: $(VENV)/.ready
	$(BIN)/lint-imports --no-cache

fresh: $(VENV)/.ready
	$(BIN)/tierscope generate --check

test: $(VENV)/.ready
	$(PYTEST) -q -n 2 -m "not engines and not long" $(ARGS)

explore: $(VENV)/.ready ## Property tests on examples nobody has seen before, ten times as many; run by hand
	TIERSCOPE_EXPLORE=1 $(PYTEST) -q -n 2 -m "not engines and not long" tests/unit $(ARGS)

engines: $(VENV)/.ready ## Tests against real engines, each in an environment of its own
	$(PYTEST) -q -m engines tests/engines $(ARGS)

long: $(VENV)/.ready ## Soak, chaos, fuzz and full data; run by hand
	$(PYTEST) -q -m long $(ARGS)

long-sample: $(VENV)/.ready ## A few minutes of `make long`, as CI runs it
	TIERSCOPE_LONG=sample $(PYTEST) -q -m long $(ARGS)

generate: $(VENV)/.ready ## Write every generated file anew
	$(BIN)/tierscope generate

lock: ## Resolve requirements.lock anew from pyproject.toml (needs uv)
	@test -n "$(UV)" || { echo "make lock needs uv" >&2; exit 1; }
	$(UV) pip compile --quiet --universal --python-version 3.11 pyproject.toml --extra all --group dev \
		--generate-hashes --no-emit-index-url --no-header --upgrade -o requirements.lock
	$(UV) pip compile --quiet --universal --python-version 3.11 pyproject.toml --extra exporter --extra collector --extra api \
		--extra report --extra lake --constraint requirements.lock --generate-hashes --no-emit-index-url --no-header \
		-o deploy/images/runtime.lock
	echo hatchling | $(UV) pip compile --quiet --universal --python-version 3.11 - --constraint requirements.lock \
		--generate-hashes --no-emit-index-url --no-header -o deploy/images/build.lock

system: ## Install the system packages that some tests want (Debian or Ubuntu, as root)
	apt-get update -qq
	apt-get install -y -qq --no-install-recommends chromium g++ iproute2 postgresql prometheus prometheus-alertmanager \
		python3-dev python3-venv

kube-apiserver: ## Build the kube-apiserver that some tests want, once (Debian, as root; four minutes)
	@.ci/build-kube-apiserver

helm: ## Fetch the helm and kubectl that the tests of deploy/ want, once (x86-64)
	@.ci/fetch-helm

manifests: ## Render what deploy/kustomize takes from the Helm chart (after `make helm`)
	@.ci/render-manifests

docs: $(VENV)/.ready ## Build the documentation's site into site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

clean: ## Remove the environment and every cache
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist site
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
