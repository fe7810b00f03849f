"""Random queries in one job of Spark, restarted and spread anew; golden queries over finished data."""

from __future__ import annotations

import os

import pytest

from tests.depth import usually
from tests.differential.both_modes import ENDED, EQUAL, GOLDEN, answer, of_golden_file
from tests.differential.on_spark import compared

pytestmark = pytest.mark.spark

ROUNDS = int(os.environ.get("SQLSTREAM_EXAMPLES", "1"))
QUERIES = 5
_USUAL = ("group_by", "hop", "late_data", "pivot", "regular_join", "session", "top_n")
_SAMPLE = (*_USUAL, "subqueries", "window_join")
"""Files whose first query runs here; ``make both-modes`` runs all of all files."""


@pytest.mark.long  # tests/fuzz/test_results.py asks random queries of one job of Spark, too
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_changes_amount_to_the_rows_of_spark_sql(spark, seed):
    assert list(compared(spark, seed, QUERIES)) == []


@pytest.mark.parametrize("file", usually(_SAMPLE, *_USUAL))
def test_finished_data_gives_what_a_stream_amounts_to(file):
    question = next(of_golden_file(GOLDEN / f"{file}.golden"))
    found = answer(question, ending=True)
    assert found.kind in (EQUAL, ENDED), found
