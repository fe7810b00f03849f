from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sqlstream.udfs.assigners.assigner import Windows, merge_sessions
from sqlstream.udfs.assigners.user import AssignerContext, User, Window
from sqlstream.udfs.columnar import FunctionError
from sqlstream.udfs.kernel import NO_WATERMARK

CONTEXT = SimpleNamespace(processing_time=70_000, watermark=NO_WATERMARK)
ROWS = pa.table({"k": ["a", None, "a"], "ts": pa.array([5_999, -1, 12_000], pa.timestamp("us", "UTC"))})


class AlternatingLengths:
    """Rows of no key have no window; the others one from their time on, and one around it."""

    merging = True

    def __init__(self, length: int) -> None:
        self.length = length
        self.not_to_be_pickled = lambda: None

    def assign(self, row: Any, time: int, context: AssignerContext) -> list[Window]:
        assert row.ts is not None
        if row.k is None:
            return []
        return [Window(time, time + self.length), Window(time - 1, time + 1)]


def user(implementation: type, *arguments: object) -> User:
    return User("f", implementation, arguments, ("k", "ts"), "ts")


def test_a_row_belongs_to_the_windows_that_the_class_returns():
    assigned = user(AlternatingLengths, 7).assign(ROWS, CONTEXT)
    assert assigned.row.tolist() == [0, 0, 2, 2]
    assert assigned.start.tolist() == [4_000, 5_000, 11_000, 12_000]
    assert assigned.end.tolist() == [6_000, 12_000, 13_000, 19_000]


def test_it_pickles_after_it_was_used():
    assigner = user(AlternatingLengths, 7)
    expected = assigner.assign(ROWS, CONTEXT)
    again = pickle.loads(pickle.dumps(assigner))
    assert again == assigner
    assert [part.tolist() for part in again.assign(ROWS, CONTEXT)] == [part.tolist() for part in expected]


def test_windows_of_a_merging_assigner_that_touch_become_one():
    assigner = user(AlternatingLengths, 7)
    assert assigner.merging
    row, start, end = assigner.assign(ROWS, CONTEXT)
    nothing = np.zeros(0, np.int64)
    sessions = merge_sessions(Windows(nothing, nothing, nothing), Windows(np.zeros_like(row), start, end), NO_WATERMARK)
    assert (sessions.windows.start.tolist(), sessions.windows.end.tolist()) == ([4_000], [19_000])


def test_attributes_may_be_left_out():
    class Plain:
        def assign(self, row: Any, time: int, context: AssignerContext) -> list[tuple[int, int]]:
            assert context == AssignerContext(71, 3)  # 70 ms have passed
            assert row.ts == datetime.fromtimestamp(0, UTC)
            return [(0, 10)]

    assigner = user(Plain)
    assert not assigner.merging
    row = pa.table({"k": ["a"], "ts": pa.array([0], pa.timestamp("us", "UTC"))})
    assert assigner.assign(row, SimpleNamespace(processing_time=70_000, watermark=3_000)).end.tolist() == [10_000]


def test_no_rows_have_no_windows():
    assert [part.tolist() for part in user(AlternatingLengths, 7).assign(ROWS.slice(0, 0), CONTEXT)] == [[], [], []]


@pytest.mark.parametrize(
    ("windows", "told"),
    [
        (lambda: 1 / 0, "SS411.*ZeroDivisionError"),
        (lambda: None, "SS412.*no list of windows"),
        (lambda: [(1, 2, 3)], "SS412.*no list of windows"),
        (lambda: [(5, 5)], "SS412.*from 5 to 5"),
    ],
)
def test_a_class_that_fails_is_an_error_that_names_it(windows: Callable[[], Any], told: str):
    class Failing:
        def assign(self, row: Any, time: int, context: AssignerContext) -> Any:
            return windows()

    with pytest.raises(FunctionError, match=told) as error:
        user(Failing).assign(ROWS, CONTEXT)
    assert '"f"' in str(error.value)
