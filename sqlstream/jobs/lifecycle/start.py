"""Starts a job from its specification: its checkpoint, its DataFrame, its sink, its record."""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING

from sqlstream.errors import UnsupportedError
from sqlstream.jobs.checkpoints.checkpoint import Checkpoint, open_checkpoint
from sqlstream.jobs.checkpoints.control import ControlRows
from sqlstream.jobs.checkpoints.storage import storage_at
from sqlstream.jobs.checkpoints.watermarks import restored_watermarks
from sqlstream.jobs.identity.declared_states import declared_states
from sqlstream.jobs.identity.trust import require_trusted, unpickles_state
from sqlstream.jobs.lifecycle.clock import clock_of
from sqlstream.jobs.lifecycle.enough import enough_of
from sqlstream.jobs.lifecycle.idle_sources import idle_sources
from sqlstream.jobs.lifecycle.job import Job
from sqlstream.jobs.lifecycle.launch import Launch, flushed_tables, input_has_ended
from sqlstream.jobs.lifecycle.results import ResultQueue
from sqlstream.jobs.lifecycle.runtime import JobRuntime
from sqlstream.jobs.lifecycle.specification import JobSpecification, Sink, Work
from sqlstream.jobs.lifecycle.stored_results import StoredResults
from sqlstream.jobs.records.recorder import recorder_of
from sqlstream.jobs.reports.progress import observed
from sqlstream.jobs.reports.state_counts import rows_kept, waiting_in
from sqlstream.jobs.reports.table_counts import CountedSources
from sqlstream.jobs.savepoints.wholeness import require_whole_checkpoint
from sqlstream.planner.lowering import lower
from sqlstream.planner.nodes import Output
from sqlstream.planner.operators.top_n import rows_wanted
from sqlstream.results import columns_of
from sqlstream.spark.connect import is_connect
from sqlstream.user_folders import temporary_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SIDE_OUTPUT_THROUGH_CONNECT = "SS348"

_SIDE_OUTPUT_THROUGH_CONNECT = (
    "LATE DATA TO and ON ERROR TO are not executed for a query on its own through Spark Connect"
)

_numbers = itertools.count(1)


def start_job(spark: SparkSession, job: JobSpecification) -> Job:
    """Run what is specified. Errors as those of ``recorder_of``, ``require_whole_checkpoint``, ``open_checkpoint``,
    ``require_trusted`` and ``Launch.start``."""
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
        execution.gear,
        execution.key_groups,
        declared_states(sources),
        chaining=execution.chaining,
        reads_files=sources.reads_files,
    )
    if not job.place.trusts_any_owner and unpickles_state(job.work.plan, sources.function):
        require_trusted(checkpoint.storage)
    return checkpoint


def _control_rows(checkpoint: Checkpoint, job: JobSpecification) -> ControlRows:
    ticks = bool(clock_of(checkpoint.plan, job.execution.clock_interval_ms))
    rises_often = ticks or checkpoint.plan.observes_watermarks  # with each tick, or with each start
    return ControlRows(checkpoint.storage, transient=rises_often and not job.work.plan.bounded)


def _launch(query: str, job: JobSpecification, checkpoint: Checkpoint, runtime: JobRuntime, sink: Sink) -> Launch:
    physical, execution, control = checkpoint.plan, job.execution, runtime.control_rows
    clock, bounded = clock_of(physical, execution.clock_interval_ms), job.work.plan.bounded
    watermarks = restored_watermarks(physical, control)
    flushed = flushed_tables(physical)
    ended = input_has_ended(control, flushed, clock)
    return Launch(
        query_name=query,
        rows=observed(lower(physical, runtime)),
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
        watermarks=watermarks,
        idle=None if bounded or ended else idle_sources(physical, control, execution.idle_timeout_ms),
        temporary=job.place.temporary or job.place.checkpoint is None,
        end_of_input=execution.end_of_input,
        require_sink=job.work.require_sink,
        secrets=execution.secrets,
        enough=enough_of(
            rows_wanted(job.work.plan),
            checkpoint.storage,
            lambda: rows_kept(checkpoint, runtime.operators, runtime.spark),
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
