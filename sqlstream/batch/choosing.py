"""Which way a query or an INSERT runs under ``'execution.runtime-mode'``.

With ``auto`` a stream goes first: what it executes, and gives rows that are final, runs as it always has, with
checkpoints and rows as they come. A query that it refuses, or whose results it would update, runs as a batch where its
inputs end and no clause of it is one of streams. So does one for its caller that joins without bounds on times.
"""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from sqlglot import exp

from sqlstream.connectors import Source, connector, is_scanned
from sqlstream.connectors.connector import INSERTS_ONLY, NOT_A_SOURCE
from sqlstream.errors import Diagnostic, SqlStreamError, UnsupportedError
from sqlstream.grammar import nodes, to_sql
from sqlstream.grammar.depth import with_room
from sqlstream.grammar.spans import span_of
from sqlstream.planner.bad_rows import BadAction
from sqlstream.planner.batch import Input, Resolved, Way, batch_features, chosen_way, resolve
from sqlstream.planner.batch.decision import Clause
from sqlstream.planner.batch.respelling import for_spark
from sqlstream.planner.binder.context import bind_error
from sqlstream.planner.binder.inserts import without_partition
from sqlstream.planner.binder.sources import ONE_ROW
from sqlstream.planner.catalog import APPEND_ONLY, Table
from sqlstream.planner.nodes import Output, Scan
from sqlstream.planner.operators.interval_join import IntervalJoin
from sqlstream.planner.operators.over import Over
from sqlstream.plans import Root, not_read, plan_of
from sqlstream.settings import COLUMN_EXPANSION
from sqlstream.types import UNKNOWN, DataType
from sqlstream.workspace import Workspace

if TYPE_CHECKING:
    from sqlstream.batch.running import Batches


UNBOUNDED = "SS600"
LOOKUP_ONLY = "SS250"

Chosen = nodes.Query | nodes.Insert


@dataclass(frozen=True)
class Batch:
    """A query that runs as one of Spark SQL. ``query`` is spelled for Spark, and names the tables as ``names`` says."""

    statement: Chosen
    query: exp.Expr
    resolved: Resolved
    names: dict[str, str]
    why: str

    @property
    def tables(self) -> tuple[Table, ...]:
        return tuple(table_input.table for table_input in self.resolved.inputs)


def chosen(statement: Chosen, workspace: Workspace, *, finished: bool = False) -> Root | Batch:
    """The optimized plan of a stream, or the batch. SqlStreamError with what is wrong with the statement.

    ``finished``: with ``auto`` a batch is better wherever the statement can be one, for callers that read whole tables.
    """
    if isinstance(statement, nodes.Insert):
        statement = without_partition(statement, workspace.catalog)
    match workspace.settings["execution.runtime-mode"]:
        case "streaming":
            return plan_of(statement, workspace)
        case "batch":
            return _as_batch(statement, workspace)
    return _as_needed(statement, workspace, finished)


def _as_needed(statement: Chosen, workspace: Workspace, finished: bool) -> Root | Batch:
    try:
        plan = plan_of(statement, workspace)
    except SqlStreamError as error:
        return _instead(statement, workspace, error)
    return batch_in_place_of(plan, statement, workspace, as_table=finished) or plan


def batch_in_place_of(plan: Root, statement: Chosen, workspace: Workspace, *, as_table: bool = False) -> Batch | None:
    """The batch that runs in place of a stream's plan; None where the plan runs. ``as_table``: for callers that read
    whole tables."""
    match workspace.settings["execution.runtime-mode"]:
        case "streaming":
            return None
        case "batch":
            return _batch(statement, workspace)[0]
    read = (node.table for node in plan.walk() if isinstance(node, Scan))
    may_end = all(table == ONE_ROW or ends(table) for table in read)  # else it is no batch for sure
    return _batch(statement, workspace)[0] if may_end and (as_table or _is_better_finished(plan)) else None


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


def _instead(statement: Chosen, workspace: Workspace, error: SqlStreamError) -> Batch:
    """The batch of a query that a stream refuses; the refusal where it is no batch, either."""
    refused, wrong = batch_features(error.diagnostics, LOOKUP_ONLY, NOT_A_SOURCE, INSERTS_ONLY)
    batch = _batch(statement, workspace)[0] if refused else None
    if batch is None:
        raise error
    if wrong:
        raise SqlStreamError.of(wrong)
    return batch


def runs_instead(statement: Chosen, workspace: Workspace, error: SqlStreamError) -> bool:
    """Whether what a stream refuses with ``error`` runs as a batch."""
    return workspace.settings["execution.runtime-mode"] != "streaming" and bool(_instead(statement, workspace, error))


def _as_batch(statement: Chosen, workspace: Workspace) -> Root | Batch:
    """A clause of streams runs as a stream, whose watermark only the end of the input moves. BindError SS600 for a
    table without an end."""
    batch, way = _batch(statement, workspace)
    if way.unbounded is not None:
        raise SqlStreamError.of([_without_end(way.unbounded)])
    return batch or plan_of(statement, workspace)


def set_of_streams(statement: nodes.StatementSet, workspace: Workspace) -> Root:
    """The plan of a statement set, which is a stream; with ``batch`` SS600 as of a query."""
    if workspace.settings["execution.runtime-mode"] == "batch":
        ways = (_batch(insert, workspace)[1] for insert in statement.inserts)
        wrong = [_without_end(way.unbounded) for way in ways if way.unbounded is not None]
        if wrong:
            raise SqlStreamError.of(wrong)
    return plan_of(statement, workspace)


def _without_end(unbounded: Input) -> Diagnostic:
    if not _is_read(unbounded.table):
        return not_read(unbounded.table, span_of(unbounded.at) if unbounded.view is None else None)
    message = f'table "{unbounded.table.name}" has no end, and "execution.runtime-mode" is "batch"'
    hint = "SET 'execution.runtime-mode' = 'auto' runs the query as a stream."
    return _located(bind_error(UNBOUNDED, message, unbounded.at, hint).diagnostic, unbounded)


def _located(diagnostic: Diagnostic, named: Input) -> Diagnostic:
    if named.view is None:
        return diagnostic
    return replace(diagnostic, detail=f'In view "{named.view.name}".', source=named.view.text or None)


@with_room
def _batch(statement: Chosen, workspace: Workspace) -> tuple[Batch | None, Way]:
    """The batch that the statement could run as, and what stands in its way."""
    run, names, catalog = uuid4().hex[:8], dict[str, str](), workspace.catalog

    def named(table: Table) -> str:
        return names.setdefault(table.name, f"sqlstream_{run}_{len(names)}")

    dynamic = workspace.settings["table.dynamic-table-options.enabled"]
    resolved = resolve(statement.query, catalog, named, dynamic)
    way = chosen_way(resolved, catalog, ends)
    way = replace(way, clause=way.clause or _star_with_fewer_columns(resolved, workspace))
    if not way.may_be_batch or _tolerates_functions(resolved, workspace):
        return None, way
    tables = [table_input.table for table_input in resolved.inputs]
    columns: dict[str, DataType] = {}
    for column in (column for table in tables for column in table.columns):
        name = column.name.casefold()
        columns[name] = column.type if columns.get(name, column.type) == column.type else UNKNOWN
    keys = {names[table.name]: table.primary_key for table in tables if table.name in names}
    return Batch(statement, for_spark(resolved.query, catalog, columns, keys), resolved, names, way.why), way


def _star_with_fewer_columns(resolved: Resolved, workspace: Workspace) -> Clause | None:
    """The first * that does not stand for all columns of a table, which Spark would take it for."""
    kinds = workspace.settings[COLUMN_EXPANSION]
    columns = (column for table_input in resolved.inputs for column in table_input.table.columns)
    if not kinds or not any(kind.has(column) for column in columns for kind in kinds):
        return None
    stars = (e for select in resolved.query.find_all(exp.Select) for e in select.expressions if e.is_star)
    return next((Clause(f"* as '{COLUMN_EXPANSION}' has it", span_of(star)) for star in stars), None)


def ends(table: Table) -> bool:
    """Whether all rows of a table are there: of one that ends, or of a database."""
    return _is_read(table) and (table.bounded or is_scanned(table))


def _is_read(table: Table) -> bool:
    return isinstance(connector(table.connector), Source) or is_scanned(table)


def _tolerates_functions(resolved: Resolved, workspace: Workspace) -> bool:
    """True where a function may fail for a row, which only streams leave out."""
    if workspace.settings["sqlstream.functions.on-error"][0] is BadAction.FAIL:
        return False
    return any(workspace.catalog.function(call.name) for call in resolved.query.find_all(exp.Anonymous))


# --- EXPLAIN --------------------------------------------------------------------------------------------------


NO_PLAN_OF_BATCH = "SS603"

_SPARK_STAGES = {"PHYSICAL": "formatted", "SPARK": "extended"}


def why_stream(statement: Chosen, workspace: Workspace) -> str:
    """The line about a query that runs as a stream."""
    if workspace.settings["execution.runtime-mode"] == "streaming":
        return "stream: 'execution.runtime-mode' is 'streaming'"
    try:
        way = chosen_way(resolve(statement.query, workspace.catalog, lambda table: table.name), workspace.catalog, ends)
    except SqlStreamError:
        return "stream"
    if not way.may_be_batch:
        late = workspace.settings["execution.runtime-mode"] == "batch"
        return f"stream: {way.why}{'; no row of it is late' if late else ''}"
    return "stream: all inputs are bounded, and no clause needs all rows at once"


def explained_batch(batch: Batch, statement: nodes.Explain, workspace: Workspace, batches: Batches) -> str:
    """The batch at a stage; PHYSICAL and SPARK start Spark. SS603 for stages that only streams have."""
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
