# Each target makes the virtual environment if it is missing and needs nothing else done before.
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3
STAMP := $(VENV)/.installed
# One thread in each process: there are as many processes as cores, and threads of several wait for each other.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -P -m pytest tests -n auto --dist worksteal

.PHONY: demo test test-all test-slurm check lint schema docs starters clean
demo: $(STAMP)
	$(BIN)/python -P -m grader.cli batch examples --roster examples/roster.csv --out out --unsafe

test: $(STAMP)
	$(PYTEST) -m "not slow"

# Twice as long, for before a release: every corpus kernel in every dtype, every mark of an equivalent mutant.
test-all: $(STAMP)
	$(PYTEST)

# Needs root and Slurm's packages (CONTRIBUTING.md); starts a Slurm of its own.
test-slurm: $(STAMP)
	GRADER_TEST_SLURM=1 $(BIN)/python -P -m pytest tests/slurm -rs

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: lint test

schema: $(STAMP)
	$(BIN)/python -P -m grader.result > docs/schema/grader.result-1.json

docs: $(STAMP)
	$(BIN)/python -P -m grader.release.rubric_page > docs/rubric.md

starters: $(STAMP)
	$(BIN)/python -P -m grader.release.starters

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --disable-pip-version-check -q -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) out build *.egg-info
