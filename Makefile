# The front door. Each target makes .venv and installs what it needs, in the exact versions of constraints.txt.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The second is for what builds tracekit itself: newer pips do not hold that to the first.
PINNED := PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt
INSTALL := $(PINNED) $(BIN)/python -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help demo app test lint bench licences clean

help:  ## what there is
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 10

demo: $(VENV)/ready-workloads  ## profile a real two-rank training on this machine's CPU and say where its time went
	@$(BIN)/tracekit demo

app: $(VENV)/ready-app  ## runs in a browser, those below this folder (or ROOT=DIR)
	@$(BIN)/tracekit app --root '$(or $(ROOT),.)'

test: $(VENV)/ready-dev  ## all tests
	@$(BIN)/python -m pytest -n 2 --dist loadfile --ignore=tests/workloads
# Real processes, whose times are compared. Emulated devices sleep, so two files' tests share the cores; what fails there
# is run again, alone.
	@$(BIN)/python -m pytest -n 2 --dist loadfile tests/workloads || $(BIN)/python -m pytest tests/workloads --last-failed

lint: $(VENV)/ready-dev  ## style, types, and who may import whom
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: $(VENV)/ready-dev  ## speed and memory of reading, beside HolisticTraceAnalysis
	@$(BIN)/python -m benchmarks.reading

licences: $(VENV)/ready-dev  ## docs/licences.md, of everything installed; fails at one that pyproject.toml does not allow
	@table=$$($(BIN)/pip-licenses) && printf '# Licences\n\nOf everything that tracekit and its extras install, by `make licences`.\n\n%s\n' "$$table" > docs/licences.md

clean:  ## remove what make made
	rm -rf $(VENV) build *.egg-info

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tracekit needs Python 3.11 or newer")'
	@echo "making $(VENV) (once)"
	@$(PYTHON) -m venv $(VENV)

# A mark per set of extras, older than what it was made from means: install again.
$(VENV)/ready-workloads: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "installing tracekit and torch (once, some minutes)"
	@$(INSTALL) --editable '.[workloads]'
	@touch $@

$(VENV)/ready-app: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "installing tracekit and streamlit (once)"
	@$(INSTALL) --editable '.[app]'
	@touch $@

$(VENV)/ready-dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "installing tracekit, torch and the development tools (once, some minutes)"
	@$(INSTALL) --editable '.[workloads,app,hta,dask,dev]'
	@touch $@
