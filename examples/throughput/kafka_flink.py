"""Flink over the topics of ``examples.throughput.kafka``: its Kafka connector in one JVM with parallelism 2.

Flink is installed as for ``examples.nexmark.flink``; its connector and its formats come from Maven Central the first
time. A job reads what is there (``scan.bounded.mode`` = ``latest-offset``) into ``blackhole``.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

from examples.nexmark.flink import OnFlink, installed, parsed
from examples.throughput.formats import COLUMNS

CONNECTOR = "5.0.0-2.2"
"""The newest of Flink's connector for Kafka; it is released apart from Flink."""
REFUSED = {
    "avro": "its timestamps of microseconds are read as milliseconds",
    "protobuf": "Flink reads it by classes that protoc has compiled",
}
_MAVEN = "https://repo.maven.apache.org/maven2/org/apache/flink"
_JARS = {"flink-sql-connector-kafka": CONNECTOR}
_OPENED = ("java.util", "java.lang", "java.net", "java.nio", "java.time", "sun.nio.ch")
_MORE = {"json": ", 'json.timestamp-format.standard' = 'SQL'"}
_SECONDS = 600
_AT = re.compile(r"\bat\b")
_TABLE = """CREATE TABLE bids ({ddl}, WATERMARK FOR `at` AS `at` - INTERVAL '4' SECOND) WITH ('connector' = 'kafka',
    'topic' = '{form}', 'properties.bootstrap.servers' = '{brokers}', 'format' = '{form}',
    'properties.group.id' = 'flink', 'scan.startup.mode' = 'earliest-offset',
    'scan.bounded.mode' = 'latest-offset'{more})"""


def with_kafka(home: Path) -> str:
    """The class path, after fetching what is missing."""
    path = installed(home)
    for name, version in _JARS.items():
        jar = home / "jars" / f"{name}-{version}.jar"
        if not jar.exists():
            partial = jar.with_suffix(".partial")
            urllib.request.urlretrieve(f"{_MAVEN}/{name}/{version}/{jar.name}", partial)
            partial.rename(jar)
    return path


def script(brokers: str, form: str, query: str) -> str:
    # AT is a word of Flink's grammar, and its watermarks have milliseconds.
    columns = ", ".join(f"`{name}` {'TIMESTAMP(3)' if kind == 'TIMESTAMP' else kind}" for name, kind in COLUMNS.items())
    table = _TABLE.format(ddl=columns, form=form, brokers=brokers, more=_MORE.get(form, ""))
    return f"{table};\nCREATE TABLE nowhere WITH ('connector' = 'blackhole') AS {_AT.sub('`at`', query)}"


def on_flink(class_path: str, brokers: str, form: str, query: str) -> OnFlink | str:
    """The figures, or the error."""
    with tempfile.TemporaryDirectory(prefix="kafka-on-flink-") as made:
        text = Path(made) / "script.sql"
        text.write_text(script(brokers, form, query))
        command = [
            "java", *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED), "-cp", class_path,
            "NexmarkOnFlink", str(text), "parallelism.default=2",
        ]  # fmt: skip
        try:
            ran = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, cwd=made)
        except subprocess.TimeoutExpired:
            return f"not done in {_SECONDS} s"
    return parsed(ran.returncode, ran.stdout, ran.stderr)


def rows_per_second(messages: int, figures: OnFlink | str) -> float | None:
    """None for an error, which goes to standard error."""
    if isinstance(figures, str):
        print(f"Flink: {figures}", file=sys.stderr, flush=True)
        return None
    return messages / figures.seconds
