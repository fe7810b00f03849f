"""Rows with times of microseconds move the watermark of a job: none in order is late, after restarts too."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import sqlstream
from sqlstream.jobs import Job, JobState
from tests.depth import usually

pytestmark = pytest.mark.spark

TIMES = ("00:00:09.9992", "00:00:09.9997", "00:00:10.0001", "00:00:19.999", "00:00:19.9995", "00:00:20.0002")
WINDOWS = [("00:00:10", 2), ("00:00:20", 3), ("00:00:30", 1)]


def put(folder: Path, numbers: Sequence[int]) -> None:
    (folder / "in").mkdir(parents=True, exist_ok=True)
    for number in numbers:
        row = {"k": 1, "ts": f"2024-01-01 {TIMES[number]}"}
        (folder / "in" / f"{number}.json").write_text(json.dumps(row) + "\n")


def run(spark: Any, folder: Path, end: str, engine: str) -> int:
    """The number of late rows."""
    tables = "".join(
        f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'filesystem', 'format' = 'json', "
        f"'path' = '{folder}/{name}');"
        for name, columns in (("windows", "window_end TIMESTAMP, n BIGINT"), ("counted", "ts TIMESTAMP, n BIGINT"))
    )
    over = "INSERT INTO counted SELECT ts, COUNT(*) OVER (PARTITION BY k ORDER BY ts) FROM t;"
    script = f"""
    SET 'execution.checkpointing.dir' = '{folder}/checkpoints'; SET 'execution.end-of-input' = '{end}';
    SET 'sqlstream.engine' = '{engine}'; SET 'execution.runtime-mode' = 'streaming';
    CREATE TABLE t (k INT, ts TIMESTAMP(6), WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem',
        'format' = 'json', 'path' = '{folder}/in', 'source.max-files-per-trigger' = '1');
    {tables}
    EXECUTE STATEMENT SET BEGIN
    INSERT INTO windows SELECT window_end, COUNT(*) FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)
        GROUP BY window_start, window_end;
    {over if engine == "columnar" else ""}
    END"""
    with sqlstream.connect(spark) as session:
        job = session.sql(script)
        assert isinstance(job, Job)
        job.wait()
        assert job.state is JobState.FINISHED
        return job.progress().late_rows or 0


def written(folder: Path, name: str) -> list[tuple[str, int]]:
    rows = [json.loads(line) for path in (folder / name).rglob("*.json") for line in path.read_text().splitlines()]
    return sorted((str(row.get("window_end", row.get("ts")))[11:].removesuffix("Z")[:8], row["n"]) for row in rows)


@pytest.mark.long
@pytest.mark.parametrize("engine", usually(["columnar", "native"], "columnar"))
def test_rows_in_order_are_in_their_windows(spark: Any, tmp_path: Path, engine: str) -> None:
    late = 0
    for end, numbers in (("pause", [0]), ("pause", [1, 2]), ("final", [3, 4, 5])):
        put(tmp_path, numbers)
        late += run(spark, tmp_path, end, engine)
        if numbers == [0]:
            assert written(tmp_path, "windows") == [], "a row of the window may still come"
    assert (written(tmp_path, "windows"), late) == (WINDOWS, 0)
    if engine == "columnar":
        assert [n for _, n in written(tmp_path, "counted")] == [1, 2, 3, 4, 5, 6]
