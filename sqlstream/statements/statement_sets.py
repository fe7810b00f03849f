"""What the inserts of a statement set must not do to each other: they are one query, with one epoch."""

from __future__ import annotations

from collections.abc import Iterable

from sqlstream.connectors import Sink, connector
from sqlstream.errors import Diagnostic, Span
from sqlstream.grammar import nodes
from sqlstream.planner.catalog import Table
from sqlstream.planner.nodes import StatementSet
from sqlstream.table_uses import place_in, scanned_tables, side_tables

READS_ITS_OWN = "SS276"
ONE_PLACE = "SS277"
RESULT_AND_SIDE = "SS278"


def misused_in_set(plan: StatementSet, statement: nodes.StatementSet) -> tuple[Diagnostic, ...]:
    """SS276 for a bounded source that another insert writes, SS277 and SS278 for tables that overwrite each other."""
    return (*_read_too_early(plan, statement), *_both(plan, statement), *_one_place(plan, statement))


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
        other = table_at.setdefault((table.connector, location), table)
        if other.name != table.name:
            message = f'tables "{other.name}" and "{table.name}" of one statement set write to the same place'
            hint = f'Give them places of their own, or write INSERT INTO "{other.name}" in both statements.'
            yield Diagnostic(ONE_PLACE, message, _target(table, statement), hint=hint)


def _written(plan: StatementSet) -> tuple[Table, ...]:
    return tuple({table.name: table for table in (*plan.tables, *side_tables(plan))}.values())


def _target(table: Table, statement: nodes.StatementSet) -> Span | None:
    """Where the set names the table first as a target; None where only a clause of a query does."""
    targets = (insert.target for insert in statement.inserts)
    return next((name.span for name in targets if str(name).casefold() == table.name.casefold()), None)
