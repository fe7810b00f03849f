"""The function of q14."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.functions import scalar


@scalar(returns="BIGINT", vectorized=True)
def count_char(text: pa.Array, character: pa.Array) -> pa.Array:
    """How often the character, a constant of the query, is in each text."""
    if len(text) == 0:
        return pa.array([], pa.int64())
    return pc.count_substring(text, character[0].as_py()).cast(pa.int64())
