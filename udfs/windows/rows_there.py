"""How many rows windows have, and how many came to them, where some of them go again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from sqlstream.udfs.aggregates import AggregateCall, Aggregates

_THERE, _CAME = "__rows", "__changes"


def counted(aggregates: Aggregates) -> Aggregates:
    """With two more calls, which ``rows_there`` and ``rows_that_came`` read."""
    there = AggregateCall(_THERE, "count", (), pa.int64())
    came = [replace(there, name=_CAME, every_change=True)] if aggregates.updating else []
    return replace(aggregates, calls=(*aggregates.calls, there, *came))


def rows_there(results: pa.Table) -> np.ndarray:
    """The rows that have come less those that went. As in Flink, a window where this is 0 has no result."""
    return np.asarray(results.column(_THERE).to_numpy())


def rows_that_came(results: pa.Table) -> np.ndarray:
    """The rows of all kinds."""
    return np.asarray(results.column(_CAME if _CAME in results.column_names else _THERE).to_numpy())
