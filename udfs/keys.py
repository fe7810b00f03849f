"""Keys of rows: dense numbers, sorting, hashes and kinds of changelog rows.

Dense numbers are 0 for the first key that appears in a table, 1 for the second, and so on. Keys are equal as in SQL's
GROUP BY: NULL equals NULL, NaN equals NaN, -0.0 equals 0.0. Several columns of whole numbers become one number for each
row if they fit. Otherwise Arrow's hash table numbers one column at a time, and these numbers are combined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.kernel import ROW_KIND

_LEAST_SORTED = 1 << 15
"""Hash tables of fewer values fit into the processor's cache."""

_SAMPLED = 1 << 12
"""Of so many values of a sample about ``_SAMPLED**2 / count`` are equal where each value comes up twice."""

_MOST_BITS = 63
"""Of a number that holds a value and its place."""


@dataclass(frozen=True)
class Ids:
    """The key of each row as an integer. ``ids``: one int64 per row; keys are numbered from 0 by first appearance.
    ``first``: for each id the index of the first row that has it.
    """

    ids: np.ndarray
    first: np.ndarray

    @property
    def count(self) -> int:
        """The number of distinct keys."""
        return len(self.first)


def dense_ids(table: pa.Table, columns: Sequence[str]) -> Ids:
    """An integer id for each row; rows that are equal in ``columns`` have the same id. Without columns all rows have
    the id 0.
    """
    arrays = [_whole(table.column(name)) for name in columns]
    codes = _packed(arrays)
    ids = reduce(_pair, (_ids(array) for array in arrays), None) if codes is None else _encoded(pa.array(codes))
    ids = np.zeros(table.num_rows, np.int64) if ids is None else ids
    return Ids(ids, first_rows(ids))


def first_rows(ids: np.ndarray) -> np.ndarray:
    """For each id the index of the first row that has it, as an array. ``ids``, one per row, must be numbered 0, 1, 2,
    … by first appearance.
    """
    if len(ids) == 0:
        return np.zeros(0, np.int64)
    newest = np.maximum.accumulate(ids)
    return np.concatenate(([0], np.flatnonzero(newest[1:] > newest[:-1]) + 1))


def places(rows: pa.Table, stored: pa.Table, columns: Sequence[str]) -> np.ndarray:
    """Finds rows by key: for each row of ``rows`` the index of the row in ``stored`` with the same values in
    ``columns``; -1 if there is none. Neither table has a key twice.
    """
    names = list(columns)
    ids = dense_ids(pa.concat_tables([rows.select(names), stored.select(names)]), names).ids
    stored_row = np.full(rows.num_rows + stored.num_rows, -1, np.int64)
    stored_row[ids[rows.num_rows :]] = np.arange(stored.num_rows)
    return stored_row[: rows.num_rows]


def differ(left: pa.Table, right: pa.Table) -> np.ndarray:
    """One boolean per pair of rows: true if they differ in some column. The tables have equally many rows; NULL equals
    NULL, NaN equals NaN, -0.0 equals 0.0.
    """
    columns = zip(left.columns, right.columns, strict=True)
    return reduce(np.logical_or, (_differ(*pair) for pair in columns), np.zeros(left.num_rows, np.bool_))


def _differ(left_column: pa.ChunkedArray, right_column: pa.ChunkedArray) -> np.ndarray:
    left, right = _whole(left_column), _whole(right_column)
    if left.equals(right):
        return np.zeros(len(left), np.bool_)
    if pa.types.is_integer(left.type) and not left.null_count and not right.null_count:
        return np.asarray(left.to_numpy() != right.to_numpy())
    if _is_compared_as_bytes(left.type):
        unequal = pc.fill_null(pc.not_equal(left, right), False)
        if left.null_count or right.null_count:
            unequal = pc.or_(unequal, pc.xor(left.is_valid(), right.is_valid()))
        return np.asarray(unequal)
    ids = _ids(pa.concat_arrays([left, right]))
    return np.asarray(ids[: len(left)] != ids[len(left) :])


def _is_compared_as_bytes(kind: pa.DataType) -> bool:
    """True where two values are equal if their bytes are: not for floating-point numbers and nested values."""
    is_text = kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
    is_number = pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_boolean(kind)
    return bool(is_text or is_number or pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def _packed(arrays: Sequence[pa.Array]) -> np.ndarray | None:
    """The values of several columns of whole numbers as one number each, which saves numbering every column on its
    own; None for other columns, for NULLs, and where the values need more bits than a number has.
    """
    plain = all(pa.types.is_signed_integer(array.type) and not array.null_count for array in arrays)
    if len(arrays) < 2 or not plain or not len(arrays[0]):
        return None
    columns = [array.to_numpy() for array in arrays]
    limits = [(int(column.min()), int(column.max())) for column in columns]
    widths = [(high - low).bit_length() for low, high in limits]
    return _codes(columns, [low for low, _ in limits], widths) if sum(widths) <= _MOST_BITS else None


def _codes(columns: Sequence[np.ndarray], lows: Sequence[int], widths: Sequence[int]) -> np.ndarray:
    """The columns side by side in the bits of one number, the first in the highest; each needs its width of bits."""
    codes = np.zeros(len(columns[0]), np.int64)
    for column, low, width in zip(columns, lows, widths, strict=True):
        codes <<= width
        codes |= column.astype(np.int64, copy=False) - low
    return codes


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
    if pa.types.is_integer(array.type) and not array.null_count and len(array) >= _LEAST_SORTED:
        numbers = _ids_by_sorting(array.to_numpy().astype(np.int64, copy=False))
        if numbers is not None:
            return numbers
    dictionary = array.dictionary_encode(null_encoding="encode")
    ids: np.ndarray = dictionary.indices.to_numpy(zero_copy_only=False)
    return ids.astype(np.int64)


def _ids_by_sorting(values: np.ndarray) -> np.ndarray | None:
    """Dense numbers of integers, found by sorting them with their places. Where most values differ, this takes half of
    the time or less of a hash table that grows beyond the processor's cache. None where a sample says that many are
    equal, or where a value and its place need more bits than a number has.
    """
    count = len(values)
    low, own = int(values.min()), (count - 1).bit_length()
    if (int(values.max()) - low).bit_length() + own > _MOST_BITS:
        return None
    sample = np.sort(values[:: count // _SAMPLED][:_SAMPLED])
    if np.count_nonzero(sample[1:] == sample[:-1]) * count > _SAMPLED**2:
        return None
    codes = values - low
    codes <<= own
    codes |= np.arange(count)
    codes.sort()
    place = codes & ((1 << own) - 1)
    codes >>= own
    is_first = np.ones(count, np.bool_)
    np.not_equal(codes[1:], codes[:-1], out=is_first[1:])
    first = place[is_first]
    appears = np.zeros(count, np.bool_)
    appears[first] = True
    number = np.cumsum(appears)[first] - 1
    ids = np.empty(count, np.int64)
    ids[place] = number[np.cumsum(is_first) - 1]
    return ids


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


# --- sorting by several int64 columns -------------------------------------------------------------------------
# numpy sorts numbers many times faster than it computes their order. Where they fit into 63 bits, the columns and the
# row numbers after them are packed into one number each: once these are sorted, the last bits are the order.


Numbers = npt.NDArray[np.int64]


def in_order(columns: Sequence[Numbers]) -> Numbers:
    """The row indices sorted ascending by the columns, of which the first is the most significant. The sort is
    stable.
    """
    count = len(columns[0])
    if count < 2:
        return np.arange(count)
    limits = [(int(column.min()), int(column.max())) for column in columns]
    widths = [(high - low).bit_length() for low, high in limits]
    own = (count - 1).bit_length()
    if sum(widths) + own > _MOST_BITS:
        return np.lexsort([*reversed(columns)])
    codes = _codes(columns, [low for low, _ in limits], widths)
    codes <<= own
    codes |= np.arange(count)
    codes.sort()
    codes &= (1 << own) - 1
    return codes


# --- hashes of keys -------------------------------------------------------------------------------------------
# For whole numbers the hash is Spark's ``xxhash64``: numpy computes it in a fraction of the time that Spark needs to
# compute and transfer it row by row. Other types have a hash of their own.


_SEED = 42
_1 = np.uint64(0x9E3779B185EBCA87)
_2 = np.uint64(0xC2B2AE3D27D4EB4F)
_3 = np.uint64(0x165667B19E3779F9)
_4 = np.uint64(0x85EBCA77C2B2AE63)
_5 = np.uint64(0x27D4EB2F165667C5)
_BLOCK = 1 << 14  # rows whose numbers stay in the cache of a core
_WORD, _HALF = np.uint64(8), np.uint64(4)


def can_hash(kind: pa.DataType) -> bool:
    """True for the types whose hash the exchange computes itself: integers, strings, and times that are stored as
    BIGINT. Spark hashes the others.
    """
    return _is_number(kind) or kind == pa.string()


def _is_number(kind: pa.DataType) -> bool:
    return kind in (pa.int64(), pa.int32())


def key_hash(columns: Sequence[pa.ChunkedArray]) -> np.ndarray:
    """The KEY_HASH of each row as int64: Spark's ``xxhash64`` of the columns, which skips NULLs."""
    count = len(columns[0])
    hashes = np.empty(count, np.int64)
    for start in range(0, count, _BLOCK):
        seed = np.full(min(_BLOCK, count - start), _SEED, np.uint64)
        parts = (column.slice(start, _BLOCK) for column in columns)
        hashes[start : start + _BLOCK] = reduce(_hashed, parts, seed).view(np.int64)
    return hashes


def _hashed(seed: np.ndarray, column: pa.ChunkedArray) -> np.ndarray:
    is_long = column.type == pa.int64()
    if not column.null_count:
        values = column.to_numpy()
        return _of_longs(seed, values.view(np.uint64)) if is_long else _of_ints(seed, values.view(np.uint32))
    filled = _hashed(seed, column.fill_null(0))
    return np.where(np.asarray(column.is_valid()), filled, seed)


def _of_longs(seed: np.ndarray, values: np.ndarray) -> np.ndarray:
    mixed = values * _2
    mixed = _rotated(mixed, 31)
    mixed *= _1
    mixed ^= seed + (_5 + _WORD)
    mixed = _rotated(mixed, 27)
    mixed *= _1
    mixed += _4
    return _finished(mixed)


def _of_ints(seed: np.ndarray, values: np.ndarray) -> np.ndarray:
    mixed = values.astype(np.uint64) * _1
    mixed ^= seed + (_5 + _HALF)
    mixed = _rotated(mixed, 23)
    mixed *= _2
    mixed += _3
    return _finished(mixed)


def _finished(mixed: np.ndarray) -> np.ndarray:
    mixed ^= mixed >> np.uint64(33)
    mixed *= _2
    mixed ^= mixed >> np.uint64(29)
    mixed *= _3
    mixed ^= mixed >> np.uint64(32)
    return mixed


def _rotated(values: np.ndarray, bits: int) -> np.ndarray:
    rotated = values << np.uint64(bits)
    rotated |= values >> np.uint64(64 - bits)
    return rotated


# --- values of other types ------------------------------------------------------------------------------------


def hash_of_values(columns: Sequence[pa.ChunkedArray], count: int) -> np.ndarray:
    """An int64 hash of each of ``count`` rows. It equals Spark's ``xxhash64`` for INT and BIGINT only; without columns
    it is 0.

    Columns are of numbers, strings, bytes, times or BOOLEANs.
    """
    if not columns:
        return np.zeros(count, np.int64)
    return key_hash([c if _is_number(c.type) else pa.chunked_array([_as_longs(c.combine_chunks())]) for c in columns])


def _as_longs(values: pa.Array) -> pa.Array:
    """BIGINTs that are equal where the values are, and most probably nowhere else."""
    kinds, kind = pa.types, values.type
    if kinds.is_decimal(kind):
        values, kind = values.cast(pa.string()), pa.string()
    if kinds.is_string(kind) or kinds.is_binary(kind):
        distinct = values.dictionary_encode()
        hashes = _of_bytes(distinct.dictionary.cast(pa.large_binary()))
        longs = np.append(hashes, 0)[np.asarray(distinct.indices.fill_null(len(hashes)))]
    elif kinds.is_floating(kind):
        longs = np.asarray(values.cast(pa.float64()).fill_null(0)).view(np.int64)
    elif kinds.is_date32(kind):
        return values.cast(pa.int32()).cast(pa.int64())
    else:
        return values.cast(pa.int64())
    return pa.array(longs, mask=np.asarray(values.is_null()))


def _of_bytes(values: pa.Array) -> np.ndarray:
    """int64: the bytes of each value as digits of a number with the base _1, modulo 2^64.

    The sum runs over all values at once; that of one is the difference of two, moved down to where it begins.
    """
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, np.int64)[values.offset : values.offset + len(values) + 1]
    digits = np.frombuffer(data or b"", np.uint8)[ends[0] : ends[-1]].astype(np.uint64) + np.uint64(1)
    ends = ends - ends[0]
    sums = np.zeros(len(digits) + 1, np.uint64)
    np.cumsum(digits * _powers(_1, len(digits)), out=sums[1:])
    down = _powers(np.uint64(pow(int(_1), -1, 1 << 64)), len(sums))
    polynomials: np.ndarray = (sums[ends[1:]] - sums[ends[:-1]]) * down[ends[:-1]]
    return polynomials.view(np.int64)


def _powers(base: np.uint64, count: int) -> np.ndarray:
    """uint64: base to the power of 0, 1, … modulo 2^64."""
    powers = np.full(count, base)
    powers[:1] = 1
    return np.cumprod(powers)


# --- kinds of changelog rows ----------------------------------------------------------------------------------


_RETRACTS = pa.array(["-U", "-D"])


def is_retraction(kinds: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """One boolean per row kind: true for -U and -D."""
    return np.asarray(pc.is_in(kinds, value_set=_RETRACTS).to_numpy(zero_copy_only=False), np.bool_)


def retracted_rows(rows: pa.Table) -> np.ndarray | None:
    """One boolean per row: true if ROW_KIND says that it is a retraction. None if no row is."""
    if ROW_KIND not in rows.schema.names:
        return None
    gone = is_retraction(rows.column(ROW_KIND).combine_chunks())
    return gone if gone.any() else None


def unmatched(ids: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """One boolean per row: true for the rows that remain after retractions were cancelled. Each retraction cancels the
    last earlier insertion with the same id, and remains itself if there is none.

    The result does not depend on how the rows are split into batches. ``ids`` and ``signs`` (1 or -1) have one value
    per row.
    """
    order, ends, sizes = by_id(ids)
    signs = signs[order]
    balance = np.cumsum(signs)
    balance -= np.repeat(balance[ends] - np.add.reduceat(signs, ends + 1 - sizes), sizes)
    # Offsets keep the balances of different ids apart, so one running minimum serves all ids.
    offsets = np.repeat(np.arange(len(ends)), sizes) * (2 * len(ids) + 2)
    lowest = np.minimum(np.minimum.accumulate(balance - offsets) + offsets, 0)
    before = np.concatenate(([0], lowest[:-1]))
    before[ends + 1 - sizes] = 0
    lowest_after = np.minimum.accumulate((balance + offsets)[::-1])[::-1] - offsets
    stays = np.empty(len(ids), np.bool_)
    stays[order] = np.where(signs < 0, balance < before, lowest_after >= balance)
    return stays


def by_id(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Groups rows by id. Returns three arrays: the row indices sorted by id, with rows of equal id in their order; for
    each id the position of its last row in that order; and for each id the number of its rows.
    """
    order = np.argsort(ids, kind="stable")
    ends = np.flatnonzero(np.diff(ids[order], append=-1))
    return order, ends, np.diff(ends, prepend=-1)
