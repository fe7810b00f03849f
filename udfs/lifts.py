"""How far a source says that the watermark may go behind a micro-batch, which its rows carry in a hidden column."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

LIFT = "__lift"
"""BIGINT column of rows whose source says how far the watermark may go, whatever their own times: that time in
microseconds, the same for all rows of a micro-batch; NULL if it stays."""


def lift_of(places: Iterable[pa.RecordBatch]) -> int | None:
    """The time that the watermark may reach behind the micro-batch of a task's source splits; None if it stays, and for
    splits without LIFT.
    """
    lifts = (lift for batch in places if LIFT in batch.schema.names for lift in batch.column(LIFT).to_pylist())
    return next((lift for lift in lifts if lift is not None), None)
