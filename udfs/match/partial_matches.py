"""Partial matches, which later rows may continue, and the best complete match that begins at each row."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from sqlstream.udfs.match.definitions import NO_ROW, ROOT, Flags, Indices, register_numbers

Accumulators = dict[str | None, pa.Table]


@dataclass(frozen=True)
class PartialMatches:
    """Partial matches that may continue. If rows can be mapped to variables in several ways, several of them begin at
    the same row.

    Each field has one value per partial match; those with the same start are adjacent, in order of preference.
    ``start``: the index of its first row. ``row``: the index of its last mapped row, ``start - 1`` if it has none.
    ``place``: the automaton's place of this row. ``node``: the path of all its rows, as a node of the ``PathTree``.
    ``registers`` and ``accumulators``: the values that conditions read.
    """

    start: Indices
    row: Indices
    place: Indices
    node: Indices
    registers: Indices
    accumulators: Accumulators = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.start)

    def take(self, chosen: Indices) -> PartialMatches:
        """The partial matches with these indices."""
        return PartialMatches(
            self.start[chosen],
            self.row[chosen],
            self.place[chosen],
            self.node[chosen],
            self.registers[:, chosen],
            taken(self.accumulators, chosen),
        )

    def where(self, flags: Flags) -> PartialMatches:
        """The partial matches whose flag is set."""
        return self if flags.all() else self.take(np.flatnonzero(flags))

    def by_start(self) -> PartialMatches:
        """The partial matches sorted by their start; those with the same start keep their order."""
        if (self.start[1:] >= self.start[:-1]).all():
            return self
        return self.take(np.argsort(self.start, kind="stable"))

    def distinct(self, group: Indices) -> PartialMatches:
        """The first of each set of partial matches that continue alike: they have the same ``group``, which is the
        start or the key of each, the same place and equal registers.
        """
        code = group * (int(self.place.max(initial=0)) + 1) + self.place
        ordered = np.sort(code)
        if not (ordered[1:] == ordered[:-1]).any():
            return self
        registers = register_numbers(self.registers)
        order = np.lexsort((registers, code))  # stable
        code, registers = code[order], registers[order]
        is_first = np.ones(len(order), np.bool_)
        is_first[1:] = (code[1:] != code[:-1]) | (registers[1:] != registers[:-1])
        return self.take(np.sort(order[is_first]))


def taken(accumulators: Accumulators, chosen: Indices) -> Accumulators:
    """The accumulators of the partial matches with these indices."""
    return {v: table.take(pa.array(chosen)) for v, table in accumulators.items()}


def together(parts: list[PartialMatches]) -> PartialMatches:
    """Concatenates several ``PartialMatches``."""
    if len(parts) == 1:
        return parts[0]
    return PartialMatches(
        np.concatenate([p.start for p in parts]),
        np.concatenate([p.row for p in parts]),
        np.concatenate([p.place for p in parts]),
        np.concatenate([p.node for p in parts]),
        np.concatenate([p.registers for p in parts], axis=1),
        {v: pa.concat_tables([p.accumulators[v] for p in parts]) for v in parts[0].accumulators},
    )


@dataclass
class BestMatches:
    """The best complete match so far that begins at each row: ``last`` is the index of its last row, NO_ROW if there is
    no match; ``node`` is the path of its rows in the ``PathTree``.
    """

    last: Indices
    node: Indices

    @staticmethod
    def none(count: int) -> BestMatches:
        """The ``BestMatches`` of ``count`` rows at which no match begins."""
        return BestMatches(np.full(count, NO_ROW, np.int64), np.full(count, ROOT, np.int64))
