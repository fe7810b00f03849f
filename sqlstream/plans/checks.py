"""What connectors do not support, and tables that the queries of a statement set cannot share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain

from sqlstream.connectors import (
    LookupTable,
    Sink,
    Source,
    UpsertSink,
    answers_lookups,
    connector,
    discards_rows,
    installed,
    row_kinds_taken,
)
from sqlstream.connectors.connector import INSERTS_ONLY, NOT_A_LOOKUP, NOT_A_SINK, NOT_A_SOURCE, SharedName
from sqlstream.errors import Diagnostic, Span, SqlStreamError
from sqlstream.grammar import nodes
from sqlstream.planner import unsupported
from sqlstream.planner.aggregate_calls import not_executed
from sqlstream.planner.bad_rows import ON_ERROR
from sqlstream.planner.catalog import APPEND_ONLY, RowKind, Table
from sqlstream.planner.changes import is_upsert, producer_of, rejected_kinds
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Insert, StatementSet
from sqlstream.planner.physical import Engine, engine_of
from sqlstream.planner.properties import changelog_text
from sqlstream.planner.type_inference import Types
from sqlstream.plans.planner_settings import engine_settings_of
from sqlstream.plans.tables import looked_up_tables, place_in, read_columns, scanned_tables, side_tables
from sqlstream.settings import UPSERT_MATERIALIZE
from sqlstream.workspace import Workspace

NO_BAD_ROWS = "SS243"
READS_ITS_OWN = "SS276"
ONE_PLACE = "SS277"
RESULT_AND_SIDE = "SS278"
NO_KEY = "SS286"
SAME_TABLE = "SS511"
COLLIDING = "SS667"

_NO_BAD_ROWS = "Leave it out; LOOKUP ASYNC (ON ERROR …) says what happens to rows whose lookup fails."


def misused(
    plan: Node, statement: nodes.Query | nodes.Insert | nodes.StatementSet, *, collide: bool
) -> tuple[Diagnostic, ...]:
    """Returns diagnostics for tables that the statement uses as their connectors, or other inserts of a statement set,
    do not allow. ``collide``: see ``refused_changes``.
    """
    if not isinstance(plan, StatementSet):
        assert not isinstance(statement, nodes.StatementSet)
        return tuple(_misused_connectors(plan, statement, collide))
    assert isinstance(statement, nodes.StatementSet)
    pairs = zip(plan.inserts, statement.inserts, strict=True)
    by_queries = dict.fromkeys(d for insert, written in pairs for d in _misused_connectors(insert, written, collide))
    return tuple(by_queries or _misused_in_set(plan, statement))


def _misused_in_set(plan: StatementSet, statement: nodes.StatementSet) -> Iterable[Diagnostic]:
    """Diagnostics for tables that inserts of one statement set cannot share.

    SS276: a bounded source that another insert writes. SS277: two tables that store their rows at the same place.
    SS278: a table that receives both results and side outputs.
    """
    return chain(_read_too_early(plan, statement), _both(plan, statement), _one_place(plan, statement))


def _read_too_early(plan: StatementSet, statement: nodes.StatementSet) -> Iterable[Diagnostic]:
    """A bounded source is what is there at the start, so rows of this very run would silently be missing."""
    written = {table.name for table in _written(plan)}
    for insert, text in zip(plan.inserts, statement.inserts, strict=True):
        for table in scanned_tables(insert):
            if table.bounded and table.name in written:
                message = f'table "{table.name}" is read to its end while the same statement set writes it'
                hint = (
                    "Put what is written into a view, and let both INSERT statements read the view; a table that is "
                    "watched for new rows, as with 'source.monitor-interval', gives them in the next epoch."
                )
                yield Diagnostic(READS_ITS_OWN, message, place_in(text, table), hint=hint)


def _both(plan: StatementSet, statement: nodes.StatementSet) -> Iterable[Diagnostic]:
    """The rows of an epoch replace those that were written before, so each table is written once in it."""
    results = {table.name for table in plan.tables}
    for table in side_tables(plan):
        if table.name in results:
            message = f'table "{table.name}" cannot get the results and the late or failed rows of one statement set'
            hint = "Create a table of its own for late rows, and for failed ones."
            yield Diagnostic(RESULT_AND_SIDE, message, _target(table, statement), hint=hint)


def _one_place(plan: StatementSet, statement: nodes.StatementSet) -> Iterable[Diagnostic]:
    table_at: dict[object, Table] = {}
    for table in _written(plan):
        sink = connector(table.connector)
        location = sink.location(table) if isinstance(sink, Sink) else None
        if location is None:
            continue
        place = location if isinstance(location, SharedName) else (table.connector, location)
        other = table_at.setdefault(place, table)
        if other.name != table.name and isinstance(location, SharedName):
            message = f'tables "{other.name}" and "{table.name}" of one statement set have the same {location.what}'
            yield Diagnostic(ONE_PLACE, message, _target(table, statement), hint=location.hint)
        elif other.name != table.name:
            message = f'tables "{other.name}" and "{table.name}" of one statement set write to the same place'
            hint = f'Give them places of their own, or write INSERT INTO "{other.name}" in both statements.'
            yield Diagnostic(ONE_PLACE, message, _target(table, statement), hint=hint)


def _written(plan: StatementSet) -> tuple[Table, ...]:
    return tuple({table.name: table for table in (*plan.tables, *side_tables(plan))}.values())


def _target(table: Table, statement: nodes.StatementSet) -> Span | None:
    """Where the set names the table first as a target; None where only a clause of a query does."""
    targets = (insert.target for insert in statement.inserts)
    return next((name.span for name in targets if str(name).casefold() == table.name.casefold()), None)


def calls_not_executed(plan: Node, workspace: Workspace) -> tuple[Diagnostic, ...]:
    """SS395 for each aggregate call that no kernel computes, where kernels run the plan as a stream."""
    if engine_of(plan, engine_settings_of(workspace.settings).engine) is not Engine.COLUMNAR:
        return ()
    function = workspace.catalog.function
    calls = [(item, node) for node in plan.walk() for item in node.aggregate_items]
    errors = [not_executed(item, Types(node.inputs[0].schema, function)) for item, node in calls]
    return tuple(dict.fromkeys(error.diagnostic for error in errors if error is not None))


def _misused_connectors(plan: Node, statement: nodes.Query | nodes.Insert, collide: bool) -> Iterable[Diagnostic]:
    for table in scanned_tables(plan):
        source = connector(table.connector)
        if not isinstance(source, Source):
            yield not_read(table, place_in(statement, table))
        elif table.changelog != APPEND_ONLY and not source.has_kinds(table):
            yield _without_kinds(table, place_in(statement, table))
    for table in looked_up_tables(plan):
        if not answers_lookups(table):
            message = f'table "{table.name}" cannot be looked up: connector "{table.connector}" answers no lookups'
            yield Diagnostic(NOT_A_LOOKUP, message, place_in(statement, table), hint=_lookup_hint(table))
        if table.option(ON_ERROR) is not None:
            message = f'option "{ON_ERROR}" of table "{table.name}" has no effect in a lookup'
            yield Diagnostic(NO_BAD_ROWS, message, place_in(statement, table), hint=_NO_BAD_ROWS)
    yield from _misused_beside(plan)
    if isinstance(plan, Insert) and isinstance(statement, nodes.Insert):
        table, span = plan.table, statement.target.span
        if not isinstance(connector(table.connector), Sink):
            message = f'table "{table.name}" cannot be written: connector "{table.connector}" is a source only'
            yield Diagnostic(NOT_A_SINK, message, span, hint="SHOW CONNECTORS tells which ones are sinks.")
        else:
            yield from refused_changes(plan, span, collide=collide)


def _misused_beside(plan: Node) -> Iterable[Diagnostic]:
    """The tables that get rows beside the result."""
    for table in side_tables(plan):
        if table.materialized:
            message = f'"{table.name}" is a materialized view, which its own job alone writes'
            yield Diagnostic(NOT_A_SINK, message, hint="Create a table of its own for late rows, and for failed ones.")
        if not isinstance(connector(table.connector), Sink):
            message = f'table "{table.name}" cannot be written: connector "{table.connector}" is a source only'
            yield Diagnostic(NOT_A_SINK, message, hint="SHOW CONNECTORS tells which ones are sinks.")
        if isinstance(plan, Insert) and table.name == plan.table.name:
            message = f'table "{table.name}" cannot get the results and the late or failed rows of one query'
            yield Diagnostic(SAME_TABLE, message, hint="Create a table of its own for late rows, and for failed ones.")


def not_read(table: Table, span: Span | None) -> Diagnostic:
    """Returns the diagnostic SS506 for a table that queries cannot scan, because its connector is only a sink or only
    answers lookups.
    """
    if isinstance(connector(table.connector), LookupTable):
        message = f'table "{table.name}" cannot be read: connector "{table.connector}" answers lookups only'
        hint = f"Look it up: FROM o JOIN {table.name} FOR SYSTEM_TIME AS OF o.pt ON …, where pt AS PROCTIME() is in o."
        return Diagnostic(NOT_A_SOURCE, message, span, hint=hint)
    message = f'table "{table.name}" cannot be read: connector "{table.connector}" is a sink only'
    return Diagnostic(NOT_A_SOURCE, message, span, hint="SHOW CONNECTORS tells which ones are sources.")


def _without_kinds(table: Table, span: Span | None) -> Diagnostic:
    """Records of the connector are rows: nothing in them says that one replaces or deletes another."""
    kinds = changelog_text(table.changelog)
    detail = f'Table "{table.name}" declares the kinds {kinds}, and records of connector "{table.connector}" have none.'
    hint = "Read an append-only table ('changelog-mode' = 'I'), and keep the last row of each key by a window."
    return replace(unsupported.diagnostic("changelog input", span, detail), hint=hint)


def _lookup_hint(table: Table) -> str:
    if isinstance(connector(table.connector), LookupTable):
        return "Add 'role' = 'lookup' to WITH of its CREATE TABLE."
    names = ", ".join(kind.name for kind in installed() if isinstance(kind, LookupTable))
    return f"Connectors that answer lookups: {names}."


def _not_ready(table: Table) -> Iterable[Diagnostic]:
    """What prevents a source on this machine from being read; nothing for tables that are no source."""
    kind = connector(table.connector)
    return kind.ready(table, {}) if isinstance(kind, Source) else ()


def _lacks(table: Table, columns: tuple[str, ...]) -> Iterable[Diagnostic]:
    kind = connector(table.connector)
    return kind.inspect(table, columns) if isinstance(kind, Source) else ()


def require_sources(plan: Node) -> None:
    """Raises ConnectorError if a file or folder that the plan reads does not exist on this machine, or lacks columns
    that the plan reads.
    """
    wrong = missing_sources(plan)
    if wrong:
        raise SqlStreamError.of(wrong)


def missing_sources(plan: Node) -> list[Diagnostic]:
    """What ``require_sources`` raises; empty where all is there."""
    wrong = [d for table in scanned_tables(plan) for d in _not_ready(table)]
    return wrong or [d for table, names in read_columns(plan) for d in _lacks(table, names)]


def refused_changes(plan: Insert, span: Span | None, *, collide: bool = True) -> Iterable[Diagnostic]:
    """Yields diagnostics for an INSERT whose query produces changes that the table does not accept.

    SS510: row kinds that the sink does not accept. SS286: updates without a PRIMARY KEY. SS667: updates of different
    rows of the query may write to the same PRIMARY KEY.
    ``collide``: True if that is allowed, so that SS667 is left out.
    """
    table = plan.table
    for _, kinds in rejected_kinds(plan):
        maker = producer_of(plan.input, kinds)
        takes = "inserted rows only" if plan.takes == APPEND_ONLY else f"rows of the kinds {changelog_text(plan.takes)}"
        message = f'table "{table.name}" takes {takes}, and the query updates its results'
        detail = f"Rows of the kinds {changelog_text(kinds)} come from {maker.producer_name}."
        yield Diagnostic(INSERTS_ONLY, message, span, detail=detail, hint=_hint(plan, maker.append_only_hint))
        return
    if plan.changelog_mode != APPEND_ONLY and is_upsert(table) and not table.primary_key:
        message = f'table "{table.name}" takes updates without -U, and has no PRIMARY KEY that says of which rows'
        yield Diagnostic(NO_KEY, message, span, hint="Declare PRIMARY KEY (…) NOT ENFORCED: a key of the query.")

    if not collide and may_collide(plan):
        key = ", ".join(table.primary_key)
        message = f'rows that the query updates may collide on the PRIMARY KEY ({key}) of table "{table.name}"'
        detail = (
            "One of them may delete what another one has written: rows that were there before are not kept for that."
        )
        hint = f"Declare a PRIMARY KEY by which the query updates its rows, or SET '{UPSERT_MATERIALIZE}' = 'auto'."
        yield Diagnostic(COLLIDING, message, span, detail=detail, hint=hint)


def may_collide(plan: Insert) -> bool:
    """True where the table replaces rows by PRIMARY KEY, but the query updates rows by a key that the PRIMARY KEY does
    not contain.

    Two rows of the query may then have the same PRIMARY KEY. Flink uses the same condition to store rows in front of
    the sink (``upsert-materialize`` = auto).
    """
    if discards_rows(plan.table):
        return False
    if plan.changelog_mode == APPEND_ONLY or not plan.table.primary_key or RowKind.UPDATE_BEFORE in plan.takes:
        return False
    columns = (column.name for column in plan.table.physical_columns)
    fields = {column: field.name for column, field in zip(columns, plan.input.schema, strict=True)}
    written = {fields[name] for name in plan.table.primary_key}
    return not any(key <= written for key in plan.input.upsert_keys)


def _hint(plan: Insert, instead: str | None) -> str:
    ways = ", or ".join(_ways(plan.table, instead))
    return f"{ways[0].upper()}{ways[1:]}."


def _ways(table: Table, instead: str | None) -> Iterator[str]:
    if instead is not None:
        yield instead
    if _would_replace(table):
        yield f'declare the PRIMARY KEY of "{table.name}", by which it replaces rows'
    else:
        upserting = [kind.name for kind in installed() if isinstance(kind, UpsertSink)]
        yield (
            "write to a table of the connector print, of memory with 'changelog-mode' = 'I,UB,UA,D', "
            f"or with a PRIMARY KEY of {', '.join(upserting)}"
        )


def _would_replace(table: Table) -> bool:
    """Whether the table would take changes if it had a PRIMARY KEY."""
    keyed = replace(table, primary_key=tuple(c.name for c in table.physical_columns[:1]))
    return RowKind.UPDATE_AFTER in row_kinds_taken(keyed) and table.changelog == APPEND_ONLY
