"""Dense numbers for keys: 0 for the first key that appears in a table, 1 for the second, and so on.

Keys are equal as in SQL's GROUP BY: NULL equals NULL, NaN equals NaN, -0.0 equals 0.0. All of it is Arrow's hash table
over one column at a time; several columns are numbered one by one and their numbers combined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True)
class Ids:
    """``ids``: int64, one per row, numbered by first appearance. ``first``: the row where each id appears first."""

    ids: np.ndarray
    first: np.ndarray

    @property
    def count(self) -> int:
        """The number of distinct keys."""
        return len(self.first)


def dense_ids(table: pa.Table, columns: Sequence[str]) -> Ids:
    """Numbers the keys of a table. Without columns all rows have one key."""
    ids = reduce(_pair, (_ids(_whole(table.column(name))) for name in columns), None)
    ids = np.zeros(table.num_rows, np.int64) if ids is None else ids
    return Ids(ids, first_rows(ids))


def first_rows(ids: np.ndarray) -> np.ndarray:
    """The row of the first appearance of each id, for ids that are numbered by first appearance."""
    if len(ids) == 0:
        return np.zeros(0, np.int64)
    newest = np.maximum.accumulate(ids)
    return np.concatenate(([0], np.flatnonzero(newest[1:] > newest[:-1]) + 1))


def places(rows: pa.Table, stored: pa.Table, columns: Sequence[str]) -> np.ndarray:
    """The known row with the key of each row, -1 for none. Either table has each key once."""
    names = list(columns)
    ids = dense_ids(pa.concat_tables([rows.select(names), stored.select(names)]), names).ids
    stored_row = np.full(rows.num_rows + stored.num_rows, -1, np.int64)
    stored_row[ids[rows.num_rows :]] = np.arange(stored.num_rows)
    return stored_row[: rows.num_rows]


def differ(left: pa.Table, right: pa.Table) -> np.ndarray:
    """True where two tables of as many rows differ; NULL equals NULL, NaN equals NaN, -0.0 equals 0.0."""
    columns = zip(left.columns, right.columns, strict=True)
    return reduce(np.logical_or, (_differ(*pair) for pair in columns), np.zeros(left.num_rows, np.bool_))


def _differ(left_column: pa.ChunkedArray, right_column: pa.ChunkedArray) -> np.ndarray:
    left, right = _whole(left_column), _whole(right_column)
    if left.equals(right):
        return np.zeros(len(left), np.bool_)
    if pa.types.is_integer(left.type) and not left.null_count and not right.null_count:
        return np.asarray(left.to_numpy() != right.to_numpy())
    ids = _ids(pa.concat_arrays([left, right]))
    return np.asarray(ids[: len(left)] != ids[len(left) :])


def _pair(left: np.ndarray | None, right: np.ndarray) -> np.ndarray:
    """Numbers the pairs of two columns' numbers. Both are below the number of rows, so that the product fits."""
    if left is None or len(right) == 0:
        return right
    return _encoded(pa.array(left * (int(right.max()) + 1) + right))


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _ids(array: pa.Array) -> np.ndarray:
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return _ids(array.storage)
    if pa.types.is_null(kind):
        return np.zeros(len(array), np.int64)
    if pa.types.is_struct(kind):
        return _struct_ids(array)
    if pa.types.is_nested(kind):
        return _list_ids(array)
    return _encoded(_plain(array))


def _plain(array: pa.Array) -> pa.Array:
    """The values in a type and form in which equal keys have equal bytes."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _plain(array.cast(kind.value_type))
    if pa.types.is_floating(kind):
        values = pc.add(array.cast(pa.float64()), 0.0)
        return pc.if_else(pc.is_nan(values), float("nan"), values)
    if kind == pa.string_view():
        return array.cast(pa.string())
    if kind == pa.binary_view():
        return array.cast(pa.binary())
    return array


def _encoded(array: pa.Array) -> np.ndarray:
    dictionary = array.dictionary_encode(null_encoding="encode")
    ids: np.ndarray = dictionary.indices.to_numpy(zero_copy_only=False)
    return ids.astype(np.int64)


def _struct_ids(array: pa.Array) -> np.ndarray:
    """A NULL struct is another value than a struct of NULLs."""
    return reduce(_pair, (_ids(field) for field in array.flatten()), _encoded(array.is_valid()))


def _list_ids(array: pa.Array) -> np.ndarray:
    """Lists, and maps as lists of their entries: each becomes the bytes of the numbers of its values."""
    lists = array.cast(pa.large_list(_entry(array.type)))
    offsets = lists.offsets.to_numpy()
    values = _ids(lists.values.slice(offsets[0], offsets[-1] - offsets[0]))
    starts = pa.py_buffer(((offsets - offsets[0]) * values.itemsize).astype(np.int64))
    numbers = pa.Array.from_buffers(pa.large_binary(), len(lists), [None, starts, pa.py_buffer(values)])
    return _pair(_encoded(array.is_valid()), _encoded(numbers))


def _entry(kind: pa.DataType) -> pa.Field:
    if pa.types.is_map(kind):
        return pa.field("entries", pa.struct([kind.key_field, kind.item_field]), nullable=False)
    return kind.value_field
