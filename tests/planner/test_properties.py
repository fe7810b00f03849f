"""Derived properties of plans."""

import pytest
from sqlglot import exp

from sqlstream.planner.catalog import APPEND_ONLY, Column, RowKind, Table, TimeDomain
from sqlstream.planner.changes import changes_of
from sqlstream.planner.explain.text import properties_text
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Filter, Scan
from sqlstream.planner.operators.joined_sides import joined_scans
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.properties import ArrivalOrder, WindowInfo, changelog_text
from sqlstream.planner.rules import optimize
from sqlstream.planner.windows import Session, Tumble
from sqlstream.types import INT
from tests.planner.plans import plan

TUMBLE = "FROM TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' SECOND)"
UPDATING = Table("u", (Column("id", INT), Column("v", INT)), "test", primary_key=("id",), changelog=frozenset(RowKind))


def inner(text: str) -> Node:
    return plan(text).inputs[0]


def window(text: str) -> WindowInfo:
    actual = inner(text).window_info
    assert actual is not None
    return actual


def test_changelog_passes_through_stateless_nodes_and_ends_at_windows():
    scan = Scan(UPDATING, ("id", "v"))
    assert changelog_text(scan.changelog_mode) == "I,UB,UA,D"
    assert inner(f"SELECT COUNT(*) {TUMBLE} GROUP BY window_start, window_end").changelog_mode == APPEND_ONLY
    assert inner("SELECT item FROM bids UNION ALL SELECT k FROM plain").changelog_mode == APPEND_ONLY


def test_primary_key_is_unique_while_its_columns_are_there():
    scan = Scan(UPDATING, ("id", "v"))
    assert scan.unique_keys == {frozenset({"id"})}
    assert Scan(UPDATING, ("v",)).unique_keys == frozenset()


def test_keys_and_window_are_unique_above_an_aggregate_and_follow_renaming():
    keys = "GROUP BY item, window_start, window_end"
    node = inner(f"SELECT item AS i, window_start AS s, window_end AS e, COUNT(*) {TUMBLE} {keys}")
    assert node.unique_keys == {frozenset({"i", "s", "e"})}
    assert inner(f"SELECT item, COUNT(*) {TUMBLE} GROUP BY item, window_start, window_end").unique_keys == frozenset()


def test_watermark_is_the_slowest_of_all_inputs():
    text = "SELECT ts FROM bids UNION ALL SELECT ts FROM plain WATERMARK ts DELAY OF INTERVAL '1' MINUTE"
    assert inner(text).watermark_delay_ms == 60_000
    assert inner("SELECT * FROM clicks").watermark_delay_ms is None


def test_time_attributes_are_fields_of_the_schema():
    assert [(f.name, f.time) for f in inner("SELECT ts AS t, n FROM bids").time_attributes] == [("t", TimeDomain.EVENT)]
    assert [f.name for f in inner(f"SELECT * {TUMBLE}").time_attributes] == ["window_time"]


def test_sources_are_unbounded_unless_their_table_says_so():
    assert not inner("SELECT item FROM bids").bounded
    assert Filter(Scan(Table("t", (), "files", bounded=True), ()), exp.true()).bounded


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("SELECT UPPER(item) FROM bids WHERE n > 1", ArrivalOrder.SOURCE),
        (f"SELECT * {TUMBLE}", ArrivalOrder.SOURCE),
        ("SELECT * FROM SESSION(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' SECOND)", ArrivalOrder.WINDOW),
        ("SELECT item FROM bids UNION ALL SELECT k FROM plain", ArrivalOrder.MIXED),
        (f"SELECT COUNT(*) {TUMBLE} GROUP BY window_start, window_end", ArrivalOrder.WINDOW),
    ],
)
def test_rows_arrive_in_an_order(text, order):
    assert inner(text).arrival_order is order


def test_window_follows_its_columns_through_projections():
    actual = window(f"SELECT window_start AS s, item, window_time AS t {TUMBLE} WHERE n > 1")
    assert (actual.window, actual.columns) == (Tumble(10_000), ("s", None, "t"))
    assert inner(f"SELECT item {TUMBLE}").window_info is None
    assert inner("SELECT item FROM bids").window_info is None


def test_window_of_a_union_is_that_of_all_branches():
    same = (
        f"SELECT window_start, n {TUMBLE} UNION ALL "
        "SELECT window_start, n FROM TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '{}' SECOND)"
    )
    assert window(same.format(10)).window == Tumble(10_000)
    assert inner(same.format(20)).window_info is None


def test_sessions_know_their_keys():
    session = "SELECT {} FROM SESSION(TABLE bids PARTITION BY item, DESCRIPTOR(ts), INTERVAL '1' SECOND)"
    actual = window(session.format("item AS i, window_start, window_end"))
    assert (actual.window, actual.keys) == (Session(1000), ("i",))
    assert window(session.format("window_start, window_end")).keys is None


def test_properties_are_one_line():
    optimized = optimize(plan(f"SELECT item, COUNT(*) {TUMBLE} GROUP BY item, window_start, window_end"))
    node = next(n for n in optimized.walk() if isinstance(n, WindowAggregate))
    assert properties_text(changes_of(node)) == (
        "[append] time window_time (event time), watermark delay 5 s, unique (item, window_end, window_start), "
        "unbounded, order window"
    )


def test_rows_that_are_joined_as_they_are():
    """Not those below an aggregate, and of a join of three tables both others."""
    counted = "(SELECT k, COUNT(*) AS n FROM plain GROUP BY k) AS counted"
    joins = f"bids AS b JOIN plain AS p ON b.item = p.k JOIN {counted} ON counted.k = b.item"
    joined = joined_scans(plan(f"SELECT b.item FROM {joins}"))
    assert {name: [scan.table.name for scan in scans] for name, scans in joined.items()} == {
        "bids": ["plain"],
        "plain": ["bids"],
    }
    assert joined_scans(plan("SELECT item FROM bids UNION ALL SELECT k FROM plain")) == {}
