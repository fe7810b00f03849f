"""The adapter: what dbt asks of a database that no macro says, answered from the catalogs of the session."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dbt.adapters.base import BaseRelation, Column, available
from dbt.adapters.base.impl import ConstraintSupport
from dbt.adapters.contracts.relation import RelationType
from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.sql import SQLAdapter
from dbt_common.contracts.constraints import ConstraintType
from dbt_common.exceptions import CompilationError, DbtRuntimeError

from sqlstream.batch import Batch, chosen
from sqlstream.dbapi.connection import SERIAL
from sqlstream.dbapi.exceptions import raising
from sqlstream.dbt.connections import DATA, DEFINITIONS, SqlStreamConnectionManager, SqlStreamCredentials
from sqlstream.dbt.streams import Stream, stream_of, table_text
from sqlstream.dbt.views import VIEWS, KeptView, names_in
from sqlstream.errors import BindError
from sqlstream.grammar import nodes, parse_script
from sqlstream.grammar.quoting import quote_name, quote_string
from sqlstream.planner.catalog import Table, View
from sqlstream.session import Session
from sqlstream.views.server import DIRECTORY as VIEWS_DIR
from sqlstream.views.server import URL as VIEWS_URL
from sqlstream.views.server import checkpoints_of_views


@dataclass(frozen=True, eq=False, repr=False)
class SqlStreamRelation(BaseRelation):  # type: ignore[misc]
    """A table or view by its three names, in backticks."""

    quote_character: str = "`"
    renameable_relations: frozenset[str] = field(default_factory=lambda: frozenset(("table", "view")))


class SqlStreamColumn(Column):  # type: ignore[misc]
    """A column, with types as our DDL spells them."""

    TYPE_LABELS = {"TEXT": "STRING", "INTEGER": "BIGINT", "FLOAT": "DOUBLE"}  # noqa: RUF012 — declared by dbt

    @classmethod
    def string_type(cls, size: int) -> str:
        """STRING has no length."""
        return "STRING"

    def is_string(self) -> bool:
        """True for texts."""
        return self.dtype.upper() in ("STRING", "TEXT", "VARCHAR", "CHAR")

    def string_size(self) -> int:
        """The length of a text that has none: nothing has to be widened."""
        return 1 << 30

    def can_expand_to(self, other_column: Column) -> bool:
        """False: columns are never widened."""
        return False


class SqlStreamAdapter(SQLAdapter):  # type: ignore[misc]
    """dbt's adapter for sqlstream."""

    Relation = SqlStreamRelation
    Column = SqlStreamColumn
    ConnectionManager = SqlStreamConnectionManager
    CONSTRAINT_SUPPORT = dict.fromkeys(ConstraintType, ConstraintSupport.NOT_SUPPORTED)  # of which dbt warns

    # --- what is there ---------------------------------------------------------------------------------------

    @property
    def _session(self) -> Session:
        session: Session = self.connections.get_thread_connection().handle.connection.session
        return session

    @property
    def _credentials(self) -> SqlStreamCredentials:
        credentials: SqlStreamCredentials = self.config.credentials
        return credentials

    def list_schemas(self, database: str) -> list[str]:
        """The databases of a catalog."""
        with SERIAL, raising():
            mounts = self._session.workspace.catalog.mounts()
            return [each.name for mount in mounts if mount.name == database for each in mount.store.databases()]

    def check_schema_exists(self, database: str, schema: str) -> bool:
        """Whether a catalog has a database."""
        return schema in self.list_schemas(database)

    def list_relations_without_caching(self, schema_relation: BaseRelation) -> list[BaseRelation]:
        """The tables and views of a database."""
        return [
            self.Relation.create(
                database=schema_relation.database,
                schema=schema_relation.schema,
                identifier=name,
                type=_type_of(item),
                quote_policy={"database": True, "schema": True, "identifier": True},
            )
            for name, item in self._relations(schema_relation.database, schema_relation.schema)
        ]

    def _relations(self, database: str, schema: str) -> list[tuple[str, Table | View]]:
        with SERIAL, raising():
            catalog = self._session.workspace.catalog
            try:
                space = catalog.namespace(nodes.Name((database, schema)))
            except BindError:
                return []
            items = ((name, catalog.item("relation", (*space, name))) for name in catalog.names("relation", space))
            return [(name, item) for name, item in items if isinstance(item, Table | View)]

    def get_columns_in_relation(self, relation: BaseRelation) -> list[SqlStreamColumn]:
        """The columns of a table or view, with their types as DDL spells them; none where there is no such relation."""
        if relation.identifier not in dict(self._relations(relation.database, relation.schema)):
            return []
        with SERIAL, raising():
            columns = self._session.columns_of(f"SELECT * FROM {relation.render()}")
        return [SqlStreamColumn(name, str(type_)) for name, type_ in columns]

    def get_column_schema_from_query(self, sql: str) -> list[SqlStreamColumn]:
        """The columns of a query, which is planned and not run."""
        with SERIAL, raising():
            return [SqlStreamColumn(name, str(type_)) for name, type_ in self._session.columns_of(sql)]

    def get_catalog(self, relation_configs: Iterable[Any], used_schemas: frozenset[tuple[str, str]]) -> Any:
        """The columns of all relations of these schemas, for the pages of ``dbt docs``."""
        spaces = sorted({(each.database, each.schema) for each in relation_configs} | set(used_schemas))
        rows = [row for database, schema in spaces for row in self._catalog_rows(database, schema)]
        return self._catalog_table(rows), []

    def get_catalog_by_relations(self, used_schemas: Any, relations: set[BaseRelation]) -> Any:
        """The columns of some relations, for the pages of ``dbt docs``."""
        wanted = {(each.database, each.schema, each.identifier) for each in relations}
        rows = [row for each in {w[:2] for w in wanted} for row in self._catalog_rows(*each)]
        return self._catalog_table([row for row in rows if (row[0], row[1], row[2]) in wanted]), []

    def _catalog_rows(self, database: str, schema: str) -> list[tuple[Any, ...]]:
        rows = []
        for name, item in self._relations(database, schema):
            kind = _type_of(item).value
            relation = self.Relation.create(database=database, schema=schema, identifier=name)
            comments = {c.name: c.comment for c in item.columns} if isinstance(item, Table) else {}
            comment = item.comment if isinstance(item, Table) else None
            for index, column in enumerate(self.get_columns_in_relation(relation), 1):
                own = comments.get(column.name)
                rows.append((database, schema, name, kind, comment, None, column.name, index, column.dtype, own))
        return rows

    @staticmethod
    def _catalog_table(rows: list[tuple[Any, ...]]) -> Any:
        from dbt_common.clients.agate_helper import table_from_data_flat  # agate is slow to load, as dbt's own says

        names = (
            "table_database", "table_schema", "table_name", "table_type", "table_comment", "table_owner",
            "column_name", "column_index", "column_type", "column_comment",
        )  # fmt: skip
        return table_from_data_flat([dict(zip(names, row, strict=True)) for row in rows], list(names))

    # --- what changes ----------------------------------------------------------------------------------------

    def create_schema(self, relation: BaseRelation) -> None:
        """Creates a database where there is none."""
        name = f"{quote_name(relation.database)}.{quote_name(relation.schema)}"
        self.execute(f"CREATE DATABASE IF NOT EXISTS {name}")

    def drop_schema(self, relation: BaseRelation) -> None:
        """Drops a database with its tables, and the rows of those that are models."""
        for name, item in self._relations(relation.database, relation.schema):
            self.drop_relation(relation.incorporate(path={"identifier": name}, type=_type_of(item)))
        self._end_views(relation)
        name = f"{quote_name(relation.database)}.{quote_name(relation.schema)}"
        self.execute(f"DROP DATABASE IF EXISTS {name} CASCADE")
        self.cache.drop_schema(relation.database, relation.schema)

    def _end_views(self, schema: BaseRelation) -> None:
        """Ends the processes of views that a statement has dropped, of which only scripts are left."""
        space = f"{self.quote(schema.database)}.{self.quote(schema.schema)}"  # as ``render`` writes it
        for name in names_in(self._credentials.folder, space):
            identifier = name.removeprefix(f"{schema.database}.{schema.schema}.")
            with raising():
                self._kept_view(schema.incorporate(path={"identifier": identifier})).remove()

    def drop_relation(self, relation: BaseRelation) -> None:
        """Drops a table or view. Rows that dbt has made go with it; what sources read stays."""
        folder = self._own_folder(relation)
        if (stream := self._stream(relation)).script.is_file():
            stream.remove()
        view, kind = self._kept_view(relation), self._kind(relation)
        if view.script.is_file() or kind == _KINDS[RelationType.MaterializedView]:
            with raising():
                view.remove()
        self.cache_dropped(relation)
        self.execute(f"DROP {kind} IF EXISTS {relation.render()}")
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def truncate_relation(self, relation: BaseRelation) -> None:
        """Removes all rows of a table."""
        self.execute(f"TRUNCATE TABLE {relation.render()}")

    def rename_relation(self, from_relation: BaseRelation, to_relation: BaseRelation) -> None:
        """Renames a table or view; its rows stay where they are. A materialized view is dropped instead: dbt renames
        one only when the model that replaces it has been computed, and then drops it.
        """
        kind = self._kind(from_relation)
        if kind == _KINDS[RelationType.MaterializedView]:
            self.drop_relation(from_relation)
            return
        self.cache_renamed(from_relation, to_relation)
        self.execute(f"ALTER {kind} {from_relation.render()} RENAME TO {to_relation.render()}")

    def _kind(self, relation: BaseRelation) -> str:
        """What the catalog has; dbt says table of a view that a model was before."""
        item = dict(self._relations(relation.database, relation.schema)).get(relation.identifier)
        type_ = relation.type if item is None else _type_of(item)
        return _KINDS.get(type_, "TABLE")

    def _own_folder(self, relation: BaseRelation) -> Path | None:
        items = dict(self._relations(relation.database, relation.schema))
        item = items.get(relation.identifier)
        path = item.option("path") if isinstance(item, Table) and item.connector == "filesystem" else None
        own = self._credentials.folder / DATA
        return Path(path) if path is not None and own in Path(path).parents else None

    @available
    def with_options(self, relation: BaseRelation, options: dict[str, Any] | None = None) -> str:
        """The options of a table for a model, as ``WITH (…)``. Without any its rows are Parquet files in a folder of
        their own below the warehouse, a new one each time, so that readers of the former table go on.
        """
        given = {key: str(value) for key, value in (options or {}).items()}
        if "connector" not in given:
            own = f"{relation.identifier}-{uuid.uuid4().hex[:8]}"
            folder = self._credentials.folder / DATA / relation.schema / own
            given = {"connector": "filesystem", "path": str(folder), "format": "parquet", **given}
        pairs = ", ".join(f"{quote_string(key)} = {quote_string(value)}" for key, value in given.items())
        return f"WITH ({pairs})"

    @available
    def require_finished(self, sql: str, materialized: str) -> str:
        """Refuses a query that never ends, where a model is to be computed once. Returns nothing to print."""
        with SERIAL, raising():
            (statement,) = parse_script(sql)
            assert isinstance(statement, nodes.Query)
            plan = chosen(statement, self._session.workspace, finished=True)
        if not isinstance(plan, Batch) and not plan.bounded:
            raise CompilationError(
                f"the query of a model that is a {materialized} never ends. Materialize it as streaming_table, or "
                "bound its sources, as with 'scan.bounded.mode' = 'latest-offset' for Kafka."
            )
        return ""

    # --- streaming tables ------------------------------------------------------------------------------------

    def _stream(self, relation: BaseRelation) -> Stream:
        return stream_of(self._credentials.folder, str(relation.schema), str(relation.identifier))

    @available
    def run_stream(self, relation: BaseRelation, sql: str, config: Any, full_refresh: bool) -> str:
        """Makes a job write the rows of a query into a table and go on when dbt has ended. Returns what was done.

        ``config``: that of the model: ``options`` of the table, ``unique_key``, ``settings`` of the job, ``epochs`` and
        ``patience`` of an upgrade.
        """
        columns = [(column.name, column.dtype) for column in self.get_column_schema_from_query(sql)]
        existing = dict(self._relations(relation.database, relation.schema)).get(relation.identifier)
        if existing is not None and full_refresh:
            self.drop_relation(relation.incorporate(type=RelationType.Table))
            existing = None
        if existing is None:
            key = config.get("unique_key") or []
            options = self.with_options(relation, config.get("options"))
            self.execute(table_text(relation.render(), columns, [key] if isinstance(key, str) else key, options))
        elif (there := [(c.name, c.dtype) for c in self.get_columns_in_relation(relation)]) != columns:
            raise DbtRuntimeError(
                f"the streaming table {relation} has other columns than its model: {_listed(there)} became "
                f"{_listed(columns)}. dbt run --full-refresh --select {relation.identifier} begins it anew."
            )
        settings = {**self._credentials.settings, **(config.get("settings") or {})}
        stream = self._stream(relation)
        insert = f"INSERT INTO {relation.render()}\n{sql.strip()}"
        text = stream.text(self._definitions(relation), settings, insert)
        with raising():
            return stream.run(text, int(config.get("epochs") or 1), float(config.get("patience") or 60))

    def _definitions(self, relation: BaseRelation) -> list[str]:
        """What a script needs to know the warehouse."""
        path = quote_string(str(self._credentials.folder / DEFINITIONS))
        return [f"CREATE CATALOG {quote_name(relation.database)} WITH ('type' = 'file', 'path' = {path})"]

    # --- materialized views ----------------------------------------------------------------------------------

    def _kept_view(self, relation: BaseRelation) -> KeptView:
        jobs = Path(checkpoints_of_views(self._session.workspace.settings))
        given = {VIEWS_DIR: str(self._credentials.folder / VIEWS), **self._credentials.settings}
        server = {key: str(given[key]) for key in (VIEWS_DIR, VIEWS_URL) if key in given}
        name = f"{relation.database}.{relation.schema}.{relation.identifier}"
        return KeptView(self._credentials.folder, name, jobs, server)

    @available
    def run_view(self, relation: BaseRelation, sql: str, config: Any, full_refresh: bool) -> str:
        """Makes a process keep a materialized view that goes on when dbt has ended. Returns what was done.

        ``config``: that of the model: ``options`` of its table, ``settings`` of the job, ``patience``, and
        ``on_configuration_change``: what a changed model does, as of dbt's own adapters.
        """
        view = self._kept_view(relation)
        options = _options_text(config.get("options"))
        settings = {**view.server, **self._credentials.settings, **(config.get("settings") or {})}
        create = f"CREATE OR REPLACE MATERIALIZED VIEW {relation.render()}{options} AS\n{sql.strip()}"
        text = view.text(self._definitions(relation), settings, create)
        existing = dict(self._relations(relation.database, relation.schema)).get(relation.identifier)
        is_kept = isinstance(existing, Table) and existing.materialized
        replaces = existing is not None and not is_kept  # a table or view, whose name is not free yet
        self.validate_view(create.replace(relation.render(), _checked(relation).render(), 1) if replaces else create)
        changed = is_kept and view.is_changed(text)
        if changed and not full_refresh and (told := _left_alone(relation, config)) is not None:
            return told
        if existing is not None and (full_refresh or changed or not is_kept):
            _LOG.debug(f"Applying REPLACE to: {relation}")
        if existing is not None and (full_refresh or not is_kept):
            self.drop_relation(relation.incorporate(type=_type_of(existing)))
        with raising():
            return view.run(text, float(config.get("patience") or 60))

    def validate_view(self, create: str) -> None:
        """Plans the view, so that a mistake of its query changes nothing."""
        with SERIAL, raising():
            mistakes = self._session.check(create)
        if mistakes:
            raise DbtRuntimeError("\n\n".join(mistake.render() for mistake in mistakes))

    # --- types of seeds --------------------------------------------------------------------------------------

    @classmethod
    def quote(cls, identifier: str) -> str:
        """A name in backticks."""
        return quote_name(identifier) if identifier.startswith("`") else f"`{identifier.replace('`', '``')}`"

    @classmethod
    def date_function(cls) -> str:
        """The time of a statement."""
        return "CURRENT_TIMESTAMP"

    @classmethod
    def convert_text_type(cls, agate_table: Any, col_idx: int) -> str:
        """The type of a seed's texts."""
        return "STRING"

    @classmethod
    def convert_number_type(cls, agate_table: Any, col_idx: int) -> str:
        """The type of a seed's numbers."""
        import agate

        return "DOUBLE" if agate_table.aggregate(agate.MaxPrecision(col_idx)) else "BIGINT"

    @classmethod
    def convert_integer_type(cls, agate_table: Any, col_idx: int) -> str:
        """The type of a seed's whole numbers."""
        return "BIGINT"

    @classmethod
    def convert_boolean_type(cls, agate_table: Any, col_idx: int) -> str:
        """The type of a seed's truth values."""
        return "BOOLEAN"

    @classmethod
    def convert_datetime_type(cls, agate_table: Any, col_idx: int) -> str:
        """The type of a seed's times, which have no zone."""
        return "TIMESTAMP_NTZ"

    @classmethod
    def convert_date_type(cls, agate_table: Any, col_idx: int) -> str:
        """The type of a seed's dates."""
        return "DATE"

    @classmethod
    def convert_time_type(cls, agate_table: Any, col_idx: int) -> str:
        """The type of a seed's times of day: texts, because files keep none."""
        return "STRING"

    # --- strategies ------------------------------------------------------------------------------------------

    def valid_incremental_strategies(self) -> list[str]:
        """How an incremental model may add its rows."""
        return ["append", "delete+insert"]

    def validate_sql(self, sql: str) -> Any:
        """Plans a statement without running it."""
        with SERIAL, raising():
            mistakes = self._session.check(sql)
        if mistakes:
            raise DbtRuntimeError("\n\n".join(mistake.render() for mistake in mistakes))
        return self.execute("SELECT 1 AS valid")[0]


_LOG = AdapterLogger("sqlstream")
_KINDS = {RelationType.View: "VIEW", RelationType.MaterializedView: "MATERIALIZED VIEW"}


def _type_of(item: Table | View) -> RelationType:
    """What dbt calls a relation of the catalog."""
    if isinstance(item, View):
        return RelationType.View
    return RelationType.MaterializedView if item.materialized else RelationType.Table


def _checked(relation: BaseRelation) -> BaseRelation:
    """A relation by whose name nothing exists, to plan a view that is to replace something else."""
    return relation.incorporate(path={"identifier": f"{relation.identifier}__dbt_checked"})


def _options_text(options: dict[str, Any] | None) -> str:
    """The clause WITH of a materialized view; nothing for one in the database of views."""
    given = ", ".join(f"{quote_string(k)} = {quote_string(str(v))}" for k, v in (options or {}).items())
    return f" WITH ({given})" if given else ""


def _left_alone(relation: BaseRelation, config: Any) -> str | None:
    """What is said of a changed model that does not change its view; None where it does. Fails where the model asks for
    that.
    """
    choice = str(config.get("on_configuration_change") or "apply")
    found = (
        f"Configuration changes were identified and `on_configuration_change` was set to `{choice}` for `{relation}`"
    )
    match choice:
        case "continue":
            _LOG.warning(found)
            return "RUNNING, with the model as it was: on_configuration_change is continue"
        case "fail":
            hint = f"dbt run --full-refresh --select {relation.identifier} begins it anew."
            raise DbtRuntimeError(f"{found}. {hint}")
    return None


def _listed(columns: list[tuple[str, str]]) -> str:
    return ", ".join(f"{name} {type_}" for name, type_ in columns)
