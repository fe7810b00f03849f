"""What the queries of a statement set have in common, files that they read and operators, is read and runs once, and a
job goes on as it began.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import sqlstream
from sqlstream.jobs import Job, JobState
from tests.depth import usually
from tests.sqlstream.jobs.lifecycle.test_windows_computed_once import put

pytestmark = pytest.mark.spark
LONG = pytest.mark.long  # the others ask the same of the other plan, or the other way round

TABLES = """
    CREATE TABLE minutes (k STRING, n BIGINT) WITH ('connector' = 'filesystem', 'format' = 'json',
        'path' = '{0}/minutes');
    CREATE TABLE hours (k STRING, n BIGINT) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{0}/hours');
    CREATE TABLE chosen (k STRING, ts TIMESTAMP(3)) WITH ('connector' = 'filesystem', 'format' = 'json',
        'path' = '{0}/chosen');
    CREATE TABLE pairs (k STRING, a TIMESTAMP(3), b TIMESTAMP(3)) WITH ('connector' = 'filesystem',
        'format' = 'json', 'path' = '{0}/pairs');
    CREATE TABLE dead (record STRING, error STRING, source STRING) WITH ('connector' = 'filesystem',
        'format' = 'json', 'path' = '{0}/dead');"""
MINUTES = """INSERT INTO minutes SELECT k, COUNT(*) FROM TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' MINUTE)
        GROUP BY k, window_start, window_end;"""
VIEW = """CREATE VIEW counted AS SELECT k, COUNT(*) AS n, MAX(ts) AS newest
        FROM TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' MINUTE) GROUP BY k, window_start, window_end;"""
CHOSEN = "INSERT INTO chosen SELECT k, ts FROM events WHERE k = 'b';"
SET = f"""{MINUTES}
    INSERT INTO hours SELECT k, COUNT(*) FROM TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '2' MINUTE)
        WHERE k <> 'a' GROUP BY k, window_start, window_end;
    {CHOSEN}"""
OF_VIEW = """INSERT INTO minutes SELECT k, n FROM counted;
    INSERT INTO chosen SELECT UPPER(k), newest FROM counted WHERE n > 1;"""
ALONE = """INSERT INTO pairs SELECT l.k, l.ts, r.ts FROM events AS l JOIN events AS r ON l.k = r.k
        AND l.ts BETWEEN r.ts - INTERVAL '10' SECOND AND r.ts - INTERVAL '0.001' SECOND;"""
JOIN = f"{ALONE} {CHOSEN}"


@contextmanager
def started(
    spark: Any,
    folder: Path,
    inserts: str,
    reuse: str = "true",
    options: str = "",
    form: str = "json",
    operators: str = "true",
) -> Iterator[Job]:
    with sqlstream.connect(spark) as session:
        job = session.sql(f"""
        SET 'table.optimizer.reuse-sub-plan-enabled' = '{operators}';
        SET 'table.optimizer.reuse-source-enabled' = '{reuse}'; SET 'pipeline.name' = 'shared';
        SET 'execution.checkpointing.dir' = '{folder}/checkpoints';
        SET 'execution.end-of-input' = 'pause'; SET 'execution.runtime-mode' = 'streaming';
        CREATE TABLE events (k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem',
            'format' = '{form}', 'path' = '{folder}/in'{options});
        {TABLES.format(folder)}
        {VIEW}
        {inserts if inserts == ALONE else f"EXECUTE STATEMENT SET BEGIN {inserts} END"}""")
        assert isinstance(job, Job)
        yield job


def run(*args: Any, **options: Any) -> int:
    """Runs the job on what is there. Returns how often its last micro-batch takes the rows of another exchange."""
    with started(*args, **options) as job:
        return reused_exchanges(job)


def reused_exchanges(job: Job) -> int:
    query: Any = job._query.present
    job.wait()
    plan = query._jsq.streamingQuery().lastExecution().executedPlan().toString()
    return int(plan.count("ReusedExchange"))


def rows(folder: Path, table: str) -> list[str]:
    return sorted(line for path in (folder / table).rglob("part-*.json") for line in path.read_text().splitlines())


A, B = (f'"2024-01-01 00:00:0{second}.000000"' for second in (2, 3))
FIRST = '{"k":"a","a":"2024-01-01 00:00:00.000000","b":"2024-01-01 00:00:01.000000"}'
SECOND = f'{{"k":"b","a":{A},"b":{B}}}'
RESULTS = {
    SET: {
        "minutes": ['{"k":"a","n":2}', '{"k":"b","n":2}', '{"k":"c","n":1}', '{"k":"c","n":1}'],
        "hours": ['{"k":"b","n":2}', '{"k":"c","n":2}'],
        "chosen": [f'{{"k":"b","ts":{A}}}', f'{{"k":"b","ts":{B}}}'],
    },
    ALONE: {"pairs": [FIRST, SECOND]},
    JOIN: {
        "pairs": [FIRST, SECOND],
        "chosen": [f'{{"k":"b","ts":{A}}}', f'{{"k":"b","ts":{B}}}'],
    },
}


def in_three_parts(folder: Path, part: Callable[[int], int]) -> list[int]:
    """What ``part`` returns for each part of the rows, after each of which the job pauses."""
    parts = (
        [("a", "00:00:00"), ("a", "00:00:01"), ("b", "00:00:02")],
        [("b", "00:00:03"), ("c", "00:00:04"), ("c", "00:01:30")],
        [("c", "00:05:00")],
    )
    reused = []
    for number, events in enumerate(parts):
        put(folder, number, *events)
        reused.append(part(number))
    return reused


def say_in_layout(folder: Path, not_reused: str, **of_sets: bool) -> None:
    """Writes what earlier versions stored of the choice, in place of what this one does, in which ``not_reused`` is
    False.
    """
    (layout,) = folder.rglob("layout.json")
    stored = json.loads(layout.read_text())
    if not_reused:
        assert stored.pop("reuse")[not_reused] is False
    layout.write_text(json.dumps({**stored, **of_sets}))


def results(folder: Path, text: str) -> dict[str, list[str]]:
    return {table: rows(folder, table) for table in RESULTS[text]}


@pytest.mark.parametrize(
    ("text", "first", "then"),
    [
        pytest.param(SET, "true", "false", marks=LONG),
        pytest.param(SET, "false", "true", marks=LONG),
        pytest.param(JOIN, "true", "true", marks=LONG),
        pytest.param(JOIN, "false", "true", marks=LONG),
        (ALONE, "true", "false"),
        pytest.param(ALONE, "false", "true", marks=LONG),
    ],
)
def test_a_table_is_read_once_and_jobs_go_on_as_they_began(
    spark: Any, tmp_path: Path, text: str, first: str, then: str
) -> None:
    reused = in_three_parts(tmp_path, lambda part: run(spark, tmp_path, text, then if part else first))
    once = 1 if text == ALONE else 2
    assert reused == [once if first == "true" else 0] * 3
    assert results(tmp_path, text) == RESULTS[text]


@pytest.mark.parametrize(("first", "then"), [("true", "false"), pytest.param("false", "true", marks=LONG)])
def test_an_operator_runs_once_and_jobs_go_on_as_they_began(spark: Any, tmp_path: Path, first: str, then: str) -> None:
    """Windows that are open when the job pauses are closed by its next run, whatever its setting is."""

    def part(number: int) -> int:
        with started(spark, tmp_path, OF_VIEW, operators=then if number else first) as job:
            query: Any = job._query.present
            job.wait()
            return len(query.lastProgress["stateOperators"])

    assert in_three_parts(tmp_path, part) == [1 if first == "true" else 2] * 3
    assert rows(tmp_path, "minutes") == RESULTS[SET]["minutes"]
    assert rows(tmp_path, "chosen") == ['{"k":"A","ts":"2024-01-01 00:00:01.000000"}', f'{{"k":"B","ts":{B}}}']


@pytest.mark.long
def test_a_job_whose_checkpoint_does_not_say_that_operators_are_shared_goes_on_without_it(
    spark: Any, tmp_path: Path
) -> None:
    def part(number: int) -> int:
        with started(spark, tmp_path, OF_VIEW, operators="true" if number else "false") as job:
            job.wait()
        say_in_layout(tmp_path, "" if number else "operators", shares_reads=True)
        return 0

    in_three_parts(tmp_path, part)
    assert rows(tmp_path, "minutes") == RESULTS[SET]["minutes"]


@pytest.mark.long
@pytest.mark.parametrize("text", [pytest.param(SET, marks=LONG), ALONE])
def test_jobs_of_versions_that_did_not_share_go_on_without_it(spark: Any, tmp_path: Path, text: str) -> None:
    """The layout of such a version of a query alone says that statement sets do."""

    def part(number: int) -> int:
        reused = run(spark, tmp_path, text, "true" if number else "false")
        in_sets = {"shares_reads": True, "shares_operators": True} if text == ALONE else {}
        say_in_layout(tmp_path, "" if number else "reads", **in_sets)
        return reused

    assert in_three_parts(tmp_path, part) == [0, 0, 0]
    assert results(tmp_path, text) == RESULTS[text]


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "filtered", "by_spark", "meanwhile"),
    [
        # Below a window, whose watermark Spark then finds itself.
        pytest.param(SET, "k <> 'a'", "UPPER(k) <> 'A'", 0, marks=LONG),
        (SET, "k = 'b'", "UPPER(k) = 'B'", 2),
        pytest.param(JOIN, "k = 'b'", "UPPER(k) = 'B'", 2, marks=LONG),
    ],
)
def test_another_filter_may_leave_the_table_or_its_rows_to_spark_and_give_them_back(
    spark: Any, tmp_path: Path, text: str, filtered: str, by_spark: str, meanwhile: int
) -> None:
    other = text.replace(f"WHERE {filtered}", f"WHERE {by_spark}")
    assert other != text
    reused = in_three_parts(tmp_path, lambda part: run(spark, tmp_path, other if part == 1 else text))
    assert reused == [2, meanwhile, 2]
    assert results(tmp_path, text) == RESULTS[text]


@pytest.mark.long
@pytest.mark.parametrize("text", [SET, pytest.param(JOIN, marks=LONG)])
def test_bad_rows_may_be_tolerated_later(spark: Any, tmp_path: Path, text: str) -> None:
    options = ", 'on-error' = 'skip'"
    reused = in_three_parts(tmp_path, lambda part: run(spark, tmp_path, text, options=options if part == 1 else ""))
    assert reused == [2, 0, 2]
    assert results(tmp_path, text) == RESULTS[text]


@pytest.mark.parametrize("reuse", usually(["true", "false"], "true"))
def test_rows_and_dead_letters_are_counted_once(spark: Any, tmp_path: Path, reuse: str) -> None:
    put(tmp_path, 1, ("a", "00:00:00"), ("b", "00:00:02"))
    with started(spark, tmp_path, SET, reuse) as job:
        job.wait()
    assert (job.progress().rows_in, job.progress().bad_rows) == (2, {})
    (tmp_path / "in" / "2.json").write_text('{"k": "b", "ts": "2024-01-01 00:00:03"}\n{"k": "b", "ts": "now"}\n')
    with started(spark, tmp_path, SET, reuse, ", 'on-error' = 'dead-letter:dead'") as job:
        job.wait()
    assert (job.progress().rows_in, job.progress().bad_rows) == (2, {"events": 1})
    assert len(rows(tmp_path, "dead")) == 1


@pytest.mark.long
@pytest.mark.parametrize(
    ("form", "inserts"), [("csv", SET), pytest.param("parquet", SET.replace(CHOSEN, ""), marks=LONG)]
)
def test_files_in_pieces_are_read_once_in_each_micro_batch(spark: Any, tmp_path: Path, form: str, inserts: str) -> None:
    """Stopped between two of them, too."""
    count = 20_000
    seconds = spark.range(count).selectExpr("CONCAT('k', id % 7) AS k", "TIMESTAMP_SECONDS(1704067200 + id) AS ts")
    text = "CAST(ts AS STRING) AS ts" if form == "csv" else "ts"
    seconds.selectExpr("k", text).coalesce(1).write.format(form).save(f"{tmp_path}/in")
    (written,) = (tmp_path / "in").glob(f"*.{form}")
    options = f", 'source.max-bytes-per-trigger' = '{written.stat().st_size // 12 + 1} b'"
    inserts = inserts.replace("'b'", "'k1'").replace("'a'", "'k2'")
    with started(spark, tmp_path, inserts, options=options, form=form) as job:
        while job.progress().batches < 1 and job.state is JobState.RUNNING:
            time.sleep(0.01)
        job.stop()
    before = job.progress().rows_in
    with started(spark, tmp_path, inserts, options=options, form=form) as job:
        assert reused_exchanges(job) == (2 if form == "csv" else 1)
    assert before + job.progress().rows_in == count
    assert before < count
    assert len(rows(tmp_path, "chosen")) == (len(range(1, count, 7)) if form == "csv" else 0)
    counts: list[int] = [json.loads(row)["n"] for row in rows(tmp_path, "minutes")]
    assert sum(counts) == count - count % 60  # the last minute is not over
