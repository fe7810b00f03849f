"""GROUP BY without a window, and set operations, on Spark: types of keys and results, what is read, which clocks."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from sqlstream.planner.operators.group_aggregate import GroupAggregate
from sqlstream.planner.operators.join import Equality, RegularJoin
from sqlstream.planner.operators.set_operation import SetOperation
from sqlstream.udfs.changes import SetKind
from sqlstream.udfs.joins import JoinKind
from sqlstream.udfs.spark import Watermark
from tests.planner.plans import physical
from tests.streams import in_order, item, scan, sql, table, timed

BIDS = table("bids", k="DOUBLE", tags="MAP<STRING, INT>", v="INT", x="DECIMAL(10, 2)")
ROWS = [
    (0.0, {"a": 1, "b": 2}, 1, Decimal("1.50")),
    (-0.0, {"b": 2, "a": 1}, 2, None),
    (float("inf"), {}, None, Decimal("0.25")),
    (None, None, 3, Decimal("0.25")),
]
AGGREGATES = (
    item("n", "COUNT(*)"),
    item("s", "SUM(x) FILTER (WHERE v < 3)", "DECIMAL(20, 2)"),
    item("a", "AVG(v + 1)", "DOUBLE"),
    item("d", "COUNT(DISTINCT v)"),
)


@pytest.mark.spark
def test_groups_have_equal_keys_of_any_type(streams):
    streams.engine = "columnar"
    streams.write(BIDS, ROWS)
    result = streams.run(GroupAggregate(scan(BIDS), ("k", "tags"), AGGREGATES))
    assert result == in_order([
        (0.0, [("a", 1), ("b", 2)], 2, Decimal("1.50"), 2.5, 2, "+I"),
        (float("inf"), [], 1, None, None, 0, "+I"),
        (None, None, 1, None, 4.0, 1, "+I"),
    ])  # fmt: skip


@pytest.mark.spark
def test_changes_of_groups_update_one_row_and_take_it_back(streams):
    streams.engine = "columnar"
    per_key = GroupAggregate(scan(BIDS), ("k",), (item("n", "COUNT(*)"), item("m", "MAX(x)", "DECIMAL(10, 2)")))
    best = GroupAggregate(per_key, (), (item("keys", "COUNT(*)"), item("most", "MIN(m)", "")))
    with streams.running(best) as step:
        streams.write(BIDS, ROWS[:2])
        assert step() == [(1, Decimal("1.50"), "+I")]
        streams.write(BIDS, [(0.0, None, None, Decimal("9.00")), (1.0, None, None, Decimal("3.00"))])
        assert step() == [(1, Decimal("1.50"), "-U"), (2, Decimal("3.00"), "+U")]


@pytest.mark.spark
@pytest.mark.parametrize(("kind", "times"), [(SetKind.INTERSECT_ALL, 1), (SetKind.EXCEPT_ALL, 2)])
def test_rows_of_any_type_are_compared(streams, kind, times):
    streams.engine = "columnar"
    other = replace(BIDS, name="other")
    streams.write(BIDS, [ROWS[0], ROWS[1], ROWS[3], ROWS[3], ROWS[3]])
    streams.write(other, [ROWS[3], ROWS[2]])
    result = streams.run(SetOperation(scan(BIDS), scan(other), kind))
    assert len([row for row in result if row[0] is None]) == times


@pytest.mark.spark
def test_groups_below_what_forgets_by_the_clock_need_no_clock(streams):
    """Spark refuses operators that ask for a watermark where none is below."""
    streams.engine = "columnar"
    other = table("other", k="DOUBLE", place="STRING")
    streams.write(BIDS, ROWS[:2])
    streams.write(other, [(0.0, "Rome")])
    groups = GroupAggregate(scan(BIDS), ("k",), (item("n", "COUNT(*)"),))
    right = GroupAggregate(scan(other), ("place",), (item("j", "MAX(k)", "DOUBLE"),))
    node = RegularJoin(groups, right, JoinKind.INNER, (Equality(sql("k"), sql("j")),), ttl_ms=(60_000, 60_000))
    plan = physical(node, "columnar")
    assert [plan.watermark_of(step) for step in plan.operators] == [Watermark.CLOCK, Watermark.NONE, Watermark.NONE]
    assert streams.run(node) == [(0.0, 2, "Rome", 0.0, "+I")]


def test_operators_over_a_watermark_see_it():
    events = table("events", delay_ms=5000, k="STRING", ts="TIMESTAMP")
    plan = physical(GroupAggregate(timed(events), ("k",), ttl_ms=1000), "columnar")
    assert plan.watermark_of(plan.operators[0]) is plan.clocks.watermark is Watermark.CLOCK


def test_texts_and_facts_tell_what_is_kept():
    node = GroupAggregate(scan(BIDS), ("k",), AGGREGATES[:1], ttl_ms=60_000)
    assert node.describe() == "GroupAggregate(keys k; COUNT(*) AS n; forgets groups after 1 min)"
    assert node.uses_processing_time and not replace(node, ttl_ms=0).uses_processing_time
    facts = dict(node.state_facts())
    assert facts["forgets"] == "groups after a time" and facts["rows"] == "come"
    assert dict(GroupAggregate(node, ("n",)).state_facts())["rows"] == "come and go"
    both = SetOperation(node, node, SetKind.EXCEPT, ttl_ms=1000)
    assert both.describe() == "SetOperation(EXCEPT; forgets rows after 1 s)"
    assert both.uses_processing_time
    assert both.unique_keys == {frozenset({"k", "n"})}
    assert replace(both, kind=SetKind.EXCEPT_ALL).unique_keys == frozenset()
