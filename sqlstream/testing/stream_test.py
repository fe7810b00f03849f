"""``StreamTest``: runs a query step by step; the test provides rows and moves the clocks. Only ``settle`` sleeps."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from sqlstream.planner import unsupported
from sqlstream.planner.catalog import UPSERT, Table
from sqlstream.planner.lowering.hidden_columns import END_OF_INPUT_MS
from sqlstream.planner.nodes import Insert, StatementSet
from sqlstream.planner.physical import physical_plan
from sqlstream.plans import engine_settings_of
from sqlstream.testing.plan_traits import PlanTraits
from sqlstream.testing.quick_job import QuickJob, runs_quickly
from sqlstream.testing.stepped_job import Arrival, Buffer, SteppedJob
from sqlstream.testing.tested_session import SessionUnderTest, fast_directory, plan_of_script
from sqlstream.testing.values import KINDS, Change, Time, changes_of, to_arrow, to_ms
from sqlstream.types import DataType

if TYPE_CHECKING:
    from sqlstream.testing.stepped_job import Flush


# --- Late rows: counted by kernels, and as far as possible on native operators ---------------------------------
# Spark counts what it drops behind the partial aggregation: rows of one key and window are one, and a row of several
# windows counts in each that has closed. A row that is alone in its micro-batch shows what became of it: it was late
# for all its windows exactly if something was dropped and no state was written.


@dataclass
class LateCount:
    """Counts the rows that a tested job drops because they are late.

    ``counted``: the engine counts each late row. Otherwise Spark counts them after rows were combined, and ``exact``
    becomes False once a micro-batch with several rows has dropped late ones.
    """

    counted: bool
    rows: int = 0
    exact: bool = True
    _together: int = 0
    _late: bool = False

    def expect(self, late: bool) -> None:
        """Record that a row will be in the next micro-batch; ``late``: it may be late."""
        self._together += 1
        self._late = self._late or late

    def process(self, job: SteppedJob, flush: Flush) -> None:
        """Let the job process its next micro-batch, and count its late rows."""
        together, late = self._together, self._late
        self._together, self._late = 0, False
        if not late and not self.counted:
            job.process(flush)
            return
        if self.counted:
            job.late_rows()  # those of earlier batches
            job.process(flush)
            self.rows += job.late_rows()
            return
        job.new_reports()
        job.process(flush)
        reports = job.new_reports()
        operators = [operator for report in reports for operator in report["stateOperators"]]
        dropped = sum(operator["numRowsDroppedByWatermark"] for operator in operators)
        updated = sum(operator["numRowsUpdated"] for operator in operators)
        if together == 1:
            self.rows += bool(dropped and not updated)
        else:
            self.rows += dropped
            self.exact = self.exact and not dropped


_PAUSE_S = 0.02

Watermarks = Literal["auto", "steps", "rows"]


class StreamTest:
    """Runs ``script`` (definitions, then a query, an INSERT or a statement set) on ``session``, step by step.

    ``rows`` inserts into tables with the connector ``test``; ``output`` returns the rows that were emitted since
    its last call. ``watermark`` and ``processing_time`` are the only clocks. ``watermarks`` says what advances
    event time:

    * ``"steps"``: only ``watermark`` does.
    * ``"rows"``: rows do too, after each call of ``rows``, to ``max(ts) - delay`` as the table declares it.
    * ``"auto"``: ``"rows"`` for tables that declare a delay, ``"steps"`` for those with ``WATERMARK FOR ts AS ts``.

    A lookup table gets its rows by ``rows`` as well; they apply to rows of other tables that arrive afterwards.

    Steps are buffered and run in as few micro-batches as give the same results (see ``stepped_job.Buffer``).
    ``streaming=False`` computes each step as a bounded job of Spark, where the plan allows it: the same expressions
    and kernels, without a streaming query, and many times as fast.

    Within one step the results of a window query on the native engine are in Spark's order, all others in a defined
    one; ``keeps_order`` says which.
    """

    def __init__(
        self, script: str, session: SessionUnderTest, *, watermarks: Watermarks = "auto", streaming: bool = True
    ) -> None:
        session = session.fork()  # tests that share a session define the same names
        plan = plan_of_script(script, session)
        self._traits = PlanTraits(physical_plan(plan, engine_settings_of(session.workspace.settings)))
        self._unread = _unread(session, self._traits)
        self._moved_by_rows = _moved_by_rows(self._traits, watermarks)
        self._buffer = Buffer(self._traits.joint, frozenset(self._traits.times))
        self._directory = fast_directory("sqlstream-test-")
        make = SteppedJob if streaming or not runs_quickly(self._traits) else QuickJob
        self._job = make(session, self._traits, self._directory, frozenset(self._moved_by_rows))
        self._late = LateCount(counted=self._job.counts_late_rows)
        self._clock_ms = 0
        self._seen: dict[str, int] = {}
        self._finished = False

    # --- steps ------------------------------------------------------------------------------------------------

    def rows(self, table: str, rows: Iterable[Sequence[Any]], kind: str = "+I") -> None:
        """Insert rows into one table, in this order: values of its physical columns (see ``testing.values``).

        Whether a row is late depends on the watermark that earlier calls reached, as for a micro-batch of a job,
        not on other rows of the call or on reads of output.
        """
        self.changes(table, [(kind, row) for row in rows])

    def changes(self, table: str, rows: Sequence[tuple[str, Sequence[Any]]]) -> None:
        """Insert rows of several kinds together, like those of one call of ``rows``: pairs of kind (such as -U) and
        values.

        Rows of a table that the optimized query does not read have no effect.
        """
        if table.casefold() in self._unread:
            return
        target = self._table(table)
        if target.name.casefold() in self._traits.lookup_tables:
            self._change_answers(target, rows)
            return
        for kind in dict.fromkeys(kind for kind, _ in rows):
            _require_kind(target, kind)
        if self._finished:
            raise ValueError(f'rows of table "{table}" came after finish()')
        kinds = [kind for kind, _ in rows]
        arriving = [_converted(target, values) for _, values in rows]
        times = [self._traits.time_of(target, values, self._clock_ms) for values in arriving]
        if not all(self._buffer.takes(target.name, time_ms) for time_ms in times):
            self._flush()
        for number, (kind, values, time_ms) in enumerate(zip(kinds, arriving, times, strict=True)):
            self._arrive(target.name, (values, self._clock_ms, kind), time_ms, behind_others=number > 0)
        came = [time_ms for time_ms in times if time_ms is not None]
        if came and target.name in self._moved_by_rows:
            self._buffer.reach(target.name, max(came) - self._moved_by_rows[target.name])
        self._end_step()

    def _change_answers(self, table: Table, rows: Sequence[tuple[str, Sequence[Any]]]) -> None:
        self._flush()  # rows that came before see the answers of before
        for kind, run in groupby(rows, itemgetter(0)):
            _require_known(kind)
            converted = [_converted(table, values) for _, values in run]
            self._job.feed_lookup(table, converted, withdrawn=kind in ("-U", "-D"))

    def watermark(self, table: str, time: Time) -> None:
        """Advance the watermark of a table to exactly ``time``: no row up to it is expected any more."""
        if table.casefold() in self._unread:
            return
        name = self._table(table).name
        if self._traits.delay_ms(name) is not None:
            self._buffer.lift(name, to_ms(time))
        self._end_step()

    def processing_time(self, time: Time) -> None:
        """Advance the clock of processing time to ``time``; it starts at 1970-01-01 00:00:00."""
        now = to_ms(time)
        if now < self._clock_ms:
            raise ValueError(f"processing time is at {self._clock_ms} ms and cannot go back to {now} ms")
        self._clock_ms = now
        for name in self._traits.clocked:
            self._buffer.lift(name, now - 1)  # rows of this very millisecond may still come
        if self._traits.needs_ticks:
            self._buffer.tick(now)
        self._end_step()

    def checkpoint(self) -> None:
        """End the micro-batch, and make a checkpoint."""
        self._flush()

    def restart(self, parallelism: int | None = None) -> None:
        """Stop, and continue from the newest checkpoint; ``parallelism``: the new number of partitions of its state."""
        self._flush()
        if self._job.running:
            self._job.stop()
            if parallelism is not None:
                self._job.spread(parallelism)
            self._job.start()

    def settle(self) -> None:
        """Wait until no row waits for a lookup with ON TIMEOUT DEFER."""
        self._flush()
        while self._traits.defers and self._job.running:
            self._buffer.tick(self._clock_ms)
            self._flush()
            if not self._job.pending:
                return
            time.sleep(_PAUSE_S)

    def finish(self) -> None:
        """End the input: watermarks go to infinity, and all pending windows and timers fire."""
        self._finished = True
        for name in self._traits.times:
            self._buffer.lift(name, END_OF_INPUT_MS)
        if self._traits.ends_by_tick:
            self._buffer.tick(END_OF_INPUT_MS)
        self._end_step()
        self.settle()

    # --- results ----------------------------------------------------------------------------------------------

    def output(self, table: str | None = None) -> list[Change]:
        """The rows that were emitted since the last call, in order, as (kind, *values).

        ``table`` is that of the INSERT or of a side output; None: the result itself, in a statement set that of its
        first table.
        """
        self._job.sink_of(table)  # a wrong name needs no Spark
        self._flush()
        sink = self._job.sink_of(table)
        changes: list[Change] = []
        for number, rows in self._job.written(sink, self._seen.get(sink.table.name, -1)):
            self._seen[sink.table.name] = number
            changes += changes_of(rows, sink.types)
        return changes

    def output_columns(self, table: str | None = None) -> tuple[str, ...]:
        """The names of the columns of ``output(table)``, without the row kind that comes first there."""
        return self._job.sink_of(table).names

    @property
    def output_names(self) -> tuple[str, ...]:
        """The names of the columns of ``output()``, without the row kind that comes first there."""
        return self.output_columns()

    @property
    def output_types(self) -> tuple[DataType, ...]:
        """The types of the columns of ``output()``, without that of the row kind; starts Spark."""
        self._start()
        return self._job.sink_of(None).types

    @property
    def output_key(self) -> tuple[int, ...] | None:
        """The positions of the key columns by which the table of an INSERT replaces rows; None where it gets -U
        rows."""
        plan = self._traits.root
        if not isinstance(plan, Insert) or plan.takes != UPSERT:
            return None
        return tuple(map(self.output_names.index, plan.table.primary_key))

    @property
    def first_table(self) -> str | None:
        """The table whose rows ``output()`` returns, in a statement set; None for other scripts."""
        plan = self._traits.root
        return plan.tables[0].name if isinstance(plan, StatementSet) else None

    @property
    def side_tables(self) -> tuple[str, ...]:
        """The names of the tables that receive side outputs; for a statement set also the targets of all its INSERTs
        but the first.
        """
        return tuple(table.name for table in self._traits.side_tables.values())

    def output_types_of(self, table: str) -> tuple[DataType, ...]:
        """The types of the columns of ``output(table)``, without that of the row kind."""
        return self._job.sink_of(table).types

    def input_types(self, table: str) -> tuple[DataType, ...]:
        """The types of the values that a row inserted into this table must have: those of its physical columns."""
        return tuple(c.type for c in self._table(table).physical_columns)

    def input_columns(self, table: str) -> tuple[str, ...]:
        """The names of the columns for which a row inserted into this table must have values: its physical columns."""
        return tuple(c.name for c in self._table(table).physical_columns)

    @property
    def keeps_order(self) -> bool:
        """True where the order of output rows is defined."""
        return self._traits.keeps_order or self._job.orders_rows

    @property
    def looks_up(self) -> bool:
        """True if the query has lookup joins with tables whose rows the test provides."""
        return bool(self._traits.lookup_tables)

    def lookup_tries(self) -> int:
        """The largest number of requests so far for one and the same key of a lookup table."""
        self._flush()
        return max((n for table in self._traits.lookup_tables for n in self.requests(table).values()), default=0)

    def requests(self, table: str) -> Counter[tuple[str, ...]]:
        """How often lookups have requested each key of a lookup table so far. The keys are tuples of their values as
        texts.
        """
        self._flush()
        return Counter(self._job.asked_keys(self._table(table)))

    def late_dropped(self) -> int:
        """The number of rows that were late for all their windows; see ``late_dropped_is_exact``."""
        self._flush()
        return self._late.rows

    @property
    def late_dropped_is_exact(self) -> bool:
        """False if late rows shared a micro-batch on the native engine: Spark then has combined rows before it counts
        them.
        """
        return self._late.exact

    def close(self) -> None:
        """Stop the job and remove its files."""
        self._job.stop()
        shutil.rmtree(self._directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # --- micro-batches ----------------------------------------------------------------------------------------

    def _arrive(self, table: str, row: Arrival, time_ms: int | None, *, behind_others: bool) -> None:
        late = self._traits.has_windows and not self._late.counted and self._buffer.may_be_late(table, time_ms)
        # Alone in its micro-batch, a late row can be counted exactly. Behind other rows of its call it stays with
        # them: by itself it would meet the watermark that they have moved.
        alone = late and not (behind_others and table in self._moved_by_rows)
        if alone:
            self._flush()
        self._buffer.add_row(table, *row)
        self._late.expect(late)
        if alone:
            self._flush()

    def _end_step(self) -> None:
        if not self._traits.joint:
            self._flush()

    def _flush(self) -> None:
        if self._buffer.empty and (self._job.running or not self._traits.reads_by_itself):
            return
        self._start()
        self._late.process(self._job, self._buffer.take())

    def _start(self) -> None:
        if not self._job.running:
            self._job.start()

    def _table(self, name: str) -> Table:
        tables = self._traits.tables | self._traits.lookup_tables
        table = tables.get(name.casefold())
        if table is None:
            names = ", ".join(f'"{t.name}"' for t in tables.values()) or "none"
            raise ValueError(f'the query reads no table "{name}" with the connector test; it reads {names}')
        return table


def _unread(session: SessionUnderTest, traits: PlanTraits) -> frozenset[str]:
    """The tables with the connector ``test`` that the plan does not read, by lower-case name."""
    declared = {t.name.casefold() for t in session.workspace.catalog.tables() if t.connector == "test"}
    return frozenset(declared - traits.tables.keys() - traits.lookup_tables.keys())


def _moved_by_rows(traits: PlanTraits, watermarks: Watermarks) -> dict[str, int]:
    """The tables whose rows move their watermark, with the delay in ms."""
    plain = (name for name, time in traits.times.items() if time.follows is None)
    delays = {name: delay for name in plain if (delay := traits.delay_ms(name)) is not None}
    return {name: delay for name, delay in delays.items() if watermarks == "rows" or (watermarks == "auto" and delay)}


def _require_known(kind: str) -> None:
    if kind not in KINDS:
        raise ValueError(f'"{kind}" is no row kind; there are {", ".join(KINDS)}')


def _require_kind(table: Table, kind: str) -> None:
    _require_known(kind)
    if kind not in {k.value for k in table.changelog}:
        raise unsupported.refusal("changelog input", None, f'Table "{table.name}" has rows of kind {kind}.')


def _converted(table: Table, row: Sequence[Any]) -> tuple[Any, ...]:
    columns = table.physical_columns
    if len(row) != len(columns):
        raise ValueError(f'table "{table.name}" has {len(columns)} physical columns, and a row {len(row)} values')
    return tuple(to_arrow(value, column.type) for value, column in zip(row, columns, strict=True))
