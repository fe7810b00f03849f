"""Numbers of Arrow columns as numpy arrays and back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds


def is_time(type_: pa.DataType) -> bool:
    """True for the types that Arrow stores as one integer."""
    return bool(kinds.is_temporal(type_)) and not kinds.is_interval(type_)


def numbers_of(column: pa.Array) -> np.ndarray:
    """The numbers of a column without NULLs; booleans as 0 and 1, times as what Arrow stores."""
    if is_time(column.type):
        column = column.view(f"int{column.type.bit_width}")
    numbers: np.ndarray = column.to_numpy(zero_copy_only=False)
    return numbers.view(np.uint8) if numbers.dtype == np.bool_ else numbers


def column_of(numbers: np.ndarray, type_: pa.DataType, missing: np.ndarray | None = None) -> pa.Array:
    """The reverse of ``numbers_of``; NULL where ``missing``."""
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
