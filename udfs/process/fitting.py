"""Which Python values are surely of an Arrow type: a look at their class, where making an array of one is dear."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

Fits = Callable[[Any], bool]


def fits(kind: pa.DataType) -> Fits:
    """True for values of which an array can be made; False where only Arrow can tell."""
    if pa.types.is_signed_integer(kind):
        most = 1 << (kind.bit_width - 1)
        return lambda value: value is None or (type(value) is int and -most <= value < most)
    if pa.types.is_string(kind):
        return lambda value: value is None or (type(value) is str and value.isascii())
    plain = float if pa.types.is_float64(kind) else bool if pa.types.is_boolean(kind) else None
    return lambda value: value is None or (plain is not None and type(value) is plain)
