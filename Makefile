# Everything a contributor does, one word each. `make` alone lists the targets.
# Each target makes .venv first when it is missing or older than pyproject.toml.

SHELL := /bin/bash
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# The first interpreter that really runs and is new enough; `make PYTHON=python3.13 …` overrides.
PYTHON ?= $(shell for p in python3.12 python3.13 python3.11 python3 python; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info)' 2>/dev/null && { echo $$p; break; }; done)

.DEFAULT_GOAL := help
.PHONY: help demo test test-full check fix bench docs bundle

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(STAMP) ## Row to live MCP server to verdict, in under a minute
	@$(BIN)/awm-hub demo

test: $(STAMP) ## Run the tests
	$(BIN)/python -m pytest $(ARGS)

test-full: $(STAMP) ## Run the tests, slow ones too
	$(BIN)/python -m pytest -m "" $(ARGS)

check: $(STAMP) ## Lint, format, types, layers, generated docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python docs/generate.py --check

fix: $(STAMP) ## Mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP) ## Measure the runtime beside the upstream way; writes tests/bench/results
	$(BIN)/awm-hub bench --long -o tests/bench/results

docs: $(STAMP) ## Write the generated pages of docs/ again
	$(BIN)/python docs/generate.py

bundle: $(STAMP) ## Pack environments/ into the dataset that the wheel carries
	rm -rf build/bundled
	$(BIN)/awm-hub pack environments -o build/bundled
	rm -rf awm_hub/bundled && mv build/bundled awm_hub/bundled

$(STAMP): pyproject.toml
	@test -n "$(PYTHON)" || { echo "awm-hub needs Python 3.11 or newer; none found. Try: make PYTHON=/path/to/python3" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	@touch $@
