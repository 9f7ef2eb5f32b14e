# The commands of this project. On a fresh machine only Python 3.11+ and make are needed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BENCH := .venv-bench
PIP_OPTIONS := --quiet --disable-pip-version-check

.PHONY: help setup test check unit bench clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 12

setup: $(VENV)/.ready  ## a virtual environment with everything pinned in requirements.txt

$(VENV)/.ready: requirements.txt pyproject.toml
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install $(PIP_OPTIONS) -r requirements.txt
	$(BIN)/python -m pip install $(PIP_OPTIONS) --no-deps --no-build-isolation -e .
	touch $@

test: check unit  ## all checks and tests

check: setup  ## formatting, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

unit: setup  ## unit tests, with coverage of the package
	$(BIN)/pytest -n auto --cov --cov-report=term

bench: $(BENCH)/.ready  ## speed beside torch.nn, MarianMT and x-transformers; ARGS="--help" for options
	$(BENCH)/bin/python benchmarks/run.py $(ARGS)

$(BENCH)/.ready: benchmarks/requirements.txt pyproject.toml
	$(PYTHON) -m venv --clear $(BENCH)
	$(BENCH)/bin/python -m pip install $(PIP_OPTIONS) -r benchmarks/requirements.txt
	$(BENCH)/bin/python -m pip install $(PIP_OPTIONS) --no-deps --no-build-isolation -e .
	touch $@

clean:  ## removes what the other commands made
	rm -rf $(VENV) $(BENCH) .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache src/*.egg-info
