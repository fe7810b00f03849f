"""The rows of some keys in the order that OVER sees: by key, then by time, then by arrival. Also the base of kernels
whose rows wait for a clock."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.kernel import END_OF_TIME, Context, Domain, Kernel, Pending, Wait, waits
from sqlstream.udfs.keys import in_order
from sqlstream.udfs.state.buckets import EVENT_TIMER, PROCESSING_TIMER
from sqlstream.udfs.state.keyed import KeyedState

Indices = npt.NDArray[np.int64]
Times = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class Bounds(NamedTuple):
    """Ranges ``[start, stop)`` of row indices, one for each of some rows; a range is empty where ``stop <= start``."""

    start: Indices
    stop: Indices


class SortedRows:
    """The rows of a call sorted by key, time and order of arrival: ``key`` has the index of each row's key, from 0;
    ``time`` is in microseconds.

    ``peers``: whether rows of one key with equal time and, if given, equal ``tie`` are peers. False in processing time,
    because a row does not see rows that arrive after it in the same instant.
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
        """One boolean per row: true for the first row of each key."""
        begins = np.ones(len(self.key), np.bool_)
        np.not_equal(self.key[1:], self.key[:-1], out=begins[1:])
        return begins

    @cached_property
    def first(self) -> Indices:
        """For each row the index of the first row with the same key."""
        rows = np.arange(len(self.key))
        return np.maximum.accumulate(np.where(self.begins, rows, 0))

    @cached_property
    def end(self) -> Indices:
        """For each row the index after the last row with the same key."""
        starts = np.flatnonzero(self.begins)
        return np.repeat(np.append(starts[1:], len(self.key)), np.diff(starts, append=len(self.key)))

    def sums(self, flags: Flags) -> Indices:
        """For each row the number of rows with the same key for which ``flags`` is true."""
        starts = np.flatnonzero(self.begins)
        counts = np.add.reduceat(flags.astype(np.int64), starts)
        return np.repeat(counts, np.diff(starts, append=len(self.key)))

    @cached_property
    def begins_peers(self) -> Flags:
        """One boolean per row: true for the first row of each group of peers."""
        if not self._peers:
            return np.ones(len(self.key), np.bool_)
        begins = self.begins.copy()
        begins[1:] |= self.time[1:] != self.time[:-1]
        if self._tie is not None:
            begins[1:] |= self._tie[1:] != self._tie[:-1]
        return begins

    @cached_property
    def first_peer(self) -> Indices:
        """For each row the index of its first peer."""
        rows = np.arange(len(self.key))
        return np.maximum.accumulate(np.where(self.begins_peers, rows, 0))

    @cached_property
    def after_peers(self) -> Indices:
        """For each row the index after its last peer."""
        starts = np.flatnonzero(self.begins_peers)
        return np.repeat(np.append(starts[1:], len(self.key)), np.diff(starts, append=len(self.key)))

    def moved(self, count: int) -> Indices:
        """For each row the index ``count`` rows later (negative: earlier), but at least that of the first row of its
        key and at most the index after the last one.
        """
        return np.clip(np.arange(len(self.key)) + count, self.first, self.end)

    def bounds(self, start: Indices, stop: Indices) -> Bounds:
        """The ranges from the row index ``start`` to ``stop``, one for each row."""
        return Bounds(start, stop)

    def at(self, offset: int, side: str) -> Indices:
        """For each row the index, among the rows of its key, at which a row with a time ``offset`` microseconds later
        would be inserted; ``side`` as in NumPy's ``searchsorted``.
        """
        if len(self.key) == 0:
            return np.zeros(0, np.int64)
        codes, asked = _codes(self.key, self.time, self.time + offset)
        positions = np.searchsorted(codes, asked, side="left" if side == "left" else "right")
        return np.clip(positions, self.first, self.end)


def _codes(key: Indices, time: Times, asked: Times) -> tuple[Times, Times]:
    """Times, and times to look up, as numbers of one line, on which different keys do not overlap."""
    low = int(min(time.min(), asked.min()))
    length = int(max(time.max(), asked.max())) - low + 1
    if length * (int(key.max()) + 1) > np.iinfo(np.int64).max:
        # The line would be too long for times so far apart. Only their order matters, so ranks replace them.
        _, ranks = np.unique(np.concatenate((time, asked)), return_inverse=True)
        time, asked = np.split(ranks.astype(np.int64), 2)
        low, length = 0, 2 * len(key) + 1
    offset = key * length - low
    return time + offset, asked + offset


# --- ORDER BY columns after the time --------------------------------------------------------------------------


@dataclass(frozen=True)
class Tie:
    """A column of ORDER BY after the time attribute, which orders rows of the same time."""

    column: str
    descending: bool = False
    nulls_first: bool = True


def tie_ranks(rows: pa.Table, ties: Sequence[Tie]) -> Indices:
    """For each row its rank by the ``ties`` alone, which are the ORDER BY columns after the time; rows that are equal
    in all ties have the same rank.
    """
    ranks = [_ranks(rows.column(tie.column), tie) for tie in ties]
    order = in_order(ranks)
    begins = np.logical_or.reduce([np.diff(rank[order], prepend=-1) != 0 for rank in ranks])
    rank = np.empty(len(order), np.int64)
    rank[order] = np.cumsum(begins)
    return rank


def ranked(values: Indices) -> Indices:
    """For each value its position among all values in ascending order, from 0; equal values are in the order of the
    array.
    """
    places = np.empty(len(values), np.int64)
    places[in_order([values])] = np.arange(len(values))
    return places


def _ranks(column: pa.ChunkedArray, tie: Tie) -> Indices:
    """The rank of each row by one tie, from 1 on."""
    rank = pc.rank(column, "ascending", tiebreaker="dense").to_numpy().astype(np.int64)
    rank = int(rank.max(initial=0)) + 1 - rank if tie.descending else rank
    is_null = np.asarray(column.is_null())
    return np.where(is_null, 0 if tie.nulls_first else len(rank) + 1, rank) + 1


# --- rows that wait until the clock has passed them -----------------------------------------------------------


TIME = "__time"
"""BIGINT column of the state: the time of a row, in microseconds."""

AT_THE_END = END_OF_TIME - 1
"""The timer of rows that wait for the end of the input."""


class WaitingRows(Kernel):
    """The base of kernels that store rows until a clock has passed their time, and then process them key by key, in
    order of time. ``domain`` is the clock. A stored row has some columns of ``input``, its time, a flag that says
    whether it was processed, and a timer.
    """

    input: pa.Schema
    domain: Domain

    @property
    @abstractmethod
    def _kept(self) -> list[str]:
        """The columns of the input that are read later."""

    @property
    @abstractmethod
    def _done(self) -> str:
        """The BOOLEAN column of the state that is TRUE for processed rows."""

    @abstractmethod
    def _step(self, rows: pa.Table, now: int, state: KeyedState, context: Context) -> None:
        """Processes the rows of the keys that are due, and stores what remains of them."""

    @property
    def uses_processing_time(self) -> bool:
        return self.domain is Domain.PROCESSING

    def on_event_time(self, watermark: int, context: Context) -> None:
        self._advance(self._state(context), context)

    def on_processing_time(self, time: int, context: Context) -> None:
        self._advance(self._state(context), context)

    def waits(self, context: Context) -> Iterator[Wait]:
        """Counts the stored rows that wait until the clock has passed their time, or for later rows of their key."""
        rows = self._state(context).load_all()
        timer = rows.column(self._timer).to_numpy()[~rows.column(self._done).to_numpy(zero_copy_only=False)]
        in_time = timer[timer != AT_THE_END]
        yield from waits(Pending.ROWS, self.domain, in_time)
        if len(in_time) < len(timer):
            yield Wait(Pending.ROWS, None, len(timer) - len(in_time))

    def _advance(self, state: KeyedState, context: Context) -> None:
        now = context.watermark if self.domain is Domain.EVENT else context.processing_time
        rows = state.due(self.domain, now)
        if rows.num_rows:
            self._step(rows, now, state, context)
        state.flush()
        context.set_timer(self.domain, state.next_timer(self.domain))

    def _state(self, context: Context) -> KeyedState:
        return KeyedState(context.store, "rows", self._stored)

    def _table(self, rows: pa.Table, time: Times, done: Flags, timer: Times) -> pa.Table:
        """The rows as the state has them."""
        own = (pa.array(time), pa.array(done), pa.array(timer))
        return pa.Table.from_arrays([*rows.select(self._kept).columns, *own], schema=self._stored)

    @cached_property
    def _stored(self) -> pa.Schema:
        own = ((TIME, pa.int64()), (self._done, pa.bool_()), (self._timer, pa.int64()))
        return pa.schema([*(self.input.field(name) for name in self._kept), *own])

    @property
    def _timer(self) -> str:
        return EVENT_TIMER if self.domain is Domain.EVENT else PROCESSING_TIMER


def rows_at(rows: pa.Table, places: Indices) -> pa.Table:
    """The rows at these ascending, distinct indices."""
    return rows if len(places) == rows.num_rows else rows.take(pa.array(places))


def filtered(rows: pa.Table, flags: Flags) -> pa.Table:
    """The rows with the flag set. Taking rows by index is faster than Arrow's filter for many columns."""
    return rows_at(rows, np.flatnonzero(flags))
