"""The nearest row of an ordered table that fulfils a condition, for many rows at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sqlstream.udfs.joins.condition import Condition
from sqlstream.udfs.joins.deciding import fulfilling
from sqlstream.udfs.joins.pairs import Indices, expanded_pairs, moved, newest, places_of

_WIDER = 4
"""Probes that met no partner among their candidates look at so many times as many more of them."""


class Candidates(NamedTuple):
    """Some ``rows`` of a ``table``, which is in order of the numbers of keys (``ids``), then of their ``values``."""

    table: pa.Table
    rows: Indices
    ids: Indices
    values: Indices


def nearest(
    probes: pa.Table, of: Indices, at: Indices, among: Candidates, *, strict: bool, condition: Condition | None
) -> Indices:
    """For each probe (``of``, ``at``) the row of the table that is the last candidate of its number whose value is not
    above its own, with ``strict`` below it, and that fulfils the ``condition`` with it; -1 for none."""
    if not len(among.rows) or not len(of):
        return np.full(len(of), -1, np.int64)
    if condition is None:
        last = newest(among.ids, among.values, of, at, strict=strict)
        return np.where(last >= 0, among.rows[last], -1)
    stop = places_of(among.ids, among.values, of, at, behind_equal=not strict)
    first = np.minimum(np.searchsorted(among.ids, of, side="left"), stop)
    nearest = np.full(len(of), -1, np.int64)
    width, open_probes = 1, np.flatnonzero(stop > first)
    while len(open_probes):
        end = stop[open_probes]
        start = np.maximum(end - width, first[open_probes])
        pairs = (moved(pair, open_probes) for pair in expanded_pairs(start, end, among.rows))
        for met in fulfilling(pairs, condition, probes, among.table):
            np.maximum.at(nearest, met.left, met.right)
        stop[open_probes] = start
        open_probes = open_probes[(nearest[open_probes] < 0) & (start > first[open_probes])]
        width *= _WIDER
    return nearest
