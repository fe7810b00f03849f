"""What a connection of Ibis defines and writes: tables, views, databases, files to read, rows to insert."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ibis
import ibis.common.exceptions as com
import ibis.expr.operations as ops
import ibis.expr.schema as sch
import ibis.expr.types as ir
import pyarrow.parquet as pq
from ibis import util
from ibis.backends.sql import SQLBackend

from sqlstream.ibis import statements
from sqlstream.ibis.datatypes import schema_of_query, stored
from sqlstream.ibis.statements import Database, name_parts
from sqlstream.paths import as_segment

if TYPE_CHECKING:
    from sqlstream.jobs import Job
    from sqlstream.query import Query
    from sqlstream.results import Rows

_IN_MEMORY: Mapping[str, Any] = {"connector": "memory"}
"""What a table is without options: rows that the session keeps."""
_SAMPLE = 1000
"""So many records of a text file say what its columns are."""


class Definitions(SQLBackend):
    """The methods of a backend that define and write. ``_run`` executes a statement; ``_folder`` holds the rows of data
    in memory as long as the connection is open.
    """

    _folder: Path

    def _run(self, text: str) -> Rows | Query | Job:
        raise NotImplementedError

    @property
    def _time_zone(self) -> str:
        raise NotImplementedError

    # --- tables ---

    def create_table(
        self,
        name: str,
        /,
        obj: Any = None,
        *,
        schema: Any = None,
        database: Database = None,
        catalog: str | None = None,
        tbl_properties: Mapping[str, Any] | None = None,
        watermark: Any = None,
        primary_key: str | Sequence[str] | None = None,
        temp: bool = False,
        overwrite: bool = False,
    ) -> ir.Table:
        """Creates a table and returns it: with the columns of ``schema``, or with the rows of ``obj``, which is an
        expression or data in memory.

        ``tbl_properties`` are the options of WITH; without them the session keeps the rows (``memory``). ``watermark``
        is one of ``ibis.watermark``. An expression that never ends is written by a job in the background.
        """
        if obj is None and schema is None:
            raise com.IbisInputError("create_table needs a schema or rows")
        path = name_parts(name, database, catalog)
        options = dict(_IN_MEMORY if tbl_properties is None else tbl_properties)
        declared = None if schema is None else ibis.schema(schema)
        if obj is not None and temp and not (tbl_properties or watermark or primary_key):
            rows = self._expression(obj, declared)
            if isinstance(op := rows.op(), ops.InMemoryTable):
                self._keep_in_memory(op, path, replace=overwrite)
                return self.table(name, database=path[:-1] or None)
        if obj is None:
            columns, query = statements.columns_text(declared, watermark, primary_key), None
        else:
            rows = self._expression(obj, declared)
            columns, query = self._columns_beside_query(rows.schema(), watermark, primary_key), self.compile(rows)
            if overwrite and isinstance(rows.op(), ops.InMemoryTable):
                written = statements.columns_text(rows.schema(), watermark, primary_key)
                self._run(statements.create_table(path, written, options, None, temporary=temp, replace=True))
                self._run(statements.insert(path, (), query, overwrite=True))  # also of files that were there
                return self.table(name, database=path[:-1] or None)
        text = statements.create_table(path, columns, options, query, temporary=temp, replace=overwrite)
        self._run(text)
        return self.table(name, database=path[:-1] or None)

    @staticmethod
    def _expression(obj: Any, schema: sch.Schema | None) -> ir.Table:
        if not isinstance(obj, ir.Table):
            return ibis.memtable(obj, schema=schema)
        return obj if schema is None else obj.cast(schema)

    @staticmethod
    def _columns_beside_query(schema: sch.Schema, watermark: Any, primary_key: str | Sequence[str] | None) -> str:
        """The query says which columns there are, unless a key or a watermark is declared with them."""
        return statements.columns_text(schema, watermark, primary_key) if watermark or primary_key else ""

    def drop_table(
        self,
        name: str,
        /,
        *,
        database: Database = None,
        catalog: str | None = None,
        temp: bool = False,
        force: bool = False,
    ) -> None:
        """Drops a table. ``temp``: only a temporary one; ``force``: there need be none."""
        self._run(statements.drop("TABLE", name_parts(name, database, catalog), temporary=temp, if_exists=force))

    def rename_table(self, old_name: str, new_name: str, force: bool = False) -> None:
        """Renames a table. ``force``: there need be none."""
        if force and old_name not in self.list_tables():
            return
        self._run(f"ALTER TABLE {statements.dotted((old_name,))} RENAME TO {statements.dotted((new_name,))}")

    def truncate_table(self, name: str, /, *, database: Database = None) -> None:
        """Removes all rows of a table."""
        self._run(f"TRUNCATE TABLE {statements.dotted(name_parts(name, database))}")

    # --- views ---

    def create_view(
        self,
        name: str,
        /,
        obj: Any,
        *,
        schema: Any = None,
        database: Database = None,
        catalog: str | None = None,
        force: bool = False,
        temp: bool = False,
        overwrite: bool = False,
    ) -> ir.Table:
        """Creates a view of an expression, or of data in memory with ``temp``, and returns it. ``force``: one that is
        there stays.
        """
        if not isinstance(obj, ir.Table) and not temp:
            raise com.IbisInputError("a view of data in memory is a temporary one: give temp=True")
        path = name_parts(name, database, catalog)
        query = self.compile(self._expression(obj, None if schema is None else ibis.schema(schema)))
        self._run(statements.create_view(path, query, temporary=temp, replace=overwrite, if_not_exists=force))
        return self.table(name, database=path[:-1] or None)

    def drop_view(
        self,
        name: str,
        /,
        *,
        database: Database = None,
        catalog: str | None = None,
        temp: bool = False,
        force: bool = False,
    ) -> None:
        """Drops a view. ``temp``: only a temporary one; ``force``: there need be none."""
        self._run(statements.drop("VIEW", name_parts(name, database, catalog), temporary=temp, if_exists=force))

    # --- databases ---

    def create_database(
        self,
        name: str,
        /,
        *,
        catalog: str | None = None,
        db_properties: Mapping[str, Any] | None = None,
        force: bool = False,
    ) -> None:
        """Creates a database in a catalog, by default the current one. ``force``: one that is there stays."""
        path = (name,) if catalog is None else (catalog, name)
        options = f" {statements.with_options(db_properties)}" if db_properties else ""
        self._run(f"CREATE DATABASE{' IF NOT EXISTS' if force else ''} {statements.dotted(path)}{options}")

    def drop_database(self, name: str, /, *, catalog: str | None = None, force: bool = False) -> None:
        """Drops a database that is empty. ``force``: there need be none."""
        path = (name,) if catalog is None else (catalog, name)
        self._run(statements.drop("DATABASE", path, if_exists=force))

    # --- rows ---

    def insert(
        self,
        name: str,
        /,
        obj: Any,
        *,
        database: Database = None,
        catalog: str | None = None,
        overwrite: bool = False,
    ) -> Job:
        """Writes the rows of an expression, or data in memory, into a table, and returns the job. It has ended where
        its input ends, and runs in the background where it does not.

        Columns go by name where the table has all of these names, else by their order.
        """
        path = name_parts(name, database, catalog)
        rows = self._expression(obj, None)
        there, given = self.get_schema(name, database=path[:-1] or None), rows.schema().names
        columns = given if set(given) <= set(there.names) else ()
        job: Any = self._run(statements.insert(path, columns, self.compile(rows), overwrite=overwrite))
        return job  # type: ignore[no-any-return]

    def upsert(self, name: str, /, obj: Any, on: str, *, database: Database = None) -> None:
        """Refused: a table with a key takes rows by ``insert``, and keeps the last one of each key."""
        raise com.UnsupportedOperationError(
            "upsert: sqlstream has no MERGE; create the table with primary_key=… and insert() replaces its rows by key"
        )

    # --- files and data in memory ---

    def read_parquet(self, path: str | Path, /, *, table_name: str | None = None, **options: Any) -> ir.Table:
        """Files of Parquet as a table, with the columns of ``schema`` or else of the files. ``options``: those of WITH,
        such as ``**{"source.monitor-interval": "1 s"}`` for a stream.
        """
        return self._read("parquet", path, table_name, options)

    def read_csv(self, path: str | Path, /, *, table_name: str | None = None, **options: Any) -> ir.Table:
        """Files of CSV as a table; see ``read_parquet``. Files with a header need ``**{"csv.header": "true"}`` where
        ``schema`` is given.
        """
        return self._read("csv", path, table_name, options)

    def read_json(self, path: str | Path, /, *, table_name: str | None = None, **options: Any) -> ir.Table:
        """Files of JSON, one object a line, as a table; see ``read_parquet``."""
        return self._read("json", path, table_name, options)

    def _read(self, form: str, path: str | Path, table_name: str | None, options: Mapping[str, Any]) -> ir.Table:
        given = dict(options)
        schema = given.pop("schema", None)
        with_ = {"connector": "filesystem", "path": str(path), "format": form, **given}
        name = table_name or util.gen_name(f"read_{form}")
        if schema is not None:
            return self.create_table(name, schema=schema, tbl_properties=with_, overwrite=table_name is not None)
        from sqlstream.inferring.files import sample_of_files  # loaded for files without a schema

        sample = sample_of_files(str(path), form, most=_SAMPLE)
        seen = schema_of_query(tuple((column.name, column.type) for column in sample.columns), self._time_zone)
        with_ = {**sample.options, **with_}
        return self.create_table(name, schema=seen, tbl_properties=with_, overwrite=table_name is not None)

    def _register_in_memory_table(self, op: ops.InMemoryTable) -> None:
        self._keep_in_memory(op, (op.name,), replace=True)

    def _keep_in_memory(self, op: ops.InMemoryTable, path: Sequence[str], *, replace: bool) -> None:
        """Data in memory as a file of Parquet, and a temporary table over it: no job, and no Spark."""
        if op.schema.null_fields:
            raise com.IbisTypeError(f"columns of NULL alone have no type: {op.schema.null_fields}; give a schema")
        folder = Path(tempfile.mkdtemp(dir=self._folder, prefix=as_segment(path[-1].lower())))
        pq.write_table(stored(op.data.to_pyarrow(op.schema), op.schema), folder / "rows.parquet")
        options = {"connector": "filesystem", "path": folder, "format": "parquet"}
        columns = statements.columns_text(op.schema)
        self._run(statements.create_table(path, columns, options, None, temporary=True, replace=replace))
