"""Values of Arrow columns as numpy arrays: numbers, and ranks that preserve the order of any type."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds


def is_time(type_: pa.DataType) -> bool:
    """True for types that Arrow stores as one integer."""
    return bool(kinds.is_temporal(type_)) and not kinds.is_interval(type_)


def numbers_of(column: pa.Array) -> np.ndarray:
    """The numbers of a column without NULLs; booleans as 0 and 1, times as the integers that Arrow stores."""
    if is_time(column.type):
        column = column.view(f"int{column.type.bit_width}")
    numbers: np.ndarray = column.to_numpy(zero_copy_only=False)
    return numbers.view(np.uint8) if numbers.dtype == np.bool_ else numbers


def column_of(numbers: np.ndarray, type_: pa.DataType, missing: np.ndarray | None = None) -> pa.Array:
    """The inverse of ``numbers_of``; NULL where ``missing``."""
    mask = missing if missing is not None and missing.any() else None
    if kinds.is_boolean(type_):
        return pa.array(numbers.astype(np.bool_), mask=mask)
    if is_time(type_):
        return pa.array(numbers, pa.type_for_alias(f"int{type_.bit_width}"), mask=mask).view(type_)
    return pa.array(numbers, type_, mask=mask)


def truths_of(column: pa.Array) -> np.ndarray:
    """The booleans of a column, False for NULL."""
    truths: np.ndarray = pc.fill_null(column, False).to_numpy(zero_copy_only=False)
    return truths


def doubles_of(column: pa.Array) -> np.ndarray:
    """The numbers of a column without NULLs as DOUBLE."""
    doubles: np.ndarray = column.cast(pa.float64(), safe=False).to_numpy()
    return doubles


# --- ranks: values as integers in the same order --------------------------------------------------------------


_NAN = 2**63 - 1


def is_ordered(type_: pa.DataType) -> bool:
    """True for the types that ``ranks`` takes."""
    texts = kinds.is_string(type_) or kinds.is_large_string(type_) or kinds.is_binary(type_)
    return bool(is_number(type_) or texts or kinds.is_large_binary(type_) or kinds.is_decimal(type_))


def is_number(type_: pa.DataType) -> bool:
    """True for types that are one machine number each."""
    return bool(is_time(type_) or kinds.is_integer(type_) or kinds.is_floating(type_) or kinds.is_boolean(type_))


def ranks(column: pa.Array) -> np.ndarray:
    """An int64 per value, in Spark's order of the values; equal values have equal ranks. No NULLs.

    NaN is the greatest number and equal to itself, -0.0 equals 0.0; texts are compared byte by byte.
    """
    if kinds.is_floating(column.type):
        return _float_ranks(numbers_of(column))
    if is_number(column.type):
        return numbers_of(column).astype(np.int64, copy=False)
    encoded = column.dictionary_encode()
    places = pc.rank(encoded.dictionary, tiebreaker="dense").to_numpy().astype(np.int64)
    result: np.ndarray = places[encoded.indices.to_numpy()]
    return result


def _float_ranks(numbers: np.ndarray) -> np.ndarray:
    """Bits of IEEE 754 numbers are ordered like the numbers, those of negative ones the other way round."""
    numbers = numbers.astype(np.float64) + 0.0
    bits = numbers.view(np.int64)
    ordered_bits = np.where(bits < 0, bits ^ _NAN, bits)
    ordered_bits[np.isnan(numbers)] = _NAN
    return ordered_bits
