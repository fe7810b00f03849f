"""Rows of windows that fire at barriers, cut where these stand."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from sqlstream.udfs.kernel import BARRIER


def between_barriers(rows: pa.Table) -> Iterator[pa.Table]:
    """The rows before the first row with a BARRIER, between it and the second, …, behind the last; maybe empty."""
    barriers = np.flatnonzero(np.asarray(rows.column(BARRIER).is_valid())).tolist()
    plain = rows.drop_columns([BARRIER])
    for start, stop in zip([0, *(barrier + 1 for barrier in barriers)], [*barriers, rows.num_rows], strict=True):
        yield plain.slice(start, stop - start)
