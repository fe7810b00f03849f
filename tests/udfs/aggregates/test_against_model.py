"""Every aggregate against a loop in plain Python, over rows that come in parts."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sqlstream.udfs.aggregates import AggregateCall, Aggregates, Ordering
from sqlstream.udfs.aggregates.accumulator import ARRIVAL
from tests.depth import depth
from tests.udfs.aggregates import model

SCHEMA = pa.schema([
    ("i", pa.int32()),
    ("l", pa.int64()),
    ("f", pa.float64()),
    ("d", pa.decimal128(10, 2)),
    ("w", pa.decimal128(34, 4)),
    ("s", pa.string()),
    ("t", pa.timestamp("us", "UTC")),
    ("b", pa.bool_()),
    ("y", pa.binary()),
])  # fmt: skip

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FEW = st.integers(-3, 3)
ROW = st.fixed_dictionaries({
    "i": st.none() | _FEW | st.integers(-(2**31), 2**31 - 1),
    "l": st.none() | _FEW | st.integers(-(2**58), 2**58),
    "f": st.none() | st.sampled_from([0.0, -0.0, 1.5, -2.25, 7.0, math.nan, 0.1]),
    "d": st.none() | st.decimals(-1000, 1000, places=2) | st.sampled_from([Decimal("99999999.99")]),
    "w": st.none() | st.decimals(-(10**28), 10**28, places=4, allow_nan=False),
    "s": st.none() | st.sampled_from(["", "a", "b", "ab", "é", "z", "𝄞"]),
    "t": st.none() | st.integers(-5, 5).map(lambda s: _EPOCH + timedelta(seconds=s)),
    "b": st.none() | st.booleans(),
    "y": st.none() | st.binary(max_size=2),
})  # fmt: skip
PARTS = st.lists(st.lists(st.tuples(st.integers(0, 3), ROW), max_size=8), min_size=1, max_size=4)
GROUPS = 5
EXAMPLES = depth(10, 20)

DECIMAL_RESULTS = {
    ("sum", "d"): pa.decimal128(20, 2),
    ("avg", "d"): pa.decimal128(14, 6),
    ("sum", "w"): pa.decimal128(38, 4),
    ("avg", "w"): pa.decimal128(38, 8),
}
REAL, FINITE, ALL = ("i", "l", "f"), ("i", "l", "d", "w"), tuple(SCHEMA.names)
DOUBLES = ("var_pop", "var_samp", "stddev_pop", "stddev_samp", "skewness", "kurtosis", "median", "percentile")
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "count": ALL, "sum": ("i", "l", "f", "d", "w"), "avg": ("i", "l", "f", "d", "w"), "min": ALL, "max": ALL,
    "first": ALL, "last": ALL, "collect_list": ALL, "collect_set": ALL, "listagg": ("s",), "bool_and": ("b",),
    "bool_or": ("b",), "count_if": ("b",), "bit_and": ("i", "l"), "bit_or": ("i", "l"), "bit_xor": ("i", "l"),
    "percentile_approx": ("i", "l", "f", "t", "d"), "mode": ("i", "s", "t", "d"),
    **dict.fromkeys(DOUBLES, FINITE), "median": ("i", "l", "d", "f"), "percentile": ("i", "f"),
}  # fmt: skip
CONSTANTS: dict[str, tuple[object, ...]] = {"listagg": (",",), "percentile": (0.3,), "percentile_approx": (0.3,)}


def result_type(function: str, column: str) -> pa.DataType:
    kind = SCHEMA.field(column).type
    if function in ("count", "count_if"):
        return pa.int64()
    if function in DOUBLES:
        return pa.float64()
    if function in ("sum", "avg"):
        return DECIMAL_RESULTS.get((function, column)) or (
            pa.int64() if function == "sum" and column != "f" else pa.float64()
        )
    return pa.list_(kind) if function in ("collect_list", "collect_set") else kind


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMA)


Parts = list[list[tuple[int, dict[str, Any]]]]
Expected = Callable[[list[dict[str, Any]]], Any]
"""From the rows of a group to the result."""


def computed(calls: list[AggregateCall], parts: Parts) -> list[list[Any]]:
    """The results of each call by group: each part lifted, all of them merged."""
    aggregates = Aggregates(tuple(replace(c, name=str(i)) for i, c in enumerate(calls)), SCHEMA)
    lifted = [aggregates.lift(table([r for _, r in p]), np.array([g for g, _ in p], np.int64), GROUPS) for p in parts]
    groups = np.tile(np.arange(GROUPS), len(parts))
    merged = aggregates.merge(pa.concat_tables(lifted), groups, GROUPS)
    assert merged.schema == aggregates.accumulators
    return [column.to_pylist() for column in aggregates.finish(merged).columns]


def computed_apart(calls: list[AggregateCall], parts: Parts) -> list[list[Any]]:
    """The same where rows with numbers are dealt to three parts in turn, which are merged in another order."""
    plain = Aggregates(tuple(replace(c, name=str(i)) for i, c in enumerate(calls)), SCHEMA)
    aggregates = plain.for_merging_windows()
    dealt = [(number, g, row) for number, (g, row) in enumerate(row for part in parts for row in part)]
    lifted = []
    for first in (1, 2, 0):
        of_part = dealt[first::3]
        rows = table([row for *_, row in of_part])
        if aggregates.by_number:
            rows = rows.append_column(ARRIVAL, pa.array([number for number, *_ in of_part], pa.int64()))
        lifted.append(aggregates.lift(rows, np.array([g for _, g, _ in of_part], np.int64), GROUPS))
    two = aggregates.merge(pa.concat_tables(lifted[:2]), np.tile(np.arange(GROUPS), 2), GROUPS)
    merged = aggregates.merge(pa.concat_tables([two, lifted[2]]), np.tile(np.arange(GROUPS), 2), GROUPS)
    return [column.to_pylist() for column in aggregates.finish(merged).columns]


def rows_of(parts: Parts, group: int) -> list[dict[str, Any]]:
    return [row for part in parts for g, row in part if g == group]


def same(actual: Any, wanted: Any, rounding: float = 0.0) -> bool:
    if isinstance(actual, float) and isinstance(wanted, float):
        if math.isnan(wanted):
            return math.isnan(actual)
        return math.isclose(actual, wanted, rel_tol=1e-6, abs_tol=max(1e-6, rounding))
    if isinstance(actual, list) and isinstance(wanted, list):
        return len(actual) == len(wanted) and all(map(same, actual, wanted))
    return bool(actual == wanted)


def rounding_of(call: AggregateCall, rows: list[dict[str, Any]]) -> float:
    """How far a sum of floats, divided by their number, may be from another order of it: each addition rounds what has
    been summed so far, whose magnitude the values may cancel.
    """
    if call.function != "avg" or pa.types.is_decimal(call.result):
        return 0.0
    values = (abs(float(row[call.arguments[0]])) for row in rows if row[call.arguments[0]] is not None)
    return math.ulp(1.0) * sum(value for value in values if not math.isnan(value))


def check(parts: Parts, *cases: tuple[AggregateCall, Expected]) -> None:
    calls = [call for call, _ in cases]
    # Of two zeros MIN and MAX give the first one, which they do not know where rows are dealt.
    for results, exactly in (
        (computed(calls, parts), ("min", "max", "first", "last")),
        (computed_apart(calls, parts), ("first", "last")),
    ):
        for (call, expected), item in zip(cases, results, strict=True):
            for group, value in enumerate(item):
                rows = rows_of(parts, group)
                wanted = expected(rows)
                exact = call.function not in exactly or str(value) == str(wanted)
                assert same(value, wanted, rounding_of(call, rows)) and exact, (
                    f"{call.function}{call.arguments} of group {group}: {value!r}, not {wanted!r}"
                )


def of_longs(*values: int) -> Parts:
    return [[(0, {**dict.fromkeys(SCHEMA.names), "l": value}) for value in values]]


def one_column(function: str, column: str, values: Callable[[list[Any]], list[Any]] = list, **options: Any) -> Any:
    constants = CONSTANTS.get(function, ())
    call = AggregateCall("r", function, (column,), result_type(function, column), constants=constants, **options)
    return call, lambda rows: model.ONE[function](values([r[column] for r in rows]))


@pytest.mark.parametrize("function", sorted(model.ONE))
@settings(max_examples=EXAMPLES)
@given(PARTS)
@example(of_longs(3, 2**58, -(2**58)))
def test_a_function_of_one_column_is_what_the_loop_computes(function, parts):
    check(parts, *(one_column(function, column) for column in ARGUMENTS[function]))


@pytest.mark.parametrize("function", sorted(model.TWO))
@settings(max_examples=EXAMPLES)
@given(PARTS)
def test_a_function_of_two_columns_is_what_the_loop_computes(function, parts):
    by_order = function in ("min_by", "max_by")
    for left, right in [("s", "f"), ("f", "t"), ("b", "s")] if by_order else [("i", "d"), ("d", "i")]:
        result = SCHEMA.field(left).type if by_order else pa.int64() if "count" in function else pa.float64()
        call = AggregateCall("r", function, (left, right), result)
        expected = partial(_of_pairs, function, left, right)
        check(parts, (call, expected))


def _of_pairs(function: str, left: str, right: str, rows: list[dict[str, Any]]) -> Any:
    return model.TWO[function]([(r[left], r[right]) for r in rows])


@pytest.mark.parametrize("function", ["count", "sum", "avg", "collect_list", "listagg", "var_pop", "median"])
@settings(max_examples=EXAMPLES)
@given(PARTS)
@example(of_longs(2**58, -(2**58), 3))
def test_distinct_takes_each_value_once(function, parts):
    columns = [c for c in ARGUMENTS[function] if c != "w"]
    check(parts, *(one_column(function, column, model.distinct, distinct=True) for column in columns))


def test_averages_may_round_what_cancels_and_nothing_more():
    call, _ = one_column("avg", "l")
    rows = [row for _, row in of_longs(2**58, -(2**58), 3)[0]]
    assert same(0.0, 1.0, rounding_of(call, rows)) and not same(1000.0, 1.0, rounding_of(call, rows))
    assert rounding_of(call, rows_of([of_longs(1, 2, 3)[0]], 0)) < 1e-14 and not same(2.0, 2.001, 1e-14)


@settings(max_examples=2 * EXAMPLES)
@given(PARTS)
def test_filter_keeps_the_rows_where_it_is_true(parts):
    kept = [[(g, r) for g, r in part if r["b"]] for part in parts]
    for function, columns in ARGUMENTS.items():
        call, expected = one_column(function, columns[0], filter="b")
        for group, value in enumerate(computed([call], parts)[0]):
            assert same(value, expected(rows_of(kept, group))), function


@pytest.mark.parametrize("function", ["first", "last"])
@settings(max_examples=EXAMPLES)
@given(PARTS)
def test_ignoring_nulls_picks_among_the_values(function, parts):
    check(parts, *(one_column(function, column, model.present, ignore_nulls=True) for column in ALL))


@settings(max_examples=EXAMPLES)
@given(PARTS)
def test_lists_that_respect_nulls_hold_a_value_per_row(parts):
    for column in ALL:
        call, _ = one_column("collect_list", column, respect_nulls=True)
        for group, value in enumerate(computed([call], parts)[0]):
            assert same(value, [row[column] for row in rows_of(parts, group)])


def test_no_rows_and_no_groups_go_through_all_steps_and_through_ipc():
    cases = [one_column(function, column) for function, columns in ARGUMENTS.items() for column in columns]
    cases += [one_column("count", column, distinct=True) for column in ALL]
    calls = [replace(call, name=str(i)) for i, (call, _) in enumerate(cases)]
    calls += [AggregateCall(f, f, ("i", "d"), pa.float64()) for f in ("corr", "covar_pop", "regr_r2")]
    calls += [AggregateCall("u", "product", ("i", "l"), pa.string(), implementation=Product)]
    calls += [AggregateCall("h", "approx_count_distinct", ("l",), pa.int64())]
    calls += [AggregateCall("o", "listagg", ("s",), pa.string(), order=(Ordering("t"),))]
    aggregates, no_groups = Aggregates(tuple(calls), SCHEMA), np.zeros(0, np.int64)
    empty = _through_ipc(SCHEMA.empty_table())
    for count in (0, 2):
        lifted = _through_ipc(aggregates.lift(empty, no_groups, count))
        merged = aggregates.merge(lifted, np.arange(count), count)
        assert aggregates.finish(merged) == aggregates.finish(aggregates.merge(lifted.slice(0, 0), no_groups, count))
        assert merged.num_rows == count
    assert pickle.loads(pickle.dumps(aggregates)) == aggregates


def _through_ipc(table: pa.Table) -> pa.Table:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return pa.ipc.open_stream(sink.getvalue()).read_all()


@settings(max_examples=2 * EXAMPLES)
@given(PARTS, st.booleans(), st.booleans())
def test_lists_are_ordered_by_other_columns(parts, descending, nulls_first):
    order = (Ordering("f", descending, nulls_first), Ordering("t"))
    call = AggregateCall("r", "collect_list", ("s",), pa.list_(pa.string()), order=order)

    def sort_key(row: dict[str, Any]) -> tuple[Any, ...]:
        value = row["f"]
        place = 0 if value is not None else -1 if nulls_first else 1
        number = _Reversed(value) if descending else model.KEY(value)
        return place, number if value is not None else 0, row["t"] is not None, row["t"] or _EPOCH

    check(parts, (call, lambda rows: [r["s"] for r in sorted(rows, key=sort_key) if r["s"] is not None]))


class _Reversed:
    def __init__(self, value: float) -> None:
        self.value = value

    def __lt__(self, other: _Reversed) -> bool:
        return model.compare(self.value, other.value) > 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reversed) and model.compare(self.value, other.value) == 0


class Product:
    """A user's aggregate whose accumulate returns a new state and whose merge changes the given one."""

    def create(self) -> list[int]:
        return [1]

    def accumulate(self, state: list[int], value: int | None, other: int | None) -> list[int]:
        return [*state, (value or 0) + (other or 0)]

    def merge(self, state: list[int], other: list[int]) -> None:
        state.extend(other[1:])

    def finish(self, state: list[int]) -> str:
        return ",".join(map(str, state))


@settings(max_examples=2 * EXAMPLES)
@given(PARTS, st.booleans())
def test_aggregates_of_users_see_every_row_in_order(parts, distinct):
    call = AggregateCall("r", "product", ("i", "l"), pa.string(), implementation=Product, distinct=distinct)

    def expected(rows: list[dict[str, Any]]) -> str:
        pairs = [(r["i"], r["l"]) for r in rows]
        pairs = list(dict.fromkeys(pairs)) if distinct else pairs
        return ",".join(map(str, [1, *((i or 0) + (j or 0) for i, j in pairs)]))

    check(parts, (call, expected))
