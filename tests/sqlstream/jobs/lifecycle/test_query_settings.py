"""Settings of Spark that hold for one query: small batches of blobs, shuffled files that go, few epochs that stay."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sqlstream.jobs import Job
from sqlstream.jobs.lifecycle.query_settings import BLOBS_OF_A_BATCH, settings_of_query
from sqlstream.session import Session

ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
REMOVES = "spark.sql.classic.shuffleDependency.fileCleanup.enabled"
RETAINED = "spark.sql.streaming.minBatchesToRetain"


@pytest.mark.spark
@pytest.mark.parametrize(
    ("query", "named", "expected"),
    [
        ("SELECT k, COUNT(*) FROM events GROUP BY k", False, (str(BLOBS_OF_A_BATCH), "true", "10")),
        ("SELECT k, n FROM events", True, ("700", "true", "100")),
    ],
)
def test_a_query_has_its_own(spark: Any, tmp_path: Path, query: str, named: bool, expected: tuple[str, ...]) -> None:
    (tmp_path / "events.json").write_text('{"k":1,"n":2}\n', encoding="utf-8")
    with Session(spark) as session:
        session.sql(f"SET '{ROWS}' = '700'; SET 'execution.runtime-mode' = 'streaming'")
        if named:
            session.sql(f"SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoints'")
        session.sql(f"""CREATE TABLE events (k BIGINT, n BIGINT)
            WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{tmp_path}/events.json')""")
        job = session.sql(f"CREATE TABLE nowhere WITH ('connector' = 'blackhole') AS {query}")
        assert isinstance(job, Job)
        job.wait()
        conf = job._query.present._jsq.streamingQuery().sparkSessionForStream().conf()
        assert tuple(conf.get(key) for key in (ROWS, REMOVES, RETAINED)) == expected
        assert [spark.conf.get(key, None) for key in (ROWS, REMOVES, RETAINED)] == ["700", None, None]


@pytest.mark.long
@pytest.mark.spark
def test_files_of_a_shuffle_go_with_their_micro_batch(tmp_path: Path) -> None:
    """In a process of its own, whose Spark has a directory of its own."""
    for name in "ab":
        (tmp_path / f"{name}.json").write_text('{"k":1}\n{"k":2}\n', encoding="utf-8")
    script = """
import sys, sqlstream
from pathlib import Path
with sqlstream.connect() as session:
    session.sql("SET 'execution.runtime-mode' = 'streaming'")
    session.sql(sys.argv[1])
    session.sql("CREATE TABLE nowhere WITH ('connector' = 'blackhole') AS SELECT k, COUNT(*) FROM t GROUP BY k").wait()
    print("left", len([*Path(sys.argv[2]).rglob("shuffle_*.data")]))
"""
    table = f"""CREATE TABLE t (k BIGINT) WITH ('connector' = 'filesystem', 'format' = 'json',
        'path' = '{tmp_path}/*.json', 'source.max-files-per-trigger' = '1')"""
    local = tmp_path / "local"
    local.mkdir()
    environment = {**os.environ, "SPARK_LOCAL_DIRS": str(local), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", script, table, str(local)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert ran.stdout.splitlines()[-1:] == ["left 0"], ran.stderr


@pytest.mark.spark
@pytest.mark.parametrize(("usual", "bounded"), [("2000", "100"), ("20", "20"), ("0", "100")])
def test_a_smaller_number_is_kept_and_the_usual_one_comes_back(spark: Any, usual: str, bounded: str) -> None:
    before = spark.conf.get(ROWS)
    spark.conf.set(ROWS, usual)
    try:
        with settings_of_query(spark, has_blobs=True, temporary=False):
            assert spark.conf.get(ROWS) == bounded
        assert spark.conf.get(ROWS) == usual
    finally:
        spark.conf.set(ROWS, before)


@pytest.mark.spark
def test_what_the_user_has_set_holds(spark: Any) -> None:
    given = {REMOVES: "false", RETAINED: "17"}
    for key, value in given.items():
        spark.conf.set(key, value)
    try:
        with settings_of_query(spark, has_blobs=False, temporary=True):
            assert {key: spark.conf.get(key) for key in given} == given
        assert {key: spark.conf.get(key) for key in given} == given
    finally:
        for key in given:
            spark.conf.unset(key)
