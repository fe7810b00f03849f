"""Statements about jobs: those that the session has started, and all with a record in the checkpoint directory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from sqlstream.errors import BindError, SqlStreamError
from sqlstream.grammar import nodes
from sqlstream.planner.suggestions import did_you_mean
from sqlstream.results import Rows

if TYPE_CHECKING:
    from sqlstream.jobs.records.history import CheckpointLine
    from sqlstream.jobs.records.record import JobRecord

NO_JOB = "SS230"

STATEMENTS = nodes.StopJob | nodes.CheckpointJob | nodes.SavepointJob
"""Those about one job; SHOW JOBS, SHOW CHECKPOINTS and DESCRIBE JOB are nodes of their own kind."""


class ControlledJob(Protocol):
    """A job of this session (``Job``), or of another process (``RecordedJob``, ``SubmittedJob``)."""

    @property
    def name(self) -> str: ...

    @property
    def record(self) -> JobRecord: ...

    def record_now(self) -> JobRecord:
        """The record, read again."""
        ...

    @property
    def id(self) -> str: ...

    @property
    def notes(self) -> tuple[tuple[str, str], ...]:
        """What is known of it beside its record."""
        ...

    def stop(self, *, savepoint: str | bool = False, drain: bool = False) -> str | None: ...

    def checkpoint(self) -> int | None: ...

    def savepoint(self, path: str | None = None) -> str: ...

    def checkpoints(self) -> tuple[CheckpointLine, ...]: ...


def is_job_statement(statement: nodes.Statement) -> bool:
    match statement:
        case nodes.Show(what="JOBS" | "CHECKPOINTS") | nodes.Describe(kind="JOB"):
            return True
    return isinstance(statement, STATEMENTS)


def job_statement(statement: nodes.Statement, jobs: Sequence[ControlledJob]) -> Rows:
    """What the statement shows; a job that was stopped as DESCRIBE JOB shows it. BindError SS230 for an unknown job.

    ``jobs`` are those of the session first.
    """
    from sqlstream.statements.job_listings import job_rows, properties  # loads what no other statement needs

    try:
        match statement:
            case nodes.Show(what="JOBS"):
                return job_rows(job.record for job in jobs)
            case nodes.Show(what="CHECKPOINTS"):
                return _checkpoints(statement.name, jobs)
            case nodes.Describe():
                job = named_job(statement.name, jobs)
                return properties(job.record, job.notes)
            case nodes.StopJob():
                return _stopped(statement, jobs)
            case nodes.CheckpointJob():
                job = named_job(statement.job, jobs)
                epoch = job.checkpoint()
                return Rows.of_text(("job name", "epoch"), [(job.name, None if epoch is None else str(epoch))])
            case nodes.SavepointJob():
                job = named_job(statement.job, jobs)
                return Rows.of_text(("job name", "savepoint path"), [(job.name, job.savepoint(statement.path))])
    except SqlStreamError as error:
        raise _at(error, statement) from error.__cause__
    raise TypeError(type(statement).__name__)


def _stopped(statement: nodes.StopJob, jobs: Sequence[ControlledJob]) -> Rows:
    from sqlstream.statements.job_listings import properties

    job = named_job(statement.job, jobs)
    path = job.stop(savepoint=statement.path or statement.savepoint, drain=statement.drain)
    return properties(job.record_now(), [*(() if path is None else [("savepoint path", path)]), *job.notes])


def _checkpoints(name: nodes.Name | None, jobs: Sequence[ControlledJob]) -> Rows:
    """Of one job, or of all."""
    from sqlstream.statements.job_listings import CHECKPOINT_COLUMNS, checkpoint_rows

    shown = jobs if name is None else [named_job(name, jobs)]
    rows = [row for job in shown for row in checkpoint_rows(job.name, job.checkpoints())]
    return Rows.of_text(CHECKPOINT_COLUMNS, rows)


def named_job(name: nodes.Name, jobs: Sequence[ControlledJob]) -> ControlledJob:
    """By name, in any case, or by id."""
    wanted = str(name).casefold()
    for job in jobs:
        if wanted in (job.name.casefold(), job.id.casefold()):
            return job
    none = "This session has started no job; SET 'execution.checkpointing.dir' to see those of others."
    hint = did_you_mean(str(name), [job.name for job in jobs], "jobs") or none
    raise BindError(NO_JOB, f'job "{name}" does not exist', name.span, hint=hint)


def _at(error: SqlStreamError, statement: nodes.Statement) -> SqlStreamError:
    """The error with the place of the statement, where it has none of its own."""
    return SqlStreamError.of(d if d.span is not None else replace(d, span=statement.span) for d in error.diagnostics)
