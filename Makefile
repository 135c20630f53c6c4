# Two commands for a newcomer: `make train` and `make test`. Everything lives in .venv, or with
# LANE=tf220 (a newer TensorFlow, docs/dependencies.md) in .venv-tf220.

GAME ?= Frostbite
AGENT ?= nec
FRAMES ?= 10000000
SEED ?= 1
SECONDS ?= 1800
ARGS ?=
LANE ?=

ifeq ($(LANE),)
VENV := .venv
LOCK := requirements.txt
else ifeq ($(LANE),tf220)
VENV := .venv-tf220
LOCK := requirements-tf220.txt
PIP_FLAGS := --no-deps
# The wheel's bounds are those of the default lane; this one runs with PYTHON311=python3.12, too.
SELF_FLAGS := --ignore-requires-python
export TF_USE_LEGACY_KERAS := 1
else
$(error there is no lane $(LANE): leave LANE out, or say LANE=tf220)
endif

# The lock was resolved for CPython 3.11; the first one found is used.
PYTHON311 ?= $(shell for p in python3.11 python3 python /usr/bin/python3.11 /usr/local/bin/python3.11 \
	"$$HOME"/.pyenv/versions/3.11*/bin/python; do \
	"$$p" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, 11))' \
	2>/dev/null && { command -v "$$p"; break; }; done)
BIN := $(VENV)/bin
export TF_CPP_MIN_LOG_LEVEL ?= 3

.PHONY: help install train demo test lint unit cluster-test faults fuzz soak benchmark docs lock clean

help:  ## this list
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 14

install: $(VENV)/installed  ## create .venv from the lock; LANE=tf220: .venv-tf220, for every target

$(VENV)/installed: $(LOCK) pyproject.toml
	@test -n "$(PYTHON311)" || { echo "nec_tf needs CPython 3.11 with venv: install it" \
	"(Debian: python3.11 and python3.11-venv; or pyenv install 3.11)" \
	"or say where it is: make PYTHON311=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "Installing into $(VENV) with $(PYTHON311) (about two minutes)"
	@"$(PYTHON311)" -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_FLAGS) -r $(LOCK)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps $(SELF_FLAGS) \
	--no-build-isolation \
	--config-settings editable_mode=compat -e .
	@touch $@

train: install  ## train: make train GAME=Pong FRAMES=2000000 [AGENT= SEED= ARGS="--flag=..."]
	$(BIN)/python trainers/train_atari.py --game=$(GAME) --agent=$(AGENT) --frames=$(FRAMES) \
	--seed=$(SEED) $(ARGS)

# Without GAME, CartPole is trained; with it, pretrained/<game> is shown.
PRETRAINED = pretrained/$(shell echo $(GAME) | tr A-Z a-z)

demo: install  ## train CartPole, then watch it decide and remember; GAME=Pong: watch a trained agent
ifneq ($(origin GAME),file)
	@test -d $(PRETRAINED) || { echo "there is no trained agent in $(PRETRAINED): train one with" \
	"make train GAME=$(GAME), or watch CartPole with make demo" \
	"(here are: $(or $(notdir $(wildcard pretrained/*)),none))" >&2; exit 1; }
	$(BIN)/python trainers/watch.py --export=$(PRETRAINED) $(ARGS)
else
	$(BIN)/python trainers/train_gym.py --env=CartPole-v1 --frames=8000 --eval_episodes=5 --novideo \
	--run_dir=runs/demo
	$(BIN)/python trainers/watch.py --run_dir=runs/demo $(ARGS)
endif

# Another lane has other releases of the linters and of annotated packages: the default one decides.
test: $(if $(LANE),,lint) unit  ## formatting, import rules, types and every test; LANE=tf220: tests only

lint: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/mypy

unit: install
	$(BIN)/python -m pytest $(ARGS)

cluster-test: install  ## a sweep on two Ray nodes with kills; two minutes on idle cores
	$(BIN)/python -m pytest -n 0 -s tests/cluster/two_nodes.py

faults: install  ## the attacks of tests/faults in their long form: 200 kills, 20 power cuts (needs root)
	NEC_TF_LONG_FAULTS=1 $(BIN)/python -m pytest tests/faults -n 0 $(ARGS)

fuzz: install  ## 10,000 random settings, manifests, arrays and observations, 200 damaged files
	NEC_TF_FUZZ=10000 $(BIN)/python -m pytest tests/faults/test_fuzz.py -n 0 $(ARGS)

soak: install  ## a run with constant eviction for SECONDS: bounded memory, recall above 0.99
	$(BIN)/python -m benchmarks.soak --seconds=$(SECONDS) $(ARGS)

benchmark: install  ## the tables of benchmarks/, with the rival libraries
	$(if $(LANE),$(error the rival libraries are locked for the default lane: leave LANE out))
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-benchmarks.txt
	$(PYTHON311) -m venv .venv-sb3
	.venv-sb3/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-sb3.txt
	$(BIN)/python -m benchmarks.lookup
	$(BIN)/python -m benchmarks.loop

docs: .venv-docs/installed  ## the site of docs/ and of docstrings: site/index.html
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict
	@echo "site/index.html is built. To search it: python3 -m http.server --directory site"

.venv-docs/installed: requirements-docs.txt
	@test -n "$(PYTHON311)" || { echo "make docs needs CPython 3.11: make PYTHON311=... docs" >&2; exit 1; }
	@"$(PYTHON311)" -m venv .venv-docs
	@.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-docs.txt
	@touch $@

lock: install  ## resolve requirements*.in again
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip compile --quiet --upgrade --python-version 3.11 requirements.in -o requirements.txt
	$(BIN)/uv pip compile --quiet --upgrade --python-version 3.11 requirements.in requirements-tf220.in \
	--override requirements-tf220.in -o requirements-tf220.txt
	$(BIN)/uv pip compile --quiet --upgrade --python-version 3.11 requirements-benchmarks.in \
	-o requirements-benchmarks.txt
	$(BIN)/uv pip compile --quiet --upgrade --python-version 3.11 requirements-sb3.in \
	-o requirements-sb3.txt
	$(BIN)/uv pip compile --quiet --upgrade --python-version 3.11 requirements-docs.in \
	-o requirements-docs.txt

clean:  ## remove environments and caches, keep runs/
	rm -rf .venv .venv-tf220 .venv-sb3 .venv-docs site .pytest_cache .mypy_cache .ruff_cache
