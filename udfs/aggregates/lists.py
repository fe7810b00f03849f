"""Aggregates that keep the values of their rows: COLLECT_LIST, LISTAGG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.aggregates.accumulator import Accumulator, Columns, Plan
from sqlstream.udfs.aggregates.call import Ordering
from sqlstream.udfs.aggregates.groups import Batch, Groups, Source
from sqlstream.udfs.aggregates.numbers import truths_of
from sqlstream.udfs.aggregates.ordering import ranks
from sqlstream.udfs.aggregates.sums import add_up


@dataclass(frozen=True)
class Values(Accumulator):
    """The values of a group in order of arrival, as one list; with several columns a list of structs."""

    columns: tuple[pa.DataType, ...]

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (pa.list_(item_type(self.columns)),)

    def lift(self, batch: Batch) -> Columns:
        selection = batch.select(self.source)
        return (selection.groups.lists(items(selection.columns)),)

    def merge(self, columns: Columns, groups: Groups) -> Columns:
        return (concatenated(columns[0], groups),)


def item_type(columns: Sequence[pa.DataType]) -> pa.DataType:
    """The type of the list's items: the value of a row, or a struct of several values."""
    return columns[0] if len(columns) == 1 else pa.struct([(str(i), t) for i, t in enumerate(columns)])


def items(columns: Sequence[pa.Array]) -> pa.Array:
    if len(columns) == 1:
        return columns[0]
    return pa.StructArray.from_arrays(list(columns), [str(i) for i in range(len(columns))])


def members(values: pa.Array, count: int) -> list[pa.Array]:
    """The reverse of ``items``, for ``count`` columns."""
    return [values] if count == 1 else values.flatten()


def concatenated(lists: pa.Array, groups: Groups) -> pa.Array:
    """One list per group: its rows' lists, one after the other."""
    lengths = add_up(lengths_of(lists), groups)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), groups.sorted(lists).flatten(), type=lists.type)


def lengths_of(lists: pa.Array) -> np.ndarray:
    lengths: np.ndarray = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    return lengths.astype(np.int64)


def exploded(lists: pa.Array) -> tuple[pa.Array, Groups]:
    """All values with the number of the list that each comes from."""
    return lists.flatten(), Groups(np.repeat(np.arange(len(lists)), lengths_of(lists)), len(lists))


def over_rows(source: Source, schema: pa.Schema, inner: Plan) -> Plan:
    """``inner``, planned over ``schema``, over the rows of the source's columns, which have its types, in the order of
    the source's last column: the numbers of the rows. All rows are kept, and ``inner`` runs over them at the end."""
    return Plan((Values(source, (*schema.types, pa.int64())),), partial(_over_rows, schema, inner))


def _over_rows(schema: pa.Schema, inner: Plan, lists: pa.Array) -> pa.Array:
    values, groups = exploded(lists)
    *columns, numbers = members(values, 1 + len(schema))
    order = by_number(numbers, groups)
    ordered = [column.take(pa.array(order)) for column in columns]
    batch = Batch(pa.Table.from_arrays(ordered, schema=schema), Groups(groups.ids[order], groups.count))
    return inner.finish(*(column for a in inner.accumulators for column in a.lift(batch)))


def by_number(numbers: pa.Array, groups: Groups) -> np.ndarray:
    """The rows by group and then by their numbers."""
    order: np.ndarray = np.lexsort((numbers.to_numpy(zero_copy_only=False), groups.ids))
    return order


# --- functions ------------------------------------------------------------------------------------------------


def collected(source: Source, types: tuple[pa.DataType, ...], order: tuple[Ordering, ...]) -> Plan:
    """COLLECT_LIST of the source's first column, in the order of the others."""
    return Plan((Values(source, types),), partial(_ordered, order))


def joined(source: Source, types: tuple[pa.DataType, ...], order: tuple[Ordering, ...], separator: str) -> Plan:
    """LISTAGG of the source's first column, in the order of the others."""
    return Plan((Values(source, types),), partial(_joined, order, separator))


def _joined(order: tuple[Ordering, ...], separator: str, lists: pa.Array) -> pa.Array:
    values = _ordered(order, lists)
    texts = pc.binary_join(values, pa.scalar(separator).cast(values.type.value_type))
    return pc.if_else(pa.array(lengths_of(lists) > 0), texts, pa.scalar(None, texts.type))


def _ordered(order: tuple[Ordering, ...], lists: pa.Array) -> pa.Array:
    """The first members of the lists' items, sorted by the others."""
    if not order:
        return lists
    values_and_keys, groups = exploded(lists)
    values, *keys = members(values_and_keys, 1 + len(order))
    by_least = [_sort_key(key, ordering) for key, ordering in zip(keys, order, strict=True)]
    rows = np.lexsort([*reversed(by_least), groups.ids])
    return groups.lists(values.take(pa.array(rows)))


def _sort_key(column: pa.Array, ordering: Ordering) -> np.ndarray:
    """An integer per value that ascends in the wanted order."""
    present = truths_of(column.is_valid())
    # Dense places leave room for NULL at either end.
    places = np.unique(ranks(column.drop_null()), return_inverse=True)[1]
    sort_key = np.full(len(column), -1 if ordering.nulls_first else len(column), np.int64)
    sort_key[present] = len(places) - 1 - places if ordering.descending else places
    return sort_key
