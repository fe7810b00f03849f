"""The specification of a job: its work, the folder of its checkpoint, and how it is executed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlstream.jobs.identity.layout import AUTO
from sqlstream.jobs.lifecycle.coordinator import AT_ONCE, Checkpointing
from sqlstream.jobs.lifecycle.end_of_input import EndOfInput
from sqlstream.jobs.lifecycle.restart import NO_RESTART, RestartStrategy
from sqlstream.jobs.lifecycle.runtime import Sources
from sqlstream.jobs.records.claim import Claim
from sqlstream.jobs.records.record import Description
from sqlstream.planner.node import Node
from sqlstream.secrets import NO_SECRETS, Secrets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from sqlstream.sinks import SideSinks

Sink = Callable[["DataFrame"], "DataStreamWriter"]


def anything_goes(batch: int) -> None:
    return None


@dataclass(frozen=True)
class Work:
    """A plan whose root is an Output (without ``sink``: rows come through ``Job.results``) or an Insert.

    ``sink`` gets the rows and returns their writer, not yet started; ``side`` gets what a query without ``sink`` has
    for other tables. ``require_sink`` raises an error where what a micro-batch has written no longer counts.
    ``description`` is what the record in the checkpoint says of the job, which is written for jobs with one.
    """

    plan: Node
    sources: Sources
    sink: Sink | None = None
    side: SideSinks | None = None
    require_sink: Callable[[int], None] = anything_goes
    description: Description | None = None


@dataclass(frozen=True)
class JobLocation:
    """``checkpoint`` is the path of a directory; None: a temporary one. ``temporary``: it vanishes with its session.

    ``claim`` of that folder: released when the job has ended, not where it cannot start. ``savepoints`` is where
    savepoints go that are given no path; None: beside the checkpoint. ``trusts_any_owner``: state that is unpickled may
    be that of any user.
    """

    checkpoint: str | None = None
    temporary: bool = False
    claim: Claim | None = None
    savepoints: str | None = None
    trusts_any_owner: bool = False


@dataclass(frozen=True)
class Execution:
    """``checkpointing`` says when the epochs of unbounded jobs begin, ``clock_interval_ms`` is the time between ticks
    of processing time, where something waits for them.

    ``gear``, ``key_groups``, ``chaining``: see ``open_checkpoint``. ``restart`` says what happens when the job fails,
    ``end_of_input`` what becomes of what is pending when bounded input has been read. ``secrets`` are those of the
    settings, which no failure may show, as it shows none of the tables. ``rows_move_time``: see ``JobRuntime``.
    ``idle_timeout_ms``: see ``idle_sources``.
    """

    checkpointing: Checkpointing = AT_ONCE
    clock_interval_ms: int = 1000
    gear: str = AUTO
    key_groups: int | None = None
    chaining: bool = True
    restart: RestartStrategy = NO_RESTART
    end_of_input: EndOfInput = EndOfInput.FINAL
    secrets: Secrets = NO_SECRETS
    rows_move_time: bool = True
    idle_timeout_ms: int = 0


@dataclass(frozen=True)
class JobSpecification:
    """``name`` None: that of its query."""

    work: Work
    place: JobLocation = JobLocation()
    execution: Execution = Execution()
    name: str | None = None
