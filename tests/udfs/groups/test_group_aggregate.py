"""GROUP BY without a window, against a plain model: rows come and go, results of each group follow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.udfs.aggregates import AggregateCall, Ordering
from sqlstream.udfs.groups.distinct import DistinctValues, SharedDistinctValues
from sqlstream.udfs.groups.kernel import GroupAggregateKernel, strategies_of
from sqlstream.udfs.harness import KernelHarness
from sqlstream.udfs.kernel import END_OF_TIME, IGNORED, KEY_HASH, ROW_KIND, Domain
from sqlstream.udfs.state.time_to_live import TimeToLive

SECOND = 1_000_000

SCHEMA = pa.schema([
    (KEY_HASH, pa.int64()), ("k", pa.string()), ("n", pa.int64()), ("x", pa.float64()), ("d", pa.decimal128(6, 2)),
    ("t", pa.string()), ("b", pa.bool_()), ("g", pa.float64()),
])  # fmt: skip
UPDATING = SCHEMA.append(pa.field(ROW_KIND, pa.string()))
COLUMNS = ("k", "n", "x", "d", "t", "b", "g")

Row = tuple[Any, ...]
"""Values of COLUMNS."""


def call(name: str, function: str, *arguments: str, result: pa.DataType | None = None, **more: Any) -> AggregateCall:
    return AggregateCall(name, function, arguments, result or pa.int64(), **more)


def values(rows: Sequence[Row], column: str) -> list[Any]:
    collected = (row[COLUMNS.index(column)] for row in rows)
    return [value for value in collected if value is not None]


def where(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row[5]]


def total(items: Sequence[Any]) -> Any:
    return sum(items) if items else None


def mean(items: Sequence[Any]) -> float | None:
    return sum(items) / len(items) if items else None


def text(items: Sequence[str]) -> str | None:
    return ",".join(items) if items else None


Expected = Callable[[list[Row]], Any]

CALLS: dict[str, tuple[AggregateCall, Expected]] = {
    "count": (call("count", "count"), len),
    "count_n": (call("count_n", "count", "n"), lambda rows: len(values(rows, "n"))),
    "count_if": (call("count_if", "count", filter="b"), lambda rows: len(where(rows))),
    "sum": (call("sum", "sum", "n"), lambda rows: total(values(rows, "n"))),
    "sum_if": (call("sum_if", "sum", "n", filter="b"), lambda rows: total(values(where(rows), "n"))),
    "sum_x": (call("sum_x", "sum", "x", result=pa.float64()), lambda rows: total(values(rows, "x"))),
    "sum_d": (call("sum_d", "sum", "d", result=pa.decimal128(16, 2)), lambda rows: total(values(rows, "d"))),
    "avg": (call("avg", "avg", "n", result=pa.float64()), lambda rows: mean(values(rows, "n"))),
    "min": (call("min", "min", "n"), lambda rows: min(values(rows, "n"), default=None)),
    "max_t": (call("max_t", "max", "t", result=pa.string()), lambda rows: max(values(rows, "t"), default=None)),
    "max_if": (call("max_if", "max", "n", filter="b"), lambda rows: max(values(where(rows), "n"), default=None)),
    "distinct": (call("distinct", "count", "n", distinct=True), lambda rows: len(set(values(rows, "n")))),
    "distinct_t": (call("distinct_t", "count", "t", distinct=True), lambda rows: len(set(values(rows, "t")))),
    "distinct_sum": (call("distinct_sum", "sum", "n", distinct=True), lambda rows: total(list(set(values(rows, "n"))))),
    "distinct_if": (
        call("distinct_if", "count", "x", distinct=True, filter="b"),
        lambda rows: len(set(values(where(rows), "x"))),
    ),
    "distinct_n_if": (
        call("distinct_n_if", "count", "n", distinct=True, filter="b"),
        lambda rows: len(set(values(where(rows), "n"))),
    ),
    "distinct_sum_if": (
        call("distinct_sum_if", "sum", "n", distinct=True, filter="b"),
        lambda rows: total(list(set(values(where(rows), "n")))),
    ),
    "distinct_min": (
        call("distinct_min", "min", "n", distinct=True),
        lambda rows: min(values(rows, "n"), default=None),
    ),
    "list": (call("list", "listagg", "t", result=pa.string(), constants=(",",)), lambda rows: text(values(rows, "t"))),
    "sorted": (
        call("sorted", "collect_list", "n", result=pa.list_(pa.int64()), order=(Ordering("n", descending=True),)),
        lambda rows: sorted(values(rows, "n"), reverse=True),
    ),
    "first": (
        call("first", "first", "n", ignore_nulls=True),
        lambda rows: next(iter(values(rows, "n")), None),
    ),
}  # fmt: skip


KEEPING = ("list", "sorted", "first")
"""Calls that are computed from stored rows, which have the columns of all of them: a retraction removes such a row."""


def kernel(*names: str, updates: bool = False, keys: tuple[str, ...] = ("k",), ttl: int = 0) -> GroupAggregateKernel:
    schema = UPDATING if updates else SCHEMA
    living = TimeToLive(ttl)
    strategies = strategies_of([CALLS[name][0] for name in names], keys, schema, updates=updates, living=living)
    return GroupAggregateKernel(schema, keys, strategies, names, living, emits_kinds=updates or bool(names))


def harness_of(of: GroupAggregateKernel, **more: Any) -> KernelHarness:
    return KernelHarness(of, of.input, keys=of.keys, **more)


def row(k: str | None = "a", n: int | None = 0, kind: str | None = None, **more: Any) -> dict[str, Any]:
    return {"k": k, "n": n, "x": None, "d": None, "t": None, "b": None, **more, **({ROW_KIND: kind} if kind else {})}


def told(harness: KernelHarness) -> list[str]:
    """What came out, each row as text: its kind and its values."""
    return [" ".join(str(v) for v in (actual.pop(ROW_KIND, "+I"), *actual.values())) for actual in harness.output()]


# --- against the model ----------------------------------------------------------------------------------------

ROWS = st.tuples(
    st.sampled_from(["a", "b", None]),
    st.sampled_from([0, 1, 2, -(2**40), None]),
    st.sampled_from([0.5, 2.0, None]),
    st.sampled_from([Decimal("1.25"), Decimal("-3.00"), None]),
    st.sampled_from(["p", "q", "", None]),
    st.sampled_from([True, False, None]),
    st.sampled_from([0.0, 1.0]),
)


@st.composite
def scripts(draw: Any, updates: bool) -> list[list[tuple[str, Row]]]:
    """Micro-batches of inserts and, with ``updates``, withdrawals of rows that are there by then."""
    held: list[Row] = []
    batches = []
    for _ in range(draw(st.integers(1, 5))):
        changes = []
        for _ in range(draw(st.integers(0, 6))):
            if updates and held and draw(st.booleans()):
                gone = held.pop(draw(st.integers(0, len(held) - 1)))
                changes.append((draw(st.sampled_from(["-D", "-U"])), gone))
            else:
                held.append(draw(ROWS))
                changes.append((draw(st.sampled_from(["+I", "+U"])), held[-1]))
        batches.append(changes)
    return batches


def there(changes: Sequence[tuple[str, Row]], columns: Sequence[str]) -> list[Row]:
    """The rows that have come and not gone, in order, with NULL in all but these columns: of rows that are equal in
    these, the first goes."""
    rows: list[Row] = []
    for kind, item in changes:
        row = tuple(value if name in columns else None for name, value in zip(COLUMNS, item, strict=True))
        if kind[0] == "+":
            rows.append(row)
        else:
            rows.remove(row)
    return rows


def grouped(changes: Sequence[tuple[str, Row]], keys: tuple[str, ...], names: Sequence[str]) -> dict[Row, Row]:
    """The result as SQL defines it, but that no group is there without rows."""
    result: dict[Row, list[Any]] = {tuple(r[COLUMNS.index(k)] for k in keys): [] for r in there(changes, keys)}
    for name in names:
        aggregate, expected = CALLS[name]
        together = [CALLS[n][0] for n in names if n in KEEPING] if name in KEEPING else [aggregate]
        read = {*keys, *(column for call in together for column in (*call.arguments, call.filter))}
        groups: dict[Row, list[Row]] = {key: [] for key in result}
        for row in there(changes, [column for column in COLUMNS if column in read]):
            groups[tuple(row[COLUMNS.index(key)] for key in keys)].append(row)
        for key, rows in groups.items():
            actual = expected(rows)
            result[key].append(tuple(actual) if isinstance(actual, list) else actual)
    return {key: tuple(actual) for key, actual in result.items()}


def applied(emitted: Sequence[dict[str, Any]], keys: tuple[str, ...], result: dict[Row, Row]) -> None:
    """Changes the result as the kinds of rows say; each must fit what was there."""
    before = None
    for item in emitted:
        kind = item.pop(ROW_KIND, "+I")
        key = tuple(item.pop(name) for name in keys)
        values = tuple(tuple(v) if isinstance(v, list) else v for v in item.values())
        if kind == "+I":
            assert key not in result, "inserted twice"
            result[key] = values
        elif kind == "+U":
            assert before == ("-U", key), "each +U is right behind its -U"
            assert result[key] != values, "an update changes something"
            result[key] = values
        else:
            assert result[key] == values, "what is withdrawn is what was there"
            if kind == "-D":
                del result[key]
        before = kind, key


def check(names: Sequence[str], updates: bool, keys: tuple[str, ...], data: st.DataObject) -> None:
    batches = data.draw(scripts(updates))
    harness = harness_of(
        kernel(*names, updates=updates, keys=keys),
        groups=data.draw(st.sampled_from([1, 3])) if keys else 1,
        restarts=data.draw(st.booleans()),
        arrow_rows=data.draw(st.sampled_from([1, 2, 10_000])),
    )
    changes: list[tuple[str, Row]] = []
    result: dict[Row, Row] = {}
    for batch in batches:
        changes += batch
        kinds = ({ROW_KIND: kind} if updates else {} for kind, _ in batch)
        harness.rows([{**dict(zip(COLUMNS, v, strict=True)), **k} for (_, v), k in zip(batch, kinds, strict=True)])
        applied(harness.output(), keys, result)
        assert result == grouped(changes, keys, names)
    assert harness.counters[IGNORED] == 0
    if not result:
        assert not any(store.size for store in harness.stores), "nothing stays of groups that have gone"


KEYS = [("k",), (), ("k", "g")]


@pytest.mark.parametrize("updates", [False, True], ids=["inserts", "changes"])
@pytest.mark.parametrize("name", CALLS)
@settings(max_examples=3)
@given(st.data())
def test_each_aggregate_follows_its_rows(name, updates, data):
    check([name], updates, data.draw(st.sampled_from(KEYS)), data)


@pytest.mark.parametrize("updates", [False, True], ids=["inserts", "changes"])
@settings(max_examples=15)
@given(st.data())
def test_many_aggregates_follow_their_rows(updates, data):
    names = data.draw(st.lists(st.sampled_from(sorted(CALLS)), unique=True, max_size=6))
    keys = st.sampled_from(KEYS if names else [key for key in KEYS if key])
    check(names, updates, data.draw(keys), data)


SHARING = ("distinct_n_if", "distinct", "count", "distinct_sum_if", "distinct_t")
"""Three calls over the same values, two of them with a FILTER."""


@settings(max_examples=15)
@given(st.data())
def test_calls_with_filters_over_the_same_values_follow_their_rows(data):
    check(SHARING, False, data.draw(st.sampled_from(KEYS)), data)


@settings(max_examples=10)
@given(scripts(False), scripts(False))
def test_calls_that_share_values_go_on_with_what_earlier_builds_stored_for_each(before, after):
    of = kernel(*SHARING)
    (shared,) = (s for s in of.strategies if isinstance(s, SharedDistinctValues))
    apart = (DistinctValues(c.former, shared.keys, shared.values, c.filter, c.totals, False, TimeToLive())
             for c in shared.calls)  # fmt: skip
    former = replace(of, strategies=(*(s for s in of.strategies if s is not shared), *apart))
    earlier, now = harness_of(former), harness_of(of)
    changes: list[tuple[str, Row]] = []
    result: dict[Row, Row] = {}
    for harness, batches in ((earlier, before), (now, after)):
        for batch in batches:
            changes += batch
            harness.rows([dict(zip(COLUMNS, v, strict=True)) for _, v in batch])
            applied(harness.output(), of.keys, result)
            assert result == grouped(changes, of.keys, SHARING)
        now.restore(earlier.snapshot())


def test_a_value_is_stored_once_for_all_calls_that_share_it():
    sizes = []
    for names in (("distinct",), ("distinct", "distinct_n_if", "distinct_sum_if")):
        harness = harness_of(kernel(*names))
        harness.rows([row("a", n, b=True) for n in range(10_000)])
        sizes.append(harness.stores[0].size)
    assert sizes[1] < 1.1 * sizes[0]


# --- one by one -----------------------------------------------------------------------------------------------


def test_what_a_micro_batch_changes_twice_comes_out_once():
    harness = harness_of(kernel("count", "sum"))
    harness.rows([row("a", 1), row("b", 5), row("a", 2)])
    assert told(harness) == ["+I a 2 3", "+I b 1 5"]
    harness.rows([row("a", 4), row("a", None)])
    assert told(harness) == ["-U a 2 3", "+U a 4 7"]


def test_rows_that_change_no_result_bring_nothing():
    harness = harness_of(kernel("min", updates=True))
    harness.rows([row("a", 1, "+I")])
    harness.output()
    harness.rows([row("a", 2, "+I"), row("b", 1, "+I"), row("b", 1, "-D")])
    assert told(harness) == []


def test_distinct_rows_have_no_kinds_where_rows_only_come():
    harness = harness_of(kernel())
    harness.rows([row("a"), row("a")])
    harness.rows([row("a"), row("b")])
    assert ROW_KIND not in harness.output_table().schema.names
    assert [output["k"] for output in harness.output()] == []


def test_a_group_without_rows_is_withdrawn_and_may_come_again():
    harness = harness_of(kernel("sum_x", updates=True, keys=()), restarts=True)
    harness.rows([row(x=0.1, kind="+I"), row(x=0.2, kind="+I")])
    harness.rows([row(x=0.1, kind="-D"), row(x=0.2, kind="-D")])
    harness.rows([row(x=0.5, kind="+I")])
    assert told(harness) == ["+I 0.30000000000000004", "-D 0.30000000000000004", "+I 0.5"]


def test_rows_that_go_from_groups_that_are_not_there_are_counted():
    harness = harness_of(kernel("count", updates=True))
    harness.rows([row("a", kind="-D"), row("b", kind="-U"), row("b", kind="+U"), row("b", kind="-D")])
    assert told(harness) == []
    assert harness.counters[IGNORED] == 2


def test_sums_of_whole_numbers_come_back_to_what_they_were():
    harness = harness_of(kernel("avg", updates=True))
    large = [row("a", 2**62 - 1, "+I"), row("a", 2**62 - 1, "+I"), row("a", 2**62 - 1, "+I")]
    harness.rows([row("a", 3, "+I"), *large])
    harness.output()
    harness.rows([{**item, ROW_KIND: "-D"} for item in large])
    assert harness.output()[-1]["avg"] == 3.0


# --- what a batch costs ---------------------------------------------------------------------------------------


def test_distinct_values_of_before_are_not_read(monkeypatch):
    monkeypatch.setattr("sqlstream.udfs.state.keyed.LARGER", 1)
    harness = harness_of(kernel("distinct"))
    harness.rows([row("a", n) for n in range(20_000)])
    harness.restart()
    harness.rows([row("a", 7), row("a", 30_000)])
    assert told(harness)[-1] == "+U a 20001"
    assert harness.traffic.bytes_read < harness.stores[0].size / 5


@pytest.mark.parametrize(
    ("names", "updates", "sent"),
    [
        (("distinct",), False, 11),  # ten values and NULL
        (("distinct", "distinct_t"), False, 22),
        (("distinct_if",), False, 3),
        (("distinct", "count", "max_t"), False, 11),  # the first row of the group has the accumulators
        (("distinct", "distinct_t", "sum_if"), False, 22),
        (("distinct",), True, 1_000),
    ],
)
def test_each_distinct_value_is_sent_once(names, updates, sent):
    of = kernel(*names, updates=updates)
    kind = "+I" if updates else None
    rows = [
        {**row("a", n % 11 or None, kind, t=str(n % 2), b=n % 3 == 0, x=float(n % 3)), "g": None, KEY_HASH: 7}
        for n in range(1_000)
    ]
    table = pa.Table.from_pylist(rows, schema=of.input)
    combined = of.combine(table)
    assert combined.num_rows == sent
    if combined.schema == table.schema and sent < 1_000:
        assert of.combine(pa.concat_tables([combined, combined])).equals(combined)


@pytest.mark.parametrize(("values", "sent", "lifted"), [(10, 100, True), (100_000, 20_000, False)])
def test_values_that_mostly_differ_are_not_looked_through_before_they_are_sent(values, sent, lifted):
    of = kernel("distinct", "sum")
    rows = [{**row(f"k{n % 10}", n // 10 * 7919 % values), "g": None, KEY_HASH: n % 10} for n in range(20_000)]
    combined = of.combine(pa.Table.from_pylist(rows, schema=of.input))
    assert combined.num_rows == sent
    assert ("__has_totals" in combined.column_names) == lifted


def test_rows_sent_as_they_are_count_beside_those_of_which_accumulators_are_sent():
    differ = [row(f"k{n % 10}", n * 7919) for n in range(10_000)]
    repeat = [row(f"k{n % 13}", n % 5) for n in range(10_000)]
    results = []
    for arrow_rows in (10_000, 5_000):
        harness = harness_of(kernel("distinct", "sum", "count"), arrow_rows=arrow_rows)
        harness.rows([*differ, *repeat])
        told_first = told(harness)
        harness.rows([*repeat, *differ])
        harness.rows(repeat)
        results.append([told_first, told(harness)])
    assert results[0] == results[1]
    # 1,000 rows of the first batch with k1, whose sum is 39,563,324,000, and 770 of the second with 0 to 4.
    assert "+I k1 1005 39563325540 1770" in results[0][0]


def test_rows_are_read_only_where_the_extreme_goes():
    harness = harness_of(kernel("min", "max_t", updates=True))
    harness.rows([row("a", n, "+I", t=str(n)) for n in range(5_000)])
    harness.output()
    harness.restart()
    harness.rows([row("a", 70, "-U", t="70"), row("a", 71, "+U", t="71")])
    assert harness.traffic.bytes_read < 2_000
    harness.rows([row("a", 0, "-D", t="0")])
    assert told(harness) == ["-U a 0 999", "+U a 1 999"]
    assert harness.traffic.bytes_read > 10_000


def test_rows_that_cancel_out_are_dropped():
    harness = harness_of(kernel("min", updates=True))
    harness.rows([row("a", 0, "+I")])
    for n in range(1, 1000):
        harness.rows([row("a", n, "+I"), row("a", n, "-D")])
    assert harness.stores[0].size < 10_000


# --- time to live ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["count", "distinct", "min"])
@pytest.mark.parametrize("updates", [False, True], ids=["inserts", "changes"])
def test_groups_are_forgotten_after_their_time(name, updates):
    kind = "+I" if updates else None
    harness = harness_of(kernel(name, updates=updates, ttl=10 * SECOND), restarts=True)
    harness.batch([row("a", 1, kind), row("b", 1, kind)], processing_time=SECOND)
    harness.batch([row("a", 1, kind)], processing_time=6 * SECOND)
    harness.output()
    assert harness.next_timer(Domain.PROCESSING) == 11 * SECOND
    harness.batch([row("b", 2, kind)], processing_time=12 * SECOND)
    assert [output["k"] for output in harness.output() if output[ROW_KIND] == "+I"] == ["b"], "it is new again"
    harness.processing_time(30 * SECOND)
    assert told(harness) == []
    assert harness.stores[0].size == 0
    assert harness.next_timer(Domain.PROCESSING) == END_OF_TIME


def test_the_same_result_comes_out_again_where_operators_above_forget():
    harness = harness_of(kernel("min", ttl=10 * SECOND))
    harness.batch([row("a", 1)], processing_time=SECOND)
    harness.batch([row("a", 2)], processing_time=2 * SECOND)
    assert told(harness) == ["+I a 1", "-U a 1", "+U a 1"]
    harness.finish()
    harness.rows([row("a", 0)])
    assert told(harness) == ["-U a 1", "+U a 0"], "no time passes any more"
