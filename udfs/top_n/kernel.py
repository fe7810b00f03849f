"""Top-N: the first rows of each key by an order, as a changelog.

The semantics are those of Flink's AppendOnlyTopNFunction and RetractableTopNFunction, which process row by row; here
the changes of a micro-batch to a key are emitted once. If rows are only inserted, rows that drop out of the Top-N are
dropped from the state; if they may be retracted, all rows of a key are state. Of equal rows the one that arrived first
is first.

With row numbers, the row of a number is updated (-U, +U); without, a row is inserted when it enters the Top-N and
deleted when it leaves it. A key with at most one row is updated, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.joins.stored_side import Changes, found_among, net
from sqlstream.udfs.kernel import (
    IGNORED,
    KEY_HASH,
    ROW_KIND,
    Context,
    Store,
)
from sqlstream.udfs.keys import differ, in_order
from sqlstream.udfs.state.buckets import EVENT_TIMER, PROCESSING_TIMER
from sqlstream.udfs.state.keyed import KeyedState
from sqlstream.udfs.state.time_to_live import ExpiringKernel
from sqlstream.udfs.top_n.order import Flags, Numbers, Ranking
from sqlstream.udfs.windows.until_close import RowsUntilClose

_WORTH_COMBINING = 4
"""Rows are reduced before the exchange if their number is at least this many times the possible number of remaining
rows."""
LEFT_OUT = "__left_out"
"""BIGINT column of combined rows of windows: how many others of their key are not among them; NULL is none."""


class _RowsOfKind(NamedTuple):
    """Rows that are emitted with one row kind, and their numbers."""

    kind: str
    rows: Numbers
    numbers: Numbers


@dataclass(frozen=True)
class TopNKernel(ExpiringKernel):
    """The kernel of a Top-N. ``input`` has the columns of the ``ranking``, those ``passed`` that are emitted, and
    ROW_KIND if rows may be retracted. ``number``: the name of the INT column with the row number, None for none.
    ``ttl``: a key is dropped, without output, this many microseconds of processing time after its rows last changed; 0:
    never."""

    input: pa.Schema
    ranking: Ranking
    passed: tuple[str, ...]
    number: str | None = None
    ttl: int = 0

    @cached_property
    def output(self) -> pa.Schema:
        number = [(self.number, pa.int32())] if self.number is not None else []
        kind = [] if self.appends else [(ROW_KIND, pa.string())]
        return pa.schema([*(self.input.field(name) for name in self.passed), *number, *kind])

    @property
    def appends(self) -> bool:
        """True if every row ranks after all earlier ones of its key, so that rows are only appended to the result."""
        return not self.retracts and not self.ranking.order

    @property
    def retracts(self) -> bool:
        """True if input rows may be retracted."""
        return ROW_KIND in self.input.names

    def combine(self, rows: pa.Table) -> pa.Table:
        """Pre-aggregation before the shuffle: omits the rows that cannot be in the Top-N because of other rows of the
        micro-batch.
        """
        if self.retracts or rows.num_rows < _WORTH_COMBINING * self.ranking.last:
            return rows
        places = self.ranking.places(rows)
        if rows.num_rows < _WORTH_COMBINING * self.ranking.last * places.keys_there:
            return rows
        return rows.filter(pa.array(self.ranking.best(places)))

    def on_rows(self, rows: pa.Table, context: Context) -> None:
        changes = net(rows.replace_schema_metadata(None), self._kept, repeats=False)
        state = self.kept(context.store)
        hashes = np.concatenate([images.column(KEY_HASH).to_numpy() for images in changes])
        if len(hashes):
            self._change(state, self._living.alive(state.load(hashes), context), changes, context)
        self._living.close(state, context)

    def kept_rows(self, context: Context) -> int:
        return int(self.kept(context.store).load_all().num_rows)

    def kept(self, store: Store) -> KeyedState:
        """The ``KeyedState`` that stores the rows of the key group of ``store``."""
        return KeyedState(store, "rows", self._stored)

    # --- what changes -------------------------------------------------------------------------------------------

    def _change(self, state: KeyedState, stored: pa.Table, changes: Changes, context: Context) -> None:
        gone, there = found_among(stored, changes.removed, self._kept)
        if not there.all():
            context.count(IGNORED, int(np.count_nonzero(~there)))
        if not gone.any() and not changes.added.num_rows:
            return
        rows = pa.concat_tables([stored.select(self._kept), changes.added]).combine_chunks()
        places = self.ranking.places(rows)
        if not self.retracts:
            reaching = places.reaching(self.ranking, stored.num_rows)
            if not reaching.all():
                rows, places = rows.filter(pa.array(reaching)), places.where(reaching)
        is_known = np.arange(rows.num_rows) < stored.num_rows
        stays = ~is_known
        stays[: stored.num_rows] = ~gone
        order = places.in_order()
        before = places.numbers(self.ranking.function, order[is_known[order]])
        after = places.numbers(self.ranking.function, order[stays[order]])
        self._emit(rows, places.ids, before, after, context)
        kept = order[(after > 0)[order]]
        if not self.retracts:
            kept = kept[after[kept] <= self.ranking.last]
        if self.ranking.newest_first:
            kept = np.sort(kept)  # in order of arrival, which decides among equal rows
        if self.ttl or gone.any() or (kept >= stored.num_rows).any():
            state.replace(self._with_timer(rows, stored, kept, changes, context))

    # --- results ------------------------------------------------------------------------------------------------

    def _emit(self, rows: pa.Table, ids: Numbers, before: Numbers, after: Numbers, context: Context) -> None:
        was, is_now = self._shown(before), self._shown(after)
        if self._in_slots:
            parts = list(self._of_slots(rows, ids, np.where(was, before, 0), np.where(is_now, after, 0)))
        else:
            parts = list(self._of_rows(was, is_now, before, after))
        if any(len(change.rows) for change in parts):
            context.emit(self._results(rows, ids, parts))

    def _shown(self, numbers: Numbers) -> Flags:
        return (numbers >= self.ranking.first) & (numbers <= self.ranking.last)

    @property
    def _in_slots(self) -> bool:
        """True where rows take the place of others."""
        single = self.ranking.first == self.ranking.last
        return self.ranking.has_slots and (self.number is not None or single) and not self.appends

    def _of_slots(self, rows: pa.Table, ids: Numbers, before: Numbers, after: Numbers) -> Iterator[_RowsOfKind]:
        """Keys and numbers whose row is another one, and not only an equal one."""
        old, new = (np.flatnonzero(numbers) for numbers in (before, after))
        width = self.ranking.last - self.ranking.first + 1
        at_old = ids[old] * width + before[old] - self.ranking.first
        at_new = ids[new] * width + after[new] - self.ranking.first
        _, of_old, of_new = np.intersect1d(at_old, at_new, assume_unique=True, return_indices=True)
        alone_old, alone_new = np.delete(old, of_old), np.delete(new, of_new)
        replaced, replacing = old[of_old], new[of_new]
        other = replaced != replacing
        replaced, replacing = replaced[other], replacing[other]
        passed_rows = rows.select(self.passed)
        other = differ(passed_rows.take(pa.array(replaced)), passed_rows.take(pa.array(replacing)))
        replaced, replacing = replaced[other], replacing[other]
        yield _RowsOfKind("-D", alone_old, before[alone_old])
        yield _RowsOfKind("-U", replaced, before[replaced])
        yield _RowsOfKind("+U", replacing, after[replacing])
        yield _RowsOfKind("+I", alone_new, after[alone_new])

    def _of_rows(self, was: Flags, is_now: Flags, before: Numbers, after: Numbers) -> Iterator[_RowsOfKind]:
        moved = was & is_now & (before != after) if self.number is not None else np.zeros(len(was), np.bool_)
        left, came, moves = np.flatnonzero(was & ~is_now), np.flatnonzero(is_now & ~was), np.flatnonzero(moved)
        yield _RowsOfKind("-D", left, before[left])
        yield _RowsOfKind("-U", moves, before[moves])
        yield _RowsOfKind("+U", moves, after[moves])
        yield _RowsOfKind("+I", came, after[came])

    def _results(self, rows: pa.Table, ids: Numbers, parts: list[_RowsOfKind]) -> pa.Table:
        """The changes by key; with numbers by number, else retractions before additions."""
        chosen = np.concatenate([change.rows for change in parts])
        numbers = np.concatenate([change.numbers for change in parts])
        kind = np.repeat(np.arange(len(parts)), [len(change.rows) for change in parts])
        phase = (kind > 1).astype(np.int64)
        sort_keys = (numbers, phase) if self._in_slots else (phase, numbers)
        order = in_order([ids[chosen], *sort_keys])
        columns = [rows.column(name).take(pa.array(chosen[order])) for name in self.passed]
        if self.number is not None:
            columns.append(pa.array(numbers[order], pa.int32()))
        if not self.appends:
            kinds = pa.array([change.kind for change in parts], pa.string())
            columns.append(kinds.take(pa.array(kind[order])))
        return pa.Table.from_arrays(columns, schema=self.output)

    # --- state --------------------------------------------------------------------------------------------------

    def _with_timer(
        self, rows: pa.Table, stored: pa.Table, kept: Numbers, changes: Changes, context: Context
    ) -> pa.Table:
        """The rows to store; the time to live of changed keys is renewed."""
        kept_rows = rows.take(pa.array(kept))
        if not self.ttl:
            return kept_rows.cast(self._stored)
        timers = np.full(rows.num_rows, self._living.ends(context), np.int64)
        hashes = np.concatenate([images.column(KEY_HASH).to_numpy() for images in changes])
        others = ~np.isin(stored.column(KEY_HASH).to_numpy(), hashes)
        timers[: stored.num_rows][others] = stored.column(PROCESSING_TIMER).to_numpy()[others]
        return kept_rows.append_column(PROCESSING_TIMER, pa.array(timers[kept])).cast(self._stored)

    @cached_property
    def _kept(self) -> list[str]:
        ranking = self.ranking
        return list(dict.fromkeys((KEY_HASH, *ranking.keys, *(o.column for o in ranking.order), *self.passed)))

    @cached_property
    def _stored(self) -> pa.Schema:
        return pa.schema([*(self.input.field(name) for name in self._kept), *self._living.timer])


# --- Top-N of windows: the first rows of each key and window, once the watermark has passed the window --------
# The semantics are those of Flink's WindowRankOperator and RowTimeWindowDeduplicateOperator. A row whose window has
# closed is late and dropped.


@dataclass(frozen=True)
class WindowTopNKernel(RowsUntilClose):
    """The kernel of a Top-N per window. ``input`` has the columns of the ``ranking``, whose keys include the window,
    those ``passed`` that are emitted, and ``closes``: the watermark, in microseconds, at which the window of a row is
    complete. ``number``: the name of the INT column with the row number, None for none.
    """

    input: pa.Schema
    ranking: Ranking
    passed: tuple[str, ...]
    closes: str
    number: str | None = None

    @cached_property
    def output(self) -> pa.Schema:
        number = [(self.number, pa.int32())] if self.number is not None else []
        return pa.schema([*(self.input.field(name) for name in self.passed), *number])

    def combine(self, rows: pa.Table) -> pa.Table:
        """Pre-aggregation before the shuffle: omits the rows that cannot be in the Top-N because of other rows of the
        micro-batch. LEFT_OUT counts them, at a row of their key: they are late if it is.
        """
        places = self.ranking.places(rows)
        is_best = self.ranking.best(places)
        if is_best.all():
            return rows
        left_out = np.bincount(places.ids[~is_best], minlength=places.keys_there)
        ids = places.ids[is_best]
        one_of_key = np.empty(places.keys_there, np.int64)
        one_of_key[ids] = np.arange(len(ids))
        counts = np.zeros(len(ids), np.int64)
        counts[one_of_key] = left_out
        return rows.filter(pa.array(is_best)).append_column(LEFT_OUT, pa.array(counts))

    def _row_count(self, rows: pa.Table) -> int:
        left_out = pc.sum(rows.column(LEFT_OUT)).as_py() if LEFT_OUT in rows.column_names else None
        return int(rows.num_rows + (left_out or 0))

    def _needed(self, rows: pa.Table) -> pa.Table:
        return rows.filter(pa.array(self.ranking.best(self.ranking.places(rows))))

    # --- results ------------------------------------------------------------------------------------------------

    def _emit(self, rows: pa.Table, context: Context) -> None:
        """Window by window, and key by key, in order."""
        places = self.ranking.places(rows)
        order = places.in_order()
        numbers = places.numbers(self.ranking.function, order)
        chosen = order[((numbers >= self.ranking.first) & (numbers <= self.ranking.last))[order]]
        chosen = chosen[np.argsort(rows.column(EVENT_TIMER).to_numpy()[chosen], kind="stable")]
        if len(chosen):
            columns = [rows.column(name).take(pa.array(chosen)) for name in self.passed]
            number = [pa.array(numbers[chosen], pa.int32())] if self.number is not None else []
            context.emit(pa.Table.from_arrays([*columns, *number], schema=self.output))

    # --- state --------------------------------------------------------------------------------------------------

    @cached_property
    def _kept(self) -> list[str]:
        order = (o.column for o in self.ranking.order)
        return list(dict.fromkeys((KEY_HASH, *self.ranking.keys, *order, *self.passed, self.closes)))
