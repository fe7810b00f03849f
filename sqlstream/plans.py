"""Statements to plans that can run: bound, optimized, and with connectors that can do what is asked of them."""

from __future__ import annotations

from collections.abc import Iterable

from sqlstream.connectors import connector
from sqlstream.connectors.connector import INSERTS_ONLY, NOT_A_SINK, NOT_A_SOURCE
from sqlstream.errors import ConnectorError, Diagnostic, SqlStreamError
from sqlstream.grammar import nodes
from sqlstream.planner.binder import EmitSettings, bind_statement
from sqlstream.planner.catalog import APPEND_ONLY, Table
from sqlstream.planner.nodes import Insert, Node, Output, Scan, WindowAggregate
from sqlstream.planner.properties import changelog_mode
from sqlstream.planner.rules import optimize
from sqlstream.settings import NEEDS_SETTING, Settings
from sqlstream.workspace import Workspace

SAME_TABLE = "SS511"

_TAKES_UPDATES = (
    "Emit each result once (EMIT ON WINDOW CLOSE), or write to a table of the connector print, or of memory with "
    "'changelog-mode' = 'I,UB,UA,D'."
)


def plan_of(statement: nodes.Query | nodes.Insert, workspace: Workspace) -> Output | Insert:
    """The optimized plan, whose root is an Output or an Insert. SqlStreamError with all that is wrong."""
    plan = optimize(bound_plan(statement, workspace))
    assert isinstance(plan, Output | Insert)
    return plan


def bound_plan(statement: nodes.Query | nodes.Insert, workspace: Workspace) -> Output | Insert:
    """The plan as written, its connectors checked."""
    plan = bind_statement(statement, workspace.catalog, emit_settings(workspace.settings))
    assert isinstance(plan, Output | Insert)
    wrong = tuple(_misused_connectors(plan, statement))
    if wrong:
        raise SqlStreamError.of(wrong)
    return plan


def emit_settings(settings: Settings) -> EmitSettings:
    """When windows fire whose query says nothing about it. SS522 where a delay is missing."""
    zone = None if settings["table.local-time-zone"] == "UTC" else settings["table.local-time-zone"]
    allow_ms = settings["table.exec.emit.allow-lateness"]
    return EmitSettings(_fire_delay(settings, "early"), _fire_delay(settings, "late"), allow_ms, zone)


def _fire_delay(settings: Settings, kind: str) -> int | None:
    """As in Flink: a delay without ``enabled`` changes nothing, ``enabled`` needs a delay."""
    enabled, delay = (f"table.exec.emit.{kind}-fire.{key}" for key in ("enabled", "delay"))
    if not settings[enabled]:
        return None
    delay_ms: int | None = settings[delay]
    if delay_ms is None:
        message = f'setting "{enabled}" needs the setting "{delay}"'
        raise ConnectorError(NEEDS_SETTING, message, hint=f"SET '{delay}' = '1 min'; 0 fires at each row.")
    return delay_ms


def _misused_connectors(plan: Node, statement: nodes.Query | nodes.Insert) -> Iterable[Diagnostic]:
    for table in scanned_tables(plan):
        if not connector(table.connector).is_source:
            message = f'table "{table.name}" cannot be read: connector "{table.connector}" is a sink only'
            yield Diagnostic(NOT_A_SOURCE, message, hint="SHOW CONNECTORS tells which ones are sources.")
    for table in late_tables(plan):
        if not connector(table.connector).is_sink:
            message = f'table "{table.name}" cannot be written: connector "{table.connector}" is a source only'
            yield Diagnostic(NOT_A_SINK, message, hint="SHOW CONNECTORS tells which ones are sinks.")
        if isinstance(plan, Insert) and table.name == plan.table.name:
            message = f'table "{table.name}" cannot get the results and the late rows of one query'
            yield Diagnostic(SAME_TABLE, message, hint="Create a table of its own for the late rows.")
    if isinstance(plan, Insert) and isinstance(statement, nodes.Insert):
        table, span = plan.table, statement.target.span
        if not connector(table.connector).is_sink:
            message = f'table "{table.name}" cannot be written: connector "{table.connector}" is a source only'
            yield Diagnostic(NOT_A_SINK, message, span, hint="SHOW CONNECTORS tells which ones are sinks.")
        elif changelog_mode(plan) != APPEND_ONLY and not connector(table.connector).takes_updates(table):
            message = f'table "{table.name}" takes inserted rows only, and the query updates its results'
            yield Diagnostic(INSERTS_ONLY, message, span, hint=_TAKES_UPDATES)


def late_tables(plan: Node) -> tuple[Table, ...]:
    """The tables that LATE DATA sends late rows TO."""
    firings = (node.firing for node in plan.walk() if isinstance(node, WindowAggregate))
    return tuple({f.late.table.name: f.late.table for f in firings if f.late.table is not None}.values())


def require_sources(plan: Node) -> None:
    """ConnectorError where a source on this machine is not there."""
    missing = [d for table in scanned_tables(plan) for d in connector(table.connector).ready(table, {})]
    if missing:
        raise SqlStreamError.of(missing)


def scanned_tables(plan: Node) -> tuple[Table, ...]:
    """The tables that the plan reads, each once."""
    return tuple({n.table.name: n.table for n in plan.walk() if isinstance(n, Scan)}.values())
