"""Window aggregates on streams against plain Python."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal

import pytest

from sqlstream.errors import UnsupportedError
from sqlstream.planner.nodes import Union
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.operators.windows import AssignWindows
from sqlstream.planner.windows import Hop, Session, Tumble, WindowColumns
from tests.streams import at, in_order, item, table, timed

pytestmark = pytest.mark.spark


@pytest.fixture(params=[pytest.param("native", marks=pytest.mark.long), "columnar"])
def streams(request, streams):
    """Both engines give the same results; random windows of both are compared in tests/test_engines.py."""
    streams.engine = request.param
    return streams


BIDS = table("bids", k="STRING", v="INT", x="DECIMAL(10, 2)", ts="TIMESTAMP")
ROWS = [
    ("a", 1, Decimal("1.50"), -1500),
    ("a", 1, Decimal("1.50"), 0),
    ("a", 2, None, 999.999),
    (None, 5, Decimal("2.25"), 10),
    (None, None, Decimal("2.25"), 500),
    ("b", None, None, 1000),
    ("b", 7, Decimal("0.10"), 1999),
    ("a", 3, Decimal("9.00"), 7200),
]


def windows(window, **options):
    return AssignWindows(timed(BIDS), window, "ts", (), **options)


def groups(size, rows=ROWS, keys=lambda row: (row[0],)):
    """Rows by key and start of their tumbling window."""
    collected = defaultdict(list)
    for row in rows:
        collected[(*keys(row), row[3] // size * size)].append(row)
    return collected.items()


def bounds(start, end):
    return at(start), at(end), at(end - 1)


def test_aggregates_of_tumbling_windows_with_null_keys_before_and_after_1970(streams):
    streams.write(BIDS, ROWS)
    aggregates = (item("n", "COUNT(*)"), item("s", "SUM(v)"), item("f", "COUNT(*) FILTER (WHERE v > 1)"))
    result = streams.run(WindowAggregate(windows(Tumble(1000)), ("k",), aggregates))
    assert result == in_order(
        (k, *bounds(w, w + 1000), len(rows), _sum(r[1] for r in rows), sum((r[1] or 0) > 1 for r in rows))
        for (k, w), rows in groups(1000)
    )


def _sum(values):
    present = [v for v in values if v is not None]
    return sum(present) if present else None


DISTINCT = {
    "COUNT(DISTINCT v)": lambda rows: len(_set(rows, 1)),
    "COUNT(DISTINCT k, v)": lambda rows: len({(r[0], r[1]) for r in rows if r[0] is not None and r[1] is not None}),
    "SUM(DISTINCT v)": lambda rows: sum(_set(rows, 1)) if _set(rows, 1) else None,
    "SUM(DISTINCT x)": lambda rows: sum(_set(rows, 2)) if _set(rows, 2) else None,
    "AVG(DISTINCT v)": lambda rows: sum(_set(rows, 1)) / len(_set(rows, 1)) if _set(rows, 1) else None,
    "MAX(DISTINCT v)": lambda rows: max(_set(rows, 1), default=None),
    "COUNT(DISTINCT v) FILTER (WHERE v > 1)": lambda rows: len({v for v in _set(rows, 1) if v > 1}),
}


def _set(rows, column):
    return {r[column] for r in rows if r[column] is not None}


def test_distinct_aggregates_equal_sets(streams):
    streams.write(BIDS, ROWS + ROWS[:3])
    aggregates = tuple(item(f"a{i}", text, "") for i, text in enumerate(DISTINCT))
    result = streams.run(WindowAggregate(windows(Tumble(1000)), ("k",), aggregates))
    expected = (
        (k, *bounds(w, w + 1000), *(model(rows) for model in DISTINCT.values())) for (k, w), rows in groups(1000)
    )
    assert result == in_order(expected)


def test_distinct_lists_keep_each_value_once_and_are_null_or_empty_without_values(streams):
    streams.write(BIDS, ROWS)
    texts = (
        "COLLECT_LIST(DISTINCT v)",
        "LISTAGG(DISTINCT v, '-')",
        "LISTAGG(v, '-')",
        "COLLECT_LIST(v)",
        "LISTAGG(DISTINCT v, '-') WITHIN GROUP (ORDER BY v DESC)",
        "LISTAGG(v, '-') WITHIN GROUP (ORDER BY v)",
        "STRING_AGG(DISTINCT v, '+') WITHIN GROUP (ORDER BY v)",
    )
    aggregates = tuple(item(f"a{i}", text, "") for i, text in enumerate(texts))
    result = streams.run(WindowAggregate(windows(Tumble(10_000)), ("k",), aggregates))
    by_group = {(row[0], row[1]): row[4:] for row in result}
    assert set(by_group) == {("a", at(-10_000)), ("a", at(0)), (None, at(0)), ("b", at(0))}
    assert by_group["a", at(-10_000)] == ([1], "1", "1", [1], "1", "1", "1")
    assert sorted(by_group["a", at(0)][0]) == [1, 2, 3]
    assert sorted(by_group["a", at(0)][1].split("-")) == ["1", "2", "3"]
    assert by_group["a", at(0)][4:] == ("3-2-1", "1-2-3", "1+2+3")
    assert by_group[None, at(0)] == ([5], "5", "5", [5], "5", "5", "5")


def test_distinct_without_a_rewrite_is_refused_on_the_native_engine(streams):
    streams.engine = "native"
    for text, words in (
        ("STDDEV(DISTINCT v)", 'DISTINCT in the aggregate function "stddev"'),
        ("LISTAGG(DISTINCT v, '-') WITHIN GROUP (ORDER BY -v)", "in the order of another expression"),
        ("LISTAGG(DISTINCT v, '-') WITHIN GROUP (ORDER BY v, k)", "in the order of another expression"),
        ("SUM(DISTINCT v, x)", 'DISTINCT of several values in the aggregate function "sum"'),
    ):
        plan = WindowAggregate(windows(Tumble(1000)), ("k",), (item("a", text),))
        with pytest.raises(UnsupportedError, match=words):
            streams.lower(plan)


def test_grouping_sets_aggregate_each_set_by_itself(streams):
    streams.write(BIDS, ROWS)
    sets = (("k", "v"), ("k",), (), ())
    aggregates = (item("n", "COUNT(*)"), item("m", "MIN(v)"))
    plan = WindowAggregate(windows(Tumble(10_000)), ("k", "v"), aggregates, grouping_sets=sets, grouping_id="g")
    expected = []
    for members, grouping_id in zip(sets, (0, 1, 3, 3), strict=True):
        keys = lambda row, m=members: (row[0] if "k" in m else None, row[1] if "v" in m else None)  # noqa: E731
        for (k, v, w), rows in groups(10_000, keys=keys):
            smallest = min((r[1] for r in rows if r[1] is not None), default=None)
            expected.append((k, v, grouping_id, *bounds(w, w + 10_000), len(rows), smallest))
    assert streams.run(plan) == in_order(expected)


def test_windows_over_window_time_and_aggregates_over_attached_windows_are_chained(streams):
    streams.write(BIDS, ROWS)
    lower = WindowAggregate(windows(Hop(1000, 2000)), ("k",), (item("n", "COUNT(*)"),))
    attached = WindowAggregate(lower, (), (item("most", "MAX(n)"),))
    again = WindowColumns("start2", "end2", "time2")
    above = AssignWindows(attached, Tumble(4000), "window_time", (), again)
    result = streams.run(WindowAggregate(above, (), (item("s", "SUM(most)"),), again))

    counts: dict[tuple[str | None, float], int] = defaultdict(int)
    for row in ROWS:
        for start in (row[3] // 1000 * 1000, row[3] // 1000 * 1000 - 1000):
            counts[row[0], start] += 1
    most: dict[float, int] = defaultdict(int)
    for (_, start), n in counts.items():
        most[start] = max(most[start], n)
    sums: dict[float, int] = defaultdict(int)
    for start, n in most.items():
        sums[(start + 1999) // 4000 * 4000] += n
    assert result == in_order((*bounds(start, start + 4000), n) for start, n in sums.items())


def sessions(rows, gap):
    """Sessions of one key: touching ones merge."""
    merged: list[list[tuple]] = []
    for row in sorted(rows, key=lambda r: r[3]):
        if merged and row[3] <= merged[-1][-1][3] + gap:
            merged[-1].append(row)
        else:
            merged.append([row])
    return merged


def by_key(rows=ROWS):
    collected = defaultdict(list)
    for row in rows:
        collected[row[0]].append(row)
    return collected.items()


def test_sessions_per_key_merge_when_they_touch(streams):
    streams.write(BIDS, [*ROWS, ("a", 9, None, 2999), ("b", 9, None, 5999), ("a", 9, None, 1999.999)])
    rows = [*ROWS, ("a", 9, None, 2999), ("b", 9, None, 5999), ("a", 9, None, 1999.999)]
    aggregates = (item("n", "COUNT(*)"), item("d", "COUNT(DISTINCT v)"))
    plan = WindowAggregate(timed(BIDS), ("k",), aggregates, window=Session(1000), time="ts")
    assert streams.run(plan) == in_order(
        (k, *bounds(s[0][3], s[-1][3] + 1000), len(s), len(_set(s, 1)))
        for k, mine in by_key(rows)
        for s in sessions(mine, 1000)
    )


def test_sessions_pick_rows_by_their_arrival(streams):
    rows = [
        ("a", 0, None, 900),
        ("a", 1, None, 100),
        ("a", None, None, 1200),
        ("a", 2, None, 500),
        ("a", None, None, 0),
    ]
    streams.write(BIDS, rows)
    aggregates = (
        item("f", "FIRST_VALUE(v)", "INT"),
        item("l", "LAST_VALUE(v)", "INT"),
        item("p", "LAST_VALUE(v) IGNORE NULLS", "INT"),
        item("w", "FIRST(v) FILTER (WHERE v > 0)", "INT"),
    )
    plan = WindowAggregate(timed(BIDS), ("k",), aggregates, window=Session(1000), time="ts")
    assert streams.run(plan) == [("a", *bounds(0, 2200), 0, None, 2, 1)]


def test_session_table_function_gives_each_row_its_session(streams):
    streams.write(BIDS, ROWS)
    plan = AssignWindows(timed(BIDS), Session(1000), "ts", ("k",))
    expected = (
        (*row[:3], at(row[3]), *bounds(s[0][3], s[-1][3] + 1000))
        for _, mine in by_key()
        for s in sessions(mine, 1000)
        for row in s
    )
    assert streams.run(plan) == in_order(expected)


def test_sessions_with_grouping_sets_are_found_per_set(streams):
    streams.write(BIDS, ROWS)
    plan = WindowAggregate(
        timed(BIDS),
        ("k",),
        (item("n", "COUNT(*)"),),
        window=Session(1000),
        time="ts",
        grouping_sets=(("k",), ()),
    )
    collected = [(k, s) for k, mine in by_key() for s in sessions(mine, 1000)]
    collected += [(None, s) for s in sessions(ROWS, 1000)]
    assert streams.run(plan) == in_order((k, *bounds(s[0][3], s[-1][3] + 1000), len(s)) for k, s in collected)


def test_timestamps_without_time_zone_make_windows_too(streams):
    local = table("local", v="INT", ts="TIMESTAMP_NTZ")
    streams.write(local, [(1, -1), (2, 0), (3, 999)])
    plan = WindowAggregate(AssignWindows(timed(local), Tumble(1000), "ts", ()), (), (item("s", "SUM(v)"),))
    assert streams.run(plan) == in_order([(*bounds(-1000, 0), 1), (*bounds(0, 1000), 5)])


def test_a_table_read_twice_counts_twice(streams):
    streams.write(BIDS, ROWS)
    both = Union((timed(BIDS), timed(BIDS)))
    plan = WindowAggregate(AssignWindows(both, Tumble(100_000), "ts", ()), (), (item("n", "COUNT(*)"),))
    assert streams.run(plan) == in_order([(*bounds(-100_000, 0), 2), (*bounds(0, 100_000), 14)])


def test_an_aggregate_without_functions_gives_distinct_keys(streams):
    streams.write(BIDS, ROWS)
    result = streams.run(WindowAggregate(windows(Tumble(1000)), ("k",), ()))
    assert result == in_order((k, *bounds(w, w + 1000)) for (k, w), _ in groups(1000))
