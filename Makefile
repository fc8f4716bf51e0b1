# Two commands for people: `make demo` and `make test`. Both set up .venv by themselves.
# PYTHON=/path/to/python3.12 picks another interpreter (3.11 or later).

VENV := .venv
BIN := $(VENV)/bin
SOURCES := hub link topology wire filing verbs deploy tests

.PHONY: demo test lint types unit clean

demo: $(VENV)/.runtime
	$(BIN)/python -m deploy.demo

test: lint types unit

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy --platform linux
	$(BIN)/mypy --platform darwin
	$(BIN)/mypy --platform win32

unit: $(VENV)/.dev
	$(BIN)/python -m pytest $(PYTEST_ARGS)

$(VENV)/.runtime: pyproject.toml requirements/runtime.txt requirements/build.txt deploy/venv.sh
	sh deploy/venv.sh $(VENV) requirements/runtime.txt
	touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/dev.txt
	touch $@

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .demo
