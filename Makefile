# feather-ref: needs Python 3.11 or newer with its venv module, and make.

PYTHON ?= python3
VENV ?= .venv
PYTESTFLAGS ?= -n 2 --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help demo test compile lowest bench golden exhaustive cubins mutants notebooks shots docs clean

help: ## show this list
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/make \1	\2/p' Makefile
	@echo "variables	PYTHON=$(PYTHON) VENV=$(VENV) PYTESTFLAGS='$(PYTESTFLAGS)'"

demo: $(VENV)/.demo ## train on the digits, pack the weights, check every word
	$(VENV)/bin/python tools/demo.py

test: $(VENV)/.test ## what CI runs: lint, types, import rules, tests, kernels compiled (a quarter of an hour; brings 850 MB)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(VENV)/bin/python -m pytest $(PYTESTFLAGS)
	$(MAKE) compile

compile: $(VENV)-cubins/.cubins ## a part of `make test`: kernels of every format, without a GPU, and what surrounds compiling
	$(VENV)-cubins/bin/python -m pytest $(PYTESTFLAGS) -m toolkit tests/kernels

lowest: ## tests and demo on the oldest dependencies that we promise
	$(PYTHON) -m venv --clear $(VENV)-lowest
	$(VENV)-lowest/bin/python tools/lowest.py demo docs test > $(VENV)-lowest/pins.txt
	$(VENV)-lowest/bin/python -m pip install --quiet -c $(VENV)-lowest/pins.txt -e '.[demo,test]'
	$(VENV)-lowest/bin/python -m pytest $(PYTESTFLAGS)
	$(VENV)-lowest/bin/python tools/demo.py

bench: $(VENV)/.test ## speed of codec and judge beside NumPy and ml_dtypes
	$(VENV)/bin/python tools/bench_codec.py
	$(VENV)/bin/python tools/bench_blocks.py
	$(VENV)/bin/python tools/bench_ops.py
	$(VENV)/bin/python tools/bench_conform.py

golden: $(VENV)/.test ## make data/golden again
	$(VENV)/bin/python tools/make_golden.py

exhaustive: $(VENV)/.test ## all 2**32 float32 against a C program and the golden files, all pairs of NVFP4 (a quarter of an hour; needs gcc)
	$(VENV)/bin/python tests/exhaustive/sweep.py --log tests/exhaustive/results/log.json
	$(VENV)/bin/python tools/make_golden.py --prove --log tests/exhaustive/results/golden.json
	$(VENV)/bin/python tests/exhaustive/pairs.py --log tests/exhaustive/results/nvfp4_pairs.json

mutants: $(VENV)/.test ## break the codec 150 times and see who notices (a quarter of an hour); writes RESULTS.md
	$(VENV)/bin/python tools/mutants.py --results tests/mutation/RESULTS.md

notebooks: $(VENV)/.tutorials ## build the .ipynb, and run every tutorial in a real Jupyter kernel
	$(VENV)/bin/python tools/notebooks.py build
	$(VENV)/bin/python tools/notebooks.py run

shots: $(VENV)/.tutorials ## draw the pictures of the tutorials, to be looked at, in build/shots
	$(VENV)/bin/python tools/shots.py

docs: $(VENV)/.docs $(VENV)/.lite notebooks ## run the tutorials, and build the documentation with what they show in build/site
	$(VENV)/bin/python tools/docs_lite.py
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/python -m mkdocs build --strict
	$(VENV)/bin/python tools/docs_links.py

cubins: $(VENV)-cubins/.cubins ## compile every kernel for every architecture, without a GPU (long); says registers and spills
	$(VENV)-cubins/bin/python -m feather_kernels compile --processes 2

clean: ## remove environments, caches and builds
	rm -rf $(VENV) $(VENV)-cubins $(VENV)-lowest build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

# A half-made environment would look finished the next time.
$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

# Apart, so that all other tests run without Numba, and with the newest NumPy.
$(VENV)-cubins/.cubins: pyproject.toml
	$(PYTHON) -m venv $(VENV)-cubins
	$(VENV)-cubins/bin/python -m pip install --quiet -e '.[cubins]'
	@touch $@

# One stamp for each extra: installed once, and again when pyproject.toml changes.
$(VENV)/.%: pyproject.toml $(VENV)/bin/python
	$(VENV)/bin/python -m pip install --quiet -e '.[$*]'
	@touch $@
