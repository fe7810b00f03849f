"""Results of joins in which a left row has one partner at most: each left row beside it, in the order of the left."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.changes.remembered import Remembered
from sqlstream.udfs.joins.condition import Condition, columns_read
from sqlstream.udfs.joins.deciding import fulfilling
from sqlstream.udfs.joins.pairs import Indices, Pairs
from sqlstream.udfs.joins.results import Side
from sqlstream.udfs.kernel import END_OF_TIME, KEY_HASH, ROW_KIND, Context
from sqlstream.udfs.state.living import Living

_ALONE = "__alone"
"""BOOLEAN column of remembered rows: set where a row has no partner, and so gave no result."""

_RETRACTIONS = pa.array(["-U", "-D"])


@dataclass(frozen=True)
class Beside:
    """``keys``: columns of both sides. ``outer``: a left row without a partner comes out as well, beside NULLs.
    ``condition``: what a pair must fulfil beside equal keys. No column that comes out is in both sides.

    Left rows may be retracted, where they have ROW_KIND: those that are equal in ``told_apart_by`` retract each other,
    with the partner with which they came, which is remembered for the ``ttl`` of the left side.
    """

    sides: tuple[Side, Side]
    keys: tuple[str, ...]
    outer: bool
    condition: Condition | None
    told_apart_by: tuple[str, ...] = ()

    @cached_property
    def schema(self) -> pa.Schema:
        columns = [side.input.field(own).with_name(name) for side in self.sides for name, own in side.outputs]
        return pa.schema([*columns, *([(ROW_KIND, pa.string())] if self.updates else [])])

    @property
    def updates(self) -> bool:
        """True where results are retracted."""
        return self.sides[0].updates

    def kept(self, port: int, *more: str) -> list[pa.Field]:
        """The columns of a side that must be kept until its rows come out."""
        side = self.sides[port]
        read = (*self.keys, *more, *columns_read(self.condition, port), *(own for _, own in side.outputs))
        kind = (ROW_KIND,) if port == 0 and self.updates else ()
        return [side.input.field(name) for name in dict.fromkeys((KEY_HASH, *read, *kind))]

    def emit(self, left: pa.Table, right: pa.Table, partner: Indices, context: Context) -> None:
        """``partner``: the right row with the key of each left row, -1 for none."""
        matches = self._fulfilling(left, right, partner)
        if self.updates:
            context.emit(self._changes(left, right, matches, context))
            return
        if not self.outer:
            left, matches = left.filter(pa.array(matches >= 0)), matches[matches >= 0]
        indices = pa.array(matches, mask=matches < 0)
        columns = [left.column(own) for _, own in self.sides[0].outputs]
        columns += [right.column(own).take(indices) for _, own in self.sides[1].outputs]
        context.emit(pa.Table.from_arrays(columns, schema=self.schema))

    def forget(self, time: int, context: Context) -> None:
        """The partners of left rows whose time to live is up are no longer known."""
        if self.sides[0].ttl:
            self._remembered.forget(time, context)

    def wakes(self, context: Context) -> int:
        """When to call ``forget``."""
        return self._remembered.wakes(context) if self.sides[0].ttl else END_OF_TIME

    def _changes(self, left: pa.Table, right: pa.Table, partner: Indices, context: Context) -> pa.Table:
        """The results that left rows add, and those that they retract. A row without a partner is remembered, too, for
        what retracts it."""
        of_left = [left.column(name) for name in (KEY_HASH, *self._own)]
        indices = pa.array(partner, mask=partner < 0)
        of_right = [right.column(own).take(indices) for _, own in self.sides[1].outputs]
        alone = [] if self.outer else [pa.array(np.ones(len(partner), np.bool_), mask=partner >= 0)]
        columns = [*of_left, *of_right, *alone, left.column(ROW_KIND)]
        changes = self._remembered.results(pa.table(columns, schema=self._remembered.columns), context)
        if not self.outer:
            changes = changes.filter(pc.is_null(changes.column(_ALONE)))
        names = [*(own for _, own in self.sides[0].outputs), *(name for name, _ in self.sides[1].outputs), ROW_KIND]
        return pa.Table.from_arrays([changes.column(name) for name in names], schema=self.schema)

    @cached_property
    def _own(self) -> list[str]:
        """The columns of left rows that come out, or tell them apart."""
        return list(dict.fromkeys((*(own for _, own in self.sides[0].outputs), *self.told_apart_by)))

    @cached_property
    def _remembered(self) -> Remembered:
        left, right = self.sides
        fields = [left.input.field(name) for name in (KEY_HASH, *self._own)]
        fields += [right.input.field(own).with_name(name) for name, own in right.outputs]
        alone = [] if self.outer else [pa.field(_ALONE, pa.bool_())]
        columns = pa.schema([*fields, *alone, pa.field(ROW_KIND, pa.string())])
        return Remembered(columns, self.told_apart_by, Living(left.ttl), None if self.outer else _ALONE)

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
