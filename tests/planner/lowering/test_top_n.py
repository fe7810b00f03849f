"""Top-N and deduplication on Spark: orders and keys of types that need care, the number, the time of windows."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.operators.deduplicate import Deduplicate
from sqlstream.planner.operators.over import Sorted
from sqlstream.planner.operators.top_n import TopN
from tests.streams import in_order, scan, table, timed

PRICES = table("prices", delay_ms=0, place="DOUBLE", price="DECIMAL(10, 2)", tags="MAP<STRING, INT>", ts="TIMESTAMP")


def at(second: int) -> datetime:
    return datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)


ROWS = [
    (0.0, Decimal("1.50"), {"a": 1, "b": 2}, at(3)),
    (-0.0, Decimal("-2.00"), {"b": 2, "a": 1}, at(1)),
    (0.0, None, {"a": 1, "b": 2}, at(2)),
    (float("nan"), Decimal("7.00"), None, at(4)),
]


@pytest.mark.spark
def test_the_best_rows_of_keys_that_are_equal_and_look_different(streams):
    streams.engine = "columnar"
    streams.write(PRICES, ROWS)
    order = (Sorted("price", descending=True, nulls_first=False),)
    for keys in (("place",), ("tags",)):
        ranked = streams.run(TopN(scan(PRICES), keys, order, "rank", 2, 3, "rn"))
        assert [(row[1], row[-2], row[-1]) for row in ranked] == in_order(
            [(Decimal("-2.00"), 2, "+I"), (None, 3, "+I")]
        )


@pytest.mark.spark
def test_the_first_row_by_time_and_as_rows_come(streams):
    streams.engine = "columnar"
    streams.write(PRICES, ROWS)
    rows = timed(PRICES)
    first = streams.run(Deduplicate(rows, ("place",), "ts", TimeDomain.EVENT, last=False))
    assert sorted((row[1] for row in first), key=str) == [Decimal("-2.00"), Decimal("7.00")]
    arrived = streams.run(Deduplicate(rows, ("place",), "ts", TimeDomain.PROCESSING, last=False))
    assert sorted((row[1] for row in arrived), key=str) == [Decimal("1.50"), Decimal("7.00")]
