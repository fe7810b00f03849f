"""Fixtures that all tests share: one Spark session per process, on directories that vanish with it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from sqlstream.errors import SqlStreamError
from sqlstream.spark.java import require_java
from sqlstream.testing.spark import local_spark
from sqlstream.testing.tested_session import fast_directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sqlstream.testing.kafka_broker import Broker
    from tests.postgres_server import PostgresServer
    from tests.s3_server import S3Server
    from tests.sqlstream.connectors.test_kafka_source import Topics


pytest_plugins = ["sqlstream.testing.plugin"]

_LONGEST = (
    "test_peers.py", "test_end_of_input.py", "test_cut_files.py", "test_fuzz.py", "test_odd_files.py",
    "test_execution.py",
)  # fmt: skip
"""One of these that begins last would keep a single process busy at the end."""

# For every Java that tests start in other processes, where it lives for a query or two: to compile that code well takes
# longer than to run it (measured: 39 s of processor time in place of 68 for one command with one small query).
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# How long an example takes says more about the machine, and what else it does, than about what is tested.
settings.register_profile("sqlstream", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("sqlstream")

# Logs of Spark and histories of shells, for which no developer looks.
os.environ.setdefault("XDG_STATE_HOME", str(fast_directory("sqlstream-state-")))


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem: str) -> None:
    """Name the test that has ended its process at once: the summary, which names it too, may never be reached."""
    sys.stderr.write(f"\na process of the tests ended in {crashitem}\n")


def pytest_configure(config: pytest.Config) -> None:
    if version("pyspark").startswith("4.1."):  # it leaves sockets to its Java for the garbage collector to close
        config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(pytest.mark.timeout(0))
    needing_spark = [item for item in items if item.get_closest_marker("spark")]
    if hasattr(config, "workerinput"):
        # One of several processes: they take file after file, and end together if the short ones come last.
        files_with_spark = {item.path for item in needing_spark}
        items.sort(key=lambda item: (item.path.name not in _LONGEST, item.path not in files_with_spark))
    if not needing_spark:
        return
    try:
        require_java()
    except SqlStreamError as error:
        for item in needing_spark:
            item.add_marker(pytest.mark.skip(reason=error.diagnostic.message))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The process's Spark session: ``local[2]``, one shuffle partition, checkpoints on a temporary directory."""
    checkpoints = fast_directory("sqlstream-checkpoints-")
    session = local_spark()
    session.conf.set("spark.sql.streaming.checkpointLocation", str(checkpoints))
    yield session
    session.stop()
    shutil.rmtree(checkpoints, ignore_errors=True)


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """A server of S3 for all tests of the process; each test makes a bucket of its own."""
    from tests.s3_server import running_s3

    with running_s3() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL server for all tests of the process; each module makes tables of its own and drops them."""
    from tests.postgres_server import running_server

    with running_server() as server:
        yield server


@pytest.fixture(scope="session")
def kafka_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A Kafka broker for all tests of the process; each test makes topics of its own."""
    from sqlstream.testing.kafka_broker import BrokerError, kafka_jars, running_broker

    try:
        kafka_jars()
    except (BrokerError, SqlStreamError) as error:
        pytest.skip(str(error))
    with running_broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture(scope="module")
def topics(kafka_broker: Broker) -> Topics:
    """Topics of the broker, which each test makes for itself."""
    from tests.sqlstream.connectors.test_kafka_source import Topics

    return Topics(kafka_broker)
