"""Window join: rows of two sides match if their windows, which are keys, and their other keys are equal.

All results of a window are emitted when the watermark closes it, and its state is dropped. Rows of a closed window are
late and dropped. The semantics are those of Flink's WindowJoinOperator. The state holds the rows of each side by key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from sqlstream.udfs.expressions.tree import Expression
from sqlstream.udfs.joins import JoinKind
from sqlstream.udfs.joins.pairs import JoinResults, Pairs, Side, equal, fulfilling, joinable, numbered
from sqlstream.udfs.kernel import LATE_ROWS, Context, Domain, Kernel, Pending, Wait, waits
from sqlstream.udfs.state.buckets import EVENT_TIMER
from sqlstream.udfs.state.keyed import KeyedState

END = "__window_end"
"""The column of either input with the end of the row's window, in microseconds; it follows from one of the keys."""

_NAMES = ("left", "right")
_MILLISECOND = 1000


@dataclass(frozen=True)
class WindowJoinKernel(Kernel):
    """The kernel of a window join. ``keys``: columns of both inputs, among them the window; NULL equals NULL in those
    that are ``null_safe``.

    Rows with equal keys belong to the same window, which ends at the time in their column END. The output columns of
    the two sides have different names.
    """

    kind: JoinKind
    sides: tuple[Side, Side]
    keys: tuple[str, ...]
    null_safe: tuple[bool, ...]
    condition: Expression | None = None

    @property
    def ports(self) -> int:
        return 2

    @property
    def output(self) -> pa.Schema:
        return self._results.schema

    def on_ports(self, rows: Mapping[int, pa.Table], context: Context) -> None:
        states = self._states(context)
        for port, came in rows.items():
            closes = came.column(END).to_numpy() - _MILLISECOND
            on_time = closes > context.watermark
            if not on_time.all():
                context.count(LATE_ROWS, int(np.count_nonzero(~on_time)))
            kept = pa.table([*came.select(self.sides[port].input.names), pa.array(closes)], schema=self._schemas[port])
            if not self.kind.padded[port]:
                on_time &= joinable(came, self.keys, self.null_safe)
            states[port].append(kept.filter(pa.array(on_time)))
        self._finish(states, context)

    def on_event_time(self, watermark: int, context: Context) -> None:
        states = self._states(context)
        closed = [self._closed(state, watermark) for state in states]
        self._join(closed[0], closed[1], context)
        self._finish(states, context)

    def on_processing_time(self, time: int, context: Context) -> None:
        raise AssertionError("no timer of processing time was set")

    def waits(self, context: Context) -> Iterator[Wait]:
        """Counts the stored rows of windows that have not closed."""
        for state in self._states(context):
            yield from waits(Pending.ROWS_IN_WINDOWS, Domain.EVENT, state.load_all().column(EVENT_TIMER).to_numpy())

    def _closed(self, state: KeyedState, watermark: int) -> pa.Table:
        """Takes the rows of closed windows out of the state."""
        rows = state.due(Domain.EVENT, watermark)
        closed = rows.column(EVENT_TIMER).to_numpy() <= watermark
        state.replace(rows.filter(pa.array(~closed)))
        return rows.filter(pa.array(closed)).combine_chunks()

    def _join(self, left: pa.Table, right: pa.Table, context: Context) -> None:
        matched = [np.zeros(rows.num_rows, np.bool_) for rows in (left, right)]
        for pairs in fulfilling(self._pairs(left, right), self.condition, left, right):
            matched[0][pairs.left] = True
            matched[1][pairs.right] = True
            if self.kind.pairs:
                columns = self._results.of_pairs(left, right, pairs)
                context.emit(pa.Table.from_arrays([*columns], schema=self.output))
        for port, rows in enumerate((left, right)):
            if self.kind.padded[port]:
                self._emit_alone(port, rows.filter(pa.array(~matched[port])), context)
        if self.kind is JoinKind.SEMI:
            self._emit_alone(0, left.filter(pa.array(matched[0])), context)

    def _pairs(self, left: pa.Table, right: pa.Table) -> Iterator[Pairs]:
        can = [np.flatnonzero(joinable(rows, self.keys, self.null_safe)) for rows in (left, right)]
        of_left, of_right = numbered(left, right, self.keys)
        for pairs in equal(of_left[can[0]], of_right[can[1]]):
            yield Pairs(can[0][pairs.left], can[1][pairs.right])

    def _emit_alone(self, port: int, rows: pa.Table, context: Context) -> None:
        columns = self._results.alone(port, rows)
        context.emit(pa.Table.from_arrays([*columns], schema=self.output))

    @cached_property
    def _results(self) -> JoinResults:
        return JoinResults(self.kind, self.sides)

    @cached_property
    def _schemas(self) -> tuple[pa.Schema, ...]:
        """The schemas of the stored rows."""
        return tuple(pa.schema([*side.input, (EVENT_TIMER, pa.int64())]) for side in self.sides)

    def _states(self, context: Context) -> list[KeyedState]:
        return [KeyedState(context.store, name, schema) for name, schema in zip(_NAMES, self._schemas, strict=True)]

    def _finish(self, states: list[KeyedState], context: Context) -> None:
        for state in states:
            state.flush()
        context.set_timer(Domain.EVENT, min(state.next_timer(Domain.EVENT) for state in states))
