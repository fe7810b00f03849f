# Every target sets up its own virtual environment first. Override: make PYTHON=python3.12 VENV=/tmp/venv test
VENV ?= .venv
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
BIN := $(VENV)/bin
# Of Superset, whose dependencies are others than ours: some 1.5 GB.
SUPERSET_VENV ?= .venv-superset
# Tests run in so many processes, each with a Spark session of its own: make PROCESSES=4 test
PROCESSES ?= 3
IN_PROCESSES = -n $(PROCESSES) --dist loadfile --no-loadscope-reorder
USUAL = -m "not long"
READY := $(VENV)/.ready
# More words for those that measure: make BENCH="--rows 5000000 --keys 10000" bench-sql
BENCH ?=
# More words for the broker: make KAFKA="--port 9093 --directory ~/kafka" kafka
KAFKA ?=
# More words for demo-live and demo-lake: make DEMO="--seconds 30 --rate 1000" demo-live
DEMO ?=
# More words for random queries: make FUZZ="--minutes 5 --seed 7" fuzz-results
FUZZ ?=
# More words for both modes: make BOTH="--part 1/9" both-modes
BOTH ?=
# More words for the versions: make MATRIX="--only 4.1.4 --small" test-matrix
MATRIX ?=
# Made once: some seventy processes of the tests start a Java, each some seconds sooner. It does without where it must.
ARCHIVE := $(VENV)/.archive

.DEFAULT_GOAL := check
.PHONY: check demo demo-lake demo-live demo-lookups kafka test test-all test-fast test-peers test-dbapi test-dbt test-ibis lint types fmt differential both-modes endurance simulated-day bless bench bench-planner bench-windows bench-joins bench-sql bench-top-n bench-match bench-formats bench-kafka bench-kafka-latency bench-kafka-memory bench-kafka-sink bench-cdc bench-lake bench-large-files bench-kernels bench-start bench-tests bench-micro-batches bench-latency bench-scale captures bench-lookup bench-checkpoints bench-views nexmark nexmark-flink check-psql check-superset kill-deferred test-faults test-matrix fuzz fuzz-expressions fuzz-results docs site clean help setup python java dist release-check

check: lint types test-fast ## lint, types and the tests that need no Spark (the default)

demo: java $(READY) ## run a query over a year of real departures, end to end
	@$(BIN)/python -m examples.flights.demo

test: java $(READY) $(ARCHIVE) ## every test but the long ones, in three processes (PROCESSES=n); what fails, once more alone
	@$(BIN)/python -m pytest $(IN_PROCESSES) $(USUAL) || { echo "What failed runs once more, alone:"; \
		$(BIN)/python -m pytest $(USUAL) --last-failed --last-failed-no-failures none; }

test-all: java $(READY) $(ARCHIVE) ## all tests, with all restarts, cases of peers and examples: twice as long
	@SQLSTREAM_ALL_TESTS=1 $(BIN)/python -m pytest $(IN_PROCESSES)

test-fast: PROCESSES = 2
test-fast: $(READY) ## the tests that need no Spark
	@$(BIN)/python -m pytest $(IN_PROCESSES) -m "not spark and not long"

test-peers: java $(READY) ## every case of other engines' test suites, of which `test` runs a part
	@SQLSTREAM_ALL_TESTS=1 $(BIN)/python -m pytest tests/test_peers.py

test-dbapi: java $(READY) ## DB-API's compliance tests and SQLAlchemy's suite for dialects, whole: a quarter of an hour
	@$(BIN)/python -m pytest tests/sqlstream/dbapi tests/sqlstream/alchemy
	@$(BIN)/python -m tests.sqlalchemy_suite -q

test-dbt: java $(READY) ## dbt's own suite for adapters, in an environment of its own (DBT_VENV): DBT="-k incremental"
	@$(BIN)/python -m tests.dbt_suite $(DBT)

test-ibis: java $(READY) ## Ibis's own tests for Flink against our backend; docs/ibis.md has what fails and why: IBIS="-k window"
	@$(BIN)/python -m tests.ibis_suite $(IBIS)

test-matrix: python ## golden files and fast tests on each claimed version of PySpark, Python and Java: MATRIX="--only 4.1.4"
	@$(PYTHON) -m tests.versions $(MATRIX)

lint: $(READY) ## ruff and codespell
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/codespell

types: $(READY) ## mypy, strict
	@$(BIN)/mypy

fmt: $(READY) ## format the code, mend what ruff can mend
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

differential: both-modes ## random queries beside models, DuckDB and Spark SQL; golden queries over finished data
	@SQLSTREAM_EXAMPLES=100 $(BIN)/python -m pytest tests/test_engines.py
	@SQLSTREAM_EXAMPLES=2000 $(BIN)/python -m pytest tests/udfs/windows/test_micro_batches.py
	@SQLSTREAM_EXAMPLES=3000 $(BIN)/python -m pytest tests/differential/test_without_spark.py
	@SQLSTREAM_EXAMPLES=20 $(BIN)/python -m pytest tests/differential/test_on_spark.py
	@$(BIN)/python -m pytest -o addopts=--import-mode=importlib tests/golden -k "stream and not restart"

both-modes: java $(READY) ## each query of golden files and peers' cases as a stream and over finished data: BOTH="--part 1/9"
	@$(BIN)/python -m tests.differential.both_modes --ending $(BOTH)

endurance: java $(READY) ## an hour of updating queries at 20,000 events per second: memory, state, lag, and no row lost
	@$(BIN)/python -m examples.throughput.endurance

simulated-day: java $(READY) ## a day of events in a quarter of an hour: memory, state, lag by its hours, from scraped metrics: BENCH="--hours 6"
	@$(BIN)/python -m examples.throughput.simulated_day $(BENCH)

bless: java $(READY) ## rewrite the expected blocks of the golden files; read the diff afterwards
	@$(BIN)/python -m pytest tests/golden --bless

kafka: java $(READY) ## run a Kafka broker to play with, until Ctrl-C: KAFKA="--port 9093 --directory ~/kafka"
	@$(BIN)/python -m sqlstream.testing.kafka_broker $(KAFKA)

demo-lookups: java $(READY) ## departures enriched from PostgreSQL, Redis and HTTP, whose servers it starts
	@$(BIN)/python -m examples.lookups.run

demo-live: java $(READY) ## two minutes of a shop through Kafka: joins, windows, lookups, and results that move: DEMO="--seconds 30"
	@$(BIN)/python -m examples.live.demo $(DEMO)

demo-lake: java $(READY) ## PostgreSQL and Kafka in an Iceberg table that DuckDB reads while it grows: DEMO="--seconds 30"
	@$(BIN)/python -m examples.lake.demo $(DEMO)

bench: java $(READY) ## throughput against plain PySpark and the planner's latency, as tables
	@$(BIN)/python -m examples.throughput.bench

bench-planner: $(READY) ## the planner as a library: queries of Nexmark, long scripts, catalogs of 10,000 tables
	@$(BIN)/python -m examples.throughput.planner

bench-windows: java $(READY) ## windows through the columnar engine, Spark's own operators and transformWithState per key: BENCH="--observed 3"
	@$(BIN)/python -m examples.throughput.windows $(BENCH)

bench-joins: java $(READY) ## joins of streams and OVER, beside Spark's join of streams
	@$(BIN)/python -m examples.throughput.stream_joins $(BENCH)

bench-sql: java $(READY) ## GROUP BY without a window, last and best rows of each key, a regular join, beside Spark's own
	@$(BIN)/python -m examples.throughput.ordinary_sql $(BENCH)
	@$(BIN)/python -m examples.throughput.top_n --query "last row" --query "best 10" $(BENCH)
	@$(BIN)/python -m examples.throughput.stream_joins --query "regular join" $(BENCH)

bench-top-n: java $(READY) ## the last row and the ten best rows of each key
	@$(BIN)/python -m examples.throughput.top_n $(BENCH)

bench-match: java $(READY) ## MATCH_RECOGNIZE: rows that match a pattern, by key
	@$(BIN)/python -m examples.throughput.matches

bench-large-files: java $(READY) ## streams over files of 0.1, 1 and 4 GB of CSV: rows a second and peak memory
	@$(BIN)/python -m examples.throughput.large_files $(BENCH)

bench-formats: java $(READY) ## files of CSV, JSON and Avro: decoders, plain libraries, Spark's readers, and jobs into blackhole
	@$(BIN)/python -m examples.throughput.formats $(BENCH)

bench-kafka: java $(READY) ## messages of Kafka a second, beside a bare client and Spark's connector: BENCH="--format json --flink"
	@$(BIN)/python -m examples.throughput.kafka $(BENCH)

bench-kafka-sink: java $(READY) ## messages a second that a job writes to Kafka, by guarantee
	@$(BIN)/python -m examples.throughput.kafka_sink $(BENCH)

bench-kafka-latency: java $(READY) ## milliseconds from a message to its result, topic to topic: BENCH="--latency real-time"
	@$(BIN)/python -m examples.throughput.kafka_latency $(BENCH)

bench-kafka-memory: java $(READY) ## memory of jobs that read Kafka, by partitions and size of messages: BENCH="--gb 2"
	@$(BIN)/python -m examples.throughput.kafka_memory $(BENCH)

bench-cdc: java $(READY) ## tables of PostgreSQL and MariaDB, copied, their changes upserted, and large transactions: BENCH="--only mariadb"
	@$(BIN)/python -m tests.sqlstream.connectors.cdc_bench $(BENCH)

bench-lake: java $(READY) ## Delta and Iceberg as sources beside Parquet, as sinks and in upserts beside the bare libraries
	@$(BIN)/python -m examples.throughput.lakes $(BENCH)

bench-kernels: $(READY) ## window kernels without an engine, where the time of a batch goes: BENCH="--rows 500000 --key-groups 16"
	@$(BIN)/python -m examples.throughput.kernels $(BENCH)

bench-start: java $(READY) ## how long the shell takes to its prompt, a first row and that of a second query
	@$(BIN)/python -m examples.throughput.shell_start

bench-micro-batches: java $(READY) ## what a micro-batch of 10,000 rows of q2, q3, TUMBLE, GROUP BY costs: BENCH="--query q3"
	@$(BIN)/python -m examples.throughput.micro_batches $(BENCH)

bench-latency: java $(READY) ## milliseconds from an event to its result, at steady rates, 'execution.latency' normal and low
	@$(BIN)/python -m examples.throughput.latency $(BENCH)

bench-scale: java $(READY) ## skew and scale: a hot key, 1 to 4 tasks, 1 to 20 M events, 10 M keys, a year: BENCH="--only skew"
	@$(BIN)/python -m examples.throughput.scale $(BENCH)

bench-tests: java $(READY) ## ten tests of a user over one view: from a cold start, and one once warm
	@$(BIN)/python -m examples.throughput.user_tests

captures: java $(READY) ## scripted sessions of the shell, a failing test and demo-live, as text and SVG for docs/
	@$(BIN)/python -m docs.captures

bench-lookup: java $(READY) ## lookups against HTTP with 20 ms latency, PostgreSQL and Redis: rows per second
	@$(BIN)/python -m examples.throughput.lookups

bench-checkpoints: java $(READY) ## time and bytes of an epoch as state grows to 10 million keys
	@$(BIN)/python -m examples.throughput.checkpoints

bench-views: java $(READY) ## how fresh a materialized view is, and what ten kills with -9 do to it
	@$(BIN)/python -m examples.views.bench

nexmark: java $(READY) $(ARCHIVE) ## the queries of Nexmark over files, each result checked: BENCH="--events 200000 --query q3 q5"
	@$(BIN)/python -m examples.nexmark $(BENCH)

nexmark-flink: java $(READY) $(ARCHIVE) ## the same queries on Flink and on sqlstream in turns: BENCH="--events 1000000 --rocksdb"
	@$(BIN)/python -m examples.nexmark.flink $(BENCH)

check-psql: java $(READY) ## psql reads a materialized view while its job is killed with -9 ten times: whole epochs only
	@$(BIN)/python -m examples.views.bench --only kills --through psql

check-superset: java $(READY) ## Apache Superset on a view and on the dialect, in an environment of its own (SUPERSET_VENV)
	@$(BIN)/python -m tests.superset --environment $(SUPERSET_VENV)

fuzz: $(READY) ## an hour of changed SQL texts: what must hold for every text whatsoever
	@$(BIN)/python -m tests.fuzz

fuzz-expressions: java $(READY) ## thousands of expressions that check accepts, before Spark's analyzer; those that tasks compute, by value
	@$(BIN)/python -m tests.fuzz.against_spark
	@$(BIN)/python -m pytest -q tests/fuzz/test_columns.py

fuzz-results: java $(READY) ## an hour of random queries as streams, as finished data and in DuckDB: FUZZ="--minutes 5 --seed 7"
	@$(BIN)/python -m tests.fuzz.results $(FUZZ)

test-faults: java $(READY) ## kill, cut off and fill up jobs of every kind at random moments, and compare
	@$(BIN)/python -m tests.faults.run

kill-deferred: java $(READY) ## kill -9 a job and its workers while lookups are deferred, and compare what comes out
	@$(BIN)/python -m tests.sqlstream.jobs.deferred_kill

dist: $(READY) ## what a release publishes, in dist/: wheels and source distributions of sqlstream-planner and sqlstream
	@$(BIN)/python -m tests.distributions

release-check: $(READY) ## what a release publishes: sizes, contents, and planning without Spark in empty environments
	@$(BIN)/python -m tests.release

docs: $(READY) ## regenerate the generated pages of docs/
	@$(BIN)/python -m docs.generate

site: $(READY) ## the documentation as a site in site/, with its links checked
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@$(BIN)/python -m mkdocs build --strict --quiet && echo "site/index.html"

clean: ## remove caches and outputs; the virtual environment stays
	rm -rf build dist out site *.egg-info spark-warehouse metastore_db derby.log .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' Makefile

setup: $(READY) ## only set up the virtual environment

python:
	@if [ -z "$(PYTHON)" ]; then printf '%s\n' \
		'sqlstream needs Python 3.11 or newer, and none was found on PATH.' \
		'  Debian, Ubuntu: sudo apt-get install python3 python3-venv' \
		'  macOS:          brew install python@3.12' \
		'Or name one: make PYTHON=/path/to/python3.11 …' >&2; exit 1; fi

java: python
	@$(PYTHON) -m sqlstream.spark.java

$(READY): pyproject.toml constraints.txt | python
	@echo "Setting up $(VENV) (once; downloads about 500 MB, most of it Spark)"
	@$(PYTHON) -m venv $(VENV) || { echo 'The venv module is missing; Debian, Ubuntu: sudo apt-get install python3-venv' >&2; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,examples]'
	@touch $@

$(ARCHIVE): $(READY)
	-@$(BIN)/python -m sqlstream.class_archive
	@touch $@
