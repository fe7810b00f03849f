"""Flink over the topics of ``examples.throughput.kafka``: its Kafka connector in one JVM with parallelism 2.

Flink is installed as for ``examples.nexmark.flink``; its connector and its formats come from Maven Central the first
time. A job reads what is there (``scan.bounded.mode`` = ``latest-offset``) into ``blackhole``.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from examples.nexmark.flink import OnFlink, fetch_jar, installed, run_script
from examples.throughput.formats import COLUMNS

CONNECTOR = "5.0.0-2.2"
"""The newest of Flink's connector for Kafka; it is released apart from Flink."""
REFUSED = {
    "avro": "its timestamps of microseconds are read as milliseconds",
    "protobuf": "Flink reads it by classes that protoc has compiled",
}
_MORE = {"json": ", 'json.timestamp-format.standard' = 'SQL'"}
_AT = re.compile(r"\bat\b")
_TABLE = """CREATE TABLE bids ({ddl}, WATERMARK FOR `at` AS `at` - INTERVAL '4' SECOND) WITH ('connector' = 'kafka',
    'topic' = '{form}', 'properties.bootstrap.servers' = '{brokers}', 'format' = '{form}',
    'properties.group.id' = 'flink', 'scan.startup.mode' = 'earliest-offset',
    'scan.bounded.mode' = 'latest-offset'{more})"""


def with_kafka(home: Path) -> str:
    """The class path, after fetching what is missing."""
    fetch_jar(home, "flink-sql-connector-kafka", CONNECTOR)
    return installed(home)


def script(brokers: str, form: str, query: str) -> str:
    # AT is a word of Flink's grammar, and its watermarks have milliseconds.
    columns = ", ".join(f"`{name}` {'TIMESTAMP(3)' if kind == 'TIMESTAMP' else kind}" for name, kind in COLUMNS.items())
    table = _TABLE.format(ddl=columns, form=form, brokers=brokers, more=_MORE.get(form, ""))
    return f"{table};\nCREATE TABLE nowhere WITH ('connector' = 'blackhole') AS {_AT.sub('`at`', query)}"


def on_flink(class_path: str, brokers: str, form: str, query: str) -> OnFlink | str:
    """The figures, or the error."""
    return run_script(script(brokers, form, query), class_path, {"parallelism.default": "2"})


def rows_per_second(messages: int, figures: OnFlink | str) -> float | None:
    """None for an error, which goes to standard error, and where it was not done in time."""
    if isinstance(figures, str) or not figures.done:
        print(f"Flink: {figures}", file=sys.stderr, flush=True)
        return None
    return messages / figures.seconds
