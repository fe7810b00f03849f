"""TUMBLE, HOP and CUMULATE with the default trigger: windows share panes of accumulators.

Rows are aggregated per key and pane before the exchange. The state holds these accumulators by pane, and is read when a
window closes. Windows fire in order of their ends, keys in order of their first appearance in the panes of the window,
which are read in order of time. Empty windows cost nothing.

Late rows within ALLOW fire their window again row by row, which pre-aggregated rows cannot do: windows with an allowed
lateness run in the general ``WindowKernel``, as do windows with triggers, evictors or updating results. So do HOP and
CUMULATE with aggregates that depend on the order in which rows of different panes arrived.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from sqlstream.udfs.aggregates import Aggregates
from sqlstream.udfs.assigners import Cumulate, Hop, Tumble
from sqlstream.udfs.assigners.assigner import Flags, Times, end_of, micros, start_of, to_wall
from sqlstream.udfs.kernel import (
    END_OF_TIME,
    KEY_HASH,
    LATE_ROWS,
    MOST_RESULTS,
    Context,
    Domain,
    Kernel,
    Pending,
    Wait,
    waits,
)
from sqlstream.udfs.keys import Ids, dense_ids
from sqlstream.udfs.state.chunked import ChunkedState
from sqlstream.udfs.windows.emission import TIMESTAMP, WINDOW_END, WINDOW_START, Lateness, LateRows, bounds
from sqlstream.udfs.windows.panes import (
    CLOSES_BEFORE_END,
    Due,
    Entries,
    Firing,
    PaneResults,
    Panes,
    collapse,
    compact,
    read_entries,
)
from sqlstream.udfs.windows.ranges import change_counts, number, renumbered, row_counts, runs, with_row_counts

PANE = "__pane_start"
"""BIGINT column of pre-aggregated rows: the start of their pane in the local time of the windows."""

_BEGIN, _STOP = "__begin", "__stop"
_PROCESSING_TIME_PANE = 0

_FOLDS = 4
"""Results that exceed their entries by this factor, and are many, are emitted folded, as the entries."""

_SAMPLE = 8_192


@dataclass(frozen=True)
class AlignedWindows(Kernel):
    """The kernel of TUMBLE, HOP and CUMULATE windows: computes ``aggregates`` per ``keys`` and window.
    ``aggregates.input`` is the schema of the input rows without KEY_HASH, the hash of the key columns that every
    kernel's input has.

    Late rows are counted and dropped. With ``late_columns``, the input columns of the side output, they are also passed
    to ``emit_late``, each with the bounds of its last window; with ``fails_on_late`` the first one raises
    ExecutionError SS406. In both cases rows are not pre-aggregated before the shuffle. In processing time a row belongs
    to the windows that are open when its micro-batch arrives. A window whose rows were all retracted has no result.
    """

    keys: tuple[str, ...]
    assigner: Tumble | Hop | Cumulate
    aggregates: Aggregates
    late_columns: tuple[str, ...] | None = None
    fails_on_late: bool = False

    @cached_property
    def output(self) -> pa.Schema:
        return pa.schema(
            [*self._key_fields, (WINDOW_START, TIMESTAMP), (WINDOW_END, TIMESTAMP), *self.aggregates.results]
        )

    @cached_property
    def late_output(self) -> pa.Schema | None:
        return self._lateness.output(self.aggregates.input)

    @property
    def uses_processing_time(self) -> bool:
        return self.assigner.domain is Domain.PROCESSING

    # --- rows -------------------------------------------------------------------------------------------------

    def combine(self, rows: pa.Table) -> pa.Table:
        if not self._combines:
            return rows
        return self._parts(rows, None if self.uses_processing_time else self._panes_of(rows))

    def on_rows(self, rows: pa.Table, context: Context) -> None:
        state = self._state(context)
        parts = self._now(rows, state, context) if self.uses_processing_time else self._timely(rows, context)
        panes, pieces = self._by_pane(parts)
        is_open = self._open(panes, state, context)
        for pane, piece, open_pane in zip(panes.tolist(), pieces, is_open.tolist(), strict=True):
            if open_pane:
                state.append(pane, piece.select(self._state_schema.names))
            else:
                context.count(LATE_ROWS, self._row_count(piece))
        compact(state, panes[is_open], self.keys, self._counted)
        self._finish(state, context)

    def _parts(self, rows: pa.Table, panes: Times | None) -> pa.Table:
        """One row per pane and key: by pane, then by first appearance. Without panes one row per key.

        Where keys hardly repeat, one row for each row: to find the few repeated ones costs more than it saves.
        """
        if self._repeats_rarely(rows, panes):
            cells = Ids(np.arange(rows.num_rows), np.arange(rows.num_rows))
        else:
            cells = _cells(panes, dense_ids(rows, self.keys))
        first = pa.array(cells.first)
        pane = np.full(cells.count, _PROCESSING_TIME_PANE) if panes is None else panes[cells.first]
        head = [rows.column(name).take(first) for name in (KEY_HASH, *self.keys)]
        values = self._counted.lift(rows, cells.ids, cells.count)
        return pa.Table.from_arrays([pa.array(pane), *head, *values.columns], schema=self._part_schema)

    def _repeats_rarely(self, rows: pa.Table, panes: Times | None) -> bool:
        """True where the rows probably belong to more pairs of pane and key than there are rows, by a sample.

        Of n pairs, s rows repeat about s² / 2n.
        """
        if rows.num_rows < 4 * _SAMPLE:
            return False
        chosen = np.linspace(0, rows.num_rows - 1, _SAMPLE).astype(np.int64)
        sample = rows.select([KEY_HASH, *self.keys]).take(pa.array(chosen))
        cells = _cells(None if panes is None else panes[chosen], dense_ids(sample, self.keys))
        return bool(2 * (_SAMPLE - cells.count) * rows.num_rows < _SAMPLE**2)

    def _panes_of(self, rows: pa.Table) -> Times:
        assert self.assigner.time is not None, "windows in event time name the column of the time"
        times = micros(rows.column(self.assigner.time), self.assigner.time)
        return self._panes.start(to_wall(times, self.assigner.zone))

    def _by_pane(self, parts: pa.Table) -> tuple[Times, list[pa.Table]]:
        """The parts of each pane, in order of arrival."""
        pane: Times = parts.column(PANE).to_numpy()
        if (pane[1:] < pane[:-1]).any():
            order = np.argsort(pane, kind="stable")
            parts, pane = parts.take(pa.array(order)), pane[order]
        start, stop = runs(pane)
        cuts = zip(start.tolist(), stop.tolist(), strict=True)
        return pane[start], [parts.slice(start, stop - start) for start, stop in cuts]

    def _now(self, rows: pa.Table, state: ChunkedState, context: Context) -> pa.Table:
        """Assigns rows to the first pane of which no window has closed: windows close a millisecond before their
        end."""
        parts = rows if PANE in rows.schema.names else self.combine(rows)
        now = max(context.processing_time, state.mark) + CLOSES_BEFORE_END
        pane = self._panes.start(to_wall(np.array([now], np.int64), self.assigner.zone))
        return parts.set_column(0, PANE, pa.array(np.repeat(pane, parts.num_rows)))

    # --- late rows --------------------------------------------------------------------------------------------

    def _open(self, panes: Times, state: ChunkedState, context: Context) -> Flags:
        """True where a window will take rows of a pane. Those of its windows that have closed will not see them."""
        if self.uses_processing_time:
            return np.ones(len(panes), bool)
        first_open = self._panes.first_open(panes, context.watermark)
        if (first_open > self._panes.first_end(panes)).any():
            state.mark = max(state.mark, context.watermark)
        return first_open <= self._panes.last_end(panes)

    def _row_count(self, parts: pa.Table) -> int:
        return int(change_counts(self._counted.finish(parts)).sum())

    def _timely(self, rows: pa.Table, context: Context) -> pa.Table:
        """Parts; where late rows go out, without these."""
        if PANE in rows.schema.names:
            return rows
        panes = self._panes_of(rows)
        if not self._combines:
            rows, panes = self._without_late(rows, panes, context)
        return self._parts(rows, panes)

    def _without_late(self, rows: pa.Table, panes: Times, context: Context) -> tuple[pa.Table, Times]:
        last = self._panes.last_end(panes)
        is_late = self._panes.closing_time(last) <= context.watermark
        if not is_late.any():
            return rows, panes
        self._lateness.report(rows.filter(pa.array(is_late)), *self._bounds(last[is_late]), context)
        return rows.filter(pa.array(~is_late)), panes[~is_late]

    # --- time -------------------------------------------------------------------------------------------------

    def on_event_time(self, watermark: int, context: Context) -> None:
        self._fire(watermark, context)

    def on_processing_time(self, time: int, context: Context) -> None:
        self._fire(time, context)

    def _fire(self, clock: int, context: Context) -> None:
        state, panes = self._state(context), self._panes
        stored = state.ids()
        begin, stop = (panes.first_open(stored, time) for time in (state.mark, clock))
        due = begin < stop
        if due.any():
            entries = read_entries(state, stored[due], self.keys, self._counted)
            self._emit(PaneResults(Due(entries, begin[due], stop[due]), panes, self.keys, self._counted), context)
        for pane in stored[stop > panes.last_end(stored)]:
            state.replace(pane, None)
        if panes.cumulative and due.any():
            collapse(state, entries, panes, clock, self.keys, self._counted)
        state.mark = clock
        self._finish(state, context)

    def waits(self, context: Context) -> Iterator[Wait]:
        """Yields, for monitoring, at most one ``Wait``: how many stored rows are in windows that have not closed, and
        when the first and the last of these windows close.
        """
        state, panes = self._state(context), self._panes
        stored = state.ids()
        rows = np.array([self._row_count(parts) for parts in state.read(stored).values()], np.int64)
        first, last = map(panes.closing_time, (panes.first_open(stored, state.mark), panes.last_end(stored)))
        return waits(Pending.ROWS_IN_WINDOWS, self.assigner.domain, last, rows, first)

    def _finish(self, state: ChunkedState, context: Context) -> None:
        """Writes the state and sets the timer to the closing of the first window that has rows."""
        stored = state.ids()
        timers = self._panes.closing_time(self._panes.first_open(stored, state.mark))
        state.flush()
        context.set_timer(self.assigner.domain, int(timers.min(initial=END_OF_TIME)))

    # --- results ----------------------------------------------------------------------------------------------

    def _emit(self, results: PaneResults, context: Context) -> None:
        if results.count > MOST_RESULTS and results.count > _FOLDS * results.due.entries.rows.num_rows:
            context.emit_folded(self._folded(results.due), results.count)
            return
        for firing in results.parts():
            context.emit(self._results(firing))

    def _folded(self, due: Due) -> pa.Table:
        """The entries, each with its pane and the ends of the pane's windows that have closed."""
        of_panes = (due.entries.panes, due.begin, due.stop)
        columns = [*due.entries.rows.columns, *(pa.array(times[due.entries.pane]) for times in of_panes)]
        return pa.Table.from_arrays(columns, names=[*due.entries.rows.column_names, PANE, _BEGIN, _STOP])

    def unfold(self, folded: pa.Table) -> Iterator[pa.Table]:
        pane, begin, stop = (folded.column(name).to_numpy() for name in (PANE, _BEGIN, _STOP))
        panes, first, pane_numbers = np.unique(pane, return_index=True, return_inverse=True)
        ids = dense_ids(folded, self.keys)
        entries = Entries(
            folded.select(self._state_schema.names).combine_chunks(), panes, pane_numbers, ids.ids, ids.count
        )
        results = PaneResults(Due(entries, begin[first], stop[first]), self._panes, self.keys, self._counted)
        return map(self._results, results.parts())

    def _results(self, firing: Firing) -> pa.Table:
        finished = self._counted.finish(firing.accumulators)
        values = finished.select(self.aggregates.results.names)
        columns = [*firing.keys.columns, *map(bounds, self._bounds(firing.end)), *values.columns]
        results = pa.Table.from_arrays(columns, schema=self.output)
        return results.filter(pa.array(row_counts(finished) > 0)) if self.aggregates.updating else results

    def _bounds(self, end: Times) -> tuple[Times, Times]:
        zone = self.assigner.zone
        return start_of(self._panes.window_start(end), zone), end_of(end, zone)

    # --- schemas ----------------------------------------------------------------------------------------------

    @property
    def _combines(self) -> bool:
        """True where rows are pre-aggregated: not if late rows are emitted or raise an error."""
        return self._lateness.action is LateRows.DROP

    @cached_property
    def _lateness(self) -> Lateness:
        if self.late_columns is not None:
            return Lateness(0, LateRows.EMIT, self.late_columns)
        return Lateness(0, LateRows.FAIL if self.fails_on_late else LateRows.DROP)

    @cached_property
    def _panes(self) -> Panes:
        return Panes.of(self.assigner)

    @cached_property
    def _counted(self) -> Aggregates:
        """The aggregates with row counts: for the number of late rows, and as the only column where no other aggregate
        is requested."""
        return with_row_counts(self.aggregates)

    @cached_property
    def _key_fields(self) -> list[pa.Field]:
        return [pa.field(name, self.aggregates.input.field(name).type) for name in self.keys]

    @cached_property
    def _state_schema(self) -> pa.Schema:
        return pa.schema([*self._key_fields, *self._counted.accumulators])

    @cached_property
    def _part_schema(self) -> pa.Schema:
        return pa.schema([(PANE, pa.int64()), (KEY_HASH, pa.int64()), *self._state_schema])

    def _state(self, context: Context) -> ChunkedState:
        return ChunkedState(context.store, "panes", self._state_schema)


def _cells(panes: Times | None, keys: Ids) -> Ids:
    """Pairs of pane and key, numbered by pane, then by first appearance."""
    if panes is None or len(panes) == 0 or (panes == panes[0]).all():
        return keys
    pane_ids = dense_ids(pa.table({PANE: panes}), (PANE,))
    ranks = np.argsort(np.argsort(panes[pane_ids.first]))
    cells = number(ranks[pane_ids.ids] * keys.count + keys.ids, pane_ids.count * keys.count)
    return renumbered(cells, np.argsort(panes[cells.first], kind="stable"))
