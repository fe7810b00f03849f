"""Lookups on Spark: keys, answers, the rest of ON, failed rows, and what stands above and below."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from sqlstream.errors import UnsupportedError
from sqlstream.planner.fields import Field, Item
from sqlstream.planner.firing import Firing, LateAction, LateData
from sqlstream.planner.lowering.outputs import main_rows, side_rows
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Correlate, Filter, Project
from sqlstream.planner.operators.lookup import LOOKUP_ERROR, FailedRows, Lookup
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.physical import explain_physical
from sqlstream.planner.windows import Tumble
from sqlstream.plans import side_tables
from sqlstream.types import parse_type
from sqlstream.udfs.lookup.options import LookupOptions, OnError, OnTimeout
from sqlstream.udfs.lookup.sources.fed import Behaviour
from tests.depth import usually
from tests.planner.plans import physical as physical_plan
from tests.streams import Row, item, output, rows_of, scan, sql, table, timed

pytestmark = pytest.mark.spark

ORDERS = table("orders", id="INT", who="BIGINT", note="STRING")
PEOPLE = table("people", id="BIGINT", name="STRING", age="INT")
CITIES = table("cities", name="STRING", city="STRING")
ROWS = [(1, 10, "a"), (2, 20, "b"), (3, None, "c"), (4, 40, "d"), (5, 10, "e")]
FOUND = [(10, "Ann", 31), (20, "Bob", 22), (20, "Bert", 45)]


def people(below: Node, *, outer: bool = False, **more: Any) -> Lookup:
    """Persons by ``who``: their name, and their age as another one reads it."""
    outputs = (item("name", "name", "STRING"), item("decade", "COALESCE(age DIV 10, 0)"))
    keys = (item("id", "who"),)
    read = (Field("name", parse_type("STRING")), Field("age", parse_type("INT")))
    return replace(Lookup(below, PEOPLE, keys, read, outputs, outer), **more)


def columns(plan: Node, *names: str) -> Project:
    types = {f.name: f.type for f in plan.schema}
    return Project(plan, tuple(Item(name, sql(name), types[name]) for name in names))


@pytest.fixture
def fed(streams):
    streams.write(ORDERS, ROWS)
    streams.write(PEOPLE, FOUND)
    return streams


def test_rows_come_once_per_answer_and_outer_ones_also_without_any(fed):
    inner = [(1, "Ann", 3), (2, "Bert", 4), (2, "Bob", 2), (5, "Ann", 3)]
    assert fed.run(columns(people(scan(ORDERS)), "id", "name", "decade")) == inner
    outer = columns(people(scan(ORDERS), outer=True), "id", "name", "decade")
    assert fed.run(outer) == [*inner[:3], (3, None, None), (4, None, None), inner[3]]


def test_the_rest_of_the_condition_decides_about_answers_not_about_rows(fed):
    older = people(scan(ORDERS), outer=True, condition=sql("decade > id AND note <> 'e'"))
    expected = [(1, "Ann"), (2, "Bert"), (3, None), (4, None), (5, None)]
    assert fed.run(columns(older, "id", "name")) == expected
    assert fed.run(columns(replace(older, outer=False), "id", "name")) == expected[:2]


def cities(below: Node) -> Lookup:
    read = (Field("city", parse_type("STRING")),)
    return Lookup(below, CITIES, (item("name", "note", "STRING"),), read, (item("city", "city", "STRING"),), outer=True)


def by_name(below: Node) -> Lookup:
    return replace(cities(below), keys=(item("name", "name", "STRING"),))


def test_lookups_that_need_nothing_of_each_other_are_asked_together(fed):
    fed.write(CITIES, [("a", "Aachen"), ("e", "Erfurt"), ("Ann", "Ankara")])
    together = cities(people(scan(ORDERS)))
    expected = [(1, "Ann", "Aachen"), (2, "Bert", None), (2, "Bob", None), (5, "Ann", "Erfurt")]
    assert fed.run(columns(together, "id", "name", "city")) == expected
    after = by_name(people(scan(ORDERS)))
    expected = [(1, "Ann", "Ankara"), (2, "Bert", None), (2, "Bob", None), (5, "Ann", "Ankara")]
    assert fed.run(columns(after, "id", "name", "city")) == expected
    assert [physical(plan, fed).count("MapInArrow") for plan in (together, after)] == [1, 2]


def test_explain_says_which_lookups_are_asked_together_and_which_wait_in_state():
    def explained(plan):
        return explain_physical(physical_plan(output(plan)))

    both = explained(cities(people(scan(ORDERS))))
    assert both.count("2 lookups asked together: keys, mapInArrow") == 1
    assert both.count("mapInArrow that asks for them up to 100 at the same time per task") == 1
    assert "asked together" not in explained(by_name(people(scan(ORDERS))))
    defers = people(cities(scan(ORDERS)), options=LookupOptions(on_timeout=OnTimeout.DEFER))
    assert explained(defers).count("mapInArrow") == 2
    assert explained(defers).count("state in RocksDB") == 1


def physical(plan: Node, streams) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        streams.lower(output(plan)).explain()
    return printed.getvalue()


def test_the_metrics_are_taken_below_the_filter_that_drops_their_rows(fed):
    plan = Filter(people(scan(ORDERS)), sql("name <> 'Bob' AND id < 5"))
    lines = physical(plan, fed).splitlines()
    asked = next(i for i, line in enumerate(lines) if "MapInArrow" in line)
    counted = next(i for i, line in enumerate(lines) if "CollectMetrics lookup/0" in line)
    filtered = next(i for i, line in enumerate(lines) if "isnull(__lookup_metrics" in line)
    assert filtered < counted < asked


EVENTS = table("events", id="INT", who="BIGINT", ts="TIMESTAMP")


@pytest.mark.parametrize("engine", ["columnar", "native"])
def test_windows_above_a_lookup_close_by_the_watermark_below_it(fed, engine):
    fed.engine = engine
    fed.write(EVENTS, [(1, 10, 100), (2, 20, 900), (3, 99, 950), (4, 10, 1100)])
    counts = WindowAggregate(people(timed(EVENTS)), ("name",), (item("n", "COUNT(*)"),), window=Tumble(1000), time="ts")
    result = fed.run(columns(counts, "name", "n"))
    assert result == [("Ann", 1), ("Ann", 1), ("Bert", 1), ("Bob", 1)]


@pytest.mark.parametrize("engine", ["columnar", "native"])
def test_a_lookup_stands_above_windows(fed, engine):
    fed.engine = engine
    fed.write(EVENTS, [(1, 10, 100), (2, 20, 900), (3, 10, 950), (4, 10, 1100)])
    counts = WindowAggregate(timed(EVENTS), ("who",), (item("n", "COUNT(*)"),), window=Tumble(1000), time="ts")
    result = fed.run(columns(people(counts), "n", "name"))
    assert result == [(1, "Ann"), (1, "Bert"), (1, "Bob"), (2, "Ann")]


FAILED = table("failed", order="INT", why="STRING", name="STRING")
TO = LookupOptions(on_error=OnError.TO)


def failing(below: Node, *names: str) -> Lookup:
    values = (sql("id"), sql(f"`{LOOKUP_ERROR}`"), *(sql(name) for name in names))
    kept = replace(FAILED, columns=FAILED.columns[: len(values)])
    return people(below, options=TO, failed=FailedRows(kept, values))


@contextlib.contextmanager
def parted(streams, plan) -> Iterator[Callable[[], tuple[list[Row], ...]]]:
    """Runs a plan; the function gives the new rows of the result, then those for each table beside it."""
    tables = side_tables(plan)
    collected: list[list[Row]] = [[] for _ in range(1 + len(tables))]
    rows = streams.lower(output(plan))

    def keep(batch, _):
        batch.persist()
        for kept, part in zip(collected, (main_rows(batch), *(side_rows(batch, plan, t) for t in tables)), strict=True):
            kept += rows_of([part.toArrow()])

    checkpoint = str(streams.folder / f"checkpoint-{next(iter(streams.numbers))}")
    query = rows.writeStream.foreachBatch(keep).option("checkpointLocation", checkpoint).start()

    def step() -> tuple[list[Row], ...]:
        query.processAllAvailable()
        came = tuple(map(list, collected))
        for kept in collected:
            kept.clear()
        return came

    try:
        yield step
    finally:
        query.stop()


def test_failed_rows_go_to_their_table_with_what_went_wrong(fed):
    fed.behaviours["people"] = Behaviour(fails=1)
    with parted(fed, columns(failing(scan(ORDERS)), "id", "name")) as step:
        main, failed = step()
    ids = [row[0] for row in failed]
    assert ids in ([1, 2, 4], [1, 2, 4, 5])  # equal keys may be asked for once
    assert all(row[1] for row in failed)
    assert main == ([] if 5 in ids else [(5, "Ann")])


def test_failed_rows_pass_the_lookups_above_unasked_and_carry_what_those_below_found(fed):
    fed.write(CITIES, [("a", "Aachen"), ("b", "Bonn"), ("b", "Berlin")])
    fed.behaviours["people"] = Behaviour(fails=None)
    with parted(fed, columns(failing(cities(scan(ORDERS)), "city"), "id", "city")) as step:
        main, failed = step()
    assert main == []
    assert [(row[0], row[2]) for row in failed] == [(1, "Aachen"), (2, "Berlin"), (2, "Bonn"), (4, None), (5, None)]
    with parted(fed, columns(cities(failing(scan(ORDERS))), "id", "city")) as step:
        main, failed = step()
    assert (main, [row[0] for row in failed]) == ([], [1, 2, 4, 5])


LATE = table("late", who="BIGINT")


@pytest.mark.parametrize("outer", usually([False, True], True))
def test_late_rows_of_windows_pass_the_lookups_above(fed, outer):
    fed.engine, fed.from_rows = "columnar", False
    late = Firing(late=LateData(action=LateAction.TO, table=LATE, values=(sql("who"),)))
    counts = WindowAggregate(timed(EVENTS), ("who",), (item("n", "COUNT(*)"),), window=Tumble(1000), time="ts")
    plan = columns(people(replace(counts, firing=late), outer=outer, condition=sql("decade > 2")), "n", "name")
    fed.write(EVENTS, [(1, 10, 100), (2, 20, 900), (3, 99, 950)])
    fed.lift(EVENTS, 1000)
    with parted(fed, plan) as step:
        assert step() == ([(1, "Ann"), (1, "Bert"), *([(1, None)] if outer else [])], [])
        fed.write(EVENTS, [(4, 10, 200), (5, None, 300), (6, 10, 1500)])
        assert step() == ([], [(10,), (None,)])


def test_what_is_not_executed_says_what_to_write(fed):
    fed.implementations["f"] = _is_adult
    condition = people(scan(ORDERS), outer=True, condition=sql("f(decade)"))
    with pytest.raises(UnsupportedError, match=r'SS380: Python function "f" in the condition of a LEFT .*\nHINT: '):
        fed.lower(output(condition))
    unnested = Correlate(
        failing(scan(ORDERS)), sql("explode(split(note, ','))"), (Field("word", parse_type("STRING")),)
    )
    with pytest.raises(UnsupportedError, match=r"SS398: table functions above LATE DATA TO, ON ERROR TO .*\nHINT: "):
        fed.lower(output(unnested))
    fed.engine = "native"
    defers = people(scan(ORDERS), options=LookupOptions(on_timeout=OnTimeout.DEFER))
    with pytest.raises(UnsupportedError, match=r"SS390: ON TIMEOUT DEFER .*\nHINT: "):
        fed.lower(output(defers))
    above = WindowAggregate(failing(timed(EVENTS)), (), (item("n", "COUNT(*)"),), window=Tumble(1000), time="ts")
    with pytest.raises(UnsupportedError, match=r"SS390: ON ERROR TO below a window .*\nHINT: "):
        fed.lower(output(above))


def test_python_functions_compute_columns_and_conditions_of_answers(fed):
    fed.implementations["f"] = _is_adult
    plan = people(scan(ORDERS), condition=sql("f(decade)"))
    assert fed.run(columns(plan, "id", "name")) == [(1, "Ann"), (2, "Bert"), (5, "Ann")]


def _is_adult(decade: int) -> bool:
    return decade >= 3
