"""What ``check --from flink`` says of statements that are taken and do something else."""

from __future__ import annotations

import pytest

from sqlstream.statements.checking import changes_from_flink


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("SET 'state.backend' = 'rocksdb'", ['setting "state.backend" changes nothing here']),
        ("SET 'parallelism.default' = '4'", []),
        ("SELECT /*+ BROADCAST(t) */ a FROM t", ["the hint BROADCAST changes nothing on a stream"]),
        (
            "CREATE TABLE t (a TIMESTAMP(3), b TIMESTAMP_LTZ(3), c TIMESTAMP) WITH ('connector' = 'datagen')",
            ['a TIMESTAMP is an instant, read and shown in the zone of the session: "a", "c"'],
        ),
        (
            "CREATE TABLE t (a BIGINT METADATA, b BIGINT METADATA VIRTUAL) WITH ('connector' = 'kafka')",
            ['METADATA column "a" is read and never written'],
        ),
        (
            "CREATE TABLE t (pt AS PROCTIME()) WITH ('connector' = 'datagen')",
            ["windows on processing time that are open when bounded input ends fire"],
        ),
        ("EXPLAIN ESTIMATED_COST SELECT 1", ["costs are not estimated"]),
        ("INSERT INTO t SELECT CAST(s AS TIMESTAMP(3)) FROM u", ["a TIMESTAMP is an instant"]),
    ],
)
def test_a_difference_is_told_with_its_place(text: str, messages: list[str]) -> None:
    changes = changes_from_flink(text)
    assert [change.message for change in changes] == messages
    assert all(change.warning and change.span is not None and change.source == text for change in changes)
