"""Evictors: the rows that are removed from a window at a firing; those of the dialect, and the interface for users."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.assigners.user import Window
from sqlstream.udfs.columnar import WRONG_RESULT, FunctionError, called
from sqlstream.udfs.kernel import Context
from sqlstream.udfs.user_rows import MILLISECOND, clock_ms, user_rows, watermark_ms

__all__ = ["EvictDelta", "Evictor", "EvictorContext", "KeepInterval", "KeepRows", "Panes", "User", "Window"]

Values = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Panes:
    """The rows of the windows that fire, as an evictor sees them: ``rows`` window by window, each in order of arrival,
    no window empty.

    ``starts`` is the index of the first row of each window; ``start`` and ``end`` are the bounds of each window in
    microseconds since 1970. ``context`` has the clocks.
    """

    rows: pa.Table
    starts: Values
    start: Values
    end: Values
    context: Context

    @property
    def sizes(self) -> Values:
        """The number of rows of each window, as an array."""
        return np.diff(self.starts, append=self.rows.num_rows)

    @property
    def window(self) -> Values:
        """For each row the index of its window."""
        return np.repeat(np.arange(len(self.starts)), self.sizes)

    @property
    def last(self) -> Values:
        """For each window the index of its last row."""
        return self.starts + self.sizes - 1

    def numbers(self, name: str) -> Values:
        """The numeric column ``name`` as a float64 array, one value per row; NULL is NaN."""
        values: Values = pc.cast(self.rows.column(name), pa.float64(), safe=False).to_numpy()
        return values

    def times(self, name: str) -> Values:
        """The TIMESTAMP or BIGINT column ``name`` as int64 microseconds, one value per row."""
        values: Values = pc.cast(self.rows.column(name), pa.int64()).to_numpy()
        return values


class Evictor(Protocol):
    """The interface of evictors. Implementations are frozen and picklable."""

    def before(self, panes: Panes) -> Values | None:
        """One boolean per row: true if it remains for the window function. None if all rows remain."""
        ...

    def after(self, panes: Panes) -> Values | None:
        """One boolean per row: true if it remains in the window after the window function was applied. None if all rows
        remain.
        """
        ...


class _OnceEvictor:
    """Evicts either before or after the window function."""

    evicts_after: bool

    def stays(self, panes: Panes) -> Values:
        raise NotImplementedError

    def before(self, panes: Panes) -> Values | None:
        return None if self.evicts_after else self.stays(panes)

    def after(self, panes: Panes) -> Values | None:
        return self.stays(panes) if self.evicts_after else None


@dataclass(frozen=True)
class KeepRows(_OnceEvictor):
    """Flink's CountEvictor: keeps the last ``rows`` rows in order of arrival."""

    rows: int
    evicts_after: bool = False

    def stays(self, panes: Panes) -> Values:
        return np.arange(panes.rows.num_rows) > np.repeat(panes.last - self.rows, panes.sizes)


@dataclass(frozen=True)
class KeepInterval(_OnceEvictor):
    """Flink's TimeEvictor: keeps rows that are less than ``interval`` microseconds older than the newest row of the
    window.
    """

    interval: int
    time: str
    evicts_after: bool = False

    def stays(self, panes: Panes) -> Values:
        times = panes.times(self.time)
        newest = np.maximum.reduceat(times, panes.starts)
        return times > np.repeat(newest - self.interval, panes.sizes)


@dataclass(frozen=True)
class EvictDelta(_OnceEvictor):
    """Flink's DeltaEvictor: removes a row if the value of the window's last row minus the row's own value reaches its
    threshold.
    """

    value: str
    threshold: str
    absolute: bool = False
    evicts_after: bool = False

    def stays(self, panes: Panes) -> Values:
        value = panes.numbers(self.value)
        delta = np.repeat(value[panes.last], panes.sizes) - value
        return ~((np.abs(delta) if self.absolute else delta) >= panes.numbers(self.threshold))


# --- evictors of users: ``EVICT [BEFORE | AFTER] USING f(args)`` -------------------------------------------------
# A class that is asked at each firing of a window which of its rows stay::
#
#     from sqlstream.udfs.evictors import EvictorContext, Window
#
#     class Distinct:
#         def __init__(self, most: int) -> None:                # the constant arguments of the call
#             self.most = most
#
#         def evict(self, rows: list, window: Window, ctx: EvictorContext) -> list:
#             newest = {row.device: row for row in rows}        # the last row of each device
#             return list(newest.values())[-self.most:]
#
# ``rows`` are all rows that the window holds, in order of arrival, with the columns of the query's input as attributes
# and SQL's NULL as None. What comes back are those that stay, in any order; the others leave the window for good.
# A class may have ``evict_before`` and ``evict_after`` instead, called before and after the window function.
# Bounds and clocks are whole milliseconds since 1970 (UTC). Errors: SS411 where a method raises, SS412 where it returns
# something else than rows that it was given.


@dataclass(frozen=True)
class EvictorContext:
    """What a user's evictor can read: the current watermark and processing time, in milliseconds since 1970.
    ``watermark`` is None before the first one.
    """

    processing_time: int
    watermark: int | None


@dataclass(frozen=True)
class User:
    """The evictor that calls an instance of the user's class ``implementation``, created with ``arguments``. The user's
    code gets rows with ``columns``.
    """

    name: str
    implementation: type
    arguments: tuple[object, ...]
    columns: tuple[str, ...]
    evicts_after: bool = False

    def before(self, panes: Panes) -> Values | None:
        return self._stays(panes, "evict_before", not self.evicts_after)

    def after(self, panes: Panes) -> Values | None:
        return self._stays(panes, "evict_after", self.evicts_after)

    def _stays(self, panes: Panes, method: str, is_turn: bool) -> Values | None:
        if hasattr(self.implementation, method):
            return self._asked(panes, getattr(self._instance, method))
        if is_turn and hasattr(self.implementation, "evict"):
            return self._asked(panes, self._instance.evict)
        return None

    def _asked(self, panes: Panes, method: Any) -> Values:
        rows = user_rows(panes.rows, self.columns)
        seen = EvictorContext(clock_ms(panes.context.processing_time), watermark_ms(panes.context.watermark))
        stays = np.zeros(len(rows), bool)
        for number, (start, size) in enumerate(zip(panes.starts, panes.sizes, strict=True)):
            window = Window(int(panes.start[number]) // MILLISECOND, int(panes.end[number]) // MILLISECOND)
            stays[start : start + size] = self._kept(rows[start : start + size], window, seen, method)
        return stays

    def _kept(self, rows: list[object], window: Window, seen: EvictorContext, method: Any) -> list[bool]:
        """Which rows remain. Rows are compared by identity, because equal rows may occur twice."""
        returned: Any = called(self.name, method, (list(rows), window, seen))
        index_of = {id(row): number for number, row in enumerate(rows)}
        try:
            kept = {index_of[id(row)] for row in returned}
        except (TypeError, KeyError):
            message = f'{WRONG_RESULT}: evictor "{self.name}" returned something else than rows of the window'
            raise FunctionError(message) from None
        return [number in kept for number in range(len(rows))]

    @cached_property
    def _instance(self) -> Any:
        return called(self.name, self.implementation, self.arguments)

    def __getstate__(self) -> dict[str, object]:
        """Leaves out the user's instance, which need not be picklable."""
        return {field.name: getattr(self, field.name) for field in fields(self)}
