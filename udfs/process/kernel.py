"""The kernels of process functions: user code is called row by row and timer by timer, with the state of the keys of a
key group, or without keys and state.

Rows are processed in order of arrival. If they are requested in order of time (``ordered``) they wait until the
watermark reaches them. Event time then passes row by row: first the timers before the time of a row, then the row,
finally the timers up to the watermark. Rows that the watermark has passed are then late, dropped and counted; without
an order they are processed like all others.
"""

from __future__ import annotations

import time
from collections import namedtuple
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.columnar import FunctionError, place_of, python_values
from sqlstream.udfs.exchange import CLOCK, HOLD, LATE_TABLE
from sqlstream.udfs.kernel import (
    BARRIER,
    END_OF_TIME,
    KEY_HASH,
    LATE_ROWS,
    NO_WATERMARK,
    Context,
    Domain,
    MemoryStore,
    Pending,
    Wait,
    waits,
)
from sqlstream.udfs.keys import dense_ids
from sqlstream.udfs.process.cells import Clock, UndoLog
from sqlstream.udfs.process.function import ProcessContext
from sqlstream.udfs.process.function import Timer as UserTimer
from sqlstream.udfs.process.memories import WRONG_STATE, KeyedStates
from sqlstream.udfs.process.process_call import (
    FAILED,
    FAILURE,
    TABLE,
    WRONG_ROW,
    Failure,
    ProcessCall,
    failures_table,
    record_of_row,
    record_of_timer,
)
from sqlstream.udfs.process.timers import KeyTimers, RowsInTimeOrder
from sqlstream.udfs.state.timers import Firing, Timer, TimerService, hashable
from sqlstream.udfs.texts import python_list
from sqlstream.udfs.user_rows import clock_ms, milliseconds, watermark_ms


@dataclass(frozen=True)
class Process(ProcessCall):
    """The kernel that calls a user's process function for each row and timer, with the state of the row's key."""

    def on_rows(self, rows: pa.Table, context: Context) -> None:
        Call(self, context).rows(rows)

    def waits(self, context: Context) -> Iterator[Wait]:
        """Counts the stored rows, which are processed in order of time when the watermark reaches them, and the timers
        that have not fired.
        """
        return Call(self, context).waits()

    def on_event_time(self, watermark: int, context: Context) -> None:
        Call(self, context).time(Domain.EVENT)

    def on_processing_time(self, time: int, context: Context) -> None:
        Call(self, context).time(Domain.PROCESSING)

    def __getstate__(self) -> dict[str, object]:
        """Leaves out what is derived from the other fields and need not be picklable."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


# --- results --------------------------------------------------------------------------------------------------


_MOST_OBJECTS = 1 << 15
"""The number of rows to collect as Python objects, which take ten times the memory of columns."""


class CallResults:
    """Collects the rows that user code returns, and converts them to tables. ``keys``: the keys of the kernel's call,
    one row each; ``rows``: its input; ``shown``: each key as the named tuple that user code sees, for error messages.
    """

    def __init__(self, kernel: ProcessCall, keys: pa.Table, rows: pa.Table, shown: Sequence[Any]) -> None:
        self._kernel = kernel
        self._keys = keys
        self._rows = rows
        self._shown = shown
        self._found: list[Any] = []
        self._slots: list[int] = []
        self._indices: list[int | None] = []
        self._times: list[int | None] = []
        self._tables: list[pa.Table] = []

    def add(self, rows: Sequence[Any], slot: int, index: int | None, time: int | None) -> None:
        """Adds result rows for the key with the index ``slot``. ``index``: the input row for which they were returned,
        None for a timer; ``time``: their event time in microseconds.
        """
        self._found += rows
        self._slots += [slot] * len(rows)
        self._indices += [index] * len(rows)
        self._times += [time] * len(rows)
        if len(self._found) >= _MOST_OBJECTS:
            self._pack()

    def tables(self) -> list[pa.Table]:
        """All rows, in the kernel's output schema."""
        if self._found:
            self._pack()
        return self._tables

    def _pack(self) -> None:
        self._tables.append(self._table())
        for values in (self._found, self._slots, self._indices, self._times):
            values.clear()

    def _table(self) -> pa.Table:
        kernel = self._kernel
        slots = pa.array(self._slots, pa.int64())
        keys = [self._keys.column(name).take(slots) for name in kernel.keys]
        passed = [self._rows.column(name).take(pa.array(self._indices, pa.int64())) for name in kernel.passed]
        results = kernel.calls.arrays(self._found, self._place)
        times = [pa.array(self._times, pa.int64())] if kernel.time is not None else []
        failed = [pa.nulls(len(self._found), FAILURE)] if kernel.tolerant else []
        return pa.Table.from_arrays([*keys, *passed, *results, *times, *failed], schema=kernel.output)

    def _place(self, number: int) -> str:
        key = self._shown[self._slots[number]]
        named = ", ".join(f"{name} = {value!r}" for name, value in zip(key._fields, key, strict=True))
        return f"It belongs to the key {named}." if named else "The call has no key."


# --- calls of user code that succeed as a whole or, with on-error, have no effect -----------------------------


_OF_A_ROW = (FAILED, WRONG_ROW, WRONG_STATE)
"""Codes of errors that concern one row. Other errors mean that the class or its call is wrong, and fail the job."""


class Attempts:
    """Runs the calls of user code during one call of the kernel, and handles those that fail.

    ``failures``: the failed calls, whose changes of state and timers were undone, and whose rows were dropped. If the
    kernel is tolerant, which means that the job continues after failures, results and writes are checked after each
    call of user code, otherwise all together at the end.
    """

    def __init__(self, kernel: ProcessCall, memories: KeyedStates, timers: KeyTimers, log: UndoLog) -> None:
        self._kernel = kernel
        self._memories = memories
        self._timers = timers
        self._log = log
        self.failures: list[Failure] = []

    def made(self, call: Callable[[], list[Any]], slot: int, record: Callable[[], str]) -> list[Any]:
        """Runs ``call``, a call of user code for the key with the index ``slot``, and returns its rows. If it fails and
        the job continues after failures (``tolerant``), it is undone, recorded with the text that ``record`` returns,
        and no rows are returned.
        """
        if not self._kernel.tolerant:
            returned = call()
            self._timers.commit()
            return returned
        try:
            returned = call()
            self._kernel.calls.check(returned)
            self._memories.check(slot, self._log)
        except FunctionError as error:
            if not str(error).startswith(_OF_A_ROW):
                raise
            self._log.undo()
            self._timers.roll_back()
            self.failures.append(_failure(error, record()))
            return []
        self._log.forget()
        self._timers.commit()
        return returned


def _failure(error: FunctionError, record: str) -> Failure:
    """The error without its detail, which the record has, and with the line of the user's exception, if any."""
    cause = error.__cause__
    line = None if cause is None or isinstance(cause, FunctionError) else place_of(cause)
    return {"record": record, "error": str(error).partition("\nDETAIL: ")[0], "place": line}


# --- one call of the kernel -----------------------------------------------------------------------------------


_HASH = pa.schema([(KEY_HASH, pa.int64())])


class Call:
    """One call of the ``Process`` kernel: loads the state of the keys of its rows and timers, runs the user's code, and
    writes the changes.
    """

    def __init__(self, kernel: ProcessCall, context: Context) -> None:
        self._kernel = kernel
        self._outside = context
        self._clock = Clock(context.processing_time)
        keys = kernel.layout.keys
        self._timers = TimerService(context.store, "timers", pa.schema(list(keys)[1:]), _HASH)
        log = UndoLog()
        self._memories = KeyedStates(context.store, kernel.layout, self._clock, log if kernel.tolerant else None)
        self._waiting = RowsInTimeOrder(context.store, kernel.schema, kernel.time) if kernel.ordered else None
        self._firing: dict[Domain, Firing] = {}
        self._cells: list[dict[str, Any]] = []
        self._keys: list[Any] = []
        self._slots: dict[object, int] = {}
        self._access = KeyTimers(kernel, self._timers, context)
        self._attempts = Attempts(kernel, self._memories, self._access, log)
        self._shown = ProcessContext(self._access)
        self._shown.watermark = watermark_ms(context.watermark)
        self._shown.ended = END_OF_TIME in (context.watermark, context.processing_time)

    # --- what may happen --------------------------------------------------------------------------------------

    def rows(self, rows: pa.Table) -> None:
        """Processes new rows: those with event time wait for the watermark, the user's code is called for the
        others.
        """
        rows = rows.select(self._kernel.schema.names).cast(self._kernel.schema)
        if self._waiting is None:
            self._run(rows, None)
        else:
            late = self._waiting.add(rows, self._outside.watermark)
            if late:
                self._outside.count(LATE_ROWS, late)
        self._close()

    def time(self, domain: Domain) -> None:
        """Called when the clock ``domain`` has advanced: processes the rows and timers that are due."""
        waiting = self._waiting if domain is Domain.EVENT else None
        rows = waiting.take(self._outside.watermark) if waiting is not None else self._kernel.schema.empty_table()
        self._run(rows, waiting)
        self._close()

    def waits(self) -> Iterator[Wait]:
        """Counts the stored rows and timers that are pending; no user code is run."""
        if self._waiting is not None:
            yield from waits(Pending.ROWS, Domain.EVENT, self._waiting.all_times())
        if self._kernel.has_timers:
            for domain in Domain:
                times = [timer.time for timer in self._timers.registered(domain)]
                yield from waits(Pending.TIMERS, domain, np.array(times, np.int64))

    def _run(self, rows: pa.Table, waiting: RowsInTimeOrder | None) -> None:
        with ExitStack() as stack:
            if self._kernel.has_timers:
                for domain, time in self._now().items():
                    self._firing[domain] = stack.enter_context(self._timers.firing(domain, time))
            ids = self._open(rows)
            results = CallResults(self._kernel, self._keys_table, rows, self._keys)
            self._rows(rows, ids, results, None if waiting is None else waiting.times(rows))
            self._fire(None, results)
            for rows_out in results.tables():
                self._outside.emit(rows_out)
            if self._attempts.failures:
                self._outside.emit(failures_table(self._attempts.failures, self._kernel.output))

    def _close(self) -> None:
        self._memories.flush()
        event = processing = END_OF_TIME
        if self._kernel.has_timers:
            self._timers.flush()
            event, processing = (self._timers.next_timer(domain) for domain in (Domain.EVENT, Domain.PROCESSING))
        if self._waiting is not None:
            self._waiting.flush()
            event = min(event, self._waiting.next_time())
        if self._kernel.layout.ages and self._outside.processing_time != END_OF_TIME:
            processing = min(processing, self._memories.next_timer())
        self._outside.set_timer(Domain.EVENT, event)
        self._outside.set_timer(Domain.PROCESSING, processing)

    def _now(self) -> dict[Domain, int]:
        """The times that the watermark and the clock have reached."""
        passed = {Domain.EVENT: self._outside.watermark, Domain.PROCESSING: self._outside.processing_time}
        return {domain: time for domain, time in passed.items() if time != NO_WATERMARK}

    # --- keys -------------------------------------------------------------------------------------------------

    def _open(self, rows: pa.Table) -> np.ndarray:
        """Makes the states of all keys ready that rows and timers are about; the number of each row's key."""
        schema = self._kernel.layout.keys
        parts = [rows.select(schema.names), self._keys_of_timers(), *self._expired()]
        keys = pa.concat_tables(parts).combine_chunks()
        key_ids = dense_ids(keys, schema.names)
        self._keys_table = keys.take(pa.array(key_ids.first))
        self._cells = self._memories.open(self._keys_table)
        self._memories.expire()
        columns = [self._keys_table.column(name).combine_chunks() for name in schema.names]
        raw = list(zip(*(python_list(column, "a key") for column in columns), strict=True))
        self._slots = {hashable(key): slot for slot, key in enumerate(raw)}
        self._raw = raw
        key_type = namedtuple("Key", self._kernel.key_names, rename=True)  # type: ignore[misc]
        shown = [python_values(column) for column in columns[1:]]
        self._keys = [key_type(*key) for key in zip(*shown, strict=True)] if shown else [key_type()] * len(raw)
        return np.asarray(key_ids.ids[: rows.num_rows])

    def _keys_of_timers(self) -> pa.Table:
        timers = [timer for firing in self._firing.values() for timer in firing.left()]
        schema = self._kernel.layout.keys
        columns = list(zip(*((*timer.namespace, *timer.key) for timer in timers), strict=True)) or [()] * len(schema)
        arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=schema)

    def _expired(self) -> list[pa.Table]:
        ages = self._kernel.layout.ages and self._clock.is_known
        return [self._memories.expired(self._clock.passed)] if ages else []

    # --- calls ------------------------------------------------------------------------------------------------

    def _rows(self, rows: pa.Table, ids: np.ndarray, results: CallResults, waited: np.ndarray | None) -> None:
        """``waited``: the times of rows in order of time, between which event time passes."""
        made = _made(rows, self._kernel)
        times = rows.column(self._kernel.time).to_pylist() if self._kernel.time is not None else None
        calls = self._kernel.calls
        for index, slot in enumerate(ids.tolist()):
            if waited is not None and self._kernel.has_timers:
                self._fire(int(waited[index]) - 1, results)
            parameter, row = made[index]
            time = None if times is None else times[index]
            self._at(slot, None if time is None else milliseconds(time), parameter)
            returned = self._attempts.made(
                partial(calls.eval, self._shown, row, self._cells[slot]),
                slot,
                partial(self._record, rows, index, parameter, slot),
            )
            results.add(returned, slot, index, time)
            if waited is None and self._kernel.has_timers:
                self._fire(None, results)

    def _fire(self, until: int | None, results: CallResults) -> None:
        """Fires the timers of event time up to a time; where none is given, all that are due, of both domains."""
        if until is not None:
            for timer in self._firing[Domain.EVENT].up_to(until) if Domain.EVENT in self._firing else ():
                self._on_timer(Domain.EVENT, timer, results)
            return
        fired = True
        while fired:
            fired = False
            for domain, firing in self._firing.items():
                for timer in firing.up_to(firing.until):
                    self._on_timer(domain, timer, results)
                    fired = True

    def _on_timer(self, domain: Domain, timer: Timer, results: CallResults) -> None:
        is_event = domain is Domain.EVENT
        shown = UserTimer(timer.name, milliseconds(timer.time) if is_event else clock_ms(timer.time), domain)
        slot = self._slots[hashable((*timer.namespace, *timer.key))]
        self._at(slot, shown.time if is_event else None, None)
        record = partial(record_of_timer, self._key(slot), shown.name, shown.time, domain.value)
        calls = self._kernel.calls
        with self._access.firing():
            returned = self._attempts.made(partial(calls.on_timer, self._shown, shown, self._cells[slot]), slot, record)
        results.add(returned, slot, None, timer.time if is_event else None)

    def _record(self, rows: pa.Table, index: int, parameter: str, slot: int) -> str:
        """The row from the input columns, because user code may have changed the object that it got."""
        table = next(table for table in self._kernel.tables if table.parameter == parameter)
        (row,) = table.values(rows.slice(index, 1))
        return record_of_row(self._key(slot), parameter, row)

    def _key(self, slot: int) -> dict[str, object]:
        return dict(zip(self._kernel.key_names, self._keys[slot], strict=True))

    def _at(self, slot: int, time: int | None, parameter: str | None) -> None:
        self._shown.key, self._shown.row_time, self._shown.input = self._keys[slot], time, parameter
        self._access.owner = self._raw[slot]


def _made(rows: pa.Table, kernel: ProcessCall) -> list[tuple[str, Any]]:
    """Per row the parameter of its table and the row as the function sees it."""
    if len(kernel.tables) == 1:
        (table,) = kernel.tables
        return [(table.parameter, row) for row in table.rows(rows)]
    of_table = rows.column(TABLE).to_numpy()
    made: list[tuple[str, Any]] = [("", None)] * rows.num_rows
    for number, table in enumerate(kernel.tables):
        places = np.flatnonzero(of_table == number)
        for index, row in zip(places.tolist(), table.rows(rows.take(pa.array(places))), strict=True):
            made[index] = table.parameter, row
    return made


# --- without keys and state: rows are processed without an exchange or a watermark ----------------------------


_MILLISECOND = 1000


@dataclass
class RowContext:
    """A ``kernel.Context`` for kernels without state and timers, which process one Arrow batch."""

    processing_time: int
    watermark: int = NO_WATERMARK
    store: MemoryStore = field(default_factory=MemoryStore)
    emitted: list[pa.Table] = field(default_factory=list)

    def emit(self, rows: pa.Table) -> None:
        """Collects result rows."""
        self.emitted.append(rows)

    def emit_folded(self, folded: pa.Table, results: int) -> None:
        """Not supported: process functions do not emit results in compact (folded) form."""
        raise TypeError("process functions fold no results")

    def emit_late(self, rows: pa.Table) -> None:
        """Not supported, because no row is late without a watermark."""
        raise TypeError("no row is late where no time passes")

    def count(self, metric: str, value: int) -> None:
        """Not supported, because a kernel without state has no metrics."""
        raise TypeError("nothing is counted row by row")

    def set_timer(self, domain: Domain, time: int) -> None:
        """Ignored, because there are no timers without state."""

    def hold(self, time: int, rows: int = 1) -> None:
        """Not supported: a kernel without state stores no rows for which the watermark would have to be held back."""
        raise TypeError("no row is held where no time passes")


@dataclass(frozen=True)
class RowByRow:
    """Runs a process function that has neither keys nor state: each Arrow batch is processed by itself in
    ``mapInArrow``.

    Hidden columns of the input are among the columns ``passed`` of the ``kernel``, so they are emitted under its names
    for these. Control rows (side outputs, barriers and holds of the watermark) bypass the function. The column CLOCK,
    the processing time, is a TIMESTAMP here.
    """

    kernel: Process

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Processes input batches, and yields batches with the columns of the kernel's output."""
        for batch in batches:
            table = _with_hash(pa.Table.from_batches([batch]))
            passing = _passing(table)
            context = RowContext(_passed(table))
            Call(self.kernel, context).rows(table.filter(pc.invert(passing)))
            tables = [*context.emitted, self._passed_by(table.filter(passing))]
            yield from pa.concat_tables(tables).combine_chunks().to_batches()

    def _passed_by(self, rows: pa.Table) -> pa.Table:
        """Rows with nothing but what the kernel passes through."""
        output = self.kernel.output
        own = [rows.column(name).cast(self.kernel.schema.field(name).type) for name in self.kernel.passed]
        rest = [pa.nulls(rows.num_rows, column.type) for column in list(output)[len(own) :]]
        return pa.Table.from_arrays([*own, *rest], schema=output)


def _with_hash(rows: pa.Table) -> pa.Table:
    return rows.append_column(KEY_HASH, pa.array(np.zeros(rows.num_rows, np.int64)))


def _passing(rows: pa.Table) -> pa.Array:
    marks = [pc.is_valid(rows.column(name)) for name in (LATE_TABLE, HOLD, BARRIER) if name in rows.column_names]
    none = pa.chunked_array([pa.array(np.zeros(rows.num_rows, bool))])
    for mark in marks:
        none = pc.or_(none, mark)
    return none


def _passed(rows: pa.Table) -> int:
    """The processing time that had passed when the first row came."""
    first = pc.min(rows.column(CLOCK)) if CLOCK in rows.column_names else None
    if first is None or not first.is_valid:
        return time.time_ns() // 1000 - _MILLISECOND
    came: int = first.cast(pa.timestamp("us", first.type.tz)).cast(pa.int64()).as_py()
    return came - _MILLISECOND
