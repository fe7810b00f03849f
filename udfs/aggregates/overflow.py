"""The error of ANSI mode where a result does not fit its type."""

from __future__ import annotations

import pyarrow as pa

from sqlstream.errors import ExecutionError, repeating
from sqlstream.types import from_arrow

OVERFLOW = repeating("SS431")


def overflow(function: str, type_: pa.DataType) -> ExecutionError:
    """The error of an overflow. It names Spark's error class, because users search for that."""
    wider = "DOUBLE" if pa.types.is_decimal(type_) else "DECIMAL(38, 0)"
    return ExecutionError(
        OVERFLOW,
        f"{function} overflows the type {from_arrow(type_)}",
        detail="Spark calls this error ARITHMETIC_OVERFLOW.",
        hint=f"Convert the argument, as in {function}(CAST(x AS {wider})).",
    )
