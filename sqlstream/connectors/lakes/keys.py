"""The keys of a micro-batch as few ranges, by which a merge leaves out files that hold none of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

MOST_RANGES = 32


def key_ranges(keys: pa.ChunkedArray) -> list[tuple[Any, Any]] | None:
    """At most MOST_RANGES ranges, in order, that hold all keys which are not NULL. Integers and dates are divided where
    the greatest gaps between them are, texts into ranges of as many keys.

    None for types whose bounds in the statistics of files are not exact, such as times, and where all keys are NULL.
    """
    if not (kinds.is_integer(keys.type) or kinds.is_date32(keys.type) or _is_text(keys.type)):
        return None
    values = pc.unique(keys.drop_null())
    values = values.take(pc.array_sort_indices(values))
    if not len(values):
        return None
    ends = _ends(values)
    firsts = [0, *(end + 1 for end in ends[:-1])]
    return [(values[first].as_py(), values[end].as_py()) for first, end in zip(firsts, ends, strict=True)]


def _is_text(kind: pa.DataType) -> bool:
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind))


def _ends(values: pa.Array) -> list[int]:
    """The indices of the greatest value of each range."""
    last = len(values) - 1
    if last < MOST_RANGES:
        return [*range(last + 1)]
    if _is_text(values.type):
        return [last * number // MOST_RANGES for number in range(1, MOST_RANGES + 1)]
    numbers = np.asarray(values.cast(pa.int32()) if kinds.is_date32(values.type) else values).astype(np.float64)
    gaps = np.argsort(-np.diff(numbers), kind="stable")[: MOST_RANGES - 1]
    return [*sorted(gaps.tolist()), last]
