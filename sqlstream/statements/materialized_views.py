"""Materialized views as definitions: the table that a view has, and the INSERT whose job keeps it. No Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from sqlstream.catalog import Catalog, Path, definition_of_view, full_name
from sqlstream.catalogs.declaring import materialized_table, qualified
from sqlstream.catalogs.store import Stored
from sqlstream.errors import BindError, Diagnostic, SqlStreamError, UnsupportedError
from sqlstream.grammar import nodes
from sqlstream.planner.catalog import APPEND_ONLY, Table
from sqlstream.planner.intervals import NotAnInterval, fold
from sqlstream.planner.nodes import Insert, Output
from sqlstream.plans import FormerPlan, former_plans, looked_up_tables, plan_of, scanned_tables
from sqlstream.results import Rows, key_of
from sqlstream.settings import UPSERT_MATERIALIZE
from sqlstream.statements.statement import OK, Defined, Definition, Execution
from sqlstream.statements.tables import WRONG_COLUMNS, bare
from sqlstream.workspace import Workspace

if TYPE_CHECKING:
    from sqlstream.jobs import Job


FULL_REFRESH = "SS691"
NO_KEY = "SS692"
OF_ITSELF = "SS693"
NO_VIEW = "SS694"

_WRONG_INTERVAL = "SS696"
_INTERVAL = "execution.checkpointing.interval"


@dataclass(frozen=True)
class MaterializedView:
    """A materialized view of the catalog. ``stored`` is its complete definition, with column types and key; ``table``
    is the table that holds its rows.
    """

    path: Path
    stored: Stored
    table: Table

    @property
    def statement(self) -> nodes.CreateMaterializedView:
        """The statement that defines the view."""
        assert isinstance(self.stored.statement, nodes.CreateMaterializedView)
        return self.stored.statement

    @property
    def name(self) -> str:
        """The full name of the view. Its job has the same name."""
        return full_name(self.path)


class CreateMaterializedView(Definition[nodes.CreateMaterializedView]):
    """Carries out CREATE MATERIALIZED VIEW, which adds the view and starts the job that fills its table."""

    def define(self, statement: nodes.CreateMaterializedView, workspace: Workspace, text: str) -> Defined:
        """Add the view to the catalog; its job does not start."""
        view = declared_materialized(statement, workspace, text)
        created = workspace.catalog.create(
            statement.name,
            view.table,
            if_not_exists=statement.if_not_exists,
            replace=statement.replace,
            stored=view.stored,
        )
        return view.table if created else None

    def run(self, statement: nodes.CreateMaterializedView, execution: Execution) -> Rows | Job:
        """Create the view and start its job."""
        return execution.views().execute(statement, execution.text, execution.workspace) or OK

    def starts_job(self, statement: nodes.CreateMaterializedView) -> bool:
        """Whether the statement starts a job: CREATE MATERIALIZED VIEW always does."""
        return True


class AlterMaterializedView(Definition[nodes.AlterMaterializedView]):
    """Carries out ALTER MATERIALIZED VIEW: gives the view another query, or suspends, resumes or refreshes it."""

    def define(self, statement: nodes.AlterMaterializedView, workspace: Workspace, text: str) -> Defined:
        """Change the query of the view in the catalog; its job is not touched."""
        view = materialized_named(statement.name, workspace)
        if statement.query is None:
            return view.table
        return CreateMaterializedView().define(altered(view, statement), workspace, text)

    def run(self, statement: nodes.AlterMaterializedView, execution: Execution) -> Rows | Job:
        """Change the query, or suspend, resume or refresh the view."""
        return execution.views().execute(statement, execution.text, execution.workspace) or OK

    def starts_job(self, statement: nodes.AlterMaterializedView) -> bool:
        """Whether the statement starts a job, which all actions except SUSPEND do."""
        return statement.action != "SUSPEND"


def declared_materialized(statement: nodes.CreateMaterializedView, workspace: Workspace, text: str) -> MaterializedView:
    """The view that the statement declares. SqlStreamError with the mistakes of its query or table."""
    catalog = workspace.catalog
    path = catalog.path(statement.name)
    if statement.refresh_mode not in (None, "CONTINUOUS"):
        raise _not_continuous(statement)
    freshness_ms(statement)
    _refuse_itself(statement, path, catalog)
    plan = _plan_of_query(statement, path, workspace)
    columns = tuple(_columns(statement, plan))
    key = statement.primary_key or tuple(_key(statement, plan, [c.name for c in columns]))
    query = statement.query if path[:2] == catalog.current else qualified(statement.query, catalog)
    kept = replace(
        statement, name=bare(path[2], statement.name), query=query, columns=columns, primary_key=key,
        if_not_exists=False, replace=False,
    )  # fmt: skip
    table = materialized_table(replace(kept, query=statement.query), catalog, full_name(path), path, catalog.variables)
    view = MaterializedView(path, Stored(kept, text), table)
    insert_of(view, workspace)
    return view


def materialized_named(name: nodes.Name, workspace: Workspace) -> MaterializedView:
    """The materialized view with that name. BindError SS694 for anything else."""
    catalog = workspace.catalog
    path = catalog.path(name)
    relation, entry = catalog.required(name), catalog.entry("relation", path)
    definition = definition_of_view(entry)
    if definition is None or entry is None:
        message = f'"{relation.name}" is no materialized view'
        raise BindError(NO_VIEW, message, name.span, hint="SHOW MATERIALIZED VIEWS lists them.")
    assert isinstance(relation, Table)
    statement, text = definition
    return MaterializedView((path[0], path[1], entry.name), Stored(statement, text), relation)


def altered(view: MaterializedView, statement: nodes.AlterMaterializedView) -> nodes.CreateMaterializedView:
    """Returns the CREATE statement of the view with the new query of ALTER; the column names stay the same."""
    assert statement.query is not None
    names = tuple(nodes.NamedColumn(c.name, span=c.span) for c in view.statement.columns)
    return replace(
        view.statement, name=statement.name, query=statement.query, columns=names, primary_key=(), replace=True,
        span=statement.span,
    )  # fmt: skip


def former_plans_of(view: MaterializedView, plan: Insert, workspace: Workspace) -> tuple[FormerPlan, ...]:
    """The plans, beside ``plan``, with which the view's job may have begun; ``workspace`` as for ``insert_of``."""
    insert, inside = statement_of(view, workspace)
    return former_plans(insert, plan, inside)


def insert_of(view: MaterializedView, workspace: Workspace) -> tuple[Insert, Workspace]:
    """Returns a pair: the plan that fills the view's table, and the workspace in which it runs.

    In that workspace other materialized views that the query reads are plain views. So the view gets their changes, and
    no other job writes to its table.
    """
    insert, inside = statement_of(view, workspace)
    plan = plan_of(insert, inside)
    assert isinstance(plan, Insert)
    if any(table.name == view.name for table in (*scanned_tables(plan.input), *looked_up_tables(plan.input))):
        raise _of_itself(view.statement, view.name)
    return plan, inside


def statement_of(view: MaterializedView, workspace: Workspace) -> tuple[nodes.Insert, Workspace]:
    """Returns a pair: the INSERT that fills the view's table, and the workspace in which it is planned."""
    statement = view.statement
    insert = nodes.Insert(nodes.Name(view.path, span=statement.name.span), statement.query, span=statement.span)
    return insert, workspace_of(view, workspace)


def workspace_of(view: MaterializedView, workspace: Workspace) -> Workspace:
    """Returns the workspace of the view's job: names are resolved in the view's database, and the settings are those
    that its table needs.
    """
    settings = workspace.settings.copy()
    settings.set("execution.runtime-mode", "streaming")
    settings.set(UPSERT_MATERIALIZE, "error")  # rows that collide on the key would make the table wrong
    freshness = freshness_ms(view.statement)
    if freshness is not None:
        settings.set(_INTERVAL, f"{freshness} ms")
    catalog = workspace.catalog.with_queries(view.path, view.table)
    return Workspace(catalog.within(view.path[:2]), settings)


def freshness_ms(statement: nodes.CreateMaterializedView) -> int | None:
    """The clause FRESHNESS in milliseconds, which is how often the job completes an epoch. BindError unless it is a
    positive interval.
    """
    if statement.freshness is None:
        return None
    try:
        ms = int(fold(statement.freshness))
    except NotAnInterval as error:
        raise BindError(_WRONG_INTERVAL, f"FRESHNESS {error}", statement.span) from None
    if ms <= 0:
        raise BindError(_WRONG_INTERVAL, "FRESHNESS is no interval above zero", statement.span)
    return ms


def _refuse_itself(statement: nodes.CreateMaterializedView, path: Path, catalog: Catalog) -> None:
    """BindError SS693 for a query that names the view, which it may replace."""
    own = {cte.alias.casefold() for cte in statement.query.find_all(exp.CTE)}
    wanted = [part.casefold() for part in path]
    for table in statement.query.find_all(exp.Table):
        if isinstance(table.this, exp.Identifier) and (table.db or table.name.casefold() not in own):
            parts = [part.name.casefold() for part in table.parts]
            current = [part.casefold() for part in catalog.current]
            if [*[*current, ""][: 3 - len(parts)], *parts] == wanted:
                raise _of_itself(statement, full_name(path))


def _of_itself(statement: nodes.CreateMaterializedView, name: str) -> SqlStreamError:
    message = f'the query of "{name}" reads the view itself'
    diagnostic = Diagnostic(OF_ITSELF, message, statement.name.span, hint="Give the view another name.")
    return SqlStreamError.of([diagnostic])


def _not_continuous(statement: nodes.CreateMaterializedView) -> UnsupportedError:
    mode = statement.refresh_mode
    if mode != "FULL":
        message = f"REFRESH_MODE {mode} does not exist"
        return UnsupportedError(FULL_REFRESH, message, statement.span, hint="Write CONTINUOUS, or leave it out.")
    message = "REFRESH_MODE FULL is not executed: a view is kept by a job that runs, not by a schedule"
    detail = "A job that goes on reads each row once; one that is begun anew would read all of them each time."
    hint = "Leave it out: FRESHNESS says how often rows become visible. Or run INSERT OVERWRITE by a schedule of yours."
    return UnsupportedError(FULL_REFRESH, message, statement.span, detail=detail, hint=hint)


def _plan_of_query(statement: nodes.CreateMaterializedView, path: Path, workspace: Workspace) -> Output:
    """The query as a stream: what runs as a batch alone has no changes to keep up with."""
    settings = workspace.settings.copy()
    settings.set("execution.runtime-mode", "streaming")
    catalog = workspace.catalog.as_queries()
    plan = plan_of(nodes.Query(statement.query, span=statement.span), Workspace(catalog, settings))
    assert isinstance(plan, Output)
    return plan


def _columns(statement: nodes.CreateMaterializedView, plan: Output) -> Iterator[nodes.PhysicalColumn]:
    """Those of the query, under the names and with the types that the statement gives them in this order."""
    given = statement.columns
    if given and len(given) != len(plan.names):
        message = f'the columns of "{statement.name}" are {len(given)}, and the query gives {len(plan.names)}'
        raise BindError(WRONG_COLUMNS, message, statement.name.span, hint="Name each column of the query once.")
    for position, (name, field) in enumerate(zip(plan.names, plan.schema, strict=True)):
        column = given[position] if given else nodes.NamedColumn(name, span=statement.name.span)
        if isinstance(column, nodes.PhysicalColumn):
            yield column
        elif field.type.is_unknown:
            message = f'the type of column "{column.name}" of "{statement.name}" is known to Spark alone'
            raise BindError(WRONG_COLUMNS, message, statement.name.span, hint="Give it one: CAST(… AS STRING).")
        else:
            yield nodes.PhysicalColumn(column.name, field.type.to_sqlglot(), field.nullable, span=column.span)


def _key(statement: nodes.CreateMaterializedView, plan: Output, names: list[str]) -> list[str]:
    """The columns by which the query updates its rows; none for one that only adds rows. BindError SS692 where the
    query changes rows, and does not say of which."""
    if plan.changelog_mode == APPEND_ONLY:
        return []
    positions = key_of(plan)
    if not positions:
        message = f'the query of "{statement.name}" changes rows, and gives no key of them'
        hint = (
            "Select all columns of its GROUP BY, or of its PARTITION BY with the rank; of a join, keys of both sides. "
            "A total of all rows has one by a constant: SELECT 'all' AS k, … GROUP BY 'all'."
        )
        raise SqlStreamError.of([Diagnostic(NO_KEY, message, statement.name.span, hint=hint)])
    return [names[position] for position in positions]
