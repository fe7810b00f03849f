"""Accumulators: what the state keeps of the rows of a group, and how functions compute their results from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sqlstream.udfs.aggregates.groups import Batch, Groups, Source

Columns = tuple[pa.Array, ...]


@dataclass(frozen=True)
class Accumulator(ABC):
    """One or several columns of state, one row per group. Equal accumulators of several calls are kept once.

    Merging the accumulators of parts, in order, gives the accumulator of the whole.
    """

    source: Source

    @property
    @abstractmethod
    def types(self) -> tuple[pa.DataType, ...]:
        """The types of the columns."""
        ...

    @abstractmethod
    def lift(self, batch: Batch) -> Columns: ...

    @abstractmethod
    def merge(self, columns: Columns, groups: Groups) -> Columns:
        """One accumulator per group out of rows of accumulators, in order."""
        ...

    @property
    def retracts(self) -> bool:
        """True where rows can be taken out again: by merging with the ``negated`` accumulator of these rows."""
        return False

    def negated(self, columns: Columns) -> Columns:
        """The accumulators that take out what these hold. Only where the accumulator ``retracts``."""
        raise NotImplementedError(f"{type(self).__name__} retracts nothing")

    def of_ranges(self, columns: Columns, start: np.ndarray, stop: np.ndarray) -> Columns | None:
        """One accumulator for each range ``[start, stop)`` of rows, from running totals, which cost the same however
        long a range is. None where only ``merge`` finds the same."""
        return None

    def survives(self, columns: Columns, gone: Columns) -> np.ndarray:
        """True where the accumulator stays what it is when rows go whose accumulator is ``gone``, for all it knows."""
        return np.zeros(len(columns[0]), np.bool_)


Finish = Callable[..., pa.Array]
"""From the columns of all accumulators of a call to its results."""


@dataclass(frozen=True)
class Plan:
    """How a call is computed. ``finish`` pickles."""

    accumulators: tuple[Accumulator, ...]
    finish: Finish
