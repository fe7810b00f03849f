"""The settings of a session for a job: where it keeps its state, how it is executed, what its record says."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlstream.connectors.secrets import masked, secrets_of_plan, without_secrets
from sqlstream.errors import ConnectorError
from sqlstream.jobs.identity.trust import SETTING as TRUST
from sqlstream.jobs.lifecycle.coordinator import Checkpointing, Retention
from sqlstream.jobs.lifecycle.end_of_input import EndOfInput
from sqlstream.jobs.lifecycle.restart import restart_strategy
from sqlstream.jobs.lifecycle.specification import Execution, JobLocation
from sqlstream.jobs.records.claim import Claim
from sqlstream.jobs.records.record import Description
from sqlstream.planner.explain import to_json
from sqlstream.planner.node import Node
from sqlstream.versions import versions

if TYPE_CHECKING:
    from sqlstream.settings import Settings

PAUSE_WITHOUT_CHECKPOINT = "SS540"
END_OF_INPUT = "execution.end-of-input"
RUNTIME_MODE = "execution.runtime-mode"

_PREFIX = "execution.checkpointing"
_RETENTION = f"{_PREFIX}.externalized-checkpoint-retention"


def checkpointing_of(settings: Settings, poll_ms: Callable[[], int]) -> Checkpointing:
    """The settings ``execution.checkpointing.*``; ``poll_ms`` gives the interval where they say none."""
    interval_ms = settings[f"{_PREFIX}.interval"]
    retention = settings[_RETENTION]
    return Checkpointing(
        interval_ms=poll_ms() if interval_ms is None else interval_ms,
        min_pause_ms=settings[f"{_PREFIX}.min-pause"],
        timeout_ms=settings[f"{_PREFIX}.timeout"],
        tolerable_failures=settings[f"{_PREFIX}.tolerable-failed-checkpoints"],
        retention=Retention.ALWAYS if retention is None else Retention(retention),
    )


def end_of_input_of(settings: Settings, *, named: bool) -> EndOfInput:
    """The setting ``execution.end-of-input``. Not given, it is PAUSE where the next run finds the checkpoint again: the
    user has named its directory, it is that of a job with a name (``named``), and it is kept when the job ends. Of
    finished data ('execution.runtime-mode' = 'batch') nothing comes in a next run.

    ConnectorError SS540 where a job is to pause in a checkpoint that goes away at its end.
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
    if settings[RUNTIME_MODE] == "batch":  # of whose input nothing comes later
        return EndOfInput.FINAL
    found_again = named and kept and settings[f"{_PREFIX}.dir"] is not None
    return EndOfInput.PAUSE if found_again else EndOfInput.FINAL


def place_of(settings: Settings, checkpoint: str, claim: Claim, *, named: bool) -> JobLocation:
    """The checkpoint and savepoint folders of a job; ``named``: as in ``end_of_input_of``."""
    return JobLocation(
        checkpoint=checkpoint,
        temporary=not named or settings[f"{_PREFIX}.dir"] is None,
        claim=claim,
        savepoints=settings[f"{_PREFIX}.savepoint-dir"],
        trusts_any_owner=settings[TRUST],
    )


def execution_of(settings: Settings, poll_ms: Callable[[], int], *, named: bool) -> Execution:
    """How a job is executed. Arguments and errors as those of ``checkpointing_of`` and ``end_of_input_of``."""
    return Execution(
        checkpointing=checkpointing_of(settings, poll_ms),
        clock_interval_ms=settings["sqlstream.clock-interval"],
        gear=settings["sqlstream.gear"],
        key_groups=settings["pipeline.max-parallelism"],
        chaining=settings["pipeline.operator-chaining.enabled"],
        restart=restart_strategy(settings),
        end_of_input=end_of_input_of(settings, named=named),
        secrets=settings.secrets,
        rows_move_time=settings[RUNTIME_MODE] != "batch",
        idle_timeout_ms=settings["table.exec.source.idle-timeout"],
    )


def description_of(plan: Node, sql: str, settings: Settings) -> Description:
    """The record's description of what the job runs, without secrets."""
    given = dict(masked(settings.given.items()))
    return Description(secrets_of_plan(plan).hidden(sql), to_json(without_secrets(plan)), given, versions())
