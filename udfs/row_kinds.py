"""Which rows come and which go, by their kinds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.kernel import ROW_KIND

_RETRACTS = pa.array(["-U", "-D"])


def retracts(kinds: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """True for the kinds of rows that go."""
    return np.asarray(pc.is_in(kinds, value_set=_RETRACTS).to_numpy(zero_copy_only=False), np.bool_)


def gone_of(rows: pa.Table) -> np.ndarray | None:
    """True for rows that go; None where all of them come."""
    if ROW_KIND not in rows.schema.names:
        return None
    gone = retracts(rows.column(ROW_KIND).combine_chunks())
    return gone if gone.any() else None


def unmatched(ids: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """True for the rows that stay: each row that goes takes with it the last one of its id before it that is there, and
    stays where there is none. So it is the same in which parts the rows come."""
    order, ends, sizes = by_id(ids)
    signs = signs[order]
    balance = np.cumsum(signs)
    balance -= np.repeat(balance[ends] - np.add.reduceat(signs, ends + 1 - sizes), sizes)
    # The balances of ids are put apart, so that running minimums do for all ids at once.
    offsets = np.repeat(np.arange(len(ends)), sizes) * (2 * len(ids) + 2)
    lowest = np.minimum(np.minimum.accumulate(balance - offsets) + offsets, 0)
    before = np.concatenate(([0], lowest[:-1]))
    before[ends + 1 - sizes] = 0
    behind = np.minimum.accumulate((balance + offsets)[::-1])[::-1] - offsets
    stays = np.empty(len(ids), np.bool_)
    stays[order] = np.where(signs < 0, balance < before, behind >= balance)
    return stays


def by_id(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows by id, in order within each; there, where the rows of each id end, and how many they are."""
    order = np.argsort(ids, kind="stable")
    ends = np.flatnonzero(np.diff(ids[order], append=-1))
    return order, ends, np.diff(ends, prepend=-1)
