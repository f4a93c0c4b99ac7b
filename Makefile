# Tasks for developers and CI; `make help` lists them.
# Needs python3 (3.10+), make and a C compiler; everything else goes into .venv.

PYTHON      ?= python3
VENV        ?= .venv
SAN         ?= build/sanitize
SANITIZE    ?= 1
TESTS       ?= tests
PYTEST_ARGS ?=
# As many processes as there are CPUs, at most 8. PYTEST_ARGS comes later and overrides this.
SPREAD      := -n auto --maxprocesses 8 --dist worksteal --benchmark-disable
SIZES       ?= 25,100
ROUNDS      ?= 3
FUZZ_ARGS   ?=
FAULT_ARGS  ?=
MEMORY_ARGS ?=
GRAPHS_ARGS ?=
GUIDED_ARGS ?=
COVERED_ARGS ?=
SCALE_ARGS  ?=
BASE        ?=
MUTANT_ARGS ?=
PUBLIC_ARGS ?=
MAP_ARGS    ?=
DOCUMENTS   ?=
EXAMPLE     ?= examples/transformer_step.pkl.gz

comma   := ,
BIN     := $(VENV)/bin
NATIVE  := $(wildcard src/memreplay/*.p[yx][xd] src/memreplay/engine/*/*.p[yx][xd])
CARD    := $(wildcard src/memreplay/dryrun/gpu/*.[ch])
# The dotted names of the modules that have stubs.
STUBS   := $(subst /,.,$(patsubst src/%.pyi,%,$(wildcard src/memreplay/_core.pyi src/memreplay/engine/*/*.pyi)))
DATA    := $(patsubst %,bench/data/%mb.pkl,$(subst $(comma), ,$(SIZES)))
# The requirements of [build-system], each quoted.
TOOLS   := $(shell sed -n '/^requires = \[/ { s/.*\[\(.*\)\]/\1/; s/", "/" "/g; p; }' pyproject.toml)
# PYTHONMALLOC=malloc lets ASan see each object. Leak detection is off because Python keeps memory
# until it exits. libstdc++ is preloaded because ASan aborts if a C++ library that is loaded later
# (matplotlib's) throws.
SANITIZED = LD_PRELOAD="$$($${CC:-gcc} -print-file-name=libasan.so) $$($${CC:-gcc} -print-file-name=libstdc++.so.6)" ASAN_OPTIONS=detect_leaks=0 \
            UBSAN_OPTIONS=print_stacktrace=1 PYTHONMALLOC=malloc PYTHONPATH=$(abspath $(SAN))/lib $(BIN)/python

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Tests start hundreds of processes; without bytecode, each would compile everything it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-all bench lint typing gate viewer web sanitize threads portable cross fuzz faults memory graphs guided native-coverage scale coverage mutants docs site reference schemas map public reprint images build clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(firstword $(MAKEFILE_LIST)) | awk -F'|' '{ printf "%-16s %s\n", $$1, $$2 }'
	@echo 'Variables: PYTHON=$(PYTHON) VENV=$(VENV) PYTEST_ARGS="-k replay" SIZES=$(SIZES) ROUNDS=$(ROUNDS)'

demo: $(VENV)/demo.stamp ## install into .venv and read the example snapshot
	$(BIN)/memreplay $(EXAMPLE)
	$(BIN)/memreplay peak $(EXAMPLE)

# If TESTS or -k selects tests, slow ones run too.
test: $(VENV)/built.stamp ## quick tests, or all that PYTEST_ARGS="-k name -x" or TESTS=tests/unit/io selects; "-n 0" runs one process
	$(BIN)/python -m pytest $(TESTS) --quick $(SPREAD) $(PYTEST_ARGS)

test-all: $(VENV)/built.stamp ## the whole suite, as ci/test runs it
	$(BIN)/python -m pytest $(TESTS) $(SPREAD) $(PYTEST_ARGS)

bench: $(VENV)/built.stamp $(DATA) ## each figure with its target; benchmarks of the engine, of all commands and other tools, and of the page in Chromium; SIZES=25,100 (MB) ROUNDS=3
	$(BIN)/python bench/standing.py --rounds $(ROUNDS)
	$(BIN)/python -m pytest bench/test_engine.py --benchmark-only --benchmark-min-rounds=$(ROUNDS)
	$(BIN)/python bench/compare.py --rounds $(ROUNDS) $(DATA)
	$(BIN)/python bench/compare.py --rounds $(ROUNDS) --commands $(DATA)
	ci/viewer-tools && .venv-viewer/bin/python bench/viewer.py --rounds $(ROUNDS) --sizes 4,$(SIZES)

lint: $(VENV)/dev.stamp ## ruff (rules and format), cython-lint, and the prose check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PATH="$(abspath $(BIN)):$$PATH" cython-lint $(NATIVE)
	$(BIN)/python ci/prose.py

typing: $(VENV)/built.stamp ## mypy --strict, and the stubs against the compiled modules
	$(BIN)/python -m mypy
	$(BIN)/python -m mypy.stubtest $(STUBS) --mypy-config-file pyproject.toml \
	  --allowlist ci/stubtest-allowlist.txt --ignore-unused-allowlist

gate: $(VENV)/built.stamp ## memreplay's own gate: the example snapshot against ci/gate-base.json
	ci/gate

viewer: $(VENV)/built.stamp ## the page's script: checks, tests, bundle, and the page in Chromium and Firefox
	ci/viewer
	ci/browsers $(PYTEST_ARGS)

web: $(VENV)/built.stamp ## memreplay in a browser: build/web/index.html and the single file memreplay.html, checked in node and Chromium
	ci/web $(PYTEST_ARGS)

# The suite takes about four times as long as with `make test-all`. SANITIZE limits the sanitized build to
# some folders of the engine, and SAN names the build folder for it.
sanitize: $(SAN)/built.stamp ## the test suite under AddressSanitizer and UBSan (slow); TESTS=tests/conformance
	$(SANITIZED) -m pytest $(TESTS) --capture=sys -p no:cacheprovider $(PYTEST_ARGS)

threads: build/threads/built.stamp ## tests of threads and processes under ThreadSanitizer; ci/threads --free uses a free-threaded Python
	ci/threads $(PYTEST_ARGS)

portable: build/portable/built.stamp ## the test suite with plain C11 instead of gcc and Linux features; TESTS=tests/conformance
	PYTHONPATH=$(abspath build/portable)/lib $(BIN)/python -m pytest $(TESTS) $(SPREAD) -p no:cacheprovider $(PYTEST_ARGS)

cross: ## compile all modules' C for Windows, macOS and other Linux platforms, and as strict C11
	ci/cross --all

# ASan's quarantine for freed memory counts toward the inputs' memory limit, so keep it small.
fuzz: SANITIZED := $(subst detect_leaks=0,detect_leaks=0:quarantine_size_mb=16,$(SANITIZED))
fuzz: $(SAN)/built.stamp ## feed broken inputs to the sanitized build for 3 minutes; FUZZ_ARGS="--seconds 600 --seed 1"
	$(SANITIZED) -m tests.fuzz $(FUZZ_ARGS)

faults: $(VENV)/built.stamp ## make system calls fail one at a time, and kill writers (hours); FAULT_ARGS="--most 3 --memory 4"
	$(BIN)/python -m tests.faults $(FAULT_ARGS)

memory: $(SAN)/built.stamp ## make each allocation of the native modules fail once, in the sanitized build; MEMORY_ARGS="--most 20"
	$(SANITIZED) -m tests.faults.native $(MEMORY_ARGS)

graphs: SANITIZED := $(subst detect_leaks=0,detect_leaks=0:quarantine_size_mb=16,$(SANITIZED))
graphs: $(SAN)/built.stamp ## feed random object graphs, in all opcodes, to the sanitized build; GRAPHS_ARGS="--seconds 600 --seed 1"
	$(SANITIZED) -m tests.graphs $(GRAPHS_ARGS)

guided: ## fuzz with libFuzzer, guided by native coverage, 3 minutes per target; GUIDED_ARGS="--seconds 3600 --keep"
	ci/guided $(GUIDED_ARGS)

native-coverage: build/covered/built.stamp ## lines of the native modules that both fuzzers reach; COVERED_ARGS="--inputs 50000"
	find build/covered -name '*.gcda' -delete
	PYTHONPATH=$(abspath build/covered)/lib $(BIN)/python -m tests.guided.reached $(COVERED_ARGS)
	$(BIN)/python ci/native_coverage.py build/covered

scale: $(VENV)/built.stamp ## run each command on many events, stacks, segments, devices, annotations, pools; SCALE_ARGS="--scale 1 --of pools"
	$(BIN)/python bench/scale.py $(SCALE_ARGS)

# Tracing doubles the run time, so this skips random examples, real files and native modules. It also uses
# another time zone than the suite.
coverage: $(VENV)/built.stamp ## branch coverage of the Python sources by unit tests; fails below the floor in pyproject.toml
	env -u MEMREPLAY_CORPUS MEMREPLAY_TZ=America/St_Johns $(BIN)/python -m pytest tests/unit --plain=only $(SPREAD) \
	  --cov --cov-report=term $(PYTEST_ARGS)

mutants: $(VENV)/built.stamp ## mutate modules that differ from BASE (default: all) 60 times, and list changes that no test notices
	$(BIN)/python -m tests.mutants --base "$(BASE)" $(MUTANT_ARGS)

docs: $(VENV)/built.stamp ## run the commands that README and docs/ show, and follow their links
	$(BIN)/python -m pytest tests/test_project.py tests/test_documents.py $(PYTEST_ARGS)

site: ## build the documentation site in build/site with zensical and mkdocs-material, and check its links
	ci/docs

reference: $(VENV)/built.stamp ## generate docs/reference/commands.md, python.md (not committed) and a table of numbers.md
	$(BIN)/python -m ci.reference

schemas: $(VENV)/built.stamp ## write the JSON schemas (docs/schemas) and docs/reference/json.md; neither is committed
	$(BIN)/python -m ci.schemas

map: ## list the job of each file in src/memreplay, and what each stage of the engine uses; MAP_ARGS=engine/read
	@$(PYTHON) ci/map.py $(MAP_ARGS)

public: $(VENV)/built.stamp ## write ci/public.txt, the public interface, and the types in __init__.pyi; PUBLIC_ARGS=--drop allows removals
	$(BIN)/python -m ci.public $(PUBLIC_ARGS)
	$(BIN)/python -m ci.signatures

reprint: $(VENV)/built.stamp ## rewrite console blocks of README.md and docs/ that no longer match; DOCUMENTS=docs/peak.md
	$(BIN)/python -m tests.reprint $(DOCUMENTS)

images: $(VENV)/built.stamp ## redraw the pictures of README and docs/ (the page in Chromium)
	ci/viewer-tools && .venv-viewer/bin/python viewer/screenshots.py docs/images
	$(BIN)/python ci/explore_pictures.py docs/images
	$(BIN)/memreplay timeline $(EXAMPLE) --by line --top 5 --points 200 --format png --force -o docs/images/timeline.png

build: $(VENV)/dev.stamp ## build sdist and wheel into dist/, and check them in a bare environment
	ci/build

clean: ## remove everything that the other targets created
	rm -rf $(VENV) .venv-docs .venv-workflows .venv-build .venv-cross .venv-uv .venv-3.10 .venv-viewers .venv-viewer .venv-web .venv-truth .venv-recording .cache viewer/node_modules viewer/build web/node_modules editors/vscode/node_modules build dist bench/data bench/results src/*.egg-info tests/fuzz/crashes
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	find src -name "*.so" -delete
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +

bench/data/%mb.pkl: bench/generate.py
	@mkdir -p $(@D)
	$(PYTHON) bench/generate.py --output $@ --mb $*

# --- environments ------------------------------------------------------------------------------
# Each environment keeps its object files (DIST_EXTRA_CONFIG says where), so that a change only
# recompiles its dependents. It also has the build tools: pip would unpack them for each build, and
# they would then look newer than all C files. An editable install compiles nothing, because pip
# would compile all modules, one by one, every time.
EDITABLE = MEMREPLAY_NATIVE=0 DIST_EXTRA_CONFIG=$(VENV)/build.cfg $(BIN)/python -m pip install --quiet --no-build-isolation --editable
INPLACE  = DIST_EXTRA_CONFIG=$(VENV)/build.cfg $(BIN)/python setup.py --quiet build_ext --inplace

%/build.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
	  || { echo 'memreplay needs Python 3.10 or newer; name one: make PYTHON=python3.12' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
	  || { echo 'this Python cannot make environments: install its venv package (Debian, Ubuntu: apt-get install python3-venv)' >&2; exit 1; }
	$(PYTHON) -m venv $*
	@printf '[build]\nbuild_base = $*/build\nbuild_lib = $*/build/lib\n[build_ext]\nbuild_lib = $*/build/lib\nbuild_temp = $*/build/temp\n' > $@

%/tools.stamp: %/build.cfg pyproject.toml
	$*/bin/python -m pip install --quiet $(TOOLS)
	@touch $@

# setup.py may change any flag or directive, so start again from the .pyx files.
%/flags.stamp: %/build.cfg setup.py
	rm -rf $*/build build/c-*
	find src -name "*.so" -delete
	@touch $@

.PRECIOUS: %/build.cfg %/tools.stamp %/flags.stamp

# Compiling needs only the tools, so the other packages are installed meanwhile.
$(VENV)/demo.stamp: $(VENV)/flags.stamp $(VENV)/tools.stamp pyproject.toml $(NATIVE) $(CARD)
	$(INPLACE) & made=$$!; $(EDITABLE) . && wait $$made || { kill $$made 2>/dev/null; exit 1; }
	@touch $@

$(VENV)/dev.stamp: $(VENV)/flags.stamp $(VENV)/tools.stamp pyproject.toml
	$(EDITABLE) '.[dev]'
	@touch $@

$(VENV)/built.stamp: $(VENV)/dev.stamp $(NATIVE) $(CARD)
	$(INPLACE)
	@touch $@

# Another build of the whole package, outside src/. PYTHONPATH lets the same environment find it first.
ASIDE = mkdir -p $(@D)/lib && find $(@D)/lib -name '*.py' -delete && \
        $(BIN)/python setup.py --quiet build --build-base $(@D) --build-lib $(@D)/lib --build-temp $(@D)/temp
SOURCES = $(NATIVE) $(CARD) $(shell find src -name '*.py')

$(SAN)/built.stamp: $(VENV)/dev.stamp $(SOURCES) tests/faults/memory.h
	@export MEMREPLAY_SANITIZE=$(SANITIZE) && $(ASIDE)
	@touch $@

# Built by clang; ci/guided chooses the version.
build/guided/built.stamp: $(VENV)/dev.stamp $(SOURCES)
	@export CC=$(CC) MEMREPLAY_SANITIZE=guided && $(ASIDE)
	@touch $@

build/covered/built.stamp: $(VENV)/dev.stamp $(SOURCES)
	@export MEMREPLAY_COVERAGE=1 && $(ASIDE)
	@touch $@

build/threads/built.stamp: $(VENV)/dev.stamp $(SOURCES)
	@export MEMREPLAY_SANITIZE=thread && $(ASIDE)
	@touch $@

build/portable/built.stamp: $(VENV)/dev.stamp $(SOURCES)
	@export MEMREPLAY_PORTABLE=1 && $(ASIDE)
	@touch $@
