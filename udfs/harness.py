"""Drives a kernel without an engine, as Spark's adapter does, and checks what it owes.

harness = KernelHarness(kernel, schema, keys=["k"])
harness.rows([{"k": "a", "ts": 1_000}])
harness.watermark(10_000)
assert harness.output() == [...]
"""

from __future__ import annotations

import hashlib
import pickle
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.driver import GroupContext, MicroBatch, Ports, drive, unfolded
from sqlstream.udfs.exchange import united
from sqlstream.udfs.kernel import (
    EMITTED_AHEAD,
    END_OF_TIME,
    KEY_HASH,
    NO_WATERMARK,
    Context,
    Domain,
    Kernel,
    MemoryStore,
    Traffic,
    Wait,
    added,
)
from sqlstream.udfs.keys import dense_ids

Row = dict[str, Any]
Rows: TypeAlias = Sequence[Row] | pa.Table


@dataclass
class KeyGroup:
    """A checkpoint of one key group: the state entries, the timers, and the event time (microseconds) at which the
    kernel holds back the watermark.
    """

    store: MemoryStore
    timers: dict[Domain, int] = field(default_factory=lambda: dict.fromkeys(Domain, END_OF_TIME))
    held: int = END_OF_TIME
    held_rows: int = 0


class KernelHarness:
    """Runs one kernel over ``groups`` key groups in memory, without Spark, for tests. Each method that adds rows or
    moves a clock is one micro-batch.

    Rows are tables, or dicts of ``schema`` with timestamps as microseconds. Where they lack KEY_HASH it is computed
    from ``keys``, which are columns of the same names in all inputs. For a kernel with several inputs, ``schema`` is a
    list and rows are given as a dict by port (index of the input). ``arrow_rows``: the batch's rows are cut into Arrow
    batches of this many rows, each of which is pre-aggregated and exchanged separately. ``restarts``: the kernel is
    restored from a checkpoint before each micro-batch.
    """

    def __init__(
        self,
        kernel: Kernel,
        schema: pa.Schema | Sequence[pa.Schema] | None = None,
        keys: Sequence[str] = (),
        *,
        groups: int = 1,
        arrow_rows: int = 10_000,
        restarts: bool = False,
        processing_time: int = 0,
    ) -> None:
        self.kernel = kernel
        self.counters: Counter[str] = Counter()
        self._schemas = [schema] if schema is None or isinstance(schema, pa.Schema) else list(schema)
        self._keys = keys
        self._arrow_rows = arrow_rows
        self._restarts = restarts
        self._watermark = NO_WATERMARK
        self._processing_time = processing_time
        self._groups = [KeyGroup(MemoryStore()) for _ in range(groups)]
        self._output: list[pa.Table] = []
        self._late: list[pa.Table] = []

    # --- steps ------------------------------------------------------------------------------------------------

    def rows(self, rows: Rows | Mapping[int, Rows], port: int = 0) -> None:
        """One micro-batch with rows. Rows with true in the column EMITTED_AHEAD are processed first, as those that an
        upstream operator emitted before its watermark advanced. ``port``: the index of the kernel's input.
        """
        self.batch(rows if isinstance(rows, Mapping) else {port: rows})

    def watermark(self, time: int) -> None:
        """One micro-batch without rows in which the watermark reaches ``time``, in microseconds."""
        self.batch(watermark=time)

    def processing_time(self, time: int) -> None:
        """One micro-batch without rows in which the processing-time clock reaches ``time``, in microseconds."""
        self.batch(processing_time=time)

    def finish(self) -> None:
        """Ends the input: one micro-batch for the end of event time, then one for the end of processing time."""
        self.batch(watermark=END_OF_TIME)
        self.batch(processing_time=END_OF_TIME)

    def batch(
        self,
        rows: Rows | Mapping[int, Rows] = (),
        *,
        watermark: int | None = None,
        processing_time: int | None = None,
    ) -> None:
        """A micro-batch that may bring rows, a new watermark and a new processing time at once."""
        if self._restarts:
            self.restart()
        by_port = rows if isinstance(rows, Mapping) else {0: rows}
        split = {port: _split_ahead(self._table(of_port, port)) for port, of_port in by_port.items()}
        ahead, rest = (self._by_group({port: parts[side] for port, parts in split.items()}) for side in (0, 1))
        watermark = self._watermark if watermark is None else watermark
        clock = self._processing_time if processing_time is None else processing_time
        assert watermark >= self._watermark, "watermarks do not go back"
        for group, of_ahead, of_rest in zip(self._groups, ahead, rest, strict=True):
            ended = watermark == END_OF_TIME
            self._drive(group, MicroBatch(watermark, clock, of_ahead, of_rest, input_ended=ended))
        self._watermark, self._processing_time = watermark, clock

    def _drive(self, group: KeyGroup, batch: MicroBatch) -> None:
        context = GroupContext(group.store, self._watermark, self._processing_time, group.timers)
        checked = CheckedKernel(self.kernel, self._output, self._late)
        drive(checked, context, batch, holds=group.held != END_OF_TIME)
        self.counters.update(context.counters)
        group.held, group.held_rows = context.held, context.held_rows

    # --- results ----------------------------------------------------------------------------------------------

    def output(self) -> list[Row]:
        """The rows emitted since the last call, as tuples with timestamps as microseconds; clears them."""
        return _rows(self.output_table())

    def late(self) -> list[Row]:
        """The rows emitted as late since the last call, as tuples with timestamps as microseconds; clears them."""
        return [row for table in _taken(self._late) for row in _rows(table)]

    def output_table(self) -> pa.Table:
        """The rows emitted since the last call, as one table; clears them."""
        return pa.concat_tables([self.kernel.output.empty_table(), *_taken(self._output)])

    @property
    def watermark_above(self) -> int:
        """The watermark in microseconds that a downstream operator gets in the same micro-batch. If the kernel holds it
        back at an event time, it is less than that time.
        """
        held = min(group.held for group in self._groups)
        return self._watermark if held == END_OF_TIME else min(self._watermark, held - 1)

    @property
    def held_rows(self) -> int:
        """The number of stored rows because of which the kernel holds back the watermark."""
        return sum(group.held_rows for group in self._groups)

    def next_timer(self, domain: Domain) -> int:
        """The earliest timer of all key groups, in microseconds; END_OF_TIME for none."""
        return min(group.timers[domain] for group in self._groups)

    @property
    def stores(self) -> list[MemoryStore]:
        return [group.store for group in self._groups]

    def waits(self) -> tuple[Wait, ...]:
        """Counts of the rows and timers that are pending in the state, summed over all key groups, as ``Kernel.waits``
        reports them.
        """
        contexts = (GroupContext(g.store, self._watermark, self._processing_time) for g in self._groups)
        return added(wait for context in contexts for wait in self.kernel.waits(context))

    @property
    def traffic(self) -> Traffic:
        """Counts of the reads and writes of the state stores since the start or the last restart, summed over all key
        groups.
        """
        total = Traffic()
        for store in self.stores:
            for name, value in vars(store.traffic).items():
                setattr(total, name, getattr(total, name) + value)
        return total

    # --- restarts ---------------------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """The kernel, its state, timers and clocks as bytes, like a checkpoint."""
        groups = [(group.store.snapshot(), group.timers, group.held) for group in self._groups]
        return pickle.dumps((self.kernel, groups, self._watermark, self._processing_time))

    def restore(self, snapshot: bytes) -> None:
        self.kernel, groups, self._watermark, self._processing_time = pickle.loads(snapshot)
        self._groups = [KeyGroup(MemoryStore(entries), timers, held) for entries, timers, held in groups]

    def restart(self) -> None:
        """Replaces the kernel and its state by those of a checkpoint, as a restart of the job does."""
        self.restore(self.snapshot())

    # --- input ------------------------------------------------------------------------------------------------

    def _table(self, rows: Rows, port: int) -> pa.Table | None:
        if len(rows) == 0:
            return None
        table = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(list(rows), self._schemas[port])
        if KEY_HASH in table.schema.names and table.column(KEY_HASH).null_count == 0:
            return table
        kept = table.drop_columns([KEY_HASH]) if KEY_HASH in table.schema.names else table
        return kept.append_column(KEY_HASH, key_hashes(kept, self._keys))

    def _by_group(self, tables: Mapping[int, pa.Table | None]) -> list[Ports]:
        """Per key group the rows of each port."""
        cut = {port: self._cut(table) for port, table in sorted(tables.items())}
        return [{port: groups[number] for port, groups in cut.items()} for number in range(len(self._groups))]

    def _cut(self, table: pa.Table | None) -> list[list[pa.Table]]:
        """Per key group the rows as they come out of the exchange."""
        if table is None or table.num_rows == 0:
            return [[] for _ in self._groups]
        batches = [table.slice(start, self._arrow_rows) for start in range(0, table.num_rows, self._arrow_rows)]
        combined = [_through_ipc(self.kernel.combine(batch)) for batch in batches]
        rows = united(combined)
        groups = self._group_of(rows)
        cut = [rows.filter(pa.array(groups == group)) for group in range(len(self._groups))]
        return [[piece] if piece.num_rows else [] for piece in cut]

    def _group_of(self, rows: pa.Table) -> np.ndarray:
        return np.asarray(rows.column(KEY_HASH).to_numpy() % len(self._groups))


def key_hashes(table: pa.Table, keys: Sequence[str]) -> pa.Array:
    """One KEY_HASH (int64) per row, computed from the values and types of the ``keys`` only."""
    ids = dense_ids(table, keys)
    distinct = table.select(list(keys)).take(ids.first).to_pylist() if keys else [{}] * ids.count
    hashes = np.array([_hash(tuple(row.values())) for row in distinct], np.int64)
    return pa.array(hashes[ids.ids])


def _hash(values: tuple[object, ...]) -> int:
    digest = hashlib.blake2b(repr(values).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def _split_ahead(table: pa.Table | None) -> tuple[pa.Table | None, pa.Table | None]:
    if table is None or EMITTED_AHEAD not in table.schema.names:
        return None, table
    is_ahead = pc.fill_null(table.column(EMITTED_AHEAD), False)
    rows = table.drop_columns([EMITTED_AHEAD])
    return rows.filter(is_ahead), rows.filter(pc.invert(is_ahead))


def _through_ipc(table: pa.Table) -> pa.Table:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return pa.ipc.open_stream(sink.getvalue()).read_all()


def _taken(tables: list[pa.Table]) -> list[pa.Table]:
    copied = tables.copy()
    tables.clear()
    return copied


def _rows(table: pa.Table) -> list[Row]:
    plain = [_microseconds(column) for column in table.columns]
    rows: list[Row] = pa.table(plain, names=table.schema.names).to_pylist()
    return rows


def _microseconds(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pa.types.is_timestamp(column.type):
        return column
    return column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())


# --- checks after each call -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class CheckedKernel(Kernel):
    """Wraps ``kernel``, records its output, and checks after each call that it keeps the contract of ``kernel.py``.

    AssertionError where the kernel emits rows of another schema, leaves a timer that has passed, or does what it
    declares not to do: use processing time, or hold the watermark.
    """

    kernel: Kernel
    emitted: list[pa.Table] = field(default_factory=list)
    late: list[pa.Table] = field(default_factory=list)

    @property
    def output(self) -> pa.Schema:
        return self.kernel.output

    def on_held(self, context: Context) -> None:
        self._call(context, lambda: self.kernel.on_held(context), ())

    def on_ports(self, rows: Mapping[int, pa.Table], context: Context) -> None:
        assert isinstance(context, GroupContext)
        assert rows.keys() <= set(range(self.kernel.ports)), f"rows for ports {sorted(rows)} of {self.kernel.ports}"
        passed = () if context.ahead else tuple(Domain)
        self._call(context, lambda: self.kernel.on_ports(rows, context), passed)

    def on_event_time(self, watermark: int, context: Context) -> None:
        self._call(context, lambda: self.kernel.on_event_time(watermark, context), (Domain.EVENT,))

    def on_processing_time(self, time: int, context: Context) -> None:
        self._call(context, lambda: self.kernel.on_processing_time(time, context), tuple(Domain))

    def _call(self, context: Context, call: Callable[[], None], passed: Sequence[Domain]) -> None:
        """``passed`` are the domains of which no timer may be left behind."""
        assert isinstance(context, GroupContext)
        call()
        clocks = {Domain.EVENT: context.watermark, Domain.PROCESSING: context.processing_time}
        for domain in passed:
            timer = context.timers[domain]
            assert timer > clocks[domain] or timer == END_OF_TIME, f"{domain.value} timer {timer} <= {clocks[domain]}"
        if not self.kernel.uses_processing_time:
            assert context.timers[Domain.PROCESSING] == END_OF_TIME, "the kernel says it uses no processing time"
        if not self.kernel.deferring:
            assert context.held == END_OF_TIME, "the kernel says it holds no watermark"
        for emitted in context.emitted.values():
            tables = list(unfolded(self.kernel, emitted))
            emitted.clear()
            _move(tables, self.emitted, self.kernel.output)
        _move(context.late, self.late, self.kernel.late_output)


def _move(tables: list[pa.Table], to: list[pa.Table], schema: pa.Schema | None) -> None:
    for table in tables:
        assert schema is not None, "late rows, but the kernel has no schema for them"
        assert table.schema.equals(schema), f"emitted {table.schema}, which is not {schema}"
        to.append(table.replace_schema_metadata(None))
    tables.clear()
