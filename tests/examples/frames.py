"""Frames of pandas and of sqlstream, made comparable."""

from __future__ import annotations

import pandas as pd


def comparable(frame: pd.DataFrame) -> pd.DataFrame:
    """Sorted, times without zone, integers and floating-point numbers of one width."""
    plain = frame.copy()
    for name, column in plain.items():
        if isinstance(column.dtype, pd.DatetimeTZDtype):
            column = column.dt.tz_convert("UTC").dt.tz_localize(None)
        if pd.api.types.is_datetime64_dtype(column):
            plain[name] = column.astype("datetime64[us]")
        elif pd.api.types.is_integer_dtype(column):
            plain[name] = column.astype("int64")
    return plain.sort_values(list(plain.columns), ignore_index=True)
