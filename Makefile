PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN_STAMP := $(VENV)/.run-stamp
DEV_STAMP := $(VENV)/.dev-stamp
# The files list every package with its hash: there is nothing to resolve, and what is newer outside does not matter.
LOCKED := -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps
PIP := $(BIN)/python $(LOCKED)

.PHONY: help demo test chaos chaos-plays fast check format install bench bench-memory soak generate conformance golden golden-db clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(RUN_STAMP): requirements/run.txt pyproject.toml | $(BIN)/python
	@echo "setting up $(VENV) …"
	@$(PIP) -r requirements/run.txt
	@$(BIN)/python scripts/link_package.py
	@touch $@

$(DEV_STAMP): requirements/dev.txt $(RUN_STAMP)
	@echo "setting up the development tools …"
	@$(PIP) -r requirements/dev.txt
	@touch $@

install: $(RUN_STAMP) ## a working sf in .venv/bin
	@echo "sf is ready: $(BIN)/sf --help"

demo: $(RUN_STAMP) ## a goal becomes merged commits, with no key and no network
	@$(BIN)/sf demo

test: $(DEV_STAMP) ## the whole suite
	@$(BIN)/python -m pytest -n 2

chaos: $(DEV_STAMP) ## kills and faults at every single boundary of a short run; an hour, two on a slow machine
	@SF_CHAOS=full $(BIN)/python -m pytest tests/chaos --ignore=tests/chaos/test_plays.py -n 2 --dist worksteal

chaos-plays: $(DEV_STAMP) ## the same blows at a sample of longer runs; as long again
	@SF_CHAOS=full $(BIN)/python -m pytest tests/chaos/test_plays.py -n 2 --dist worksteal

fast: $(DEV_STAMP) ## the unit tests
	@$(BIN)/python -m pytest tests/unit -n 2

check: $(DEV_STAMP) ## format, lint, types, import rules
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/python scripts/check_layers.py
	@echo "check: clean"

format: $(DEV_STAMP) ## rewrite the files in the project's format
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

.bench/.stamp: requirements/bench.txt
	@echo "setting up .bench with the peers …"
	@$(PYTHON) -m venv .bench
	@.bench/bin/python $(LOCKED) -r requirements/bench.txt
	@.bench/bin/python scripts/link_package.py
	@touch $@

bench: .bench/.stamp ## measure sf against its peers; BENCH=transition runs one
	@.bench/bin/python -m bench $(BENCH)

.bench-memory/.stamp: requirements/bench-memory.txt
	@echo "setting up .bench-memory with the peers …"
	@$(PYTHON) -m venv .bench-memory
	@.bench-memory/bin/python $(LOCKED) -r requirements/bench-memory.txt
	@.bench-memory/bin/python scripts/link_package.py
	@touch $@

bench-memory: .bench-memory/.stamp ## measure the memory against its peers; MEMORY_DATA=folder for quality
	@.bench-memory/bin/python -m bench memory

soak: $(DEV_STAMP) ## sixteen clients on a memory server for five minutes: no error, no lost write
	@$(BIN)/python -m bench.memory_soak

generate: $(DEV_STAMP) ## write the memory client anew, from the server's document
	@$(BIN)/python scripts/generate_client.py

conformance: $(DEV_STAMP) ## write docs/conformance.md anew
	@$(BIN)/python scripts/conformance.py

golden: $(DEV_STAMP) ## write the golden prompt renders anew
	@SF_WRITE_GOLDEN=1 $(BIN)/python -m pytest tests/unit/test_golden_prompts.py

golden-db: $(DEV_STAMP) ## make the golden databases of every schema version anew, from the history
	@$(BIN)/python scripts/golden_db.py

clean: ## remove what make made
	rm -rf $(VENV) .bench .bench-memory .mypy_cache .ruff_cache
