"""Kinds of changelog rows: insertions and retractions."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.kernel import ROW_KIND

_RETRACTS = pa.array(["-U", "-D"])


def is_retraction(kinds: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """True for the kinds of retractions, -U and -D."""
    return np.asarray(pc.is_in(kinds, value_set=_RETRACTS).to_numpy(zero_copy_only=False), np.bool_)


def retracted_rows(rows: pa.Table) -> np.ndarray | None:
    """True for the rows that are retractions; None if there are none."""
    if ROW_KIND not in rows.schema.names:
        return None
    gone = is_retraction(rows.column(ROW_KIND).combine_chunks())
    return gone if gone.any() else None


def unmatched(ids: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """True for the rows that remain after cancellation: each retraction cancels the last earlier insertion of the same
    id, and remains if there is none.

    The result does not depend on how the rows are split into batches. ``ids`` and ``signs`` (1 or -1) have one value
    per row.
    """
    order, ends, sizes = by_id(ids)
    signs = signs[order]
    balance = np.cumsum(signs)
    balance -= np.repeat(balance[ends] - np.add.reduceat(signs, ends + 1 - sizes), sizes)
    # Offsets keep the balances of different ids apart, so one running minimum serves all ids.
    offsets = np.repeat(np.arange(len(ends)), sizes) * (2 * len(ids) + 2)
    lowest = np.minimum(np.minimum.accumulate(balance - offsets) + offsets, 0)
    before = np.concatenate(([0], lowest[:-1]))
    before[ends + 1 - sizes] = 0
    behind = np.minimum.accumulate((balance + offsets)[::-1])[::-1] - offsets
    stays = np.empty(len(ids), np.bool_)
    stays[order] = np.where(signs < 0, balance < before, behind >= balance)
    return stays


def by_id(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rows in order of their ids (stable), the end of the rows of each id in that order, and their number."""
    order = np.argsort(ids, kind="stable")
    ends = np.flatnonzero(np.diff(ids[order], append=-1))
    return order, ends, np.diff(ends, prepend=-1)
