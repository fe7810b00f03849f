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
    """The state of a materialized view: its job's, and how fresh its table is. Times are in seconds since 1970."""

    @property
    def state(self) -> str:
        """The state of the view's job, such as RUNNING or SUSPENDED."""
        ...

    @property
    def record(self) -> JobRecord | None:
        """The record of the job; None where it has none."""
        ...

    @property
    def epoch(self) -> int | None:
        """The last epoch whose rows are in the table."""
        ...

    @property
    def committed(self) -> float | None:
        """When the last epoch in the table was written, in seconds since 1970."""
        ...


class Views(Protocol):
    """The jobs and the rows of materialized views (``sqlstream.views.keeping.Views``)."""

    def execute(
        self, statement: nodes.CreateMaterializedView | nodes.AlterMaterializedView, text: str, workspace: Workspace
    ) -> Job | None:
        """Carry out a CREATE or ALTER of a materialized view; returns the job where one starts."""
        ...

    def drop(self, name: nodes.Name, workspace: Workspace) -> None:
        """Stop the job of a view and remove its rows; no effect where ``name`` is not a materialized view."""
        ...

    def drop_in(self, namespace: tuple[str, str], workspace: Workspace) -> None:
        """Stop the jobs of all materialized views of a database and remove their rows."""
        ...

    def status_of(self, name: nodes.Name, workspace: Workspace) -> ViewStatus:
        """The state of a view of the catalog."""
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
        """A copy with another workspace, for a statement of another text."""
        return replace(self, workspace=workspace, text=text)


class StatementType(Generic[S]):
    """A kind of statement; the methods of this base fit statements that only read."""

    is_definition = False
    """Whether the statement changes the catalog or the settings, and so what later statements of a script mean."""

    def check(self, statement: S, scratch: Workspace, text: str) -> bool:
        """Raise SqlStreamError with all mistakes; definitions are made in the ``scratch`` workspace.

        :returns: False where only a run shows what the statement defines.
        """
        return True

    def run(self, statement: S, execution: Execution) -> Rows | Query | Job:
        """Run the statement and return what its caller reads."""
        raise NotImplementedError

    def starts_job(self, statement: S) -> bool:
        """Whether a query or a job continues after ``run`` has returned."""
        return False

    def needs_spark(self, statement: S) -> bool:
        """Whether the statement always needs Spark; others start it where a table or a catalog requires it."""
        return self.starts_job(statement)


class Definition(StatementType[S]):
    """A statement that changes the catalog or the settings of a workspace."""

    is_definition = True

    def define(self, statement: S, workspace: Workspace, text: str) -> Defined:
        """Change the workspace alone: no job starts and no rows are removed. ``text`` is the statement's script."""
        raise NotImplementedError

    def check(self, statement: S, scratch: Workspace, text: str) -> bool:
        """Make the definition in the scratch workspace."""
        self.define(statement, scratch, text)
        return True

    def run(self, statement: S, execution: Execution) -> Rows | Query | Job:
        """Make the definition in the workspace of the session."""
        self.define(statement, execution.workspace, execution.text)
        return OK
