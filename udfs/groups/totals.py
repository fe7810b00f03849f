"""Aggregates whose accumulators say all: rows are lifted, before the exchange too, and those that go subtracted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sqlstream.udfs.aggregates import Aggregates
from sqlstream.udfs.groups.changed import AggregateStrategy, Changed, Flags, Indices, StoredGroups
from sqlstream.udfs.kernel import Context


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
