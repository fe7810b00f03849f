"""ASOF join of changelogs: joins each left row with the nearest right row of its key, and updates the result when
either side changes.

The nearest right row is the one with the greatest value that is not above the value of the left row, or with the least
value that is not below it. When a nearer right row arrives, left rows move to it; when it is retracted, they move back.

The state holds the rows of both inputs, until a key has had no rows for its time to live. A batch loads the rows of the
keys that it changes, and compares the partners of left rows before and after its changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sqlstream.udfs.expressions.tree import Expression, columns_read
from sqlstream.udfs.joins.pairs import Indices, Side, expanded_pairs, fulfilling, moved, newest, numbered, places_of
from sqlstream.udfs.joins.stored_side import Changes, Flags, SideChange, SideState, StoredSide
from sqlstream.udfs.kernel import IGNORED, KEY_HASH, ROW_KIND, Context, Kernel
from sqlstream.udfs.state.keyed import KeyedState
from sqlstream.udfs.state.time_to_live import TimeToLive
from sqlstream.udfs.top_n.order import Order, sort_keys

VALUE = "__value"
"""The column of either input with the value to compare, of the same type in both. A row with NULL there has no
partner."""

_ADDS, _WITHDRAWS = "+I", "-D"


class _Partners(NamedTuple):
    """For each left row the number of its right row, -1 for none, before and after the changes of a batch."""

    before: Indices
    after: Indices


@dataclass(frozen=True)
class AsofJoinKernel(Kernel):
    """The kernel of an ASOF join: for each left row the right row with equal keys and the nearest value.

    ``keys``: key columns of both inputs; NULL equals NULL in those that are ``null_safe``. ``outer``: a left row
    without a partner is emitted with NULLs. ``above``: the nearest right value is the least one not below the left
    value; otherwise the greatest one not above it. ``strict``: the values must differ. ``first_by``: among right rows
    with equal values, the first in the order of these columns is the partner, and among these the first that arrived.
    ``condition``: an additional condition on partners. ``ttl``: all rows of a key are dropped this many microseconds of
    processing time after the last row of either side arrived; 0: never. A key expires as a whole, because the
    retraction of a partner must be recognized.
    """

    sides: tuple[Side, Side]
    outer: bool
    keys: tuple[str, ...]
    null_safe: tuple[bool, ...]
    above: bool = False
    strict: bool = False
    first_by: tuple[str, ...] = ()
    condition: Expression | None = None
    ttl: int = 0

    @cached_property
    def output(self) -> pa.Schema:
        named = [side.input.field(own).with_name(name) for side in self.sides for name, own in side.outputs]
        return pa.schema([*named, (ROW_KIND, pa.string())])

    @property
    def ports(self) -> int:
        return 2

    @property
    def uses_processing_time(self) -> bool:
        return self.ttl > 0

    def on_ports(self, rows: Mapping[int, pa.Table], context: Context) -> None:
        if self.ttl:
            self._remember(rows, context)
        of_keys = (*self.keys, VALUE), (*self.null_safe, False)
        changes, unmet = zip(
            *(kept.changes(rows.get(port), *of_keys) for port, kept in enumerate(self._kept)), strict=True
        )
        left, right = (StoredSide(kept, *needed, context) for kept, needed in self._needed(changes))
        if left.ignored + right.ignored:
            context.count(IGNORED, left.ignored + right.ignored)
        self._emit_changes(left.rows, right.rows, unmet[0], context)
        for side in (left, right):
            side.write(side.rows.partners, drop_matched=False, context=context)

    def on_event_time(self, watermark: int, context: Context) -> None:
        raise AssertionError("no timer of event time was set")

    def on_processing_time(self, time: int, context: Context) -> None:
        lives = KeyedState(context.store, "lives", self._lives)
        self._forget(lives, context)
        self._living.close(lives, context)

    def _needed(self, changes: Sequence[Changes]) -> list[tuple[SideState, tuple[Changes, np.ndarray]]]:
        """The rows that each side loads: right rows of all changed keys, left rows of keys whose right side changes,
        and retracted left rows."""
        left, right = ([rows.column(KEY_HASH).to_numpy() for rows in of_side[:2]] for of_side in changes)
        hashes = np.concatenate([left[1], *right]), np.concatenate([*left, *right])
        return list(zip(self._kept, zip(changes, hashes, strict=True), strict=True))

    # --- results ------------------------------------------------------------------------------------------------

    def _emit_changes(self, left: SideChange, right: SideChange, unmet: Changes, context: Context) -> None:
        """``unmet``: changes of left rows that can have no partner."""
        ordered, partners = self._partners(left, right)
        gone, stays, come = (
            _within(rows, left.table.num_rows) for rows in (left.removed_rows, left.unchanged_rows, left.added_rows)
        )
        moved = stays & (partners.before != partners.after)
        for kind, chosen, partner, alone in (
            (_WITHDRAWS, gone | moved, partners.before, unmet.removed),
            (_ADDS, come | moved, partners.after, unmet.added),
        ):
            self._emit(kind, left.table, np.flatnonzero(chosen), ordered, partner, context)
            self._emit(kind, alone, np.arange(alone.num_rows), ordered, np.full(alone.num_rows, -1), context)

    def _emit(
        self, kind: str, left: pa.Table, rows: Indices, right: pa.Table, partner: Indices, context: Context
    ) -> None:
        """Emits results of one kind: some left rows with their partners."""
        if not self.outer:
            rows = rows[partner[rows] >= 0]
        if not len(rows):
            return
        matched = partner[rows]
        chosen = pa.array(rows), pa.array(matched, mask=matched < 0)
        tables = zip((left, right), chosen, self.sides, strict=True)
        columns = [table.column(own).take(indices) for table, indices, side in tables for _, own in side.outputs]
        context.emit(pa.Table.from_arrays([*columns, pa.repeat(kind, len(rows))], schema=self.output))

    def _partners(self, left: SideChange, right: SideChange) -> tuple[pa.Table, _Partners]:
        """The right rows in order of their keys and values, and which of them are partners of the left rows."""
        of_left, of_right = numbered(left.table, right.table, self.keys)
        at, values = self._values(left.table, right.table)
        order = np.lexsort((*self._ranks(right.table), values, of_right))
        ordered = right.table.take(pa.array(order))
        partners = []
        for of_side, of_other in ((left.old_rows, right.old_rows), (left.new_rows, right.new_rows)):
            partner = np.full(left.table.num_rows, -1, np.int64)
            there = np.flatnonzero(_within(of_other, len(order))[order])
            candidates = Candidates(ordered, there, of_right[order[there]], values[order[there]])
            probes = left.table.slice(of_side.start, of_side.stop - of_side.start)
            partner[of_side] = nearest(
                probes, of_left[of_side], at[of_side], candidates, strict=self.strict, condition=self.condition
            )
            partners.append(partner)
        return ordered, _Partners(*partners)

    def _values(self, left: pa.Table, right: pa.Table) -> tuple[Indices, Indices]:
        """Numbers in the order of the values of both sides, so that the greatest that is not above is the nearest."""
        values = pa.concat_tables([left.select([VALUE]), right.select([VALUE])])
        (ranks,) = sort_keys(values, [Order(VALUE, descending=self.above)])
        return ranks[: left.num_rows], ranks[left.num_rows :]

    def _ranks(self, right: pa.Table) -> list[Indices]:
        """Arrays for ``lexsort`` in whose order the row that counts is the last one of those with equal values."""
        keys = sort_keys(right, [Order(name) for name in self.first_by])
        return [-np.arange(right.num_rows), *(~key for key in reversed(keys))]

    # --- time to live -----------------------------------------------------------------------------------------------

    def _remember(self, rows: Mapping[int, pa.Table], context: Context) -> None:
        """Renews the time to live of the keys of ``rows``, and drops the keys whose time has passed."""
        lives = KeyedState(context.store, "lives", self._lives)
        self._forget(lives, context)
        hashes = np.unique(np.concatenate([of_port.column(KEY_HASH).to_numpy() for of_port in rows.values()]))
        stored = lives.load(hashes)
        others = stored.filter(pa.array(~np.isin(stored.column(KEY_HASH).to_numpy(), hashes)))
        renewed = pa.table([pa.array(hashes), *self._living.timers(len(hashes), context)], schema=self._lives)
        lives.replace(pa.concat_tables([others, renewed]))
        self._living.close(lives, context)

    def _forget(self, lives: KeyedState, context: Context) -> None:
        due = self._living.due(lives, context).column(KEY_HASH).to_numpy()
        if not len(due):
            return
        for kept in self._kept:
            state = kept.state(context)
            rows = state.load(due)
            state.replace(rows.filter(pa.array(~np.isin(rows.column(KEY_HASH).to_numpy(), due))))
            state.flush()
        lives.flush()

    @property
    def _living(self) -> TimeToLive:
        return TimeToLive(self.ttl)

    @property
    def _lives(self) -> pa.Schema:
        return pa.schema([pa.field(KEY_HASH, pa.int64()), *self._living.timer])

    # --- state -------------------------------------------------------------------------------------------

    @cached_property
    def _kept(self) -> tuple[SideState, SideState]:
        left, right = (
            (*self.keys, VALUE, *columns_read(self.condition, side), *more)
            for side, more in enumerate(((), self.first_by))
        )
        return SideState("left", self.sides[0], left, counts_partners=False), SideState(
            "right", self.sides[1], right, counts_partners=False
        )


def _within(rows: slice, count: int) -> Flags:
    marked = np.zeros(count, np.bool_)
    marked[rows] = True
    return marked


# --- search for the nearest row -------------------------------------------------------------------------------


_WIDER = 4
"""A probe without a partner among its candidates looks at this many times as many in the next round."""


class Candidates(NamedTuple):
    """The candidates of a nearest-value search: rows of ``table``, given as row indices sorted by the integer that
    stands for their key (``ids``), then by ``values``.
    """

    table: pa.Table
    rows: Indices
    ids: Indices
    values: Indices


def nearest(
    probes: pa.Table, of: Indices, at: Indices, among: Candidates, *, strict: bool, condition: Expression | None
) -> Indices:
    """For each probe row the index, in ``among.table``, of its nearest candidate; -1 for none.

    ``of`` has the key id of each probe, ``at`` its value. The nearest candidate is the last one with the same key id
    whose value is at most ``at`` (``strict``: less than ``at``) and that fulfils the ``condition`` with the probe.
    """
    if not len(among.rows) or not len(of):
        return np.full(len(of), -1, np.int64)
    if condition is None:
        last = newest(among.ids, among.values, of, at, strict=strict)
        return np.where(last >= 0, among.rows[last], -1)
    stop = places_of(among.ids, among.values, of, at, after_equal=not strict)
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
