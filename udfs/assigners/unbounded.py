"""GLOBAL WINDOW: one window per key, which no clock closes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sqlstream.udfs.assigners.assigner import Assigned, per_row
from sqlstream.udfs.kernel import END_OF_TIME, NO_WATERMARK, Context, Domain


@dataclass(frozen=True)
class Global:
    """Its window is ``[NO_WATERMARK, END_OF_TIME)``. ``domain`` is that of its triggers."""

    domain: Domain = Domain.EVENT
    merging: bool = False

    def assign(self, rows: pa.Table, context: Context) -> Assigned:
        count = rows.num_rows
        return per_row(np.full(count, NO_WATERMARK), np.full(count, END_OF_TIME), count)
