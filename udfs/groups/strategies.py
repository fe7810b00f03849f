"""How the aggregates of a group follow insertions and retractions: accumulators that subtract, stored rows where they
cannot. Those of DISTINCT values are in ``distinct``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sqlstream.udfs.aggregates import Aggregates
from sqlstream.udfs.joins.stored_side import within
from sqlstream.udfs.kernel import KEY_HASH, Context
from sqlstream.udfs.keys import dense_ids
from sqlstream.udfs.state.keyed import KeyedState

# --- the changes of a micro-batch, the input of every aggregate strategy --------------------------------------


Indices = np.ndarray
Flags = np.ndarray


class StoredGroups(NamedTuple):
    """The stored state of the groups that a micro-batch changes, as far as they exist already: ``rows`` has one row per
    group, ``groups`` the index of each among the changed groups (``ChangedRows``).
    """

    rows: pa.Table
    groups: Indices


@dataclass(frozen=True)
class ChangedRows:
    """The changes of a micro-batch, in order of arrival, with their groups.

    ``gone``: true for retractions; None if there are none. ``groups``: the group index of each row, in ``[0, count)``,
    numbered by first appearance. ``keys``: KEY_HASH and the key columns of each group.
    """

    rows: pa.Table
    gone: Flags | None
    groups: Indices
    count: int
    keys: pa.Table

    @property
    def signs(self) -> np.ndarray:
        """An array with 1 for each insertion and -1 for each retraction."""
        return np.ones(len(self.groups), np.int64) if self.gone is None else np.where(self.gone, -1, 1)


class AggregateStrategy(ABC):
    """A way to compute some of the aggregate calls of ``GroupAggregateKernel``. It declares which columns it needs in
    the stored row of a group, and may store additional state of its own.
    """

    @property
    @abstractmethod
    def columns(self) -> pa.Schema:
        """The columns that this strategy needs in the stored row of a group."""
        ...

    @property
    @abstractmethod
    def results(self) -> pa.Schema:
        """The schema of the results of the strategy's aggregate calls."""
        ...

    @abstractmethod
    def updated(self, stored: StoredGroups, changed: ChangedRows, context: Context) -> pa.Table:
        """Computes the new values of ``columns`` for all groups that the micro-batch changes, one row per group, in the
        order of ``changed``. ``stored`` has the old values.
        """
        ...

    @abstractmethod
    def finish(self, columns: pa.Table) -> pa.Table:
        """The results of the aggregate calls, one row per group, computed from the stored ``columns``."""
        ...

    def forget(self, groups: pa.Table, context: Context) -> None:
        """Drops what the strategy stores beside the groups' own rows, for groups that have ended: all their rows were
        retracted or their time to live has passed. ``groups`` has KEY_HASH and the keys. State with a time to live of
        its own may remain.
        """
        return


@dataclass(frozen=True)
class Totals(AggregateStrategy):
    """Computes aggregate calls from their accumulators alone, such as the sum and the count for AVG. If rows are
    retracted, ``Aggregates.retracts`` must be true. ``prefix`` makes the names of its columns unique.
    """

    aggregates: Aggregates
    prefix: str = "__total"

    @property
    def columns(self) -> pa.Schema:
        kinds = self.aggregates.accumulators.types
        return pa.schema([(f"{self.prefix}_{i}", kind) for i, kind in enumerate(kinds)])

    @property
    def results(self) -> pa.Schema:
        return self.aggregates.results

    def updated(self, stored: StoredGroups, changed: ChangedRows, context: Context) -> pa.Table:
        return self.merged(
            stored, self.lifted(changed.rows, changed.gone, changed.groups, changed.count), changed.count
        )

    def lifted(self, rows: pa.Table, gone: Flags | None, groups: Indices, count: int) -> pa.Table:
        """Computes the accumulators of rows: a table with one row for each of ``count`` groups. ``groups`` has the
        group index of each row; ``gone`` is true for rows that are retractions, None if there are none.
        """
        if gone is None:
            return self._named(self.aggregates.lift(rows, groups, count))
        come, left = (
            self.aggregates.lift(rows.filter(pa.array(chosen)), groups[chosen], count) for chosen in (~gone, gone)
        )
        every = np.arange(count)
        signed = pa.concat_tables([come, self.aggregates.negated(left)])
        return self._named(self.aggregates.merge(signed, np.concatenate([every, every]), count))

    def merged(self, stored: StoredGroups, lifted: pa.Table, count: int, groups: Indices | None = None) -> pa.Table:
        """Merges the stored accumulators with those of new rows (``lifted``): one row for each of the ``count`` groups.
        ``groups``: the group index of each row of ``lifted``; None if they are one row per group, in order.
        """
        groups = np.arange(count) if groups is None else groups
        names = self.columns.names
        if not len(stored.groups) and lifted.num_rows == count:
            return lifted.select(names)
        combined = self.own(pa.concat_tables([stored.rows.select(names), lifted.select(names)]))
        return self._named(self.aggregates.merge(combined, np.concatenate([stored.groups, groups]), count))

    def finish(self, columns: pa.Table) -> pa.Table:
        return self.aggregates.finish(self.own(columns))

    def _named(self, accumulators: pa.Table) -> pa.Table:
        return _renamed(accumulators, self.columns)

    def own(self, columns: pa.Table) -> pa.Table:
        """Selects this strategy's columns from the stored rows of groups, under the names that ``aggregates`` gives its
        accumulators.
        """
        return _renamed(columns, self.aggregates.accumulators)


def _renamed(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """A table without columns would not know how many rows it has."""
    return rows if not schema.names else rows.rename_columns(schema.names)


# --- aggregates that cannot subtract retracted rows: the rows of each group, or its distinct values, are stored --
# Insertions and retractions are appended to the stored rows. The rows of a group are read only if its result depends on
# them: for MIN and MAX when the extreme itself is retracted. They are then reduced to the current rows, as they are
# when most of them cancel out. Of equal rows the first is retracted, as in Flink's LISTAGG and FIRST_VALUE.


_SIGN = "__sign"
"""BIGINT column of stored rows: 1 for insertions, -1 for retractions."""

_KEPT, _THERE = "__kept", "__there"
"""BIGINT columns of a group: the number of its stored rows, and of its current rows."""

_SPARE = 64
"""Rows that cancel out are dropped when there are more of them than this, and than current rows."""


@dataclass(frozen=True)
class StoredRows(AggregateStrategy):
    """Computes ``aggregates`` that cannot subtract retracted rows, such as MIN: it stores the current rows of each
    group. ``name`` is the prefix of its state entries and columns.
    """

    name: str
    keys: pa.Schema
    aggregates: Aggregates

    @cached_property
    def columns(self) -> pa.Schema:
        return pa.schema(
            [*self._totals.columns, (f"{self.name}{_KEPT}", pa.int64()), (f"{self.name}{_THERE}", pa.int64())]
        )

    @property
    def results(self) -> pa.Schema:
        return self.aggregates.results

    def finish(self, columns: pa.Table) -> pa.Table:
        return self._totals.finish(columns.select(self._totals.columns.names))

    def updated(self, stored: StoredGroups, changed: ChangedRows, context: Context) -> pa.Table:
        kept, there = self._counts(stored, changed)
        results, survives = self._without_reading(stored, changed)
        read = ~survives | (kept > 2 * there + _SPARE)
        state = self._state(context)
        if read.any():
            groups = np.flatnonzero(read)
            rows, groups_of_rows = self._read(state, changed, read)
            lifted = self._totals.lifted(rows, None, groups_of_rows, changed.count)
            results = _replaced(results, lifted, groups)
            kept[groups] = there[groups] = np.bincount(groups_of_rows, minlength=changed.count)[groups]
        state.append(self._stored(changed, ~read[changed.groups]))
        state.flush()
        counts = [pa.array(kept), pa.array(there)]
        return pa.Table.from_arrays([*results.columns, *counts], schema=self.columns)

    def forget(self, groups: pa.Table, context: Context) -> None:
        state = self._state(context)
        stored = state.load(groups.column(KEY_HASH).to_numpy())
        others = self._numbers(groups, stored) >= groups.num_rows
        state.replace(stored.filter(pa.array(others)))
        state.flush()

    # --- results ------------------------------------------------------------------------------------------------

    def _without_reading(self, stored: StoredGroups, changed: ChangedRows) -> tuple[pa.Table, Flags]:
        """The columns of all groups as far as they are known without stored rows, and flags of the groups for which
        that is correct."""
        come = changed.rows if changed.gone is None else changed.rows.filter(pa.array(~changed.gone))
        groups_of_rows = changed.groups if changed.gone is None else changed.groups[~changed.gone]
        results = self._totals.merged(
            stored, self._totals.lifted(come, None, groups_of_rows, changed.count), changed.count
        )
        if changed.gone is None:
            return results, np.ones(changed.count, np.bool_)
        gone = self._totals.lifted(
            changed.rows.filter(pa.array(changed.gone)), None, changed.groups[changed.gone], changed.count
        )
        survives = self.aggregates.survives(*(self._totals.own(columns) for columns in (results, gone)))
        survives |= np.bincount(changed.groups[changed.gone], minlength=changed.count) == 0
        return results, survives

    def _counts(self, stored: StoredGroups, changed: ChangedRows) -> tuple[np.ndarray, np.ndarray]:
        kept, there = (
            np.bincount(changed.groups, signs, changed.count).astype(np.int64) for signs in (None, changed.signs)
        )
        for counts, name in ((kept, _KEPT), (there, _THERE)):
            counts[stored.groups] += stored.rows.column(f"{self.name}{name}").to_numpy()
        return kept, there

    # --- rows ---------------------------------------------------------------------------------------------------

    def _read(self, state: KeyedState, changed: ChangedRows, read: Flags) -> tuple[pa.Table, Indices]:
        """The current rows of some groups, in order of arrival, and the group of each; they replace the stored rows."""
        stored = state.load(changed.keys.column(KEY_HASH).to_numpy()[read])
        of_known = self._numbers(changed.keys, stored)
        own = of_known < changed.count
        own[own] = read[of_known[own]]
        chosen = read[changed.groups]
        rows = pa.concat_tables([stored.filter(pa.array(own)), self._stored(changed, chosen)])
        groups = np.concatenate([of_known[own], changed.groups[chosen]])
        there = self._there(rows)
        rows, groups = rows.filter(pa.array(there)), groups[there]
        state.replace(pa.concat_tables([stored.filter(pa.array(~own)), rows]))
        return rows, groups

    def _there(self, rows: pa.Table) -> Flags:
        """True for rows that were inserted and not retracted."""
        come: Flags = rows.column(_SIGN).to_numpy() > 0
        if come.all():
            return come
        ids = dense_ids(rows, [*self.keys.names, *self.aggregates.input.names]).ids
        gone = np.bincount(ids[~come], minlength=int(ids.max()) + 1)
        come[come] = ~within(ids[come], gone)
        return come

    def _numbers(self, groups: pa.Table, rows: pa.Table) -> Indices:
        """The group of each row, and numbers above for rows of others."""
        names = self.keys.names
        combined = pa.concat_tables([groups.select([KEY_HASH, *names]), rows.select([KEY_HASH, *names])])
        numbers: Indices = dense_ids(combined, names or [KEY_HASH]).ids[groups.num_rows :]
        return numbers

    def _state(self, context: Context) -> KeyedState:
        return KeyedState(context.store, self.name, self._schema)

    def _stored(self, changed: ChangedRows, chosen: Flags) -> pa.Table:
        rows = changed.rows.select(self._schema.names[:-1]).filter(pa.array(chosen))
        return rows.append_column(_SIGN, pa.array(changed.signs[chosen])).cast(self._schema)

    @cached_property
    def _schema(self) -> pa.Schema:
        return pa.schema([(KEY_HASH, pa.int64()), *self.keys, *self.aggregates.input, (_SIGN, pa.int64())])

    @cached_property
    def _totals(self) -> Totals:
        return Totals(self.aggregates, f"{self.name}_total")


def _replaced(columns: pa.Table, others: pa.Table, rows: Indices) -> pa.Table:
    """The columns, with the given ``rows`` replaced by those of ``others``."""
    chosen = np.arange(columns.num_rows)
    chosen[rows] += columns.num_rows
    return pa.concat_tables([columns, others]).take(pa.array(chosen))
