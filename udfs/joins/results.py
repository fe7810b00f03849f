"""The results of joins: columns of both sides of a pair, of one side with NULL for the other, or of the left side
alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from sqlstream.udfs.joins.kinds import JoinKind
from sqlstream.udfs.joins.pairs import Pairs
from sqlstream.udfs.kernel import ROW_KIND


@dataclass(frozen=True)
class Side:
    """One input. ``outputs``: names of columns of the results, and the columns of ``input`` that they are.

    ``ttl``: how long a regular join keeps rows after they have come, in microseconds; 0 for ever.
    """

    input: pa.Schema
    outputs: tuple[tuple[str, str], ...]
    ttl: int = 0

    @property
    def updates(self) -> bool:
        """True where the join may retract results."""
        return ROW_KIND in self.input.names


@dataclass(frozen=True)
class JoinResults:
    """The columns of the results of a join, in the order of ``schema``."""

    kind: JoinKind
    sides: tuple[Side, Side]

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema(
            [side.input.field(own).with_name(name) for side in self._emitted for name, own in side.outputs]
        )

    def of_pairs(self, left: pa.Table, right: pa.Table, pairs: Pairs) -> Iterator[pa.ChunkedArray]:
        """The result of each pair of rows; for kinds that emit pairs."""
        for side, rows, row_indices in zip(self.sides, (left, right), pairs, strict=True):
            indices = pa.array(row_indices)
            yield from (rows.column(own).take(indices) for _, own in side.outputs)

    def alone(self, port: int, rows: pa.Table) -> Iterator[pa.ChunkedArray]:
        """The results of the rows of one side that have no partner."""
        for number, side in enumerate(self._emitted):
            for _, own in side.outputs:
                yield rows.column(own) if number == port else pa.nulls(rows.num_rows, side.input.field(own).type)

    @property
    def _emitted(self) -> tuple[Side, ...]:
        return self.sides if self.kind.pairs else self.sides[:1]
