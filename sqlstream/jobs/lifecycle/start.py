"""Starts a job from its specification: its checkpoint, its DataFrame, its sink, its record."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlstream.connectors import on_spark
from sqlstream.errors import UnsupportedError
from sqlstream.jobs.checkpoints.checkpoint import Checkpoint, open_checkpoint
from sqlstream.jobs.checkpoints.control import ControlRows, clock_of
from sqlstream.jobs.checkpoints.fingerprint import DEFAULT_KEY_GROUPS, Declared, new_key_groups
from sqlstream.jobs.checkpoints.planned_end import PlannedEnd
from sqlstream.jobs.checkpoints.storage import LocalStorage, storage_at
from sqlstream.jobs.checkpoints.trust import require_trusted, unpickles_state
from sqlstream.jobs.checkpoints.watermarks import (
    has_idle_parts,
    idle_sources,
    lifted_sources,
    restored_watermarks,
)
from sqlstream.jobs.lifecycle.coordinator import EndOfInput
from sqlstream.jobs.lifecycle.job import Job
from sqlstream.jobs.lifecycle.launch import Launch, flushed_tables, input_has_ended, row_limit_of
from sqlstream.jobs.lifecycle.results import ResultQueue, StoredResults
from sqlstream.jobs.lifecycle.runtime import JobRuntime
from sqlstream.jobs.lifecycle.specification import JobSpecification, Sink, Work
from sqlstream.jobs.records.history import last_committed
from sqlstream.jobs.records.recorder import recorder_of
from sqlstream.jobs.reports.counts import CountedSources
from sqlstream.jobs.reports.progress import Waiting, observed
from sqlstream.jobs.savepoints.epoch_files import require_whole_checkpoint
from sqlstream.paths import temporary_folder
from sqlstream.planner.lowering import lower
from sqlstream.planner.nodes import Output
from sqlstream.planner.operators.top_n import limit_of
from sqlstream.planner.physical.engine import Engine
from sqlstream.plans import scanned_tables
from sqlstream.results import columns_of
from sqlstream.spark.running import is_connect
from sqlstream.udfs.kernel import Domain, Pending, Wait, added
from sqlstream.udfs.process.function import State, states_of
from sqlstream.udfs.spark.adapter import KEPT_DDL, WAITS_DDL, kept_of_group, wait_of, waits_of_group
from sqlstream.udfs.spark.batches import shuffle_tasks
from sqlstream.udfs.spark.state_server import NAME

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.group import GroupedData

    from sqlstream.jobs.lifecycle.runtime import RunningOperator, UserFunctions


# --- Declared states of process functions, as text -------------------------------------------------------------


def declared_states(functions: UserFunctions) -> Declared:
    """Returns a function from the name of a process function to a text that lists its declared states, such as ``seen
    MapState of STRING, BIGINT with a time to live``.
    """

    def text(name: str) -> str:
        function = functions.function(name)
        assert function is not None, f'the binder has seen "{name}"'
        implementation: Any = functions.implementation(function)
        return ", ".join(map(_text, states_of(implementation))) or "none"

    return text


def _text(state: State[Any]) -> str:
    types = ", ".join(str(kind) for kind in (state.key_type, state.type) if kind is not None)
    return f"{state.name} {type(state).__name__} of {types}" + (" with a time to live" if state.ttl_ms else "")


# --- Rows in the state of a checkpoint -------------------------------------------------------------------------


_MICROS = 1000
_ENTRIES = ("key.key_group", "user_map_key.name", "user_map_key.number", "user_map_value.text")


def waiting_in(
    checkpoint: Checkpoint, operators: Sequence[RunningOperator], spark: SparkSession
) -> tuple[Waiting, ...]:
    """Returns how many rows, timers and windows wait in the state of the last epoch: one entry for each operator and
    kind. A Spark job reads the state of each stateful operator.
    """
    if last_committed(checkpoint.storage) is None:
        return ()
    location = checkpoint.spark_location
    if Engine(checkpoint.layout.engine).is_of_spark:
        return tuple(_windows(location, spark))
    counts = [
        waiting
        for number, operator in enumerate(_in_order(operators))
        for waiting in _waiting_of(location, number, operator, spark)
    ]
    return tuple(sorted(counts, key=lambda waiting: waiting.operator))


def rows_kept(
    checkpoint: Checkpoint, operators: Sequence[RunningOperator], spark: SparkSession, epoch: int | None
) -> int:
    """Returns how many rows the operator of LIMIT, the topmost of the plan, holds in its state after a complete epoch
    (None: the last one); 0 before the first epoch.
    """
    if last_committed(checkpoint.storage) is None:
        return 0
    _, processor = _in_order(operators)[0]
    counts = _groups(checkpoint.spark_location, 0, spark, epoch).applyInArrow(kept_of_group(processor), KEPT_DDL)
    return sum(row.rows for row in counts.collect())


def _in_order(operators: Sequence[RunningOperator]) -> list[RunningOperator]:
    """As Spark numbers them."""
    return sorted(operators, key=lambda operator: min(operator[0]))


def _groups(location: str, number: int, spark: SparkSession, epoch: int | None = None) -> GroupedData:
    """The entries of an operator's state by key group after an epoch; None: after the last one."""
    reader = spark.read.format("statestore").option("operatorId", number).option("stateVarName", NAME)
    if epoch is not None:
        reader = reader.option("batchId", epoch)
    return reader.load(location).select(*_ENTRIES).groupBy("key_group")


def _waiting_of(location: str, number: int, operator: RunningOperator, spark: SparkSession) -> Iterator[Waiting]:
    numbers, processor = operator
    groups = _groups(location, number, spark).applyInArrow(waits_of_group(processor), WAITS_DDL)
    by_stage: dict[int, list[Wait]] = {}
    for stage, *wait in groups.collect():
        by_stage.setdefault(stage, []).append(wait_of(*wait))
    for stage, waits in by_stage.items():
        yield from (_waiting(numbers[stage], wait) for wait in added(waits))


def _waiting(operator: int, wait: Wait) -> Waiting:
    timed = wait.domain is not None
    return Waiting(
        operator,
        wait.what.value,
        wait.count,
        by_clock=wait.domain is Domain.PROCESSING,
        first_ms=-(-wait.first // _MICROS) if timed else None,
        last_ms=-(-wait.last // _MICROS) if timed else None,
    )


def _windows(location: str, spark: SparkSession) -> Iterator[Waiting]:
    """Spark's own operators have a row of state for each open window of a key."""
    for operator in spark.read.format("state-metadata").load(location).collect():
        count = spark.read.format("statestore").option("operatorId", operator.operatorId).load(location).count()
        if count:
            yield Waiting(operator.operatorId, Pending.WINDOWS.value, count)


SIDE_OUTPUT_THROUGH_CONNECT = "SS348"

_SIDE_OUTPUT_THROUGH_CONNECT = (
    "LATE DATA TO and ON ERROR TO are not executed for a query on its own through Spark Connect"
)

_numbers = itertools.count(1)


def start_job(spark: SparkSession, job: JobSpecification) -> Job:
    """Starts a job. Raises the errors of the steps of a start: ``recorder_of``, ``require_whole_checkpoint``,
    ``open_checkpoint``, ``require_trusted`` and ``Launch.start``.
    """
    number = next(_numbers)
    path = job.place.checkpoint or str(temporary_folder("sqlstream-checkpoint-"))
    retention = job.execution.checkpointing.retention
    recorder = recorder_of(path, spark, job.work.description, retention, job.place.claim)
    require_whole_checkpoint(storage_at(path, spark))
    checkpoint = _opened(path, spark, job)
    control = _control_rows(checkpoint, job)
    runtime = JobRuntime(
        spark,
        CountedSources(job.work.sources),
        control,
        checkpoint.layout.key_groups,
        checkpoint.run,
        job.execution.rows_move_time,
        job.execution.state_memory,
    )
    results = None if job.work.sink is not None else _results_of(job.work, spark, checkpoint)
    sink = job.work.sink if results is None else results.sink
    assert sink is not None
    launch = _launch(f"{job.name or 'query'}-{number}", job, checkpoint, runtime, sink)
    count_waiting = partial(waiting_in, checkpoint, runtime.operators, spark)
    return Job(job, launch, results, recorder, count_waiting)


def _opened(path: str, spark: SparkSession, job: JobSpecification) -> Checkpoint:
    """The checkpoint of the job, whose state may be unpickled."""
    sources, execution = job.work.sources, job.execution
    checkpoint = open_checkpoint(
        path,
        job.work.plan,
        spark,
        execution.engine,
        execution.key_groups,
        declared_states(sources),
        chaining=execution.chaining,
        reuse=execution.reuse,
        sources=sources,
        new_key_groups=key_groups_for(spark, few=execution.low_latency),
        at_once=execution.low_latency,
    )
    if not job.place.trusts_any_owner and unpickles_state(job.work.plan, sources.function):
        require_trusted(checkpoint.storage)
    return checkpoint


def key_groups_for(spark: SparkSession, *, few: bool = False) -> int:
    """How many key groups a new checkpoint has in this session where no setting says it. ``few``: one for each task of
    a shuffle, at most 64.
    """
    tasks = shuffle_tasks(spark)
    return min(tasks, DEFAULT_KEY_GROUPS) if few else new_key_groups(tasks)


def _control_rows(checkpoint: Checkpoint, job: JobSpecification) -> ControlRows:
    ticks = bool(clock_of(checkpoint.plan, job.execution.clock_interval_ms))
    idles = has_idle_parts(checkpoint.plan, job.execution.idle_timeout_ms)
    rises_often = ticks or checkpoint.plan.observes_watermarks or idles  # with each tick, or with each start
    bounded, execution = job.work.plan.bounded, job.execution
    plans_end = (
        bounded
        and not ticks
        and execution.end_of_input is EndOfInput.FINAL
        and isinstance(checkpoint.storage, LocalStorage)
        and not Engine(checkpoint.layout.engine).is_of_spark  # whose operators drop rows behind the end
    )
    return ControlRows(checkpoint.storage, transient=rises_often and not bounded, one_by_one=plans_end)


def _launch(query: str, job: JobSpecification, checkpoint: Checkpoint, runtime: JobRuntime, sink: Sink) -> Launch:
    physical, execution, control = checkpoint.plan, job.execution, runtime.control_rows
    clock, bounded = clock_of(physical, execution.clock_interval_ms), job.work.plan.bounded
    watermarks = restored_watermarks(physical, control)
    flushed = flushed_tables(physical)
    rows, watches = observed(lower(physical, runtime)), job.work.watches or ()
    for watch in watches:
        watch.require_start(watches)
    storage, end_planned = checkpoint.storage, False
    if isinstance(storage, LocalStorage):
        on_spark.cut_files.require_same_readers(rows, storage.root)
        tables = scanned_tables(physical.logical)
        micro_batches = partial(on_spark.cut_files.micro_batches, watches, tables, storage.root)
        end_planned = control.one_by_one and PlannedEnd(control, flushed).holds(micro_batches)
    ended = input_has_ended(control, flushed, clock)
    return Launch(
        query_name=query,
        rows=rows,
        sink=sink,
        checkpoint=checkpoint,
        control=control,
        bounded=bounded or ended,
        flushed=flushed,
        clock=clock,
        interval_ms=execution.checkpointing.interval_ms,
        paced=execution.checkpointing.min_pause_ms > 0 and not bounded,
        ended=ended,
        drained=ended and not bounded,
        end_planned=end_planned,
        has_blobs=physical.has_blobs,
        watermarks=watermarks,
        lifted=None if bounded or ended else lifted_sources(physical, control),
        idle=None if bounded or ended else idle_sources(physical, control, execution.idle_timeout_ms),
        temporary=job.place.temporary or job.place.checkpoint is None,
        end_of_input=execution.end_of_input,
        require_sink=job.work.require_sink,
        secrets=execution.secrets,
        watches=watches,
        real_time=execution.real_time,
        row_limit=row_limit_of(
            limit_of(job.work.plan),
            checkpoint.storage,
            lambda epoch: rows_kept(checkpoint, runtime.operators, runtime.spark, epoch),
        ),
    )


def _results_of(work: Work, spark: SparkSession, checkpoint: Checkpoint) -> ResultQueue:
    assert isinstance(work.plan, Output), "only a query has results for its caller"
    names = tuple(name for name, _ in columns_of(work.plan))
    if is_connect(spark):
        if work.side:
            hint = "Write INSERT INTO a table."
            raise UnsupportedError(SIDE_OUTPUT_THROUGH_CONNECT, _SIDE_OUTPUT_THROUGH_CONNECT, hint=hint)
        return StoredResults(names, spark, checkpoint.storage.location("results"))
    return ResultQueue(names, work.side)
