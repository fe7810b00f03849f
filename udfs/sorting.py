"""Rows in the order of several columns of int64.

numpy sorts numbers many times faster than it finds their order: so columns, and the numbers of the rows behind them,
become one number where they fit into 63 bits, of which the last bits tell the order once these are sorted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]

_MOST_BITS = 63


def in_order(columns: Sequence[Numbers]) -> Numbers:
    """The rows in the order of the columns, the most significant first, and as they are where all are equal."""
    count = len(columns[0])
    if count < 2:
        return np.arange(count)
    limits = [(int(column.min()), int(column.max())) for column in columns]
    widths = [(high - low).bit_length() for low, high in limits]
    own = (count - 1).bit_length()
    if sum(widths) + own > _MOST_BITS:
        return np.lexsort([*reversed(columns)])
    codes = np.zeros(count, np.int64)
    for column, (low, _), width in zip(columns, limits, widths, strict=True):
        codes <<= width
        codes |= column - low
    codes <<= own
    codes |= np.arange(count)
    codes.sort()
    codes &= (1 << own) - 1
    return codes
