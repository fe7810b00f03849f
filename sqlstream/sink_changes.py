"""Which changes of rows a sink takes, and what to write where a query has others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from sqlstream.connectors import UpsertSink, installed, row_kinds_taken
from sqlstream.connectors.connector import INSERTS_ONLY
from sqlstream.errors import Diagnostic, Span
from sqlstream.planner.catalog import APPEND_ONLY, RowKind, Table
from sqlstream.planner.changes import is_upsert, producer_of, rejected_kinds
from sqlstream.planner.nodes import Insert
from sqlstream.planner.properties import changelog_text
from sqlstream.settings import UPSERT_MATERIALIZE

NO_KEY = "SS286"


COLLIDING = "SS667"


def refused_changes(plan: Insert, span: Span | None, *, collide: bool = True) -> Iterable[Diagnostic]:
    """SS510 where the table does not take the changes of the query, SS286 where it does not know of which rows, SS667
    where rows of the query may ``collide`` on its PRIMARY KEY and must not."""
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
        hint = f"Declare a PRIMARY KEY by which the query updates its rows, or SET '{UPSERT_MATERIALIZE}' = 'force'."
        yield Diagnostic(COLLIDING, message, span, detail=detail, hint=hint)


def may_collide(plan: Insert) -> bool:
    """True where the table replaces rows by its PRIMARY KEY, and the query updates them by another one."""
    updates = plan.changelog_mode != APPEND_ONLY
    by_key = bool(plan.table.primary_key) and RowKind.UPDATE_BEFORE not in plan.takes
    return updates and by_key and not plan.upserts_by_primary_key


def _hint(plan: Insert, instead: str | None) -> str:
    return f"{_sentence(', or '.join(_ways(plan.table, instead)))}."


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
    """True for tables that take changes once they have a PRIMARY KEY."""
    keyed = replace(table, primary_key=tuple(c.name for c in table.physical_columns[:1]))
    return RowKind.UPDATE_AFTER in row_kinds_taken(keyed) and table.changelog == APPEND_ONLY


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"
