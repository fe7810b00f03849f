"""Which statements Spark's real-time mode executes: from topics to topics, by Java alone, without state or with one
aggregate whose results replace each other.

Spark itself would refuse the others too, after the job has started, and by the names of its operators.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from sqlglot import exp

from sqlstream.connectors import connector
from sqlstream.connectors.connector import NOT_REAL_TIME
from sqlstream.errors import Diagnostic, SqlStreamError
from sqlstream.latency import LATENCY, REAL_TIME
from sqlstream.planner.catalog import APPEND_ONLY, Catalog, RowKind, Table, TimeDomain
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import AssignTime, Insert, Output, Project, Scan, StatementSet
from sqlstream.plans import Root, side_tables
from sqlstream.settings import Settings

_LOW = f"SET '{LATENCY}' = 'low'"

_MIN_EPOCH = "spark.sql.streaming.realTimeMode.minBatchDuration"
_MIN_EPOCH_MS = 5000
_EPOCH = "execution.checkpointing.interval"
_UNSUPPORTED_SETTINGS = ("execution.checkpointing.min-pause", "execution.checkpointing.timeout")
_CLOCKS = frozenset({"NOW", "CURRENT_TIME", "LOCALTIME", "LOCALTIMESTAMP", "CURRENT_ROW_TIMESTAMP", "UNIX_TIMESTAMP"})


def require_real_time(plan: Root, settings: Settings, catalog: Catalog) -> None:
    """Raises UnsupportedError SS369, which names the first thing of a statement that real-time mode does not execute.

    Whatever it executes needs PySpark 4.2.
    """
    for wrong in (*_of_version(), *_of_settings(settings), *_of_plan(plan, catalog)):
        raise SqlStreamError.of([wrong])


@cache
def has_real_time() -> bool:
    """True where PySpark can start a query in real-time mode."""
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    return "realTime" in inspect.signature(DataStreamWriter.trigger).parameters


def _of_version() -> Iterator[Diagnostic]:
    if not has_real_time():
        from pyspark import __version__

        message = f"PySpark {__version__} has no real-time mode"
        yield Diagnostic(NOT_REAL_TIME, message, hint=f"Install PySpark 4.2 or later, or {_LOW}.")


def _of_settings(settings: Settings) -> Iterator[Diagnostic]:
    interval_ms = settings[_EPOCH]
    if interval_ms is not None and interval_ms < _MIN_EPOCH_MS and _MIN_EPOCH not in settings.spark:
        message = f"'{_EPOCH}' = '{settings.text(_EPOCH)}' is too short for '{LATENCY}' = '{REAL_TIME}'"
        hint = f"Rows do not wait for the end of an epoch: write 5 s or more, or SET '{_MIN_EPOCH}' in ms."
        yield Diagnostic(NOT_REAL_TIME, message, hint=hint)
    for key in _UNSUPPORTED_SETTINGS:
        if key in settings.given:
            message = f"'{key}' has no effect with '{LATENCY}' = '{REAL_TIME}', whose epochs are all of one length"
            yield Diagnostic(NOT_REAL_TIME, message, hint=f"RESET '{key}'; '{_EPOCH}' is that length.")


def _of_plan(plan: Root, catalog: Catalog) -> Iterator[Diagnostic]:
    if isinstance(plan, Output):
        message = "real-time mode gives no rows to the caller of a query"
        yield Diagnostic(NOT_REAL_TIME, message, hint=f"Write INSERT INTO a topic, or {_LOW}.")
    if isinstance(plan, StatementSet):
        message = "EXECUTE STATEMENT SET is not executed in real time"
        yield Diagnostic(NOT_REAL_TIME, message, hint=f"Start each INSERT as a job, or {_LOW}.")
    for table in side_tables(plan):
        message = f'real-time mode writes no rows aside, into table "{table.name}"'
        hint = f"Let bad and late rows fail the job or be dropped, or {_LOW}."
        yield Diagnostic(NOT_REAL_TIME, message, hint=hint)
    yield from _of_tables(plan)
    yield from _of_updates(plan)
    for node in plan.walk():
        yield from _of_node(node, catalog)


def _of_node(node: Node, catalog: Catalog) -> Iterator[Diagnostic]:
    if isinstance(node, AssignTime) and node.domain is TimeDomain.PROCESSING:
        message = f'"{node.column}" of table "{node.table}", the time of processing, stands still in an epoch'
        hint = "Take the time of the message: at TIMESTAMP METADATA FROM 'timestamp'."
        yield Diagnostic(NOT_REAL_TIME, message, hint=hint)
    elif node.runs_in_arrow or node.asked_together or (node.keeps_state and not node.updates_in_real_time):
        message = f"{node.clause} is not executed in real time"
        hint = f"Real-time mode filters, computes, unites and groups rows of topics; {_LOW} for others."
        yield Diagnostic(NOT_REAL_TIME, message, hint=hint)
    if _reads_clock(node):
        message = "the clock (CURRENT_TIMESTAMP, NOW and the like) stands still in an epoch of real time"
        hint = "Take the time of the message: at TIMESTAMP METADATA FROM 'timestamp'."
        yield Diagnostic(NOT_REAL_TIME, message, hint=hint)
    for name in _python_functions(node, catalog):
        message = f'function "{name}" is Python, which real-time mode does not call'
        hint = f"Write it in SQL (CREATE FUNCTION … RETURN …), or {_LOW}."
        yield Diagnostic(NOT_REAL_TIME, message, hint=hint)


def _of_updates(plan: Root) -> Iterator[Diagnostic]:
    """What Spark does not do with results that are updated: they go to a table that replaces rows, as they are."""
    if not isinstance(plan, Insert) or not any(node.updates_in_real_time for node in plan.walk()):
        return
    for node in _nodes_above_updates(plan.input):
        if not isinstance(node, Project):
            message = f"{node.clause} over rows that are updated is not executed in real time"
            yield Diagnostic(NOT_REAL_TIME, message, hint=f"Group once, and last, without HAVING; {_LOW} for others.")
    if plan.input.changelog_mode != APPEND_ONLY and RowKind.UPDATE_BEFORE in plan.takes:
        message = f'table "{plan.table.name}" needs rows as they were before, which real-time mode does not have'
        hint = "Write to a table of the connector upsert-kafka with 'kafka.client' = 'spark'."
        yield Diagnostic(NOT_REAL_TIME, message, hint=hint)


def _nodes_above_updates(node: Node) -> list[Node]:
    """The nodes over the aggregate, from the top; other aggregates below it are among them."""
    if node.updates_in_real_time:
        return [below for below in node.walk() if below is not node and below.updates_in_real_time]
    return [node, *(found for below in node.inputs for found in _nodes_above_updates(below))]


def _of_tables(plan: Root) -> Iterator[Diagnostic]:
    scans = [node.table for node in plan.walk() if isinstance(node, Scan)]
    targets = [node.table for node in plan.walk() if isinstance(node, Insert)]
    for table, written in [*((table, False) for table in scans), *((table, True) for table in targets)]:
        refusal = connector(table.connector).refuses_real_time(table, written=written)
        if refusal is not None:
            yield refusal
    twice = _first_repeated([table.name for table in scans])
    if twice is not None:
        message = f'table "{twice}" is read twice, which real-time mode does not do'
        yield Diagnostic(NOT_REAL_TIME, message, hint=f"Read it once, with CASE or UNNEST, or in two jobs, or {_LOW}.")


def _first_repeated(names: Sequence[str]) -> str | None:
    return next((name for number, name in enumerate(names) if name in names[:number]), None)


def _python_functions(node: Node, catalog: Catalog) -> Iterable[str]:
    """The user's functions that the expressions of a node call; those of SQL are written out in the plan."""
    called = (call for expression in _expressions(node, node) for call in expression.find_all(exp.Anonymous))
    return dict.fromkeys(call.name for call in called if catalog.function(call.name) is not None)


def _reads_clock(node: Node) -> bool:
    parts = (part for expression in _expressions(node, node) for part in expression.walk())
    return any(
        isinstance(part, exp.CurrentTimestamp)
        or (isinstance(part, exp.Anonymous) and part.name.upper() in _CLOCKS and not part.expressions)
        for part in parts
    )


def _expressions(value: Any, node: Node) -> Iterator[exp.Expression]:
    """The expressions among the fields of a node, but not those of its inputs."""
    if isinstance(value, exp.Expression):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _expressions(item, node)
    elif is_dataclass(value) and not isinstance(value, Table) and (value is node or not isinstance(value, Node)):
        for field in fields(value):
            yield from _expressions(getattr(value, field.name), node)
