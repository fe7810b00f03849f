"""Triggers of users, in windows of the general operator. Times in milliseconds."""

from __future__ import annotations

import pytest

from sqlstream.errors import UnsupportedError
from sqlstream.udfs.assigners import Global, Session, Tumble
from sqlstream.udfs.columnar import FunctionError
from sqlstream.udfs.functions import FunctionKind, describe
from sqlstream.udfs.triggers import EveryRows, MergeContext, Or, Purging, TriggerContext, TriggerResult, User, Window
from tests.udfs.windows.window_harness import MS, Windowed


class AtLeast:
    """Fires when the values since the last firing add up to a total, and at the window's end."""

    def __init__(self, total: int, purges: bool = False) -> None:
        self.total = total
        self.result = TriggerResult.FIRE_AND_PURGE if purges else TriggerResult.FIRE

    def on_element(self, row, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        ctx.register_event_time_timer(window.end - 1)
        ctx.state["sum"] = ctx.state.get("sum", 0) + row.v
        if ctx.state["sum"] < self.total:
            return TriggerResult.CONTINUE
        ctx.state["sum"] = 0
        return self.result

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        assert time == window.end - 1
        return self.result

    def on_merge(self, window: Window, ctx: MergeContext) -> None:
        ctx.state["sum"] = sum(state["sum"] for state in ctx.merged_states)
        ctx.register_event_time_timer(window.end - 1)


class Clock:
    """Fires 5 ms of processing time after the first row; drops what came with a negative value."""

    def on_element(self, row, time, window, ctx):
        if row.v < 0:
            return TriggerResult.PURGE
        if "due" not in ctx.state:
            ctx.state["due"] = ctx.processing_time + 5
            ctx.register_processing_time_timer(ctx.state["due"])
        return TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        assert ctx.state.pop("due") == time
        return TriggerResult.FIRE


def user(kind: type, *arguments: object) -> User:
    return User("f", kind, arguments, ("v",), "ts")


def test_a_class_fires_by_what_it_remembers_of_its_window():
    windowed = Windowed(Tumble("ts", 10 * MS), user(AtLeast, 5))
    assert windowed.rows(("a", 3, 1), ("b", 4, 1), ("a", 2, 2), ("a", 4, 3)) == [("a", 0, 10, 5)]
    assert windowed.rows(("b", 1, 4)) == [("b", 0, 10, 5)]
    assert windowed.watermark(9) == [("a", 0, 10, 9), ("b", 0, 10, 5)]
    assert windowed.finish() == []


def test_a_class_purges_with_and_without_firing():
    windowed = Windowed(Global(), user(AtLeast, 5, True), time="ts")
    assert windowed.rows(("a", 5, 1), ("a", 6, 2), ("a", 1, 3)) == [("a", 1, 2, 5), ("a", 2, 3, 6)]
    windowed = Windowed(Tumble("ts", 10 * MS), user(Clock))
    assert windowed.rows(("a", 3, 1), ("a", -1, 1), ("a", 2, 2)) == []
    assert windowed.processing_time(4) == []
    assert windowed.processing_time(5) == [("a", 0, 10, 2)]


def test_a_class_is_part_of_other_triggers():
    windowed = Windowed(Global(), Purging(Or(user(AtLeast, 5), EveryRows(3))), time="ts")
    actual = windowed.rows(*(("a", v, 1) for v in (1, 1, 1, 1, 4, 9)))
    assert [row[3] for row in actual] == [3, 5, 9]


def test_a_class_hears_of_sessions_that_merge():
    windowed = Windowed(Session("ts", 10 * MS), user(AtLeast, 6))
    assert windowed.rows(("a", 1, 0), ("a", 2, 15)) == []
    assert windowed.rows(("a", 3, 8)) == [("a", 0, 25, 6)]
    assert windowed.watermark(24) == [("a", 0, 25, 6)]


def test_a_class_without_on_merge_is_refused_where_windows_merge():
    with pytest.raises(UnsupportedError, match="the trigger has no on_merge"):
        Windowed(Session("ts", 10 * MS), user(Clock))


def test_errors_of_classes_name_the_trigger():
    class Wrong:
        def on_element(self, row, time, window, ctx):
            return True

    class Failing:
        def on_element(self, row, time, window, ctx):
            return 1 // 0

    for kind, words in ((Wrong, 'SS412.* trigger "f" returned True'), (Failing, 'SS411: function "f" failed')):
        windowed = Windowed(Global(), user(kind), time="ts")
        windowed.harness._restarts = False  # classes within functions do not pickle
        with pytest.raises(FunctionError, match=words):
            windowed.rows(("a", 1, 1))


def test_a_timer_of_processing_time_comes_when_the_millisecond_before_it_has_passed():
    windowed = Windowed(Global(), user(Metronome), time="ts")
    windowed.rows(("a", 1, 1))
    assert windowed.processing_time(8) == []
    assert windowed.processing_time(9) == [("a", 1, 2, 1)]


def test_timers_at_the_end_of_the_input_come_to_an_end():
    windowed = Windowed(Global(), user(Metronome), time="ts")
    windowed.rows(("a", 1, 1))
    assert windowed.processing_time(25) == [("a", 1, 2, 1), ("a", 1, 2, 1)]
    assert windowed.finish() == [("a", 1, 2, 1)]


class Metronome:
    def on_element(self, row, time, window, ctx):
        ctx.register_processing_time_timer(10)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        ctx.register_processing_time_timer(time + 10)
        return TriggerResult.FIRE


def test_classes_describe_themselves_as_triggers():
    described = describe("f", AtLeast, "m:AtLeast")
    assert described.kind is FunctionKind.TRIGGER
    assert [name for name, _ in described.parameters] == ["total", "purges"]
    assert (described.min_arguments, described.max_arguments) == (1, 2)
    assert describe("f", Metronome, "m:Metronome").max_arguments == 0
