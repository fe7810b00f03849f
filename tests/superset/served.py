"""What is asked: a materialized view that a job keeps, and tables of a project, over departures that come now."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from examples.views import departures
from examples.views.served import Server, is_there

_START_S = 300.0

VIEWS = """
CREATE TABLE departures (
  carrier STRING NOT NULL, origin STRING NOT NULL, delay INT, at TIMESTAMP(3),
  WATERMARK FOR at AS at - INTERVAL '1' SECOND
) WITH ('connector' = 'filesystem', 'path' = '{folder}/departures', 'format' = 'json',
  'source.monitor-interval' = '500 ms');

CREATE MATERIALIZED VIEW carriers COMMENT 'departures and delays by carrier' AS
SELECT carrier, COUNT(*) AS departures, AVG(delay) AS mean_delay, MAX(delay) AS worst_delay, MAX(at) AS last_at
FROM departures GROUP BY carrier;
"""

PROJECT = {
    "sqlstream.toml": """\
catalog = "shop"
database = "sales"

[catalogs.shop]
type = "file"
path = "definitions"
""",
    "definitions/sales.sql": "CREATE DATABASE sales COMMENT 'what is sold';\n",
    "definitions/sales/departures.sql": """\
CREATE TABLE departures (
  carrier STRING NOT NULL COMMENT 'who', origin STRING NOT NULL, delay INT, at TIMESTAMP(3),
  WATERMARK FOR at AS at - INTERVAL '1' SECOND
) COMMENT 'as they come' WITH ('connector' = 'filesystem', 'path' = '${project}/departures', 'format' = 'json');
""",
    "definitions/sales/by_carrier.sql": """\
CREATE VIEW by_carrier AS
SELECT carrier, COUNT(*) AS departures, AVG(delay) AS mean_delay, MAX(at) AS last_at FROM departures GROUP BY carrier;
""",
}
"""Files of a folder that ``sqlstream:////folder`` opens. In SQLite Superset takes each name of a dataset only once, so
the view is not called as the materialized one."""


def write_project(folder: Path) -> None:
    for name, text in PROJECT.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


@contextmanager
def keeping(folder: Path) -> Iterator[Server]:
    """``sqlstream serve`` keeps the view meanwhile, which has its first rows by then."""
    job = Server(folder, VIEWS, cores=1)
    job.start()
    try:
        end = time.monotonic() + _START_S
        while not _has_rows(job.url()):
            if time.monotonic() > end:
                raise TimeoutError("the view has no rows")
            time.sleep(0.5)
        yield job
    finally:
        job.stop()


def _has_rows(url: str) -> bool:
    if not is_there(url, "carriers"):
        return False
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT 1 FROM carriers").fetchone() is not None


@contextmanager
def departing(folder: Path) -> Iterator[None]:
    """Rows come into the folder meanwhile, a file each half second."""
    process = subprocess.Popen([sys.executable, str(Path(departures.__file__)), str(folder / "departures")])
    try:
        yield
    finally:
        process.terminate()
        process.wait()
