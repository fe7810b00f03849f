"""MATCH_RECOGNIZE: sequences of rows of a key, in order of time, that match a pattern.

In event time rows are mapped when the watermark has reached them, in order of their times; a row is late, and dropped,
if the watermark had reached its time before it arrived. In processing time they are mapped as they arrive. A match is
emitted when no future row can lead to a match that is preferred to it, and no match that begins earlier is open.

The state holds the rows that wait for the watermark, the rows from the first open match on, as many rows before these
as PREV reads, and the open matches. Matches that exceed WITHIN are dropped when the clock has passed it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from sqlstream.udfs.assigners.assigner import rows_in_time
from sqlstream.udfs.kernel import END_OF_TIME, KEY_HASH, ROW_KIND, Context, Domain
from sqlstream.udfs.keys import dense_ids, in_order
from sqlstream.udfs.match.automaton import Automaton, Skip, SkipTo
from sqlstream.udfs.match.definitions import (
    NO_ROW,
    Current,
    Definition,
    Definitions,
    Flags,
    Indices,
    Mapped,
    MatchNumber,
    Measure,
    Operand,
    PathTree,
    RowsByKey,
    Times,
    columns_of,
    field_of,
)
from sqlstream.udfs.match.matches import Mapping, Measured, Numbers, OpenMatches, Resolved, resolve
from sqlstream.udfs.match.partial_matches import BestMatches
from sqlstream.udfs.match.search import Search
from sqlstream.udfs.over.line import AT_THE_END, TIME, Tie, WaitingRows, filtered, ranked, rows_at, tie_ranks
from sqlstream.udfs.state.keyed import KeyedState
from sqlstream.udfs.windows.row_measured import never_back

MAPPED = "__mapped"


@dataclass(frozen=True)
class MatchKernel(WaitingRows):
    """The kernel of MATCH_RECOGNIZE.

    ``passed`` are the columns of ``input`` that are emitted before the ``measures``: the keys, or any columns with
    ``all_rows``, which emits each row of a match. ``within`` is the longest duration of a match in microseconds.
    ``time`` is the column with the rows' times; None means processing time. ``holds``: the watermark of downstream
    operators is held back while a match is undecided.
    """

    input: pa.Schema
    keys: tuple[str, ...]
    time: str | None
    passed: tuple[str, ...]
    automaton: Automaton
    definitions: tuple[Definition, ...]
    operands: tuple[Operand, ...]
    measures: tuple[Measure, ...]
    skip: Skip
    within: int | None = None
    domain: Domain = Domain.EVENT
    ties: tuple[Tie, ...] = ()
    all_rows: bool = False
    holds: bool = False

    def __post_init__(self) -> None:
        assert not self.automaton.matches_nothing, "a match has rows"
        assert ROW_KIND not in self.input.names, "rows that came stay"

    @cached_property
    def output(self) -> pa.Schema:
        return pa.schema(
            [*(self.input.field(name) for name in self.passed), *(field_of(m, self.input) for m in self.measures)]
        )

    @property
    def deferring(self) -> bool:
        return self.holds

    def on_held(self, context: Context) -> None:
        self._hold(context)

    def on_rows(self, rows: pa.Table, context: Context) -> None:
        rows, time = rows_in_time(rows, self.time, self.domain, context)
        state = self._state(context)
        state.append(self._table(rows, time, np.zeros(len(time), np.bool_), time))
        self._advance(state, context)

    # --- the rows of the keys that are due ----------------------------------------------------------------------

    _done = MAPPED

    def _advance(self, state: KeyedState, context: Context) -> None:
        super()._advance(state, context)
        if self.holds:
            self._hold(context)

    def _hold(self, context: Context) -> None:
        context.hold(self._open.state(context.store).next_timer(Domain.EVENT))

    def _step(self, rows: pa.Table, now: int, state: KeyedState, context: Context) -> None:
        passed = rows.column(TIME).to_numpy() <= now
        if not passed.any():
            state.replace(rows)
            return
        waiting = filtered(rows, ~passed)
        ordered, appeared = self._lined_up(rows, np.flatnonzero(passed), now)
        stored, tree, ends = self._open.state(context.store), PathTree(), BestMatches.none(len(ordered))
        partial_matches, others = self._open.load(stored, ordered, ends, tree)
        partial_matches = self._search.run(ordered, partial_matches, ends, tree)
        partial_matches = partial_matches.where(self._in_time(ordered, partial_matches.start, now))
        is_open = np.zeros(len(ordered), np.bool_)
        is_open[partial_matches.start] = True
        resolved = resolve(ordered, ends, is_open, tree, self.skip, self.automaton)
        self._emit(ordered, resolved, appeared, context)
        partial_matches = self._search.joined(partial_matches.where(resolved.kept[partial_matches.start]), ordered)
        ends.last[~resolved.kept] = NO_ROW
        kept_from = self._kept_from(ordered, resolved.kept, now)
        open_matches = self._open.rows(ordered, partial_matches, ends, tree, kept_from)
        stored.replace(pa.concat_tables([open_matches, others]) if others.num_rows else open_matches)
        stored.flush()
        timer = self._timers(ordered, resolved.kept, ends.last != NO_ROW, now)
        is_mapped = np.arange(len(ordered)) < ordered.ready[ordered.key]
        stays = np.arange(len(ordered)) >= kept_from[ordered.key]
        # Waiting rows follow processed ones, both in the order of the state, so that it need not sort them.
        state.replace(filtered(self._table(ordered.table, ordered.time, is_mapped, timer), stays))
        state.append(waiting)

    def _lined_up(self, rows: pa.Table, passed: Indices, now: int) -> tuple[RowsByKey, Indices]:
        """The rows that have passed, in order, and for each key when it appeared first.

        Keys are in the order of their hashes, as they are in the state.
        """
        # A table without columns has no number of rows, so KEY_HASH is included if there are no keys.
        keys = rows_at(rows.select(list(dict.fromkeys((KEY_HASH, *self.keys)))), passed)
        appeared = dense_ids(keys, self.keys)
        rank = ranked(keys.column(KEY_HASH).to_numpy()[appeared.first])
        key, time = rank[appeared.ids], rows.column(TIME).to_numpy()[passed]
        if self.domain is Domain.PROCESSING:
            order = in_order([key])
        elif self.ties:
            tie = tie_ranks(rows_at(rows.select([tie.column for tie in self.ties]), passed), self.ties)
            order = in_order([key, time, tie])
        else:
            order = in_order([key, time])
        key, time = key[order], time[order]
        if self.domain is Domain.PROCESSING:
            time = never_back(key, time)
        table = rows.take(pa.array(passed[order])).combine_chunks()
        mapped = table.column(MAPPED).to_numpy(zero_copy_only=False)
        count = appeared.count
        begin = np.searchsorted(key, np.arange(count))
        stop = np.append(begin[1:], len(key))
        following = begin + np.bincount(key[mapped], minlength=count)
        ready = stop if now == END_OF_TIME else np.maximum(following, stop - self._rows_after)
        first = np.empty(count, np.int64)
        first[rank] = np.arange(count)
        return RowsByKey(table, time, begin, following, ready, stop), first

    def _in_time(self, ordered: RowsByKey, start: Indices, now: int) -> Flags:
        """True where a future row may still belong to a match that begins at the row."""
        if now == END_OF_TIME:
            return np.zeros(len(start), np.bool_)
        if self.within is None:
            return np.ones(len(start), np.bool_)
        key = ordered.key[start]
        waits = ordered.ready[key] < ordered.stop[key]
        upcoming = ordered.time[np.minimum(ordered.ready[key], max(len(ordered) - 1, 0))]
        at_least = now + 1 if self.domain is Domain.EVENT else now
        return np.asarray(np.where(waits, upcoming, at_least) - ordered.time[start] < self.within)

    def _kept_from(self, ordered: RowsByKey, kept: Flags, now: int) -> Indices:
        """The first stored row of each key: the first of its open matches, minus the number of rows that PREV reads."""
        if now == END_OF_TIME:
            return ordered.stop
        first = ordered.ready.copy()
        starts = np.flatnonzero(kept)
        np.minimum.at(first, ordered.key[starts], starts)
        return np.maximum(first - self._rows_before, ordered.begin)

    def _timers(self, ordered: RowsByKey, kept: Flags, has_end: Flags, now: int) -> Times:
        """When a row must be processed again: at the end of the input if it waits for later rows, or when an open match
        that it begins cannot continue."""
        timer = np.full(len(ordered), END_OF_TIME)
        timer[np.arange(len(ordered)) >= ordered.ready[ordered.key]] = AT_THE_END
        timer[kept & has_end] = AT_THE_END
        if self.within is not None:
            ends = ordered.time + self.within - (self.domain is Domain.EVENT)
            timer = np.where(kept, np.where(ends > now, ends, AT_THE_END), timer)
        return timer

    # --- results ------------------------------------------------------------------------------------------------

    def _emit(self, ordered: RowsByKey, resolved: Resolved, appeared: Indices, context: Context) -> None:
        """The matches in the order of the times of their last rows, then of keys; those of one key in their order."""
        matches = resolved.matches
        if not len(matches.start):
            return
        number = resolved.number
        if any(isinstance(measure, MatchNumber) for measure in self.measures):
            number = self._numbers.next(ordered, ordered.key[matches.start], number, context.store)
        key = ordered.key[matches.start]
        order = in_order([never_back(key, ordered.time[matches.last]), appeared[key]])
        matches, number = matches.take(order), number[order]
        measured = Measured(ordered, matches, self.automaton, *self._measured_at(matches), number)
        rows = measured.rows() if self.all_rows else matches.start
        passed = (ordered.column(name).take(pa.array(rows)) for name in self.passed)
        context.emit(pa.Table.from_arrays([*passed, *measured.columns(self.measures)], schema=self.output))

    def _measured_at(self, matches: Mapping) -> tuple[Indices, Indices]:
        """For each emitted row its match, and its position among the rows of all matches."""
        if self.all_rows:
            return np.repeat(np.arange(len(matches.start)), matches.lengths), np.arange(len(matches.places))
        return np.arange(len(matches.start)), matches.begin + matches.lengths - 1

    # --- state -------------------------------------------------------------------------------------------

    @cached_property
    def _kept(self) -> list[str]:
        """The columns of the input that are read later."""
        read = [name for operand in (*self.operands, *self.measures) for name in columns_of(operand)]
        ties = [tie.column for tie in self.ties]
        return [*dict.fromkeys((KEY_HASH, *self.keys, *self.passed, *read, *ties))]

    @cached_property
    def _search(self) -> Search:
        definitions = Definitions(self.automaton, self.definitions, self.operands, self._stored)
        return Search(definitions, self.skip.to is SkipTo.PAST_LAST_ROW, self.within)

    @cached_property
    def _open(self) -> OpenMatches:
        return OpenMatches(self.input, self.keys, self._search)

    @cached_property
    def _numbers(self) -> Numbers:
        return Numbers(self.input, self.keys)

    @property
    def _shifts(self) -> list[int]:
        return [read.shift for read in (*self.operands, *self.measures) if isinstance(read, (Current, Mapped))]

    @cached_property
    def _rows_before(self) -> int:
        return -min([0, *self._shifts])

    @cached_property
    def _rows_after(self) -> int:
        return max([0, *self._shifts])
