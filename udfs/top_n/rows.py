"""Rows beside each other, and what kinds they are of."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.keys import dense_ids
from sqlstream.udfs.top_n.order import Flags


def differ(one: pa.Table, other: pa.Table) -> Flags:
    """True where two tables of as many rows differ; NULL is equal to NULL, and NaN to NaN."""
    count = one.num_rows
    ids = dense_ids(pa.concat_tables([one, other]), one.column_names).ids
    return np.asarray(ids[:count] != ids[count:], np.bool_)


def kinds(flags: Flags, true: str, false: str) -> pa.Array:
    """A kind of row for each flag."""
    return pc.if_else(pa.array(flags), true, false)
