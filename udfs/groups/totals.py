"""Aggregates whose accumulators say all: rows are lifted, before the exchange too, and those that go subtracted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sqlstream.udfs.aggregates import Aggregates
from sqlstream.udfs.kernel import Context

# --- the changes of a micro-batch, the input of every aggregate strategy --------------------------------------


Indices = np.ndarray
Flags = np.ndarray


class StoredGroups(NamedTuple):
    """The stored rows of those groups that a micro-batch changes and that exist already. ``groups``: the number of
    each."""

    rows: pa.Table
    groups: Indices


@dataclass(frozen=True)
class Changed:
    """Rows that come or, where ``gone``, go, in order of arrival; ``groups``: the number of each row's group, of which
    there are ``count``. Groups are numbered by first appearance. ``keys``: KEY_HASH and the keys of each group."""

    rows: pa.Table
    gone: Flags | None
    groups: Indices
    count: int
    keys: pa.Table

    @property
    def signs(self) -> np.ndarray:
        """1 for rows that come, -1 for those that go."""
        return np.ones(len(self.groups), np.int64) if self.gone is None else np.where(self.gone, -1, 1)


class AggregateStrategy(ABC):
    """A way to compute some of the aggregate calls of a kernel. It says which columns the row of a group has for them,
    and may keep a state of its own beside that row."""

    @property
    @abstractmethod
    def columns(self) -> pa.Schema:
        """The columns of the state of a group."""
        ...

    @property
    @abstractmethod
    def results(self) -> pa.Schema: ...

    @abstractmethod
    def updated(self, stored: StoredGroups, changed: Changed, context: Context) -> pa.Table:
        """``columns`` of all groups after the changes; ``stored`` has those of before."""
        ...

    @abstractmethod
    def finish(self, columns: pa.Table) -> pa.Table:
        """``results`` of groups from their ``columns``."""
        ...

    def forget(self, groups: pa.Table, context: Context) -> None:
        """Drops the state of groups that are over, because all their rows were retracted or their time to live has
        passed. ``groups`` has KEY_HASH and the keys. State that expires by itself may stay."""
        return


@dataclass(frozen=True)
class Totals(AggregateStrategy):
    """Calls of which, where rows may go, ``Aggregates.retracts`` is true. ``prefix`` names its columns apart."""

    aggregates: Aggregates
    prefix: str = "__total"

    @property
    def columns(self) -> pa.Schema:
        kinds = self.aggregates.accumulators.types
        return pa.schema([(f"{self.prefix}_{i}", kind) for i, kind in enumerate(kinds)])

    @property
    def results(self) -> pa.Schema:
        return self.aggregates.results

    def updated(self, stored: StoredGroups, changed: Changed, context: Context) -> pa.Table:
        return self.merged(
            stored, self.lifted(changed.rows, changed.gone, changed.groups, changed.count), changed.count
        )

    def lifted(self, rows: pa.Table, gone: Flags | None, groups: Indices, count: int) -> pa.Table:
        """``columns`` of rows, of which some go: one row per group."""
        if gone is None:
            return self._named(self.aggregates.lift(rows, groups, count))
        come, left = (
            self.aggregates.lift(rows.filter(pa.array(chosen)), groups[chosen], count) for chosen in (~gone, gone)
        )
        every = np.arange(count)
        signed = pa.concat_tables([come, self.aggregates.negated(left)])
        return self._named(self.aggregates.merge(signed, np.concatenate([every, every]), count))

    def merged(self, stored: StoredGroups, lifted: pa.Table, count: int, groups: Indices | None = None) -> pa.Table:
        """With what was ``lifted``, one row per group in order, or of these ``groups``."""
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
        return _renamed(columns, self.aggregates.accumulators)


def _renamed(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """A table without columns would not know how many rows it has."""
    return rows if not schema.names else rows.rename_columns(schema.names)
