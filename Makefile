# What to do with this repository: see it work, test it, measure it, and execute its notebooks.
# Everything runs from .venv, which the first of them makes; a stamp keeps the installation from being repeated.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO ?= build/demo
# Names of benchmarks: make bench BENCHMARKS=tuning_spaces; `.venv/bin/python -m vdla.benchmarks` lists them.
BENCHMARKS ?= $$($(BIN)/python -m vdla.benchmarks --group bench)

INSTALL := $(BIN)/python .ci/install.py

# Hundreds of processes import the packages: without bytecode each compiles all their sources, half a second.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-torch test-jax test-tensorflow docs campaign bench notebooks pages clean

demo: $(VENV)/.installed-check
	$(BIN)/vdla demo -o $(DEMO)

# One after the other: making .venv needs what the first step may have to install. The rest is installed by test.sh.
test:
	@bash .ci/setup.sh $(PYTHON)
	@$(MAKE) --no-print-directory $(VENV)/.installed-check
	@MAKE="$(MAKE)" bash .ci/test.sh $(BIN)

# The site, in build/docs/index.html; a warning is an error.
docs: $(VENV)/.installed-dev
	$(BIN)/python -m sphinx -W --keep-going -q -b html -c docs . build/docs
	@echo "build/docs/index.html"

# Hours: every case of every test, and what is never done with looking for faults; CAMPAIGN="cosim faults": those alone.
campaign:
	@bash .ci/setup.sh $(PYTHON)
	@$(MAKE) --no-print-directory $(VENV)/.installed-dev
	$(BIN)/python benchmarks/campaign.py $(CAMPAIGN)

bench: $(VENV)/.installed-bench
	@for name in $(BENCHMARKS); do echo "benchmarks/$$name.py"; $(BIN)/python benchmarks/$$name.py || exit 1; done

# Executes the notebooks and writes all with their outputs: on a quiet machine, since two of them measure.
notebooks: $(VENV)/.installed-dev
	$(BIN)/python notebooks/run_notebooks.py --all $(NOTEBOOKS)

# Everything that the pages show and no clock measures, written anew where it differs from today: six minutes of a core.
pages: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/pages.py $(PAGES)

clean:
	rm -rf build

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: $(PYTHON) is older than 3.11; run make PYTHON=/path/to/newer/python3" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "error: $(PYTHON) cannot make a virtual environment; on Debian and Ubuntu: apt-get install python3-venv" >&2; \
	    rm -rf $(VENV); exit 1; }
	@touch $@

# The development installation contains the other one; a newer pyproject.toml makes both again.
$(VENV)/.installed-check: pyproject.toml | $(VENV)/.made
	@echo "installing the Python packages that the demo needs into $(VENV) (a minute or two)"
	$(INSTALL) -e ".[check]"
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(VENV)/.made
	@echo "installing the Python packages for development into $(VENV) (some minutes)"
	$(INSTALL) -e ".[dev]"
	@touch $(VENV)/.installed-check $@

# What benchmarks alone need is added to the packages for development.
$(VENV)/.installed-bench: $(VENV)/.installed-dev
	$(INSTALL) -e ".[accuracy]"
	@touch $@

# Tests with real frameworks, each in an environment of its own, which takes minutes the first time: torch (6 GB), also for
# benchmarks/pytorch_modules.py; JAX, and Keras on it (1.3 GB); TensorFlow (1.9 GB).
test-torch: TESTS := tests/pytorch
test-jax: TESTS := tests/jax
test-tensorflow: TESTS := tests/tensorflow
test-torch test-jax test-tensorflow: test-%: .venv-%/.installed
	.venv-$*/bin/python -m pytest -q --confcutdir=$(TESTS) $(TESTS)

PACKAGES_torch := torch torchvision onnxscript transformers
PACKAGES_jax := jax2onnx keras
PACKAGES_tensorflow := tensorflow-cpu keras tf2onnx tflite flatbuffers

.venv-%/.installed: pyproject.toml
	@$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python .ci/install.py -e ".[check]" pytest $(PACKAGES_$*)
	@touch $@
