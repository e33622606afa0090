# A door for people and packagers; the build itself is Meson's. `make help` lists what there is.

PREFIX ?= /usr/local
DESTDIR ?=
BUILD ?= build
ENGINE ?= local:
MESON ?= meson
MESONFLAGS ?=

.PHONY: all
all: $(BUILD)/build.ninja ## build the command (build/pawl) and the library (build/src)
	@ninja -C $(BUILD) product

$(BUILD)/build.ninja:
	@command -v $(MESON) >/dev/null && command -v ninja >/dev/null || { \
		echo "pawl is built with Meson and ninja, and they are not installed. On Debian: tools/deps build" >&2; exit 1; }
	@$(MESON) setup --prefix '$(PREFIX)' $(MESONFLAGS) $(BUILD)

.PHONY: test
test: ## install what the tests need (Debian packages), then run them all
	@tools/deps test
	@tools/run-tests

.PHONY: check
check: ## run the tests that take no more than two minutes; installs nothing, and uses the servers that are there
	@tools/run-tests check

.PHONY: test-long
test-long: ## install what it needs, and play test suites of peers on pawl that take long
	@tools/deps long
	@tools/run-tests long

.PHONY: test-python
test-python: ## install what it needs, and run all tests of the Python package, those that take long and those under ASan, too
	@tools/deps test
	@tools/run-tests python python-asan

.PHONY: lint
lint: all ## run the style checks alone
	@ninja -C $(BUILD) src/libpawl-test.a >/dev/null
	@BUILD_DIR=$(BUILD) tools/lint

.PHONY: format
format: ## lay out all C files as .clang-format says
	@tools/format

.PHONY: install
install: all ## install under PREFIX (/usr/local), below DESTDIR
	@$(MESON) configure $(BUILD) -Dprefix='$(abspath $(PREFIX))'
	@DESTDIR='$(DESTDIR)' $(MESON) install -C $(BUILD)
	@test -n '$(DESTDIR)' || ldconfig || echo "ldconfig failed: programs may not find libpawl.so until root runs it" >&2

.PHONY: uninstall
uninstall: ## remove what `make install` has installed from this build directory
	@ninja --quiet -C $(BUILD) uninstall

.PHONY: demo
demo: ## install what it needs, build, and show a lock at work; ENGINE=redis, redlock, zookeeper, ...: on real servers
	@tools/deps build
	@case '$(ENGINE)' in redis* | redlock) tools/deps redis ;; zookeeper) tools/deps zookeeper ;; esac
	@$(MAKE) --no-print-directory all
	@./demo/run '$(ENGINE)'

.PHONY: pitfalls
pitfalls: ## play the failures of hand-made locks on real servers, and pawl in the same place
	@tools/deps python
	@tools/deps redis
	@tools/deps zookeeper
	@$(MAKE) --no-print-directory all
	@ninja --quiet -C $(BUILD) tests/libclock_shim.so python/package.stamp
	@BUILD_DIR=$(abspath $(BUILD)) lab/pitfalls/run

.PHONY: figures
figures: ## play the scenes of docs/background.md on real servers, draw them anew, and photograph pawl web: docs/figures/
	@tools/deps sim
	@tools/deps python
	@tools/deps redis
	@tools/deps zookeeper
	@tools/deps page
	@$(MAKE) --no-print-directory all
	@ninja --quiet -C $(BUILD) tests/libclock_shim.so examples/ten_threads python/package.stamp
	@BUILD_DIR=$(abspath $(BUILD)) lab/figures/run
	@BUILD_DIR=$(abspath $(BUILD)) lab/figures/web

.PHONY: models
models: ## check the models of the queues exhaustively with spin (some minutes, 2 GB)
	@tools/deps models
	@lab/models/check

.PHONY: sim
sim: ## pawl in a simulated world, under faults by the thousand; TIME=20s or COUNT=500, SEED=4711, ENGINES="redis zookeeper"
	@tools/deps sim
	@BUILD='$(BUILD)' TIME='$(TIME)' COUNT='$(COUNT)' SEED='$(SEED)' ENGINES='$(ENGINES)' tools/sim

.PHONY: elections
elections: ## `pawl elect` under faults, on each engine: never two leaders; TIME=60s, SEED=4711
	@tools/deps torture
	@$(MAKE) --no-print-directory all
	@for engine in local redis zookeeper; do \
		BUILD_DIR=$(BUILD) lab/torture/elections $$engine '$(patsubst %s,%,$(or $(TIME),60))' '$(or $(SEED),1)' || exit 1; \
	done

.PHONY: mutants
mutants: ## put mistakes into pawl, one by one, and see each found in the simulated world
	@tools/deps sim
	@tools/mutants -j "$$(nproc)"

.PHONY: bench
bench: ## install what it needs, measure beside all peers, about twenty minutes, and write bench/RESULTS.md; QUICK=1: five, to build/
	@tools/deps bench
	@$(MAKE) --no-print-directory all
	@BUILD_DIR=$(BUILD) lab/bench/run
	@lab/bench/quote

.PHONY: bench-python
bench-python: ## install what it needs, and measure the Python package beside what Python programs use today; some minutes
	@tools/deps test
	@$(MAKE) --no-print-directory all
	@ninja -C $(BUILD) python/package.stamp
	@BUILD_DIR=$(BUILD) lab/bench/python

.PHONY: failover
failover: ## install what it needs, kill servers that grant, and write what was lost to bench/FAILOVER.md; some minutes
	@tools/deps torture
	@$(MAKE) --no-print-directory all
	@BUILD_DIR=$(BUILD) lab/bench/failover
	@lab/bench/quote

.PHONY: torture
torture: ## install what it needs, and a long torture under faults; TIME=5m SEED=7 ENGINES="local redis" LEAST=20 (faults of each kind)
	@tools/deps torture
	@$(MAKE) --no-print-directory all
	@ninja --quiet -C $(BUILD) tests/libclock_shim.so
	@BUILD_DIR=$(BUILD) TIME='$(TIME)' SEED='$(SEED)' ENGINES='$(ENGINES)' LEAST='$(LEAST)' tools/torture

.PHONY: deb
deb: ## install what it needs, and build Debian packages, in the directory above
	@tools/deps deb
	dpkg-buildpackage -us -uc -b

.PHONY: clean
clean: ## remove everything that was built
	rm -rf $(BUILD) build-asan build-tsan build-fuzz

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 12
