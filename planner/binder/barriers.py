"""ALIGN BARRIERS after a table, and the barriers that TRIGGER ON BARRIER needs below its window."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.errors import Span
from sqlstream.grammar import nodes as syntax
from sqlstream.grammar.spans import span_of
from sqlstream.planner.binder.changelogs import check_changes
from sqlstream.planner.binder.context import Context, bind_error
from sqlstream.planner.binder.expressions import ClauseContext, bind, bind_condition, type_in
from sqlstream.planner.binder.scope import Scope, Visible
from sqlstream.planner.fields import Field, UniqueNames
from sqlstream.planner.intervals import interval_ms, readable
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import AssignTime, Correlate, Filter, Project
from sqlstream.planner.operators.barriers import AlignBarriers
from sqlstream.planner.operators.windows import AssignWindows
from sqlstream.planner.windows import AlignedWindow
from sqlstream.types import DataType

BARRIER_ID = "barrier_id"

_IDS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "DATE", "TIMESTAMP")
_NO_CHANNELS = ("ARRAY", "MAP", "STRUCT", "VARIANT", "BINARY", "INTERVAL", "FLOAT", "DOUBLE")


def align_barriers(clause: syntax.AlignBarriers, scope: Scope, context: Context) -> Scope:
    """Binds the clause ALIGN BARRIERS. Returns the scope with the column ``barrier_id`` added. BindError SS212, SS269
    to SS272 for mistakes in the clause, SS325 if its input has updates.
    """
    if scope.find(BARRIER_ID):
        hint = f"Rename it in a subquery: FROM (SELECT {BARRIER_ID} AS id, … FROM …) ALIGN BARRIERS (…)."
        context.wrong("SS271", f'the table has a column "{BARRIER_ID}", which ALIGN BARRIERS adds', clause.span, hint)
    channel = bind(clause.channel, scope, context, ClauseContext("CHANNEL"))
    number = bind(clause.id, scope, context, ClauseContext("ID"))
    _check_channel(clause.channel, type_in(scope, context, channel), context)
    kind = type_in(scope, context, number)
    _check_id(clause.id, kind, context)
    output = Field(UniqueNames(f.name for f in scope.node.schema).unique(BARRIER_ID), kind)
    node = AlignBarriers(
        scope.node,
        channel,
        clause.channels,
        bind_condition(clause.marker, scope, context, ClauseContext("MARKER")),
        number,
        output,
        _condition(clause.cancel_when, "CANCEL WHEN", scope, context),
        _condition(clause.end_when, "END WHEN", scope, context),
        clause.at_least_once,
        _timeout_ms(clause, context),
        context.settings.most_held,
    )
    node = check_changes(node, context, clause.span)
    table = scope.tables[0] if scope.tables else None
    return scope.with_columns(node, (Visible(BARRIER_ID, output.name, table),))


def _condition(condition: exp.Expr | None, clause: str, scope: Scope, context: Context) -> exp.Expression | None:
    return None if condition is None else bind_condition(condition, scope, context, ClauseContext(clause))


def _check_channel(at: exp.Expr, kind: DataType, context: Context) -> None:
    if kind.name in _NO_CHANNELS:
        message = f"CHANNEL must be a number or text that names a channel, not {kind}"
        context.wrong("SS269", message, at, "Whole numbers, texts, dates and times tell channels apart.")


def _check_id(at: exp.Expr, kind: DataType, context: Context) -> None:
    if kind.name not in _IDS:
        message = f"ID must be a whole number, DATE or TIMESTAMP, not {kind}"
        hint = "Newer barriers have greater ids: write CAST(… AS BIGINT), or the day of the barrier."
        context.wrong("SS270", message, at, hint)


def _timeout_ms(clause: syntax.AlignBarriers, context: Context) -> int | None:
    if clause.timeout is None:
        return None
    at = span_of(clause.timeout)
    timeout_ms = interval_ms(clause.timeout, "the interval of TIMEOUT", at)
    if timeout_ms <= 0:
        context.wrong("SS272", f"the interval of TIMEOUT must be positive, but is {readable(timeout_ms)}", at)
    return timeout_ms


# --- TRIGGER ON BARRIER ---------------------------------------------------------------------------------------


def require_barriers(rows: Node, span: Span) -> None:
    """Raises BindError SS273 or SS274 unless ALIGN BARRIERS is below the window in the plan, with only filters,
    projections and the assignment of this window between them.
    """
    below = rows
    own = next((node for node in rows.walk() if isinstance(node, AssignWindows)), None)
    while below is own or _passes_barriers(below):
        below = below.inputs[0]
    if isinstance(below, AlignBarriers):
        return
    if any(isinstance(node, AlignBarriers) for node in below.walk()):
        message = f"ON BARRIER cannot see the barriers below {_words(below)}"
        hint = "Between ALIGN BARRIERS and the window may stand WHERE, computed columns and window table functions."
        raise bind_error("SS274", message, span, hint)
    hint = "Write FROM t ALIGN BARRIERS (CHANNEL c OF n, MARKER condition, ID expression)."
    raise bind_error("SS273", "ON BARRIER needs rows with aligned barriers", span, hint)


def _passes_barriers(node: Node) -> bool:
    match node:
        case Filter() | Project() | AssignTime():
            return True
        case Correlate(outer=outer):
            return outer
        case AssignWindows(window=window):
            return isinstance(window, AlignedWindow)
    return False


def _words(node: Node) -> str:
    match node:
        case AssignWindows(window=window):
            return f"a {window.sql_name} table function"
        case Correlate():
            return "UNNEST and LATERAL, which drop rows"
    return _NAMES.get(type(node).__name__, "what stands in FROM")


_NAMES = {
    "Union": "a UNION ALL",
    "Lookup": "a lookup join",
    "WindowAggregate": "another window",
    "ProcessTable": "a process function",
}
