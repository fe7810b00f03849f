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
from sqlstream.udfs.aggregates.lists import by_number, exploded, item_type, items, members
from sqlstream.udfs.aggregates.numbers import numbers_of
from sqlstream.udfs.keys import dense_ids

_FEW = 1 << 32


@dataclass(frozen=True)
class DistinctValues(Accumulator):
    """A list per group of the distinct values of the first ``compared`` columns, in order of first appearance.

    ``by_number``: the last column has the numbers of rows, which tell which one appeared first.
    """

    columns: tuple[pa.DataType, ...]
    compared: int
    by_number: bool = False

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (pa.list_(item_type(self.columns)),)

    def lift(self, batch: Batch) -> Columns:
        selection = batch.select(self.source)
        return self._distinct(tuple(map(_without_negative_zeros, selection.columns)), selection.groups)

    def merge(self, columns: Columns, groups: Groups) -> Columns:
        values, rows = exploded(columns[0])
        distinct_values, owners = tuple(members(values, len(self.columns))), Groups(groups.ids[rows.ids], groups.count)
        if self.by_number:
            order = by_number(distinct_values[-1], owners)
            distinct_values, owners = (
                tuple(c.take(pa.array(order)) for c in distinct_values),
                Groups(owners.ids[order], owners.count),
            )
        return self._distinct(distinct_values, owners)

    def _distinct(self, columns: Columns, groups: Groups) -> Columns:
        kept = first_of_each(columns[: self.compared], groups)
        distinct_items = items([c.take(pa.array(kept)) for c in columns])
        return (Groups(groups.ids[kept], groups.count).lists(distinct_items),)


def first_of_each(columns: Columns, groups: Groups) -> np.ndarray:
    """The first row of each combination of values within each group, ascending."""
    rows = len(groups.ids)
    values = _value_ids(columns)
    row_bits, value_bits = rows.bit_length(), int(values.max(initial=0)).bit_length()
    if groups.count.bit_length() + value_bits + row_bits > 63:
        return numbered(columns, groups)[1]
    # One sort of plain integers is far cheaper than a hash table over pairs.
    keys = np.sort((groups.ids << value_bits | values) << row_bits | np.arange(rows))
    first = np.concatenate(([True], keys[1:] >> row_bits != keys[:-1] >> row_bits))[:rows]
    return np.sort(keys[first] & ((1 << row_bits) - 1))


def _value_ids(columns: Columns) -> np.ndarray:
    """Numbers that are equal where the values are."""
    if len(columns) == 1 and kinds.is_integer(columns[0].type) and not columns[0].null_count and len(columns[0]):
        numbers = numbers_of(columns[0])
        if int(numbers.max()) - int(numbers.min()) < _FEW:
            return numbers.astype(np.int64) - int(numbers.min())
    names = [str(i) for i in range(len(columns))]
    return dense_ids(pa.Table.from_arrays(list(columns), names), names).ids


def numbered(columns: Columns, groups: Groups) -> tuple[np.ndarray, np.ndarray]:
    """Numbers the combinations of values within groups: the number of each row, the first row of each number."""
    names = [str(i) for i in range(len(columns) + 1)]
    ids = dense_ids(pa.Table.from_arrays([pa.array(groups.ids), *columns], names), names)
    return ids.ids, ids.first


def _without_negative_zeros(column: pa.Array) -> pa.Array:
    return pc.add(column, pa.scalar(0.0, column.type)) if kinds.is_floating(column.type) else column


def over_distinct(source: Source, schema: pa.Schema, compared: int, inner: Plan, *, by_number: bool = False) -> Plan:
    """``inner``, planned over ``schema``, over the distinct rows of the source's columns, which have its types."""
    return Plan((DistinctValues(source, tuple(schema.types), compared, by_number),), partial(_finish, schema, inner))


def _finish(schema: pa.Schema, inner: Plan, lists: pa.Array) -> pa.Array:
    values, groups = exploded(lists)
    batch = Batch(pa.Table.from_arrays(members(values, len(schema)), schema=schema), groups)
    return inner.finish(*(column for a in inner.accumulators for column in a.lift(batch)))
