"""Whatever the binder accepts, Spark accepts; counts of arguments are Spark's."""

from __future__ import annotations

import logging
import re

import pytest
from pyspark.errors import PySparkException

from sqlstream.functions.builtin import Origin
from sqlstream.functions.catalogue import FUNCTIONS
from tests.depth import depth
from tests.fuzz.against_spark import differences, query_differences, session_over_empty_files
from tests.fuzz.expressions import random_expressions, random_meetings
from tests.fuzz.queries import random_queries

_WRONG_COUNT = ("WRONG_NUM_ARGS", "REQUIRED_PARAMETER_NOT_FOUND")

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def quiet():
    """PySpark logs each refusal with its stack."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_expressions_of_every_form(spark):
    accepted, actual = differences(random_expressions(seed=14, functions=120), spark)
    assert actual == []
    assert accepted > 200


def test_values_that_must_have_one_type(spark):
    accepted, actual = differences(random_meetings(seed=33, number=depth(150, 3000)), spark, knows_types=True)
    assert actual == []
    assert accepted > 40


_OF_ROWS = re.compile(r"ROW\(|\.st\b|\(\w\.\w+, |\.arr\b|UNION|INTERSECT|EXCEPT")
"""Queries with rows and arrays whose types only coercion makes equal, for which the module itself is run."""


@pytest.mark.long
def test_queries_over_finished_data_in_every_mode(spark, tmp_path):
    texts = [text for text in random_queries(seed=33, number=depth(100, 1000)) if not _OF_ROWS.search(text)]
    with session_over_empty_files(tmp_path) as session:
        counts, actual = query_differences(texts, session)
    assert actual == []
    assert counts["batch"] > 5


@pytest.mark.long
def test_counts_of_arguments(spark):
    """Each function of Spark's with one argument more, and with one less, than it takes."""
    spelled_as_in_spark = (f for f in FUNCTIONS.values() if f.origin is Origin.SPARK and not f.spark)
    names = sorted(f.name for f in spelled_as_in_spark if f.arity is not None)
    rows = spark.createDataFrame([], "a INT")
    wrong = []
    for name in ("ceil", "floor", "mode", *names[::7]):
        for count in _edges(name):
            try:
                rows.selectExpr(f"`{name}`({', '.join(['NULL'] * count)})")
                refused = False
            except PySparkException as error:
                refused = (error.getCondition() or "").startswith(_WRONG_COUNT)
            if refused == FUNCTIONS[name].takes(count):
                wrong.append((name, count))
    assert wrong == []


def _edges(name: str) -> list[int]:
    """The counts on both sides of where what a function takes begins and ends."""
    taken = [FUNCTIONS[name].takes(count) for count in range(10)]
    changes = [count for count in range(9) if taken[count] != taken[count + 1]]
    return sorted({edge for count in changes for edge in (count, count + 1)})
