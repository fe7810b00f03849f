"""The hash of keys. Of whole numbers it is Spark's ``xxhash64``, which numpy computes in a fraction of what it costs
Spark to compute it and to hand it over, row by row; other values have one of their own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import pyarrow as pa

_SEED = 42
_1 = np.uint64(0x9E3779B185EBCA87)
_2 = np.uint64(0xC2B2AE3D27D4EB4F)
_3 = np.uint64(0x165667B19E3779F9)
_4 = np.uint64(0x85EBCA77C2B2AE63)
_5 = np.uint64(0x27D4EB2F165667C5)
_BLOCK = 1 << 14  # rows whose numbers stay in the cache of a core
_WORD, _HALF = np.uint64(8), np.uint64(4)


def can_hash(kind: pa.DataType) -> bool:
    """True for the types that exchanges hash themselves: whole numbers, times as BIGINTs included, and texts."""
    return _is_number(kind) or kind == pa.string()


def _is_number(kind: pa.DataType) -> bool:
    return kind in (pa.int64(), pa.int32())


def key_hash(columns: Sequence[pa.ChunkedArray]) -> np.ndarray:
    """int64: ``xxhash64`` of the columns, one hash per row. NULLs leave the hash of the columns before them."""
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
    """int64: a hash of each of ``count`` rows, that of Spark for INT and BIGINT only; 0 where there are no columns.

    Columns are numbers, texts, bytes, times and BOOLEANs.
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
