"""COUNT, COUNT_IF."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.aggregates.accumulator import Accumulator, Columns
from sqlstream.udfs.aggregates.groups import Batch, Groups
from sqlstream.udfs.aggregates.numbers import numbers_of
from sqlstream.udfs.aggregates.sums import add_up, range_sums


@dataclass(frozen=True)
class Count(Accumulator):
    """Rows per group, never NULL."""

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (pa.int64(),)

    def lift(self, batch: Batch) -> Columns:
        return (pa.array(batch.select(self.source).groups.sizes),)

    def merge(self, columns: Columns, groups: Groups) -> Columns:
        return (pa.array(add_up(numbers_of(columns[0]), groups)),)

    def of_ranges(self, columns: Columns, start: np.ndarray, stop: np.ndarray) -> Columns:
        return (pa.array(range_sums(numbers_of(columns[0]), start, stop)),)

    @property
    def retracts(self) -> bool:
        return True

    def negated(self, columns: Columns) -> Columns:
        return (pc.negate(columns[0]),)
