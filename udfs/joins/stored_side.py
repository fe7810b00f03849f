"""The stored rows of one input of a regular or ASOF join, with the number of their partners and their time to live."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sqlstream.udfs.joins.pairs import Indices, Side, in_order, joinable, numbered
from sqlstream.udfs.kernel import END_OF_TIME, KEY_HASH, NO_WATERMARK, Context, Domain
from sqlstream.udfs.keys import dense_ids, retracted_rows
from sqlstream.udfs.state.buckets import PROCESSING_TIMER
from sqlstream.udfs.state.keyed import KeyedState

PARTNERS = "__partners"
"""BIGINT column of stored rows: how many rows of the other input they were joined with that were not retracted since.
Expired rows still count, because the results with them remain valid."""

_EARLY = NO_WATERMARK + 1
"""The timer of rows that arrived before the clock was known."""

_WAKES = 16
"""Expired rows are dropped in groups, up to this fraction of their time to live later."""


@dataclass(frozen=True)
class SideState:
    """How the rows of one side of a regular join are stored. ``read``: the columns that join keys and conditions need,
    besides those of the results. ``counts_partners``: each stored row has its current number of partners in the column
    PARTNERS.
    """

    name: str
    side: Side
    read: tuple[str, ...]
    counts_partners: bool

    @cached_property
    def columns(self) -> list[str]:
        """The columns of the input that are stored."""
        return list(dict.fromkeys((KEY_HASH, *self.read, *(column for _, column in self.side.outputs))))

    @cached_property
    def plain(self) -> pa.Schema:
        """The schema of the stored columns that are columns of the input: all but the number of partners and the expiry
        timer.
        """
        return pa.schema([self.side.input.field(name) for name in self.columns])

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of the stored rows: columns of the input and, where needed, the number of partners and the expiry
        timer.
        """
        own = ((PARTNERS, self.counts_partners), (PROCESSING_TIMER, self.side.ttl > 0))
        return pa.schema([*self.plain, *(pa.field(name, pa.int64()) for name, there in own if there)])

    def changes(self, rows: pa.Table | None, keys: Sequence[str], null_safe: Sequence[bool]) -> tuple[Changes, Changes]:
        """Returns a pair of net changes of a micro-batch: those of rows that may have partners, and those of rows that
        cannot, because a key is NULL, and which are not stored. NULL is allowed in the keys that are ``null_safe``.
        None for ``rows`` means no changes.
        """
        if rows is None:
            none = self.plain.empty_table()
            return Changes(none, none, none), Changes(none, none, none)
        changes = net(rows.replace_schema_metadata(None), self.columns, repeats=self.side.ttl > 0)
        can = [joinable(of_kind, keys, null_safe) for of_kind in changes]
        if all(flags.all() for flags in can):
            return changes, Changes(*(of_kind.slice(0, 0) for of_kind in changes))
        return changes.where(can), changes.where([~flags for flags in can])

    def state(self, context: Context) -> KeyedState:
        """The stored rows of the side in the key group of ``context``."""
        return KeyedState(context.store, self.name, self.schema)

    def expiry(self, now: int) -> int:
        """The processing time at which rows that arrive at ``now`` expire; both in microseconds.

        At the end of the input rows never expire; before the first tick of the clock the time is unknown.
        """
        if now == NO_WATERMARK:
            return _EARLY
        return now if now == END_OF_TIME else now + self.side.ttl

    def living(self, rows: pa.Table, now: int) -> pa.Table:
        """The stored ``rows`` that have not expired at the processing time ``now`` (microseconds). For rows that
        arrived before the clock was known the time to live starts now.
        """
        if not self.side.ttl or now in (END_OF_TIME, NO_WATERMARK) or not rows.num_rows:
            return rows
        timer = rows.column(PROCESSING_TIMER).to_numpy()
        early = timer == _EARLY
        lives = (timer > now) | early
        if early.any():
            rows = _with(rows, PROCESSING_TIMER, np.where(early, self.expiry(now), timer))
        return rows if lives.all() else rows.filter(pa.array(lives))

    def drop(self, context: Context) -> int:
        """Drops the expired rows. Returns the processing time, in microseconds, at which it must be called next;
        END_OF_TIME for never.
        """
        now = context.processing_time
        if not self.side.ttl or now == END_OF_TIME:
            return END_OF_TIME
        state = self.state(context)
        rows = state.due(Domain.PROCESSING, now)
        if rows.num_rows:
            state.replace(self.living(rows, now))
            state.flush()
        return self.wakes(state, context)

    def wakes(self, state: KeyedState, context: Context) -> int:
        """The processing time, in microseconds, at which ``drop`` must be called next; END_OF_TIME for never."""
        if not self.side.ttl or context.processing_time == END_OF_TIME:
            return END_OF_TIME
        timer = state.next_timer(Domain.PROCESSING)
        return timer if timer == END_OF_TIME else timer + self.side.ttl // _WAKES


class SideChange(NamedTuple):
    """The rows of one side of a join in a call, as one table: first the ``removed`` rows, then the unchanged ones, last
    the ``added`` ones.

    ``partners``: the number of partners of each row before the call, if the side counts them.
    """

    table: pa.Table
    removed: int
    added: int
    partners: Indices

    @property
    def removed_rows(self) -> slice:
        """The slice of ``table`` with the removed rows."""
        return slice(0, self.removed)

    @property
    def unchanged_rows(self) -> slice:
        """The slice of ``table`` with the unchanged rows."""
        return slice(self.removed, self.table.num_rows - self.added)

    @property
    def added_rows(self) -> slice:
        """The slice of ``table`` with the added rows."""
        return slice(self.table.num_rows - self.added, self.table.num_rows)

    @property
    def old_rows(self) -> slice:
        """The slice of ``table`` with the rows that existed before the call: removed and unchanged ones."""
        return slice(0, self.table.num_rows - self.added)

    @property
    def new_rows(self) -> slice:
        """The slice of ``table`` with the rows that exist after the call: unchanged and added ones."""
        return slice(self.removed, self.table.num_rows)


class StoredSide:
    """One side of a regular join during a call: its stored rows with certain key hashes, before and after the call's
    ``changes``.
    """

    def __init__(self, kept: SideState, changes: Changes, hashes: np.ndarray, context: Context) -> None:
        self._kept = kept
        self._now = context.processing_time
        self.state = kept.state(context)
        loaded = self.state.load(hashes) if len(hashes) else kept.schema.empty_table()
        old = kept.living(loaded, self._now)
        gone, was_stored = found_among(old, changes.removed, kept.columns)
        stay = old.filter(pa.array(~gone)) if gone.any() else old
        again, seen = found_among(stay, changes.repeated, kept.columns)
        self._stay = self._refreshed(stay, again)
        self._replaced = stay.num_rows < loaded.num_rows or bool(again.any())
        self.ignored = int(np.count_nonzero(~was_stored))
        # A row that had expired, was retracted and is inserted again is a new row.
        added = changes.added if seen.all() else _joined(changes.added, changes.repeated.filter(pa.array(~seen)))
        removed = old.filter(pa.array(gone))
        parts = [removed.select(kept.columns), stay.select(kept.columns), added]
        partners = [_partners(removed), _partners(stay), np.zeros(added.num_rows, np.int64)]
        self.rows = SideChange(_joined(*parts), removed.num_rows, added.num_rows, np.concatenate(partners))

    def write(self, partners: Indices, *, drop_matched: bool, context: Context) -> int:
        """Stores the rows with their numbers of ``partners`` after the call. Returns the processing time, in
        microseconds, at which expired rows must be dropped next.

        With ``drop_matched`` only rows without partners are stored.
        """
        rows = self.rows
        stay, come = partners[rows.unchanged_rows], partners[rows.added_rows]
        if self._replaced or (self._kept.counts_partners and (stay != rows.partners[rows.unchanged_rows]).any()):
            self.state.replace(_chosen(self._with_partners(self._stay, stay), stay == 0 if drop_matched else None))
        added = _chosen(
            self._with_own(rows.table.slice(rows.added_rows.start), come), come == 0 if drop_matched else None
        )
        if added.num_rows:
            self.state.append(added)
        self.state.flush()
        return self._kept.wakes(self.state, context)

    def _refreshed(self, rows: pa.Table, again: Flags) -> pa.Table:
        """Gives rows that were inserted again the time to live of new ones."""
        if not self._kept.side.ttl or not again.any():
            return rows
        timers = np.where(again, self._kept.expiry(self._now), rows.column(PROCESSING_TIMER).to_numpy())
        return _with(rows, PROCESSING_TIMER, timers)

    def _with_partners(self, rows: pa.Table, partners: Indices) -> pa.Table:
        return _with(rows, PARTNERS, partners) if self._kept.counts_partners else rows

    def _with_own(self, rows: pa.Table, partners: Indices) -> pa.Table:
        """Rows of the input with the additional columns of the state."""
        own = [pa.array(partners)] if self._kept.counts_partners else []
        if self._kept.side.ttl:
            own.append(pa.array(np.full(rows.num_rows, self._kept.expiry(self._now), np.int64)))
        return pa.Table.from_arrays([*rows.columns, *own], schema=self._kept.schema)


def _partners(rows: pa.Table) -> Indices:
    if PARTNERS not in rows.schema.names:
        return np.zeros(rows.num_rows, np.int64)
    return np.asarray(rows.column(PARTNERS).to_numpy(), np.int64)


def _with(rows: pa.Table, name: str, values: np.ndarray) -> pa.Table:
    return rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), pa.array(values))


def _chosen(rows: pa.Table, chosen: Flags | None) -> pa.Table:
    return rows if chosen is None or chosen.all() else rows.filter(pa.array(chosen))


def _joined(*parts: pa.Table) -> pa.Table:
    filled = [table for table in parts if table.num_rows] or [parts[0]]
    return filled[0] if len(filled) == 1 else pa.concat_tables(filled).combine_chunks()


# --- the changes of one input in a micro-batch, as multisets --------------------------------------------------


Flags = np.ndarray


class Changes(NamedTuple):
    """The net changes of a micro-batch: a row that is inserted and retracted again is in none of the tables.
    ``repeated``: rows that were stored, retracted, and inserted again unchanged.
    """

    added: pa.Table
    removed: pa.Table
    repeated: pa.Table

    def where(self, chosen: Sequence[Flags]) -> Changes:
        """The changes for which the flags are true. ``chosen`` has three arrays of flags, for the rows of ``added``,
        ``removed`` and ``repeated``.
        """
        return Changes(*(rows.filter(pa.array(flags)) for rows, flags in zip(self, chosen, strict=True)))


def net(rows: pa.Table, columns: Sequence[str], *, repeats: bool) -> Changes:
    """The net changes of a changelog whose kinds are in ROW_KIND; rows without that column are insertions.

    Rows are compared by ``columns``, which are also those of the result. ``repeats``: also return the repeated rows.
    """
    images = rows.select(columns)
    none = images.slice(0, 0)
    flags = net_flags(rows, columns, repeats=repeats)
    if flags is None:
        return Changes(images, none, none)
    return Changes(*(none if chosen is None else images.filter(pa.array(chosen)) for chosen in flags))


class NetFlags(NamedTuple):
    """For each table of ``Changes`` an array of booleans: which input rows belong to it. ``repeated`` is None if it was
    not requested.
    """

    added: Flags
    removed: Flags
    repeated: Flags | None


def net_flags(rows: pa.Table, columns: Sequence[str], *, repeats: bool) -> NetFlags | None:
    """Like ``net``, but returns for each row of the changelog whether it is in the net changes, instead of the rows.
    Rows are equal if they are equal in ``columns``. None if all rows are insertions.
    """
    retracts = retracted_rows(rows)
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
    """One boolean per row: true for the first ``most[id]`` rows of each id. With ids 0, 0, 1, 0 and ``most`` 2, 1 only
    the last row is false.
    """
    order = in_order(ids)
    ordered = ids[order]
    begins = np.flatnonzero(np.diff(ordered, prepend=-1))
    occurrence = np.arange(len(ids)) - np.repeat(begins, np.diff(begins, append=len(ids)))
    inside = np.empty(len(ids), np.bool_)
    inside[order] = occurrence < most[ordered]
    return inside


def found_among(rows: pa.Table, wanted: pa.Table, columns: Sequence[str]) -> tuple[Flags, Flags]:
    """Matches equal rows of two tables one to one. Returns one boolean per row of ``rows``: whether it was matched with
    a wanted row; and one per row of ``wanted``: whether an equal row was found.
    """
    if not rows.num_rows or not wanted.num_rows:
        return np.zeros(rows.num_rows, np.bool_), np.zeros(wanted.num_rows, np.bool_)
    ids, of_wanted = numbered(rows, wanted, columns)
    count = int(max(ids.max(), of_wanted.max())) + 1
    there, asked = np.bincount(ids, minlength=count), np.bincount(of_wanted, minlength=count)
    return within(ids, asked), within(of_wanted, there)
