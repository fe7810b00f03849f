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
    """The state of a materialized view: of its job, and how far its table is. Times are in seconds since 1970."""

    @property
    def state(self) -> str:
        """RUNNING, SUSPENDED and so on."""
        ...

    @property
    def record(self) -> JobRecord | None:
        """The record of the job; None where it has none."""
        ...

    @property
    def epoch(self) -> int | None:
        """The last epoch that is in the table."""
        ...

    @property
    def committed(self) -> float | None:
        """When that epoch was written."""
        ...


class Views(Protocol):
    """The jobs and the rows of materialized views (``sqlstream.views.keeping.Views``)."""

    def execute(
        self, statement: nodes.CreateMaterializedView | nodes.AlterMaterializedView, text: str, workspace: Workspace
    ) -> Job | None:
        """Carry out a CREATE, whose job is returned where it starts one, or an ALTER."""
        ...

    def drop(self, name: nodes.Name, workspace: Workspace) -> None:
        """Stop the job of a view and remove its rows; nothing where the name is of no view."""
        ...

    def drop_in(self, namespace: tuple[str, str], workspace: Workspace) -> None:
        """The same for all views of a database."""
        ...

    def status_of(self, name: nodes.Name, workspace: Workspace) -> ViewStatus:
        """The state of a view of the catalog."""
        ...


@dataclass(frozen=True)
class Execution:
    """What a statement runs with: the session's catalog and settings, its Spark, jobs and views.

    ``text`` is the script of the statement's spans. ``as_table`` is for callers that read tables rather than streams: a
    query over finished data is one query of Spark SQL wherever it can be, and no job is waited for.
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
        """The same with another catalog and other settings, for a statement of another text."""
        return replace(self, workspace=workspace, text=text)


class StatementType(Generic[S]):
    """A kind of statement. The methods here are the defaults of statements that only read."""

    is_definition = False
    """Whether the statement changes the catalog or the settings, and so what later statements of a script mean."""

    def check(self, statement: S, scratch: Workspace, text: str) -> bool:
        """Raise SqlStreamError with all that is wrong; ``scratch`` takes the definitions.

        :returns: False where only a run shows what the statement defines.
        """
        return True

    def run(self, statement: S, execution: Execution) -> Rows | Query | Job:
        """Run the statement and return what its caller reads."""
        raise NotImplementedError

    def starts_job(self, statement: S) -> bool:
        """Whether something goes on running when ``run`` has returned: a query or a job."""
        return False

    def needs_spark(self, statement: S) -> bool:
        """Whether the statement always needs Spark; others start it where a table or a catalog asks for it."""
        return self.starts_job(statement)


class Definition(StatementType[S]):
    """A statement that changes the catalog or the settings of a workspace."""

    is_definition = True

    def define(self, statement: S, workspace: Workspace, text: str) -> Defined:
        """Change the workspace alone: no job starts and no rows are removed. ``text`` is the script."""
        raise NotImplementedError

    def check(self, statement: S, scratch: Workspace, text: str) -> bool:
        """Change the scratch workspace."""
        self.define(statement, scratch, text)
        return True

    def run(self, statement: S, execution: Execution) -> Rows | Query | Job:
        """Change the workspace of the session."""
        self.define(statement, execution.workspace, execution.text)
        return OK
