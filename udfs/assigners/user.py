"""Window assigners of users: ``GROUP BY k WINDOW USING f(args)``.

A class whose ``assign`` is asked once per row, in order of arrival, in which windows the row belongs::

    from sqlstream.udfs.assigners.user import AssignerContext, Window

    class UntilMidnight:
        merging = False                           # True: windows of one key that intersect or touch become one

        def __init__(self, hours: int) -> None:   # the constant arguments of the call
            self.length = hours * 3_600_000

        def assign(self, row, time: int, context: AssignerContext) -> list[Window]:
            return [Window(time, time + self.length)]

Times and bounds are whole milliseconds since 1970 (UTC), as in Flink; a window is ``[start, end)``. ``row`` has the
columns of the query's input as attributes, with SQL's NULL as None. A row without windows takes no part in the query.
An assigner keeps nothing from one row to the next: it is made anew whenever a worker starts.

``merging`` may be left out: windows then do not merge. Without a TRIGGER they fire when the clock passes their end.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
import pyarrow as pa

from sqlstream.udfs.assigners.assigner import MILLISECOND, Assigned, times_of
from sqlstream.udfs.columnar import WRONG_RESULT, FunctionError, called, python_values
from sqlstream.udfs.kernel import Context, Domain
from sqlstream.udfs.user_rows import clock_ms, watermark_ms


class Window(NamedTuple):
    """A time window ``[start, end)``, in milliseconds since 1970 (UTC)."""

    start: int
    end: int


@dataclass(frozen=True)
class AssignerContext:
    """What a user's assigner can read: the current watermark and processing time, in milliseconds since 1970.
    ``watermark`` is None before the first watermark.
    """

    processing_time: int
    watermark: int | None


class UserAssigner(Protocol):
    """The interface of an assigner that a user writes; the attribute ``merging`` is optional."""

    def assign(self, row: Any, time: int, context: AssignerContext) -> Iterable[Window]:
        """The windows that contain a row. ``time`` is the row's time in milliseconds since 1970."""
        ...


@dataclass(frozen=True)
class User:
    """The assigner that calls the user's class ``implementation``, an instance of which is created with ``arguments``.
    The user's code gets rows with ``columns``.

    ExecutionError SS411 where the class raises, SS412 where it returns anything but windows with a start before their
    end.
    """

    name: str
    implementation: type
    arguments: tuple[object, ...]
    columns: tuple[str, ...]
    time: str | None
    domain: Domain = Domain.EVENT

    @property
    def merging(self) -> bool:
        """The attribute ``merging`` of the user's class; False if the class does not define it."""
        return bool(getattr(self.implementation, "merging", False))

    def assign(self, rows: pa.Table, context: Context) -> Assigned:
        seen = AssignerContext(clock_ms(context.processing_time), watermark_ms(context.watermark))
        times = (times_of(rows, self.time, context) // MILLISECOND).tolist()
        windows_of_rows = [self._windows(row, time, seen) for row, time in zip(self._rows(rows), times, strict=True)]
        row = np.repeat(np.arange(len(windows_of_rows)), [len(row_windows) for row_windows in windows_of_rows])
        bounds = (
            np.array([bound for row_windows in windows_of_rows for bound in row_windows], np.int64).reshape(-1, 2)
            * MILLISECOND
        )
        return Assigned(row, bounds[:, 0], bounds[:, 1])

    def _windows(self, row: object, time: int, context: AssignerContext) -> list[tuple[int, int]]:
        """The windows of a row, sorted by their ends."""
        returned = called(self.name, self._instance.assign, (row, time, context))
        return sorted(_checked(self.name, returned), key=lambda window: (window[1], window[0]))

    def _rows(self, rows: pa.Table) -> Iterator[object]:
        if not self.columns:
            return (_NO_COLUMNS for _ in range(rows.num_rows))
        row = namedtuple("Row", self.columns, rename=True)  # type: ignore[misc]
        columns = (python_values(rows.column(name).combine_chunks()) for name in self.columns)
        return (row(*values) for values in zip(*columns, strict=True))

    @cached_property
    def _instance(self) -> UserAssigner:
        return cast(UserAssigner, called(self.name, self.implementation, self.arguments))

    def __getstate__(self) -> dict[str, object]:
        """Leaves out the user's instance, which need not be picklable."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


_NO_COLUMNS = namedtuple("Row", ())()


def _checked(name: str, returned: Any) -> list[tuple[int, int]]:
    try:
        windows = [(int(start), int(end)) for start, end in returned]
    except (TypeError, ValueError) as error:
        raise FunctionError(f'{WRONG_RESULT}: assigner "{name}" returned what is no list of windows') from error
    for start, end in windows:
        if start >= end:
            raise FunctionError(f'{WRONG_RESULT}: assigner "{name}" returned a window from {start} to {end}')
    return windows
