"""What every kind of statement answers for itself, and what statements run with.

``registry.py`` has the table from syntax nodes to kinds of statements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from sqlstream.batch.running import Batches
from sqlstream.grammar import nodes
from sqlstream.planner.catalog import Function, Table, View
from sqlstream.results import Rows
from sqlstream.runner import ControlledJob, Runner
from sqlstream.workspace import Workspace

if TYPE_CHECKING:
    from sqlstream.jobs import Job
    from sqlstream.jobs.records.record import JobRecord
    from sqlstream.query import Query

S = TypeVar("S", bound=nodes.Node)

OK = Rows.of_text(("result",), (("OK",),))
"""The result of statements that have no other."""

Defined = Table | View | Function | None
"""What a definition has created, changed or dropped."""


class ViewStatus(Protocol):
    """How a materialized view is doing: the state of its job, and how fresh its table is. Times are in seconds since
    1970.
    """

    @property
    def state(self) -> str:
        """The state of the view's job, such as RUNNING or SUSPENDED."""
        ...

    @property
    def record(self) -> JobRecord | None:
        """The stored record of the view's job: its state, counts and SQL text. None where the view has no job."""
        ...

    @property
    def epoch(self) -> int | None:
        """The number of the last epoch whose rows are in the table; None before the first."""
        ...

    @property
    def committed(self) -> float | None:
        """When the last epoch in the table was written, in seconds since 1970."""
        ...


class Views(Protocol):
    """Manages the jobs and the stored rows of materialized views; implemented by ``sqlstream.views.keeping.Views``."""

    def execute(
        self, statement: nodes.CreateMaterializedView | nodes.AlterMaterializedView, text: str, workspace: Workspace
    ) -> Job | None:
        """Carries out a CREATE or ALTER of a materialized view. Returns the job that it has started, None if it has
        started none.
        """
        ...

    def drop(self, name: nodes.Name, workspace: Workspace) -> None:
        """Stop the job of a view and remove its rows; no effect where ``name`` is not a materialized view."""
        ...

    def drop_in(self, namespace: tuple[str, str], workspace: Workspace) -> None:
        """Stop the jobs of all materialized views of a database and remove their rows."""
        ...

    def status_of(self, name: nodes.Name, workspace: Workspace) -> ViewStatus:
        """Returns how a materialized view is doing: the state of its job, and how fresh its rows are."""
        ...


@dataclass(frozen=True)
class Execution:
    """What a statement runs with: the session's catalog and settings, its Spark, jobs and views.

    ``text`` is the script that the statement's spans refer to. ``as_table`` is for callers that read tables instead of
    streams: a query over finished data then is one query of Spark SQL wherever possible, and no job is waited for.
    """

    workspace: Workspace
    runner: Runner
    batches: Batches
    text: str
    as_table: bool
    views: Callable[[], Views]
    """Loads what no other statement needs."""
    known_jobs: Callable[[], Sequence[ControlledJob]]
    """Reads the records of jobs in the checkpoint directory."""
    unit_test: Callable[[nodes.UnitTest], str | None]
    """Runs the test of a view and returns how its rows differ from those expected; None where they do not."""

    def within(self, workspace: Workspace, text: str) -> Execution:
        """Returns a copy with another workspace and another script, for running a statement that is not part of this
        script, such as one in a compiled plan.
        """
        return replace(self, workspace=workspace, text=text)


class StatementType(Generic[S]):
    """Carries out one kind of statement. The methods of this base class suit statements that only read."""

    is_definition = False
    """Whether the statement changes the catalog or the settings, and so what later statements of a script mean."""

    def check(self, statement: S, scratch: Workspace, text: str) -> bool:
        """Finds mistakes without running the statement, and raises them all as one SqlStreamError. Definitions are made
        in ``scratch``, a copy of the workspace.

        :returns: False if only running it shows what the statement defines, so that later statements cannot be checked
        against it.
        """
        return True

    def run(self, statement: S, execution: Execution) -> Rows | Query | Job:
        """Runs the statement and returns its result for the caller: rows, a query or a job."""
        raise NotImplementedError

    def starts_job(self, statement: S) -> bool:
        """Whether a query or a job continues after ``run`` has returned."""
        return False

    def needs_spark(self, statement: S) -> bool:
        """Whether the statement always needs Spark; others start it where a table or a catalog requires it."""
        return self.starts_job(statement)


class Definition(StatementType[S]):
    """Base class for statements that change a workspace's catalog or settings, such as CREATE, DROP and SET."""

    is_definition = True

    def define(self, statement: S, workspace: Workspace, text: str) -> Defined:
        """Changes the workspace only: no job starts and no rows are removed. ``text`` is the script of the statement.
        Returns what was created, changed or dropped, None if nothing was.
        """
        raise NotImplementedError

    def check(self, statement: S, scratch: Workspace, text: str) -> bool:
        """Makes the definition in ``scratch``, a copy of the workspace, which finds its mistakes and lets later
        statements of the script be checked against it.
        """
        self.define(statement, scratch, text)
        return True

    def run(self, statement: S, execution: Execution) -> Rows | Query | Job:
        """Make the definition in the workspace of the session."""
        self.define(statement, execution.workspace, execution.text)
        return OK
