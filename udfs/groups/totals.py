"""Strategies for aggregates whose accumulators suffice: rows are aggregated, already before the exchange, and
retractions are subtracted."""

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
    """The stored rows of the existing groups that a micro-batch changes, and the number of each group."""

    rows: pa.Table
    groups: Indices


@dataclass(frozen=True)
class Changed:
    """The rows of a micro-batch in order of arrival. ``gone`` flags retractions (None: there are none). ``groups``: the
    number of the group of each row, out of ``count``, by first appearance. ``keys``: KEY_HASH and the keys of each
    group."""

    rows: pa.Table
    gone: Flags | None
    groups: Indices
    count: int
    keys: pa.Table

    @property
    def signs(self) -> np.ndarray:
        """1 for insertions, -1 for retractions."""
        return np.ones(len(self.groups), np.int64) if self.gone is None else np.where(self.gone, -1, 1)


class AggregateStrategy(ABC):
    """A way to compute some of the aggregate calls of a kernel. It declares the columns that it needs in the row of a
    group, and may have additional state of its own."""

    @property
    @abstractmethod
    def columns(self) -> pa.Schema:
        """The columns of this strategy in the stored row of a group."""
        ...

    @property
    @abstractmethod
    def results(self) -> pa.Schema:
        """The schema of the results of its calls."""
        ...

    @abstractmethod
    def updated(self, stored: StoredGroups, changed: Changed, context: Context) -> pa.Table:
        """The ``columns`` of all groups after the changes; ``stored`` has those before."""
        ...

    @abstractmethod
    def finish(self, columns: pa.Table) -> pa.Table:
        """The ``results`` of groups from their ``columns``."""
        ...

    def forget(self, groups: pa.Table, context: Context) -> None:
        """Drops the additional state of groups that have ended, because all their rows were retracted or their time to
        live has passed. ``groups`` has KEY_HASH and the keys. State with a time to live of its own may remain."""
        return


@dataclass(frozen=True)
class Totals(AggregateStrategy):
    """Computes calls from their accumulators alone; with retractions ``Aggregates.retracts`` must be true. ``prefix``
    makes the names of its columns unique."""

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
        """The ``columns`` of rows, some of which may be retractions: one row per group."""
        if gone is None:
            return self._named(self.aggregates.lift(rows, groups, count))
        come, left = (
            self.aggregates.lift(rows.filter(pa.array(chosen)), groups[chosen], count) for chosen in (~gone, gone)
        )
        every = np.arange(count)
        signed = pa.concat_tables([come, self.aggregates.negated(left)])
        return self._named(self.aggregates.merge(signed, np.concatenate([every, every]), count))

    def merged(self, stored: StoredGroups, lifted: pa.Table, count: int, groups: Indices | None = None) -> pa.Table:
        """The stored columns merged with ``lifted`` ones: one row per group in order, or one for each of ``groups``."""
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
        """Its own columns among those of a stored group."""
        return _renamed(columns, self.aggregates.accumulators)


def _renamed(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """A table without columns would not know how many rows it has."""
    return rows if not schema.names else rows.rename_columns(schema.names)
