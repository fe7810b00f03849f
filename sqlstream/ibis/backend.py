"""The connection of Ibis: a session, its catalogs, and the rows of its queries."""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ibis.common.exceptions as com
import ibis.expr.operations as ops
import ibis.expr.schema as sch
import ibis.expr.types as ir
import pyarrow as pa
from ibis import util
from ibis.backends import (
    CanCreateDatabase,
    CanListCatalog,
    HasCurrentCatalog,
    HasCurrentDatabase,
    NoExampleLoader,
    NoUrl,
    SupportsTempTables,
)
from ibis.formats.pandas import PandasData
from sqlglot import exp

import sqlstream
from sqlstream.errors import BindError, UnsupportedError
from sqlstream.grammar.nodes import Name
from sqlstream.ibis.compiler import SqlStreamCompiler, compiler
from sqlstream.ibis.datatypes import in_schema, schema_of_query, schema_of_table
from sqlstream.ibis.definitions import Definitions
from sqlstream.ibis.functions import register_functions
from sqlstream.ibis.statements import Database, dotted, name_parts
from sqlstream.paths import temporary_folder
from sqlstream.planner.catalog import Table
from sqlstream.session import Session

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

    from sqlstream.jobs import Job
    from sqlstream.query import Query
    from sqlstream.results import Rows

_ENDLESS = (
    "the query reads a source without an end, so it never has all rows: take them as they come with "
    "to_pyarrow_batches(), write them with insert() or create_table(), or run con.raw_sql(con.compile(expr))"
)


class Backend(
    SupportsTempTables,
    Definitions,
    CanListCatalog,
    CanCreateDatabase,
    HasCurrentCatalog,
    HasCurrentDatabase,
    NoUrl,
    NoExampleLoader,
):
    """``ibis.sqlstream.connect()``: expressions as queries of a session.

    Queries over finished data are executed; those without an end are read in batches, inserted by a job, or compiled.
    """

    name = "sqlstream"
    compiler: SqlStreamCompiler = compiler
    supports_temporary_tables = True
    supports_python_udfs = True

    # --- the session ---

    def do_connect(
        self,
        session: Session | None = None,
        /,
        *,
        spark: SparkSession | str | None = None,
        project: str | Path | None = None,
        **settings: str,
    ) -> None:
        """Uses ``session``, which is left open, or opens one as ``sqlstream.connect`` does, with ``spark``, ``project``
        and ``settings`` as there.
        """
        self._owned = session is None
        self.session = sqlstream.connect(spark, project=project, **settings) if session is None else session
        self._folder = temporary_folder("sqlstream-ibis-")
        self._remove_folder = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    @util.experimental
    @classmethod
    def from_connection(cls, session: Session, /) -> Backend:
        """A connection on a session of yours, which it leaves open."""
        backend = cls()
        backend.do_connect(session)
        return backend

    def disconnect(self) -> None:
        """Removes data in memory, and closes the session with its jobs, unless it is yours."""
        if self._owned:
            self.session.close()
        self._remove_folder()

    @property
    def version(self) -> str:
        """The version of sqlstream."""
        return sqlstream.__version__

    @property
    def _time_zone(self) -> str:
        return str(self.session.workspace.settings["table.local-time-zone"])

    # --- statements ---

    def raw_sql(self, query: str | exp.Expression) -> Rows | Query | Job:
        """Executes a script and returns what ``Session.sql`` does: rows, a query, whose rows arrive, or a job."""
        return self.session.sql(self._text(query))

    def _text(self, query: str | exp.Expression) -> str:
        return query if isinstance(query, str) else query.sql(self.dialect)

    def _run(self, text: str) -> Rows | Query | Job:
        """Executes a statement, and waits for its job where that ends."""
        self._log(text)
        with _refusing():
            *_, result = self.session.results(text, as_table=True)
            job: Any = result
            if hasattr(job, "wait") and job.is_bounded:
                job.wait()
        return result

    @contextmanager
    def _safe_raw_sql(self, query: str | exp.Expression) -> Iterator[Any]:
        yield self._run(self._text(query))

    def compile(
        self,
        expr: ir.Expr,
        /,
        *,
        limit: int | str | None = None,
        params: Mapping[ir.Expr, Any] | None = None,
        pretty: bool = False,
    ) -> str:
        """The expression as SQL, which the session executes: functions and data in memory that it names are made
        known to the session. Raises UnsupportedOperationError for what the dialect lacks.
        """
        self._run_pre_execute_hooks(expr)
        try:
            return str(super().compile(expr, limit=limit, params=params, pretty=pretty))
        except com.OperationNotDefinedError as error:
            raise com.UnsupportedOperationError(f"sqlstream: {error}") from error

    def _register_udfs(self, expr: ir.Expr) -> None:
        register_functions(expr.op(), self.session)

    # --- rows ---

    def execute(
        self,
        expr: ir.Expr,
        /,
        *,
        params: Mapping[ir.Scalar, Any] | None = None,
        limit: int | str | None = None,
        **kwargs: Any,
    ) -> pd.DataFrame | pd.Series[Any] | Any:
        """The rows of an expression as a DataFrame of pandas, a Series or a value. Raises UnsupportedOperationError
        where they never end.
        """
        table = expr.as_table()
        with self._query(table, params, limit) as query:
            _require_end(query)
            rows = in_schema(query.table().to_arrow(), table.schema())
        return expr.__pandas_result__(PandasData.convert_table(rows.to_pandas(), table.schema()))

    def to_pyarrow_batches(
        self,
        expr: ir.Expr,
        /,
        *,
        params: Mapping[ir.Scalar, Any] | None = None,
        limit: int | str | None = None,
        chunk_size: int = 1_000_000,
        **kwargs: Any,
    ) -> pa.ipc.RecordBatchReader:
        """A reader of the rows, which arrive while it is read: also those of a query that never ends, unless it updates
        its results. The query stops when the reader is dropped: Arrow tells nobody that it is closed.
        """
        table = expr.as_table()
        schema = table.schema()

        def batches() -> Iterator[pa.RecordBatch]:
            with self._query(table, params, limit) as query:
                tables = query.batches()
                if query.is_updating:
                    _require_end(query)
                    tables = iter((query.table().to_arrow(),))
                for rows in tables:
                    yield from in_schema(rows, schema).to_batches(max_chunksize=chunk_size)

        return pa.ipc.RecordBatchReader.from_batches(schema.to_pyarrow(), batches())

    @contextmanager
    def _query(self, table: ir.Table, params: Any, limit: Any) -> Iterator[Query]:
        """The running query of a table, which is stopped at the end."""
        with _refusing():
            query: Any = self._run(self.compile(table, params=params, limit=limit))
            with query:
                yield query

    # --- catalogs ---

    @property
    def current_catalog(self) -> str:
        """The catalog in which names are looked for."""
        return self.session.workspace.catalog.current[0]

    @property
    def current_database(self) -> str:
        """The database in which names are looked for."""
        return self.session.workspace.catalog.current[1]

    def list_catalogs(self, *, like: str | None = None) -> list[str]:
        """The names of the catalogs; ``like``: a regular expression."""
        return list(self._filter_with_like([m.name for m in self.session.workspace.catalog.mounts()], like))

    def list_databases(self, *, like: str | None = None, catalog: str | None = None) -> list[str]:
        """The names of the databases of a catalog, by default of the current one."""
        store = self.session.workspace.catalog.mount(catalog or self.current_catalog).store
        return list(self._filter_with_like([database.name for database in store.databases()], like))

    def list_tables(
        self,
        *,
        like: str | None = None,
        database: Database = None,
        catalog: str | None = None,
        temp: bool = False,
    ) -> list[str]:
        """The names of the tables and views of a database; with ``temp`` of its temporary ones alone."""
        known = self.session.workspace.catalog
        within = known.namespace(Name(name_parts("", database, catalog)[:-1]))
        names = known.names("relation", within)
        if temp:
            names = [name for name in names if known.is_temporary("relation", (*within, name))]
        return list(self._filter_with_like(names, like))

    def list_views(self, like: str | None = None, temp: bool = False) -> list[str]:
        """The names of the views of the current database."""
        views = {view.name.rpartition(".")[2] for view in self.session.workspace.catalog.views()}
        return [name for name in self.list_tables(like=like, temp=temp) if name in views]

    def table(self, name: str, /, *, database: Database = None, catalog: str | None = None) -> ir.Table:
        """A table or view as an expression. Raises TableNotFound where there is none."""
        within = name_parts(name, database, catalog)[:-1]
        catalog_, database_ = ((None, None), (None, *within), within)[len(within)][-2:]
        schema = self.get_schema(name, database=within or None)
        namespace = ops.Namespace(catalog=catalog_, database=database_)
        return ops.DatabaseTable(name, schema=schema, source=self, namespace=namespace).to_expr()

    def get_schema(self, name: str, *, catalog: str | None = None, database: Database = None) -> sch.Schema:
        """The columns of a table or view. Only views over finished data need Spark for them."""
        parts = name_parts(name, database, catalog)
        known = self.session.workspace.catalog
        try:
            relation = known.item("relation", known.path(Name(parts)))
        except BindError as error:
            raise com.TableNotFound(".".join(parts)) from error
        if relation is None:
            raise com.TableNotFound(".".join(parts))
        if isinstance(relation, Table):
            return schema_of_table(relation.columns, self._time_zone)
        return self._get_schema_using_query(f"SELECT * FROM {dotted(parts)}")

    def _get_schema_using_query(self, query: str) -> sch.Schema:
        with _refusing():
            return schema_of_query(self.session.columns_of(query), self._time_zone)


def _require_end(query: Query) -> None:
    if not query.job.is_bounded:
        raise com.UnsupportedOperationError(_ENDLESS)


@contextmanager
def _refusing() -> Iterator[None]:
    """What the dialect does not execute is Ibis's error for that, with code, place and hint."""
    try:
        yield
    except UnsupportedError as error:
        raise com.UnsupportedOperationError(str(error)) from error
