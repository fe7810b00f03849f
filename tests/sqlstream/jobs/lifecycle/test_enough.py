"""Queries with LIMIT and no order end when they have their rows, though their input goes on."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from sqlstream.jobs import Job, JobState
from sqlstream.jobs.checkpoints.storage import LocalStorage
from sqlstream.jobs.lifecycle.launch import row_limit_of
from sqlstream.planner.operators.top_n import Limit, limit_of
from sqlstream.planner.rules import optimize
from sqlstream.query import Query
from sqlstream.testing.spark import LocalSession
from tests.depth import usually
from tests.planner.plans import plan

ENDLESS = """
CREATE TABLE numbers (n INT, at TIMESTAMP(3), WATERMARK FOR at AS at) WITH ('connector' = 'datagen',
    'rows-per-second' = '50', 'fields.n.min' = '2', 'fields.n.max' = '2')"""


@pytest.mark.spark
def test_a_query_ends_with_its_rows():
    with LocalSession() as session:
        session.sql(ENDLESS)
        query = session.sql("SELECT n FROM numbers WHERE n % 2 = 0 LIMIT 3 OFFSET 1")
        assert isinstance(query, Query)
        assert query.fetchall() == [(2,), (2,), (2,)]
        assert isinstance(query.job, Job) and query.job.wait(60)
        assert query.job.state is JobState.FINISHED
        for nothing in ("SELECT n FROM numbers LIMIT 0", "SELECT n, COUNT(*) AS c FROM numbers GROUP BY n LIMIT 0"):
            query = session.sql(nothing)
            assert isinstance(query, Query)
            assert query.fetchall() == []
            assert isinstance(query.job, Job) and query.job.wait(60)


@pytest.mark.spark
def test_a_job_ends_with_its_rows_and_has_no_more_when_it_is_started_again(tmp_path):
    sink = f"('connector' = 'filesystem', 'path' = '{tmp_path}/out', 'format' = 'json')"
    for rows in (3, 0):
        with LocalSession() as session:
            session.sql(f"{ENDLESS}; CREATE TABLE first (n INT) WITH {sink}")
            session.sql(f"SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoints'; SET 'pipeline.name' = 'firsts'")
            job = session.sql("INSERT INTO first SELECT n FROM numbers LIMIT 3")
            assert isinstance(job, Job)
            assert job.wait(60)
            assert (job.state, job.progress().rows_out) == (JobState.FINISHED, rows)


def without_last_commit(spark: Path) -> None:
    """Makes the last complete micro-batch of a checkpoint the one that was under way."""
    last = max(int(path.name) for path in (spark / "commits").iterdir() if path.name.isdigit())
    for log, first in (("commits", last), ("offsets", last + 1)):
        for number in range(first, last + 2):
            for name in (str(number), f".{number}.crc"):
                (spark / log / name).unlink(missing_ok=True)


@pytest.mark.spark
@pytest.mark.parametrize(
    "is_complete", usually([True, False], False), ids=["between micro-batches", "within one that the sink has"]
)
def test_a_job_that_is_stopped_midway_gives_the_rest_and_ends(is_complete: bool, tmp_path: Path):
    sink = f"('connector' = 'filesystem', 'path' = '{tmp_path}/out', 'format' = 'json')"
    written, given = list[int](), list[int]()
    for speed in (50, 500):
        with LocalSession() as session:
            session.sql(f"{ENDLESS.replace('50', str(speed))}; CREATE TABLE first (n INT) WITH {sink}")
            session.sql(f"SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoints'; SET 'pipeline.name' = 'firsts'")
            job = session.sql("INSERT INTO first SELECT n FROM numbers LIMIT 2000 OFFSET 20")
            assert isinstance(job, Job)
            if not written:
                end = time.monotonic() + 60
                while not job.progress().rows_out and time.monotonic() < end:
                    time.sleep(0.05)
                job.stop()
                if not is_complete:
                    without_last_commit(tmp_path / "checkpoints" / "firsts" / "spark")
            else:
                assert job.wait(120)
                assert job.state is JobState.FINISHED
            given.append(job.progress().rows_out)
            written.append(session.spark.read.json(f"{tmp_path}/out").count())  # without those of an interrupted one
    assert 0 < written[0] < 2000, "the first run is to be stopped midway"
    assert (written[1], written[0] + given[1]) == (2000, 2000)


@pytest.mark.parametrize(("kept", "left"), [(0, 5), (2, 5), (3, 4), (7, 0), (9, 0)])
def test_rows_that_earlier_runs_have_given_are_not_wanted_again(kept: int, left: int, tmp_path: Path):
    enough = row_limit_of(Limit(5, skipped=2), LocalStorage(tmp_path), lambda _: kept)
    assert enough is not None and enough.rows == left


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("SELECT n FROM numbers LIMIT 5", Limit(5, 0)),
        ("SELECT n + 1 AS m FROM numbers LIMIT 5 OFFSET 2", Limit(5, 2)),
        ("SELECT n FROM numbers ORDER BY n LIMIT 5", None),
        ("SELECT n FROM (SELECT n FROM numbers LIMIT 5) AS t WHERE n > 2", None),
        ("SELECT n, COUNT(*) AS c FROM numbers GROUP BY n LIMIT 5", None),
        ("SELECT n FROM numbers", None),
        ("SELECT n FROM numbers LIMIT 0", Limit(0, 0)),
        ("SELECT n, COUNT(*) AS c FROM numbers GROUP BY n ORDER BY c LIMIT 0 OFFSET 2", Limit(0, 0)),
    ],
)
def test_only_what_can_give_no_more_rows_ends(query, wanted):
    assert limit_of(optimize(plan(query, f"{ENDLESS};"))) == wanted


def test_what_is_left_after_a_repeated_micro_batch_is_what_the_state_says(tmp_path: Path):
    """The second micro-batch is repeated by a query of Spark that follows another one in the same run."""
    storage, kept = LocalStorage(tmp_path), {None: 0, 1: 60, 3: 90}
    started = row_limit_of(Limit(100, skipped=0), storage, lambda batch: kept[batch])
    assert started is not None and started.started().repeated is None
    assert started.started().counted(last=0, rows_out=40) == started
    for log, batches in (("offsets", (0, 1)), ("commits", (0,))):
        for batch in batches:
            storage.write(f"spark/{log}/{batch}", "v1")
    again = started.started()
    assert again.repeated == 1
    assert again.counted(last=0, rows_out=40) == again
    counted = again.counted(last=1, rows_out=40)
    assert (counted.rows, counted.repeated, counted.reached(79), counted.reached(80)) == (80, None, False, True)
    assert again.counted(last=3, rows_out=70).rows == 80
    assert counted.counted(last=3, rows_out=70) == counted
