"""Numbers for rows in the order of arrival, for windows that merge: their rows must find their order again.

A number is greater than those of all rows of its key that windows hold. So nothing is kept beside the windows, and the
rows of one key need not know of those of another one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.udfs.aggregates import Aggregates
from sqlstream.udfs.aggregates.call import ARRIVAL

Values = np.ndarray[Any, np.dtype[Any]]


def numbered(rows: pa.Table, key: Values, aggregates: Aggregates, held: pa.Table, key_of_held: Values) -> pa.Table:
    """The rows with the column ARRIVAL, where the aggregates ask for it.

    ``held``: the accumulators of all windows of these keys; ``key`` and ``key_of_held``: numbers of the keys.
    """
    if not aggregates.by_number:
        return rows
    newest = np.full(int(max(key.max(initial=-1), key_of_held.max(initial=-1))) + 1, -1, np.int64)
    np.maximum.at(newest, key_of_held, aggregates.newest(held))
    return rows.append_column(ARRIVAL, pa.array(newest[key] + 1 + np.arange(len(key))))
