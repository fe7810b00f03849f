"""Random window queries over random streams, run as SQL: both engines put out what a plain model does.

``make differential`` runs many more examples than the test does.
"""

from __future__ import annotations

import os
import re

import pytest
from hypothesis import HealthCheck, given, settings

import sqlstream
from sqlstream.testing import StreamTest
from sqlstream.testing.values import to_ms
from tests.model.operator import Result
from tests.model.queries import TABLE, Query, Step, per_window, play, streams, windows_of_time

pytestmark = pytest.mark.spark

_EXAMPLES = int(os.environ.get("SQLSTREAM_EXAMPLES", "6"))


def run(session: sqlstream.Session, query: Query, steps: list[Step]) -> tuple[list[list[Result]], int]:
    """What comes out after each step, and the rows that were late for all their windows."""
    outputs = []
    with StreamTest(TABLE + query.sql, session) as test:
        for kind, argument in steps:
            match kind:
                case "rows":
                    test.rows("events", argument)
                case "watermark":
                    test.watermark("events", argument)
                case "processing_time":
                    test.processing_time(argument)
                case "restart":
                    test.restart(argument)
            outputs.append([_result(values) for _, *values in test.output()])
        return outputs, test.late_dropped()


def _result(values: list[object]) -> Result:
    key, start, end, *rest = values
    return (key, to_ms(start), to_ms(end), *rest)  # type: ignore[arg-type]


def is_legal(query: Query) -> bool:
    """LATE needs rows that are late and allowed."""
    clauses = " ".join(query.clauses)
    return "LATE DATA ALLOW" in clauses or not re.search(r"\bLATE (EVERY|WHEN)", clauses)


@settings(max_examples=_EXAMPLES, derandomize=_EXAMPLES < 10, suppress_health_check=list(HealthCheck))
@given(windows_of_time().filter(is_legal), streams())
def test_engines_equal_the_model(spark, query, steps):
    expected, late = play(query, steps)
    with sqlstream.connect(spark) as session:
        session.sql("SET 'pipeline.max-parallelism' = '3'")
        session.sql("SET 'sqlstream.engine' = 'columnar'")
        actual, counted = run(session, query, steps)
        assert per_window(actual) == per_window(expected), query.sql
        assert counted == late, query.sql
        if not query.clauses and "GLOBAL" not in query.grouping:
            session.sql("SET 'sqlstream.engine' = 'native'")
            actual, _ = run(session, query, steps)
            assert in_any_order(actual) == in_any_order(expected), query.sql


def in_any_order(outputs: list[list[Result]]) -> list[Result]:
    """Of the whole stream: Spark's own operators let a row that is late by one batch into the window that closes."""
    return sorted((result for step in outputs for result in step), key=repr)
