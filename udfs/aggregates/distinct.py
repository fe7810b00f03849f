"""DISTINCT in any aggregate, and COLLECT_SET: the distinct values are kept, the function runs over them at the end."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from sqlstream.udfs.aggregates.accumulator import Accumulator, Columns, Plan
from sqlstream.udfs.aggregates.groups import Batch, Groups, Source
from sqlstream.udfs.aggregates.lists import exploded, item_type, items, members
from sqlstream.udfs.keys import dense_ids


@dataclass(frozen=True)
class DistinctValues(Accumulator):
    """A list per group of the distinct values of the first ``compared`` columns, in order of first appearance."""

    columns: tuple[pa.DataType, ...]
    compared: int

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (pa.list_(item_type(self.columns)),)

    def lift(self, batch: Batch) -> Columns:
        selection = batch.select(self.source)
        return self._distinct(tuple(map(_without_negative_zeros, selection.columns)), selection.groups)

    def merge(self, columns: Columns, groups: Groups) -> Columns:
        values, rows = exploded(columns[0])
        return self._distinct(tuple(members(values, len(self.columns))), Groups(groups.ids[rows.ids], groups.count))

    def _distinct(self, columns: Columns, groups: Groups) -> Columns:
        kept = first_of_each(columns[: self.compared], groups)
        found = items([c.take(pa.array(kept)) for c in columns])
        return (Groups(groups.ids[kept], groups.count).lists(found),)


def first_of_each(columns: Columns, groups: Groups) -> np.ndarray:
    """The first row of each combination of values within each group."""
    return dense_ids(*_by_group(columns, groups)).first


def _by_group(columns: Columns, groups: Groups) -> tuple[pa.Table, list[str]]:
    names = [str(i) for i in range(len(columns) + 1)]
    return pa.Table.from_arrays([pa.array(groups.ids), *columns], names), names


def numbered(columns: Columns, groups: Groups) -> tuple[np.ndarray, np.ndarray]:
    """Numbers the combinations of values within groups: the number of each row, the first row of each number."""
    found = dense_ids(*_by_group(columns, groups))
    return found.ids, found.first


def _without_negative_zeros(column: pa.Array) -> pa.Array:
    return pc.add(column, pa.scalar(0.0, column.type)) if kinds.is_floating(column.type) else column


def over_distinct(source: Source, schema: pa.Schema, compared: int, inner: Plan) -> Plan:
    """``inner``, planned over ``schema``, over the distinct rows of the source's columns, which have its types."""
    return Plan((DistinctValues(source, tuple(schema.types), compared),), partial(_finish, schema, inner))


def _finish(schema: pa.Schema, inner: Plan, lists: pa.Array) -> pa.Array:
    values, groups = exploded(lists)
    batch = Batch(pa.Table.from_arrays(members(values, len(schema)), schema=schema), groups)
    return inner.finish(*(column for a in inner.accumulators for column in a.lift(batch)))
