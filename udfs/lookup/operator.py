"""The lookup operator: enriches Arrow batches in a task."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sqlstream.errors import ExecutionError
from sqlstream.udfs.garbage import spare_imports
from sqlstream.udfs.lookup.answers import (
    AnswerShape,
    LookupBatch,
    LookupKeys,
    LookupLayout,
    LookupOutcome,
    RowSelection,
)
from sqlstream.udfs.lookup.asking import Asker, Worker, worker
from sqlstream.udfs.lookup.metrics import ANSWERS, HITS, METRICS, METRICS_TYPE, MISSES, Meter, metrics_row
from sqlstream.udfs.lookup.options import LookupOptions, Order
from sqlstream.udfs.lookup.queue import Entry, LookupQueue, QueuedRows, WaitingRows, entries_of, queue_of
from sqlstream.udfs.lookup.requests import Waiter
from sqlstream.udfs.lookup.source import Key, LookupSource, Row
from sqlstream.udfs.texts import reason_of


@dataclass(frozen=True)
class LookupStep:
    """The configuration of one lookup. ``keys`` are columns of the input, in the order of the keys of the source's
    request.

    ``number``: the number of the lookup in the plan, for metrics. ``answers``: the column that it adds, a LIST<STRUCT>
    of the request's columns: empty for a miss and for a NULL key, NULL without an answer. ``error``: a STRING column
    with the error (ON ERROR TO). ``deferred``: a BOOLEAN column, true where the timeout of the row has passed (ON
    TIMEOUT DEFER). ``run``: identifies the run of the query, whose cached answers are not shared with others.
    """

    number: int
    source: LookupSource
    keys: tuple[str, ...]
    answers: str
    options: LookupOptions
    error: str | None = None
    deferred: str | None = None
    run: str = ""

    @property
    def columns(self) -> tuple[pa.Field, ...]:
        """The columns that the lookup adds."""
        fields = [pa.field(self.answers, AnswerShape(self.source.request).type)]
        if self.error is not None:
            fields.append(pa.field(self.error, pa.string()))
        if self.deferred is not None:
            fields.append(pa.field(self.deferred, pa.bool_()))
        return tuple(fields)


@dataclass(frozen=True)
class LookupRows:
    """Performs several lookups for each row, requested at the same time; a row is emitted when all its answers have
    arrived.

    Rows are emitted in the strictest order of the lookups. If several are KEY ORDERED by different columns, the order
    of arrival is preserved, which satisfies each of them.
    """

    steps: tuple[LookupStep, ...]

    @property
    def order(self) -> Order:
        """The order in which rows are emitted."""
        orders = {step.options.order if step.options.asynchronous else Order.ORDERED for step in self.steps}
        if Order.ORDERED in orders:
            return Order.ORDERED
        if Order.KEY_ORDERED not in orders:
            return Order.UNORDERED
        return Order.KEY_ORDERED if len({step.keys for step in self.steps}) == 1 else Order.ORDERED

    def output(self, schema: pa.Schema) -> pa.Schema:
        """The schema of the emitted rows: the input's columns, those that each lookup adds, and METRICS."""
        added = [column for step in self.steps for column in step.columns]
        return pa.schema([*schema, *added, pa.field(METRICS, METRICS_TYPE)])

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The input rows with their answers. After them comes one row with METRICS alone, if there was any input."""
        spare_imports()
        task = Task(self.steps, self.order, worker())
        try:
            yield from task.run(batches, self.output)
        finally:
            task.close()


# --- one task of the operator ---------------------------------------------------------------------------------
# The task's own thread does everything but asking. It takes up more rows as long as few keys wait for answers and few
# rows wait for others, so that memory is bounded by MOST_ROWS and one batch, and requests never run dry.


MOST_ROWS = 100_000
"""No more input is read while this many rows wait."""

KEYS_AHEAD = 1_000
"""The minimum number of keys in the queue while there is input, so that requests never run dry."""

LINGER_S = 0.1
"""How long to wait for more answers, in seconds, while fewer than half of the missing ones have arrived: a small batch
costs as much as a large one, and waking the task's thread for each answer would cost more than the request."""

Answered = tuple[Waiter, LookupOutcome]


class Task:
    """One Spark task of the lookup operator: reads batches, requests their keys on the event loop, and emits rows in
    order.

    The thread of the task does everything except the requests. It reads the next batch unless 100,000 rows (MOST_ROWS)
    or enough keys already wait, so that memory is bounded and there is always something to request.
    """

    def __init__(self, steps: Sequence[LookupStep], order: Order, worker: Worker) -> None:
        self._steps = steps
        self._order = order
        self._worker = worker
        self._askers: list[Asker] = [worker.asker(step.source, step.options, step.run) for step in steps]
        self._asked = [
            LookupLayout(step.keys, asker.shape, asker.identity, step.error is not None, step.deferred is not None)
            for step, asker in zip(steps, self._askers, strict=True)
        ]
        self._meters = {step.number: Meter() for step in steps}
        keys_in_flight = max(asker.options.capacity * asker.options.batch for asker in self._askers)
        self._most_waiters = 2 * keys_in_flight + KEYS_AHEAD
        self._queue: LookupQueue[WaitingRows | None] = queue_of(order, 2 * self._most_waiters)
        self._backlog: deque[QueuedRows] = deque()
        self._waiters: set[Waiter] = set()
        self._entries: dict[tuple[int, int, int], list[QueuedRows]] = {}
        self._answered: deque[Answered] = deque()
        self._wanted = 1
        self._limit_reached = threading.Event()
        self._rows = 0
        self._batches = 0
        self._schema: pa.Schema | None = None

    def run(
        self, batches: Iterator[pa.RecordBatch], output: Callable[[pa.Schema], pa.Schema]
    ) -> Iterator[pa.RecordBatch]:
        """The rows with their answers, in batches; after them one row with METRICS alone."""
        more = True
        while more or self._backlog or len(self._queue):
            if more and self._has_room:
                batch = next(batches, None)
                more = batch is not None
                if batch is None:
                    self._backlog.append(Entry(None, is_mark=True))
                elif batch.num_rows:
                    self._schema = self._schema or output(batch.schema)
                    self._take_up(batch)
                self._collect(wait=False)
            else:
                self._collect(wait=True)
            self._enqueue()
            yield from self._leave()
        if self._schema is not None:
            yield metrics_row(self._schema, self._meters)

    def close(self) -> None:
        """Cancels the requests of the task that have not been answered."""
        for asker in set(self._askers):
            waiters = [waiter for waiter in self._waiters if self._askers[waiter.key_id[1]] is asker]
            if waiters and self._worker.is_alive:
                self._worker.call(asker.forget, waiters)

    @property
    def _has_room(self) -> bool:
        return not self._backlog and len(self._waiters) < self._most_waiters and self._rows < MOST_ROWS

    # --- taking up --------------------------------------------------------------------------------------------

    def _take_up(self, rows: pa.RecordBatch) -> None:
        batch = LookupBatch(self._batches, rows, self._asked)
        self._batches += 1
        self._rows += rows.num_rows
        for step, keys in enumerate(batch.steps):
            self._look_into_cache(step, keys)
        self._backlog.extend(entries_of(batch, self._order, self._queue))

    def _look_into_cache(self, step: int, keys: LookupKeys) -> None:
        meter, cache = self._meter(step), self._askers[step].cache
        meter.count(ANSWERS, keys.asked)
        if cache is None:
            return
        keys.outcomes[: len(keys.keys)] = cache.get(keys.identities)
        misses = int(keys.sizes[keys.unknown].sum())
        meter.count(HITS, keys.asked - misses)
        meter.count(MISSES, misses)

    # --- asking -----------------------------------------------------------------------------------------------

    def _enqueue(self) -> None:
        """Moves what the queue takes out of the backlog, and asks for it."""
        asked: list[list[tuple[Key, Waiter]]] = [[] for _ in self._steps]
        while self._backlog and self._queue.put(self._backlog[0]):
            entry = self._backlog.popleft()
            if not entry.done and entry.content is not None:
                self._ask(entry, entry.content, asked)
        if any(asked):
            self._worker.call(_ask_all, self._askers, asked)

    def _ask(self, entry: QueuedRows, rows: WaitingRows, asked: list[list[tuple[Key, Waiter]]]) -> None:
        batch = rows.batch
        for step, number in enumerate(batch.numbers(int(rows.groups[0]))):
            if batch.steps[step].outcomes[number] is not None:
                continue
            rows.missing += 1
            key_id = (batch.number, step, number)
            if key_id in self._entries:
                self._entries[key_id].append(entry)
                continue
            self._entries[key_id] = [entry]
            waiter = Waiter(self._deliver, (batch, step, number), self._meter(step))
            self._waiters.add(waiter)
            asked[step].append((batch.steps[step].keys[number], waiter))
        if not rows.missing:
            self._queue.complete(entry)

    def _deliver(self, waiter: Waiter, outcome: LookupOutcome) -> None:
        """On the event loop."""
        self._answered.append((waiter, outcome))
        if len(self._answered) >= self._wanted or outcome.failure is not None:
            self._limit_reached.set()

    def _collect(self, *, wait: bool) -> None:
        """Takes the outcomes that have come; ``wait``: at least one."""
        if not self._waiters:
            return
        if wait:
            self._wait()
        while self._answered:
            self._receive(*self._answered.popleft())

    def _wait(self) -> None:
        self._wanted = max(1, len(self._waiters) // 2)
        while True:
            self._limit_reached.clear()
            if len(self._answered) < self._wanted:
                self._limit_reached.wait(LINGER_S)
            if self._answered:
                return
            assert self._worker.is_alive, "the event loop of the lookups has ended"

    def _receive(self, waiter: Waiter, outcome: LookupOutcome) -> None:
        self._waiters.discard(waiter)
        if outcome.failure is not None:
            raise outcome.failure
        batch, step, number = waiter.key_id
        keys = batch.steps[step]
        keys.outcomes[number] = outcome
        for name in outcome.counted:
            self._meter(step).count(name, int(keys.sizes[number]))
        for entry in self._entries.pop((batch.number, step, number)):
            assert entry.content is not None, "a mark waits for nothing"
            entry.content.missing -= 1
            if not entry.content.missing:
                self._queue.complete(entry)

    # --- leaving ----------------------------------------------------------------------------------------------

    def _leave(self) -> Iterator[pa.RecordBatch]:
        """The rows that may leave, batch by batch in order of arrival, so that equal keys keep their order."""
        parts: dict[int, list[WaitingRows]] = {}
        for entry in self._queue.pop():
            if entry.content is not None:
                parts.setdefault(entry.content.batch.number, []).append(entry.content)
        for number in sorted(parts):
            batch, rows = parts[number][0].batch, self._rows_of(parts[number])
            count = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
            if count:
                self._rows -= count
                yield batch.leaving(rows, self._schema)

    def _rows_of(self, waiting: Sequence[WaitingRows]) -> RowSelection:
        batch = waiting[0].batch
        if self._order is Order.ORDERED:
            rows = slice(batch.left, waiting[-1].until)
            batch.left = rows.stop
            return rows
        groups = np.concatenate([leaving.groups for leaving in waiting])
        return slice(0, batch.rows.num_rows) if len(groups) == batch.groups.count else batch.rows_of(groups)

    def _meter(self, step: int) -> Meter:
        return self._meters[self._steps[step].number]


def _ask_all(askers: Sequence[Asker], asked: Sequence[Sequence[tuple[Key, Waiter]]]) -> None:
    for asker, of_step in zip(askers, asked, strict=True):
        asker.ask(of_step)


# --- all rows of a lookup table, for queries over finished data -----------------------------------------------


NOT_READ = "SS610"
_PACK = 10_000
"""Rows of an Arrow batch."""


@dataclass(frozen=True)
class WholeTable:
    """Reads all rows of a lookup table, for queries over finished data.

    ``source`` answers a request without keys with every row that passes the request's filters.
    """

    source: LookupSource

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """All rows of the table, in batches. The input is a single row, which only starts the reading. ExecutionError
        SS610 where the source fails.
        """
        shape = AnswerShape(self.source.request)
        for batch in batches:
            for _ in range(batch.num_rows):
                table_rows = self._asked(shape)
                for start in range(0, len(table_rows), _PACK):
                    yield pa.RecordBatch.from_struct_array(shape.lists([table_rows[start : start + _PACK]]).flatten())

    def _asked(self, shape: AnswerShape) -> Sequence[Row]:
        try:
            (answer,) = shape.checked(1, asyncio.run(self._answers()))
        except Exception as error:
            raise self._failed(reason_of(error)) from error
        if isinstance(answer, Exception):
            raise self._failed(str(answer)) from answer
        return answer

    async def _answers(self) -> Sequence[Sequence[Row]]:
        client = await self.source.open()
        try:
            return await client.ask([()])
        finally:
            await client.close()

    def _failed(self, reason: str) -> ExecutionError:
        return ExecutionError(NOT_READ, f'table "{self.source.name}" cannot be read: {reason}')
