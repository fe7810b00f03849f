"""The rows of some keys in the order that OVER sees: by key, then by time, then by arrival."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]
Times = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class Bounds(NamedTuple):
    """Rows ``[start, stop)`` for each of some rows; empty where ``stop <= start``."""

    start: Indices
    stop: Indices


class Line:
    """``key`` counts from 0, ascending; ``time`` ascends within each key. Both are in microseconds.

    ``peers``: rows of one key and time are peers of each other, where they have the same ``tie`` if there is one. In
    processing time they are not: a row does not see what comes after it in the same instant.
    """

    def __init__(self, key: Indices, time: Times, *, peers: bool = True, tie: Indices | None = None) -> None:
        self.key = key
        self.time = time
        self._peers = peers
        self._tie = tie

    def __len__(self) -> int:
        return len(self.key)

    @cached_property
    def begins(self) -> Flags:
        """True for the first row of each key."""
        begins = np.ones(len(self.key), np.bool_)
        np.not_equal(self.key[1:], self.key[:-1], out=begins[1:])
        return begins

    @cached_property
    def first(self) -> Indices:
        """The first row of the key of each row."""
        rows = np.arange(len(self.key))
        return np.maximum.accumulate(np.where(self.begins, rows, 0))

    @cached_property
    def end(self) -> Indices:
        """One after the last row of the key of each row."""
        starts = np.flatnonzero(self.begins)
        return np.repeat(np.append(starts[1:], len(self.key)), np.diff(starts, append=len(self.key)))

    def sums(self, flags: Flags) -> Indices:
        """How many rows of the key of each row have the flag."""
        starts = np.flatnonzero(self.begins)
        counts = np.add.reduceat(flags.astype(np.int64), starts)
        return np.repeat(counts, np.diff(starts, append=len(self.key)))

    @cached_property
    def begins_peers(self) -> Flags:
        """True for the first row of each group of peers."""
        if not self._peers:
            return np.ones(len(self.key), np.bool_)
        begins = self.begins.copy()
        begins[1:] |= self.time[1:] != self.time[:-1]
        if self._tie is not None:
            begins[1:] |= self._tie[1:] != self._tie[:-1]
        return begins

    @cached_property
    def first_peer(self) -> Indices:
        rows = np.arange(len(self.key))
        return np.maximum.accumulate(np.where(self.begins_peers, rows, 0))

    @cached_property
    def after_peers(self) -> Indices:
        """One after the last peer of each row."""
        starts = np.flatnonzero(self.begins_peers)
        return np.repeat(np.append(starts[1:], len(self.key)), np.diff(starts, append=len(self.key)))

    def moved(self, count: int) -> Indices:
        """For each row the one so many rows behind it, at most one after the last of its key; negative: before."""
        return np.clip(np.arange(len(self.key)) + count, self.first, self.end)

    def bounds(self, start: Indices, stop: Indices) -> Bounds:
        return Bounds(start, stop)

    def at(self, offset: int, side: str) -> Indices:
        """For each row the position, among the rows of its key, of the time ``offset`` after its own."""
        if len(self.key) == 0:
            return np.zeros(0, np.int64)
        codes, asked = _codes(self.key, self.time, self.time + offset)
        positions = np.searchsorted(codes, asked, side="left" if side == "left" else "right")
        return np.clip(positions, self.first, self.end)


def _codes(key: Indices, time: Times, asked: Times) -> tuple[Times, Times]:
    """Times and times that are asked for as numbers of one line, on which those of different keys do not mix."""
    low = int(min(time.min(), asked.min()))
    length = int(max(time.max(), asked.max())) - low + 1
    if length * (int(key.max()) + 1) > np.iinfo(np.int64).max:
        # Times so far apart that the line would be too long: only their order matters.
        _, ranks = np.unique(np.concatenate((time, asked)), return_inverse=True)
        time, asked = np.split(ranks.astype(np.int64), 2)
        low, length = 0, 2 * len(key) + 1
    offset = key * length - low
    return time + offset, asked + offset
