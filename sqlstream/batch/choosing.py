"""Which way a query or an INSERT runs under ``'execution.runtime-mode'``.

With ``auto`` a query runs as a stream where one of its inputs has no end or a clause of it is one of streams. Over
finished data it runs as one query of Spark SQL, a batch, where it has a part that streams do not execute
(``planner.batch.stream_gaps``), and, for its caller, where a stream would update its results or keep all rows as state.
"""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from sqlglot import exp

from sqlstream.errors import Diagnostic, SqlStreamError, UnsupportedError
from sqlstream.grammar import nodes, to_sql
from sqlstream.grammar.depth import on_deep_stack
from sqlstream.grammar.spans import span_of
from sqlstream.planner.bad_rows import BadAction
from sqlstream.planner.batch import (
    BatchDecision,
    Input,
    Resolved,
    chosen_way,
    refused_by_streams_alone,
    resolve,
    stream_gaps,
)
from sqlstream.planner.batch.clauses import sorted_by_columns
from sqlstream.planner.batch.decision import Clause
from sqlstream.planner.batch.newest_rows import with_newest_first
from sqlstream.planner.batch.respelling import for_spark
from sqlstream.planner.batch.spark_gaps import with_values_of_groups
from sqlstream.planner.binder.context import bind_error
from sqlstream.planner.binder.inserts import without_partition
from sqlstream.planner.binder.lookups import is_time_travel
from sqlstream.planner.catalog import APPEND_ONLY, ONE_ROW, Catalog, Table
from sqlstream.planner.changes import rejected_kinds
from sqlstream.planner.nodes import Insert, Output, Scan
from sqlstream.planner.operators.interval_join import IntervalJoin
from sqlstream.planner.operators.over import Over
from sqlstream.plans import Root, calls_not_executed, ends, is_read, is_source, not_read, plan_of, unchecked_plan
from sqlstream.settings import COLUMN_EXPANSION
from sqlstream.types import UNKNOWN, DataType
from sqlstream.workspace import Workspace

if TYPE_CHECKING:
    from sqlstream.batch.running import Batches


UNBOUNDED = "SS600"
_NAMES = frozenset({"SS201", "SS202", "SS203", "SS204", "SS208"})
"""The codes for names that do not exist, that mean several things, or that GROUP BY lacks."""

Chosen = nodes.Query | nodes.Insert


@dataclass(frozen=True)
class Batch:
    """A statement that runs as one query of Spark SQL instead of as a stream.

    ``query``: the query in Spark's dialect. ``names``: from the tables' own names to their names in ``query``.
    ``why``: the reason, for EXPLAIN.
    """

    statement: Chosen
    query: exp.Expr
    resolved: Resolved
    names: dict[str, str]
    why: str

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables that the query reads."""
        return tuple(table_input.table for table_input in self.resolved.inputs)


@dataclass(frozen=True)
class _Examined:
    """A statement whose tables are known: ``names`` has Spark's name of each."""

    resolved: Resolved
    names: dict[str, str]
    way: BatchDecision
    may_be_batch: bool


def chosen(statement: Chosen, workspace: Workspace, *, finished: bool = False) -> Root | Batch:
    """Decides how a statement runs. Returns the optimized plan of a stream, or a ``Batch``. Raises SqlStreamError with
    all errors.

    The setting 'execution.runtime-mode' decides first. ``finished``: in mode ``auto`` a batch is chosen wherever it is
    possible, for callers that read whole tables.
    """
    if isinstance(statement, nodes.Insert):
        statement = without_partition(statement, workspace.catalog)
    match workspace.settings["execution.runtime-mode"]:
        case "streaming":
            return _stream(statement, workspace)
        case "batch":
            return _as_batch(statement, workspace)
    examined = _finished(statement, workspace)
    if examined is None:
        return _stream(statement, workspace)
    if _lacks_stream(statement, examined, workspace):
        _require_no_mistake(statement, workspace)
        return _batch(statement, examined, workspace)
    plan = plan_of(statement, workspace)
    wrong = calls_not_executed(plan, workspace)
    is_better = finished or bool(wrong) or _is_better_finished(plan)
    way = _batch_or(plan, statement, examined, workspace) if is_better else plan
    if way is plan and wrong:
        raise SqlStreamError.of(wrong)
    return way


def _stream(statement: Chosen | nodes.StatementSet, workspace: Workspace) -> Root:
    """The plan of a stream. SqlStreamError with all errors, also where kernels lack an aggregate that it calls."""
    plan = plan_of(statement, workspace)
    wrong = calls_not_executed(plan, workspace)
    if wrong:
        raise SqlStreamError.of(wrong)
    return plan


def only_as_batch(statement: Chosen, workspace: Workspace) -> bool:
    """True if a statement runs as a batch because streams do not support it; False if a stream runs it or reports
    its mistakes. Raises SqlStreamError with all errors where neither a stream nor a batch runs it.
    """
    if workspace.settings["execution.runtime-mode"] == "streaming":
        return False
    examined = _finished(statement, workspace)
    if examined is None or not _lacks_stream(statement, examined, workspace):
        return False
    _require_no_mistake(statement, workspace)
    _batch(statement, examined, workspace)
    return True


def batch_instead(plan: Root, statement: Chosen, workspace: Workspace) -> Batch | None:
    """Returns the batch that replaces a plan which could also run as a stream; None where the stream runs."""
    mode = workspace.settings["execution.runtime-mode"]
    if mode == "streaming":
        return None
    if mode == "auto" and not _is_better_finished(plan) and not calls_not_executed(plan, workspace):
        return None
    examined = _finished(statement, workspace)
    if examined is None:
        return None
    instead = _batch_or(plan, statement, examined, workspace)
    return instead if isinstance(instead, Batch) else None


def _finished(statement: Chosen, workspace: Workspace) -> _Examined | None:
    """The statement with its tables, where all of it can run over finished data; None for a stream."""
    if _reads_endless(statement.query, workspace.catalog):
        return None
    try:
        examined = _examined(statement, workspace)
    except SqlStreamError:  # of a name that the binder reports, too
        return None
    return examined if examined.may_be_batch else None


def _reads_endless(query: exp.Expr, catalog: Catalog) -> bool:
    """Whether the query names a table without an end itself, for which no more of it need be looked at."""
    given = {cte.alias.casefold() for cte in query.find_all(exp.CTE)}
    for table in query.find_all(exp.Table):
        name = ".".join(part.name for part in table.parts)
        relation = None if name.casefold() in given else catalog.relation(name)
        if isinstance(relation, Table) and not ends(relation) and not is_time_travel(table):
            return True
    return False


def _lacks_stream(statement: Chosen, examined: _Examined, workspace: Workspace) -> bool:
    """Whether no stream executes the statement: a part of its query, or its changes that the table does not take."""
    tables = {examined.names[one.table.name]: one.table for one in examined.resolved.inputs}
    gaps = stream_gaps(examined.resolved.query, workspace.catalog, tables, is_source)
    if gaps or isinstance(statement, nodes.Query):
        return bool(gaps)
    plan = unchecked_plan(statement, workspace)
    return isinstance(plan, Insert) and any(rejected_kinds(plan))


def _is_better_finished(plan: Root) -> bool:
    """Of a query for its caller, which has no checkpoint: whether its results change, or an operator keeps all rows
    that it sees; those of intervals and OVER forget rows as time passes. What reads no table has nothing to wait for,
    also where it is written into one.
    """
    if all(node.table == ONE_ROW for node in plan.walk() if isinstance(node, Scan)):
        return True
    if not isinstance(plan, Output):
        return False
    keeps = any(node.keeps_state and not isinstance(node, IntervalJoin | Over) for node in plan.walk())
    return keeps or plan.changelog_mode != APPEND_ONLY


def _as_batch(statement: Chosen, workspace: Workspace) -> Root | Batch:
    """A clause of streams runs as a stream, whose watermark only the end of the input moves. BindError SS600 for a
    table without an end."""
    examined = _examined(statement, workspace)
    if examined.way.unbounded is not None:
        raise SqlStreamError.of([_without_end(examined.way.unbounded)])
    if not examined.may_be_batch:
        return _stream(statement, workspace)
    _require_no_mistake(statement, workspace)
    return _batch(statement, examined, workspace)


def set_of_streams(statement: nodes.StatementSet, workspace: Workspace) -> Root:
    """Returns the plan of a statement set, which always runs as a stream. Raises SS600 for an unbounded source in mode
    ``batch``.
    """
    if workspace.settings["execution.runtime-mode"] == "batch":
        ways = (_examined(insert, workspace).way for insert in statement.inserts)
        wrong = [_without_end(way.unbounded) for way in ways if way.unbounded is not None]
        if wrong:
            raise SqlStreamError.of(wrong)
    return _stream(statement, workspace)


def _without_end(unbounded: Input) -> Diagnostic:
    if not is_read(unbounded.table):
        return not_read(unbounded.table, span_of(unbounded.at) if unbounded.view is None else None)
    message = f'table "{unbounded.table.name}" has no end, and "execution.runtime-mode" is "batch"'
    hint = "SET 'execution.runtime-mode' = 'auto' runs the query as a stream."
    return _located(bind_error(UNBOUNDED, message, unbounded.at, hint).diagnostic, unbounded)


def _located(diagnostic: Diagnostic, named: Input) -> Diagnostic:
    if named.view is None:
        return diagnostic
    return replace(diagnostic, detail=f'In view "{named.view.name}".', source=named.view.text or None)


@on_deep_stack
def _examined(statement: Chosen, workspace: Workspace) -> _Examined:
    """The tables of the statement, and what prevents a batch. BindError SS202 for names that nobody knows."""
    run, names = uuid4().hex[:8], dict[str, str]()

    def named(table: Table) -> str:
        return names.setdefault(table.name, f"sqlstream_{run}_{len(names)}")

    dynamic = workspace.settings["table.dynamic-table-options.enabled"]
    zone = workspace.settings["table.local-time-zone"]
    resolved = resolve(statement.query, workspace.catalog, named, dynamic, zone)
    resolved = replace(resolved, query=sorted_by_columns(resolved.query))
    way = chosen_way(resolved, workspace.catalog, ends, named)
    way = replace(way, clause=way.clause or _star_with_fewer_columns(resolved, workspace))
    return _Examined(resolved, names, way, way.may_be_batch and not _tolerates_functions(resolved, workspace))


@on_deep_stack
def _batch(statement: Chosen, examined: _Examined, workspace: Workspace) -> Batch:
    """The query in Spark's words. SqlStreamError for what these lack."""
    resolved, names = examined.resolved, examined.names
    tables = [table_input.table for table_input in resolved.inputs]
    columns: dict[str, DataType] = {}
    for column in (column for table in tables for column in table.columns):
        name = column.name.casefold()
        columns[name] = column.type if columns.get(name, column.type) == column.type else UNKNOWN
    keys = {names[table.name]: table.primary_key for table in tables if table.name in names}
    named = {names[table.name]: table for table in tables if table.name in names}
    filled = {
        name: {column.name.casefold() for column in table.columns if not column.nullable}
        for name, table in named.items()
    }
    query = with_newest_first(resolved.query, workspace.catalog, named)
    query = with_values_of_groups(query, workspace.catalog, named)
    named_columns = {name: {column.name.casefold() for column in table.columns} for name, table in named.items()}
    query = for_spark(query, workspace.catalog, columns, keys, filled, named_columns)
    return Batch(statement, query, resolved, names, examined.way.why)


def _batch_or(plan: Root, statement: Chosen, examined: _Examined, workspace: Workspace) -> Root | Batch:
    """The batch, or the plan of a stream that executes the statement where Spark has no words for it."""
    try:
        return _batch(statement, examined, workspace)
    except SqlStreamError:
        return plan


def _require_no_mistake(statement: Chosen, workspace: Workspace) -> None:
    """SqlStreamError with mistakes of names and types, which the binder finds also where no stream executes it."""
    try:
        unchecked_plan(statement, workspace, any_order=True)
    except SqlStreamError as error:
        gaps = [i for i, d in enumerate(error.diagnostics) if refused_by_streams_alone(d)]
        first = gaps[0] if gaps else len(error.diagnostics)
        # What is refused has no type, which is a mistake for what is around it, but for names.
        of_names = (d for d in error.diagnostics[first:] if d.code in _NAMES)
        mistakes = [*error.diagnostics[:first], *of_names]
        if mistakes:
            raise SqlStreamError.of(mistakes) from None


def _star_with_fewer_columns(resolved: Resolved, workspace: Workspace) -> Clause | None:
    """The first * that does not stand for all columns of a table, which Spark would take it for."""
    kinds = workspace.settings[COLUMN_EXPANSION]
    columns = (column for table_input in resolved.inputs for column in table_input.table.columns)
    if not kinds or not any(kind.has(column) for column in columns for kind in kinds):
        return None
    stars = (e for select in resolved.query.find_all(exp.Select) for e in select.expressions if e.is_star)
    return next((Clause(f"* as '{COLUMN_EXPANSION}' has it", span_of(star)) for star in stars), None)


def _tolerates_functions(resolved: Resolved, workspace: Workspace) -> bool:
    """True where a function may fail for a row, which only streams leave out."""
    if workspace.settings["sqlstream.functions.on-error"][0] is BadAction.FAIL:
        return False
    return any(workspace.catalog.function(call.name) for call in resolved.query.find_all(exp.Anonymous))


# --- EXPLAIN --------------------------------------------------------------------------------------------------


NO_PLAN_OF_BATCH = "SS603"

_SPARK_STAGES = {"PHYSICAL": "formatted", "SPARK": "extended"}


def why_stream(statement: Chosen, workspace: Workspace) -> str:
    """Returns the line of EXPLAIN that says why a query runs as a stream."""
    if workspace.settings["execution.runtime-mode"] == "streaming":
        return "stream: 'execution.runtime-mode' is 'streaming'"
    try:
        resolved = resolve(statement.query, workspace.catalog, _name_of)
        way = chosen_way(resolved, workspace.catalog, ends, _name_of)
    except SqlStreamError:
        return "stream"
    if not way.may_be_batch:
        late = workspace.settings["execution.runtime-mode"] == "batch"
        return f"stream: {way.why}{'; no row of it is late' if late else ''}"
    return "stream: all inputs are bounded, and no clause needs all rows at once"


def _name_of(table: Table) -> str:
    return table.name


def explained_batch(batch: Batch, statement: nodes.Explain, workspace: Workspace, batches: Batches) -> str:
    """Returns the EXPLAIN text of a batch. Stages PHYSICAL and SPARK start Spark. Raises SS603 for stages that only
    streams have.
    """
    if statement.stage in _SPARK_STAGES:
        return f"{_headline(batch)}\n{_by_spark(batch, _SPARK_STAGES[statement.stage], workspace, batches)}"
    if statement.stage not in ("LOGICAL", "OPTIMIZED", "ADVICE") or statement.format == "MERMAID":
        message = f"EXPLAIN {statement.stage} in the format {statement.format} has nothing to say of a batch"
        hint = "EXPLAIN shows what it reads, EXPLAIN PHYSICAL the plan of Spark."
        raise UnsupportedError(NO_PLAN_OF_BATCH, message, statement.span, hint=hint)
    if statement.format == "JSON":
        return json.dumps(_document(batch), ensure_ascii=False, indent=2)
    lines = [f"Spark SQL: {to_sql(batch.statement)}", *(f"└─ {line}" for line in _tables(batch))]
    return "\n".join([_headline(batch), *lines])


def _headline(batch: Batch) -> str:
    return f"batch: {batch.why}"


def _tables(batch: Batch) -> list[str]:
    return [f'{table.name}: table of connector "{table.connector}"' for table in batch.tables]


def _document(batch: Batch) -> dict[str, Any]:
    tables = [{"name": table.name, "connector": table.connector} for table in batch.tables]
    return {"mode": "batch", "why": batch.why, "sql": to_sql(batch.statement), "tables": tables}


def _by_spark(batch: Batch, mode: str, workspace: Workspace, batches: Batches) -> str:
    printed = io.StringIO()
    with batches.analyzed(batch, workspace) as analyzed, contextlib.redirect_stdout(printed):
        analyzed.rows.explain(mode)
    text = printed.getvalue().strip()
    for table, name in batch.names.items():
        text = text.replace(name, table)
    return analyzed.secrets.hidden(text)
