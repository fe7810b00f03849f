"""How rows were mapped: a tree of which each node maps one row, so that open matches share what they begin with."""

from __future__ import annotations

import numpy as np

from sqlstream.udfs.match.line import Indices

ROOT = -1


class Trail:
    """Nodes by number: the place that a row was mapped at, and the node of the row before; ROOT before the first."""

    def __init__(self) -> None:
        self._parents: list[Indices] = []
        self._places: list[Indices] = []
        self._count = 0

    def add(self, parent: Indices, place: Indices) -> Indices:
        """A node for each parent; their numbers."""
        self._parents.append(parent)
        self._places.append(place)
        self._count += len(parent)
        return np.arange(self._count - len(parent), self._count)

    def add_paths(self, places: Indices, lengths: Indices) -> Indices:
        """The nodes of whole paths, one behind the other; the number of the last node of each."""
        node = np.arange(self._count, self._count + len(places))
        parent = node - 1
        ends = np.cumsum(lengths)
        parent[ends - lengths] = ROOT
        self.add(parent, places)
        return node[ends - 1]

    def paths(self, node: Indices, lengths: Indices) -> Indices:
        """The places from the first row to that of each node, which is as many rows long, one behind the other."""
        parents, places = (np.concatenate([np.zeros(0, np.int64), *part]) for part in (self._parents, self._places))
        path = np.empty(int(lengths.sum()), np.int64)
        at, begin = np.cumsum(lengths) - 1, np.cumsum(lengths) - lengths
        while len(at):
            path[at] = places[node]
            further = at > begin
            node, at, begin = parents[node[further]], at[further] - 1, begin[further]
        return path
