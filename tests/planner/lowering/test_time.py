"""Watermarks: what closes windows, and what is late."""

from __future__ import annotations

import dataclasses

import pytest
from pyspark.errors import StreamingQueryException

from sqlstream.errors import UnsupportedError
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.nodes import AssignTime, Filter, Project, Scan, Union
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.operators.windows import AssignWindows
from sqlstream.planner.windows import Tumble
from tests.streams import Streams, at, item, output, scan, sql, table, timed

pytestmark = pytest.mark.spark

LEFT = table("left", bounded=False, v="INT", ts="TIMESTAMP")
RIGHT = table("right", bounded=False, delay_ms=500, v="INT", ts="TIMESTAMP")


class Stamped(Streams):
    """A runtime whose rows carry their own clock: here their event time."""

    def read(self, scan, *, in_order=False, located=False):
        return (
            super()
            .read(dataclasses.replace(scan, columns=(*scan.columns, "ts")))
            .selectExpr(*scan.columns, "ts AS __processing_time")
        )


def counted(rows, time="ts", domain=TimeDomain.EVENT):
    windows = AssignWindows(rows, Tumble(1000), time, (), domain=domain)
    return WindowAggregate(windows, (), (item("n", "COUNT(*)"),), domain=domain)


def closed(rows):
    """Start of the window and count of each row of the result."""
    return [(row[0], row[3]) for row in rows]


def test_a_window_closes_a_millisecond_before_its_end_and_rows_are_late_from_then_on(streams):
    with streams.running(counted(Filter(timed(RIGHT), sql("v > 0")))) as step:
        streams.write(RIGHT, [(1, -200), (1, 1498), (0, 400)])
        assert closed(step()) == [(at(-1000), 1)]  # W = 998
        streams.write(RIGHT, [(1, 5), (1, 1499)])
        assert closed(step()) == [(at(0), 1)]  # W = 999
        streams.write(RIGHT, [(1, 999.999), (1, 1000)])
        assert step() == []
        streams.lift(RIGHT, 1999)
        assert closed(step()) == [(at(1000), 3)]


def test_the_slowest_source_holds_the_windows_open(streams):
    with streams.running(counted(Union((timed(LEFT), timed(RIGHT))))) as step:
        streams.write(LEFT, [(1, 100), (1, 5000)])
        assert step() == []
        streams.write(RIGHT, [(1, 200), (1, 1500)])
        assert closed(step()) == [(at(0), 2)]


def test_control_rows_alone_move_the_watermark_where_rows_do_not(streams):
    steps = dataclasses.replace(streams, from_rows=False)
    with steps.running(counted(timed(LEFT))) as step:
        streams.write(LEFT, [(1, 100), (1, 99_000)])
        assert step() == []
        streams.lift(LEFT, 999)
        assert closed(step()) == [(at(0), 1)]


def test_a_row_without_event_time_is_an_error_that_names_table_and_column(streams):
    streams.write(LEFT, [(1, 100), (2, None)])
    with pytest.raises(StreamingQueryException, match='SS401: event time "ts" of table "left" is NULL'):
        streams.run(counted(timed(LEFT)))


def test_rows_that_no_window_reads_hold_no_watermark_back(streams):
    plan = Union((Project(counted(timed(LEFT)), (item("n", "n"),)), Project(timed(RIGHT), (item("n", "v"),))))
    with streams.running(plan) as step:
        streams.write(LEFT, [(1, 100), (1, 5000)])
        streams.write(RIGHT, [(9, None)])
        assert step() == [(1,), (9,)]


def test_processing_time_windows_close_by_the_clock(streams):
    clock = AssignTime(scan(LEFT), "pt", 0, TimeDomain.PROCESSING, "left")
    plan = counted(Filter(clock, sql("v > 0")), "pt", TimeDomain.PROCESSING)
    with streams.running(plan) as step:
        streams.write(LEFT, [(1, None), (0, 5), (2, 7)])
        assert step() == []
        streams.lift(LEFT, 4_000_000_000_000)
        (row,) = step()
        assert row[3] == 2
        assert row[0].microsecond == 0


def test_a_source_may_stamp_the_clock_of_each_row(streams):
    clocked = Stamped(**vars(streams))
    clock = AssignTime(Project(Scan(LEFT, ("v",)), (item("v", "v", "INT"),)), "pt", 0, TimeDomain.PROCESSING, "left")
    streams.write(LEFT, [(1, 100), (2, 1100), (3, 1200)])
    actual = clocked.run(counted(clock, "pt", TimeDomain.PROCESSING))
    assert set(closed(actual)) == {(at(0), 1), (at(1000), 2)}


def test_windows_on_two_clocks_in_one_query_are_refused(streams):
    clock = AssignTime(scan(RIGHT), "pt", 0, TimeDomain.PROCESSING, "right")
    both = Union((counted(timed(LEFT)), counted(clock, "pt", TimeDomain.PROCESSING)))
    with pytest.raises(UnsupportedError, match="SS393"):
        streams.lower(output(both))
