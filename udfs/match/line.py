"""The rows of some keys in the order in which they are matched, and how they were mapped."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Indices = npt.NDArray[np.int64]
Times = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

NO_ROW = -1


@dataclass(frozen=True)
class Line:
    """``table``: the rows by key, in order. Of each key, rows ``[begin, next)`` were mapped in earlier calls, ``[next,
    ready)`` are to be mapped now, and ``[ready, stop)`` later, when the rows after them are known."""

    table: pa.Table
    time: Times
    begin: Indices
    next: Indices
    ready: Indices
    stop: Indices

    def __len__(self) -> int:
        return len(self.time)

    @cached_property
    def key(self) -> Indices:
        """The number of the key of each row."""
        return np.repeat(np.arange(len(self.begin)), self.stop - self.begin)

    def shifted(self, rows: Indices, shift: int) -> Indices:
        """The rows of the same keys, ``shift`` rows after these; NO_ROW where there is none."""
        if shift == 0:
            return rows
        to, key = rows + shift, self.key[rows]
        is_there = (rows != NO_ROW) & (to >= self.begin[key]) & (to < self.stop[key])
        return np.where(is_there, to, NO_ROW)

    def values(self, column: str, rows: Indices, absent: str | None = None) -> pa.Array:
        """A column in these rows; for NO_ROW it is NULL, or the value of the constant column ``absent``."""
        values = self.column(column)
        missing = rows == NO_ROW
        if not missing.any():
            return values.take(pa.array(rows))
        values_there = values.take(pa.array(rows, mask=missing))
        if absent is None or not len(self):
            return values_there
        return pc.if_else(pa.array(missing), self.column(absent)[0], values_there)

    def column(self, name: str) -> pa.Array:
        """A column of the table in one chunk."""
        column = self.table.column(name)
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


# --- mappings of rows as a tree: open matches share their common beginning ------------------------------------


ROOT = -1


class Trail:
    """A tree of mappings. A node is the place that a row was mapped at, and the node of the row before; ROOT before the
    first. Open matches share their common beginning."""

    def __init__(self) -> None:
        self._parents: list[Indices] = []
        self._places: list[Indices] = []
        self._count = 0

    def add(self, parent: Indices, place: Indices) -> Indices:
        """Adds a node for each parent. Returns their numbers."""
        self._parents.append(parent)
        self._places.append(place)
        self._count += len(parent)
        return np.arange(self._count - len(parent), self._count)

    def add_paths(self, places: Indices, lengths: Indices) -> Indices:
        """Adds the nodes of whole paths, which are concatenated. Returns the last node of each."""
        node = np.arange(self._count, self._count + len(places))
        parent = node - 1
        ends = np.cumsum(lengths)
        parent[ends - lengths] = ROOT
        self.add(parent, places)
        return node[ends - 1]

    def paths(self, node: Indices, lengths: Indices) -> Indices:
        """The concatenated paths to these nodes: the places of as many rows as ``lengths`` says."""
        parents, places = (np.concatenate([np.zeros(0, np.int64), *part]) for part in (self._parents, self._places))
        path = np.empty(int(lengths.sum()), np.int64)
        at, begin = np.cumsum(lengths) - 1, np.cumsum(lengths) - lengths
        while len(at):
            path[at] = places[node]
            further = at > begin
            node, at, begin = parents[node[further]], at[further] - 1, begin[further]
        return path
