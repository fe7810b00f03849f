"""Random queries in one job of Spark, restarted and spread anew; golden queries over finished data."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.depth import depth
from tests.differential.both_modes import ENDED, EQUAL, Question, answer, of_golden_files
from tests.differential.on_spark import compared

pytestmark = pytest.mark.spark

ROUNDS = int(os.environ.get("SQLSTREAM_EXAMPLES", "1"))
QUERIES = depth(1, 5)
_SAMPLE = {"group_by", "hop", "late_data", "pivot", "regular_join", "session", "subqueries", "top_n", "window_join"}
"""Files whose first query runs here; ``make both-modes`` runs all of all files."""


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_changes_amount_to_the_rows_of_spark_sql(spark, seed):
    assert list(compared(spark, seed, QUERIES)) == []


def _sample() -> Iterator[Question]:
    seen = set[str]()
    for question in of_golden_files():
        stem = question.name.partition(":")[0]
        if stem in _SAMPLE and stem not in seen:
            seen.add(stem)
            yield question


@pytest.mark.parametrize("question", [pytest.param(question, id=question.name) for question in _sample()])
def test_finished_data_gives_what_a_stream_amounts_to(question):
    found = answer(question, ending=True)
    assert found.kind in (EQUAL, ENDED), found
