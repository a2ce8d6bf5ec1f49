# The developer interface. Needs Python 3.11 or newer and make; everything else comes into .venv.
# CI (.ci/run), pre-commit and CONTRIBUTING.md use these same targets.

UV_VERSION := 0.13.9
# Tried in this order; set PYTHON=/path/to/python to choose one.
PYTHON := python3 python3.13 python3.12 python3.11
# What `make test` runs: make test TESTS=tests/unit/store
TESTS := tests
# Test files at a time: they start processes and wait for them far more than they compute.
JOBS := 3
# How long the faults of `make soak` strike, and the seed of their plan (empty: a random one).
MINUTES := 1
SEED :=

BIN := .venv/bin
# Touched when .venv is complete; older than the project or lock file means: bring .venv up to date.
READY := .venv/.ready

# Tests and soaks start hundreds of processes; compiling every module anew would be half of what each costs.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test check format lint unit bench bench-short recovery cancelling soak screenshots openapi clean
.DEFAULT_GOAL := help

help:
	@echo "make demo         the main job, from nothing: agents, workers and a store on this machine"
	@echo "make test         every test (TESTS=path for some, JOBS=n files at a time)"
	@echo "make check        what a change must pass: format, lint, types, import order, unit tests"
	@echo "make format       rewrite the code as 'make check' wants it"
	@echo "make bench        the benchmarks in full; make bench-short for a first look"
	@echo "make recovery     how long it takes until work goes on after a fault"
	@echo "make cancelling   how long the cancel of a large tree blocks the store at a time"
	@echo "make soak         random faults over a load of trees (MINUTES=n SEED=s), then a look at everything"
	@echo "make screenshots  the pictures of the page in docs/images, made anew; needs Chromium"
	@echo "make openapi      write docs/openapi.json anew, after a change of the HTTP API"
	@echo "make clean        remove .venv and caches"

demo: $(READY)
	@$(BIN)/retinue demo

test: $(READY)
	@$(BIN)/python -m pytest -q -n $(JOBS) --dist loadfile $(TESTS)

check: lint unit

lint: $(READY)
	@$(BIN)/ruff format --check --quiet --output-format concise . || { echo "not formatted: run 'make format'" >&2; exit 1; }
	@$(BIN)/ruff check --quiet --output-format concise .
	@$(BIN)/pyright
	@$(BIN)/lint-imports --no-logo

unit: $(READY)
	@$(BIN)/python -m pytest -q tests/unit

format: $(READY)
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/ruff format --quiet .

bench: $(READY)
	@$(BIN)/python benchmarks/bench.py

bench-short: $(READY)
	@$(BIN)/python benchmarks/bench.py --short

recovery: $(READY)
	@$(BIN)/python benchmarks/recovery.py

cancelling: $(READY)
	@$(BIN)/python benchmarks/cancelling.py

soak: $(READY)
	@$(BIN)/python -m tests.soak --minutes "$(MINUTES)" --seed "$(SEED)"

screenshots: $(READY)
	@$(BIN)/python -m tests.acceptance.http.screenshots

# uv installs into the interpreter of .venv and may not fetch another one. An interrupted set-up leaves
# no stamp, so the next make goes on with it.
$(READY): pyproject.toml uv.lock
	@found=; \
	for python in $(PYTHON); do \
	  if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$python; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "Retinue needs Python 3.11 or newer; tried: $(PYTHON). Install one, or set PYTHON=/path/to/python." >&2; \
	  exit 1; \
	fi; \
	echo "Setting up .venv with $$found ..."; \
	$(BIN)/python -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || "$$found" -m venv --clear .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@UV_PYTHON_DOWNLOADS=never UV_PROJECT_ENVIRONMENT=.venv \
	  $(BIN)/python -m uv sync --quiet --frozen --all-extras --python $(BIN)/python
	@touch $@

openapi: $(READY)
	@$(BIN)/python -m retinue.http.openapi.file > docs/openapi.json.new && mv docs/openapi.json.new docs/openapi.json

clean:
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis .import_linter_cache dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
