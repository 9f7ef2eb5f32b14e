# The commands of this project. On a fresh machine only Python 3.11+, git and make are needed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BENCH := .venv-bench
PIP_OPTIONS := --quiet --disable-pip-version-check
HTML := _build/html
PORT ?= 8000
PYTHONS ?= 3.11 3.12 3.13

# Matplotlib's list of fonts is made here, once, in `setup`: it warns when it is slow to make or out of date,
# and a warning in a notebook is an output that differs.
export MPLCONFIGDIR := $(CURDIR)/$(VENV)/matplotlib

# Each Python gets an environment of its own, with the package from its wheel. Notebooks are run, but their
# outputs not compared: those belong to the versions in requirements.txt. Warnings of other versions are no errors.
TRY := --quiet -n auto --dist loadfile -W default
define try
	rm -rf build/tried && $(BIN)/uv build --quiet --out-dir build/tried
	failed=""; for version in $(PYTHONS); do \
		python=$(VENV)-$(@:test-%=%)/$$version/bin/python; \
		$(BIN)/uv venv --quiet --clear --python $$version $${python%/bin/python} && \
		$(BIN)/uv pip install --quiet --no-build --python $$python $(1) --requirement pyproject.toml --extra test && \
		$(BIN)/uv pip install --quiet --no-build --python $$python --no-deps build/tried/*.whl && \
		$(BIN)/uv pip freeze --python $$python && \
		OMP_NUM_THREADS=1 $$python -m pytest $(TRY) tests/unmasked tests/unmasked_book || failed="$$failed $$version"; \
		OMP_NUM_THREADS=1 $$python -m pytest $(TRY) book --nbval-lax --nbval-current-env --nbval-cell-timeout=300 || \
		failed="$$failed $$version"; \
	done; test -z "$$failed" || { echo "FAILED: Python$$failed"; false; }
endef

.PHONY: help setup lock book serve lab notebooks repository test check unit coverage validate links test-browser test-colab test-lowest test-newest release release-check bench gpu size clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 14

setup: $(VENV)/.ready  ## a virtual environment with everything pinned in requirements.txt

$(VENV)/.ready: requirements.txt pyproject.toml
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install $(PIP_OPTIONS) --no-compile $$(grep -oE '^torch==[0-9.]+' requirements.txt)
	$(BIN)/python -m pip install $(PIP_OPTIONS) --no-compile --require-hashes -r requirements.txt
	$(BIN)/python -m pip install $(PIP_OPTIONS) --no-deps --no-build-isolation -e .
	$(BIN)/python -c "import matplotlib.font_manager"
	touch $@

# Extras stay in the pins: the pip of Python 3.11 takes `coverage[toml]` for another package than `coverage`,
# and stops at the first newer release.
lock: setup  ## pins in requirements.txt, with hashes, what pyproject.toml asks for; ARGS=--upgrade for newer versions
	$(BIN)/uv pip compile pyproject.toml --extra test --extra book --extra browser --extra tools \
		--universal --python-version 3.11.5 --generate-hashes --no-annotate --no-strip-extras --excludes tools/cuda.txt \
		--custom-compile-command "make lock" --output-file requirements.txt --quiet $(ARGS)

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

test: setup  ## all checks and tests, and every notebook run again and compared
	$(MAKE) --no-print-directory -j 2 check book
	$(MAKE) --no-print-directory unit validate

check: setup  ## formatting, lint, types and spelling
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/codespell

unit: setup  ## unit tests, and the tests of the notebooks and pages
	$(BIN)/pytest --ignore=tests/browser -n auto --dist worksteal

coverage: setup  ## the unit tests once more, with how much of the package they reach
	$(BIN)/pytest --ignore=tests/browser -n auto --dist worksteal --cov --cov-report=term

validate: setup  ## runs every notebook again and compares all its outputs; NAMES="01_masks …" for some
	OMP_NUM_THREADS=1 $(BIN)/pytest $(or $(NAMES:%=book/%.ipynb),book) --nbval --nbval-current-env --nbval-cell-timeout=300 -n auto --dist loadfile

test-browser: book  ## opens every page in Chromium: both themes, two widths, accessibility
	$(BIN)/pytest tests/browser -n auto

test-colab: setup  ## runs each notebook as Colab would; LOAD=2 for two busy processes beside it
	$(BIN)/python tools/colab.py --load $(or $(LOAD),0) $(NAMES)

test-lowest: setup  ## tests and notebooks with the lowest versions allowed; PYTHONS="3.12" for some Pythons
	$(call try,--resolution lowest-direct)

test-newest: setup  ## tests and notebooks with the newest versions; PYTHONS="3.12" for some Pythons
	$(call try,--upgrade)

release: setup  ## writes a version everywhere; VERSION=0.3.0; without, notebooks install the newest again
	$(BIN)/python tools/release.py $(if $(VERSION),stamp $(VERSION),unpin)

release-check: setup  ## builds the archives, installs, translates and tests them, publishes nothing
	$(BIN)/python tools/release.py check $(TAG)

bench: $(BENCH)/.ready  ## speed beside torch.nn, MarianMT and CTranslate2; ARGS="--help" for options
	$(BENCH)/bin/python benchmarks/run.py $(ARGS)

size: setup  ## how many lines and words there are
	@$(BIN)/python tools/size.py

gpu: setup  ## what one GPU makes of the package, in eight minutes; ARGS=--small for a CPU
	$(BIN)/python benchmarks/gpu.py $(ARGS)

$(BENCH)/.ready: benchmarks/requirements.txt pyproject.toml
	$(PYTHON) -m venv --clear $(BENCH)
	$(BENCH)/bin/python -m pip install $(PIP_OPTIONS) -r benchmarks/requirements.txt
	$(BENCH)/bin/python -m pip install $(PIP_OPTIONS) --no-deps -e .
	touch $@

clean:  ## removes what the other commands made
	rm -rf $(VENV) $(VENV)-* build dist _build .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache
