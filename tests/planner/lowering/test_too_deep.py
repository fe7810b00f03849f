"""Expressions that go deeper than the stack of Spark's threads."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pyspark.errors import PySparkException

from sqlstream.catalog import Catalog
from sqlstream.errors import SqlStreamError
from sqlstream.grammar import parse_query
from sqlstream.jobs.lifecycle.failure import job_error
from sqlstream.planner.binder import bind_query
from sqlstream.planner.lowering.context import Context, too_deep_for_spark
from sqlstream.planner.lowering.lower import lower_step
from tests.planner.plans import created, physical


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return created()


def test_an_exhausted_stack_of_a_job_is_told_as_such():
    error = PySparkException("[STREAM_FAILED] Query terminated with exception:")
    error._stackTrace = "java.lang.StackOverflowError\n\tat org.apache.spark.sql.catalyst"  # type: ignore[attr-defined]
    failure = job_error(error, None, "file:/checkpoint")
    assert (failure.code, failure.diagnostic.message) == ("SS284", "the query is nested too deeply for Spark")
    assert "-Xss" in (failure.diagnostic.hint or "")


def test_so_is_an_exhausted_parser_of_spark():
    assert too_deep_for_spark("[FAILED_TO_PARSE_TOO_COMPLEX] The statement was too complex to parse.") is not None
    assert too_deep_for_spark("[UNRESOLVED_COLUMN] no such column") is None


def test_deep_calls_are_printed_for_spark(catalog):
    plan = bind_query(parse_query(f"SELECT {'ABS(' * 400}v{')' * 400} AS v FROM plain"), catalog)
    (item,) = plan.input.items  # type: ignore[attr-defined]
    runtime = SimpleNamespace(function=lambda name: None)  # no call is that of a user's function
    context = Context(runtime=runtime, plan=physical(plan), lower_step=lower_step)
    assert context.sql(item.expression).count("ABS(") == 400


def test_it_is_an_error_of_the_query():
    with pytest.raises(SqlStreamError) as raised:
        raise SqlStreamError.of([too_deep_for_spark("java.lang.StackOverflowError")])  # type: ignore[list-item]
    assert raised.value.code == "SS284"
