# Everything a contributor does, one word each. `make` alone lists the targets.
# Each target installs what it needs into .venv first, when that is missing or older than pyproject.toml.

SHELL := /bin/bash
VENV ?= .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
DEV := $(VENV)/.installed
# The first interpreter that really runs and is new enough; `make PYTHON=python3.13 …` overrides.
PYTHON ?= $(shell for p in python3.12 python3.13 python3.11 python3 python; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info)' 2>/dev/null && { echo $$p; break; }; done)

.DEFAULT_GOAL := help
.PHONY: help demo test test-full check fix bench docs bundle

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(RUNTIME) ## Row to live MCP server to verdict, in under a minute after installation
	@$(BIN)/awm-hub demo

test: $(DEV) ## Run the tests
	$(BIN)/python -m pytest $(ARGS)

test-full: $(DEV) ## Run the tests, slow ones too
	$(BIN)/python -m pytest -m "" $(ARGS)

check: $(DEV) ## Lint, format, types, layers, generated docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python docs/generate.py --check

fix: $(DEV) ## Mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(DEV) ## Measure the runtime beside the upstream way; writes tests/bench/results
	$(BIN)/awm-hub bench --long -o tests/bench/results

docs: $(DEV) ## Write the generated pages of docs/ again
	$(BIN)/python docs/generate.py

bundle: $(RUNTIME) ## Pack environments/ into the dataset that the wheel carries
	rm -rf build/bundled
	$(BIN)/awm-hub pack environments -o build/bundled
	rm -rf awm_hub/bundled && mv build/bundled awm_hub/bundled

# What using the package takes, and what working on it takes besides.
$(RUNTIME): EXTRAS :=
$(DEV): EXTRAS := [dev]
$(RUNTIME) $(DEV): pyproject.toml
	@test -n "$(PYTHON)" || { echo "awm-hub needs Python 3.11 or newer; none found. Try: make PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "installing into $(VENV) (about a minute the first time) …"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.$(EXTRAS)'
	@touch $(RUNTIME) $@
