"""How many rows Arrow's batches between Spark and Python have: few where a row is a blob of many rows."""

from __future__ import annotations

from typing import Any

import pytest

from sqlstream.jobs import Job
from sqlstream.jobs.lifecycle.launch import BLOBS_OF_A_BATCH, batches_of_blobs
from sqlstream.session import Session

ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"


@pytest.mark.spark
@pytest.mark.parametrize(
    ("query", "most"),
    [("SELECT k, COUNT(*) FROM events GROUP BY k", str(BLOBS_OF_A_BATCH)), ("SELECT k, n FROM events", "700")],
)
def test_a_job_with_kernels_has_batches_of_few_rows(spark: Any, tmp_path: Any, query: str, most: str) -> None:
    (tmp_path / "events.json").write_text('{"k":1,"n":2}\n', encoding="utf-8")
    with Session(spark) as session:
        session.sql(f"SET '{ROWS}' = '700'; SET 'execution.runtime-mode' = 'streaming'")
        session.sql(f"""CREATE TABLE events (k BIGINT, n BIGINT)
            WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{tmp_path}/events.json')""")
        job = session.sql(f"CREATE TABLE nowhere WITH ('connector' = 'blackhole') AS {query}")
        assert isinstance(job, Job)
        job.wait()
        of_query = job._query.present._jsq.streamingQuery().sparkSessionForStream()
        assert (of_query.conf().get(ROWS), spark.conf.get(ROWS)) == (most, "700")


@pytest.mark.spark
@pytest.mark.parametrize(("usual", "bounded"), [("2000", "100"), ("20", "20"), ("0", "100")])
def test_a_smaller_number_is_kept_and_the_usual_one_comes_back(spark: Any, usual: str, bounded: str) -> None:
    before = spark.conf.get(ROWS)
    spark.conf.set(ROWS, usual)
    try:
        with batches_of_blobs(spark):
            assert spark.conf.get(ROWS) == bounded
        assert spark.conf.get(ROWS) == usual
    finally:
        spark.conf.set(ROWS, before)
