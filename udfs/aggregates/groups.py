"""Rows that belong to groups, and what is computed once for all aggregates over them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.row_kinds import gone_of


class Groups:
    """``ids``: the group of each row, int64 in ``[0, count)``."""

    def __init__(self, ids: np.ndarray, count: int) -> None:
        self.ids: np.ndarray = np.asarray(ids, np.int64)
        self.count = count

    @cached_property
    def sizes(self) -> np.ndarray:
        """Rows per group."""
        counts: np.ndarray = np.bincount(self.ids, minlength=self.count)
        return counts

    @cached_property
    def empty(self) -> np.ndarray:
        """True for groups without rows."""
        is_empty: np.ndarray = self.sizes == 0
        return is_empty

    @cached_property
    def order(self) -> np.ndarray | None:
        """The rows sorted by group, in order of arrival within each; None where they already are."""
        if bool((self.ids[1:] >= self.ids[:-1]).all()):
            return None
        return _stable_order(self.ids, self.count)

    @cached_property
    def offsets(self) -> np.ndarray:
        """The position in ``order`` at which each group starts, int32, followed by the end of the last group."""
        return np.concatenate(([0], np.cumsum(self.sizes))).astype(np.int32)

    def sorted(self, column: pa.Array) -> pa.Array:
        """The column of the rows in ``order``."""
        return column if self.order is None else column.take(pa.array(self.order))

    def lists(self, column: pa.Array) -> pa.Array:
        """One list per group of its rows' values, in order of arrival."""
        return pa.ListArray.from_arrays(pa.array(self.offsets), self.sorted(column))


def _stable_order(ids: np.ndarray, count: int) -> np.ndarray:
    """numpy sorts 16 bits by radix, several times faster than 64 bits."""
    order = np.argsort((ids & 0xFFFF).astype(np.uint16), kind="stable")
    for shift in range(16, int(count).bit_length(), 16):
        digits = ((ids >> shift) & 0xFFFF).astype(np.uint16)[order]
        order = order[np.argsort(digits, kind="stable")]
    return order


@dataclass(frozen=True)
class Source:
    """The columns that an accumulator reads, of rows where all ``filters`` hold.

    Rows where one of ``required`` is NULL are left out.
    """

    columns: tuple[str, ...]
    filters: tuple[str, ...] = ()
    required: tuple[str, ...] = ()


@dataclass(frozen=True)
class Selection:
    columns: tuple[pa.Array, ...]
    groups: Groups


class Batch:
    """Rows with their groups; selections are made once for all accumulators that ask for them."""

    def __init__(self, rows: pa.Table, groups: Groups) -> None:
        self._rows = rows
        self._groups = groups
        self._kept: dict[tuple[frozenset[str], frozenset[str]], tuple[np.ndarray | None, Groups]] = {}
        self._columns: dict[tuple[str, frozenset[str], frozenset[str]], pa.Array] = {}

    def select(self, source: Source) -> Selection:
        kept = (frozenset(source.filters), frozenset(c for c in source.required if self._column(c).null_count))
        columns = tuple(self._selected(name, kept) for name in source.columns)
        return Selection(columns, self._rows_of(kept)[1])

    @cached_property
    def by_kind(self) -> tuple[Batch, Batch | None]:
        """The rows that come, and those that go; None for none of these."""
        gone = gone_of(self._rows)
        return (self, None) if gone is None else (self._where(~gone), self._where(gone))

    def _where(self, chosen: np.ndarray) -> Batch:
        return Batch(self._rows.filter(pa.array(chosen)), Groups(self._groups.ids[chosen], self._groups.count))

    def _rows_of(self, kept: tuple[frozenset[str], frozenset[str]]) -> tuple[np.ndarray | None, Groups]:
        """The rows that are left over (None: all of them) and their groups."""
        selection = self._kept.get(kept)
        if selection is None:
            selection = self._kept[kept] = self._select_rows(*kept)
        return selection

    def _select_rows(self, filters: frozenset[str], required: frozenset[str]) -> tuple[np.ndarray | None, Groups]:
        conditions = [pc.fill_null(self._column(f), False) for f in sorted(filters)]
        conditions += [pc.is_valid(self._column(c)) for c in sorted(required)]
        if not conditions:
            return None, self._groups
        mask = np.logical_and.reduce([c.to_numpy(zero_copy_only=False) for c in conditions])
        if mask.all():
            return None, self._groups
        return np.flatnonzero(mask), Groups(self._groups.ids[mask], self._groups.count)

    def _selected(self, name: str, kept: tuple[frozenset[str], frozenset[str]]) -> pa.Array:
        selected = self._columns.get((name, *kept))
        if selected is None:
            rows, column = self._rows_of(kept)[0], self._column(name)
            selected = self._columns[name, *kept] = column if rows is None else column.take(pa.array(rows))
        return selected

    def _column(self, name: str) -> pa.Array:
        key = (name, frozenset[str](), frozenset[str]())
        if key not in self._columns:
            self._columns[key] = self._rows.column(name).combine_chunks()
        return self._columns[key]
