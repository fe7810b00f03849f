"""What jobs of every kind count, compared with the truth: their input is known, and so is what they make of it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sqlstream.jobs import Job
from sqlstream.session import Session
from sqlstream.statements.jobs import properties
from sqlstream.testing.spark import LocalSession

pytestmark = pytest.mark.spark

ROWS = 601
LATE = 7
BAD = 3
TABLES = ("json_rows", "csv_rows", "parquet_rows", "late_rows", "bad_rows")
START = datetime(2024, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Kind:
    """``late``, ``bad`` and ``lookups``, the rows that were looked up, where there are some."""

    name: str
    sql: str
    rows_in: int
    rows_out: int
    by_table: Mapping[str, int] = field(default_factory=dict)
    late: int = 0
    bad: Mapping[str, int] = field(default_factory=dict)
    lookups: tuple[int, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)


def of_k(*wanted: int) -> int:
    """How many of the rows have one of these as k."""
    return sum(i % 5 in wanted for i in range(ROWS))


def windows(*wanted: int, below: int = ROWS) -> int:
    """How many windows of 60 s the rows with v below a number have, by k."""
    return len({(i % 5, i // 60) for i in range(below) if i % 5 in wanted})


ALL = (0, 1, 2, 3, 4)
COUNTS = "SELECT k, COUNT(*) FROM {table} {where} GROUP BY k, TUMBLE(ts, INTERVAL '60' SECOND)"
SET = "EXECUTE STATEMENT SET BEGIN {} END"
KINDS = [
    Kind("all rows", "INSERT INTO a SELECT k, v FROM json_rows", ROWS, ROWS),
    *(
        Kind(f"filter on {name}", f"INSERT INTO a SELECT k, v FROM {name} WHERE v < 300 AND k = 1", ROWS, 60)
        for name in TABLES[:3]
    ),
    Kind("nothing passes", "INSERT INTO a SELECT k, v FROM json_rows WHERE 1 = 2", ROWS, 0),
    Kind(
        "union of one table",
        "INSERT INTO a SELECT k, v FROM csv_rows WHERE k = 1 UNION ALL SELECT k, v FROM csv_rows WHERE k = 2",
        ROWS,
        of_k(1, 2),
    ),
    Kind(
        "several sources",
        "INSERT INTO a SELECT k, v FROM json_rows WHERE k = 1 UNION ALL SELECT k, v FROM csv_rows WHERE v < 9"
        " UNION ALL SELECT k, v FROM parquet_rows WHERE v < 10",
        3 * ROWS,
        of_k(1) + 9 + 10,
    ),
    Kind(
        "filters in a statement set",
        SET.format(
            "INSERT INTO a SELECT k, v FROM json_rows WHERE k = 1; INSERT INTO b SELECT k, v FROM json_rows"
            " WHERE v >= 300; INSERT INTO c SELECT k, v FROM json_rows WHERE 1 = 2;"
        ),
        ROWS,
        of_k(1) + 301,
        {"a": of_k(1), "b": 301, "c": 0},
    ),
    Kind(
        "a statement set of one table with other options",
        SET.format(
            "INSERT INTO a SELECT k, v FROM json_rows WHERE k = 1;"
            " INSERT INTO b SELECT k, v FROM json_rows /*+ OPTIONS('path' = '{folder}/late_rows') */;"
        ),
        2 * ROWS + LATE,
        of_k(1) + ROWS + LATE,
        {"a": of_k(1), "b": ROWS + LATE},
    ),
    Kind(
        "a statement set of several sources, windows and a union",
        SET.format(
            f"INSERT INTO a {COUNTS.format(table='parquet_rows', where='WHERE v < 300')};"
            " INSERT INTO b SELECT k, v FROM parquet_rows WHERE k = 2 UNION ALL SELECT k, v FROM parquet_rows"
            " WHERE k = 3; INSERT INTO c SELECT k, v FROM csv_rows WHERE k = 4;"
        ),
        2 * ROWS,
        windows(*ALL, below=300) + of_k(2, 3, 4),
        {"a": windows(*ALL, below=300), "b": of_k(2, 3), "c": of_k(4)},
    ),
    Kind(
        "windows",
        f"INSERT INTO a {COUNTS.format(table='json_rows', where='WHERE k < 2')}",
        ROWS,
        windows(0, 1),
    ),
    Kind(
        "windows on Spark's operators",
        f"INSERT INTO a {COUNTS.format(table='json_rows', where='WHERE k < 2')}",
        ROWS,
        windows(0, 1),
        settings={"sqlstream.engine": "native"},
    ),
    Kind(
        "windows over Parquet that the exchange reads",
        f"INSERT INTO a {COUNTS.format(table='parquet_rows', where='')}",
        ROWS,
        windows(*ALL),
        settings={"parallelism.default": "2"},
    ),
    Kind(
        "late rows of a statement set",
        SET.format(
            f"INSERT INTO a {COUNTS.format(table='late_rows', where='WHERE k = 1')};"
            f"INSERT INTO b {COUNTS.format(table='late_rows', where='')} LATE DATA TO c;"
        ),
        ROWS + LATE,
        windows(1) + windows(*ALL),
        {"a": windows(1), "b": windows(*ALL)},
        late=LATE + sum(i % 5 == 1 for i in range(LATE)),
    ),
    Kind(
        "dead letters",
        "INSERT INTO a SELECT k, v FROM bad_rows WHERE k = 1",
        ROWS + BAD,
        of_k(1),
        bad={"bad_rows": BAD},
    ),
    Kind(
        "dead letters of a statement set",
        SET.format("INSERT INTO a SELECT k, v FROM bad_rows WHERE k = 1; INSERT INTO b SELECT k, v FROM bad_rows;"),
        ROWS + BAD,
        of_k(1) + ROWS,
        {"a": of_k(1), "b": ROWS},
        bad={"bad_rows": BAD},
    ),
    Kind(
        "lookups",
        "INSERT INTO a SELECT j.k, n.id FROM json_rows AS j JOIN names FOR SYSTEM_TIME AS OF j.pt AS n ON j.k = n.id"
        " WHERE j.v < 300",
        ROWS,
        120,
        lookups=(300,),
    ),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same rows as JSON, CSV and Parquet; with late ones in a second file; with bad ones."""
    path = tmp_path_factory.mktemp("counters")
    rows = [{"k": i % 5, "v": i, "ts": START + timedelta(seconds=i)} for i in range(ROWS)]
    late = [{"k": i % 5, "v": i, "ts": START + timedelta(seconds=i)} for i in range(LATE)]
    _write(path / "json_rows" / "0", [_json(row) for row in rows])
    _write(path / "csv_rows" / "0", [f"{row['k']},{row['v']},{row['ts']:%F %T}" for row in rows])
    _write(path / "late_rows" / "0", [_json(row) for row in rows])
    _write(path / "late_rows" / "1", [_json(row) for row in late])
    _write(path / "bad_rows" / "0", [*(_json(row) for row in rows), *["no json"] * BAD])
    _write(path / "names" / "0", [json.dumps({"id": 1}), json.dumps({"id": 2})])
    (path / "parquet_rows").mkdir()
    pq.write_table(pa.Table.from_pylist(rows), path / "parquet_rows" / "0.parquet", row_group_size=100)
    return path


def _json(row: Mapping[str, object]) -> str:
    return json.dumps({**row, "ts": f"{row['ts']:%F %T}"})


def _write(file: Path, lines: list[str]) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text("".join(f"{line}\n" for line in lines))
    os.utime(file, (int(file.name),) * 2)


@pytest.fixture
def session(folder: Path, tmp_path: Path) -> Iterator[Session]:
    with LocalSession() as own_session:
        own_session.sql(f"""
            SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoints';
            SET 'execution.end-of-input' = 'final';
            SET 'table.dml-sync' = 'true'""")
        for name in TABLES:
            own_session.sql(_source(name, folder / name))
        own_session.sql(f"""
            CREATE TABLE names (id BIGINT)
                WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{folder}/names');
            CREATE TABLE dead (error STRING, record STRING, source STRING, place STRING, failed_at TIMESTAMP)
                WITH ('connector' = 'blackhole')""")
        for name in "abc":
            own_session.sql(f"CREATE TABLE {name} (k BIGINT, v BIGINT) WITH ('connector' = 'blackhole')")
        yield own_session


def _source(name: str, path: Path) -> str:
    options = {
        "connector": "filesystem",
        "path": str(path),
        "format": name.partition("_")[0] if name in TABLES[:3] else "json",
        "source.max-files-per-trigger": "1",
    } | ({"on-error": "dead-letter:dead"} if name == "bad_rows" else {})
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    columns = "k BIGINT, v BIGINT, ts TIMESTAMP(3), pt AS PROCTIME(), WATERMARK FOR ts AS ts"
    return f"CREATE TABLE {name} ({columns}) WITH ({listed})"


def run(session: Session, statement: str) -> Job:
    job = session.sql(statement)
    assert isinstance(job, Job)
    return job


REPEATED = (
    "all rows", "filter on csv_rows", "nothing passes", "union of one table", "filters in a statement set",
    "windows", "dead letters",
)  # fmt: skip
"""What others of the kinds have in them."""

assert {*REPEATED} <= {kind.name for kind in KINDS}


@pytest.mark.parametrize(
    "kind", [pytest.param(k, id=k.name, marks=[pytest.mark.long] * (k.name in REPEATED)) for k in KINDS]
)
def test_all_counters_are_exact(kind: Kind, session: Session, folder: Path) -> None:
    for key, value in kind.settings.items():
        session.sql(f"SET '{key}' = '{value}'")
    job = run(session, kind.sql.replace("{folder}", str(folder)))
    actual = job.progress()
    assert (actual.rows_in, actual.rows_out, dict(actual.rows_by_table)) == (kind.rows_in, kind.rows_out, kind.by_table)
    assert (actual.late_rows, dict(actual.bad_rows)) == (kind.late, kind.bad)
    assert tuple(totals.rows for totals in actual.lookups.values()) == kind.lookups
    assert actual.rows_per_second == kind.rows_in * 1000 / actual.busy_ms
    assert sum(line.rows or 0 for line in job.checkpoints()) == kind.rows_in
    told = dict(properties(job.record).fetchall())
    assert (told["rows in"], told["rows out"]) == (f"{kind.rows_in:,}", f"{kind.rows_out:,}")
    assert told["late rows"] == str(kind.late)
    for table, rows in kind.by_table.items():
        assert told[f"rows out to {table}"] == str(rows)


def test_a_later_start_counts_what_it_reads_itself(session: Session, tmp_path: Path) -> None:
    lines = [_json({"k": i, "v": i, "ts": START}) for i in range(10)]
    _write(tmp_path / "growing" / "0", lines)
    session.sql("SET 'pipeline.name' = 'growing'")
    session.sql(_source("growing_rows", tmp_path / "growing"))
    insert = "INSERT INTO a SELECT k, v FROM growing_rows WHERE v > 7"
    first = run(session, insert).progress()
    _write(tmp_path / "growing" / "1", lines[:9])
    with LocalSession() as later:
        later.workspace = session.workspace
        then = run(later, insert)
    assert (first.rows_in, first.rows_out) == (10, 2)
    assert (then.progress().rows_in, then.progress().rows_out) == (9, 1)
    assert sorted(line.rows or 0 for line in then.checkpoints()) == [9, 10]


def test_a_job_that_fails_and_starts_again_counts_each_row_once(session: Session, tmp_path: Path) -> None:
    failed = tmp_path / "failed"
    for number in range(3):
        _write(tmp_path / "in" / str(number), [_json({"k": number, "v": i, "ts": START}) for i in range(10)])

    def once(k: int) -> int:
        if k == 1 and not failed.exists():
            failed.touch()
            raise ValueError("not yet")
        return k

    session.register_function("once", once)
    session.sql("SET 'restart-strategy.type' = 'fixed-delay'; SET 'restart-strategy.fixed-delay.delay' = '1 ms'")
    session.sql(_source("in_rows", tmp_path / "in"))
    job = run(session, "INSERT INTO a SELECT once(k), v FROM in_rows WHERE v < 5")
    actual = job.progress()
    assert (actual.restarts, actual.rows_in, actual.rows_out, actual.batches) == (1, 30, 15, 3)
