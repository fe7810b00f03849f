"""Steps as bounded jobs of Spark, beside the same steps in a streaming query."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from sqlstream.testing import StreamTest
from sqlstream.testing.golden import run_block
from sqlstream.testing.golden_format import parse_golden
from sqlstream.testing.quick_job import QuickJob
from sqlstream.testing.spark import LocalSession
from sqlstream.testing.stepped_job import SteppedJob
from sqlstream.udfs.spark.steps import GroupStates, NewestTime, RowsOfStep, StepFolder

EVENTS = "CREATE TABLE events (k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'test');"
COUNTS = EVENTS + "SELECT k, COUNT(*) AS n, window_end FROM events GROUP BY k, TUMBLE(ts, INTERVAL '10' SECOND)"
LOOKUP = """CREATE TABLE c (id INT, name STRING) WITH ('connector' = 'test', 'role' = 'lookup');
CREATE TABLE o (id INT, pt AS PROCTIME()) WITH ('connector' = 'test');
SELECT o.id, c.name FROM o JOIN c FOR SYSTEM_TIME AS OF o.pt AS c ON c.id = o.id"""

FILE = """\
statement
CREATE TABLE events (k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
WITH ('connector' = 'test')

stream
SELECT window_end, SUM(n) AS n
FROM (
  SELECT k, window_end, COUNT(*) AS n
  FROM TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND) GROUP BY k, window_start, window_end
)
GROUP BY window_end
----
> events  a  1  00:00:01  |  b  1  00:00:02
> events  a  1  00:00:12
+I 00:00:10  2
> events  a  1  00:00:03
> finish
+I 00:00:20  1

stream
SELECT k, SUM(v) AS total FROM events GROUP BY k
----
> events  a  1  00:00:01
+I a  1
> events  a  2  00:00:01
-U a  1
+U a  3
"""
"""A cascade whose watermark rows move, with a late row, and an operator without time."""


def test_plans_with_lookups_stay_streaming_queries():
    with LocalSession() as session:
        assert isinstance(StreamTest(COUNTS, session, streaming=False)._job, QuickJob)
        assert type(StreamTest(COUNTS, session)._job) is SteppedJob
        assert type(StreamTest(LOOKUP, session, streaming=False)._job) is SteppedJob


@pytest.mark.spark
def test_both_ways_give_the_same_and_a_test_more_is_no_new_plan():
    blocks = parse_golden(FILE)
    for index in (1, 2, 1):
        for streaming in (False, True)[: 1 + (index == 1)]:
            outcome = run_block(blocks, index, sessions=LocalSession, streaming=streaming)
            assert outcome.matches, (streaming, outcome.lines)


@pytest.mark.spark
def test_late_rows_are_counted_and_two_tests_of_one_plan_keep_apart():
    with (
        LocalSession() as session,
        StreamTest(COUNTS, session, streaming=False) as test,
        StreamTest(COUNTS, session, streaming=False) as other,
    ):
        test.rows("events", [("a", 1, "00:00:01")])
        other.rows("events", [("b", 1, "00:00:01"), ("b", 1, "00:00:02")])
        test.watermark("events", "00:00:10")
        assert [row[1:3] for row in test.output()] == [("a", 1)]
        test.restart()
        test.rows("events", [("a", 1, "00:00:01")])
        assert test.late_dropped() == 1
        other.finish()
        assert [row[1:3] for row in other.output()] == [("b", 2)]
        assert other.late_dropped() == 0


def test_a_step_that_is_computed_again_begins_with_the_state_before_it(tmp_path):
    steps = StepFolder(str(tmp_path))
    steps.begin(7, 1000)
    assert steps.current == (7, 1000)
    steps.keep(1, 6, GroupStates({0: {("a", 1): b"x"}}, {0: {5, 3}}))
    assert steps.state(1, 6).next_timer == 3
    assert steps.state(1, 7).next_timer is None


def test_rows_of_other_steps_do_not_come_again(tmp_path):
    import pyarrow.parquet as pq

    steps = StepFolder(str(tmp_path))
    table = pa.table({"a": [1, 2]})
    pq.write_table(table, Path(tmp_path, f"{3:09d}.parquet"))
    rows = RowsOfStep(steps, str(tmp_path), table.schema)
    one = table.slice(0, 1).to_batches()
    came = []
    for number in (2, 3, 4):
        steps.begin(number, 0)
        came.append(sum(batch.num_rows for batch in rows.rows(iter(one))))
    assert came == [0, 2, 0]


def test_the_newest_time_is_told_and_null_tells_nothing(tmp_path):
    steps = StepFolder(str(tmp_path))
    instant = pa.timestamp("us", "UTC")
    for number, values in enumerate([[5_000, None, 9_999], [None]]):
        steps.begin(number, 0)
        batches = pa.table({"at": pa.array(values, pa.int64()).cast(instant)}).to_batches()
        assert len(list(NewestTime(steps, 0, "at").rows(iter(batches)))) == 1
    assert (steps.reported(0, 0), steps.reported(0, 1)) == (9, None)
