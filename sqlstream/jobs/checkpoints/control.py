"""Control rows: files that lift the watermark of a table, or move the clock of processing time, from outside.

They end bounded inputs, tick processing time and drive tests. Each file holds one row, ``{"watermark_ms": …}`` of a
table or ``{"processing_time_ms": …}`` of the clock.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import TYPE_CHECKING

from sqlstream.errors import SqlStreamError
from sqlstream.jobs.checkpoints.storage import Storage
from sqlstream.paths import as_segment
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.lowering.hidden_columns import END_OF_INPUT_MS
from sqlstream.planner.physical import PhysicalPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_CLOCK = "control-clock"
_END = "end-of-input"

ENDED = "control-end"
"""The folder of what is known of a planned end."""

END_FILE = f"{_END}.json"
"""The name of the files that say the end of an input."""


@dataclass(frozen=True)
class ControlRows:
    """Writes and reads the control rows of a job (watermarks, ticks of processing time): files in one folder per table,
    and in one for the clock.

    ``transient``: Spark deletes the files that it has read. Operators that read the same control rows share one source;
    with two, one would delete files that the other has not read yet. ``one_by_one``: a micro-batch reads one file of
    each table, the oldest, as a planned end needs.
    """

    storage: Storage
    transient: bool = False
    one_by_one: bool = False
    _streams: dict[str, DataFrame] = field(default_factory=dict, compare=False, repr=False)

    def stream(self, spark: SparkSession, table: str) -> DataFrame:
        """Returns a streaming DataFrame of the table's control rows, with one column ``watermark_ms BIGINT``. Repeated
        calls for a table return the same DataFrame.
        """
        return self._stream(spark, folder_of(table), "watermark_ms BIGINT")

    def clock(self, spark: SparkSession) -> DataFrame:
        """Returns a streaming DataFrame of the clock's ticks, with one column ``processing_time_ms BIGINT``. Repeated
        calls return the same DataFrame.
        """
        return self._stream(spark, _CLOCK, "processing_time_ms BIGINT")

    def _stream(self, spark: SparkSession, folder: str, schema: str) -> DataFrame:
        if folder not in self._streams:
            self.storage.make_folder(folder)
            reader = spark.readStream.schema(schema).option("recursiveFileLookup", "true")
            reader = reader.option("cleanSource", "delete" if self.transient else "off")
            if self.one_by_one:
                reader = reader.option("maxFilesPerTrigger", "1")
            self._streams[folder] = reader.json(self.storage.location(folder))
        return self._streams[folder]

    def lift(self, table: str, watermark_ms: int, name: str) -> None:
        """Writes a control row that advances the table's watermark to exactly ``watermark_ms`` (milliseconds since
        1970). ``name``: the name of its file, unique within table and job.
        """
        self.storage.write(f"{folder_of(table)}/{name}.json", json.dumps({"watermark_ms": watermark_ms}))

    def tick(self, processing_time_ms: int, name: str) -> None:
        """Writes a control row that moves the processing-time clock to ``processing_time_ms`` (milliseconds since
        1970). ``name``: the name of its file, unique among the ticks of the job.
        """
        self.storage.write(f"{_CLOCK}/{name}.json", json.dumps({"processing_time_ms": processing_time_ms}))

    def has_ended(self, table: str) -> bool:
        """True where a control row says that the table's input has ended, and a planned end has been reached."""
        ends = (f"{folder}/{_END}.json" for folder in (folder_of(table), ENDED))
        return any(self.storage.read(end) is not None for end in ends)

    def end(self, table: str) -> None:
        """Writes the control row that ends the table's input, unless there is one."""
        if not self.has_ended(table):
            self.lift(table, END_OF_INPUT_MS, _END)

    def reach_end(self) -> None:
        """Records that the planned end was read, and all windows are closed."""
        self.storage.write(f"{ENDED}/{_END}.json", "{}")

    @property
    def clock_has_ended(self) -> bool:
        """True where a control row of this or an earlier run says that processing time has ended."""
        return self.storage.read(f"{_CLOCK}/{_END}.json") is not None

    def end_clock(self) -> None:
        """Writes the control row that ends processing time, unless there is one."""
        if not self.clock_has_ended:
            self.tick(END_OF_INPUT_MS, _END)


def folder_of(table: str) -> str:
    """The folder of a table's control rows."""
    return f"control/{as_segment(table)}"


# --- The clock of processing time ------------------------------------------------------------------------------


GIVE_UP_SECONDS = 30.0
"""So long a disk may be full, or a directory not to be written, before a job fails that waits for its clock."""


@dataclass(frozen=True)
class Clock:
    """Advances what follows processing time in a job: the watermarks of ``tables`` and, with ``ticks``, the timers of
    operators.

    * ``ends``: when bounded input has ended, a last tick ends processing time.
    * ``calls``: rows may wait for the answers of lookups. Each tick starts a micro-batch in which their requests are
      sent again, also after the end of bounded input.
    * ``calls_only``: ticks have no other use, so none is written while no row waits.
    * ``interval_ms``: the time between two ticks. ``lookups``: the numbers of the lookups whose rows may wait.
    """

    tables: tuple[str, ...] = ()
    ticks: bool = False
    ends: bool = False
    calls: bool = False
    calls_only: bool = False
    interval_ms: int = 1000
    lookups: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.tables) or self.ticks

    @property
    def tells_time(self) -> bool:
        """True where windows or timers need the clock, not only lookups."""
        return bool(self) and not self.calls_only

    def start(
        self,
        control: ControlRows,
        stopped: Event,
        rows_wait: Callable[[], bool] = lambda: True,
        on_failure: Callable[[SqlStreamError], None] = lambda _: None,
    ) -> Thread:
        """Starts a thread that ticks until ``stopped`` is set.

        ``rows_wait`` returns True while rows wait for lookups. ``on_failure`` is called if no tick could be written for
        ``GIVE_UP_SECONDS``, so that the job does not wait for the clock for ever.
        """
        arguments = (control, stopped, rows_wait, on_failure)
        thread = Thread(target=self._run, args=arguments, name="sqlstream-clock", daemon=True)
        thread.start()
        return thread

    def _run(
        self,
        control: ControlRows,
        stopped: Event,
        rows_wait: Callable[[], bool],
        on_failure: Callable[[SqlStreamError], None],
    ) -> None:
        last = time.monotonic()
        while not stopped.wait(self.interval_ms / 1000):
            if self.calls_only and not rows_wait():
                last = time.monotonic()
                continue
            try:
                self.tick(control)
                last = time.monotonic()
            except SqlStreamError as error:  # no room on the disk; there may be some for the next tick
                if time.monotonic() - last > GIVE_UP_SECONDS:
                    on_failure(error)
                    last = time.monotonic()

    def tick(self, control: ControlRows) -> None:
        """Advance the watermarks and timers that follow the clock to the present time."""
        now = time.time_ns()
        self.show(control, now // 1_000_000, f"tick-{now}")

    def show(self, control: ControlRows, now_ms: int, name: str) -> None:
        """Writes control rows that advance the watermarks and timers that follow the clock to ``now_ms`` (milliseconds
        since 1970). ``name``: the name of their files, unique within the job.
        """
        for table in self.tables:
            control.lift(table, now_ms - 1, name)  # rows of this very millisecond may still come
        if self.ticks:
            control.tick(now_ms, name)


def clock_of(plan: PhysicalPlan, interval_ms: int = 1000) -> Clock:
    """The clock of a plan; it advances nothing where no operator uses processing time."""
    clocked = (mark.table for mark in plan.marks if mark.domain is TimeDomain.PROCESSING)
    tables = tuple(dict.fromkeys(clocked))
    ticks, calls = plan.clocks.ticks, plan.clocks.rows_wait
    lookups = tuple(operator.number for operator in plan.operators if operator.lookup is not None)
    calls_only = calls and not ticks and not tables
    return Clock(tables, ticks or calls, plan.clocks.ends_by_tick, calls, calls_only, interval_ms, lookups)
