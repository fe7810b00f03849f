"""The changes of one input in a micro-batch as multisets: rows that are added, removed, or retracted and added
again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sqlstream.udfs.joins.pairs import Indices, in_order, numbered
from sqlstream.udfs.keys import dense_ids
from sqlstream.udfs.row_kinds import gone_of

Flags = np.ndarray


class Changes(NamedTuple):
    """Added, removed and cancelled rows of one schema. ``repeated``: stored rows that were retracted and then added
    again unchanged."""

    added: pa.Table
    removed: pa.Table
    repeated: pa.Table

    def where(self, chosen: Sequence[Flags]) -> Changes:
        return Changes(*(rows.filter(pa.array(flags)) for rows, flags in zip(self, chosen, strict=True)))


def net(rows: pa.Table, columns: Sequence[str], *, repeats: bool) -> Changes:
    """The changes that rows, of the kinds in ROW_KIND, make together; rows without the column are inserts.

    ``repeats``: tell which rows are repeated; else they are left out.
    """
    images = rows.select(columns)
    none = images.slice(0, 0)
    flags = net_flags(rows, columns, repeats=repeats)
    if flags is None:
        return Changes(images, none, none)
    return Changes(*(none if chosen is None else images.filter(pa.array(chosen)) for chosen in flags))


class NetFlags(NamedTuple):
    """Which rows are those of ``Changes``; ``repeated`` is None where nobody asked."""

    added: Flags
    removed: Flags
    repeated: Flags | None


def net_flags(rows: pa.Table, columns: Sequence[str], *, repeats: bool) -> NetFlags | None:
    """As ``net``, of rows that may have more columns than those that tell them apart; None where all are added."""
    retracts = gone_of(rows)
    if retracts is None:
        return None
    ids = dense_ids(rows, columns).ids
    sign = np.where(retracts, -1, 1)
    weight = np.bincount(ids, sign).astype(np.int64)
    added, removed = ~retracts, retracts.copy()
    added[added] = within(ids[added], np.maximum(weight, 0))
    removed[removed] = within(ids[removed], np.maximum(-weight, 0))
    if not repeats:
        return NetFlags(added, removed, None)
    cancelled = ~retracts & ~added
    cancelled[cancelled] = within(ids[cancelled], _used(ids, sign) + np.minimum(weight, 0))
    return NetFlags(added, removed, cancelled)


def _used(ids: Indices, sign: Indices) -> Indices:
    """By id, the number of stored rows that the changes need so that every retraction meets a row."""
    order = in_order(ids)
    begins = np.flatnonzero(np.diff(ids[order], prepend=-1))
    sums = np.cumsum(sign[order])
    before = np.concatenate(([0], sums))[begins]
    used: Indices = np.maximum(before - np.minimum.reduceat(sums, begins), 0)
    return used


def within(ids: Indices, most: Indices) -> Flags:
    """True for the first rows of each id, as many as ``most`` has for it."""
    order = in_order(ids)
    ordered = ids[order]
    begins = np.flatnonzero(np.diff(ordered, prepend=-1))
    occurrence = np.arange(len(ids)) - np.repeat(begins, np.diff(begins, append=len(ids)))
    inside = np.empty(len(ids), np.bool_)
    inside[order] = occurrence < most[ordered]
    return inside


def found_among(rows: pa.Table, wanted: pa.Table, columns: Sequence[str]) -> tuple[Flags, Flags]:
    """The first rows that are equal to those wanted, one for each; and which of the wanted have one."""
    if not rows.num_rows or not wanted.num_rows:
        return np.zeros(rows.num_rows, np.bool_), np.zeros(wanted.num_rows, np.bool_)
    ids, of_wanted = numbered(rows, wanted, columns)
    count = int(max(ids.max(), of_wanted.max())) + 1
    there, asked = np.bincount(ids, minlength=count), np.bincount(of_wanted, minlength=count)
    return within(ids, asked), within(of_wanted, there)
