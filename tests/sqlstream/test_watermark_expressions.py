"""WATERMARK on any expression of a row: its greatest value so far is the watermark."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlstream.planner.catalog import Table, Watermark
from sqlstream.query import Query
from sqlstream.results import Rows
from sqlstream.session import Session
from sqlstream.testing.spark import LocalSession


@pytest.fixture
def streams(spark) -> Iterator[Session]:
    with LocalSession({"execution.runtime-mode": "streaming"}) as session:
        yield session


def table(folder: Path, columns: str, *files: list[dict[str, object]]) -> str:
    """A table of which each micro-batch reads one file."""
    folder.mkdir()
    for number, records in enumerate(files):
        file = folder / f"{number}.json"
        file.write_text("".join(f"{json.dumps(record)}\n" for record in records))
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))  # Spark takes the oldest first
    return (
        f"CREATE TABLE t ({columns}) WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'json', "
        "'source.max-files-per-trigger' = '1')"
    )


def rows(session: Session, text: str) -> list[tuple[object, ...]]:
    result = session.sql(text)
    assert isinstance(result, Query)
    return sorted(result.fetchall())


WINDOWS = (
    "SELECT CAST(window_start AS STRING), COUNT(*) FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND) "
    "GROUP BY window_start, window_end"
)


def second(number: int, **more: object) -> dict[str, object]:
    return {"ts": f"2024-01-01 00:00:{number:02}", **more}


@pytest.mark.spark
def test_each_row_moves_the_watermark_by_what_the_expression_gives_for_it(streams: Session, tmp_path: Path) -> None:
    columns = (
        "ts TIMESTAMP(3), slow INT, "
        "WATERMARK FOR ts AS CASE WHEN slow = 1 THEN ts - INTERVAL '1' MINUTE WHEN slow = 0 THEN ts END"
    )
    files = [
        [second(1, slow=0), second(25, slow=1), second(59)],
        [second(5, slow=0)],
        [second(30, slow=0)],
        [second(7, slow=0)],
    ]
    streams.sql(table(tmp_path / "files", columns, *files))
    day = "2024-01-01 00:00"
    assert rows(streams, WINDOWS) == [(f"{day}:00", 2), (f"{day}:20", 1), (f"{day}:30", 1), (f"{day}:50", 1)]
    assert len(rows(streams, "SELECT * FROM t AS a JOIN t AS b ON a.ts = b.ts")) == 6


@pytest.mark.spark
def test_a_watermark_may_follow_another_column_and_computed_ones(streams: Session, tmp_path: Path) -> None:
    columns = "ts TIMESTAMP(3), told STRING, at AS TO_TIMESTAMP(told), WATERMARK FOR ts AS at - INTERVAL '5' SECOND"
    files = [
        [second(1, told="2024-01-01 00:00:01"), second(40, told="2024-01-01 00:00:02")],
        [second(3, told="2024-01-01 00:00:15")],
        [second(8, told="2024-01-01 00:00:16")],
    ]
    streams.sql(table(tmp_path / "files", columns, *files))
    assert rows(streams, WINDOWS) == [("2024-01-01 00:00:00", 2), ("2024-01-01 00:00:40", 1)]
    shown = rows_of(streams, "SHOW CREATE TABLE t")[0][0]
    assert "WATERMARK FOR" in str(shown)
    streams.sql(f"DROP TABLE t; {shown}")
    assert rows(streams, WINDOWS) == [("2024-01-01 00:00:00", 2), ("2024-01-01 00:00:40", 1)]
    assert "TO_TIMESTAMP" not in str(rows_of(streams, "DESCRIBE t")[0][5])


def rows_of(session: Session, text: str) -> list[tuple[object, ...]]:
    result = session.sql(text)
    assert isinstance(result, Rows)
    return result.fetchall()


@pytest.mark.parametrize(
    ("strategy", "code"),
    [
        ("IF(RAND() > 0.5, ts, ts)", "SS214"),
        ("a", "SS206"),
        ("nope - INTERVAL '1' SECOND", "SS201"),
        ("MAX(ts)", "SS209"),
    ],
)
def test_what_is_no_time_of_the_row_is_refused(strategy: str, code: str) -> None:
    text = f"CREATE TABLE t (ts TIMESTAMP(3), a INT, WATERMARK FOR ts AS {strategy}) WITH ('connector' = 'datagen')"
    with Session() as session:
        wrong = session.check(text)
    assert [d.code for d in wrong] == [code]


@pytest.mark.parametrize(
    ("columns", "options", "delay_ms"),
    [
        ("ts TIMESTAMP(3)", "'connector' = 'datagen'", 0),
        ("ts TIMESTAMP(3)", "'connector' = 'datagen', 'fields.ts.max-past' = '7 s'", 7_000),
        ("ts TIMESTAMP(3), a INT", "'connector' = 'test'", 0),
        ("`timestamp` TIMESTAMP", "'connector' = 'rate'", 0),
    ],
)
def test_a_source_says_how_far_its_times_are_out_of_order(columns: str, options: str, delay_ms: int) -> None:
    column = columns.split()[0]
    definition = f"CREATE TABLE t ({columns}, WATERMARK FOR {column} AS (SOURCE_WATERMARK())) WITH ({options})"
    with Session() as session:
        session.sql(definition)
        table = session.workspace.catalog.relation("t")
        assert isinstance(table, Table) and table.watermark == Watermark(column.strip("`"), delay_ms)
        assert "SOURCE_WATERMARK()" in rows_of(session, "SHOW CREATE TABLE t")[0][0]  # type: ignore[operator]


@pytest.mark.parametrize(
    ("columns", "connector", "code", "message"),
    [
        ("ts TIMESTAMP(3)", "memory", "SS214", 'connector "memory" has no watermark for "ts"'),
        ("ts TIMESTAMP(3)", "blackhole", "SS214", 'connector "blackhole" has no watermark for "ts"'),
        ("a INT, ts AS TO_TIMESTAMP_LTZ(a, 3)", "datagen", "SS214", 'connector "datagen" has no watermark for "ts"'),
        ("ts INT", "datagen", "SS214", 'column "ts" of WATERMARK is of type INT, not TIMESTAMP'),
        ("tz TIMESTAMP(3)", "datagen", "SS201", 'column "ts" of WATERMARK does not exist'),
        ("ts TIMESTAMP(3)", "nothing", "SS501", 'connector "nothing" does not exist'),
    ],
)
def test_who_has_no_watermark_says_what_to_write(columns: str, connector: str, code: str, message: str) -> None:
    definition = (
        f"CREATE TABLE t ({columns}, WATERMARK FOR ts AS SOURCE_WATERMARK()) WITH ('connector' = '{connector}')"
    )
    with Session() as session:
        (wrong,) = session.check(definition)
    assert wrong.code == code and message in wrong.message
    if "no watermark" in message:
        hint = "Write WATERMARK FOR ts AS ts - INTERVAL '5' SECOND. Connectors that have one: datagen, rate, test."
        assert wrong.hint == hint and wrong.span is not None and definition[wrong.span.start :].startswith("SOURCE_")
