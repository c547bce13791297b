# Two commands matter: `make demo` and `make test`. Each makes .venv on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ROOMS := host sandbox signing kernels plugins
# the tests go to so many processes, of up to 1.5 GB each; 0: to this one
PROCESSES ?= 2

.PHONY: demo test check links guests bench clean

demo: $(VENV)/.installed
	$(BIN)/sealhost demo

# ends with the ten longest tests: who adds a long one sees it there
test: $(VENV)/.installed-dev check
	$(BIN)/python -m pytest -n $(PROCESSES) --dist loadfile --durations 10

# formatting, lint, types and layers: seconds, no model needed
check: $(VENV)/.installed-dev links
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	PYTHONPATH=build/links $(BIN)/lint-imports

# rebuilds the reference guests from source with the pinned compiler; a test compares the bytes
guests: $(VENV)/.installed-dev
	$(BIN)/python plugins/build.py

bench: $(VENV)/.installed-dev
	$(BIN)/python -m pip install -qq -e '.[bench]'
	$(BIN)/python tests/bench/versus_llamacpp.py

# one importable tree for tools that do not follow setuptools' package-dir mapping
links:
	@mkdir -p build/links/sealhost
	@touch build/links/sealhost/__init__.py
	@for room in $(ROOMS); do ln -sfn ../../../$$room build/links/sealhost/$$room; done

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -qq --upgrade pip

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install -qq -e .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install -qq -e '.[dev]'
	@touch $@ $(VENV)/.installed

clean:
	rm -rf build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
