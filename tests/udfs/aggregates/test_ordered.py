"""ORDER BY of aggregates against a stable sort in plain Python: parts in and out of order, and rows that go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cmp_to_key
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.udfs.aggregates import AggregateCall, Aggregates, Ordering
from sqlstream.udfs.kernel import ROW_KIND
from tests.depth import depth
from tests.udfs.aggregates import model
from tests.udfs.aggregates.test_against_model import GROUPS, PARTS, SCHEMA, Parts, computed, computed_apart

COLUMNS = ("i", "f", "s", "d", "t", "b")
ORDERS = st.lists(
    st.builds(Ordering, st.sampled_from(COLUMNS), st.booleans(), st.booleans()), min_size=1, max_size=2, unique=True
)
Rows = list[dict[str, Any]]


def in_order(rows: Rows, order: Sequence[Ordering]) -> Rows:
    """NaN is the greatest number and -0.0 is 0.0, as for MIN and MAX."""

    def compared(one: dict[str, Any], other: dict[str, Any]) -> int:
        for by in order:
            a, b = one[by.column], other[by.column]
            if (a is None) != (b is None):
                return -1 if (a is None) == by.nulls_first else 1
            if a is not None and (sign := model.compare(a, b)):
                return -sign if by.descending else sign
        return 0

    return sorted(rows, key=cmp_to_key(compared))


def expected(function: str, values: list[Any], *, ignore: bool) -> Any:
    values = [v for v in values if v is not None or not ignore]
    match function:
        case "first":
            return values[0] if values else None
        case "last":
            return values[-1] if values else None
        case "listagg":
            return "|".join(values) if values else None
    return values


def call(function: str, column: str, order: Sequence[Ordering], *, ignore: bool) -> AggregateCall:
    kind = SCHEMA.field(column).type
    result = pa.list_(kind) if function == "collect_list" else kind
    constants = ("|",) if function == "listagg" else ()
    return AggregateCall(
        "x", function, (column,), result, order=tuple(order), constants=constants, ignore_nulls=ignore,
        respect_nulls=not ignore,
    )  # fmt: skip


CALLS = st.one_of(
    st.tuples(st.sampled_from(["first", "last", "collect_list"]), st.sampled_from(["i", "s"]), st.booleans()),
    st.tuples(st.just("listagg"), st.just("s"), st.just(True)),
)


@settings(max_examples=depth(60, 2000))
@given(PARTS, CALLS, ORDERS)
def test_results_are_those_of_a_stable_sort(parts: Parts, asked: tuple[str, str, bool], order: list[Ordering]):
    function, column, ignore = asked
    made = call(function, column, order, ignore=ignore)
    rows = [pair for part in parts for pair in part]
    wanted = [
        expected(function, [r[column] for r in in_order([r for g, r in rows if g == group], order)], ignore=ignore)
        for group in range(GROUPS)
    ]
    assert computed([made], parts) == [wanted]
    assert computed_apart([made], parts) == [wanted]


class Joined:
    """A user's aggregate whose result shows the order of its rows."""

    def create(self) -> list[Any]:
        return []

    def accumulate(self, rows: list[Any], value: Any, other: Any) -> None:
        rows.append((value, other))

    def merge(self, rows: list[Any], others: list[Any]) -> None:
        rows.extend(others)

    def finish(self, rows: list[Any]) -> str:
        return repr(rows)


@settings(max_examples=depth(30, 500))
@given(PARTS, ORDERS)
def test_users_aggregates_get_rows_in_order(parts: Parts, order: list[Ordering]):
    made = AggregateCall("x", "joined", ("i", "s"), pa.string(), order=tuple(order), implementation=Joined)
    rows = [pair for part in parts for pair in part]
    of_groups = [in_order([r for g, r in rows if g == group], order) for group in range(GROUPS)]
    wanted = [repr([(r["i"], r["s"]) for r in of_group]) for of_group in of_groups]
    assert computed([made], parts) == [wanted]
    assert computed_apart([made], parts) == [wanted]


CHANGED = SCHEMA.append(pa.field(ROW_KIND, pa.string()))


@settings(max_examples=depth(60, 2000))
@given(PARTS, CALLS, ORDERS, st.data())
def test_rows_that_go_leave_the_others_in_order(
    parts: Parts, asked: tuple[str, str, bool], order: list[Ordering], data: st.DataObject
):
    function, column, ignore = asked
    made = call(function, column, order, ignore=ignore)
    rows = [row for part in parts for _, row in part]
    gone = data.draw(st.lists(st.sampled_from(range(len(rows))), unique=True)) if rows else []
    changes = [{**row, ROW_KIND: "+I"} for row in rows] + [{**rows[i], ROW_KIND: "-D"} for i in gone]
    cut = data.draw(st.integers(0, len(changes)))
    aggregates = Aggregates((made,), CHANGED, updating=True, identified_by=tuple(SCHEMA.names))
    lifted = [
        aggregates.lift(pa.Table.from_pylist(part, CHANGED), np.zeros(len(part), np.int64), 1)
        for part in (changes[:cut], changes[cut:])
    ]
    merged = aggregates.merge(pa.concat_tables(lifted), np.zeros(2, np.int64), 1)
    (found,) = aggregates.finish(merged).column("x").to_pylist()
    left = list(rows)
    for i in gone:  # of equal rows the last one goes
        del left[max(n for n, row in enumerate(left) if repr(row) == repr(rows[i]))]
    values = [row[column] for row in in_order(left, order)]
    assert repr(found) == repr(expected(function, values, ignore=ignore))


@pytest.mark.parametrize("function", ["collect_list", "listagg"])
def test_distinct_values_are_sorted(function: str):
    order = (Ordering("s", descending=True, nulls_first=False),)
    made = replace(call(function, "s", order, ignore=True), distinct=True)
    rows = [dict.fromkeys(SCHEMA.names) | {"s": s} for s in ("b", "a", None, "b", "c", "a")]
    parts: Parts = [[(0, row) for row in rows[:3]], [(0, row) for row in rows[3:]]]
    (found,) = computed([made], parts)
    assert found[0] == (["c", "b", "a"] if function == "collect_list" else "c|b|a")
