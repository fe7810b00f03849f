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
    operator = windowed(Newest)
    assert operator.rows(("a", 1, 1), ("a", 1, 2), ("a", 2, 3)) == [("a", 2, 4, 3)]
    assert operator.rows(("a", 2, 4), ("a", 3, 5), ("a", 3, 6)) == [("a", 2, 7, 6)]


def test_a_class_may_evict_after_the_window_function():
    operator = windowed(Newest, 1, after=True)
    assert operator.rows(("a", 1, 1), ("a", 2, 2), ("a", 3, 3)) == [("a", 1, 4, 6)]
    assert operator.rows(("a", 4, 4), ("a", 5, 5), ("a", 6, 6)) == [("a", 3, 7, 18)]


def test_a_class_may_evict_before_and_after():
    operator = windowed(Both)
    assert operator.rows(("a", None, 1), ("a", 2, 2), ("a", 3, 3)) == [("a", 2, 4, 5)]
    assert operator.rows(("a", 4, 4), ("a", -5, 5), ("a", 6, 6)) == [("a", 3, 7, 13)]


def test_equal_rows_are_told_apart():
    class Second:
        def evict(self, rows, window, ctx):
            return rows[1:]

    operator = windowed(Second)
    operator.harness._restarts = False  # classes within functions do not pickle
    assert operator.rows(("a", 1, 1), ("a", 1, 1), ("a", 1, 1)) == [("a", 1, 2, 2)]


def test_other_rows_than_those_of_the_window_are_refused():
    class Wrong:
        def evict(self, rows, window, ctx):
            return [(1, 2)]

    operator = windowed(Wrong)
    operator.harness._restarts = False
    with pytest.raises(FunctionError, match=r'SS412.* evictor "f" returned something else'):
        operator.rows(("a", 1, 1), ("a", 1, 1), ("a", 1, 1))


def test_classes_describe_themselves_as_evictors():
    for kind, arguments in ((Newest, 1), (Both, 0)):
        described = describe("f", kind, "m:C")
        assert described.kind is FunctionKind.EVICTOR
        assert (described.min_arguments, described.max_arguments) == (0, arguments)
