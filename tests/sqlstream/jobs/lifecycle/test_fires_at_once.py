"""With low latency windows fire in the micro-batch whose rows close them, with the rows that others have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import sqlstream
from sqlstream.jobs import Job
from tests.depth import usually
from tests.sqlstream.jobs.lifecycle.test_windows_computed_once import put

pytestmark = pytest.mark.spark

TUMBLE = """SELECT k, COUNT(*) AS n FROM TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' MINUTE)
    GROUP BY k, window_start, window_end"""
TENS = """(SELECT k, COUNT(*) AS n, window_time AS at FROM TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND)
    GROUP BY k, window_start, window_end, window_time)"""
IN_ONE_CALL = f"SELECT k, SUM(n) AS n FROM {TENS} GROUP BY k, TUMBLE(at, INTERVAL '1' MINUTE)"
SESSIONS = """SELECT k, COUNT(*) AS n FROM SESSION(TABLE events PARTITION BY k, DESCRIPTOR(ts), INTERVAL '10' SECOND)
    GROUP BY k, window_start, window_end"""
SHARED = f"{TUMBLE} HAVING COUNT(*) > 99 UNION ALL {TUMBLE}"


class Running:
    """A job that goes on with its checkpoint in each run."""

    def __init__(self, spark: Any, folder: Path, query: str) -> None:
        self._spark, self._folder, self._query = spark, folder, query
        self.shuffles = 0

    def run(self, latency: str) -> int:
        """Takes the files that have come, in one task. Returns the number of results of the micro-batch that reads
        them; ``shuffles`` are those of the last one.
        """
        with sqlstream.connect(self._spark) as session:
            job = session.sql(f"""
            SET 'execution.checkpointing.dir' = '{self._folder}/checkpoints'; SET 'pipeline.name' = 'windows';
            SET 'execution.end-of-input' = 'pause'; SET 'execution.runtime-mode' = 'streaming';
            SET 'execution.latency' = '{latency}'; SET 'parallelism.default' = '1';
            CREATE TABLE events (k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
                WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{self._folder}/in');
            CREATE TABLE counts (k STRING, n BIGINT) WITH ('connector' = 'filesystem', 'format' = 'json',
                'path' = '{self._folder}/out');
            INSERT INTO counts {self._query}""")
            assert isinstance(job, Job)
            query: Any = job._query.present
            job.wait()
            plan = query._jsq.streamingQuery().lastExecution().executedPlan().toString()
        self.shuffles = plan.count("Exchange hashpartitioning")
        reports = [json.loads(report.json) for report in query.recentProgress]
        (first,) = (report for report in reports if report["numInputRows"])
        return int(first["observedMetrics"]["sqlstream"]["rows_out"])

    def counts(self) -> list[tuple[str, int]]:
        with sqlstream.connect(self._spark) as session:
            rows = session.spark.read.schema("k STRING, n BIGINT").json(f"{self._folder}/out").collect()
        return sorted(map(tuple, rows))


@pytest.mark.parametrize(
    "query",
    usually([TUMBLE, IN_ONE_CALL, SESSIONS, SHARED], TUMBLE),
    ids=["TUMBLE", "chained", "SESSION", "shared"],
)
def test_windows_fire_with_the_rows_that_close_them(spark: Any, tmp_path: Path, query: str) -> None:
    job = Running(spark, tmp_path, query)
    put(tmp_path, 1, ("a", "00:00:00"), ("b", "00:00:30"), ("a", "00:01:05"))
    assert job.run("low") == 2
    assert job.shuffles == 0
    put(tmp_path, 2, ("a", "00:00:50"), ("a", "00:01:06"))  # the first is late: its window has fired
    assert job.run("normal") == 0
    assert job.shuffles == 1
    put(tmp_path, 3, ("c", "00:02:05"))
    assert job.run("low") == 1
    assert job.counts() == [("a", 1), ("a", 2), ("b", 1)]
    put(tmp_path, 4, ("c", "00:03:05"))
    assert job.run("normal") == 0
    assert len(job.counts()) == 4


def test_the_plan_says_whether_windows_fire_at_once() -> None:
    told = "tells the watermark at once"
    with sqlstream.connect() as session:
        session.sql("""CREATE TABLE events (k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH
            ('connector' = 'datagen')""")
        plans = {}
        for latency in ("normal", "low"):
            session.sql(f"SET 'execution.latency' = '{latency}'")
            of_two = f"{TUMBLE} UNION ALL {TUMBLE.replace('MINUTE', 'HOUR')}"
            texts = (_text(session.sql(f"EXPLAIN PHYSICAL {query}")) for query in (TUMBLE, SHARED, of_two))
            plans[latency] = [told in text for text in texts]
    assert plans == {"normal": [False, False, False], "low": [True, True, False]}


def _text(result: Any) -> str:
    return "\n".join(str(row) for row in result.fetchall())
