"""A job in steps without a streaming query: each step is a bounded job of Spark over the rows of the step.

Plans, expressions and kernels are those of a streaming query, and so are the order of rows and watermarks. What does
without Spark's streams are their parts between steps: offsets, state stores and commits, which cost most of the time of
a test. The DataFrame of a plan is made once and computed in each step, and for each test of the same plan.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

from sqlstream.connectors import Environment
from sqlstream.connectors.on_spark import test as test_connector
from sqlstream.jobs.checkpoints.control import ControlRows
from sqlstream.jobs.lifecycle.failure import job_error
from sqlstream.jobs.lifecycle.session_jobs import SessionSources
from sqlstream.planner.catalog import Function
from sqlstream.planner.lowering import lower
from sqlstream.planner.lowering.hidden_columns import EPOCH_SHIFT_MS
from sqlstream.planner.nodes import Scan, StatementSet
from sqlstream.planner.operators.lookup import lookup_nodes
from sqlstream.planner.physical import Engine, PhysicalPlan
from sqlstream.planner.physical.engine import stateful_nodes
from sqlstream.planner.properties import WaitsFor
from sqlstream.testing.plan_traits import PlanTraits
from sqlstream.testing.stepped_job import Flush, SteppedJob, SteppedRuntime
from sqlstream.testing.tested_session import SessionUnderTest, fast_directory
from sqlstream.types import parse_type
from sqlstream.udfs.spark.adapter import OUTPUT, KernelProcessor
from sqlstream.udfs.spark.internals import arrow_schema
from sqlstream.udfs.spark.steps import NewestTime, StepFolder, SteppedProcessor

_MOST_KEPT = 8
_CURRENT = "current"


def runs_quickly(traits: PlanTraits) -> bool:
    """True if a plan can be tested without a streaming query: all its sources are tables of the test, and all its state
    is in kernels.

    False for plans with operators that hold back the watermark, because these also need micro-batches without rows.
    """
    if WaitsFor.BARRIERS in traits.plan.clocks.waiting:
        return False
    fed = not traits.reads_by_itself and not any(True for _ in lookup_nodes(traits.root))
    return fed and (traits.engine is Engine.COLUMNAR or not any(True for _ in stateful_nodes(traits.root)))


@dataclass(frozen=True)
class _Mark:
    """A watermark of the query: of a table, or of the clock where that is None. ``by_rows``: they tell it."""

    table: str | None
    delay_ms: int
    by_rows: bool


@dataclass(frozen=True)
class _QuickRuntime(SteppedRuntime):
    """``folder``: where workers look for the step. ``users``: what of users' code the plan calls."""

    folder: StepFolder = field(default_factory=lambda: StepFolder(""))
    marks: list[_Mark] = field(default_factory=list, compare=False)
    operators_of_steps: list[int] = field(default_factory=list, compare=False)
    users: list[object] = field(default_factory=list, compare=False)

    def read(self, scan: Scan, *, in_order: bool = False, located: bool = False) -> DataFrame:
        return test_connector.read_step(self.spark, scan.table, scan.columns, self.folder)

    def control(self, table: str) -> DataFrame:
        return self.spark.createDataFrame([], "watermark_ms BIGINT")

    def clock(self) -> DataFrame:
        return test_connector.ticks_of_step(self.spark, self.folder)

    def timed(self, rows: DataFrame, column: str, delay_ms: int, table: str | None) -> DataFrame:
        by_rows = table is None or self.event_time_from_rows(table)
        self.marks.append(_Mark(table, delay_ms, by_rows))
        if not by_rows:
            return rows
        return rows.mapInArrow(NewestTime(self.folder, len(self.marks) - 1, column).rows, rows.schema)

    def stepped(self, blobs: DataFrame, processor: KernelProcessor, number: int) -> DataFrame:
        self.operators_of_steps.append(number)
        schema = self.spark.createDataFrame([], OUTPUT).schema
        output = arrow_schema(schema)
        pickled = cloudpickle.dumps(processor)  # type: ignore[no-untyped-call]
        called = SteppedProcessor(pickled, number, self.folder, output)
        return blobs.coalesce(1).mapInArrow(called.rows, schema)

    def function(self, name: str) -> Function | None:
        function = super().function(name)
        if function is not None:
            self.users.append(function)
        return function

    def implementation(self, function: Function) -> object:
        self.users.append(function)
        return super().implementation(function)


@dataclass
class _Lowered:
    """A plan made ready, for one test at a time. ``reusable``: computing it twice computes all of it twice; where
    Spark exchanges rows it would keep those of the first time."""

    settings: _Settings
    rows: DataFrame
    runtime: _QuickRuntime
    folder: Path
    in_use: bool = False
    reusable: bool = True

    def use(self, directory: Path) -> None:
        """Workers look for steps in the directory of a test from now on."""
        self.in_use = True
        current = self.folder / _CURRENT
        current.unlink(missing_ok=True)
        current.symlink_to(directory, target_is_directory=True)

    def in_step(self) -> DataFrame:
        return self.rows if self.reusable else self.rows.select("*")


@dataclass(frozen=True)
class _Settings:
    """What a lowered plan depends on."""

    plan: PhysicalPlan
    spark: SparkSession
    key_groups: int
    moved_by_rows: frozenset[str]
    settings: tuple[tuple[str, str | None], ...]


_kept: list[_Lowered] = []


def _lowered(settings: _Settings, make: Callable[[StepFolder], _QuickRuntime]) -> _Lowered:
    """One that is kept and not in use, or a new one. Functions of users may change between tests of one name."""
    for lowered in _kept:
        if not lowered.in_use and lowered.settings == settings:
            return lowered
    folder = fast_directory("sqlstream-steps-")
    runtime = make(StepFolder(str(folder / _CURRENT)))
    rows = lower(settings.plan, runtime)
    lowered = _Lowered(settings, rows, runtime, folder, reusable="Exchange" not in _explained(rows))
    if not runtime.users:
        _kept.append(lowered)
        del _kept[:-_MOST_KEPT]
    return lowered


def _explained(rows: DataFrame) -> str:
    """Spark's plan, which it then keeps with the DataFrame."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        rows.explain()
    return printed.getvalue()


class QuickJob(SteppedJob):
    """Runs a plan without a streaming query of Spark, for plans for which ``runs_quickly`` is true. It is used like a
    ``SteppedJob``, and much faster.
    """

    def __init__(
        self, session: SessionUnderTest, traits: PlanTraits, directory: Path, moved_by_rows: frozenset[str]
    ) -> None:
        super().__init__(session, traits, directory, moved_by_rows)
        self._lowered: _Lowered | None = None
        self._number = 0
        self._watermark_ms = 0
        self._reached: dict[int, int] = {}
        self._late = 0

    @property
    def running(self) -> bool:
        """True between ``start`` and ``stop``."""
        return self._lowered is not None

    def start(self) -> None:
        """Lower the plan, or reuse the DataFrame of an equal plan that was lowered before."""
        spark = self._session.spark
        environment = Environment(spark, self._directory)
        test_connector.open_tables(
            self._directory, (*self._tables.values(), self._main.table, *self._traits.side_tables.values())
        )
        checkpoint = self._opened()
        sources = SessionSources(environment, self._session.workspace.catalog)
        control = ControlRows(checkpoint.storage)

        def runtime(folder: StepFolder) -> _QuickRuntime:
            return _QuickRuntime(
                spark, sources, control, self._key_groups, moved_by_rows=self._moved_by_rows, folder=folder
            )

        settings = self._session.workspace.settings.rows()
        asked = _Settings(checkpoint.plan, spark, self._key_groups, self._moved_by_rows, tuple(settings))
        self._lowered = _lowered(asked, runtime)
        self._lowered.use(self._directory)
        types = {f.name: parse_type(f.dataType.simpleString()) for f in self._lowered.rows.schema}
        if not isinstance(self._plan, StatementSet):
            self._main = replace(self._main, types=tuple(types[f.name] for f in self._plan.schema))
        self._write = self._writer(environment)

    def stop(self) -> None:
        """Stop; the DataFrame may be reused by the next test with an equal plan."""
        if self._lowered is not None:
            self._lowered.in_use = False
            self._lowered = None

    def spread(self, partitions: int) -> None:
        """Does nothing: there is only one partition, and Spark does not keep its state."""

    def process(self, flush: Flush) -> None:
        """Runs one micro-batch. If it only advances watermarks, only the operators that wait for them run."""
        assert self._lowered is not None, "start the job first"
        try:
            if flush.rows or flush.clock_ms is not None:
                self._bring(flush)
                self._compute(self._lowered)
            self._lift(self._lowered, flush)
            if self._rises(self._lowered):
                self._number += 1
                self._compute(self._lowered)
        except Exception as error:
            self.stop()
            raise job_error(error, self._directory.name, str(self._directory / "checkpoint")) from error

    def _bring(self, flush: Flush) -> None:
        self._number += 1
        for name, rows in flush.rows.items():
            test_connector.feed(self._directory, self._tables[name.casefold()], self._number, rows)
        if flush.clock_ms is not None:
            test_connector.tick(self._directory, self._number, flush.clock_ms)

    def _compute(self, lowered: _Lowered) -> None:
        steps = StepFolder(str(self._directory))
        steps.begin(self._number, self._watermark_ms)
        self._write(lowered.in_step(), self._number)

    def _lift(self, lowered: _Lowered, flush: Flush) -> None:
        """The watermarks that rows, steps and ticks have reached."""
        steps = StepFolder(str(self._directory))
        lifted = {name.casefold(): ms + EPOCH_SHIFT_MS for name, ms in flush.watermarks.items()}
        for number, mark in enumerate(lowered.runtime.marks):
            told = steps.reported(number, self._number)
            reached = [] if told is None else [told - mark.delay_ms]
            if mark.table is not None and mark.table.casefold() in lifted:
                reached.append(lifted[mark.table.casefold()])
            self._reached[number] = max([*reached, self._reached.get(number, 0)])

    def _rises(self, lowered: _Lowered) -> bool:
        """Raise the watermark to the least of all; True where something in the state waits for it."""
        least = min(self._reached.values(), default=0)
        if least <= self._watermark_ms:
            return False
        self._watermark_ms = least
        steps = StepFolder(str(self._directory))
        states = [steps.state(operator, self._number) for operator in lowered.runtime.operators_of_steps]
        return any(state.next_timer is not None and state.next_timer <= least for state in states)

    def late_rows(self) -> int:
        """The number of late rows in the last step."""
        assert self._lowered is not None
        steps = StepFolder(str(self._directory))
        total = sum(steps.state(o, self._number).late for o in self._lowered.runtime.operators_of_steps)
        new, self._late = total - self._late, total
        return new
