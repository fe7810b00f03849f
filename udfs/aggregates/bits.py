"""BIT_AND, BIT_OR, BIT_XOR."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sqlstream.udfs.aggregates.accumulator import Accumulator, Columns
from sqlstream.udfs.aggregates.groups import Batch, Groups
from sqlstream.udfs.aggregates.numbers import column_of, numbers_of
from sqlstream.udfs.aggregates.sums import without_nulls

_OPERATIONS = {"bit_and": np.bitwise_and, "bit_or": np.bitwise_or, "bit_xor": np.bitwise_xor}


@dataclass(frozen=True)
class Bits(Accumulator):
    """All integers of a group combined bit by bit; NULL for a group without values."""

    type: pa.DataType
    function: str

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (self.type,)

    def lift(self, batch: Batch) -> Columns:
        selection = batch.select(self.source)
        return (self._combined(selection.columns[0], selection.groups),)

    def merge(self, columns: Columns, groups: Groups) -> Columns:
        return (self._combined(*without_nulls(columns[0], groups)),)

    def _combined(self, column: pa.Array, groups: Groups) -> pa.Array:
        numbers = numbers_of(column)
        combined = np.full(groups.count, -1 if self.function == "bit_and" else 0, numbers.dtype)
        _OPERATIONS[self.function].at(combined, groups.ids, numbers)
        return column_of(combined, self.type, groups.empty)
