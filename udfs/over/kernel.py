"""OVER aggregation of rows in order of time: emits each row with the results of functions over frames of its key.

In event time a row is emitted when the watermark has reached its time, or that of the last row that its frames may
contain; in order of time, then of arrival. A row is late, and dropped, if the watermark had reached its time before it
arrived. Retractions cancel waiting rows, so results are final: a retraction that the watermark has passed is late, too.
In processing time rows are emitted as they arrive. The semantics are those of Flink's OVER operators
(RowTimeRowsBoundedPrecedingFunction etc.), extended by FOLLOWING.

The state holds the rows that wait or that later frames may contain, and for each key one row of totals, which represent
all earlier rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sqlstream.udfs.aggregates import Aggregates
from sqlstream.udfs.assigners.assigner import rows_in_time
from sqlstream.udfs.kernel import END_OF_TIME, IGNORED, KEY_HASH, ROW_KIND, Context, Domain, Store
from sqlstream.udfs.keys import dense_ids, in_order, is_retraction, unmatched
from sqlstream.udfs.over.frames import Frame
from sqlstream.udfs.over.functions import Aggregated, Nth, Numbered, OverFunction, Placed, Shifted, columns_of
from sqlstream.udfs.over.line import (
    AT_THE_END,
    TIME,
    Flags,
    Indices,
    SortedRows,
    Tie,
    Times,
    WaitingRows,
    filtered,
    ranked,
    rows_at,
    tie_ranks,
)
from sqlstream.udfs.state.keyed import KeyedState
from sqlstream.udfs.windows.ranges import Ranges, merge_ranges
from sqlstream.udfs.windows.row_measured import never_back

EMITTED = "__emitted"


@dataclass(frozen=True)
class OverKernel(WaitingRows):
    """The kernel of OVER that is ordered by a time attribute. ``passed``: the columns of ``input`` that are emitted
    before the results of ``functions``. Rows of the same time are sorted by ``ties``, the ORDER BY columns after the
    time, then by arrival; rows that are equal in all ties are peers.

    ``time``: the column with the rows' times in microseconds; None means processing time, in which no frame may have
    following rows.
    """

    input: pa.Schema
    keys: tuple[str, ...]
    time: str | None
    passed: tuple[str, ...]
    functions: tuple[OverFunction, ...]
    domain: Domain = Domain.EVENT
    ties: tuple[Tie, ...] = ()

    def __post_init__(self) -> None:
        frames = self._frames
        follows = any(f.rows_after or f.time_after for f in frames) or self._looking_ahead
        assert self.domain is Domain.EVENT or not follows, "no row follows"
        assert not any(isinstance(f, Placed) for f in self.functions), "such results are final with all rows of a key"
        assert self.domain is Domain.EVENT or ROW_KIND not in self.input.names, "rows that came out stay"

    @cached_property
    def output(self) -> pa.Schema:
        return pa.schema([*(self.input.field(name) for name in self.passed), *(f.field for f in self.functions)])

    def on_rows(self, rows: pa.Table, context: Context) -> None:
        rows, time = rows_in_time(rows, self.time, self.domain, context)
        state = self._state(context)
        # A row that others wait for is processed when the clock reaches it, even if its frames are not complete.
        timer = time if self._rows_after else time + self._time_after
        state.append(self._table(rows, time, np.zeros(len(time), np.bool_), timer))
        self._advance(state, context)

    # --- the rows of the keys that are due ----------------------------------------------------------------------

    _done = EMITTED

    def _step(self, rows: pa.Table, now: int, state: KeyedState, context: Context) -> None:
        """Emits complete rows, and stores those that are still needed."""
        passed = rows.column(TIME).to_numpy() <= now
        if not passed.any():
            state.replace(rows)
            return
        waiting = filtered(rows, ~passed)
        if ROW_KIND in rows.column_names:
            rows = self._there(filtered(rows, passed), context)
            passed = np.ones(rows.num_rows, np.bool_)
            if not rows.num_rows:
                state.replace(waiting)
                return
        rows, ordered, appeared = self._lined_up(rows, np.flatnonzero(passed))
        emitted = rows.column(EMITTED).to_numpy(zero_copy_only=False)
        followed = self._is_followed(rows, ordered)
        complete = emitted | self._complete(ordered, followed, now)
        gone = self._droppable(ordered, complete, now)
        fires = np.flatnonzero(complete & ~emitted)
        fires = fires[in_order([ordered.time[fires], appeared[fires]])]
        self._emit(rows, ordered, fires, gone, context)
        timer = self._timers(ordered, complete, followed)
        timer[timer <= now] = END_OF_TIME  # stored for waiting rows, until these are complete
        # Waiting rows follow processed ones, both in the order of the state, so that it need not sort them.
        state.replace(filtered(self._table(rows, ordered.time, complete, timer), ~gone))
        state.append(waiting)

    def _there(self, rows: pa.Table, context: Context) -> pa.Table:
        """The rows that were inserted and not retracted, once no further change of them can arrive."""
        goes = is_retraction(rows.column(ROW_KIND).combine_chunks())
        if not goes.any():
            return rows
        columns = [name for name in (*self._kept, TIME) if name != ROW_KIND]
        stays = unmatched(dense_ids(rows, columns).ids, np.where(goes, -1, 1))
        context.count(IGNORED, int((stays & goes).sum()))
        return filtered(rows, stays & ~goes)

    def _lined_up(self, rows: pa.Table, passed: Indices) -> tuple[pa.Table, SortedRows, Indices]:
        """The rows that have passed, in the order of their line, and for each which key appeared first.

        Keys are in the order of their hashes, as they are in the state.
        """
        # A table without columns has no number of rows, so KEY_HASH is included if there are no keys.
        keys = rows_at(rows.select([KEY_HASH, *self.keys]), passed)
        appeared = dense_ids(keys, self.keys)
        key = ranked(keys.column(KEY_HASH).to_numpy()[appeared.first])[appeared.ids]
        time = rows.column(TIME).to_numpy()[passed]
        if self.domain is Domain.PROCESSING:
            order = in_order([key])
            ordered = SortedRows(key[order], never_back(key[order], time[order]), peers=False)
        elif self.ties:
            tie = tie_ranks(rows_at(rows.select([tie.column for tie in self.ties]), passed), self.ties)
            order = in_order([key, time, tie])
            ordered = SortedRows(key[order], time[order], tie=tie[order])
        else:
            order = in_order([key, time])
            ordered = SortedRows(key[order], time[order])
        return rows.take(pa.array(passed[order])).combine_chunks(), ordered, appeared.ids[order]

    def _complete(self, ordered: SortedRows, followed: Flags, now: int) -> Flags:
        """True where no row to come can be in a frame of the row."""
        if now == END_OF_TIME:
            return np.ones(len(ordered), np.bool_)
        return followed & (ordered.time <= now - self._time_after)

    def _is_followed(self, rows: pa.Table, ordered: SortedRows) -> Flags:
        """True for rows with as many later rows as a frame may contain, and with the one that LEAD looks for."""
        followed: Flags = np.arange(len(ordered)) + self._rows_after < ordered.end
        for function in self._looking_ahead:
            followed = followed & function.found(ordered, rows)[1]
        return followed

    def _droppable(self, ordered: SortedRows, complete: Flags, now: int) -> Flags:
        """True for emitted rows that no frame of a later row distinguishes from earlier ones. Peers are dropped
        together."""
        if now == END_OF_TIME:
            return complete
        following = ordered.first + ordered.sums(complete)  # the first row of the key that is not complete, or to come
        gone = np.arange(len(ordered)) + self._rows_before < following
        if self._time_before:
            waiting = following < ordered.end
            newest = np.where(waiting, ordered.time[np.minimum(following, len(ordered) - 1)] - 1, now)
            gone &= ordered.time <= newest - self._time_before
        begins = np.flatnonzero(ordered.begins_peers)
        return np.repeat(np.logical_and.reduceat(gone, begins), np.diff(begins, append=len(ordered)))

    def _timers(self, ordered: SortedRows, complete: Flags, followed: Flags) -> Times:
        """When a row must be processed again: when it may be complete, then when no frame contains it any more."""
        waits = np.where(followed, ordered.time + self._time_after, AT_THE_END)
        leaves = ordered.time + self._time_before if self._time_before else np.full(len(ordered), END_OF_TIME)
        stays = np.arange(len(ordered)) + self._rows_before >= ordered.end  # until more rows come
        return np.where(complete, np.where(stays, END_OF_TIME, leaves), waits)

    # --- results ------------------------------------------------------------------------------------------------

    def _emit(self, rows: pa.Table, ordered: SortedRows, fires: Indices, gone: Flags, context: Context) -> None:
        """Emits the complete rows in the order ``fires``, and adds dropped rows to the totals."""
        if self._totals is None:
            self._emit_with(rows, ordered, None, fires, context)
            return
        state = self._totals.state(context.store)
        stored = self._totals.load(state, rows.take(pa.array(np.flatnonzero(ordered.begins))))
        self._emit_with(rows, ordered, stored, fires, context)
        if gone.any():
            self._totals.add(state, stored, rows, ordered, gone)
        state.flush()

    def _emit_with(
        self, rows: pa.Table, ordered: SortedRows, stored: StoredTotals | None, fires: Indices, context: Context
    ) -> None:
        if not len(fires):
            return
        results = self._results(rows, ordered, stored, fires)
        passed = (rows.column(TIME if name == self._time_column else name) for name in self.passed)
        columns = [*(values.take(pa.array(fires)) for values in passed), *results]
        context.emit(pa.Table.from_arrays(columns, schema=self.output))

    def _results(
        self, rows: pa.Table, ordered: SortedRows, stored: StoredTotals | None, chosen: Indices
    ) -> list[pa.Array]:
        """A column per function, for the chosen rows of the line."""
        columns: dict[str, pa.Array] = {}
        for frame, aggregates in self._aggregates.items():
            of_frame = self._aggregated(rows, ordered, stored, frame, aggregates, chosen)
            names = [f.field.name for f in self._computed.values() if isinstance(f, Aggregated) and f.frame == frame]
            columns.update((name, of_frame.column(name).combine_chunks()) for name in names)
        return [self._result(f, columns, rows, ordered, stored, chosen) for f in self.functions]

    def _result(
        self,
        function: OverFunction,
        aggregated: dict[str, pa.Array],
        rows: pa.Table,
        ordered: SortedRows,
        stored: StoredTotals | None,
        chosen: Indices,
    ) -> pa.Array:
        """The results of a function for the chosen rows."""
        computed = self._computed[function]
        if not isinstance(computed, Aggregated):
            return self._of_rows(computed, rows, ordered, stored).take(pa.array(chosen))
        values = aggregated[computed.call.name]
        if not isinstance(function, Shifted):
            return values
        return function.defaulted(values, values.is_valid(), rows.take(pa.array(chosen)))

    def _of_rows(
        self,
        function: Numbered | Placed | Shifted | Nth,
        rows: pa.Table,
        ordered: SortedRows,
        stored: StoredTotals | None,
    ) -> pa.Array:
        """The results of a function that is no aggregate, for all rows of the line."""
        match function:
            case Numbered():
                assert stored is not None, "numbers count on from totals"
                return function.values(
                    ordered, stored.counted(COUNTED, ordered.key), stored.counted(GROUPS, ordered.key)
                )
            case Shifted():
                return function.values(ordered, rows)
            case Nth():
                return function.values(function.frame.bounds(ordered), rows)
        raise AssertionError("such results are final with all rows of a key")

    def _aggregated(
        self,
        rows: pa.Table,
        ordered: SortedRows,
        stored: StoredTotals | None,
        frame: Frame,
        aggregates: Aggregates,
        chosen: Indices,
    ) -> pa.Table:
        count = len(ordered)
        parts, owner = aggregates.lift(rows, np.arange(count), count), ordered.key
        start, stop = frame.bounds(ordered)
        if frame.unbounded:
            assert stored is not None, "frames without a start begin with totals"
            parts, owner, start, stop = _with_totals(stored, parts, owner, start, stop)
        start, stop = start[chosen], stop[chosen]
        filled = np.flatnonzero(stop > start)
        merged = merge_ranges(aggregates, parts, owner, Ranges(start[filled], stop[filled]))
        if len(filled) < len(chosen):
            merged = aggregates.merge(merged, filled, len(chosen))
        return aggregates.finish(merged)

    # --- state -------------------------------------------------------------------------------------------

    @cached_property
    def _kept(self) -> list[str]:
        """The columns of the input that keys, ties, functions and results read."""
        read = [*self.passed, *(tie.column for tie in self.ties)]
        read += [name for function in self.functions for name in columns_of(function)]
        kind = [ROW_KIND] if ROW_KIND in self.input.names else []
        return [name for name in dict.fromkeys((KEY_HASH, *self.keys, *read, *kind)) if name != self._time_column]

    @cached_property
    def _time_column(self) -> str | None:
        """The column of the input that is emitted from TIME, and need not be stored twice."""
        passes = self.domain is Domain.EVENT and self.time is not None and self.time in self.passed
        return self.time if passes and self.input.field(self.time).type == pa.int64() else None

    @cached_property
    def _computed(self) -> dict[OverFunction, OverFunction]:
        """How each function is computed. Rows of frames without a start are not there individually: NTH_VALUE over such
        frames, and LAG that ignores NULLs, are aggregates, whose totals store the values that may be needed."""
        return {
            f: Aggregated(f.of_totals, f.frame) if isinstance(f, Shifted | Nth) and f.frame.unbounded else f
            for f in self.functions
        }

    @cached_property
    def _looking_ahead(self) -> tuple[Shifted, ...]:
        """The calls of LEAD that ignore NULLs: their frames end with the row that they look for."""
        return tuple(f for f in self.functions if isinstance(f, Shifted) and f.frame.end is None)

    @cached_property
    def _aggregates(self) -> dict[Frame, Aggregates]:
        """The aggregates by frame. Those over unbounded frames are combined into one, as in the totals."""
        frames = dict.fromkeys(f.frame for f in self._computed.values() if isinstance(f, Aggregated))
        return {frame: self._unbounded if frame.unbounded else self._of(frame) for frame in frames}

    def _of(self, frame: Frame) -> Aggregates:
        calls = tuple(f.call for f in self._computed.values() if isinstance(f, Aggregated) and f.frame == frame)
        return Aggregates(calls, self.input)

    @cached_property
    def _unbounded(self) -> Aggregates:
        calls = tuple(f.call for f in self._computed.values() if isinstance(f, Aggregated) and f.frame.unbounded)
        return Aggregates(calls, self.input)

    @cached_property
    def _totals(self) -> Totals | None:
        counts = any(isinstance(function, Numbered) for function in self.functions)
        return Totals(self.input, self.keys, self._unbounded) if counts or self._unbounded.calls else None

    @cached_property
    def _frames(self) -> tuple[Frame, ...]:
        others = (f for f in self.functions if not isinstance(f, Numbered | Placed))
        return tuple(f.frame for f in others if f.frame.end is not None)

    @cached_property
    def _rows_before(self) -> int:
        return max((frame.rows_before for frame in self._frames), default=0)

    @cached_property
    def _time_before(self) -> int:
        """The duration for which rows are stored. In processing time more rows may arrive in the current microsecond;
        in event time they cannot."""
        longest = max((frame.time_before for frame in self._frames), default=0)
        return longest + 1 if longest and self.domain is Domain.PROCESSING else longest

    @cached_property
    def _rows_after(self) -> int:
        after = max((frame.rows_after for frame in self._frames), default=0)
        return max(after, 1) if self._looking_ahead else after

    @cached_property
    def _time_after(self) -> int:
        return max((frame.time_after for frame in self._frames), default=0)


def _with_totals(
    stored: StoredTotals, parts: pa.Table, key: Indices, start: Indices, stop: Indices
) -> tuple[pa.Table, Indices, Indices, Indices]:
    """The totals of each key, if any, followed by its parts: all of these, the key of each, and the bounds among
    them."""
    has = stored.row_of_key >= 0
    totals = stored.rows.take(pa.array(stored.row_of_key[has])).select(parts.column_names)
    owner = np.concatenate((np.flatnonzero(has), key))
    order = np.argsort(owner, kind="stable")
    moved = np.cumsum(has)[key]
    whole = pa.concat_tables([totals, parts]).take(pa.array(order))
    return whole, owner[order], start + moved - has[key], stop + moved


# --- totals of dropped rows: their number, and the accumulators of frames without a start ---------------------


COUNTED = "__counted"
GROUPS = "__groups"


class StoredTotals(NamedTuple):
    """The totals of the keys of a call, as loaded; totals are counts and accumulators of rows that are no longer
    stored. ``row_of_key``: for each key the index of its row in ``rows``, -1 for none.
    """

    rows: pa.Table
    row_of_key: Indices

    def counted(self, column: str, key: Indices) -> Indices:
        """For each key index in ``key`` the count that is stored in ``column``: of rows, or groups of peers, that were
        dropped from the state. 0 for keys without such rows.
        """
        counts = np.append(self.rows.column(column).to_numpy(), 0)
        return np.asarray(counts[self.row_of_key][key], np.int64)


@dataclass(frozen=True)
class Totals:
    """Stores, for each key, what frames with UNBOUNDED PRECEDING need of rows that are no longer stored: the
    accumulators of ``aggregates`` and how many rows and groups of peers they were. ``input`` is the schema of the rows.
    """

    input: pa.Schema
    keys: tuple[str, ...]
    aggregates: Aggregates

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of the stored totals: the key, how many rows and groups of peers were dropped, and their
        accumulators.
        """
        own = [self.input.field(name) for name in dict.fromkeys((KEY_HASH, *self.keys))]
        counts = [pa.field(name, pa.int64()) for name in (COUNTED, GROUPS)]
        return pa.schema([*own, *counts, *self.aggregates.accumulators])

    def state(self, store: Store) -> KeyedState:
        """The ``KeyedState`` with the totals (accumulators of dropped rows) of the key group of ``store``."""
        return KeyedState(store, "totals", self.schema)

    def load(self, state: KeyedState, first: pa.Table) -> StoredTotals:
        """Loads the totals of some keys, which stand for rows that are no longer stored; ``first`` has one row for each
        key, in the order of the result.
        """
        stored = state.load(first.column(KEY_HASH).to_numpy())
        candidates = pa.concat_tables([rows.select(self._names) for rows in (first, stored)])
        ids = dense_ids(candidates, self.keys).ids
        stored_rows = np.full(first.num_rows + stored.num_rows, -1, np.int64)
        stored_rows[ids[first.num_rows :]] = np.arange(stored.num_rows)
        return StoredTotals(stored, stored_rows[: first.num_rows])

    def add(self, state: KeyedState, stored: StoredTotals, rows: pa.Table, ordered: SortedRows, dropped: Flags) -> None:
        """Adds the rows for which ``dropped`` is true to the totals of their keys, and stores the totals. ``stored``
        are the totals so far, ``ordered`` has the same rows as ``rows``.
        """
        gone = np.flatnonzero(dropped)
        keys, ids = np.unique(ordered.key[gone], return_inverse=True)
        dropped_rows = rows.take(pa.array(gone))
        count = stored.rows.num_rows
        fresh = stored.row_of_key[keys] < 0
        groups = np.where(fresh, count + np.cumsum(fresh) - 1, stored.row_of_key[keys])
        size = count + int(fresh.sum())
        lifted = self.aggregates.lift(dropped_rows, ids, len(keys))
        parts = pa.concat_tables([stored.rows.select(self.aggregates.accumulators.names), lifted])
        merged = self.aggregates.merge(parts, np.concatenate((np.arange(count), groups)), size)
        first = dropped_rows.take(pa.array(np.unique(ids, return_index=True)[1][fresh])).select(self._names)
        named = pa.concat_tables([stored.rows.select(self._names), first])
        counts = [_added(stored.rows.column(COUNTED), ids, groups, size)]
        counts.append(_added(stored.rows.column(GROUPS), ids[ordered.begins_peers[gone]], groups, size))
        columns = [*named.columns, *map(pa.array, counts), *merged.columns]
        state.replace(pa.Table.from_arrays(columns, schema=self.schema))

    @property
    def _names(self) -> list[str]:
        return list(dict.fromkeys((KEY_HASH, *self.keys)))


def _added(before: pa.ChunkedArray, ids: Indices, groups: Indices, size: int) -> Indices:
    """The counts increased by more rows; ``groups`` are their indices by id."""
    counts = np.zeros(size, np.int64)
    counts[: len(before)] = before.to_numpy()
    counts[groups] += np.bincount(ids, minlength=len(groups))
    return counts
