"""The end of a bounded input is read with the last of its rows, where the number of micro-batches is known before."""

from __future__ import annotations

import json
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from sqlstream.errors import SqlStreamError
from sqlstream.jobs import Job
from sqlstream.jobs.checkpoints.control import ControlRows
from sqlstream.jobs.checkpoints.planned_end import PlannedEnd
from sqlstream.jobs.checkpoints.storage import LocalStorage
from sqlstream.session import Session
from tests.depth import usually

MINUTES = 40


def put(folder: Path, name: str, first: int) -> None:
    folder.mkdir(exist_ok=True)
    lines = [json.dumps({"n": n, "ts": f"2024-01-01 00:{n:02}:30"}) for n in range(first, first + MINUTES // 2)]
    (folder / name).write_text("\n".join([*lines, ""]), encoding="utf-8")
    os.utime(folder / name, (first + 1, first + 1))


def started(session: Session, folder: Path, options: str = "") -> Job:
    session.sql(f"SET 'execution.checkpointing.dir' = '{folder}/checkpoint'; SET 'pipeline.name' = 'minutes'")
    session.sql("SET 'execution.end-of-input' = 'final'")
    session.sql(f"""
        CREATE TABLE events (n BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
            WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{folder}/in'{options});
        CREATE TABLE counts (minute TIMESTAMP(3), n BIGINT)
            WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{folder}/out')""")
    job = session.sql("""
        INSERT INTO counts SELECT window_start, COUNT(*) FROM TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' MINUTE)
        GROUP BY window_start, window_end""")
    assert isinstance(job, Job)
    return job


def counted(folder: Path) -> list[str]:
    rows = (json.loads(line) for file in (folder / "out").glob("*.json") for line in file.read_text().splitlines())
    minutes = [row["minute"][14:16] for row in rows if row["n"] == 1]
    return sorted(minutes)


def minutes(count: int) -> list[str]:
    return [f"{minute:02}" for minute in range(count)]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("options", "least"),
    usually([("", 2), (", 'source.max-bytes-per-trigger' = '300 b'", 6)], ("", 2)),
    ids=["at once", "in parts"],
)
def test_windows_fire_in_the_micro_batch_after_the_last_rows(
    spark: Any, tmp_path: Path, options: str, least: int
) -> None:
    put(tmp_path / "in", "a.json", 0)
    put(tmp_path / "in", "b.json", MINUTES // 2)
    with Session(spark) as session:
        job = started(session, tmp_path, options)
        job.wait(300)
        batches = job.progress().batches
        planned = int((tmp_path / "checkpoint/minutes/control-end/planned-end").read_text())
        assert batches == planned + 1 >= least
    assert counted(tmp_path) == minutes(MINUTES)
    put(tmp_path / "in", "c.json", 0)
    with Session(spark) as session, pytest.raises(SqlStreamError, match="SS422"):
        started(session, tmp_path, options).wait(300)
    assert counted(tmp_path) == minutes(MINUTES)


@pytest.mark.spark
@pytest.mark.parametrize("killed_after", usually([1, None], None))
def test_a_job_that_is_killed_reads_what_has_come_unless_it_had_begun_to_read_the_last_rows(
    spark: Any, tmp_path: Path, killed_after: int | None
) -> None:
    options = ", 'source.max-bytes-per-trigger' = '300 b'"
    put(tmp_path / "in", "a.json", 0)
    with Session(spark) as session:
        started(session, tmp_path, options).wait(300)
    root = tmp_path / "checkpoint/minutes"
    planned = int((root / "control-end/planned-end").read_text())
    (root / "control-end/end-of-input.json").unlink()
    _forget(root / "spark", planned - 1 if killed_after is None else killed_after)
    _forget_output(tmp_path / "out", planned - 1 if killed_after is None else killed_after)
    if killed_after is not None:
        put(tmp_path / "in", "b.json", MINUTES // 2)
    with Session(spark) as session:
        started(session, tmp_path, options).wait(300)
    assert counted(tmp_path) == minutes(MINUTES // 2 if killed_after is None else MINUTES)


def _forget(spark: Path, batch: int) -> None:
    """Leaves what a kill within a micro-batch leaves: its offsets, and not that it is complete."""
    for log, first in (("offsets", batch + 1), ("commits", batch), ("sources/*", batch + 1)):
        for file in spark.glob(f"{log}/[0-9]*"):
            if int(file.name) >= first:
                file.unlink()
                file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def _forget_output(folder: Path, batch: int) -> None:
    for file in (folder / "_spark_metadata").glob("[0-9]*"):
        if int(file.name.partition(".")[0]) >= batch:
            for line in file.read_text().splitlines()[1:]:
                Path(json.loads(line)["path"].removeprefix("file://")).unlink(missing_ok=True)
            file.unlink()


def test_each_micro_batch_has_a_file_of_each_table_of_which_the_last_ends_it(tmp_path: Path) -> None:
    control = ControlRows(LocalStorage(tmp_path), one_by_one=True)
    end = PlannedEnd(control, ["a", "b/c"])
    end.plan(3)
    for folder in (tmp_path / "control").iterdir():
        files = sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime)
        assert [file.stat().st_size > 0 for file in files] == [False, False, True]
        assert files[-1].name == "planned-end.json"
        gaps = {round(b.stat().st_mtime - a.stat().st_mtime) for a, b in pairwise(files)}
        assert gaps == {1}
    assert (end.planned, control.has_ended("a")) == (3, False)
    control.reach_end()
    assert control.has_ended("a") and control.has_ended("b/c")


def test_an_end_that_nobody_reads_is_withdrawn(tmp_path: Path) -> None:
    end = PlannedEnd(ControlRows(LocalStorage(tmp_path), one_by_one=True), ["a"])
    end.plan(2)
    end.withdraw()
    assert end.planned is None and not (tmp_path / "control/a/planned-end.json").exists()
