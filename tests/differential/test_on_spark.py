"""Random queries in one job of Spark, restarted and spread anew; golden queries over finished data."""

from __future__ import annotations

import os
from collections.abc import Iterable

import pytest

from tests.depth import depth
from tests.differential import golden_in_auto
from tests.differential.golden_in_batch import Case, cases, difference
from tests.differential.on_spark import compared

pytestmark = pytest.mark.spark

ROUNDS = int(os.environ.get("SQLSTREAM_EXAMPLES", "1"))
QUERIES = depth(3, 5)
_SAMPLE = {"hop", "session", "late_data", "window_join"}
_SAMPLE_OF_AUTO = {"group_by", "pivot", "regular_join", "subqueries", "top_n"}
_ALL = "SQLSTREAM_ALL_GOLDEN" in os.environ


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_changes_amount_to_the_rows_of_spark_sql(spark, seed):
    assert list(compared(spark, seed, QUERIES)) == []


def _chosen(cases: Iterable[Case], sample: set[str]):
    """All, or the first query of some files."""
    seen = set()
    for case in cases:
        if _ALL or (case.path.stem in sample and case.path.stem not in seen):
            seen.add(case.path.stem)
            yield pytest.param(case, id=case.name)


@pytest.mark.parametrize("case", list(_chosen(cases(), _SAMPLE)))
def test_batches_are_streams_of_which_no_row_is_late(case):
    assert difference(case) is None


@pytest.mark.parametrize("case", list(_chosen(golden_in_auto.batches(), _SAMPLE_OF_AUTO)))
def test_queries_of_spark_sql_give_what_their_streams_amount_to(case):
    assert golden_in_auto.difference(case) is None
