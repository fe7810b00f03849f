"""Which watermarks the blobs of an exchange tell Spark: the only one of a plan, where no row is lost on its way."""

from __future__ import annotations

import pytest

from sqlstream.planner.rules import optimize
from tests.planner.plans import physical, plan

TUMBLE = "TUMBLE(ts, INTERVAL '10' SECOND)"


def watermark_columns(text):
    watermarks = [port.watermark for operator in physical(optimize(plan(text))).operators for port in operator.ports]
    return [None if watermark is None else (watermark.source.table, watermark.time) for watermark in watermarks]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (f"SELECT item, COUNT(*) FROM bids GROUP BY item, {TUMBLE}", [("bids", "ts")]),
        ("SELECT item, COUNT(*) FROM bids GROUP BY item, SESSION(ts, INTERVAL '10' SECOND)", [("bids", "ts")]),
        (
            "SELECT item, COUNT(*) FROM (SELECT UPPER(item) AS item, ts AS at FROM bids) "
            "GROUP BY item, TUMBLE(at, INTERVAL '10' SECOND)",
            [("bids", "at")],
        ),
        # A row that a filter drops moves the watermark, too.
        (f"SELECT item, COUNT(*) FROM bids WHERE n > 1 GROUP BY item, {TUMBLE}", [None]),
        (
            "SELECT item, COUNT(*) FROM (SELECT item, ts FROM bids UNION ALL SELECT item, ts FROM bids) "
            f"GROUP BY item, {TUMBLE}",
            [None],
        ),
    ],
)
def test_the_watermark_that_blobs_tell(query, expected):
    assert watermark_columns(query) == expected
