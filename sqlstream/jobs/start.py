"""From a plan to a running job: its checkpoint, its DataFrame, its sink, its record."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from sqlstream.errors import UnsupportedError
from sqlstream.jobs.checkpoint import Checkpoint, open_checkpoint
from sqlstream.jobs.claim import Claim
from sqlstream.jobs.clock import clock_of
from sqlstream.jobs.control import ControlRows
from sqlstream.jobs.coordinator import AT_ONCE, Checkpointing
from sqlstream.jobs.declared_states import declared_states
from sqlstream.jobs.end_of_input import EndOfInput
from sqlstream.jobs.job import Job
from sqlstream.jobs.launch import Launch, Sink, anything_goes, flushed_tables, input_has_ended
from sqlstream.jobs.layout import AUTO
from sqlstream.jobs.progress import observed
from sqlstream.jobs.recorder import recorder_of
from sqlstream.jobs.records import Description
from sqlstream.jobs.restart import NO_RESTART, RestartStrategy
from sqlstream.jobs.results import Results
from sqlstream.jobs.runtime import JobRuntime, Sources
from sqlstream.jobs.savepoints.wholeness import require_whole_checkpoint
from sqlstream.jobs.state_counts import waiting_in
from sqlstream.jobs.storage import storage_at
from sqlstream.jobs.stored_results import StoredResults
from sqlstream.jobs.table_counts import CountedSources
from sqlstream.jobs.trust import require_trusted, unpickles_state
from sqlstream.jobs.watermarks import restored_watermarks
from sqlstream.planner import properties
from sqlstream.planner.lowering import lower
from sqlstream.planner.nodes import Node, Output
from sqlstream.results import columns_of
from sqlstream.secrets import NO_SECRETS, Secrets
from sqlstream.spark import is_connect
from sqlstream.user_folders import temporary_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sqlstream.sinks import SideSinks

SIDE_OUTPUT_THROUGH_CONNECT = "SS348"

_SIDE_OUTPUT_THROUGH_CONNECT = (
    "LATE DATA TO and ON ERROR TO are not executed for a query on its own through Spark Connect"
)

_numbers = itertools.count(1)


def start_job(
    spark: SparkSession,
    plan: Node,
    sources: Sources,
    *,
    sink: Sink | None = None,
    name: str | None = None,
    checkpoint_dir: str | None = None,
    checkpointing: Checkpointing = AT_ONCE,
    clock_interval_ms: int = 1000,
    gear: str = AUTO,
    key_groups: int | None = None,
    chaining: bool = True,
    side: SideSinks | None = None,
    restart: RestartStrategy = NO_RESTART,
    description: Description | None = None,
    savepoints: str | None = None,
    temporary: bool = False,
    end_of_input: EndOfInput = EndOfInput.FINAL,
    claim: Claim | None = None,
    trusts_any_owner: bool = False,
    require_sink: Callable[[int], None] = anything_goes,
    secrets: Secrets = NO_SECRETS,
) -> Job:
    """Run a plan whose root is an Output (without ``sink``: rows come through ``Job.results``) or an Insert.

    ``sink`` gets the rows and returns their writer, not yet started. ``checkpoint_dir`` None: a temporary directory.
    ``checkpointing`` says when the epochs of unbounded jobs begin, ``clock_interval_ms`` is the time between ticks of
    processing time, where something waits for them. ``gear``, ``key_groups``, ``chaining``: see ``open_checkpoint``.
    ``side`` gets what a query without ``sink`` has for other tables. ``restart`` says what happens when the job fails.
    ``description`` is what the record in the checkpoint says of the job, which is written for jobs with one.
    ``savepoints`` is where savepoints go that are given no path; None: beside the checkpoint. ``temporary``: the
    checkpoint vanishes with its session. ``end_of_input`` says what becomes of what is pending when bounded input has
    been read. ``claim`` of the checkpoint's folder: released when the job has ended, not where it cannot start.
    ``require_sink``: see ``Launch``. ``trusts_any_owner``: state that is unpickled may be that of any user.
    ``secrets`` are those of the settings, which no failure may show, as it shows none of the tables.
    """
    number = next(_numbers)
    path = checkpoint_dir or str(temporary_folder("sqlstream-checkpoint-"))
    recorder = recorder_of(path, spark, description, checkpointing.retention, claim)
    require_whole_checkpoint(storage_at(path, spark))
    declared = declared_states(sources)
    reads_files = sources.reads_files
    checkpoint = open_checkpoint(
        path, plan, spark, gear, key_groups, declared, chaining=chaining, reads_files=reads_files
    )
    physical = checkpoint.plan
    if not trusts_any_owner and unpickles_state(plan, sources.function):
        require_trusted(checkpoint.storage)
    clock, bounded = clock_of(physical, clock_interval_ms), properties.bounded(plan)
    rises_often = bool(clock) or physical.observes_watermarks  # with each tick, or with each start
    control = ControlRows(checkpoint.storage, transient=rises_often and not bounded)
    watermarks = restored_watermarks(physical, control)
    runtime = JobRuntime(spark, CountedSources(sources), control, checkpoint.layout.key_groups, checkpoint.run)
    rows = lower(physical, runtime)
    flushed = flushed_tables(physical)
    results = None
    if sink is None:
        results = _results_of(plan, spark, checkpoint, side)
        sink = results.sink
    ended = input_has_ended(control, flushed, clock)
    launch = Launch(
        query_name=f"{name or 'query'}-{number}",
        rows=observed(rows),
        sink=sink,
        checkpoint=checkpoint,
        control=control,
        bounded=bounded or ended,
        flushed=flushed,
        clock=clock,
        interval_ms=checkpointing.interval_ms,
        paced=checkpointing.min_pause_ms > 0 and not bounded,
        ended=ended,
        drained=ended and not bounded,
        watermarks=watermarks,
        temporary=temporary or checkpoint_dir is None,
        end_of_input=end_of_input,
        require_sink=require_sink,
        secrets=secrets,
    )
    count_waiting = partial(waiting_in, checkpoint, runtime.operators, spark)
    name = name or launch.query_name
    return Job(name, plan, launch, results, recorder, checkpointing, restart, savepoints, count_waiting)


def _results_of(plan: Node, spark: SparkSession, checkpoint: Checkpoint, side: SideSinks | None) -> Results:
    assert isinstance(plan, Output), "only a query has results for its caller"
    names = tuple(name for name, _ in columns_of(plan))
    if is_connect(spark):
        if side:
            hint = "Write INSERT INTO a table."
            raise UnsupportedError(SIDE_OUTPUT_THROUGH_CONNECT, _SIDE_OUTPUT_THROUGH_CONNECT, hint=hint)
        return StoredResults(names, spark, checkpoint.storage.location("results"))
    return Results(names, side)
