"""Top-N by any order, against a model that sorts all rows of a key after each micro-batch."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.udfs.harness import KernelHarness
from sqlstream.udfs.kernel import END_OF_TIME, IGNORED, KEY_HASH, ROW_KIND
from sqlstream.udfs.over.functions import Number
from sqlstream.udfs.top_n.kernel import TopNKernel
from sqlstream.udfs.top_n.order import Order, Ranking
from tests.udfs.top_n.model import TopNTable

PLAIN = pa.schema([(KEY_HASH, pa.int64()), ("k", pa.string()), ("v", pa.float64()), ("id", pa.int64())])
UPDATING = PLAIN.append(pa.field(ROW_KIND, pa.string()))
BY_VALUE = (Order("v", descending=True, nulls_first=False),)

Change = tuple[str, str | None, float | None, int]
"""Kind, key, value, number of the row."""


def harness(
    first: int = 1,
    last: int = 2,
    *,
    function: Number = Number.ROW_NUMBER,
    order: tuple[Order, ...] = BY_VALUE,
    number: str | None = None,
    ttl: int = 0,
    retracts: bool = False,
    newest_first: bool = False,
    **options: Any,
) -> KernelHarness:
    schema = UPDATING if retracts else PLAIN
    ranking = Ranking(("k",), order, function, first, last, newest_first)
    kernel = TopNKernel(schema, ranking, ("k", "v", "id"), number, ttl)
    return KernelHarness(kernel, schema, ["k"], **options)


def rows(*changes: Change, retracts: bool = False) -> list[dict[str, Any]]:
    collected = [{KEY_HASH: None, "k": k, "v": v, "id": i, ROW_KIND: kind} for kind, k, v, i in changes]
    return collected if retracts else [{k: v for k, v in row.items() if k != ROW_KIND} for row in collected]


def came(kernel: KernelHarness) -> list[tuple[Any, ...]]:
    return [
        (row.get(ROW_KIND, "+I"), row["k"], row["v"], row["id"], *([row["rn"]] if "rn" in row else []))
        for row in kernel.output()
    ]


def test_rows_enter_and_leave():
    kernel = harness()
    kernel.rows(rows(("+I", "a", 1.0, 1), ("+I", "a", 3.0, 2), ("+I", "b", 1.0, 3)))
    assert came(kernel) == [("+I", "a", 3.0, 2), ("+I", "a", 1.0, 1), ("+I", "b", 1.0, 3)]
    kernel.rows(rows(("+I", "a", 2.0, 4), ("+I", "a", 0.0, 5)))
    assert came(kernel) == [("-D", "a", 1.0, 1), ("+I", "a", 2.0, 4)]


def test_numbers_are_updated():
    kernel = harness(number="rn")
    kernel.rows(rows(("+I", "a", 1.0, 1)))
    assert came(kernel) == [("+I", "a", 1.0, 1, 1)]
    kernel.rows(rows(("+I", "a", 2.0, 2)))
    assert came(kernel) == [("-U", "a", 1.0, 1, 1), ("+U", "a", 2.0, 2, 1), ("+I", "a", 1.0, 1, 2)]


@pytest.mark.parametrize("restarts", [False, True])
def test_the_row_before_is_there_again_where_the_last_one_goes(restarts: bool) -> None:
    kernel = harness(1, 1, order=(), newest_first=True, retracts=True, restarts=restarts)
    for number in (1, 2, 3):
        kernel.rows(rows(("+I", "a", 0.0, number), retracts=True))
    assert came(kernel)[-1] == ("+U", "a", 0.0, 3)
    kernel.rows(rows(("-D", "a", 0.0, 2), retracts=True))
    assert came(kernel) == []
    kernel.rows(rows(("-D", "a", 0.0, 3), retracts=True))
    assert came(kernel) == [("-U", "a", 0.0, 3), ("+U", "a", 0.0, 1)]
    kernel.rows(rows(("-D", "a", 0.0, 1), retracts=True))
    assert came(kernel) == [("-D", "a", 0.0, 1)]


def test_the_only_row_of_a_key_is_updated():
    kernel = harness(1, 1)
    kernel.rows(rows(("+I", "a", 1.0, 1)))
    kernel.rows(rows(("+I", "a", 2.0, 2)))
    assert came(kernel) == [("+I", "a", 1.0, 1), ("-U", "a", 1.0, 1), ("+U", "a", 2.0, 2)]


def test_of_equal_rows_the_first_one_stays():
    kernel = harness(1, 1)
    kernel.rows(rows(("+I", "a", 1.0, 1), ("+I", "a", 1.0, 2)))
    kernel.rows(rows(("+I", "a", 1.0, 3)))
    assert came(kernel) == [("+I", "a", 1.0, 1)]


def test_rank_counts_equal_rows_and_dense_rank_does_not():
    for function, item in ((Number.RANK, {1, 2}), (Number.DENSE_RANK, {1, 2, 3})):
        kernel = harness(function=function)
        kernel.rows(rows(("+I", "a", 9.0, 1), ("+I", "a", 9.0, 2), ("+I", "a", 8.0, 3), ("+I", "a", 7.0, 4)))
        assert {row[3] for row in came(kernel)} == item


def test_a_row_that_goes_makes_place_for_the_next():
    kernel = harness(retracts=True)
    changes = [("+I", "a", 3.0, 1), ("+I", "a", 2.0, 2), ("+I", "a", 1.0, 3)]
    kernel.rows(rows(*changes, retracts=True))
    came(kernel)
    kernel.rows(rows(("-D", "a", 3.0, 1), retracts=True))
    assert came(kernel) == [("-D", "a", 3.0, 1), ("+I", "a", 1.0, 3)]
    kernel.rows(rows(("-D", "a", 8.0, 8), retracts=True))
    assert came(kernel) == [] and kernel.counters[IGNORED] == 1


def test_what_comes_and_goes_in_a_batch_is_not_seen():
    kernel = harness(retracts=True)
    kernel.rows(rows(("+I", "a", 3.0, 1), ("-U", "a", 3.0, 1), ("+U", "a", 4.0, 1), retracts=True))
    assert came(kernel) == [("+I", "a", 4.0, 1)]


def test_rows_that_are_pushed_out_are_forgotten():
    kernel = harness(last=1)
    for i in range(50):
        kernel.rows(rows(("+I", "a", float(i), i)))
    assert len(came(kernel)) == 99
    assert isinstance(kernel.kernel, TopNKernel)
    assert kernel.kernel.kept(kernel.stores[0]).rows() == 1


def test_without_an_order_the_first_rows_stay_and_only_come():
    kernel = harness(order=())
    assert ROW_KIND not in kernel.kernel.output.names
    kernel.rows(rows(("+I", "a", 1.0, 1)))
    kernel.rows(rows(("+I", "a", 5.0, 2), ("+I", "a", 7.0, 3)))
    assert came(kernel) == [("+I", "a", 1.0, 1), ("+I", "a", 5.0, 2)]


def test_a_key_is_forgotten_after_its_last_change():
    kernel = harness(last=1, ttl=4_000)
    kernel.processing_time(1_000)
    kernel.rows(rows(("+I", "a", 9.0, 1), ("+I", "b", 9.0, 2)))
    kernel.processing_time(3_000)
    kernel.rows(rows(("+I", "b", 1.0, 3)))
    came(kernel)
    kernel.processing_time(5_000)
    kernel.rows(rows(("+I", "a", 2.0, 4), ("+I", "b", 2.0, 5)))
    assert came(kernel) == [("+I", "a", 2.0, 4)]
    kernel.processing_time(END_OF_TIME)
    kernel.rows(rows(("+I", "a", 0.0, 6)))
    assert came(kernel) == [("+I", "a", 0.0, 6)]


KEYS = st.one_of(st.none(), st.sampled_from("abc"))
VALUES = st.one_of(st.none(), st.sampled_from([0.0, 1.5, 2.0, float("nan")]))
STEPS = st.lists(st.lists(st.tuples(st.booleans(), KEYS, VALUES, st.integers(0, 3)), max_size=12), max_size=6)
ORDERS = st.sampled_from([
    (), BY_VALUE, (Order("v"),), (Order("id"), Order("v", nulls_first=False)), (Order("v", True), Order("id", True)),
])  # fmt: skip


@pytest.mark.parametrize("retracts", [False, True])
@pytest.mark.parametrize("function", Number)
@settings(max_examples=40)
@given(
    steps=STEPS, order=ORDERS, first=st.integers(1, 3), more=st.integers(0, 3), with_number=st.booleans(),
    groups=st.integers(1, 3), cut=st.integers(1, 15), restarts=st.booleans(),
)  # fmt: skip
def test_any_changes_in_any_pieces(
    retracts, function, steps, order, first, more, with_number, groups, cut, restarts
) -> None:
    if retracts:  # of rows that tie, one that goes and comes again in a micro-batch keeps its place; the model moves it
        order = (*order, Order("id"), Order("v"))
    kernel = harness(
        first, first + more, function=function, order=order, number="rn" if with_number else None, retracts=retracts,
        groups=groups, arrow_rows=cut, restarts=restarts,
    )  # fmt: skip
    model = TopNTable(order, function, first, first + more)
    merged: Counter[tuple[Any, ...]] = Counter()
    for step in steps:
        changes: list[Change] = []
        for comes, k, v, i in step:
            row = {"k": k, "v": v, "id": i}
            known = next((r for r in model.rows[k] if repr(r) == repr(row)), None)
            if comes or not retracts:
                model.add(k, row)
                changes.append(("+I", k, v, i))
            elif known is not None:
                model.withdraw(k, known)
                changes.append(("-D", k, v, i))
        kernel.rows(rows(*changes, retracts=retracts))
        for kind, *values in came(kernel):
            key = (*map(repr, values[:3]), *values[3:])
            merged[key] += 1 if kind in ("+I", "+U") else -1
            assert merged[key] >= 0, "nothing is withdrawn that is not there"
        wanted = model.best(with_number=with_number)
        assert +merged == wanted
