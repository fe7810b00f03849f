"""Which changes of rows a sink takes, and what to write where a query has others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlstream import connectors
from sqlstream.connectors import connector
from sqlstream.connectors.connector import INSERTS_ONLY, declared_or_upserts, upserts
from sqlstream.errors import Diagnostic, Span
from sqlstream.planner.catalog import APPEND_ONLY, Table
from sqlstream.planner.changes import instead_of, is_upsert, made_by, maker_of, not_taken
from sqlstream.planner.nodes import Insert
from sqlstream.planner.properties import changelog_mode, changelog_text

NO_KEY = "SS286"


def refused_changes(plan: Insert, span: Span | None) -> Iterable[Diagnostic]:
    """SS510 where the table does not take the changes of the query, SS286 where it does not know of which rows."""
    table = plan.table
    for _, kinds in not_taken(plan):
        maker = maker_of(plan.input, kinds)
        takes = "inserted rows only" if plan.takes == APPEND_ONLY else f"rows of the kinds {changelog_text(plan.takes)}"
        message = f'table "{table.name}" takes {takes}, and the query updates its results'
        detail = f"Rows of the kinds {changelog_text(kinds)} come from {made_by(maker)}."
        yield Diagnostic(INSERTS_ONLY, message, span, detail=detail, hint=_hint(plan, instead_of(maker)))
        return
    if changelog_mode(plan) != APPEND_ONLY and is_upsert(table) and not table.primary_key:
        message = f'table "{table.name}" takes updates without -U, and has no PRIMARY KEY that says of which rows'
        yield Diagnostic(NO_KEY, message, span, hint="Declare PRIMARY KEY (…) NOT ENFORCED: a key of the query.")


def _hint(plan: Insert, instead: str | None) -> str:
    return f"{_sentence(', or '.join(_ways(plan.table, instead)))}."


def _ways(table: Table, instead: str | None) -> Iterator[str]:
    if instead is not None:
        yield instead
    if _replaces(table.connector) and table.changelog == APPEND_ONLY:
        yield f'declare the PRIMARY KEY of "{table.name}", by which it replaces rows'
    else:
        upserting = [name for name in connectors.NAMES if _replaces(name)]
        yield (
            "write to a table of the connector print, of memory with 'changelog-mode' = 'I,UB,UA,D', "
            f"or with a PRIMARY KEY of {', '.join(upserting)}"
        )


def _replaces(name: str) -> bool:
    """True for connectors that know rows by the PRIMARY KEY, where a table has one."""
    return connector(name).takes_changes in (upserts, declared_or_upserts)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"
