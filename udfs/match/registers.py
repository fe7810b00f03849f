"""What open matches remember of the rows that they have mapped, as far as conditions on later rows read it.

For each variable that conditions read beside the row in question: its last and its first rows, as many as are read, and
a number that tells sets of rows apart where aggregates are read. A row of numbers for each, a column for each thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from sqlstream.udfs.match.automaton import Automaton
from sqlstream.udfs.match.line import NO_ROW, Indices
from sqlstream.udfs.match.operands import Aggregated, Current, Mapped, Operand

_MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class _Slots:
    """The rows of the registers that are about one variable: of its last rows, of its first, and of their set."""

    variable: int
    last: range
    first: range
    set: range

    @property
    def all(self) -> range:
        return range(self.last.start, self.set.stop)


class Registers:
    """Which registers there are for the ``conditions`` on rows of each variable, by its number."""

    def __init__(self, automaton: Automaton, operands: Iterable[Operand]) -> None:
        lasts: dict[str, int] = {}
        firsts: dict[str, int] = {}
        sets: dict[str, int] = {}
        for operand in operands:
            if isinstance(operand, Current) or operand.variable is None:
                continue
            of_kind = sets if isinstance(operand, Aggregated) else lasts if operand.last else firsts
            count = operand.offset + 1 if isinstance(operand, Mapped) else 1
            of_kind[operand.variable] = max(of_kind.get(operand.variable, 0), count)
        self._slots: dict[str, _Slots] = {}
        self.count = 0
        for name in automaton.names:
            if name in lasts or name in firsts or name in sets:
                self._slots[name] = self._added(automaton.names.index(name), lasts, firsts, sets, name)

    def _added(
        self, number: int, lasts: dict[str, int], firsts: dict[str, int], sets: dict[str, int], name: str
    ) -> _Slots:
        bounds = [self.count]
        for counts in (lasts, firsts, sets):
            bounds.append(bounds[-1] + counts.get(name, 0))
        self.count = bounds[-1]
        last, first, of_set = (range(*bounds[i : i + 2]) for i in range(3))
        return _Slots(number, last, first, of_set)

    def empty(self, count: int) -> Indices:
        """Of matches without rows."""
        return np.full((self.count, count), NO_ROW, np.int64)

    def row_of(self, read: Mapped, values: Indices, mapped_to: str, row: Indices, start: Indices) -> Indices:
        """The row that is read while ``row`` is about to be mapped to a variable, for matches from ``start`` on that
        have these values; NO_ROW for none. What it is shifted by is left out."""
        if read.variable is None:
            wanted = row - read.offset if read.last else start + read.offset
            return np.where((wanted >= start) & (wanted <= row), wanted, NO_ROW)
        own, slots = read.variable == mapped_to, self._slots[read.variable]
        if read.last:
            if own and read.offset == 0:
                return row
            return np.asarray(values[slots.last[read.offset - own]])
        stored = values[slots.first[read.offset]]
        if not own:
            return np.asarray(stored)
        is_next = stored == NO_ROW
        if read.offset:
            is_next &= values[slots.first[read.offset - 1]] != NO_ROW
        return np.where(is_next, row, stored)

    def mapped(self, values: Indices, variable: Indices, row: Indices) -> Indices:
        """The values after each row was mapped to a variable, given by its number; changes ``values``."""
        for slots in self._slots.values():
            chosen = np.flatnonzero(variable == slots.variable)
            if not len(chosen):
                continue
            for slot in reversed(slots.last[1:]):
                values[slot, chosen] = values[slot - 1, chosen]
            if slots.last:
                values[slots.last[0], chosen] = row[chosen]
            for slot in reversed(slots.first):
                is_next = values[slot, chosen] == NO_ROW
                if slot > slots.first[0]:
                    is_next &= values[slot - 1, chosen] != NO_ROW
                values[slot, chosen[is_next]] = row[chosen[is_next]]
            for slot in slots.set:
                values[slot, chosen] = _mixed(values[slot, chosen], row[chosen])
        return values

    def forget(self, values: Indices, place: Indices, is_read: np.ndarray) -> None:
        """Clears what no condition on rows behind a place reads. ``is_read``: by place and variable."""
        for slots in self._slots.values():
            unread = ~is_read[place, slots.variable]
            if unread.any():
                values[slots.all.start : slots.all.stop, unread] = NO_ROW

    @property
    def rows(self) -> list[int]:
        """The registers that are rows."""
        return [slot for slots in self._slots.values() for slot in (*slots.last, *slots.first)]


def _mixed(of_set: Indices, row: Indices) -> Indices:
    with np.errstate(over="ignore"):
        mixed = (of_set.astype(np.uint64) ^ row.astype(np.uint64)) * _MIX
        mixed ^= mixed >> np.uint64(29)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(32)
    return mixed.astype(np.int64)


def told_apart(values: Indices) -> Indices:
    """A number for each column of registers, equal for equal ones."""
    numbers = np.zeros(values.shape[1], np.int64)
    for line in values:
        numbers = _mixed(numbers, line)
    return numbers
