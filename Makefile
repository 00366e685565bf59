# Every target installs what it needs into .venv first; `make help` lists them.
VENV ?= .venv
DIST ?= dist
SITE ?= build/site
# The version of the documentation that `make docs-versioned` builds.
VERSION ?= $(shell sed -n 's/^__version__ = "\(.*\)"$$/\1/p' jaxenvs/__init__.py)
JOBS ?= 2
RUN := runs/demo
BIN := $(VENV)/bin

# Packages of another Python must not be importable in .venv.
unexport PYTHONPATH PYTHONHOME
export PYTHON

.DELETE_ON_ERROR:
.PHONY: help demo test test-all lint format types wheel bench docs docs-versioned notebooks clean

help:
	@echo 'make demo       train an agent on Grid-DoorKey-5x5-v0, draw demo.gif, open a window if there is a display'
	@echo 'make test       ruff and the default tests (ARGS="-k name" goes to pytest; JOBS=2 processes)'
	@echo 'make test-all   ruff, the default tests and the tests marked full'
	@echo 'make lint       ruff check and ruff format --check'
	@echo 'make format     sort the imports and format the code with ruff'
	@echo 'make types      pyright'
	@echo 'make bench      steps per second, compared with other libraries'
	@echo 'make docs       build the documentation into build/site (IDS="Grid-v0 ...": with the pages of these ids only)'
	@echo 'make docs-versioned  add the documentation of this version to the local git branch gh-pages'
	@echo 'make notebooks  run the notebooks of docs/notebooks (ARGS=--write saves their outputs)'
	@echo 'make wheel      build the wheel into dist/'
	@echo 'make clean      remove the virtual environments and everything built'
	@echo 'PYTHON=/path/to/python3 names the interpreter for .venv (3.11 or newer)'

demo: $(VENV)/.demo
	$(BIN)/jaxenvs train Grid-DoorKey-5x5-v0 --out $(RUN) --overwrite
	$(BIN)/jaxenvs watch $(RUN) --gif demo.gif --frames 200
	@if [ -n "$$DISPLAY$$WAYLAND_DISPLAY" ] || [ "$$(uname)" = Darwin ]; then \
		echo 'Opening the window (close it to end; no window: see demo.gif).'; \
		$(BIN)/jaxenvs watch $(RUN) || true; \
	fi
	@echo 'The trained agent plays in demo.gif; its learning curve is $(RUN)/curve.png. Next:'
	@echo '  $(BIN)/jaxenvs play Grid-DoorKey-8x8-v0'
	@echo '  . $(BIN)/activate  # afterwards `jaxenvs` is enough'

# By default XLA compiles quickly; `XLA_FLAGS= make test` compiles with the flags of users.
test: lint
	XLA_FLAGS="$${XLA_FLAGS-$$($(BIN)/python tests/xla_flags.py)}" $(BIN)/pytest -n $(JOBS) --dist loadgroup --no-loadscope-reorder $(ARGS)

# The default tests and the tests marked `full`, without those marked `slow`.
test-all:
	$(MAKE) --no-print-directory test ARGS='-m "not slow" $(ARGS)'

lint: $(VENV)/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check

format: $(VENV)/.dev
	$(BIN)/ruff check --select I --fix
	$(BIN)/ruff format

types: $(VENV)/.dev
	$(BIN)/pyright --pythonpath $(BIN)/python

wheel: $(VENV)/.dev
	$(BIN)/pyproject-build --quiet --outdir $(DIST)

bench: $(VENV)/.bench
	$(BIN)/jaxenvs bench $(ARGS)

docs: $(VENV)/.docs
	XLA_FLAGS="$${XLA_FLAGS-$$($(BIN)/python tests/xla_flags.py)}" NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir $(abspath $(SITE))

# mike runs the first mkdocs of the PATH. `git push origin gh-pages` publishes the branch.
docs-versioned: export PATH := $(abspath $(BIN)):$(PATH)
docs-versioned: $(VENV)/.docs
	XLA_FLAGS="$${XLA_FLAGS-$$($(BIN)/python tests/xla_flags.py)}" NO_MKDOCS_2_WARNING=1 $(BIN)/mike deploy --quiet --update-aliases --alias-type redirect $(VERSION) latest
	$(BIN)/mike set-default --quiet latest

notebooks: $(VENV)/.notebooks
	JAX_PLATFORMS=cpu $(BIN)/python docs/notebooks.py $(ARGS)

clean:
	rm -rf .venv .venv-newest .venv-py311 .venv-lowest .cache .pytest_cache .ruff_cache build dist *.egg-info runs demo.gif
	find jaxenvs render baselines benchmarks tests -name __pycache__ -exec rm -rf {} +

# One stamp for each set of extras, written when all of them are installed.
$(VENV)/.demo: pyproject.toml
	@.ci/setup $(VENV) train,play
	@touch $@

$(VENV)/.dev: pyproject.toml .ci/peers.txt
	@.ci/setup $(VENV) dev
	@touch $@ $(VENV)/.demo

$(VENV)/.bench: pyproject.toml .ci/peers.txt
	@.ci/setup $(VENV) bench,train,play
	@touch $@ $(VENV)/.demo

$(VENV)/.docs: pyproject.toml
	@.ci/setup $(VENV) docs
	@touch $@

$(VENV)/.notebooks: pyproject.toml
	@.ci/setup $(VENV) notebooks,train,play
	@touch $@ $(VENV)/.demo
