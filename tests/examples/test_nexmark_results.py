"""What the queries of Nexmark end with, beside DuckDB over the same files."""

from __future__ import annotations

import pyarrow as pa
import pytest

import sqlstream
from examples.nexmark import files
from examples.nexmark.expected import MATCHING, compared_text, differing, in_duckdb
from examples.nexmark.generator import Generator
from examples.nexmark.queries import QUERIES
from examples.nexmark.run import checked, definitions

SHORT = ("q3", "q14")
"""In the gate: a join of changes, and a Python function."""
EVENTS, RATE = 6_000, 100
"""A minute of event time."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("nexmark") / "events"
    files.write(made, EVENTS, 2, "csv", Generator(rate=RATE))
    return made


@pytest.fixture(scope="module")
def session(folder):
    with sqlstream.connect() as made:
        for statement in definitions(folder, "csv", file_per_trigger=True):
            made.sql(statement)
        yield made


@pytest.mark.parametrize("file_format", files.FORMATS)
def test_duckdb_reads_each_format(tmp_path, folder, file_format):
    files.write(tmp_path / "events", EVENTS, 2, file_format, Generator(rate=RATE))
    for table in ("bid", "auction", "person"):
        expected = in_duckdb(f"SELECT * FROM {table}", folder, "csv")
        assert differing(expected, in_duckdb(f"SELECT * FROM {table}", tmp_path / "events", file_format)) == ""


@pytest.mark.parametrize("query", [query for query in QUERIES if query not in MATCHING])
def test_duckdb_understands_each_query_after_the_replacements(folder, query):
    assert len(in_duckdb(compared_text(query), folder, "csv"))


def test_windows_by_arithmetic(folder):
    text = "SELECT window_start, window_end, COUNT(*) AS n FROM {} GROUP BY window_start, window_end"
    window = "HOP(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, INTERVAL '10' SECOND)"
    hops = in_duckdb(text.format(window), folder, "csv").to_pylist()
    assert sum(row["n"] for row in hops) == EVENTS * 46 // 50 * 5
    assert {(row["window_end"] - row["window_start"]).total_seconds() for row in hops} == {10.0}
    window = "SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND)"
    sessions = in_duckdb(text.format(window), folder, "csv").to_pylist()
    assert sum(row["n"] for row in sessions) == EVENTS * 46 // 50
    assert min((row["window_end"] - row["window_start"]).total_seconds() for row in sessions) == 10.0


def test_differences_are_counted_with_duplicates():
    rows = pa.table({"a": [1, 1, 2], "b": ["x", "x", None]})
    assert differing(rows, rows.take(pa.array([2, 0, 1])).rename_columns(["c", "d"])) == ""
    assert differing(rows, rows.slice(1)) == "1 rows missing, 0 too many, such as (1, 'x')"
    assert differing(rows.slice(1), pa.concat_tables([rows, rows])).startswith("0 rows missing, 4 too many")


@pytest.mark.parametrize("query", SHORT)
def test_results(session, folder, query):
    rows, difference = checked(session, query, folder, "csv")
    assert difference == ""
    assert rows
