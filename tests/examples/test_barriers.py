"""``examples/barriers``: sales between two closings of all shops, whichever shop is ahead."""

from __future__ import annotations

from pathlib import Path

import pytest

import sqlstream
from sqlstream.query import Query

_FOLDER = Path("examples/barriers")

# By day: the shops' sales between its closing and the one before, the day of which is the third value.
_EXPECTED = {
    ("north", 1, 10, None), ("south", 2, 25, None), ("west", 2, 42, None),
    ("north", 2, 300, "2026-03-01"), ("south", 1, 300, "2026-03-01"), ("west", 1, 400, "2026-03-01"),
    ("south", 1, 7, "2026-03-02"), ("north", 1, 8, "2026-03-02"),
}  # fmt: skip


@pytest.mark.spark
def test_sales_are_cut_at_the_end_of_each_day(spark):
    text = (_FOLDER / "end_of_day.sql").read_text(encoding="utf-8").replace("${data}", str(_FOLDER / "sales.csv"))
    with sqlstream.connect(spark) as session:
        query = session.sql(text)
        assert isinstance(query, Query)
        rows = query.to_pandas().itertuples(index=False)
    collected = {(r.shop, r.sales, r.amount, None if r.since is None else str(r.since)) for r in rows}
    assert collected == _EXPECTED
