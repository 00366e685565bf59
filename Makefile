# `make demo` and `make test` do all of their own set-up; `make help` lists the rest.
VENV ?= .venv
DIST ?= dist
SITE ?= build/site
JOBS ?= 2
RUN := runs/demo
BIN := $(VENV)/bin

# Paths of another Python's packages must not leak into the environment made here.
unexport PYTHONPATH PYTHONHOME
export PYTHON

.DELETE_ON_ERROR:
.PHONY: help demo test test-all lint wheel bench docs notebooks clean

help:
	@echo 'make demo    train an agent on Grid-DoorKey-5x5-v0, draw demo.gif, open a window if there is a display'
	@echo 'make test    lint and tests (ARGS="-k name" goes to pytest, JOBS=2 workers)'
	@echo 'make test-all the default tests and those marked full, which repeat them on other environments'
	@echo 'make lint    ruff check and ruff format --check'
	@echo 'make bench   steps per second beside minigrid, EnvPool, NAVIX, XLand-MiniGrid, craftax, crafter, jumanji and pgx'
	@echo 'make docs    build the documentation into build/site, with warnings as errors (IDS="Grid-v0 ...": of a few ids)'
	@echo 'make notebooks  run the notebooks of docs/notebooks (ARGS=--write keeps their outputs)'
	@echo 'make wheel   build the wheel into dist/'
	@echo 'make clean   remove the environments and everything built'
	@echo 'PYTHON=/path/to/python3 names the interpreter to build .venv from (3.11 or newer)'

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

# `XLA_FLAGS= make test` compiles as users do.
test: lint
	XLA_FLAGS="$${XLA_FLAGS-$$($(BIN)/python tests/xla_flags.py)}" $(BIN)/pytest -n $(JOBS) --dist loadgroup --no-loadscope-reorder $(ARGS)

# Also the tests marked `full`, and not those marked `slow`.
test-all:
	$(MAKE) --no-print-directory test ARGS='-m "not slow" $(ARGS)'

lint: $(VENV)/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check

wheel: $(VENV)/.dev
	$(BIN)/pyproject-build --quiet --outdir $(DIST)

bench: $(VENV)/.bench
	$(BIN)/jaxenvs bench $(ARGS)

docs: $(VENV)/.docs
	XLA_FLAGS="$${XLA_FLAGS-$$($(BIN)/python tests/xla_flags.py)}" NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir $(abspath $(SITE))

notebooks: $(VENV)/.notebooks
	JAX_PLATFORMS=cpu $(BIN)/python docs/notebooks.py $(ARGS)

clean:
	rm -rf .venv .venv-lowest .cache .pytest_cache .ruff_cache build dist *.egg-info runs demo.gif
	find jaxenvs render baselines benchmarks tests -name __pycache__ -exec rm -rf {} +

# A stamp per set of extras, written only after the whole set is in.
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
