# Everything here runs in a virtual environment of its own, made on first use:
#   make train     PPO on CartPole-v1, start to finish (about half a minute)
#   make test      the tests        make check    format, lint, types, import layers
#   make bench     the benchmarks   make clean    forget the environment
#
# Variables: VENV (where the environment lies), PYTHON (3.11 to 3.14), TORCH (what pip installs for
# PyTorch, options included), TESTS (what pytest is given), ARGS (added to `rlpyt train ppo`),
# PEERS (an interpreter with stable-baselines3: `make bench` then compares with it).

VENV ?= .venv
PYTHON ?= python3
TESTS ?= tests
ARGS ?=
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# PyTorch comes first and by exact version: pip would otherwise choose the newest CUDA build for
# itself. Without an NVIDIA GPU the CPU build is preferred wherever pip can see one. For any other
# build take the line of the selector on PyTorch's "Get Started" page:
#   make train TORCH="torch --index-url <address shown there>"
TORCH_VERSION := 2.13.0
HAS_GPU := $(or $(wildcard /dev/nvidia0),$(shell command -v nvidia-smi 2>/dev/null))
define CPU_HINT
No NVIDIA GPU here, and pip sees no CPU build of PyTorch: installing the default one, which on Linux
brings some GB of CUDA libraries. To avoid them stop now (Ctrl-C), and give the CPU line of PyTorch's
"Get Started" page: make TORCH="torch --index-url <address shown there>"
endef
export CPU_HINT

.PHONY: train test check bench clean
.DELETE_ON_ERROR:

train: $(VENV)/.ready
	$(BIN)/rlpyt train ppo --env CartPole-v1 $(ARGS)

test: $(VENV)/.ready-dev
	$(BIN)/python -m pytest -n auto --maxprocesses 8 --dist worksteal $(TESTS)

check: $(VENV)/.ready-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/python -m pytest -q tests/test_layers.py

bench: $(VENV)/.ready-dev
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/arrays.py
	$(BIN)/python benchmarks/ours.py sample cartpole
	$(BIN)/python benchmarks/ours.py train cartpole
ifdef PEERS
	$(BIN)/python benchmarks/compare.py --peers $(PEERS)
endif

clean:
	rm -rf $(VENV)

$(VENV)/.torch:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(None if v >= (3, 11) else \
	    f"Python {v.major}.{v.minor} is too old: rlpyt needs 3.11; make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
ifdef TORCH
	$(PIP) $(TORCH)
else ifeq ($(HAS_GPU)$(shell uname -s),Linux)
	@$(PIP) torch==$(TORCH_VERSION)+cpu 2>/dev/null \
	    || { echo "$$CPU_HINT"; $(PIP) torch==$(TORCH_VERSION); }
else
	$(PIP) torch==$(TORCH_VERSION)
endif
	@touch $@

$(VENV)/.ready: $(VENV)/.torch pyproject.toml
	$(PIP) --editable .
	@touch $@

# MinAtar without the plotting libraries that it lists and no game needs.
$(VENV)/.ready-dev: $(VENV)/.ready
	$(PIP) --editable '.[dev]'
	$(PIP) --no-deps minatar==1.0.15
	@touch $@
