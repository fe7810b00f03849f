"""Operators without state: one micro-batch, no watermark."""

from __future__ import annotations

import dataclasses

import pytest
from sqlglot import exp

from sqlstream.errors import BindError
from sqlstream.planner.catalog import Column
from sqlstream.planner.lowering import stateless
from sqlstream.planner.nodes import Correlate, Filter, Insert, Project, Scan, Union
from sqlstream.types import DataType
from tests.streams import fields, in_order, item, output, scan, sql, table, timed

pytestmark = pytest.mark.spark

TAGS = table("tags", id="INT", tags="ARRAY<STRING>", parts="ARRAY<STRUCT<a: INT, b: STRING>>")
MAPS = table("maps", id="INT", entries="MAP<STRING, INT>")
TAGS = dataclasses.replace(TAGS, columns=(*TAGS.columns, Column("odd name", DataType("INT"))))
ROWS = [
    (1, ["x", "y"], [{"a": 1, "b": "one"}], -5),
    (2, [], [], 0),
    (3, None, None, 7),
]


def test_projections_filters_and_pushed_predicates(streams):
    streams.write(TAGS, ROWS)
    rows = Scan(TAGS, ("id", "odd name"), (sql("id < 3"),))
    plan = Project(
        Filter(rows, sql("`odd name` < 0 OR id = 2")), (item("twice", "id * 2"), item("l`q", "`odd name` || 'a\\'b'"))
    )
    assert streams.run(plan) == [(2, "-5a'b"), (4, "0a'b")]


@pytest.mark.parametrize("most", [2, 3, 50])
def test_many_conditions_are_those_that_and_joins(streams, monkeypatch, most):
    """In any number of parts; one that is NULL does not hold, and a division waits for the condition that guards it."""
    monkeypatch.setattr(stateless, "MOST_TOGETHER", most)
    streams.write(TAGS, [(i, ["x"] if i % 5 else None, [], None if i == 8 else i) for i in range(10)])
    guarded = ("id <> 0", "`odd name` <> 3", "id > 1 OR id < 1", "10 / id < 10", "size(tags) > 0")
    kept = [(2,), (4,), (6,), (7,), (9,)]
    rows = Scan(TAGS, ("id", "odd name", "tags"), tuple(map(sql, guarded)))
    assert streams.run(Project(rows, (item("id", "id"),))) == kept
    filtered = Filter(scan(TAGS), sql(" AND ".join(f"({condition})" for condition in guarded)))
    assert streams.run(Project(filtered, (item("id", "id"),))) == kept


def test_unions_go_by_position(streams):
    streams.write(TAGS, ROWS)
    first = Project(scan(TAGS), (item("a", "id"), item("b", "'first'")))
    second = Project(scan(TAGS), (item("b", "-id"), item("a", "'second'")))
    expected = [(i, "first") for i in (1, 2, 3)] + [(-i, "second") for i in (1, 2, 3)]
    assert streams.run(Union((first, second))) == in_order(expected)


def unnest(text, offset=None):
    return exp.Unnest(expressions=[sql(text)], offset=offset)


@pytest.mark.parametrize(
    ("function", "outputs", "inner"),
    [
        (unnest("tags"), fields(t="STRING"), [(1, "x"), (1, "y")]),
        (sql("explode(tags)"), fields(t="STRING"), [(1, "x"), (1, "y")]),
        (sql("posexplode(tags)"), fields(i="INT", t="STRING"), [(1, 0, "x"), (1, 1, "y")]),
        (unnest("parts"), fields(a="INT", b="STRING"), [(1, 1, "one")]),
        (unnest("tags", True), fields(t="STRING", i="INT"), [(1, "x", 1), (1, "y", 2)]),
        (unnest("parts", True), fields(x="INT", y="STRING", i="INT"), [(1, 1, "one", 1)]),
        (sql("inline(parts)"), fields(a="INT", b="STRING"), [(1, 1, "one")]),
    ],
    ids=["unnest", "explode", "posexplode", "unnest structs", "ordinality", "structs ordinality", "inline"],
)
def test_generators_give_rows_and_outer_ones_keep_rows_without_any(streams, function, outputs, inner):
    streams.write(TAGS, ROWS)
    kept = Project(scan(TAGS), (item("id", "id"), item("tags", "tags"), item("parts", "parts")))
    names = (item("id", "id"), *(item(f.name, f.name) for f in outputs))
    both = Union(tuple(Project(Correlate(kept, function, outputs, outer), names) for outer in (False, True)))
    missing = [(i, *[None] * len(outputs)) for i in (2, 3)]
    assert streams.run(both) == in_order([*inner, *inner, *missing])


@pytest.mark.parametrize("outer", [False, True])
def test_entries_of_a_map_have_positions_in_its_order(streams, outer):
    streams.write(MAPS, [(1, {"z": 3, "a": None}), (2, {}), (3, None)])
    outputs = fields(k="STRING", v="INT", n="INT")
    rows = Correlate(scan(MAPS), unnest("entries", True), outputs, outer)
    missing = [(2, None, None, None), (3, None, None, None)] if outer else []
    expected = [(1, "z", 3, 1), (1, "a", None, 2), *missing]
    names = (item("id", "id"), *(item(f.name, f.name) for f in outputs))
    assert streams.run(Project(rows, names)) == in_order(expected)


def test_an_insert_names_its_columns_after_the_table(streams):
    target = table("target", a="INT", b="STRING")
    plan = Insert(Project(scan(TAGS), (item("x", "id"), item("y", "'s'"))), target)
    assert streams.lower(plan).columns == ["a", "b"]


def test_a_plan_without_windows_reads_no_control_rows(streams):
    events = table("events", v="INT", ts="TIMESTAMP")
    streams.write(events, [(1, 5)])
    streams.lower(output(timed(events)))
    assert not (streams.folder / "control").exists()


def test_what_only_spark_can_tell_to_be_wrong_is_a_bind_error(streams):
    streams.write(TAGS, ROWS)
    with pytest.raises(BindError, match="SS290: Spark refuses the query"):
        streams.lower(output(Project(scan(TAGS), (item("x", "explode(id)"),))))
