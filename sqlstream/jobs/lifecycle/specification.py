"""The specification of a job: its work, the folder of its checkpoint, and how it is executed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlstream.connectors import Watch
from sqlstream.connectors.secrets import masked, secrets_of_plan, without_secrets
from sqlstream.errors import ConnectorError
from sqlstream.jobs.checkpoints.fingerprint import AUTO
from sqlstream.jobs.checkpoints.own_files import Claim
from sqlstream.jobs.checkpoints.trust import SETTING as TRUST
from sqlstream.jobs.lifecycle.coordinator import (
    AT_ONCE,
    NO_RESTART,
    Checkpointing,
    EndOfInput,
    RestartStrategy,
    Retention,
    restart_strategy,
)
from sqlstream.jobs.lifecycle.observers import JobObserver
from sqlstream.jobs.lifecycle.runtime import Sources
from sqlstream.jobs.records.record import Description
from sqlstream.latency import clock_interval_ms, is_low, is_real_time
from sqlstream.planner.explain import to_json
from sqlstream.planner.node import Node
from sqlstream.planner.physical.engine import REUSES_ALL, Engine, Reuse
from sqlstream.plans import reuse_of
from sqlstream.secrets import NO_SECRETS, Secrets
from sqlstream.settings import MICRO_BATCH_DURATION, STATE_MEMORY, Settings
from sqlstream.spark.java import default_state_memory, memory_limit
from sqlstream.version import versions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from sqlstream.jobs.lifecycle.sinks import SideSinks


Sink = Callable[["DataFrame"], "DataStreamWriter"]


def no_check(batch: int) -> None:
    """Does nothing. It is the ``require_sink`` of jobs whose sinks need no check. ``batch``: the number of a
    micro-batch.
    """
    return


@dataclass(frozen=True)
class Work:
    """What a job runs: a plan whose root is an Insert or StatementSet, or an Output, whose rows ``Job.results``
    returns.

    ``sink`` makes the writer of the rows; ``side`` writes the side outputs of a query without ``sink``.
    ``require_sink`` raises an error if rows of an earlier micro-batch are lost. ``description`` is for the record in
    the checkpoint; None: the job has no record. ``watches``: filled when the plan is lowered, with what sources do
    while the job runs.
    """

    plan: Node
    sources: Sources
    sink: Sink | None = None
    side: SideSinks | None = None
    require_sink: Callable[[int], None] = no_check
    description: Description | None = None
    watches: Sequence[Watch] | None = None


@dataclass(frozen=True)
class JobLocation:
    """Where a job stores its state.

    ``checkpoint`` is the path of a directory, None for a temporary one. ``temporary``: the checkpoint is removed with
    its session. ``claim`` is the exclusive right to write in that folder; it is released when the job has ended, but
    not if the job cannot start. ``savepoints`` is the folder in which savepoints without a path are created, None for
    that of the checkpoint. ``trusts_any_owner``: state that other users have written is unpickled, too.
    """

    checkpoint: str | None = None
    temporary: bool = False
    claim: Claim | None = None
    savepoints: str | None = None
    trusts_any_owner: bool = False


@dataclass(frozen=True)
class Execution:
    """How a job is executed.

    * ``checkpointing``: when the epochs of unbounded jobs begin. ``clock_interval_ms``: the time between two ticks of
      processing time, for plans that need ticks.
    * ``engine``, ``key_groups``, ``chaining``, ``reuse``: the layout of the state, as ``open_checkpoint`` gets it.
    * ``low_latency``: a new checkpoint for which ``key_groups`` says nothing has one for each task of a shuffle,
      because each costs a call of the kernel in every micro-batch. Windows fire in the micro-batch whose rows close
      them.
    * ``restart``: what happens when the job fails. ``end_of_input``: what happens to pending windows and timers when
      bounded input has been read.
    * ``secrets``: secrets of the settings, which error messages must mask.
    * ``rows_move_time``: False if only the end of the input advances watermarks, and rows do not.
    * ``idle_timeout_ms``: after how long without rows a source is idle; 0: never.
    * ``state_memory``: the bytes of memory in which workers keep state between micro-batches.
    * ``real_time``: rows go through one by one, in epochs that are ``checkpointing.interval_ms`` long.
    """

    checkpointing: Checkpointing = AT_ONCE
    clock_interval_ms: int = 1000
    engine: str = AUTO
    key_groups: int | None = None
    chaining: bool = True
    reuse: Reuse = REUSES_ALL
    low_latency: bool = False
    restart: RestartStrategy = NO_RESTART
    end_of_input: EndOfInput = EndOfInput.FINAL
    secrets: Secrets = NO_SECRETS
    rows_move_time: bool = True
    idle_timeout_ms: int = 0
    state_memory: int = 0
    real_time: bool = False


@dataclass(frozen=True)
class JobSpecification:
    """All that is needed to start a job. ``name`` is that of Spark's query, None for a generated one. ``observers``
    are told what becomes of the job.
    """

    work: Work
    place: JobLocation = JobLocation()
    execution: Execution = Execution()
    name: str | None = None
    observers: Sequence[JobObserver] = ()


# --- Settings of a session for a job ---------------------------------------------------------------------------


PAUSE_WITHOUT_CHECKPOINT = "SS540"
END_OF_INPUT = "execution.end-of-input"
RUNTIME_MODE = "execution.runtime-mode"

_PREFIX = "execution.checkpointing"
_RETENTION = f"{_PREFIX}.externalized-checkpoint-retention"


def checkpointing_of(settings: Settings, poll_ms: Callable[[], int]) -> Checkpointing:
    """Reads the settings ``execution.checkpointing.*``. ``poll_ms`` is called for the interval between epochs if none
    is set.
    """
    interval_ms = settings[f"{_PREFIX}.interval"]
    retention = settings[_RETENTION]
    return Checkpointing(
        interval_ms=poll_ms() if interval_ms is None else interval_ms,
        min_pause_ms=settings[f"{_PREFIX}.min-pause"],
        timeout_ms=settings[f"{_PREFIX}.timeout"],
        tolerable_failures=settings[f"{_PREFIX}.tolerable-failed-checkpoints"],
        retention=Retention.ALWAYS if retention is None else Retention(retention),
    )


def wanted_ms(settings: Settings) -> int:
    """How long a micro-batch should take at most while rows wait; 0: as long as it takes. Sources measure it from one
    micro-batch to the next, so it is longer than what lies between them.
    """
    wanted: int = settings[MICRO_BATCH_DURATION]
    waits = max(settings[f"{_PREFIX}.interval"] or 0, settings[f"{_PREFIX}.min-pause"])
    return wanted and max(wanted, 2 * waits)


def end_of_input_of(settings: Settings, *, named: bool) -> EndOfInput:
    """The setting ``execution.end-of-input``. The default is PAUSE where the next run finds the checkpoint again: its
    directory is set, the job has a name (``named``), and the checkpoint is retained. It is FINAL for finished data
    ('execution.runtime-mode' = 'batch').

    Raises ConnectorError SS540 where a job is to pause in a checkpoint that is deleted at its end.
    """
    given = settings[END_OF_INPUT]
    retention = settings.text(_RETENTION)
    kept = retention is None
    if given == EndOfInput.PAUSE.value and not kept:
        message = f"a job cannot pause at the end of its input and delete its checkpoint there ('{_RETENTION}')"
        hint = f"RESET '{_RETENTION}', which is '{retention}', or SET '{END_OF_INPUT}' = 'final'."
        raise ConnectorError(PAUSE_WITHOUT_CHECKPOINT, message, hint=hint)
    if given is not None:
        return EndOfInput(given)
    if settings[RUNTIME_MODE] == "batch":
        return EndOfInput.FINAL
    found_again = named and kept and settings[f"{_PREFIX}.dir"] is not None
    return EndOfInput.PAUSE if found_again else EndOfInput.FINAL


def place_of(settings: Settings, checkpoint: str, claim: Claim, *, named: bool) -> JobLocation:
    """Returns where a job stores its checkpoint and its savepoints, according to its settings.

    ``checkpoint``: the folder of the job. ``claim``: the exclusive right to write in it. ``named``: the job has a name,
    under which the next run finds the checkpoint again.
    """
    return JobLocation(
        checkpoint=checkpoint,
        temporary=not named or settings[f"{_PREFIX}.dir"] is None,
        claim=claim,
        savepoints=settings[f"{_PREFIX}.savepoint-dir"],
        trusts_any_owner=settings[TRUST],
    )


def execution_of(settings: Settings, poll_ms: Callable[[], int], *, named: bool) -> Execution:
    """Returns how a job is run according to its settings: checkpoints, engine, key groups, end of the input.

    ``poll_ms`` gives the interval between epochs in ms where none is set; ``named``: the job has a name, so that its
    next run finds its checkpoint. Raises the errors of ``checkpointing_of`` and ``end_of_input_of``.
    """
    return Execution(
        checkpointing=checkpointing_of(settings, poll_ms),
        clock_interval_ms=clock_interval_ms(settings),
        engine=Engine.REAL_TIME.value if is_real_time(settings) else settings["sqlstream.engine"],
        key_groups=settings["pipeline.max-parallelism"],
        chaining=settings["pipeline.operator-chaining.enabled"],
        reuse=reuse_of(settings),
        low_latency=is_low(settings),
        restart=restart_strategy(settings),
        end_of_input=end_of_input_of(settings, named=named),
        secrets=settings.secrets,
        rows_move_time=settings[RUNTIME_MODE] != "batch",
        idle_timeout_ms=settings["table.exec.source.idle-timeout"],
        state_memory=state_memory_of(settings),
        real_time=is_real_time(settings),
    )


def state_memory_of(settings: Settings) -> int:
    """The bytes of memory in which workers keep the state of a job between micro-batches, on each machine."""
    stated = settings[STATE_MEMORY]
    return default_state_memory(memory_limit()) if stated is None else int(stated)


def description_of(plan: Node, sql: str, settings: Settings) -> Description:
    """Describes what a job runs, for its record; secrets are masked."""
    given = dict(masked(settings.given.items()))
    return Description(secrets_of_plan(plan).hidden(sql), to_json(without_secrets(plan)), given, versions())
