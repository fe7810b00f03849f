"""Catalogs of tables that a tool describes with dictionaries or in a file, and types of expressions over them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlglot import exp

from sqlstream.catalogs.store import Database, Entry, InMemory, Kind, Stored
from sqlstream.errors import BindError, SqlStreamError
from sqlstream.grammar import nodes, parse_script
from sqlstream.grammar.quoting import quote_name, quote_string
from sqlstream.planner.binder import bind_query
from sqlstream.planner.catalog import Catalog
from sqlstream.types import UNKNOWN, DataType

WRONG_TABLE = "SS384"

Described = Mapping[str, Any]
"""Either the types of columns by name, or ``columns`` with these and what else a table has: ``watermark``,
``primary_key``, ``options``, ``comment``. With ``query`` it is a view."""

PLANNED = (("connector", "test"),)
"""The options of tables that are only planned: they are read, written and have the changes that they declare."""

_KEYS = frozenset({"columns", "watermark", "primary_key", "options", "comment", "query"})


def tables_of_file(path: Path) -> Mapping[str, Described]:
    """Reads the descriptions of tables, by name, from a JSON file. They may be below a key ``tables``. Raises SS384
    for other content.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BindError(WRONG_TABLE, f'the file "{path}" of tables cannot be read: {error.strerror}') from error
    except ValueError as error:
        raise BindError(WRONG_TABLE, f'the file "{path}" of tables is no JSON: {error}') from error
    tables = document.get("tables", document) if isinstance(document, dict) else None
    if not isinstance(tables, dict):
        raise BindError(WRONG_TABLE, f'the file "{path}" holds no object with tables by name')
    return tables


def create_text(name: str, described: Described) -> str:
    """Returns the CREATE TABLE or CREATE VIEW statement for a table described by a dictionary. Raises BindError SS384
    if it is invalid.
    """
    if not described or not hasattr(described, "keys"):
        raise _wrong(name, "it is no dictionary of columns")
    if "query" in described:
        return f"CREATE VIEW {quote_name(name)} AS {described['query']}"
    whole = isinstance(described.get("columns"), Mapping)
    unknown = sorted(described.keys() - _KEYS) if whole else []
    if unknown:
        raise _wrong(name, f'there is no key "{unknown[0]}"; keys are {", ".join(sorted(_KEYS))}')
    columns = described["columns"] if whole else described
    more = described if whole else {}
    elements = [*_columns(name, columns), *_constraints(more)]
    options = dict(PLANNED) | {str(key): str(value) for key, value in more.get("options", {}).items()}
    comment = f" COMMENT {quote_string(more['comment'])}" if more.get("comment") else ""
    written = ", ".join(f"{quote_string(key)} = {quote_string(value)}" for key, value in options.items())
    return f"CREATE TABLE {quote_name(name)} ({', '.join(elements)}){comment} WITH ({written})"


def _columns(table: str, columns: Mapping[str, Any]) -> Iterator[str]:
    for name, kind in columns.items():
        if not isinstance(kind, str):
            raise _wrong(table, f'the type of column "{name}" is no text')
        yield f"{quote_name(name)} {kind}"


def _constraints(more: Described) -> Iterator[str]:
    """``watermark``: the column, or a pair of the column and an expression."""
    watermark = more.get("watermark")
    if watermark is not None:
        column, expression = (watermark, quote_name(watermark)) if isinstance(watermark, str) else watermark
        yield f"WATERMARK FOR {quote_name(column)} AS {expression}"
    if more.get("primary_key"):
        yield f"PRIMARY KEY ({', '.join(map(quote_name, more['primary_key']))}) NOT ENFORCED"


def _wrong(name: str, detail: str) -> BindError:
    hint = "Write {'t': {'id': 'BIGINT', 'at': 'TIMESTAMP(3)'}}, or {'t': {'columns': {…}, 'watermark': 'at'}}."
    return BindError(WRONG_TABLE, f'table "{name}" is not described as one: {detail}', hint=hint)


@dataclass
class DescribedTables:
    """A catalog ``Store`` of tables that are described by dictionaries, and of objects created later.

    A description becomes a definition when its table is first looked up, so that large catalogs cost only what is
    used.
    """

    tables: Mapping[str, Described]
    created: InMemory
    _names: dict[str, str] | None = None
    _made: dict[str, Stored] = field(default_factory=dict)

    @property
    def _spelled(self) -> dict[str, str]:
        """The names of tables that are described and not dropped, by their key."""
        if self._names is None:
            self._names = {name.casefold(): name for name in self.tables}
        return self._names

    @property
    def default_database(self) -> str:
        """The name of the database that becomes the current one with the catalog."""
        return self.created.default_database

    @property
    def refusal(self) -> str | None:
        """Why nothing can be created in the catalog; None where that is allowed."""
        return self.created.refusal

    @property
    def keeps_text(self) -> bool:
        """False, because definitions exist only in memory and are not stored as text."""
        return False

    def databases(self) -> list[Database]:
        """Returns the databases of the catalog."""
        return self.created.databases()

    def put_database(self, database: Database) -> None:
        """Adds or replaces a database."""
        self.created.put_database(database)

    def drop_database(self, name: str) -> None:
        """Removes a database and all objects in it."""
        self.created.drop_database(name)

    def names(self, database: str, kind: Kind) -> list[str]:
        """Returns the names of all objects of one kind in a database."""
        described = self._spelled.values() if self._is_here(database, kind) else ()
        return [*dict.fromkeys((*described, *self.created.names(database, kind)))]

    def entry(self, database: str, kind: Kind, name: str) -> Entry | None:
        """Returns the definition of an object; None if there is none."""
        created = self.created.entry(database, kind, name)
        if created is not None or not self._is_here(database, kind):
            return created
        spelled = self._spelled.get(name.casefold())
        if spelled is None:
            return None
        if spelled not in self._made:
            self._made[spelled] = _stored(spelled, self.tables[spelled])
        return self._made[spelled]

    def _is_here(self, database: str, kind: Kind) -> bool:
        return kind == "relation" and database.casefold() == self.default_database.casefold()

    def put(self, database: str, kind: Kind, entry: Entry, *, new: bool = False) -> None:
        """Adds or replaces the definition of an object."""
        self.created.put(database, kind, entry, new=new)

    def remove(self, database: str, kind: Kind, name: str) -> None:
        """Removes the definition of an object."""
        self.created.remove(database, kind, name)
        if self._is_here(database, kind) and name.casefold() in self._spelled:
            self._names = {key: spelled for key, spelled in self._spelled.items() if key != name.casefold()}

    def copy(self) -> DescribedTables:
        """Returns an independent copy."""
        return DescribedTables(self.tables, self.created.copy(), self._names, self._made)


def _stored(name: str, described: Described) -> Stored:
    text = create_text(name, described)
    try:
        (statement,) = parse_script(text)
    except SqlStreamError as error:
        raise error.with_source(text) from error.__cause__
    assert isinstance(statement, nodes.CreateTable | nodes.CreateView)
    return Stored(statement, text)


# --- types of expressions that are parsed and not bound -------------------------------------------------------


_RELATIONS = ("with_", "from_", "joins", "laterals")


def type_of(expression: exp.Expr, catalog: Catalog) -> DataType:
    """Returns the type of an expression in the context of the SELECT that contains it; UNKNOWN if it cannot be
    bound.
    """
    around = expression.find_ancestor(exp.Select)
    probe = exp.Select(expressions=[exp.Alias(this=expression.copy(), alias=exp.to_identifier("probed"))])
    if around is not None:
        for key in _RELATIONS:
            value = around.args.get(key)
            probe.set(key, [one.copy() for one in value] if isinstance(value, list) else value and value.copy())
        outer = around.root().args.get("with_")
        if probe.args.get("with_") is None and outer is not None:
            probe.set("with_", outer.copy())
    with suppress(SqlStreamError):
        return bind_query(probe, catalog).schema[0].type
    return UNKNOWN
