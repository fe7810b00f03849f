"""Top-N of windows, against a model that has all rows of a window when it closes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.udfs.harness import KernelHarness
from sqlstream.udfs.kernel import EMITTED_AHEAD, END_OF_TIME, KEY_HASH, LATE_ROWS, Pending
from sqlstream.udfs.over.functions import Number
from sqlstream.udfs.top_n.kernel import WindowTopNKernel
from sqlstream.udfs.top_n.order import Order, Ranking
from tests.udfs.top_n.model import TopNTable

SCHEMA = pa.schema([
    (KEY_HASH, pa.int64()), ("closes", pa.int64()), ("k", pa.string()), ("v", pa.float64()), ("id", pa.int64()),
])  # fmt: skip
BY_VALUE = (Order("v", descending=True),)
Row = tuple[int, str, float | None, int]


def harness(last: int = 1, *, order: tuple[Order, ...] = BY_VALUE, newest: bool = False, **options: Any):
    function = options.pop("function", Number.ROW_NUMBER)
    ranking = Ranking(("closes", "k"), order, function, 1, last, newest_first=newest)
    kernel = WindowTopNKernel(SCHEMA, ranking, ("closes", "k", "v", "id"), "closes", "rn")
    return KernelHarness(kernel, SCHEMA, ["closes", "k"], **options)


def rows(*given: Row) -> list[dict[str, Any]]:
    return [{KEY_HASH: None, "closes": closes, "k": k, "v": v, "id": i} for closes, k, v, i in given]


def came(kernel: KernelHarness) -> list[tuple[Any, ...]]:
    return [(row["closes"], row["k"], row["v"], row["id"], row["rn"]) for row in kernel.output()]


def test_the_best_rows_come_out_when_the_window_closes():
    kernel = harness(2)
    kernel.rows(rows((20, "a", 9.0, 0), (10, "a", 1.0, 1), (10, "a", 2.0, 2)))
    kernel.rows(rows((10, "a", 1.5, 3), (10, "b", 0.0, 4)))
    kernel.watermark(9)
    assert came(kernel) == []
    assert [(wait.what, wait.count) for wait in kernel.waits()] == [(Pending.ROWS_IN_WINDOWS, 5)]
    kernel.watermark(10)
    assert came(kernel) == [(10, "a", 2.0, 2, 1), (10, "a", 1.5, 3, 2), (10, "b", 0.0, 4, 1)]
    kernel.rows(rows((10, "a", 9.0, 5)))
    assert kernel.counters[LATE_ROWS] == 1
    kernel.finish()
    assert came(kernel) == [(20, "a", 9.0, 0, 1)]
    assert all(not store.entries for store in kernel.stores)


def test_rows_sent_ahead_of_the_watermark_that_closes_their_window_are_on_time():
    kernel = harness()
    ahead = pa.Table.from_pylist(rows((10, "a", 1.0, 1)), SCHEMA).set_column(0, KEY_HASH, pa.array([3]))
    kernel.batch(ahead.append_column(EMITTED_AHEAD, pa.array([True])), watermark=15)
    assert came(kernel) == [(10, "a", 1.0, 1, 1)]


def test_of_equal_rows_the_last_one_goes_first_where_it_is_asked_for():
    kernel = harness(newest=True)
    kernel.rows(rows((10, "a", 1.0, 1), (10, "a", 1.0, 2)))
    kernel.rows(rows((10, "a", 1.0, 3)))
    kernel.watermark(10)
    assert came(kernel) == [(10, "a", 1.0, 3, 1)]


def test_late_rows_that_could_not_be_in_the_result_count_too():
    kernel = harness(groups=3)
    kernel.rows(rows((10, "a", 1.0, 1)))
    kernel.watermark(10)
    kernel.rows(rows(*((10, key, value, 2) for key in "abc" for value in (1.0, 3.0, 2.0)), (20, "a", 5.0, 3)))
    assert kernel.counters[LATE_ROWS] == 9


ROWS = st.lists(
    st.tuples(
        st.integers(1, 4).map(lambda window: 10 * window),
        st.sampled_from("ab"),
        st.one_of(st.none(), st.sampled_from([0.0, 1.0, 2.5])),
        st.integers(0, 3),
    ),
    max_size=10,
)


@pytest.mark.parametrize("function", Number)
@settings(max_examples=40)
@given(
    steps=st.lists(st.tuples(ROWS, st.integers(0, 15)), max_size=5), last=st.integers(1, 3), groups=st.integers(1, 3),
    cut=st.integers(1, 15), restarts=st.booleans(),
)  # fmt: skip
def test_any_rows_in_any_pieces(function, steps, last, groups, cut, restarts) -> None:
    kernel = harness(last, function=function, groups=groups, arrow_rows=cut, restarts=restarts)
    model, watermark, late, actual = TopNTable(BY_VALUE, function, 1, last), -1, 0, []
    for batch, passed in steps:
        kernel.rows(rows(*batch))
        for closes, k, v, i in batch:
            if closes > watermark:
                model.add((closes, k), {"closes": closes, "k": k, "v": v, "id": i})
            else:
                late += 1
        watermark += passed
        kernel.watermark(watermark)
        new = came(kernel)
        assert all(closes <= watermark for closes, *_ in new)
        actual += new
    kernel.watermark(END_OF_TIME)
    actual += came(kernel)
    assert kernel.counters[LATE_ROWS] == late
    wanted = model.best(with_number=True)
    assert sorted((*map(repr, row[:4]), row[4]) for row in actual) == sorted(wanted.elements())
