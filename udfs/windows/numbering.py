"""Numbers for pairs of numbers, such as a key's and a pane's, and rows in order of such numbers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream.udfs.keys import Ids, dense_ids
from sqlstream.udfs.windows.ranges import Indices, Ranges

_SPARSE = 4
"""Codes up to this many times the rows are numbered through a table of all codes, others through a hash table."""


def number(codes: Indices, bound: int) -> Ids:
    """Numbers codes in ``[0, bound)`` by first appearance."""
    if bound > _SPARSE * len(codes) + 1024:
        return dense_ids(pa.table({"code": codes}), ("code",))
    first = np.full(bound, len(codes), np.int64)
    # Of several assignments to one place numpy keeps the last.
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    rows = np.sort(first[first < len(codes)])
    numbers = np.empty(bound, np.int64)
    numbers[codes[rows]] = np.arange(len(rows))
    return Ids(numbers[codes], rows)


def renumbered(ids: Ids, order: Indices) -> Ids:
    """The same ids, renumbered: ``order`` lists the old numbers in their new order."""
    numbers = np.empty(ids.count, np.int64)
    numbers[order] = np.arange(ids.count)
    return Ids(numbers[ids.ids], ids.first[order])


def stable_order(ids: Indices, bound: int) -> Indices:
    """The rows sorted by id in ``[0, bound)``, in their order within each. numpy sorts 16 bits by radix."""
    order = np.argsort((ids & 0xFFFF).astype(np.uint16), kind="stable")
    for shift in range(16, int(bound).bit_length(), 16):
        order = order[np.argsort(((ids >> shift) & 0xFFFF).astype(np.uint16)[order], kind="stable")]
    return order


def rows_below(ordered: Indices, codes: Indices, bound: int) -> Indices:
    """How many of the ordered numbers in ``[0, bound)`` are below each code, which is at most ``bound``."""
    if bound > _SPARSE * (len(ordered) + len(codes)) + 1024:
        return np.searchsorted(ordered, codes, side="left")
    below = np.zeros(bound + 1, np.int64)
    np.cumsum(np.bincount(ordered, minlength=bound), out=below[1:])
    return below[codes]


def runs(ordered: Indices) -> Ranges:
    """The stretches of equal numbers."""
    if len(ordered) == 0:
        return Ranges(np.zeros(0, np.int64), np.zeros(0, np.int64))
    starts = np.concatenate(([0], np.flatnonzero(ordered[1:] != ordered[:-1]) + 1))
    return Ranges(starts, np.append(starts[1:], len(ordered)))
