"""Results of joins in which a left row has one partner at most: each left row beside it, in the order of the left."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.joins.condition import Condition, columns_read
from sqlstream.udfs.joins.deciding import fulfilling
from sqlstream.udfs.joins.pairs import Indices, Pairs
from sqlstream.udfs.joins.results import Side
from sqlstream.udfs.kernel import KEY_HASH, ROW_KIND, Context

_RETRACTIONS = pa.array(["-U", "-D"])


@dataclass(frozen=True)
class Beside:
    """``keys``: columns of both sides. ``outer``: a left row without a partner comes out as well, beside NULLs.
    ``condition``: what a pair must fulfil beside equal keys. No column that comes out is in both sides."""

    sides: tuple[Side, Side]
    keys: tuple[str, ...]
    outer: bool
    condition: Condition | None

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([side.input.field(own).with_name(name) for side in self.sides for name, own in side.outputs])

    def kept(self, port: int, *more: str) -> list[pa.Field]:
        """The columns of a side that must be kept until its rows come out."""
        side = self.sides[port]
        read = (*self.keys, *more, *columns_read(self.condition, port), *(own for _, own in side.outputs))
        return [side.input.field(name) for name in dict.fromkeys((KEY_HASH, *read))]

    def emit(self, left: pa.Table, right: pa.Table, partner: Indices, context: Context) -> None:
        """``partner``: the right row with the key of each left row, -1 for none."""
        matches = self._fulfilling(left, right, partner)
        if not self.outer:
            left, matches = left.filter(pa.array(matches >= 0)), matches[matches >= 0]
        indices = pa.array(matches, mask=matches < 0)
        columns = [left.column(own) for _, own in self.sides[0].outputs]
        columns += [right.column(own).take(indices) for _, own in self.sides[1].outputs]
        context.emit(pa.Table.from_arrays(columns, schema=self.schema))

    def _fulfilling(self, left: pa.Table, right: pa.Table, partner: Indices) -> Indices:
        if self.condition is None:
            return partner
        rows = np.flatnonzero(partner >= 0)
        matches = np.full(len(partner), -1, np.int64)
        for pairs in fulfilling(iter([Pairs(rows, partner[rows])]), self.condition, left, right):
            matches[pairs.left] = pairs.right
        return matches


def retracted(rows: pa.Table) -> np.ndarray:
    """True for rows that say that there is none from now on."""
    if ROW_KIND not in rows.schema.names:
        return np.zeros(rows.num_rows, np.bool_)
    return np.array(pc.is_in(rows.column(ROW_KIND), value_set=_RETRACTIONS))
