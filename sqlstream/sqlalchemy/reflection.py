"""What there is: databases as schemas, tables, views, columns, keys and comments, asked of the catalogs themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar, cast

from sqlalchemy import exc
from sqlalchemy.engine import default, reflection
from sqlalchemy.types import NullType

from sqlstream.catalog import Catalog
from sqlstream.catalogs.store import Bound
from sqlstream.connectors.secrets import masked
from sqlstream.dbapi.connection import SERIAL
from sqlstream.dbapi.exceptions import raising
from sqlstream.errors import BindError
from sqlstream.grammar import nodes, to_sql
from sqlstream.grammar.nodes import Name
from sqlstream.grammar.quoting import quote_name
from sqlstream.planner.catalog import Column, Table, View
from sqlstream.session import Session
from sqlstream.sqlalchemy.compiler import alchemy_type, type_of_column

_Path = tuple[str, str, str]


_Method = TypeVar("_Method", bound=Callable[..., Any])


def _cached(method: _Method) -> _Method:
    """``reflection.cache``, also that of SQLAlchemy 1.4, which writes code with the annotations and cannot read ours
    again, and gives options of a table to all methods, which it cannot look up where they are dictionaries."""
    method.__annotations__ = {}
    cached = reflection.cache(method)

    @wraps(method)
    def asked(self: Any, connection: Any, *arguments: Any, **named: Any) -> Any:
        others = {key: value for key, value in named.items() if not key.startswith("sqlstream_")}
        return cached(self, connection, *arguments, **others)

    return cast(_Method, asked)


@contextmanager
def _session(connection: Any) -> Iterator[Session]:
    """The session of a connection, whose catalogs stay as they are for the block."""
    with SERIAL, raising():
        held = connection.connection
        yield getattr(held, "dbapi_connection", held).session  # the first one of an engine is bare in SQLAlchemy 1.4


def _namespace(catalog: Catalog, schema: str | None) -> tuple[str, str]:
    return catalog.current if schema is None else catalog.namespace(Name(tuple(schema.split("."))))


def _path(catalog: Catalog, name: str, schema: str | None) -> _Path:
    try:
        return (*_namespace(catalog, schema), name)
    except BindError:
        raise exc.NoSuchTableError(f"{schema}.{name}") from None


def _relation(catalog: Catalog, name: str, schema: str | None) -> Table | View:
    item = catalog.item("relation", _path(catalog, name, schema))
    if not isinstance(item, Table | View):
        raise exc.NoSuchTableError(name if schema is None else f"{schema}.{name}")
    return item


class Reflection(default.DefaultDialect):
    """The methods with which SQLAlchemy's inspector reads the catalog."""

    def _get_default_schema_name(self, connection: Any) -> str:
        with _session(connection) as session:
            return session.workspace.catalog.current[1]

    @_cached
    def get_schema_names(self, connection: Any, **kw: Any) -> list[str]:
        """The names of all databases: those of the current catalog alone, those of others as ``catalog.database``."""
        with _session(connection) as session:
            catalog = session.workspace.catalog
            return [
                database.name if mount.name == catalog.current[0] else f"{mount.name}.{database.name}"
                for mount in catalog.mounts()
                for database in mount.store.databases()
            ]

    @_cached
    def has_schema(self, connection: Any, schema_name: str, **kw: Any) -> bool:
        """Whether a database of this name exists."""
        with _session(connection) as session:
            try:
                _namespace(session.workspace.catalog, schema_name)
            except BindError:
                return False
        return True

    @_cached
    def has_table(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> bool:
        """Whether a table or view of this name exists, temporary ones included."""
        try:
            with _session(connection) as session:
                _relation(session.workspace.catalog, table_name, schema)
        except exc.NoSuchTableError:
            return False
        return True

    @_cached
    def get_table_names(self, connection: Any, schema: str | None = None, **kw: Any) -> list[str]:
        """The tables of a database that are stored in its catalog."""
        return _names(connection, schema, Table, temporary=False)

    @_cached
    def get_temp_table_names(self, connection: Any, schema: str | None = None, **kw: Any) -> list[str]:
        """The temporary tables of a database."""
        return _names(connection, schema, Table, temporary=True)

    @_cached
    def get_view_names(self, connection: Any, schema: str | None = None, **kw: Any) -> list[str]:
        """The views of a database that are stored in its catalog."""
        return _names(connection, schema, View, temporary=False)

    @_cached
    def get_temp_view_names(self, connection: Any, schema: str | None = None, **kw: Any) -> list[str]:
        """The temporary views of a database."""
        return _names(connection, schema, View, temporary=True)

    @_cached
    def get_view_definition(self, connection: Any, view_name: str, schema: str | None = None, **kw: Any) -> str:
        """The query of a view; NoSuchTableError where there is no such view."""
        with _session(connection) as session:
            relation = _relation(session.workspace.catalog, view_name, schema)
            if not isinstance(relation, View):
                raise exc.NoSuchTableError(view_name)
            return to_sql(relation.query)

    @_cached
    def get_columns(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> list[Any]:
        """The columns of a table or view with their types; NoSuchTableError where there is none."""
        with _session(connection) as session:
            catalog = session.workspace.catalog
            relation = _relation(catalog, table_name, schema)
            if isinstance(relation, Table):
                return [_column(column, relation) for column in relation.columns]
            path = _path(catalog, table_name, schema)
            columns = session.columns_of(f"SELECT * FROM {'.'.join(map(quote_name, path))}")
            return [_plain_column(name, alchemy_type(type_)) for name, type_ in columns]

    @_cached
    def get_pk_constraint(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        """The primary key of a table in SQLAlchemy's form, ``{"constrained_columns": […], "name": None}``; without
        columns for views.
        """
        with _session(connection) as session:
            relation = _relation(session.workspace.catalog, table_name, schema)
            columns = list(relation.primary_key) if isinstance(relation, Table) else []
            return {"constrained_columns": columns, "name": None}

    @_cached
    def get_table_comment(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        """The comment of a table or view in SQLAlchemy's form, ``{"text": …}``; None where there is no comment."""
        with _session(connection) as session:
            catalog = session.workspace.catalog
            relation = _relation(catalog, table_name, schema)
            if isinstance(relation, Table):
                return {"text": relation.comment}
            entry = catalog.entry("relation", _path(catalog, table_name, schema))
            stored = entry.stored if isinstance(entry, Bound) else entry
            statement = None if stored is None else stored.statement
            return {"text": statement.comment if isinstance(statement, nodes.CreateView) else None}

    @_cached
    def get_table_options(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        """The WITH options of a table with secrets masked, as ``{"sqlstream_with": {"connector": …, …}}``; empty for
        views.
        """
        with _session(connection) as session:
            relation = _relation(session.workspace.catalog, table_name, schema)
            if isinstance(relation, View):
                return {}
            return {"sqlstream_with": {"connector": relation.connector, **dict(masked(relation.options))}}

    def _nothing(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> list[Any]:
        with _session(connection) as session:
            _relation(session.workspace.catalog, table_name, schema)
        return []

    get_foreign_keys = get_indexes = get_unique_constraints = get_check_constraints = _nothing


def _names(connection: Any, schema: str | None, kind: type[Table] | type[View], *, temporary: bool) -> list[str]:
    with _session(connection) as session:
        catalog = session.workspace.catalog
        try:
            namespace = _namespace(catalog, schema)
        except BindError:
            return []
        paths = [(*namespace, name) for name in catalog.names("relation", namespace)]
        return [path[2] for path in paths if _is(catalog, path, kind) and _is_temporary(catalog, path) is temporary]


def _is(catalog: Catalog, path: _Path, kind: type[Table] | type[View]) -> bool:
    return isinstance(catalog.item("relation", path), kind)


_is_temporary: Callable[[Catalog, _Path], bool] = lambda catalog, path: catalog.is_temporary("relation", path)  # noqa: E731


def _column(column: Column, table: Table) -> dict[str, Any]:
    told = _plain_column(column.name, type_of_column(column))
    told["nullable"] = column.nullable and column.name not in table.primary_key
    told["comment"] = column.comment
    if column.expression is not None:
        told["computed"] = {"sqltext": to_sql(column.expression), "persisted": False}
    return told


def _plain_column(name: str, type_: Any) -> dict[str, Any]:
    known = NullType() if type_ is None else type_
    return {"name": name, "type": known, "nullable": True, "default": None, "comment": None}
