# Everything runs in .venv, made on first use. `make` alone lists what there is.

PYTHON ?= python3
ARGS ?=
# More extras to test with, for example GGEUR_EXTRAS=onnx,flower. The extras hf and bench bring torch.
GGEUR_EXTRAS ?=
# The page whose tables are made, and the folder with the embedding tables that it names.
PAGE ?= docs/methods-results.md
DATA ?=
# Which of the paper's tables `make paper` runs, as PIECE=table4; all without it.
PIECE ?=

VENV := .venv
BIN := $(VENV)/bin
LOG := $(VENV)/install.log

comma := ,
empty :=
# $(call extras,first): with those of GGEUR_EXTRAS, as pip wants them, however they were separated: dev,onnx,flower
extras = $(subst $(empty) $(empty),$(comma),$(strip $(1) $(subst $(comma), ,$(GGEUR_EXTRAS))))
DEV := $(call extras,dev)

# A stamp is written after its install has succeeded and is out of date once one of these is newer.
CORE_STAMP := $(VENV)/.installed-core
DEV_STAMP := $(VENV)/.installed-$(DEV)
BENCH_STAMP := $(VENV)/.installed-$(call extras,bench)
INPUTS := pyproject.toml constraints.txt

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-slow test-flower test-browser lint format types bench tables paper docs venv install clean

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(CORE_STAMP) ## Install the core and run the demonstration
	@$(BIN)/ggeur demo $(ARGS)

test: $(DEV_STAMP) ## Run the tests and doctests (more with GGEUR_EXTRAS=onnx,flower; options in ARGS)
	@$(BIN)/pytest -n 2 -rs --durations=25 $(ARGS)

test-slow: $(DEV_STAMP) ## Run the tests that take minutes
	@$(BIN)/pytest -n 2 -rs -m slow $(ARGS)

test-browser: $(VENV)/.installed-dev,browser ## Look at the report in chromium, which must be installed (or CHROMIUM=path)
	@$(BIN)/pytest -rs -m browser $(ARGS)

test-flower: $(VENV)/.installed-dev$(comma)flower ## Run the tests of real machines that take minutes
	@$(BIN)/pytest -rs -s -m slow tests/test_federate_loopback.py tests/test_federate_door.py $(ARGS)

lint: $(DEV_STAMP) ## Check style and formatting
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

format: $(DEV_STAMP) ## Repair style and formatting where that is safe
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

types: $(DEV_STAMP) ## Check the types
	@$(BIN)/mypy

bench: $(BENCH_STAMP) ## Run the benchmarks, which bring torch (more with GGEUR_EXTRAS=simulation,onnx)
	@$(BIN)/python -m benchmarks $(ARGS)

tables: $(CORE_STAMP) ## Make the tables of PAGE anew, from runs on the embedding tables in DATA; stopped, it goes on
	@test -n "$(DATA)" || { echo "Name the folder of the embedding tables: make tables PAGE=$(PAGE) DATA=..."; exit 1; }
	@$(BIN)/python tools/tables.py $(PAGE) --data "$(DATA)" $(ARGS)

paper: $(CORE_STAMP) ## Run the paper's tables on the embeddings in DATA, or one of them (PIECE=table4); stopped, it goes on
	@$(BIN)/python tools/paper.py $(if $(DATA),--data "$(DATA)",--list) $(if $(PIECE),--piece "$(PIECE)") $(ARGS)

docs: $(VENV)/.installed-docs ## Build the documentation into site/ (ARGS=--help; look at it with `.venv/bin/mkdocs serve`)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet $(ARGS)
	@echo "site/index.html is the first page"

venv: $(VENV)/.created ## Make an empty .venv
	@:

install: $(DEV_STAMP) ## Install for development, without running anything
	@:

clean: ## Remove .venv, caches and built files
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist site
	find src tests examples benchmarks -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "ggeur needs Python 3.11 or newer, but $(PYTHON) is $$($(PYTHON) -V 2>/dev/null || echo "not there"): name another with PYTHON=..."; \
	  exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@touch $@

# $(call pip,what): pip's own words go to a log and are shown only if it fails. An extra that does not exist is a
# mere warning to pip, and an error here.
define pip
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-input -c constraints.txt $(1) >$(LOG) 2>&1 \
	  && ! grep 'does not provide the extra' $(LOG) \
	  || { tail -n 20 $(LOG); echo "The installation failed; $(LOG) has all of it."; exit 1; }
endef

$(CORE_STAMP): $(INPUTS) | $(VENV)/.created
	@echo "Installing ggeur into $(VENV) (about a minute, once)"
	$(call pip,-e .)
	@touch $@

$(VENV)/.installed-%: $(INPUTS) | $(VENV)/.created
	@echo "Installing ggeur into $(VENV) with: $* (a minute or more, once)"
	$(call pip,-e ".[$*]")
	@touch $@ $(CORE_STAMP)
