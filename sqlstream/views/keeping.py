"""The materialized views of a session: creates their tables, and starts, stops and monitors their jobs.

The checkpoint of a view's job outlives the session, as the table of the view does. Creating the same view again, in any
process, continues from it; another definition under its name needs OR REPLACE.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlstream.catalog import definition_of_view
from sqlstream.errors import BindError, ExecutionError, Span, SqlStreamError
from sqlstream.grammar import nodes, to_sql
from sqlstream.jobs.checkpoints.own_files import remove_job_folder
from sqlstream.jobs.checkpoints.storage import Storage, local_storage_at, storage_at
from sqlstream.jobs.records.history import last_committed, read_epochs
from sqlstream.jobs.records.record import JobRecord, Process, read_record, this_process
from sqlstream.jobs.records.requests import RecordedJob
from sqlstream.statements.materialized_views import (
    MaterializedView,
    altered,
    declared_materialized,
    former_plans_of,
    insert_of,
    materialized_named,
)
from sqlstream.views import state as targets
from sqlstream.views.server import checkpoints_of_views, reach
from sqlstream.views.state import ViewState, digest_of, read_state, write_state
from sqlstream.workspace import Workspace

if TYPE_CHECKING:
    from sqlstream.jobs import Job
    from sqlstream.runner import ControlledJob, Runner


ANOTHER_VIEW = "SS486"
OCCUPIED = "SS487"
SUSPENDED = "SS699"

CANNOT_DELETE = "SS233"
_NEVER_STARTED = "NOT STARTED"
_WAIT_S = 120.0
_LOOK_S = 0.2
_NOWHERE = Span(0, 0)


@dataclass(frozen=True)
class ViewStatus:
    """The status of a materialized view. ``state`` is that of its job, or SUSPENDED; times are in seconds since
    1970.
    """

    name: str
    state: str
    record: JobRecord | None = None
    epoch: int | None = None
    committed: float | None = None


class Views:
    """Manages the materialized views of one session. ``keeps``: this process restarts their jobs, as ``sqlstream
    serve`` does.
    """

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self.keeps = False

    # --- statements ---

    def execute(
        self, statement: nodes.CreateMaterializedView | nodes.AlterMaterializedView, text: str, workspace: Workspace
    ) -> Job | None:
        """Carry out a statement about a view. Returns the job that CREATE has started, else None."""
        if isinstance(statement, nodes.CreateMaterializedView):
            return self.create(statement, text, workspace)
        self.alter(statement, text, workspace)
        return None

    def create(self, statement: nodes.CreateMaterializedView, text: str, workspace: Workspace) -> Job | None:
        """Creates a view and starts its job. Returns None if it has started none: another process runs the job, the
        view is suspended, or it exists already.
        """
        catalog = workspace.catalog
        view = declared_materialized(statement, workspace, text)
        before = definition_of_view(catalog.entry("relation", view.path))
        same = before is not None and digest_of(before[0]) == digest_of(view.statement)
        if before is not None and statement.if_not_exists:
            return None
        if statement.replace and before is not None and not same:
            self._remove(materialized_named(statement.name, workspace), workspace)
        replaces = statement.replace and before is not None
        created = catalog.create(
            statement.name, view.table, if_not_exists=statement.if_not_exists, replace=replaces, stored=view.stored
        )
        assert created
        try:
            return self.begin(view, workspace, anew=statement.replace)
        except SqlStreamError:
            if before is None:
                catalog.drop(view.statement.kind, statement.name)
            raise

    def alter(self, statement: nodes.AlterMaterializedView, text: str, workspace: Workspace) -> None:
        """Suspend, resume or refresh a view, or give it another query."""
        view = materialized_named(statement.name, workspace)
        match statement.action:
            case "SUSPEND":
                self._suspend(view, workspace)
            case "RESUME":
                self.resume(view, workspace)
            case "REFRESH":
                self._refresh(view, statement, workspace)
            case None:
                assert statement.query is not None
                self.create(altered(view, statement), text, workspace)

    def status_of(self, name: nodes.Name, workspace: Workspace) -> ViewStatus:
        """The status of the view of that name. Raises BindError SS694 for anything that is no materialized view."""
        return self.status(materialized_named(name, workspace), workspace)

    def drop(self, name: nodes.Name, workspace: Workspace) -> None:
        """Stops the job of a materialized view and removes its rows. Does nothing if there is no materialized view of
        that name; the statement DROP then fails in the catalog.
        """
        try:
            view = materialized_named(name, workspace)
        except SqlStreamError:  # there is none, or its definition cannot be read
            return
        self._remove(view, workspace)

    def drop_in(self, namespace: tuple[str, str], workspace: Workspace) -> None:
        """Drop all views of a database, with their jobs and rows."""
        for view in self.all(workspace, namespace):
            self._remove(view, workspace)

    def all(self, workspace: Workspace, namespace: tuple[str, str] | None = None) -> Iterator[MaterializedView]:
        """Yields the materialized views of a database, by default the current one, in the order of their names."""
        catalog = workspace.catalog
        catalog_name, database = namespace or catalog.current
        for name in catalog.names("relation", namespace):
            if definition_of_view(catalog.entry("relation", (catalog_name, database, name))) is not None:
                yield materialized_named(nodes.Name((catalog_name, database, name), span=_NOWHERE), workspace)

    # --- what a view does -------------------------------------------------------------------------------------

    def status(self, view: MaterializedView, workspace: Workspace, *, exact: bool = True) -> ViewStatus:
        """The status of a view, without Spark. Without ``exact`` it may be slightly old, and costs less."""
        storage = self._storage(view, workspace)
        state = read_state(storage)
        job = self._job(view, storage)
        record = None if job is None else job.record
        if record is None or record.is_damaged:
            status = _NEVER_STARTED if record is None else record.status
            return ViewStatus(view.name, "SUSPENDED" if state is not None and state.suspended else status)
        suspended = state is not None and state.suspended and not record.is_running
        if exact and job is not None:
            job.checkpoints()  # writes down the last ones
        epochs = read_epochs(storage)
        newest = epochs[max(epochs)] if epochs else None
        return ViewStatus(
            view.name,
            "SUSPENDED" if suspended else record.status,
            record,
            None if newest is None else newest.epoch,
            None if newest is None else newest.time,
        )

    def resume(self, view: MaterializedView, workspace: Workspace) -> Job | None:
        """Starts the job of a view again and returns it. None if another process runs it, or will start it."""
        storage = self._storage(view, workspace)
        state = read_state(storage) or ViewState(digest_of(view.statement))
        write_state(storage, replace(state, suspended=False))
        return self.begin(view, workspace)

    def is_suspended(self, view: MaterializedView, workspace: Workspace) -> bool:
        """Whether the job of a view must not run until RESUME."""
        state = read_state(self._storage(view, workspace))
        return state is not None and state.suspended

    def is_dropped(self, view: MaterializedView, workspace: Workspace) -> bool:
        """Whether a view whose job was started here has been dropped, by whatever process."""
        return read_state(self._storage(view, workspace)) is None

    def begin(self, view: MaterializedView, workspace: Workspace, *, anew: bool = False) -> Job | None:
        """Starts the job of a view, from its checkpoint if there is one. ``anew``: first removes what an earlier view
        of that name has left, or this one, if its rows were dropped in the database.

        Raises ExecutionErrors SS486 for the checkpoint of another view, SS487 for a table that no view's job has
        written.
        """
        reach([view.table], workspace.settings)
        storage = self._storage(view, workspace)
        digest, state = digest_of(view.statement), read_state(storage)
        if state is not None and state.definition != digest:
            if not anew:
                raise _another(view)
            self._forget(view, storage)
            state = None
        elif state is not None and anew and not state.suspended and self._is_gone(view, storage):
            self._forget(view, storage)
            state = None
        fresh = state is None
        if state is None:
            self._require_free(view, storage, anew=anew)
            state = ViewState(digest)
        job = self._job(view, storage)
        if state.suspended or (job is not None and job.record.is_running):
            return None
        if state.kept and not self.keeps:  # the process that serves the view starts it
            self._wait_until_running(view, storage)
            return None
        write_state(storage, replace(state, keeper=self._keeper))
        try:
            return self._start(view, workspace)
        except SqlStreamError:
            if fresh and storage.can_remove:
                with suppress(SqlStreamError):
                    targets.remove(view.table)
                    remove_job_folder(storage)
            raise

    @property
    def _keeper(self) -> Process | None:
        return this_process() if self.keeps else None

    def _start(self, view: MaterializedView, workspace: Workspace) -> Job:
        plan, inside = insert_of(view, workspace)
        former = former_plans_of(view, plan, workspace)
        inside.settings.set("execution.checkpointing.dir", checkpoints_of_views(workspace.settings))
        job = self._runner.start(plan, inside, to_sql(view.statement), view.name, former)
        if workspace.settings["table.dml-sync"]:
            job.wait()
        return job

    def _suspend(self, view: MaterializedView, workspace: Workspace) -> None:
        """Record the suspension before stopping the job, so that no process starts it again."""
        storage = self._storage(view, workspace)
        state = read_state(storage) or ViewState(digest_of(view.statement))
        write_state(storage, replace(state, suspended=True))
        self._stop(view, storage)

    def _refresh(self, view: MaterializedView, statement: nodes.AlterMaterializedView, workspace: Workspace) -> None:
        """Complete an epoch, so that all rows that are available now are in the view."""
        storage = self._storage(view, workspace)
        if self.is_suspended(view, workspace):
            message = f'"{view.name}" is suspended'
            hint = f"Write ALTER {statement.kind} {statement.name} RESUME."
            raise BindError(SUSPENDED, message, statement.span, hint=hint)
        job = self._job(view, storage)
        if job is not None and job.record.is_running:
            job.checkpoint()
            return
        started = self.begin(view, workspace)
        if started is not None and started.is_bounded:
            started.wait()
        elif started is not None:
            started.checkpoint()

    def _stop(self, view: MaterializedView, storage: Storage) -> None:
        job = self._job(view, storage)
        if job is not None and job.record.is_running:
            job.stop()

    def _remove(self, view: MaterializedView, workspace: Workspace) -> None:
        """Stop the job and remove the table and the checkpoint."""
        reach([view.table], workspace.settings)
        storage = self._storage(view, workspace)
        started = read_state(storage) is not None
        self._forget(view, storage)
        if started or targets.is_ours(view.table):
            targets.remove(view.table)

    def _forget(self, view: MaterializedView, storage: Storage) -> None:
        """Stop the job and remove its checkpoint. It is suspended first, so that no process starts it again."""
        if not storage.can_remove:
            message = f'the checkpoint "{storage.location()}" cannot be deleted: Spark deletes no files there'
            raise BindError(CANNOT_DELETE, message, view.statement.name.span, hint="Delete it by hand first.")
        state = read_state(storage)
        if state is not None:
            write_state(storage, replace(state, suspended=True))
        self._stop(view, storage)
        remove_job_folder(storage)

    def _is_gone(self, view: MaterializedView, storage: Storage) -> bool:
        """Whether the rows of complete epochs were dropped by a client of the database."""
        return last_committed(storage) is not None and targets.is_gone(view.table)

    def _require_free(self, view: MaterializedView, storage: Storage, *, anew: bool) -> None:
        if not targets.is_there(view.table):
            return None
        if anew and targets.is_ours(view.table):
            return targets.remove(view.table)
        place = view.table.option("table-name") or view.table.option("path")
        message = f'where "{view.name}" is to be kept, there is something already: "{place}"'
        hint = "CREATE OR REPLACE removes what an earlier view has left; else write another 'table-name' or 'path'."
        raise ExecutionError(OCCUPIED, message, view.statement.name.span, hint=hint)

    def _wait_until_running(self, view: MaterializedView, storage: Storage) -> None:
        until = time.monotonic() + _WAIT_S
        while time.monotonic() < until:
            job = self._job(view, storage)
            if job is not None and job.record_now().is_running:
                return
            time.sleep(_LOOK_S)

    # --- where it is ------------------------------------------------------------------------------------------

    def _storage(self, view: MaterializedView, workspace: Workspace) -> Storage:
        """The folder of the view's job, accessed through Spark where it is on another machine."""
        settings = workspace.settings.copy()
        settings.set("execution.checkpointing.dir", checkpoints_of_views(settings))
        path = self._runner.folders.checkpoint(settings, view.name)
        local = None if self._runner.spark.is_remote else local_storage_at(path)
        return storage_at(path, self._runner.spark.get(workspace.settings)) if local is None else local

    def _job(self, view: MaterializedView, storage: Storage) -> ControlledJob | None:
        """The job of a view: that of this session, or of another process by its record."""
        own = next((job for job in reversed(self._runner.jobs) if job.name == view.name), None)
        if own is not None and own.record.is_running:
            return own
        record = None
        with suppress(ExecutionError):
            record = read_record(storage)
        return own if record is None else RecordedJob(record, storage)


def _another(view: MaterializedView) -> ExecutionError:
    message = f'the checkpoint of "{view.name}" is that of another view, or of another definition of it'
    detail = "What it has read would not be read again, so the table would be neither this view nor the other one."
    hint = "Write CREATE OR REPLACE, which begins anew, or give the view another name."
    return ExecutionError(ANOTHER_VIEW, message, view.statement.name.span, detail=detail, hint=hint)
