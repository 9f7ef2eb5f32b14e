# The commands of this project. On a fresh machine only Python 3.11+, git and make are needed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BENCH := .venv-bench
PIP_OPTIONS := --quiet --disable-pip-version-check
HTML := _build/html
PORT ?= 8000

.PHONY: help setup book serve lab notebooks repository test check unit validate links test-browser test-colab bench clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 14

setup: $(VENV)/.ready  ## a virtual environment with everything pinned in requirements.txt

$(VENV)/.ready: requirements.txt pyproject.toml
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install $(PIP_OPTIONS) -r requirements.txt
	$(BIN)/python -m pip install $(PIP_OPTIONS) --no-deps --no-build-isolation -e .
	touch $@

book: setup  ## builds the book from the stored notebooks, without running them
	$(BIN)/jupyter-book build . --all -W --keep-going --quiet
	@echo "The book is at $(HTML)/index.html; \`make serve\` shows it."

links: setup  ## asks every address in the book whether it is still there; needs the network
	$(BIN)/jupyter-book build . --all --builder linkcheck

serve: book  ## builds the book and serves it on http://localhost:8000 (PORT=… for another port)
	@echo "The book is at http://localhost:$(PORT), until Ctrl-C."
	@$(BIN)/python -m http.server $(PORT) --bind 127.0.0.1 --directory $(HTML)

lab: setup  ## opens the notebooks in JupyterLab, which it installs
	$(BIN)/python -m pip install $(PIP_OPTIONS) "jupyterlab>=4"
	$(BIN)/jupyter lab book/00_first_look.ipynb

notebooks: setup  ## runs all notebooks and stores their outputs; NAMES="01_masks …" for some
	$(BIN)/python tools/notebooks.py $(NAMES)

repository: setup  ## shows the repository's address; URL=https://github.com/OWNER/NAME changes it
	$(BIN)/python tools/repository.py $(URL)

test: check book unit validate  ## all checks and tests, and every notebook run again and compared

check: setup  ## formatting, lint, types and spelling
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/codespell

unit: setup  ## unit tests with coverage of the package, and the tests of the notebooks and pages
	$(BIN)/pytest --ignore=tests/browser -n auto --cov --cov-report=term

validate: setup  ## runs every notebook again and compares all its outputs with the stored ones
	OMP_NUM_THREADS=1 TQDM_DISABLE=1 $(BIN)/pytest book --nbval --nbval-current-env --nbval-cell-timeout=300 -n auto --dist loadfile

test-browser: book  ## opens every page in Chromium: both themes, two widths, accessibility
	$(BIN)/pytest tests/browser -n auto

test-colab: setup  ## runs each notebook as Colab would: no package, an empty folder, its own install cell
	$(BIN)/python tools/colab.py $(NAMES)

bench: $(BENCH)/.ready  ## speed beside torch.nn, MarianMT, x-transformers and CTranslate2; ARGS="--help" for options
	$(BENCH)/bin/python benchmarks/run.py $(ARGS)

$(BENCH)/.ready: benchmarks/requirements.txt pyproject.toml
	$(PYTHON) -m venv --clear $(BENCH)
	$(BENCH)/bin/python -m pip install $(PIP_OPTIONS) -r benchmarks/requirements.txt
	$(BENCH)/bin/python -m pip install $(PIP_OPTIONS) --no-deps --no-build-isolation -e .
	touch $@

clean:  ## removes what the other commands made
	rm -rf $(VENV) $(BENCH) _build .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache src/*.egg-info
