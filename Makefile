# A front end: every target calls CMake or a script; the build description is CMakeLists.txt.
#
#   make demo             set up, build, train LeNet on drawn digits, evaluate, classify
#   make test             set up, build, run the tests; test-processors: as if on older processors;
#                         amx-check: proofs and races for a processor with AMX
#   make                  build/bin/train and the other commands; `make tests` builds the tests too
#   make compare PYTHON=P against the peers that P can import (bench/compare/README.md)
#   make wheel | wheel-check | notebooks  the Python packages and their notebooks (docs/python.md)
#   make deb | deb-check ROOT=FOLDER  Debian packages in build/deb/, and their test (docs/packages.md)
#   make release | sbom TREE=FOLDERS  the files of a release in dist/ (docs/development/releases.md)
#   make site | tutorials  the documentation as a site (docs/development/index.md); executes its tutorials
#   make bench | docs | lint | soak | soak-big | install PREFIX=/usr/local | clean | fuzz | gpu-check
#
# PRESET=debug|asan|tsan|ci chooses another of CMakePresets.json (build folder: build-PRESET),
# JOBS=N the number of jobs, CMAKE_FLAGS="-DCREMA_OPENCV=OFF …" any option of cmake/options.cmake.

PRESET ?= release
BUILD := $(if $(filter release,$(PRESET)),build,build-$(PRESET))
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)

.PHONY: all packages configure build tests demo test test-processors amx-check bench compare docs site tutorials wheel wheel-check notebooks deb deb-check release sbom lint install clean gpu-check soak soak-big soak-serve soak-exports fuzz faults

all: build

packages:
	@scripts/install_packages.sh

configure: packages
	cmake --preset $(PRESET) $(CMAKE_FLAGS)

build: configure
	cmake --build $(BUILD) --parallel $(JOBS)

tests: build
	cmake --build $(BUILD) --parallel $(JOBS) --target tests

demo: configure
	cmake --build $(BUILD) --parallel $(JOBS) --target demo_commands
	@scripts/demo.sh $(BUILD)

# Tests run side by side, so threads that wait must not spin.
test: tests
	cd $(BUILD) && OMP_WAIT_POLICY=passive ctest --output-on-failure --parallel $(JOBS) $(CTEST_FLAGS)

# The tests whose code depends on the processor, as if it were an older one (docs/development/processors.md).
test-processors: tests
	@scripts/test_processors.sh $(BUILD)

# Proofs and times of 16 bits on a processor with AMX (docs/development/processors.md).
amx-check: tests
	@scripts/amx_check.py $(BUILD)

bench: packages
	cmake --preset $(PRESET) -DCREMA_BUILD_BENCH=ON $(CMAKE_FLAGS)
	cmake --build $(BUILD) --parallel $(JOBS)
	@scripts/bench.sh $(BUILD)

compare: packages
	cmake --preset $(PRESET) -DCREMA_BUILD_BENCH=ON $(CMAKE_FLAGS)
	cmake --build $(BUILD) --parallel $(JOBS)
	@bench/compare.sh $(BUILD) $(PYTHON) $(COMPARE_FLAGS)

# docs/layers.md, from the registry and the comments of the schema; a test says when it is stale.
docs: configure
	cmake --build $(BUILD) --parallel $(JOBS) --target layer_reference
	$(BUILD)/dev/layer_reference $(BUILD)/proto/crema.desc >docs/layers.md

# docs/ as a site, into build/site/, with pages that the build describes; checks links and spelling.
site: build
	cmake --build $(BUILD) --parallel $(JOBS) --target layer_reference
	@scripts/site.sh $(BUILD)

# Executes the commands of docs/tutorials and compares what they write: about ten minutes, and ports 8000 and 8001.
tutorials: build
	@scripts/tutorials.py $(BUILD)

# The Python packages, into build/wheels/, for each of PYTHON="python3.10 python3.12 ..."; wheel-check
# installs them into an empty environment of PYTHON.
wheel: packages
	@scripts/wheel.sh $(PYTHON)

wheel-check:
	@scripts/wheel_check.sh $(PYTHON)

# The Debian packages, into build/deb/; deb-check installs them in an empty Debian 12 below ROOT, as root.
deb:
	@scripts/install_packages.sh --deb
	@$(MAKE) build CMAKE_FLAGS="-DCREMA_SHARED=ON $(CMAKE_FLAGS)"
	@scripts/deb.sh $(BUILD)

deb-check:
	@scripts/deb_check.sh $(BUILD) $(ROOT)

# The files of a release, into dist/, of the commit that is checked out; FLAGS=--source-only compiles nothing.
release:
	@scripts/release/release.sh $(FLAGS)

# The libraries that the programs of a build (or of TREE: folders and packages) link, as SPDX.
sbom:
	@scripts/release/sbom.py --output $(BUILD)/crema.spdx.json $(or $(TREE),$(BUILD)/bin $(BUILD)/lib)

# Executes examples/notebooks; needs a build with CREMA_PYTHON=ON, for the version of PYTHON.
notebooks:
	@BUILD=$(BUILD) scripts/notebooks.sh $(PYTHON)

lint:
	@scripts/install_packages.sh --lint
	@scripts/lint.sh

install: build
	cmake --install $(BUILD) --prefix $(PREFIX)

clean:
	cmake -E rm -rf $(BUILD) build-lint

# Slow, and not part of the tests: 200 kills of training runs of each solver type, and the memory of a million batches; results in bench/results/soak.md.
soak: build
	@tests/soak/kill_resume.sh $(BUILD)/bin 200
	@tests/soak/data_memory.sh $(BUILD)/bin

# Thirty minutes of mixed load on the server, a reload each 10 s; MODEL is a .crema file.
soak-serve: build
	@tests/soak/serve.py $(BUILD)/bin $(MODEL)

# Each net of models/ exported and used alone in an empty folder; bench/results/exports.md.
soak-exports:
	@$(MAKE) build CMAKE_FLAGS="-DCREMA_BUILD_BENCH=ON $(CMAKE_FLAGS)"
	@BIN=$(BUILD)/bin tests/soak/exports.sh $(NETS)

# Ten minutes a target, by hand; results in bench/results/fuzz.md.
fuzz:
	@$(MAKE) build PRESET=fuzz
	@scripts/fuzz.sh build-fuzz $(or $(SECONDS_EACH),600)

# Disks, cuts, damaged files, memory, signals and clients that fail (docs/security.md): under two
# hours, or at most ten minutes with QUICK=1; results in bench/results/reliability.md.
faults: build
	@python3 tests/faults/run.py --bin $(BUILD)/bin $(if $(QUICK),--quick)

# Needs 3 GB of memory: reads a weights file of 3 GB, most of it holes.
soak-big: build
	cmake --build $(BUILD) --parallel $(JOBS) --target format_test
	$(BUILD)/dev/format_test --gtest_also_run_disabled_tests --gtest_filter='NetStream.DISABLED_*'

gpu-check:
	@scripts/gpu_check.sh
