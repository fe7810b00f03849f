"""Selects the rows of loaded buckets that a kernel asked for, or all of them if it asked for many."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sqlstream.udfs.state.deltas import NO_PLACES, Bucket, alive, alive_at, distinct

DENSE = 4
"""Where one row in so many is asked for, buckets are given, and written, as a whole."""


class AskedRows:
    """``places``: the sorted places that were asked for; None for all rows of the loaded buckets. ``by``: the column of
    places."""

    def __init__(self, by: str, schema: pa.Schema) -> None:
        self.places: np.ndarray | None = NO_PLACES
        self._by = by
        self._schema = schema
        self._latest: tuple[Sequence[Bucket], pa.Table] | None = None

    def add(self, places: np.ndarray, dense: bool) -> None:
        if self.places is not None:
            self.places = None if dense else distinct(np.concatenate((self.places, places)))
            self._latest = None

    def changed(self) -> None:
        """The buckets have other rows than before."""
        self._latest = None

    def rows(self, buckets: Sequence[Bucket]) -> pa.Table:
        """The rows that were asked for in some buckets."""
        if self.places is None:
            batches = [rows for bucket in buckets for rows in alive(bucket.chunks, self._by)]
            return pa.Table.from_batches(batches, self._schema)
        if self._latest is None or self._latest[0] != buckets:
            chunks = [chunk for bucket in buckets for chunk in bucket.chunks]
            self._latest = buckets, alive_at(chunks, self.places, self._by, self._schema)
        return self._latest[1]


def is_dense(places: np.ndarray, bucket: Bucket, rows: int, hash_column: str) -> bool:
    """Are sorted places, of so many rows, many? By their number, and by the rows that they have in one bucket."""
    if (np.count_nonzero(places[1:] != places[:-1]) + 1) * DENSE >= rows:
        return True
    of_rows = max((chunk.rows for chunk in bucket.chunks), key=len).column(hash_column).to_numpy()
    here = places[np.searchsorted(places, of_rows.min()) : np.searchsorted(places, of_rows.max(), side="right")]
    return bool(np.isin(of_rows, here).sum() * DENSE >= len(of_rows))
