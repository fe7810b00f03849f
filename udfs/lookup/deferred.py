"""ON TIMEOUT DEFER: rows without an answer wait in state, and so do later rows if the order of rows requires it.

While rows wait, the kernel is called in every micro-batch. It never blocks: it takes the answers that have arrived in
this process meanwhile, and starts requests that are not in flight here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.changes.stored_results import StoredResults
from sqlstream.udfs.kernel import END_OF_TIME, KEY_HASH, Context, Domain, Kernel
from sqlstream.udfs.keys import dense_ids
from sqlstream.udfs.lookup.answers import PASSES_BY, LookupKeys, LookupOutcome
from sqlstream.udfs.lookup.asking import Asker, worker
from sqlstream.udfs.lookup.operator import LookupStep
from sqlstream.udfs.lookup.options import Order
from sqlstream.udfs.state.chunked import ChunkedState

HELD = "__held_from"
"""BIGINT column of stored rows: the time that the watermark of operators above must not reach."""

_PENDING = 0


@dataclass(frozen=True)
class DeferredLookups(Kernel):
    """The kernel after a lookup with ON TIMEOUT DEFER. The lookup sets the BOOLEAN column ``step.deferred`` in rows
    whose answer is missing; the kernel stores these rows until their answer arrives.

    ``time``: a BIGINT column with the event time of a row in microseconds, NULL for none; None if no row has one.
    UNORDERED: rows with answers are emitted at once. KEY ORDERED: they wait for earlier rows of their key; the lookup
    key determines the key group. ORDERED: they wait for all earlier rows; there is one key group. With
    ``stored_results`` rows may be retracted: in every mode a row then waits for earlier rows with the same KEY_HASH, so
    that no row is retracted before it was emitted.
    """

    step: LookupStep
    input: pa.Schema
    time: str | None = None
    stored_results: StoredResults | None = None

    def __post_init__(self) -> None:
        assert self.step.deferred in self.input.names, "the input says which rows are deferred"

    @cached_property
    def output(self) -> pa.Schema:
        if self.stored_results is not None:
            return self.stored_results.output
        hidden = (KEY_HASH, self.step.deferred)
        return pa.schema([column for column in self.input if column.name not in hidden]).remove_metadata()

    @property
    def deferring(self) -> bool:
        return True

    @property
    def uses_processing_time(self) -> bool:
        return self.stored_results is not None and self.stored_results.living.ttl > 0

    def on_rows(self, rows: pa.Table, context: Context) -> None:
        self._advance(rows, context)

    def on_held(self, context: Context) -> None:
        self._advance(self.input.empty_table(), context)

    def on_event_time(self, watermark: int, context: Context) -> None:
        raise AssertionError("no timers of event time are set")

    def on_processing_time(self, time: int, context: Context) -> None:
        assert self.stored_results is not None, "no timers of processing time are set"
        self.stored_results.forget(time, context)
        context.set_timer(Domain.PROCESSING, self.stored_results.wakes(context))

    # --- one call ---------------------------------------------------------------------------------------------

    def _advance(self, arrived: pa.Table, context: Context) -> None:
        state = ChunkedState(context.store, "pending", self._stored)
        kept = state.read([_PENDING])[_PENDING]
        # Stored rows are released in on_held only: what is emitted later in a micro-batch is after the watermark.
        answered = kept if arrived.num_rows else self._answered(kept)
        rows = pa.concat_tables([answered, self._answered(self._with_held(arrived, context))])
        waits = self._waits(rows)
        self._leave(rows.filter(pa.array(~waits)), context)
        pending = rows.filter(pa.array(waits))
        changed = pending.num_rows and (arrived.num_rows or self._changed(kept, pending))
        if changed or pending.num_rows != kept.num_rows:
            state.replace(_PENDING, pending)
            state.flush()
        held = pc.min(pending.column(HELD)).as_py()
        context.hold(END_OF_TIME if held is None else held, pending.num_rows)

    def _leave(self, rows: pa.Table, context: Context) -> None:
        if self.stored_results is None:
            context.emit(rows.select(self.output.names))
        elif rows.num_rows:
            context.emit(self.stored_results.results(rows.select(self.stored_results.columns.names), context))
            context.set_timer(Domain.PROCESSING, self.stored_results.wakes(context))

    def _changed(self, before: pa.Table, after: pa.Table) -> bool:
        """True if a row got its answer: then it is no longer marked as deferred."""
        return not before.column(self._deferred).equals(after.column(self._deferred))

    def _with_held(self, rows: pa.Table, context: Context) -> pa.Table:
        """The rows with the time that each holds: its own, or the moment after the watermark if that has passed it."""
        after = min(max(context.watermark + 1, -END_OF_TIME), END_OF_TIME - 1)
        held = np.full(rows.num_rows, after)
        if self.time is not None:
            held = np.maximum(held, np.asarray(pc.fill_null(rows.column(self.time).cast(pa.int64()), after)))
        columns = [rows.column(column.name).cast(column.type) for column in self._stored if column.name != HELD]
        return pa.Table.from_arrays([*columns, pa.array(np.minimum(held, END_OF_TIME - 1))], schema=self._stored)

    def _answered(self, rows: pa.Table) -> pa.Table:
        """The rows with the answers that have come."""
        deferred = self._is_deferred(rows)
        if not deferred.any():
            return rows
        asker = self._asker()
        asked = LookupKeys(rows.filter(pa.array(deferred)), self.step.keys, None, asker.identity)
        outcomes = worker().result(asker.take, asked.keys)
        for outcome in outcomes:
            if outcome is not None and outcome.failure is not None:
                raise outcome.failure
        came = np.array([outcome is not None for outcome in outcomes])[asked.ids]
        if not came.any():
            return rows
        known_outcomes = [outcome or PASSES_BY for outcome in outcomes]
        return self._filled(rows, np.flatnonzero(deferred)[came], asked.ids[came], known_outcomes, asker)

    def _filled(
        self, rows: pa.Table, at: np.ndarray, ids: np.ndarray, outcomes: list[LookupOutcome], asker: Asker
    ) -> pa.Table:
        """``at``: the rows that are answered, with the outcomes of these numbers."""
        answers = asker.shape.lists([outcome.rows for outcome in outcomes])
        rows = _replaced(rows, self.step.answers, answers, at, ids)
        if self.step.error is not None:
            errors = pa.array([outcome.error for outcome in outcomes], pa.string())
            rows = _replaced(rows, self.step.error, errors, at, ids)
        return _replaced(rows, self._deferred, pa.array([False]), at, np.zeros(len(at), np.int64))

    def _waits(self, rows: pa.Table) -> np.ndarray:
        """True for rows that continue to wait."""
        deferred = self._is_deferred(rows)
        order = Order.KEY_ORDERED if self.stored_results is not None else self.step.options.order
        match order:
            case Order.UNORDERED:
                return deferred
            case Order.ORDERED:
                return np.asarray(np.logical_or.accumulate(deferred))
        key = dense_ids(rows, self.step.keys if self.stored_results is None else (KEY_HASH,))
        first = np.full(key.count, rows.num_rows)
        np.minimum.at(first, key.ids[deferred], np.flatnonzero(deferred))
        return np.asarray(np.arange(rows.num_rows) >= first[key.ids])

    def _is_deferred(self, rows: pa.Table) -> np.ndarray:
        return np.asarray(pc.fill_null(rows.column(self._deferred), False))

    def _asker(self) -> Asker:
        return worker().asker(self.step.source, self.step.options, self.step.run)

    @property
    def _deferred(self) -> str:
        assert self.step.deferred is not None
        return self.step.deferred

    @cached_property
    def _stored(self) -> pa.Schema:
        kept = [column for column in self.input if column.name != KEY_HASH or self.stored_results is not None]
        return pa.schema([*kept, pa.field(HELD, pa.int64())]).remove_metadata()


def _replaced(rows: pa.Table, name: str, values: pa.Array, at: np.ndarray, numbers: np.ndarray) -> pa.Table:
    """A column with ``values[numbers]`` at these rows. Arrow replaces no lists, but takes them."""
    old = rows.column(name)
    old_and_new = pa.chunked_array([*old.chunks, values.cast(old.type)], old.type).combine_chunks()
    source = np.arange(len(old))
    source[at] = len(old) + numbers
    column = old_and_new.take(pa.array(source))
    return rows.set_column(rows.column_names.index(name), rows.schema.field(name), column)


# --- lookups for updating rows: a retraction reuses the answers of its insertion ------------------------------


@dataclass(frozen=True)
class RetractableLookups(Kernel):
    """A kernel for lookups of a changelog: it stores the answers of each inserted row, and emits its retraction with
    the same answers, as Flink's KeyedLookupJoinWrapper does.
    """

    stored_results: StoredResults

    @property
    def output(self) -> pa.Schema:
        return self.stored_results.output

    @property
    def uses_processing_time(self) -> bool:
        return self.stored_results.living.ttl > 0

    def on_rows(self, rows: pa.Table, context: Context) -> None:
        context.emit(self.stored_results.results(rows, context))
        context.set_timer(Domain.PROCESSING, self.stored_results.wakes(context))

    def on_event_time(self, watermark: int, context: Context) -> None:
        raise AssertionError("no timer of event time was set")

    def on_processing_time(self, time: int, context: Context) -> None:
        self.stored_results.forget(time, context)
        context.set_timer(Domain.PROCESSING, self.stored_results.wakes(context))
