"""The job that ``StreamTest`` drives: one micro-batch after the other, on request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlstream.connectors import Environment, sink_connector
from sqlstream.connectors.connector import BatchWriter
from sqlstream.connectors.on_spark import test as test_connector
from sqlstream.jobs.checkpoints.checkpoint import Checkpoint, open_checkpoint
from sqlstream.jobs.checkpoints.control import Clock, ControlRows
from sqlstream.jobs.checkpoints.storage import local_storage_at
from sqlstream.jobs.checkpoints.watermarks import SourceWatermarks, restored_watermarks
from sqlstream.jobs.lifecycle.failure import job_error
from sqlstream.jobs.lifecycle.launch import Launch
from sqlstream.jobs.lifecycle.runtime import JobRuntime
from sqlstream.jobs.lifecycle.session_jobs import SessionSources
from sqlstream.jobs.lifecycle.sinks import SideSinks
from sqlstream.jobs.reports.progress import late_rows, micro_batches, pending_rows
from sqlstream.jobs.savepoints.create import partitions_of
from sqlstream.jobs.savepoints.epoch_files import last_epoch
from sqlstream.jobs.savepoints.restore import repartition
from sqlstream.planner.catalog import Table
from sqlstream.planner.lowering import lower
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Insert, Output, StatementSet
from sqlstream.planner.physical import Engine
from sqlstream.plans import engine_settings_of
from sqlstream.testing.plan_traits import PlanTraits
from sqlstream.testing.tested_session import SessionUnderTest
from sqlstream.types import DataType, parse_type
from sqlstream.udfs.lookup.sources.fed import WITHDRAWN

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.streaming.query import StreamingQuery


# --- Buffered steps --------------------------------------------------------------------------------------------
# A micro-batch costs a fifth of a second, so rows and watermarks are buffered for as long as one micro-batch gives the
# same results as several. That depends on when watermarks are compared: rows are judged by the watermark that the batch
# before left, and windows close, after all rows of the batch, by the watermark that the batch itself reaches. So a
# watermark followed by a row may share a batch exactly if the row would have been judged the same way after it:
#
# * A row later than the watermark W is late for nothing, because its windows end after W.
# * Nor does it extend a session that W has closed, if it is later than W + 1 ms: a session closes at W >= end - 1 ms
#   and takes up rows until its end.
# * Nor does it belong among rows that came out at W because no earlier row, or no partner, is expected.
#
# Any other row waits until the watermark before it has gone out, with all rows of its call: the rows of a call are
# judged by what came before the call, as a job judges those of a micro-batch. The watermark is the least of those of
# all tables that have one. Operators that update results row by row, or act at each step of the clock, see the
# difference between one batch and two: for them ``joint`` is False and only the rows of one step go together, which
# they take in order of arrival.


Arrival = tuple[tuple[Any, ...], int, str]
"""The values of a row, the clock when it came, in ms, and its kind."""


@dataclass(frozen=True)
class Flush:
    """The input of one micro-batch: the rows by table in order of arrival, the watermarks to which steps advanced
    tables, and the clock of processing time. All times are in milliseconds since 1970.
    """

    rows: dict[str, list[Arrival]]
    watermarks: dict[str, int]
    clock_ms: int | None = None


@dataclass
class Buffer:
    """Collects the rows and watermarks of a test's steps until they must run as a micro-batch.

    ``joint``: rows and advances of the watermark may share a micro-batch without changing the result. ``tables``: the
    names of the tables with a watermark. ``flushed``: the watermark of each table after the micro-batches that have
    run.
    """

    joint: bool = True
    tables: frozenset[str] = frozenset()
    flushed: dict[str, int] = field(default_factory=dict)
    _rows: dict[str, list[Arrival]] = field(default_factory=dict)
    _reached: dict[str, int] = field(default_factory=dict)
    _lifted: dict[str, int] = field(default_factory=dict)
    _tick_ms: int | None = None

    @property
    def empty(self) -> bool:
        """True where the next micro-batch has no input yet."""
        return not self._rows and not self._lifted and self._tick_ms is None

    def takes(self, table: str, event_ms: int | None) -> bool:
        """True if a row with this event time (None: unknown) may join the buffered micro-batch without changing the
        result. If False, the caller must run the buffered micro-batch first.
        """
        pending = self._least(self.flushed | self._reached)
        if table not in self.tables or pending is None or pending == self._least(self.flushed):
            return self.joint or self._holds_only(table)
        return self.joint and event_ms is not None and event_ms > pending + 1

    def _least(self, watermarks: Mapping[str, int]) -> int | None:
        """The watermark of the job; None until all tables have one."""
        watermarks_known = [watermarks[table] for table in self.tables if table in watermarks]
        return min(watermarks_known) if watermarks_known and len(watermarks_known) == len(self.tables) else None

    def _holds_only(self, table: str) -> bool:
        return self._rows.keys() <= {table} and not self._reached and self._tick_ms is None

    def may_be_late(self, table: str, event_ms: int | None) -> bool:
        """True if the job's watermark has passed the event time of a row. The row is then late, unless one of its
        windows is still open.
        """
        now = self._least(self.flushed) if table in self.tables else None
        return now is not None and event_ms is not None and event_ms <= now

    def add_row(self, table: str, values: tuple[Any, ...], clock_ms: int, kind: str = "+I") -> None:
        """Add a row, with the processing time in ms at its arrival and its kind."""
        self._rows.setdefault(table, []).append((values, clock_ms, kind))

    def lift(self, table: str, watermark_ms: int) -> None:
        """Advance the watermark of a table; a lower one changes nothing."""
        if self._rises(table, watermark_ms):
            self._reached[table] = self._lifted[table] = watermark_ms

    def tick(self, clock_ms: int) -> None:
        """Move the clock of processing time to ``clock_ms``, in milliseconds since 1970."""
        self._tick_ms = clock_ms

    def reach(self, table: str, watermark_ms: int) -> None:
        """Record that the watermark of a table will be ``watermark_ms`` once the buffered rows have been processed, so
        that ``takes`` can tell whether later rows would be late.
        """
        if self._rises(table, watermark_ms):
            self._reached[table] = watermark_ms

    def _rises(self, table: str, watermark_ms: int) -> bool:
        now = self._reached.get(table, self.flushed.get(table))
        return now is None or watermark_ms > now

    def take(self) -> Flush:
        """Returns the buffered micro-batch and empties the buffer."""
        flush = Flush(self._rows, self._lifted, self._tick_ms)
        self.flushed |= self._reached
        self._rows, self._reached, self._lifted, self._tick_ms = {}, {}, {}, None
        return flush


RESULT = Table("query result", (), "test")
"""Stands for the sink of a query on its own."""


@dataclass(frozen=True)
class Sink:
    """A target of the job's rows: the ``names`` and ``types`` of its columns. The types of a query are known once it
    runs.
    """

    table: Table
    names: tuple[str, ...]
    types: tuple[DataType, ...] = ()


def _main_sink(plan: Node) -> Sink:
    if isinstance(plan, Insert):
        return _sink_of_table(plan.table)
    if isinstance(plan, StatementSet):
        return _sink_of_table(plan.tables[0])
    assert isinstance(plan, Output)
    return Sink(RESULT, plan.names)


def _sink_of_table(table: Table) -> Sink:
    columns = table.physical_columns
    return Sink(table, tuple(c.name for c in columns), tuple(c.type for c in columns))


@dataclass(frozen=True)
class SteppedRuntime(JobRuntime):
    """Provides the sources and clocks for lowering the plan of a stepped test to DataFrames. ``moved_by_rows``: the
    names of the tables whose rows advance their watermark.
    """

    moved_by_rows: frozenset[str] = frozenset()

    @property
    def steps_clock(self) -> bool:
        """Always True: the test moves the clock of processing time step by step; it does not follow the real time."""
        return True

    def event_time_from_rows(self, table: str) -> bool:
        """Whether rows of the table move its watermark."""
        return table in self.moved_by_rows


class SteppedJob:
    """A plan that runs in a directory of its own, one micro-batch for each call of ``process``."""

    def __init__(
        self, session: SessionUnderTest, traits: PlanTraits, directory: Path, moved_by_rows: frozenset[str]
    ) -> None:
        self._session = session
        self._traits = traits
        self._plan = traits.root
        self._tables = traits.tables
        self._directory = directory
        self._moved_by_rows = moved_by_rows
        self._query: StreamingQuery | None = None
        self._control: ControlRows | None = None
        self._watermarks: SourceWatermarks | None = None
        self._flushes = 0
        self._reported = -1
        self._main = _main_sink(traits.root)

    @property
    def counts_late_rows(self) -> bool:
        """True if the engine counts each late row, as the columnar engine does. Spark's own operators combine rows
        before they count them.
        """
        return self._traits.engine is Engine.COLUMNAR

    @property
    def orders_rows(self) -> bool:
        """True where stateful operators emit rows in a defined order.

        Kernels with one key group do, unless rows are emitted in the order in which lookups are answered.
        """
        ours = self._traits.engine is Engine.COLUMNAR and self._key_groups == 1
        return ours and not self._traits.orders_by_answers

    @property
    def _key_groups(self) -> int:
        """One key group gives one order of rows, and is fastest."""
        return self._session.workspace.settings["pipeline.max-parallelism"] or 1

    def _opened(self) -> Checkpoint:
        """The job's checkpoint, a new one at the first start."""
        chosen = engine_settings_of(self._session.workspace.settings)
        return open_checkpoint(
            str(self._directory / "checkpoint"),
            self._plan,
            self._session.spark,
            self._traits.engine.value,
            self._key_groups,
            chaining=chosen.chains,
            reuse=chosen.reuse,
        )

    def sink_of(self, name: str | None) -> Sink:
        """The sink that receives the rows of table ``name``, a side output or the target of an INSERT; None: the main
        result. ValueError if the query does not write to that table.
        """
        if name is None or name.casefold() == self._main.table.name.casefold():
            return self._main
        side = self._traits.side_tables.get(name.casefold())
        if side is None:
            raise ValueError(f'the query does not write to table "{name}"')
        return _sink_of_table(side)

    @property
    def running(self) -> bool:
        """True between ``start`` and ``stop``."""
        return self._query is not None

    def start(self) -> None:
        """Start from the newest checkpoint, or for the first time."""
        spark = self._session.spark
        environment = Environment(spark, self._directory)
        side_tables = self._traits.side_tables.values()
        lookup_tables = self._traits.lookup_tables.values()
        read = (*self._tables.values(), *lookup_tables)
        test_connector.open_tables(self._directory, (*read, self._main.table, *side_tables))
        key_groups = self._key_groups
        checkpoint = self._opened()
        self._control = ControlRows(checkpoint.storage)
        sources = SessionSources(environment, self._session.workspace.catalog)
        runtime = SteppedRuntime(
            spark, sources, self._control, key_groups, checkpoint.run, moved_by_rows=self._moved_by_rows
        )
        self._watermarks = restored_watermarks(checkpoint.plan, self._control)
        rows = lower(checkpoint.plan, runtime)
        types = {field.name: parse_type(field.dataType.simpleString()) for field in rows.schema}
        if not isinstance(self._plan, StatementSet):
            self._main = replace(self._main, types=tuple(types[field.name] for field in self._plan.schema))
        writer = self._writer(environment)
        launch = Launch(
            query_name=self._directory.name,
            rows=rows,
            sink=lambda rows: rows.writeStream.foreachBatch(writer),
            checkpoint=checkpoint,
            control=self._control,
            bounded=False,
            flushed=(),
            clock=Clock(),
            interval_ms=0,
        )
        self._query = launch.start()

    def _writer(self, environment: Environment) -> BatchWriter:
        """The writer to files that ``written`` reads, whatever the connector of the table is."""
        side = SideSinks(environment, self._plan)
        if isinstance(self._plan, StatementSet):
            tables = [(table, sink_connector("test").write_batches(environment, table)) for table in self._plan.tables]
            return side.with_tables(self._plan, tables)
        return side.with_main(sink_connector("test").write_batches(environment, self._main.table))

    def stop(self) -> None:
        """Stop Spark's query, with the watermark of each source stored for the next start."""
        if self._query is not None:
            if self._watermarks is not None:
                self._watermarks.keep(micro_batches(self._query))
            self._query.stop()
            self._query = None

    def spread(self, partitions: int) -> None:
        """Change the number of partitions of the stopped job's state, as a savepoint does."""
        storage = local_storage_at(str(self._directory / "checkpoint"))
        assert storage is not None, "tests run on local directories"
        epoch = last_epoch(storage.root / "spark")
        if epoch is not None and partitions_of(storage.root / "spark", epoch) != partitions:
            repartition(self._session.spark, storage, partitions)

    def process(self, flush: Flush) -> None:
        """Runs a micro-batch with the rows, watermarks and time in ``flush``, and the further micro-batches that follow
        from it. Raises the job's error if it fails.
        """
        assert self._query is not None, "start the job first"
        assert self._control is not None
        self._flushes += 1
        # Rows first: should Spark see them in a batch before the watermarks, they are judged by the same watermark.
        for name, rows in flush.rows.items():
            test_connector.feed(self._directory, self._tables[name.casefold()], self._flushes, rows)
        for name, watermark_ms in flush.watermarks.items():
            self._control.lift(name, watermark_ms, f"{self._flushes:09d}")
        if flush.clock_ms is not None:
            self._control.tick(flush.clock_ms, f"{self._flushes:09d}")
        try:
            self._query.processAllAvailable()
        except Exception as error:
            self.stop()
            raise job_error(error, self._directory.name, str(self._directory / "checkpoint")) from error

    def feed_lookup(self, table: Table, rows: list[tuple[Any, ...]], *, withdrawn: bool) -> None:
        """Adds rows to a lookup table of the test; ``withdrawn``: removes these rows from it instead."""
        self._flushes += 1
        test_connector.open_tables(self._directory, [table])
        suffix = WITHDRAWN if withdrawn else ""
        test_connector.feed(self._directory, table, self._flushes, [(values, 0, "+I") for values in rows], suffix)

    def asked_keys(self, table: Table) -> tuple[tuple[str, ...], ...]:
        """The keys that lookups have requested from a lookup table so far: for each request a tuple of the key's values
        as texts.
        """
        return test_connector.asked_keys(self._directory, table)

    @property
    def pending(self) -> int:
        """The number of rows that wait for lookups."""
        waiting = [] if self._query is None else map(pending_rows, micro_batches(self._query))
        return next((sum(rows.values()) for rows in reversed(list(waiting)) if rows), 0)

    def written(self, sink: Sink, after: int) -> Iterator[tuple[int, pa.Table]]:
        """Yields a pair for each micro-batch that has written rows to the sink: its number and its rows. Only
        micro-batches with a number greater than ``after``.
        """
        return test_connector.written(self._directory, sink.table, after)

    def late_rows(self) -> int:
        """The number of late rows in the micro-batches since the last call of this or ``new_reports``. Exact only where
        ``counts_late_rows``.
        """
        return sum(map(late_rows, self.new_reports()))

    def new_reports(self) -> list[Any]:
        """Spark's progress reports of the micro-batches since the last call; without those that Spark has discarded, as
        it keeps a limited number.
        """
        reports = [] if self._query is None else micro_batches(self._query)
        fresh = [report for report in reports if report["batchId"] > self._reported]
        self._reported = max((report["batchId"] for report in fresh), default=self._reported)
        return fresh
