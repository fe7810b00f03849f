"""Exchanges that read files filter rows as Spark does: the watermark sees all rows, jobs go on with either reader."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import sqlstream
from sqlstream.errors import SqlStreamError
from sqlstream.jobs import Job
from sqlstream.query import Query

pytestmark = pytest.mark.spark

FILES: list[list[tuple[int | None, int | None, int | None, str]]] = [
    [(2, 4, 10, "00:00:01"), (2, 3, 11, "00:00:02"), (1, 4, 12, "00:00:03"), (2, 4, 13, "00:00:04")],
    [(1, None, None, "00:00:30"), (None, 4, 1, "00:00:12")],  # only this row of another type closes the window
    [(2, 4, 99, "00:00:05"), (2, 8, 15, "00:00:31"), (2, None, 16, "00:00:32")],  # the first one is late
]
SCRIPT = """
SET 'execution.checkpointing.dir' = '{path}/checkpoints';
SET 'execution.end-of-input' = 'final';
SET 'sqlstream.file-reader' = '{reader}';
CREATE TABLE events (kind INT, auction BIGINT, price BIGINT, at TIMESTAMP(3),
    WATERMARK FOR at AS at - INTERVAL '4' SECOND)
    WITH ('connector' = 'filesystem', 'path' = '{path}/in', 'format' = 'json',
    'source.max-files-per-trigger' = '1' {more});
CREATE VIEW bid AS SELECT auction AS a, price AS p, at AS t FROM events WHERE kind = 2;
CREATE TABLE totals (auction BIGINT, n BIGINT, top BIGINT)
    WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{path}/out');
"""
QUERY = """SELECT a, COUNT(*) AS n, MAX(p) AS top FROM bid WHERE MOD(a, 2) = 0 OR a IS NULL
    GROUP BY a, TUMBLE(t, INTERVAL '10' SECOND)"""
RESULT = [(4, 2, 13), (8, 1, 15), (None, 1, 16)]
COMPUTED = """SELECT a, COUNT(*) FILTER (WHERE p > 11) AS n, MAX(CASE WHEN p < 16 THEN p END) AS top FROM bid
    WHERE MOD(a, 2) = 0 OR a IS NULL GROUP BY a, TUMBLE(t, INTERVAL '10' SECOND)"""
RESULT_OF_COMPUTED = [(4, 1, 13), (8, 1, 15), (None, 1, None)]


def write(folder: Path, number: int) -> None:
    folder.mkdir(exist_ok=True)
    names = ("kind", "auction", "price", "at")
    rows = [
        dict(zip(names, (kind, auction, price, f"2024-01-31 {time}"), strict=True))
        for kind, auction, price, time in FILES[number]
    ]
    path = folder / f"{number}.json"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


_READERS = [
    (QUERY, "auto", "auto"),
    (COMPUTED, "spark", "auto"),
    *(pytest.param(QUERY, *pair, marks=pytest.mark.long) for pair in (("spark", "auto"), ("auto", "spark"))),
    pytest.param(COMPUTED, "auto", "spark", marks=pytest.mark.long),
]


@pytest.mark.parametrize(("query", "first", "then"), _READERS)
def test_rows_that_a_filter_drops_move_the_watermark(
    query: str, first: str, then: str, spark: Any, tmp_path: Path
) -> None:
    """Stopped before the late row arrives, and gone on from, by another reader too."""
    counts: list[tuple[int, int]] = []
    for reader, numbers in ((first, (0, 1)), (then, (2,))):
        for number in numbers:
            write(tmp_path / "in", number)
        live = reader is first and len(numbers) == 2
        more = ", 'source.monitor-interval' = '100 ms'" if live else ""
        with sqlstream.connect(spark) as session:
            session.sql(SCRIPT.format(path=tmp_path, reader=reader, more=more))
            physical = str(session.sql(f"EXPLAIN PHYSICAL {query}"))
            assert ("the exchange above reads and filters" in physical) == (reader == "auto")
            job = session.sql(f"INSERT INTO totals {query}")
            assert isinstance(job, Job)
            if live:
                job.checkpoint()
                job.stop()
            job.wait()
            progress = job.progress()
            counts.append((progress.rows_in, progress.late_rows))
    found = [json.loads(line) for path in (tmp_path / "out").glob("*.json") for line in path.read_text().splitlines()]
    rows = {(row.get("auction"), row["n"], row.get("top")) for row in found}
    assert sorted(rows, key=repr) == sorted(RESULT if query is QUERY else RESULT_OF_COMPUTED, key=repr)
    assert sum(rows for rows, _ in counts) == 9, "of all rows, also of those that filters drop"
    assert counts[-1][1] == 1


@pytest.mark.parametrize("own", [False, True])
def test_a_row_that_a_filter_drops_is_checked_as_others_are(own: bool, spark: Any, tmp_path: Path) -> None:
    """``own``: the watermark is that of the query, not that of the table."""
    write(tmp_path / "in", 0)
    (tmp_path / "in" / "bad.json").write_text('{"kind": 1, "auction": 2}\n')
    for reader in ("auto", "spark"):
        with sqlstream.connect(spark) as session:
            script = SCRIPT.format(path=tmp_path, reader=reader, more="")
            if own:
                script = script.replace(",\n    WATERMARK FOR at AS at - INTERVAL '4' SECOND", "")
                script = script.replace("FROM events", "FROM events WATERMARK at DELAY OF INTERVAL '4' SECOND")
            session.sql(script)
            assert ("reads and filters" in str(session.sql(f"EXPLAIN PHYSICAL {QUERY}"))) == (reader == "auto")
            query = session.sql(QUERY)
            assert isinstance(query, Query)
            with pytest.raises(SqlStreamError, match='SS401: event time "at" of table "events" is NULL') as raised:
                query.fetchall()
            assert f'file "{tmp_path}/in/bad.json"' in str(raised.value)


def test_an_exchange_computes_what_aggregates_read(spark: Any, tmp_path: Path) -> None:
    """Conditions of FILTER, keys and arguments, with the values that Spark computes."""
    for number in range(3):
        write(tmp_path / "in", number)
    query = """SELECT DATE_FORMAT(t, 'HH:mm') AS minute, a, COUNT(*) FILTER (WHERE p >= 10 AND p < 99) AS n,
        MAX(DATE_FORMAT(t, 'ss')) FILTER (WHERE a IS NOT NULL) AS last, SUM(p) AS s
        FROM bid GROUP BY DATE_FORMAT(t, 'HH:mm'), a"""
    found = []
    for reader in ("auto", "spark"):
        with sqlstream.connect(spark) as session:
            session.sql(SCRIPT.format(path=tmp_path, reader=reader, more=""))
            session.sql("SET 'execution.runtime-mode' = 'streaming'")
            assert (
                "reads and filters and computes their columns" in str(session.sql(f"EXPLAIN PHYSICAL {query}"))
            ) == (reader == "auto")
            result = session.sql(query)
            assert isinstance(result, Query)
            rows: dict[Any, Any] = {}
            for _, *row in result.fetchall():
                rows[tuple(row[:2])] = tuple(row[2:])
            found.append(rows)
    assert found[0] == found[1]
    assert found[0][("00:00", 4)] == (2, "05", 122)
