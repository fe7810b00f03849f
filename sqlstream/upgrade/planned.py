"""The jobs that scripts would start, planned without Spark: their names, their folders and their plans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sqlstream.batch import Batch
from sqlstream.catalog import Catalog
from sqlstream.errors import SqlStreamError, UnsupportedError
from sqlstream.folders import Folders
from sqlstream.grammar import nodes, parse_script
from sqlstream.jobs.checkpoints.checkpoint import PLAN
from sqlstream.jobs.checkpoints.storage import LocalStorage
from sqlstream.jobs.records.requests import storage_here
from sqlstream.planner.catalog import Function
from sqlstream.planner.nodes import Output
from sqlstream.plans import Root, former_plans, job_name_of
from sqlstream.statements.queries import Write, planned
from sqlstream.statements.registry import define, is_definition, starts_job
from sqlstream.udfs.functions import load
from sqlstream.workspace import Workspace

NOT_UPGRADED = "SS490"
_DIRECTORY = "execution.checkpointing.dir"
_ELSEWHERE = "Run it with sqlstream run, and leave it out of the scripts that are upgraded."


@dataclass(frozen=True)
class PlannedJob:
    """A job that a script would start. ``storage``: the folder of its checkpoint, as the job itself would find it."""

    name: str
    path: str
    storage: LocalStorage
    statement: Write
    plan: Root
    workspace: Workspace

    def plans(self) -> Iterator[Root]:
        """The plan, and the others with which a job of the statement may have begun, as jobs that start look for
        them.
        """
        yield self.plan
        for former in former_plans(self.statement, self.plan, self.workspace):
            yield former.make()


@dataclass(frozen=True)
class CatalogFunctions:
    """The functions of a catalog, as declared states of process functions are read from them."""

    catalog: Catalog

    def function(self, name: str) -> Function | None:
        """Returns the user-defined function called ``name``; None where there is none."""
        return self.catalog.function(name)

    def implementation(self, function: Function) -> object:
        """The Python object that implements a function."""
        registered = self.catalog.implementation(function)
        return load(function.target) if registered is None else registered


def jobs_of(scripts: Iterable[str], workspace: Workspace) -> tuple[PlannedJob, ...]:
    """Returns the jobs that the scripts would start, in their order; the workspace is not changed.

    Raises UnsupportedError SS490 for statements that start something else than the job of an INSERT or a statement
    set, and for jobs without a directory of checkpoints on this machine; the errors of the scripts with their place.
    """
    scratch, folders = workspace.copy(), Folders()
    return tuple(job for text in scripts for job in _jobs_of(text, scratch, folders))


def _jobs_of(text: str, scratch: Workspace, folders: Folders) -> Iterator[PlannedJob]:
    try:
        for statement in parse_script(text):
            if isinstance(statement, nodes.Insert | nodes.StatementSet):
                yield _job(statement, scratch.copy(), folders)
            elif starts_job(statement):
                message = "only INSERT and EXECUTE STATEMENT SET are upgraded"
                raise UnsupportedError(NOT_UPGRADED, message, statement.span, hint=_ELSEWHERE)
            elif is_definition(statement):
                define(statement, scratch, text)
    except SqlStreamError as error:
        raise error.with_source(text) from error.__cause__


def _job(statement: Write, workspace: Workspace, folders: Folders) -> PlannedJob:
    plan = planned(statement, workspace)
    directory = workspace.settings[_DIRECTORY]
    if isinstance(plan, Batch):
        message = "a query over finished data runs as a batch, which has no state to upgrade"
        raise UnsupportedError(NOT_UPGRADED, message, statement.span, hint=_ELSEWHERE)
    if directory is None:
        hint = f"Give --dir DIR, or SET '{_DIRECTORY}' in the script, as where the job runs."
        message = "the script does not say where its job keeps its checkpoint"
        raise UnsupportedError(NOT_UPGRADED, message, statement.span, hint=hint)
    assert not isinstance(plan, Output)
    settings = workspace.settings
    wanted = job_name_of(plan, settings, folders)
    name = folders.name_of_checkpoint(wanted, settings, lambda path: storage_here(path).read(PLAN) is not None)
    path = folders.checkpoint(settings, name)
    storage = storage_here(path)
    assert isinstance(storage, LocalStorage)
    return PlannedJob(name, path, storage, statement, plan, workspace)
