# Every target sets up what it needs in .venv and says what it is doing.
#
#   make demo [FILE=/some/big/file]   store a file through dying processes, and prove that nothing is lost
#   make test [ARGS="-k fence"]       run the tests: twelve minutes
#   make hunt WHAT="cluster chaos" [SECONDS=n]   search for bugs: fresh seeds, long tests, chaos, fuzzing, mutants, …;
#                                     what is found is written to build/hunt. Without WHAT it says what there is
#   make hunt WHAT=speed AGAINST=commit   what is slower than at a commit, measured in pairs
#   make check                        formatting, lint, imports and types, and make audit
#   make audit                        known weaknesses of the packages the tests run with, where the registry tells
#   make bench                        appends, reading, journals and a count on Spark, each beside its baseline, a JSON object each with
#                                     ARGS=--json; build/bench.svg is a picture of it
#   make sim [SEEDS=n] [SEED=n]       random schedules of faults against the protocol; SEED repeats one with its plan
#            [LAYER=cores]            … against the machines (the default)
#            [LAYER=upkeep]           … against a bookie that is collected, compacted, scrubbed and repaired
#            [LAYER=journals]         … against writers, readers and acceptors of a journal, some of them synced, lost and replaced
#            [LAYER=cluster]          … against whole clusters of the real classes
#   make soak                         a bookie stopped for a minute, 5 GB through three bookies; ten minutes
#   make soak-journals [SECONDS=n]    writers that take journals from each other, and faults on bookies; ten minutes
#   make chaos [SECONDS=n] [SEED=n]   real bookies and etcd killed, hung, slowed and wiped under clients; two minutes
#   make siege [SECONDS=n]            strangers do their worst to three bookies beside a writer, also over HTTP: what it keeps; two minutes
#   make measure WHAT=reading|restart|rolling|many|metadata|compaction|healing   figures of storage; a minute to a quarter of an hour
#                WHAT=metrics         … of what metrics cost bulk appends, in turns with and without them; three minutes
#                WHAT=edits|journals  … of the edit log's codec; of taking over and following a journal
#                WHAT=hadoop          … of stock Hadoop's journal manager over stock JournalNodes, and over ours; four minutes
#                WHAT=bookkeeper      … of appends and ledgers over three bookies of Apache BookKeeper, and over ours; six minutes
#                WHAT=leading         … of leaders that are followed, on SQLite and etcd; two minutes
#                WHAT=cold            … of an object store (BOOKLEDGER_COLD, or a directory) beside obstore alone; two minutes
#                WHAT=walk            … of the modules and functions that an append and a take-over pass through
#                WHAT=cold-week       … of a log of a week on disks that hold an hour of it, read while it is written; as root; fifteen minutes
#                WHAT=examples        … of example programs that are killed at random: nothing is lost, nothing twice; ten minutes
#                WHAT=scale|scale-of-bookies|scale-of-logs|scale-picture  … of up to a million ledgers, 300 bookies, 10,000 logs; half an hour
#                WHAT=ledgers-made    … of ledgers made and closed on a real etcd; ten seconds
#                WHAT=spark|spark-counts  … of replay on Spark, beside Spark on local files; ten minutes, one minute
#                WHAT=spark-logs  … of a set of logs on Spark, beside its ledgers and Parquet; a quarter of an hour
#   make fuzz [SECONDS=n] [WHAT="frames record"]   bytes of all kinds for every parser, under atheris; two minutes each
#   make mutants WHAT=ledgers/protocol|HEAD~3 [ARGS="--seed 7 --count 100"]   small changes: which does no test notice?
#   make etcd                         build the etcd that the tests take, with Go, where the system has none
#   make hadoop                       fetch Hadoop for the tests that run it: two versions, 95 MB, with Maven
#   make interop [ARGS="TestNNWithQJM"]  Hadoop's own test classes over our journal daemons; half an hour
#   make wheel                        build dist/*.whl, and beside it the same as .zip, which is what Spark ships
#   make sbom                         the wheel, and beside it the list of all that it brings, as CycloneDX
#   make lock                         choose anew, and write down with their hashes, the packages the tests run with
#   make protos                       regenerate the code beside each .proto
#   make metrics-doc                  write docs/metrics.md anew, from the code
#   make site                         build/site/html: the documents with search, and a reference of the public API; half a minute

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := test

VENV := .venv
BIN := $(VENV)/bin
FILE ?=
SEEDS_cores := 20000
SEEDS_upkeep := 2000
SEEDS_journals := 20000
SEEDS_cluster := 500
SEEDS ?= $(SEEDS_$(LAYER))
SEED ?=
SECONDS ?= 120
LAYER ?= cores
ARGS ?=
# A test waits for disks and processes half of its time, so four fill two cores. What a file's tests started they
# share: a file runs in one process.
PROCESSES ?= 4
LOCK := tests/requirements.lock
SBOM_TOOL := cyclonedx-bom==7.5.0
AUDIT_TOOL := pip-audit==2.10.1
ETCD := build/etcd/$(shell sed -n 's/^TESTED = "\(.*\)"/\1/p' tests/support/etcd_program.py)
ETCD_SECONDS_MAX := 600
# Tests spend half of their time in fdatasync, which a RAM disk answers at once; what they show does not depend on it. A
# process that is killed leaves the same files on either, and tests of full or failing disks mount their own. They leave
# some 14 GB there until the end.
RAM_DISK_KIB_MIN := 17000000
FREE_ON_RAM_DISK := { df --output=avail -k /dev/shm 2>/dev/null || echo 0; awk '/^MemAvailable/ {print $$2}' /proc/meminfo; } | awk '/[0-9]/ && (!n || $$1 < n) {n = $$1} END {print n + 0}'
ON_RAM_DISK := [ -n "$${TMPDIR:-}" ] || [ $$($(FREE_ON_RAM_DISK)) -lt $(RAM_DISK_KIB_MIN) ] || export TMPDIR=/dev/shm
# Without bytecode on the disk every process that a test starts compiles all that it imports.
PYTEST_ALONE := PYTHONDONTWRITEBYTECODE= PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest
PYTEST := $(PYTEST_ALONE) -n $(PROCESSES) --dist loadfile --no-loadscope-reorder
ONCE_MORE := -p tests.support.once_more
# The suite is to stay within twelve minutes: the end of a run says what to look at.
SLOWEST := --durations=100 --durations-min=3
COPY_JARS := org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies
HADOOP := $(foreach version,2.7.3 3.4.1,build/hadoop/$(version)/jars)
BOOKKEEPER := build/hadoop/bookkeeper-4.17.3/jars
INTEROP := build/hadoop/3.4.1-tests/jars
PROTOS := metadata/records/records.proto metadata/etcd/etcd.proto bookie/wire/bookie.proto qjm_compat/hadoop/wire/hadoop.proto

.PHONY: demo test hunt check audit bench sim chaos siege soak soak-journals measure fuzz mutants etcd hadoop interop wheel sbom lock protos metrics-doc site clean

# Handed on in the environment, where nobody reads quotes, spaces and dollars in it.
demo: export DEMO_FILE = $(value FILE)
demo: $(VENV)/.ready
	@echo "== demo: a bookie and a writer will be killed; a few seconds"
	@$(BIN)/bookledger demo $${DEMO_FILE:+-- "$$DEMO_FILE"}

test:
	@$(MAKE) --no-print-directory -j2 $(VENV)/.ready-test etcd
	@echo "== test: about twelve minutes on two cores"
	@$(ON_RAM_DISK); TIMEFORMAT='== test: %R s, processor time %U s user and %S s system'; \
	status=0; time $(PYTEST) $(ONCE_MORE) --cache-clear $(SLOWEST) $(ARGS) || status=$$?; \
	[ $$status = 1 ] || exit $$status; \
	echo "== test: what failed beside others, once more by itself"; \
	$(PYTEST_ALONE) $(ONCE_MORE) --once-more --last-failed --last-failed-no-failures none

# Hadoop, atheris and cosmic-ray are fetched where they are wanted: `make hadoop`, `make .venv/.ready-fuzz`.
hunt: $(VENV)/.ready-test etcd
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tests.hunt $(WHAT) --seconds $(SECONDS) $(ARGS)

check: $(VENV)/.ready-dev
	@echo "== check: format, lint, imports, types"
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/lint-imports --no-logo --no-cache
	@$(BIN)/mypy
	@$(BIN)/mypy examples
	@$(BIN)/python -m tests.support.sizes
	@$(MAKE) --no-print-directory audit

# Ends with an error for what is known; where the registry does not tell, that is said.
audit: $(VENV)/.ready
	@echo "== audit: known weaknesses of what the tests run with"
	@mkdir -p build/audit && rm -f build/audit/found.json
	@[ -x build/audit/tool/bin/pip-audit ] || { $(BIN)/python -m venv build/audit/tool && \
	  build/audit/tool/bin/pip install --quiet $(AUDIT_TOOL); }
	@status=0; build/audit/tool/bin/pip-audit --disable-pip --require-hashes --progress-spinner off -r $(LOCK) \
	  -f json -o build/audit/found.json 2> build/audit/said.txt || status=$$?; \
	if [ ! -s build/audit/found.json ]; then tail -n 1 build/audit/said.txt; echo "   nobody could be asked"; \
	else echo "   $$(grep -o '"skip_reason"' build/audit/found.json | wc -l) packages of which the registry tells nothing"; \
	  [ $$status = 0 ] || { cat build/audit/found.json; exit $$status; }; fi

bench: $(VENV)/.ready-test etcd
	@echo "== bench: two dozen measurements of five seconds, and Spark where there is Java; four minutes" >&2
	@mkdir -p build && rm -f build/bench.svg
	@$(BIN)/bookledger bench --picture build/bench.svg $(ARGS)
	@echo "== bench: build/bench.svg is a picture of it" >&2
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tests.measure ledgers-made
	@$(BIN)/bookledger journal bench $(ARGS)
	@if [ -z "$${JAVA_HOME:-}" ] && ! command -v java > /dev/null; then echo "== bench: no Java, so nothing of Spark" >&2; \
	else PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tests.measure spark-counts --share 0.5; fi

sim: $(VENV)/.ready-test
	@$(BIN)/python -m tests.simulation $(LAYER) $(if $(SEED),--seed $(SEED),--seeds $(SEEDS)) $(ARGS)

soak: $(VENV)/.ready-test
	@echo "== soak: a bookie stopped for a minute, then 5 GB"
	@BOOKLEDGER_STALL_SECONDS=60 BOOKLEDGER_SOAK_BYTES=5e9 $(BIN)/python -m pytest -s -m "" --timeout=1800 tests/integration/test_slow_bookie.py

chaos: $(VENV)/.ready-test etcd
	@echo "== chaos: $(SECONDS) seconds of faults on real processes, then calm"
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tests.chaos.run --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

siege: $(VENV)/.ready-test
	@echo "== siege: a writer alone, and with eight strangers at its bookies, over HTTP and at their own ports; $(SECONDS) seconds"
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tests.siege.run --seconds $(SECONDS) $(ARGS)

soak-journals: $(VENV)/.ready-test etcd
	@echo "== soak-journals: rivals for $(SECONDS) seconds over each form, then every fault on real bookies"
	@BOOKLEDGER_SOAK_SECONDS=$(SECONDS) PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest -s -m "" --timeout=3600 \
	  -k "soak_journals or killed or stood_still" tests/integration/test_journals_soak.py \
	  tests/integration/test_journals_killed.py tests/scenarios/test_journal_under_faults.py $(ARGS)

measure: $(VENV)/.ready-test etcd $(if $(filter bookkeeper,$(WHAT)),$(BOOKKEEPER))
	@$(BIN)/python -m tests.measure $(WHAT) $(ARGS)

fuzz: $(VENV)/.ready-fuzz
	@echo "== fuzz: $(or $(WHAT),every parser), $(SECONDS) seconds each"
	@$(BIN)/python -m tests.fuzz --seconds $(SECONDS) $(ARGS) $(WHAT)

mutants: $(VENV)/.ready-dev
	@$(BIN)/python -m tests.mutants $(WHAT) $(ARGS)

# The package's etcd may lose writes when it is killed. BOOKLEDGER_ETCD and the system's go before one that is built.
etcd: etcd_elsewhere = PATH="$${PATH//"$(CURDIR)/$(BIN):"/}" command -v etcd
etcd:
	@if [ -x $(ETCD)/etcd ] || [ -n "$${BOOKLEDGER_ETCD:-}" ] || $(etcd_elsewhere) > /dev/null; then exit 0; fi; \
	no() { echo "== etcd: $$1: tests take the package's, WHICH MAY LOSE WRITES; set BOOKLEDGER_ETCD to another" >&2; exit 0; }; \
	command -v go > /dev/null || no "there is no Go to build one"; \
	$(MAKE) --no-print-directory $(ETCD)/etcd || no "it cannot be built"

hadoop: $(HADOOP)
	@echo "== hadoop: $^"

interop: $(VENV)/.ready-test $(INTEROP)
	@echo "== interop: Hadoop's own test classes over our journal daemons"
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tests.interop.run $(ARGS)

wheel: $(VENV)/.ready-build
	@echo "== wheel: dist"
	@rm -f dist/bookledger-*
	@$(BIN)/python -m hatchling build -t wheel -d dist
	@for wheel in dist/bookledger-*.whl; do cp $$wheel $${wheel%.whl}.zip; done

# What an installation of the wheel brings with it, in the versions that the tests ran with.
sbom: wheel
	@echo "== sbom: dist/*.cdx.json"
	@rm -rf build/sbom && mkdir -p build/sbom
	@sed -E '/^ *--hash/d; s/ *\\$$//' $(LOCK) > build/sbom/versions.txt
	@$(BIN)/python -m venv build/sbom/installed && $(BIN)/python -m venv build/sbom/tool
	@build/sbom/installed/bin/pip install --quiet -c build/sbom/versions.txt dist/bookledger-*.whl
	@build/sbom/tool/bin/pip install --quiet $(SBOM_TOOL)
	@build/sbom/installed/bin/pip uninstall --quiet --yes pip setuptools
	@for wheel in dist/bookledger-*.whl; do build/sbom/tool/bin/cyclonedx-py environment --pyproject pyproject.toml \
	  --output-reproducible --of JSON -o $${wheel%.whl}.cdx.json build/sbom/installed; done

lock: $(VENV)/.ready-uv
	@echo "== lock: $(LOCK)"
	@echo '# What the tests run with, for every Python that is supported: `make lock` makes it anew.' > $(LOCK)
	@$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --extra test --generate-hashes \
	  --no-emit-index-url --no-annotate --no-header pyproject.toml >> $(LOCK)

protos: $(VENV)/.ready-test
	@echo "== protos: regenerating with the pinned grpcio-tools"
	@$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. $(PROTOS)

metrics-doc: $(VENV)/.ready-test
	@$(BIN)/python -m tests.docs.metrics_document

# Without --quiet, which hides warnings from --strict.
site: $(VENV)/.ready-site
	@echo "== site: build/site/html/index.html"
	@$(BIN)/python -m tests.docs.site_pages
	@PYTHONPATH="$(CURDIR)" NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --clean

clean:
	rm -rf $(VENV) build dist

# Complete or not there at all: the tests run what they find.
build/etcd/%/etcd: tests/support/build_etcd
	@echo "== building etcd $* (a minute, where Go has its sources five seconds)"
	@timeout $(ETCD_SECONDS_MAX) $< $* $(@D)
	@touch $@

build/hadoop/%/jars: tests/support/hadoop/%.pom.xml
	@echo "== fetching jars into $(@D) (half a minute)"
	@for tool in java mvn; do command -v $$tool >/dev/null || \
	  { echo "it needs Java 17, and Maven to fetch it: install a JDK 17 and maven first" >&2; exit 1; }; done
	@rm -rf $@ $@.new
	@mvn --quiet --batch-mode -Dstyle.color=never --file $< $(COPY_JARS) -DincludeScope=runtime -DoutputDirectory=$(CURDIR)/$@.new
	@mv $@.new $@
	@touch $@

# --- setting up ----------------------------------------------------------------------------------
# A stamp stands for "this set of packages is installed as pyproject.toml asks".

$(VENV)/.ready: pyproject.toml | $(VENV)/bin/pip
	@echo "== installing bookledger into $(VENV) (the first time takes half a minute)"
	@$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.ready-build: pyproject.toml | $(VENV)/bin/pip
	@$(BIN)/pip install --quiet --disable-pip-version-check 'hatchling>=1.27'
	@touch $@

# The tested set, each file by its hash.
$(VENV)/.ready-test: pyproject.toml $(LOCK) | $(VENV)/bin/pip
	@echo "== installing bookledger and its test tools into $(VENV) (the first time takes a minute)"
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r $(LOCK)
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $(VENV)/.ready $@

$(VENV)/.ready-fuzz: $(VENV)/.ready-test
	@$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[fuzz]'
	@touch $@

$(VENV)/.ready-site: $(VENV)/.ready-test
	@echo "== installing the tools of the site into $(VENV)"
	@$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[site]'
	@touch $@

$(VENV)/.ready-dev: $(VENV)/.ready-test
	@echo "== installing the developer tools into $(VENV)"
	@$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

$(VENV)/.ready-uv: | $(VENV)/bin/pip
	@$(BIN)/pip install --quiet --disable-pip-version-check 'uv>=0.9'
	@touch $@

# The first Python that was built with optimizations, which takes a quarter less processor time, else the first.
# Debian's python3 comes without the module that makes environments; it is asked for where we may.
OPTIMIZED := import ensurepip, sys, sysconfig as c; sys.exit(sys.base_prefix != "/usr" and "--enable-optimizations" not in (c.get_config_var("CONFIG_ARGS") or ""))
$(VENV)/bin/pip:
	@python=""; \
	for candidate in python3 python3.13 python3.12 python3.11; do \
	  if command -v $$candidate >/dev/null && $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then \
	    [ -n "$$python" ] || python=$$candidate; \
	    if $$candidate -c '$(OPTIMIZED)' 2>/dev/null; then python=$$candidate; break; fi; \
	  fi; \
	done; \
	if [ -z "$$python" ]; then echo "bookledger needs Python 3.11 or newer: install python3 (3.11+) first" >&2; exit 1; fi; \
	echo "== making $(VENV) with $$($$python --version)"; \
	if ! $$python -c 'import ensurepip, venv' 2>/dev/null; then \
	  version=$$($$python -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	  root=""; [ "$$(id -u)" = 0 ] || root="sudo -n"; \
	  echo "== this Python has no venv module; installing the package python$$version-venv"; \
	  $$root apt-get -qq update && $$root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y "python$$version-venv" >/dev/null \
	    || { echo "could not: run 'sudo apt-get install python$$version-venv', then try again" >&2; exit 1; }; \
	fi; \
	rm -rf $(VENV); $$python -m venv $(VENV)
