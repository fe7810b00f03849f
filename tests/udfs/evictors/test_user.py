"""Evictors of users, in windows of the general operator."""

from __future__ import annotations

import pytest

from sqlstream.udfs.assigners import Global
from sqlstream.udfs.columnar import FunctionError
from sqlstream.udfs.evictors import EvictorContext, User, Window
from sqlstream.udfs.functions import FunctionKind, describe
from sqlstream.udfs.triggers import EveryRows
from tests.udfs.windows.window_harness import Windowed


class Newest:
    """Keeps the newest row of each value."""

    def __init__(self, most: int = 10) -> None:
        self.most = most

    def evict(self, rows: list, window: Window, ctx: EvictorContext) -> list:
        return list({row.v: row for row in rows}.values())[-self.most :]


class Both:
    def evict_before(self, rows, window, ctx):
        return [row for row in rows if row.v is not None and row.v > 0]

    def evict_after(self, rows, window, ctx):
        return rows[-1:]


def windowed(kind: type, *arguments: object, after: bool = False) -> Windowed:
    return Windowed(Global(), EveryRows(3), evictor=User("f", kind, arguments, ("v", "ts"), after), time="ts")


def test_a_class_says_which_rows_stay():
    found = windowed(Newest)
    assert found.rows(("a", 1, 1), ("a", 1, 2), ("a", 2, 3)) == [("a", 2, 4, 3)]
    assert found.rows(("a", 2, 4), ("a", 3, 5), ("a", 3, 6)) == [("a", 2, 7, 6)]


def test_a_class_may_evict_after_the_window_function():
    found = windowed(Newest, 1, after=True)
    assert found.rows(("a", 1, 1), ("a", 2, 2), ("a", 3, 3)) == [("a", 1, 4, 6)]
    assert found.rows(("a", 4, 4), ("a", 5, 5), ("a", 6, 6)) == [("a", 3, 7, 18)]


def test_a_class_may_evict_before_and_after():
    found = windowed(Both)
    assert found.rows(("a", None, 1), ("a", 2, 2), ("a", 3, 3)) == [("a", 2, 4, 5)]
    assert found.rows(("a", 4, 4), ("a", -5, 5), ("a", 6, 6)) == [("a", 3, 7, 13)]


def test_equal_rows_are_told_apart():
    class Second:
        def evict(self, rows, window, ctx):
            return rows[1:]

    found = windowed(Second)
    found.harness._restarts = False  # classes within functions do not pickle
    assert found.rows(("a", 1, 1), ("a", 1, 1), ("a", 1, 1)) == [("a", 1, 2, 2)]


def test_other_rows_than_those_of_the_window_are_refused():
    class Wrong:
        def evict(self, rows, window, ctx):
            return [(1, 2)]

    found = windowed(Wrong)
    found.harness._restarts = False
    with pytest.raises(FunctionError, match=r'SS412.* evictor "f" returned something else'):
        found.rows(("a", 1, 1), ("a", 1, 1), ("a", 1, 1))


def test_classes_describe_themselves_as_evictors():
    for kind, arguments in ((Newest, 1), (Both, 0)):
        found = describe("f", kind, "m:C")
        assert found.kind is FunctionKind.EVICTOR
        assert (found.min_arguments, found.max_arguments) == (0, arguments)
