# Each command does its own set-up: a virtual environment with this package in it, made once.
#   make demo | test | bench | fuzz | docs        PYTHON=python3.12 chooses the interpreter, ARGS="..." goes to the command
#   make coverage                                 lines of the package that the first stage of the tests runs; ARGS goes to pytest
#   make packages                                 what some tests need beyond that; without it they are skipped

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

# In a terminal pip and Sphinx show what they do; in a file they would fill pages.
QUIET := $(shell test -t 2 || echo --quiet)

.PHONY: demo test coverage packages bench fuzz docs clean

demo: $(VENV)/.demo
	$(BIN)/python demo/digits.py $(ARGS)

# Each process has half of the tests, in their order, for what those of a file have compiled in common; one that ends takes
# half of what is left to the other.
# The processes that tests and benchmarks start read the bytecode of those before, which takes them a second less each.
test bench: export PYTHONDONTWRITEBYTECODE :=
test bench: export PYTHONPYCACHEPREFIX ?= $(abspath $(VENV))/bytecode
test: $(VENV)/.test
	$(BIN)/python -m pytest -n auto --dist worksteal $(ARGS)

# A later -m in ARGS replaces this one. build/coverage/index.html shows the lines of each file.
coverage: $(VENV)/.test $(VENV)/.coverage
	$(BIN)/python -m pytest -n auto --dist worksteal -m 'not slow and not vulkan and not gpu' \
	  --cov=nabla_mlir --cov-report=term --cov-report=html:build/coverage $(ARGS)

packages: $(VENV)/.test
	PYTHON=$(BIN)/python bash .ci/packages $(ARGS)

bench: $(VENV)/.bench
ifneq ($(filter --large,$(ARGS)),)
	$(BIN)/python bench/large.py $(ARGS)
else ifneq ($(filter --operations,$(ARGS)),)
	$(BIN)/python bench/operations.py $(filter-out --operations,$(ARGS))
else ifneq ($(filter --loops,$(ARGS)),)
	$(BIN)/python bench/loops.py $(filter-out --loops,$(ARGS))
else
	$(BIN)/python bench/run.py $(ARGS)
	$(BIN)/python bench/prepared.py $(ARGS)
	$(if $(filter --only,$(ARGS)),,$(BIN)/python bench/sparse.py $(filter --quick,$(ARGS)))
	$(if $(filter --only,$(ARGS)),,$(BIN)/python bench/overheads.py $(filter --quick,$(ARGS)))
endif

# The site, in build/docs: a warning is an error, and so is a program of the gallery that fails.
docs: $(VENV)/.docs
	rm -rf docs/generated build/docs
	$(BIN)/python -m sphinx $(QUIET) -W --keep-going -n -j 2 -b html docs build/docs $(ARGS)
	@echo "The site is in build/docs/index.html"

fuzz: $(VENV)/.test
	$(BIN)/python -m nabla_mlir.testing.fuzz $(ARGS)

# A stamp for each extra of pyproject.toml, so that a second run starts at once. Bytecode of all modules would take twice as long;
# the first import writes that of the modules that are used.
$(VENV)/.%: pyproject.toml | $(BIN)/pip
	@echo "Installing nabla-mlir[$*] into $(VENV) ..."
	@$(PIP) install $(QUIET) --no-compile --editable '.[$*]'
	@touch $@

$(BIN)/pip:
	@command -v $(PYTHON) >/dev/null || { echo "make requires Python 3.11 or later, got no $(PYTHON): PYTHON=/path/to/python3 chooses another." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and f"make requires Python 3.11 or later, got {v[0]}.{v[1]}: PYTHON=python3.12 chooses another.")'
	@echo "Making a virtual environment in $(VENV) ..."
	@$(PYTHON) -m venv $(VENV) || { echo "make requires Python's venv module with pip: on Debian and Ubuntu, apt install python3-venv." >&2; exit 1; }

clean:
	rm -rf .venv build out bench/results *.egg-info
