# The same commands for people and for continuous integration. Each target sets up what it needs.
.DEFAULT_GOAL := help
.PHONY: help setup system test slow test-all stories coverage faults lint demo docs bench clean

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
BENCH_STAMP := $(VENV)/.installed-bench

help:
	@echo "make demo      a synthetic Fashion-MNIST, from nothing"
	@echo "make test      the test suite (slow: the longer tests; stories: those in a browser;"
	@echo "               test-all: all of them, and those that take minutes each)"
	@echo "make coverage  line coverage of privacy/ and methods/: 90 % at least"
	@echo "make faults    plant faults in the private boundary: each must turn a test red"
	@echo "make lint      ruff, mypy --strict, import contracts, links in the documents"
	@echo "make docs      write the generated pages and check every link"
	@echo "make bench     speed and accuracy beside other people's programs"
	@echo "make setup     only install; make clean removes what was installed and built"

setup: $(STAMP)

# PyTorch goes first and alone, so that nothing else decides which of its builds is taken.
$(STAMP): pyproject.toml constraints.txt scripts/find-python.sh scripts/install-torch.sh scripts/system-packages.sh scripts/axe-core.sh
	@scripts/system-packages.sh
	@test -n "$$(scripts/find-python.sh)" || scripts/find-python.sh --explain
	"$$(scripts/find-python.sh)" -m venv $(VENV)
	scripts/install-torch.sh $(BIN)/pip
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[all,dev]'
	@scripts/axe-core.sh $(VENV)/share
	@touch $@

$(BENCH_STAMP): $(STAMP)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[bench]'
	@touch $@

# Two processes of one thread each: threads of several processes on two cores wait for each other.
# Noise is drawn by the operating system and has no seed, so a test that looks at noise fails by
# chance once in some thousand runs. One that fails is run once more, and listed as RERUN: a fault
# fails twice. Compiled modules are kept, also where the environment says that none are: each of the
# two processes and every command that a test starts would compile all of them anew.
SUITE := env -u PYTHONDONTWRITEBYTECODE OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal \
	--reruns 1 --only-rerun AssertionError -raR
BOUNDARY := $(addprefix tests/,privacy methods independence statistical conformance/test_queries.py \
	conformance/test_methods.py)

test: setup
	$(SUITE)

# A run of its own, of the tests of these two packages: tracing makes it half as long again.
coverage: setup
	$(SUITE) $(BOUNDARY) --cov=understudy.privacy --cov=understudy.methods \
		--cov-report=term:skip-covered --cov-fail-under=90

# Tests of seconds to a minute each, which continuous integration runs beside the suite.
slow: setup
	$(SUITE) -m "slow and not browser and not minutes"

test-all: setup
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/pytest -m "slow or not slow"

# The long stories in a real browser: those of `make test` take seconds.
stories: setup
	$(BIN)/pytest -m "browser and slow"

faults: setup
	$(BIN)/python scripts/plant_faults.py

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/check_docs.py
	$(BIN)/python scripts/check_methods.py

demo: setup
	$(BIN)/understudy demo

docs: setup
	$(BIN)/python scripts/check_docs.py --write

bench: $(BENCH_STAMP)
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests benchmarks scripts -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
