"""A job goes on with the plan of its checkpoint, whether equal windows are computed once in it or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sqlstream
from sqlstream.jobs import Job

pytestmark = pytest.mark.spark

COUNTS = """(SELECT k, COUNT(*) AS n, window_start AS s, window_end AS e
    FROM TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' MINUTE) GROUP BY k, window_start, window_end)"""


def run(spark: Any, folder: Path, reuse: str | None) -> list[tuple[str, int]]:
    """Runs the job, and gives the rows of its table."""
    with sqlstream.connect(spark) as session:
        if reuse is not None:
            session.sql(f"SET 'table.optimizer.reuse-sub-plan-enabled' = '{reuse}'")
        job = session.sql(f"""
        SET 'execution.checkpointing.dir' = '{folder}/checkpoints'; SET 'execution.end-of-input' = 'pause';
        SET 'execution.runtime-mode' = 'streaming';
        CREATE TABLE events (k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem',
            'format' = 'json', 'path' = '{folder}/in');
        CREATE TABLE most (k STRING, n BIGINT) WITH ('connector' = 'filesystem', 'format' = 'parquet',
            'path' = '{folder}/out');
        INSERT INTO most SELECT c.k, c.n FROM {COUNTS} AS c JOIN (SELECT MAX(n) AS m, s, e FROM {COUNTS} GROUP BY s, e)
            AS b ON c.s = b.s AND c.e = b.e AND c.n >= b.m""")
        assert isinstance(job, Job)
        job.wait()
        session.sql("SET 'execution.runtime-mode' = 'batch'")
        rows: Any = session.sql("SELECT k, n FROM most")
        return sorted(map(tuple, rows.fetchall()))


def put(folder: Path, number: int, *events: tuple[str, str]) -> None:
    (folder / "in").mkdir(exist_ok=True, parents=True)
    lines = (f'{{"k": "{key}", "ts": "2024-01-01 {time}"}}\n' for key, time in events)
    (folder / "in" / f"{number}.json").write_text("".join(lines))


def operators(folder: Path) -> int:
    """Operators with state, each of which has a folder in the checkpoint."""
    (state,) = (folder / "checkpoints").rglob("state")
    return sum(1 for each in state.iterdir() if each.name.isdigit())


@pytest.mark.long
@pytest.mark.parametrize(
    ("first", "then", "count"), [pytest.param("false", None, 4, marks=pytest.mark.long), (None, "false", 2)]
)
def test_a_job_goes_on_as_it_began(spark: Any, tmp_path: Path, first: str | None, then: str | None, count: int) -> None:
    put(tmp_path, 1, ("a", "00:00:00"), ("a", "00:00:01"), ("b", "00:00:02"))
    assert run(spark, tmp_path, first) == []
    put(tmp_path, 2, ("b", "00:00:03"), ("c", "00:00:04"), ("c", "00:01:30"))
    run(spark, tmp_path, then)
    put(tmp_path, 3, ("c", "00:05:00"))
    assert run(spark, tmp_path, then) == [("a", 2), ("b", 2), ("c", 1)]
    assert operators(tmp_path) == count
