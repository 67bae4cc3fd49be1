# Every target works from a fresh clone: it makes the virtual environment it needs first.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# What the installation compiles.
COMPILED := $(wildcard src/headwater/protocol/batches/*.pxd) $(patsubst %.pxd,%.py,$(wildcard src/headwater/protocol/batches/*.pxd))
# Tests run in one process more than there are cores: many of them wait for a time-out or a process now and then.
WORKERS ?= $(shell echo $$(($$(nproc) + 1)))
# Here each prepares clients of its own, and Java uses all cores.
INTEROP_WORKERS ?= auto

.DEFAULT_GOAL := help
.PHONY: help install run demo check format test test-all coverage interop interop-matrix faults soak bench bench-quick clean

help: ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

install: $(VENV)/.installed ## Install Headwater and all development tools into .venv

$(VENV)/.installed: pyproject.toml constraints.txt setup.py $(COMPILED)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Headwater needs Python 3.11 or later: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

run: install ## Run a broker in the foreground on 127.0.0.1:9092
	$(BIN)/headwater serve

demo: install ## 200,000 orders through a broker and a Spark pipeline of its own; draws build/demo.svg
	$(BIN)/python examples/demo.py --picture build/demo.svg

check: install ## Lint, formatting, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

format: install ## Format the code and fix what can be fixed
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

test: install ## Run the tests of every change, in minutes; a short pass over Spark is among them
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m 'not interop and not slow and not spark'

test-all: install ## Run all tests: also volume, kill cycles, planted bugs, power loss and Spark
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m 'not interop'

# Measuring nearly doubles the time of pure Python, and no test depends on it.
coverage: install ## Run all tests and show which lines they reached
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m 'not interop' --cov --cov-report=term

interop: install ## Test with kcat, Chromium, Java, Go, Rust and JavaScript clients and Kafka's own tools; says what it skips
	$(BIN)/python -m pytest -n $(INTEROP_WORKERS) --dist loadgroup --no-loadscope-reorder -m interop tests/interop

# Each client in an environment of its own, in tests/interop/.work: the first run fetches a gigabyte and takes longer.
interop-matrix: install ## Try every client in every version and write docs/compatibility.md
	$(BIN)/python -m tests.interop.matrix --publish

# One after the other, each for so many minutes. Byte-level fuzzing needs `pip install atheris`: see docs/reliability.md.
MINUTES ?= 30
SEED ?= 1
faults: install ## Long fault tests: crashes, kills, broken disks, hostile clients, soak; MINUTES=30 each, SEED=1
	$(BIN)/python -m tests.faults run --minutes $(MINUTES) --seed $(SEED)

soak: install ## All kinds of clients and faults together, then everything is checked; MINUTES=30, SEED=1
	$(BIN)/python -m tests.faults run soak --minutes $(MINUTES) --seed $(SEED)

# Both need Java 17 and Maven for Apache Kafka, and say so where they measure this broker alone. The case `peers` also
# measures what it finds of Debian's packages nats-server, redis-server and rabbitmq-server.
bench: install ## Measure this broker beside Apache Kafka, all cases (hours); writes docs/benchmarks/full.md
	$(BIN)/python -m benchmarks --publish docs/benchmarks

bench-quick: install ## The same with a few cases, in ten minutes; table on the terminal, JSON in benchmarks/results
	$(BIN)/python -m benchmarks --quick --system headwater --system kafka

clean: ## Remove everything that these targets made
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis .coverage* htmlcov benchmarks/.work tests/interop/.work
	find src tests -name '__pycache__' -prune -exec rm -rf {} +
	rm -f src/headwater/protocol/batches/*.so src/headwater/protocol/batches/*.c
	rm -rf src/*.egg-info
