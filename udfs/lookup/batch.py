"""A batch of rows in a lookup: the keys to ask for, the answers that have arrived, and the rows that leave.

Python loops over distinct keys, never over rows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.columnar import python_values
from sqlstream.udfs.exchange import LATE_TABLE
from sqlstream.udfs.keys import Ids, dense_ids
from sqlstream.udfs.lookup.answers import NOT_ASKED, PASSES_BY, AnswerShape, LookupOutcome
from sqlstream.udfs.lookup.source import Key

Identity = Callable[[Key], Hashable]
RowSelection = slice | np.ndarray
"""Positions in a batch, ascending."""


class StepKeys:
    """The distinct keys of one lookup in one batch, with their outcomes.

    ``ids``: int64, the number of the key of each row; ``len(keys)`` where a key is NULL, and one more where the row
    bypasses the lookup.
    """

    def __init__(
        self, table: pa.Table, columns: Sequence[str], late: np.ndarray | None, identity: Identity | None
    ) -> None:
        asked = _asked(table, columns, late)
        some = table if asked is None else table.filter(pa.array(asked))
        key_ids = dense_ids(some, columns)
        distinct = some.take(pa.array(key_ids.first)) if key_ids.count < some.num_rows else some
        values = [python_values(distinct.column(name)) for name in columns]
        self.keys: list[Key] = list(zip(*values, strict=True))
        self.identities: Sequence[Hashable] = self.keys if identity is None else list(map(identity, self.keys))
        self.outcomes: list[LookupOutcome | None] = [*[None] * key_ids.count, NOT_ASKED, PASSES_BY]
        self.ids = key_ids.ids if asked is None else _with_gaps(key_ids, asked, late)
        self._sizes: np.ndarray | None = None

    @property
    def sizes(self) -> np.ndarray:
        """The number of rows of each key."""
        if self._sizes is None:
            self._sizes = np.bincount(self.ids, minlength=len(self.outcomes))
        return self._sizes

    @property
    def unknown(self) -> np.ndarray:
        """The numbers of keys without an outcome."""
        return np.fromiter((outcome is None for outcome in self.outcomes), np.bool_, len(self.outcomes))

    @property
    def asked(self) -> int:
        """The number of rows that need an answer."""
        return int(self.sizes[: len(self.keys)].sum())

    def of(self, rows: RowSelection) -> tuple[list[LookupOutcome], np.ndarray]:
        """The distinct outcomes of some rows, and for each row the index of its own."""
        ids = self.ids[rows]
        if 8 * len(ids) < len(self.outcomes):
            numbers, places = np.unique(ids, return_inverse=True)
        else:
            there = np.zeros(len(self.outcomes), np.bool_)
            there[ids] = True
            numbers, places = np.flatnonzero(there), (np.cumsum(there) - 1)[ids]
        outcomes = cast(Sequence[LookupOutcome], self.outcomes)  # rows leave once all their outcomes are known
        return [outcomes[number] for number in numbers.tolist()], places


def _asked(table: pa.Table, columns: Sequence[str], late: np.ndarray | None) -> np.ndarray | None:
    """Which rows ask; None for all."""
    valid = [np.asarray(pc.is_valid(c)) for name in columns if (c := table.column(name)).null_count]
    if late is not None:
        valid.append(~late)
    return np.logical_and.reduce(valid) if valid else None


def _with_gaps(key_ids: Ids, asked: np.ndarray, late: np.ndarray | None) -> np.ndarray:
    ids = np.full(len(asked), key_ids.count)
    ids[asked] = key_ids.ids
    if late is not None:
        ids[late] = key_ids.count + 1
    return ids


class Asked(NamedTuple):
    """One lookup from the point of view of a batch: key columns, type of the answers, and whether it adds the other
    columns."""

    columns: Sequence[str]
    shape: AnswerShape
    identity: Identity | None
    has_error_column: bool
    has_deferred_column: bool


class LookupBatch:
    """A batch of rows that waits for answers. ``groups``: rows with the same keys in all lookups, numbered by first
    appearance. ``left``: in ORDERED mode, the number of rows that have been emitted."""

    def __init__(self, number: int, batch: pa.RecordBatch, lookups: Sequence[Asked]) -> None:
        self.number = number
        self.rows = batch
        self.left = 0
        table = pa.Table.from_batches([batch])
        late = _late(batch)
        self.steps = [StepKeys(table, asked.columns, late, asked.identity) for asked in lookups]
        self._lookups = lookups
        self.groups = _groups([step.ids for step in self.steps])
        self._order: np.ndarray | None = None

    def numbers(self, group: int) -> list[int]:
        """Per lookup the number of the group's key."""
        row = self.groups.first[group]
        return [int(step.ids[row]) for step in self.steps]

    def undone(self) -> np.ndarray:
        """The groups that still wait for an answer."""
        waits = np.zeros(self.groups.count, np.bool_)
        for step in self.steps:
            waits |= step.unknown[step.ids[self.groups.first]]
        return np.flatnonzero(waits)

    def rows_of(self, groups: np.ndarray) -> np.ndarray:
        """The rows of some groups, ascending."""
        if 8 * len(groups) > self.groups.count:
            wanted = np.zeros(self.groups.count, np.bool_)
            wanted[groups] = True
            return np.flatnonzero(wanted[self.groups.ids])
        if self._order is None:
            self._order = np.argsort(self.groups.ids, kind="stable")
            self._ends = np.cumsum(np.bincount(self.groups.ids, minlength=self.groups.count))
        starts, ends = np.concatenate(([0], self._ends))[groups], self._ends[groups]
        parts = [self._order[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        return np.sort(np.concatenate(parts)) if parts else np.zeros(0, np.int64)

    def leaving(self, rows: RowSelection, schema: pa.Schema) -> pa.RecordBatch:
        """The given rows with their answers, in ``schema``."""
        if isinstance(rows, slice):
            columns_of_rows = self.rows.slice(rows.start, rows.stop - rows.start)
        else:
            columns_of_rows = self.rows.take(pa.array(rows))
        columns = list(columns_of_rows.columns)
        for step, asked in zip(self.steps, self._lookups, strict=True):
            outcomes, places = step.of(rows)
            row_indices = pa.array(places)
            columns.append(asked.shape.lists([outcome.rows for outcome in outcomes]).take(row_indices))
            if asked.has_error_column:
                columns.append(pa.array([outcome.error for outcome in outcomes], pa.string()).take(row_indices))
            if asked.has_deferred_column:
                columns.append(pa.array([outcome.deferred for outcome in outcomes], pa.bool_()).take(row_indices))
        columns.append(pa.nulls(columns_of_rows.num_rows, schema.field(len(schema) - 1).type))
        return pa.RecordBatch.from_arrays(columns, schema=schema)


def _late(batch: pa.RecordBatch) -> np.ndarray | None:
    """The late rows on their way; None where there are none."""
    if LATE_TABLE not in batch.schema.names:
        return None
    column = batch.column(LATE_TABLE)
    return np.asarray(pc.is_valid(column)) if column.null_count < len(column) else None


def _groups(ids: Sequence[np.ndarray]) -> Ids:
    names = [str(number) for number in range(len(ids))]
    return dense_ids(pa.table([pa.array(of_step) for of_step in ids], names=names), names)
