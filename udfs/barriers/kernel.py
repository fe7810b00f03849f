"""ALIGN BARRIERS as a kernel of one key group: a barrier spans all channels of the query.

Held rows hold the watermark of operators above below their times. So do released rows during the micro-batch in which
they are released, because they reach operators above after its watermark.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.errors import ExecutionError, repeating
from sqlstream.udfs.barriers import MOST_HELD
from sqlstream.udfs.barriers.alignment import Items, MarkKind, Memory, Passage, align, track, waiting_since
from sqlstream.udfs.exchange import CLOCK
from sqlstream.udfs.kernel import (
    BARRIER,
    END_OF_TIME,
    KEY_HASH,
    NO_WATERMARK,
    Context,
    Domain,
    Kernel,
    Pending,
    StateKey,
    Wait,
)
from sqlstream.udfs.state.chunked import ChunkedState

CHANNEL = "__channel"
"""STRING column: the channel of a row or mark."""

KIND = "__kind"
"""INT column: a ``MarkKind``."""

ID = "__barrier_id"
"""BIGINT column: the id of the barrier of a MARKER or CANCEL."""

ALIGNED = "__aligned"
"""BIGINT column of the output: the id of the last barrier aligned before the row."""

HELD_FROM = "__held_from"
"""BIGINT column of stored rows: operators above must not see a watermark of this time or later."""

WRONG_CHANNEL, NO_ID, TOO_MANY_HELD = repeating("SS445"), repeating("SS446"), repeating("SS447")

_STATE: StateKey = ("barriers", 0)
_HELD = 0


@dataclass
class _State:
    """The state of the kernel besides the held rows. ``names``: the channels, by number. ``held_from``: the earliest
    time that held rows hold. ``lifting``: the earliest time of rows released in this micro-batch; END_OF_TIME for
    none."""

    memory: Memory = field(default_factory=Memory)
    names: list[str] = field(default_factory=list)
    held_from: int = END_OF_TIME
    lifting: int = END_OF_TIME

    def to_bytes(self) -> bytes:
        return json.dumps([self.memory.to_json(), self.names, self.held_from, self.lifting]).encode()

    @staticmethod
    def from_bytes(data: bytes | None) -> _State:
        if data is None:
            return _State()
        memory, names, held_from, lifting = json.loads(data)
        return _State(Memory.from_json(memory), names, held_from, lifting)


@dataclass(frozen=True)
class Barriers(Kernel):
    """The kernel of ALIGN BARRIERS. It holds back rows of channels whose barrier marker has arrived until it has
    arrived on all. ``input`` has the columns CHANNEL, KIND and ID. The output has no markers, and the data rows with
    ALIGNED, the id of the last barrier that was aligned before the row.

    ``timeout``: the microseconds of processing time after which a pending barrier is cancelled. ``most_held``: the
    limit of held rows and markers. ``time``: a BIGINT column with the event time of a row in microseconds, NULL for
    none; None if no row has one. ``emits_barriers``: each aligned barrier is emitted as a row in which only BARRIER is
    set, at its position among the rows.
    """

    input: pa.Schema
    channels: int
    exactly_once: bool = True
    timeout: int | None = None
    most_held: int = MOST_HELD
    time: str | None = None
    emits_barriers: bool = False

    @cached_property
    def passed(self) -> tuple[str, ...]:
        """The names of the input columns that are emitted unchanged."""
        own = (KEY_HASH, CLOCK, CHANNEL, KIND, ID, self.time)
        return tuple(name for name in self.input.names if name not in own)

    @cached_property
    def output(self) -> pa.Schema:
        barrier = [pa.field(BARRIER, pa.int64())] if self.emits_barriers else []
        kept = (self.input.field(name) for name in self.passed)
        return pa.schema([*kept, pa.field(ALIGNED, pa.int64()), *barrier]).remove_metadata()

    @property
    def uses_processing_time(self) -> bool:
        return self.timeout is not None

    @property
    def deferring(self) -> bool:
        return self.exactly_once

    def on_rows(self, rows: pa.Table, context: Context) -> None:
        BarrierCall(self, context).rows(rows)

    def waits(self, context: Context) -> Iterator[Wait]:
        """Counts the rows that are held back until their barriers have arrived on all channels."""
        held = BarrierCall(self, context).held_rows()
        if held:
            yield Wait(Pending.HELD, None, held)

    def on_held(self, context: Context) -> None:
        BarrierCall(self, context).held_again()

    def on_event_time(self, watermark: int, context: Context) -> None:
        BarrierCall(self, context).end()

    def on_processing_time(self, time: int, context: Context) -> None:
        BarrierCall(self, context).expire()

    @cached_property
    def stored(self) -> pa.Schema:
        """The schema of the stored rows that are held back."""
        names = (*self.passed, CHANNEL, KIND, ID)
        kept = (self.input.field(name) for name in names)
        return pa.schema([*kept, pa.field(HELD_FROM, pa.int64())]).remove_metadata()


class BarrierCall:
    """One call of the kernel ``Barriers``: it reads the state when it is created, and writes it when the call ends."""

    def __init__(self, kernel: Barriers, context: Context) -> None:
        self._kernel = kernel
        self._context = context
        (self._before,) = context.store.get([_STATE])
        self._kept = _State.from_bytes(self._before)
        self._state = ChunkedState(context.store, "held", kernel.stored)

    def rows(self, arrived: pa.Table) -> None:
        """Processes new rows and markers, and emits the rows that pass."""
        rows = self._with_held_from(arrived)
        passage, memory = self._taken(rows)
        if passage.released and self._state.rows(_HELD):
            stored = self._stored()
            rows = pa.concat_tables([stored, rows])
            passage, memory = self._taken(rows)
            self._go_on(rows, passage, stored.num_rows)
            self._replace(rows, passage)
        else:
            self._append(rows, passage)
        self._kept.memory = memory
        self._emit(rows, passage)
        self._done()

    def held_again(self) -> None:
        """Called at the start of a micro-batch if the previous one held back the watermark of downstream operators:
        rows that it released hold the watermark back no longer.
        """
        self._kept.lifting = END_OF_TIME
        self._done()

    def end(self) -> None:
        """Called at the end of the input: emits all rows that are held back, before the final watermark."""
        self._pass_all(ends=True)
        self._kept.lifting = END_OF_TIME
        self._done()

    def expire(self) -> None:
        """Cancels the barriers that have been pending longer than the timeout, and emits the rows that this
        releases.
        """
        now, timeout = self._context.processing_time, self._kernel.timeout
        assert timeout is not None, "there is a timer of processing time"
        memory = self._kept.memory
        timed = [p if p.since != NO_WATERMARK else p.started(now) for p in memory.pending]
        memory.pending = [p for p in timed if p.since > now - timeout]
        if not memory.pending and timed and self._kernel.exactly_once:
            self._pass_all(ends=now == END_OF_TIME)
        self._done()

    def _pass_all(self, *, ends: bool) -> None:
        """Reads the held rows as if they had just arrived, and emits those that pass."""
        rows = self._stored()
        passage, memory = self._taken(rows, ends=ends)
        self._go_on(rows, passage, rows.num_rows)
        self._replace(rows, passage)
        self._kept.memory = memory
        self._emit(rows, passage)

    def held_rows(self) -> int:
        """The number of data rows that are held back; markers are not counted."""
        return int((self._stored().column(KIND).to_numpy() == MarkKind.ROW).sum())

    # --- items ------------------------------------------------------------------------------------------------

    def _taken(self, rows: pa.Table, *, ends: bool = False) -> tuple[Passage, Memory]:
        memory, now = self._kept.memory.copy(), self._context.processing_time
        items = self._items(rows)
        if not self._kernel.exactly_once:
            return track(memory, items, self._kernel.channels, now), memory
        return align(memory, items, self._kernel.channels, now, ends=ends), memory

    def _items(self, rows: pa.Table) -> Items:
        kind = np.asarray(rows.column(KIND).to_numpy(), np.int64)
        ids = rows.column(ID)
        is_mark = (kind == MarkKind.MARKER) | (kind == MarkKind.CANCEL)
        if ids.null_count and (np.asarray(ids.is_null()) & is_mark).any():
            message = "the ID of a barrier is NULL"
            raise ExecutionError(
                NO_ID, message, hint="Exclude such rows from MARKER and CANCEL WHEN: … AND id IS NOT NULL."
            )
        return Items(self._channel_numbers(rows), kind, np.asarray(pc.fill_null(ids, 0)))

    def _channel_numbers(self, rows: pa.Table) -> np.ndarray:
        column = rows.column(CHANNEL).combine_chunks()
        if column.null_count:
            hint = "Give it a value with COALESCE, or exclude the rows in a subquery in FROM."
            raise ExecutionError(WRONG_CHANNEL, "the CHANNEL of a row is NULL", hint=hint)
        names, most = self._kept.names, self._kernel.channels
        names += [name for name in pc.unique(column).to_pylist() if name not in names]
        if len(names) > most:
            message = f'"{names[most]}" is another channel than the {most} of ALIGN BARRIERS: {", ".join(names[:most])}'
            raise ExecutionError(WRONG_CHANNEL, message, hint="Write the number of channels in CHANNEL … OF n.")
        return np.asarray(pc.index_in(column, value_set=pa.array(names, pa.string())), np.int64)

    def _with_held_from(self, rows: pa.Table) -> pa.Table:
        """The rows with the time that each holds: its own, or the moment after the watermark if that has passed it.
        Marks hold nothing."""
        after = min(max(self._context.watermark + 1, -END_OF_TIME), END_OF_TIME - 1)
        held = np.full(rows.num_rows, after)
        if self._kernel.time is not None:
            held = np.maximum(held, np.asarray(pc.fill_null(rows.column(self._kernel.time).cast(pa.int64()), after)))
        held[np.asarray(rows.column(KIND).to_numpy()) != MarkKind.ROW] = END_OF_TIME - 1
        columns = [rows.column(c.name).cast(c.type) for c in self._kernel.stored if c.name != HELD_FROM]
        return pa.Table.from_arrays([*columns, pa.array(np.minimum(held, END_OF_TIME - 1))], schema=self._kernel.stored)

    # --- held rows -----------------------------------------------------------------------------------------

    def _stored(self) -> pa.Table:
        return self._state.read([_HELD])[_HELD]

    def _go_on(self, rows: pa.Table, passage: Passage, stored: int) -> None:
        """Releases some of the first ``stored`` rows, which were held."""
        gone = np.ones(stored, bool)
        gone[passage.held[passage.held < stored]] = False
        self._kept.lifting = min(self._kept.lifting, _least(rows.slice(0, stored).filter(pa.array(gone))))

    def _append(self, rows: pa.Table, passage: Passage) -> None:
        held = rows.take(pa.array(passage.held))
        self._state.append(_HELD, held)
        self._kept.held_from = min(self._kept.held_from, _least(held))

    def _replace(self, rows: pa.Table, passage: Passage) -> None:
        held = rows.take(pa.array(passage.held))
        self._state.replace(_HELD, held)
        self._kept.held_from = _least(held)

    def _done(self) -> None:
        """Writes all changes, and sets the timer and the hold."""
        held = self._state.rows(_HELD)
        if held > self._kernel.most_held:
            _refuse(held, self._kernel.most_held, self._kept)
        self._state.flush()
        after = self._kept.to_bytes()
        if after != self._before:
            self._context.store.put({_STATE: after})
        memory, timeout = self._kept.memory, self._kernel.timeout
        waits = bool(memory.pending) or held > 0
        self._context.set_timer(Domain.EVENT, END_OF_TIME - 1 if waits and self._kernel.exactly_once else END_OF_TIME)
        if timeout is not None:
            since = waiting_since(memory.pending)
            self._context.set_timer(Domain.PROCESSING, END_OF_TIME if since is None else _deadline(since, timeout))
        if self._kernel.exactly_once:
            lifts = self._kept.lifting != END_OF_TIME
            self._context.hold(min(self._kept.held_from, self._kept.lifting), held + lifts)

    # --- output ------------------------------------------------------------------------------------------

    def _emit(self, rows: pa.Table, passage: Passage) -> None:
        places, barriers, is_mark = [], [], []
        for segment in passage.parts:
            mark = [-1] if segment.begins and self._kernel.emits_barriers else []
            count = len(segment.rows) + len(mark)
            places.append(np.concatenate([np.array(mark, np.int64), segment.rows]))
            barriers.append((segment.barrier, count))
            is_mark.append(np.arange(count) < len(mark))
        if places:
            self._context.emit(self._table(rows, np.concatenate(places), barriers, np.concatenate(is_mark)))

    def _table(
        self, rows: pa.Table, places: np.ndarray, barriers: Sequence[tuple[int | None, int]], is_mark: np.ndarray
    ) -> pa.Table:
        passed = rows.select(list(self._kernel.passed)).take(pa.array(places, mask=is_mark))
        of_rows = pa.chunked_array([pa.repeat(pa.scalar(b, pa.int64()), n) for b, n in barriers])
        columns = [*passed.columns, of_rows]
        if self._kernel.emits_barriers:
            alone = pa.array(is_mark)
            columns = [*passed.columns, pc.if_else(alone, None, of_rows), pc.if_else(alone, of_rows, None)]
        return pa.Table.from_arrays(columns, schema=self._kernel.output)


def _least(rows: pa.Table) -> int:
    least = pc.min(rows.column(HELD_FROM)).as_py()
    return END_OF_TIME if least is None else int(least)


def _deadline(since: int, timeout: int) -> int:
    """At once where no clock was known yet when the barrier began."""
    return min(since + timeout, END_OF_TIME - 1) if since != NO_WATERMARK else NO_WATERMARK + 1


def _refuse(held: int, most: int, kept: _State) -> None:
    pending = kept.memory.pending[0] if kept.memory.pending else None
    names = [name for number, name in enumerate(kept.names) if pending is not None and number not in pending.arrived]
    waits = f"barrier {pending.id} waits for {', '.join(names) or 'channels without rows'}" if pending else "none waits"
    message = f"{held} rows are held while channels are aligned, more than {most}: {waits}"
    hint = "Raise 'sqlstream.barriers.max-buffered-rows' and start again, or give the barriers a TIMEOUT."
    raise ExecutionError(TOO_MANY_HELD, message, hint=hint)
