"""The command submit: an INSERT as a process of its own, which goes on when the shell ends."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from sqlstream.batch import Batch, chosen, set_of_streams
from sqlstream.catalog import Catalog
from sqlstream.catalogs.declaring import KINDS, create_table
from sqlstream.catalogs.store import InMemory
from sqlstream.errors import ExecutionError, SqlStreamError, UnsupportedError
from sqlstream.folders import JobName, insert_name, set_name
from sqlstream.grammar import nodes, to_sql
from sqlstream.grammar.nodes import Statement
from sqlstream.grammar.quoting import quote_string
from sqlstream.jobs import Job, JobState
from sqlstream.jobs.checkpoints.storage import local_storage_at
from sqlstream.jobs.records.record import process_here
from sqlstream.jobs.records.submissions import (
    Submission,
    SubmittedJob,
    checkpoints_of_submitted,
    new_folder,
    script_of,
    started_process,
    submitted_job,
    write_submission,
)
from sqlstream.planner.catalog import Table
from sqlstream.plans import Root, looked_up_tables, scanned_tables, side_tables
from sqlstream.secrets import shown_script
from sqlstream.session import Session
from sqlstream.settings import JOBS_OF_SHELL
from sqlstream.shell.failures import name_in_statement, submitted_failure
from sqlstream.statements.checking import check_script
from sqlstream.statements.materialized_views import declared_materialized, insert_of
from sqlstream.statements.registry import is_definition
from sqlstream.views.server import checkpoints_of_views
from sqlstream.workspace import Workspace

# --- Definitions of the shell, as a script for another process -------------------------------------------------


_Named = (
    nodes.CreateTable | nodes.CreateView | nodes.CreateMaterializedView | nodes.CreateFunction | nodes.CreateDatabase
    | nodes.Drop | nodes.AlterTable | nodes.AlterView | nodes.AlterFunction | nodes.AlterDatabase
)  # fmt: skip


@dataclass(frozen=True)
class _Materialized:
    """Statements that create or drop a materialized view, for a process that is not to start its job."""

    name: nodes.Name
    as_table: Statement
    as_view: Statement


class Definitions:
    """The statements of a session that define temporary objects, in their order, so that a job in another process can
    repeat them.

    Objects in a permanent catalog are available to other processes anyway.
    """

    def __init__(self) -> None:
        self._statements: list[Statement | _Materialized] = []

    def add(self, statement: Statement, catalog: Catalog) -> None:
        """Records a statement that was successful, if it defines something. For CREATE TABLE … AS it records the
        definition of the table alone.
        """
        passing = nodes.Set | nodes.Reset | nodes.AlterMaterializedView
        if not is_definition(statement) or isinstance(statement, passing):
            return
        if isinstance(statement, _Named) and _lasts(statement, catalog):
            return
        if isinstance(statement, nodes.CreateMaterializedView):
            self._statements.append(_kept(statement, catalog))
            return
        if isinstance(statement, nodes.Drop) and statement.kind in KINDS:
            table, view = replace(statement, kind="TABLE"), replace(statement, kind="VIEW")
            self._statements.append(_Materialized(statement.name, table, view))
            return
        if isinstance(statement, nodes.CreateTable) and statement.query is not None:
            exists, temporary = statement.if_not_exists, statement.temporary
            statement = replace(_table(statement.name, catalog), if_not_exists=exists, temporary=temporary)
        self._statements.append(statement)

    def script(self, settings: Mapping[str, str], statement: Statement) -> str:
        """A script that repeats the definitions and runs the statement. It contains the secrets of the tables."""
        given = {key: value for key, value in settings.items() if key != JOBS_OF_SHELL}
        sets = [f"SET {quote_string(key)} = {quote_string(value)}" for key, value in given.items()]
        return "".join(f"{text};\n" for text in [*sets, *self._texts_for(statement), to_sql(statement)])

    def _texts_for(self, statement: Statement) -> Iterator[str]:
        """The definitions for a statement: a view is created by its own statement; another view reads its changes, all
        else its rows."""
        creates = isinstance(statement, nodes.CreateMaterializedView)
        for earlier in self._statements:
            if not isinstance(earlier, _Materialized):
                yield to_sql(earlier)
            elif not (creates and earlier.name == getattr(statement, "name", None)):
                yield to_sql(earlier.as_view if creates else earlier.as_table)


def _kept(statement: nodes.CreateMaterializedView, catalog: Catalog) -> _Materialized:
    replaces, names = statement.replace, tuple(c.name for c in statement.columns)
    table = replace(_table(statement.name, catalog), replace=replaces, if_not_exists=statement.if_not_exists)
    view = nodes.CreateView(statement.name, statement.query, names, statement.if_not_exists, replace=replaces)
    return _Materialized(statement.name, table, view)


def _table(name: nodes.Name, catalog: Catalog) -> nodes.CreateTable:
    table = catalog.required(name)
    assert isinstance(table, Table)
    return replace(create_table(table), name=name)


def _lasts(statement: _Named, catalog: Catalog) -> bool:
    """Whether the object of a statement is stored outside of the session."""
    if getattr(statement, "temporary", False) or (isinstance(statement, nodes.Drop) and statement.kind == "CATALOG"):
        return False
    of_database = isinstance(statement, nodes.CreateDatabase | nodes.AlterDatabase)
    of_database |= isinstance(statement, nodes.Drop) and statement.kind == "DATABASE"
    parts = statement.name.parts
    named = parts[0] if len(parts) > (1 if of_database else 2) else catalog.current[0]
    return not isinstance(catalog.mount(named).store, InMemory)


NOT_STARTED = "SS462"
IN_THE_SESSION = "SS463"

Submitted = nodes.Insert | nodes.StatementSet | nodes.CreateMaterializedView
"""Statements that can run on their own."""

_DIRECTORY, _NAME, _END = "execution.checkpointing.dir", "pipeline.name", "execution.end-of-input"
_LOG_LINES = 12
_LOOK_SECONDS = 0.2


class Submitter:
    """Starts the INSERTs of a session as jobs in processes of their own."""

    def __init__(self, session: Session, environment: Mapping[str, str] | None = None) -> None:
        self._session = session
        self._definitions = Definitions()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._environment = dict(os.environ if environment is None else environment)

    def remember(self, statement: nodes.Statement) -> None:
        """Record a definition, so that submitted jobs can repeat it."""
        self._definitions.add(statement, self._session.workspace.catalog)

    def submit(self, statement: Submitted) -> Submission:
        """Start the job. SqlStreamErrors for wrong statements, UnsupportedError SS463 where it needs this session."""
        self._require_lasting(statement)
        settings, checkpoint = self._settings(statement)
        script = self._definitions.script(settings, statement)
        if wrong := check_script(script, Workspace()):
            raise SqlStreamError.of(wrong)
        name = settings[_NAME]
        folder = new_folder(name)
        script_of(folder).write_text(shown_script(script), encoding="utf-8")
        submitted = time.time()
        process = self._started(folder, script)
        submission = Submission(
            folder, name, checkpoint, process_here(process.pid), submitted, shown_script(to_sql(statement))
        )
        write_submission(submission)
        return submission

    def wait(self, submission: Submission) -> SubmittedJob:
        """Wait until the job runs or has ended. ExecutionError SS462 where it did not start."""
        while True:
            self._reap()
            job = submitted_job(submission)
            if job.storage is not None or job.record.status == "RUNNING":
                return job
            if submission.is_over:
                return self._ended(submission)
            time.sleep(_LOOK_SECONDS)

    def _ended(self, submission: Submission) -> SubmittedJob:
        job = submitted_job(submission)
        if job.record.status in ("FINISHED", "STOPPED"):
            return job
        raise ExecutionError(
            NOT_STARTED,
            f'job "{submission.job}" did not start: its process has ended with exit status {submission.exit_status}',
            detail=submission.log_end(_LOG_LINES) or None,
            hint=f'All that it has said is in "{submission.log}".',
        )

    def _started(self, folder: Path, script: str) -> subprocess.Popen[bytes]:
        """The process that waits for that of the job. The script is sent through a pipe, because it may hold
        secrets."""
        master = [] if self._session.master is None else ["--master", self._session.master]
        command = [sys.executable, "-m", "sqlstream", "run", "-", *master]
        process = started_process(folder, command, self._environment, script)
        self._processes.append(process)
        return process

    def _reap(self) -> None:
        """Ask for the exit status of ended processes, which are zombies until then."""
        self._processes = [process for process in self._processes if process.poll() is None]

    def close(self) -> None:
        """Release the processes, which continue to run."""
        self._reap()
        for process in self._processes:
            process.returncode = 0  # else Python warns of processes that nobody waits for

    def _settings(self, statement: Submitted) -> tuple[Mapping[str, str], str]:
        """The settings of the job and the path of its checkpoint: in the directory of the session's settings, or else
        in the user's, under a name that no earlier job has there."""
        workspace = self._session.workspace
        given = dict(workspace.settings.given)
        if isinstance(statement, nodes.CreateMaterializedView):
            name = workspace.catalog.name_of(statement.name)
            return {**given, _NAME: name}, f"{checkpoints_of_views(workspace.settings)}/{name}"
        wanted = workspace.settings[_NAME] or _default_name(statement, workspace).now
        directory = workspace.settings[_DIRECTORY]
        if directory is not None:
            local = local_storage_at(directory)
            given[_DIRECTORY] = directory = directory if local is None else str(local.root)
            return {**given, _NAME: wanted}, f"{directory.rstrip('/')}/{wanted}"
        parent = checkpoints_of_submitted()
        name = _unused(wanted, parent)
        # As in the session, whose checkpoints do not outlive it either.
        own = {_DIRECTORY: str(parent), _NAME: name, _END: given.get(_END, "final")}
        return {**given, **own}, str(parent / name)

    def _require_lasting(self, statement: Submitted) -> None:
        for table in _tables_of(statement, self._session.workspace):
            if table.connector == "memory":
                raise UnsupportedError(
                    IN_THE_SESSION,
                    f'the rows of table "{table.name}" live in this session, which another process does not see',
                    statement.span,
                    hint="Use the connector filesystem, or SET 'shell.jobs' = 'attached'.",
                )


def _default_name(statement: nodes.Insert | nodes.StatementSet, workspace: Workspace) -> JobName:
    if isinstance(statement, nodes.StatementSet):
        return set_name(workspace.catalog.required(insert.target).name for insert in statement.inserts)
    return insert_name(workspace.catalog.required(statement.target).name)


def _unused(wanted: str, parent: Path) -> str:
    """The name, with a number appended where another job has it."""
    number, name = 1, wanted
    while (parent / name).exists():
        number += 1
        name = f"{wanted}__{number}"
    return name


def _tables_of(statement: Submitted, workspace: Workspace) -> list[Table]:
    """All tables that a statement reads and writes."""
    if isinstance(statement, nodes.CreateMaterializedView):
        kept, _ = insert_of(declared_materialized(statement, workspace, ""), workspace)
        return [*scanned_tables(kept), *looked_up_tables(kept), *side_tables(kept)]
    if isinstance(statement, nodes.StatementSet):
        plan: Root | Batch = set_of_streams(statement, workspace)
        targets = [insert.target for insert in statement.inserts]
    else:
        plan = chosen(statement, workspace)
        targets = [statement.target]
    written = [workspace.catalog.required(local) for local in targets]
    tables = [relation for relation in written if isinstance(relation, Table)]
    if isinstance(plan, Batch):
        return [*tables, *plan.tables]
    return [*tables, *scanned_tables(plan), *looked_up_tables(plan), *side_tables(plan)]


def running(jobs: Iterable[Job], statement: Submitted) -> Job | None:
    """The running job of the session that executes the same statement; None if there is none."""
    written = to_sql(statement)
    living = (job for job in jobs if job.state in (JobState.RUNNING, JobState.RESTARTING))
    return next((job for job in living if job.record.description.sql == written), None)


def submitted_text(job: SubmittedJob) -> str:
    """The message about a submitted job: that it runs, and how to show and stop it; or that it has ended or failed, and
    where its log is.
    """
    submission, life = job.submission, job.record.life
    if (failure := submitted_failure(job)) is not None:
        return failure
    if not job.record.is_running:
        return f'job "{job.name}" has {job.record.status.lower()}; its log is "{submission.log}"'
    name = name_in_statement(job.name)
    return (
        f'job "{job.name}" runs in process {life.process.pid}, and goes on when the shell ends\n'
        f"  log: {submission.log}\n"
        f'  "\\dj {name}" shows it, "STOP JOB {name};" stops it'
    )
