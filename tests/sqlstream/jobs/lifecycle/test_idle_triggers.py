"""Triggers that find nothing to do, which Spark reports under the number of the micro-batch that is still to come."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import sqlstream
from sqlstream.jobs import Job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = """
CREATE TABLE items (n INT) WITH ('connector' = 'filesystem', 'path' = '{0}/items', 'format' = 'json',
                                 'source.monitor-interval' = '100 ms');
CREATE TABLE copies (n INT) WITH ('connector' = 'filesystem', 'path' = '{0}/copies', 'format' = 'json');
"""


@contextmanager
def running(spark: SparkSession, folder: Path) -> Iterator[Job]:
    """A job that has looked for rows at least once."""
    with sqlstream.connect(spark, **{"execution.checkpointing.dir": f"{folder}/checkpoints"}) as session:
        session.sql(TABLES.format(folder))
        job = session.sql("INSERT INTO copies SELECT n FROM items")
        assert isinstance(job, Job)
        eventually(lambda: job._query.present.lastProgress is not None)
        yield job
        job.stop()


def eventually(holds, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.spark
def test_the_rows_after_an_idle_trigger_are_counted(spark, tmp_path):
    """At the start, after a restart without new rows, and after a start that has never had any."""
    items = tmp_path / "items"
    items.mkdir()
    with running(spark, tmp_path) as job:
        assert (job.progress().batches, job.progress().last_batch) == (0, -1)
    with running(spark, tmp_path) as job:  # the record of the first start has no epoch that the checkpoint lacks
        (items / "1.json").write_text('{"n": 1}\n{"n": 2}\n')
        eventually(lambda: job.progress().rows_in == 2)
        assert job.progress().last_batch == 0
    with running(spark, tmp_path) as job:
        assert job.progress().batches == 0
        (items / "2.json").write_text('{"n": 3}\n')
        eventually(lambda: job.progress().rows_in == 1)
        assert [(line.epoch, line.rows) for line in job.checkpoints()] == [(1, 1), (0, 2)]
