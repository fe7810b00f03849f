"""The columns of JSON documents, for the connectors ``http`` and ``redis``: where they stand, and which are wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from sqlstream.connectors.connector import WRONG_COLUMN
from sqlstream.errors import Diagnostic, Span
from sqlstream.options import WRONG_VALUE, Option, OptionKind, hint_of
from sqlstream.planner.catalog import Table
from sqlstream.udfs.lookup.sources.json_paths import JsonPath, parse_path
from sqlstream.udfs.lookup.sources.json_values import has_json

if TYPE_CHECKING:
    pass

JSON_PATH = OptionKind("path", "a path such as $.a.b[0] or $.items[*].name", parse_path)
COLUMN_PATH = Option("columns.#.path", JSON_PATH, "Where column # stands in the JSON; without it, under its name.")


def column_paths(table: Table) -> tuple[tuple[str, JsonPath], ...]:
    """Returns pairs of column name and JSON path: where in a document each physical column is. The default path is the
    column's name.
    """
    given = {COLUMN_PATH.word(key): value for key, value in table.options}
    paths = ((c.name, given.get(c.name)) for c in table.physical_columns)
    return tuple((name, JsonPath((name,)) if text is None else parse_path(text)) for name, text in paths)


def check_columns(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    """Yields diagnostics: SS505 for columns of types that JSON cannot hold, SS504 for path options that name an
    unknown column.
    """
    names = [c.name for c in table.physical_columns]
    for column in table.physical_columns:
        if not has_json(column.type):
            message = f'connector "{table.connector}" has no values of type {column.type} for column "{column.name}"'
            yield Diagnostic(WRONG_COLUMN, message, spans.get("connector"), hint="Choose another type.")
    for key, _ in table.options:
        word = COLUMN_PATH.word(key)
        if word is not None and word not in names:
            message = f'option "{key}" names the column "{word}", which table "{table.name}" does not have'
            yield Diagnostic(WRONG_VALUE, message, spans.get(key), hint=hint_of(word, names, "Columns"))


def check_names(
    table: Table, key: str, names: Iterable[str], spans: Mapping[str, Span], scalars: frozenset[str]
) -> Iterable[Diagnostic]:
    """Checks the columns ``names`` that the template in option ``key`` refers to.

    Yields diagnostics SS504 for unknown columns and SS505 for columns whose type is not in ``scalars``.
    """
    kinds = {c.name: c.type for c in table.physical_columns}
    for name in names:
        if name not in kinds:
            message = f'option "{key}" names the column "{name}", which table "{table.name}" does not have'
            yield Diagnostic(WRONG_VALUE, message, spans.get(key), hint=hint_of(name, kinds, "Columns"))
        elif kinds[name].name not in scalars:
            message = f'column "{name}" of type {kinds[name]} cannot be part of the option "{key}"'
            yield Diagnostic(WRONG_COLUMN, message, spans.get(key), hint="Take columns of plain types.")
