"""The evictors of the dialect, for many windows at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.kernel import Context

Values = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Panes:
    """The rows of the windows that fire: ``rows`` window by window, each in order of arrival, none empty.

    ``starts`` is the first row of each window; ``start`` and ``end`` are the bounds of each window in microseconds.
    ``context`` has the clocks.
    """

    rows: pa.Table
    starts: Values
    start: Values
    end: Values
    context: Context

    @property
    def sizes(self) -> Values:
        """The number of rows of each window."""
        return np.diff(self.starts, append=self.rows.num_rows)

    @property
    def window(self) -> Values:
        """The number of the window of each row."""
        return np.repeat(np.arange(len(self.starts)), self.sizes)

    @property
    def last(self) -> Values:
        """The last row of each window."""
        return self.starts + self.sizes - 1

    def numbers(self, name: str) -> Values:
        """A numeric column as DOUBLE; NULL is NaN."""
        values: Values = pc.cast(self.rows.column(name), pa.float64(), safe=False).to_numpy()
        return values

    def times(self, name: str) -> Values:
        """A TIMESTAMP or BIGINT column of microseconds."""
        values: Values = pc.cast(self.rows.column(name), pa.int64()).to_numpy()
        return values


class Evictor(Protocol):
    """An evictor. Implementations are frozen and picklable."""

    def before(self, panes: Panes) -> Values | None:
        """True for rows to keep before the window function is applied; None for all."""
        ...

    def after(self, panes: Panes) -> Values | None:
        """True for rows to keep after the window function was applied; None for all."""
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
    """Flink's TimeEvictor: keeps rows that are less than ``interval`` microseconds older than the newest."""

    interval: int
    time: str
    evicts_after: bool = False

    def stays(self, panes: Panes) -> Values:
        times = panes.times(self.time)
        newest = np.maximum.reduceat(times, panes.starts)
        return times > np.repeat(newest - self.interval, panes.sizes)


@dataclass(frozen=True)
class EvictDelta(_OnceEvictor):
    """Flink's DeltaEvictor: removes a row if the value of the last row minus its own value reaches its threshold."""

    value: str
    threshold: str
    absolute: bool = False
    evicts_after: bool = False

    def stays(self, panes: Panes) -> Values:
        value = panes.numbers(self.value)
        delta = np.repeat(value[panes.last], panes.sizes) - value
        return ~((np.abs(delta) if self.absolute else delta) >= panes.numbers(self.threshold))
