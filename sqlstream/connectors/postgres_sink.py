"""Rows into PostgreSQL, each micro-batch exactly once.

The workers copy the rows of a batch into a staging table. Then one transaction of the driver stores the number of the
batch in ``sqlstream_epochs``, moves the rows into the table and drops the staging table. A batch whose number is stored
already changes nothing when it runs again.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlstream.connectors.postgres_server import connected, regclass
from sqlstream.errors import ConnectorError
from sqlstream.options import OptionKind
from sqlstream.planner.catalog import RowKind, Table
from sqlstream.secrets import NO_SECRETS, Secrets
from sqlstream.types import DataType
from sqlstream.udfs.hiding import hiding
from sqlstream.udfs.kernel import ROW_KIND
from sqlstream.udfs.lookup.sources.postgres import DIALECT
from sqlstream.udfs.texts import python_list

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from sqlstream.connectors.postgres_server import Connection

EPOCHS = "sqlstream_epochs"
EPOCHS_GONE = "SS569"

_GIVE_BACK = (
    "Give the table back from a copy. Else see which rows are there, and start the job anew in another directory "
    "('execution.checkpointing.dir')."
)

_PART, _PARTITION, _POSITION, _KIND = '"sqlstream part"', '"sqlstream partition"', '"sqlstream row"', '"sqlstream kind"'


@dataclass(frozen=True)
class PostgresWriter:
    """Writes micro-batches into one table.

    * ``columns``: for each its name in the rows, its name in the database and the declared type.
    * ``keys``: names in the database; without keys, rows are only inserted. ``null_keys``: a key may be NULL.
    * ``run``: an identifier of the checkpoint, because other checkpoints have batches of the same numbers.
    """

    name: str
    connection: tuple[tuple[str, str], ...] = field(repr=False)
    table: tuple[str, ...]
    columns: tuple[tuple[str, str, DataType], ...]
    keys: tuple[str, ...]
    job: str
    run: str
    statement_timeout_ms: int
    secrets: Secrets = field(default=NO_SECRETS, repr=False)
    null_keys: bool = False

    def __call__(self, batch: DataFrame, number: int) -> None:
        with connected(self.name, dict(self.connection), self.statement_timeout_ms) as server:
            newest = self.newest(server)
            if newest is None:
                raise self.forgotten()
            if newest >= number:
                # Its rows are there, but operators with state have to see the batch again.
                batch.write.format("noop").mode("overwrite").save()
                return
            self.make_staging(server, number)
            try:
                parts = [row[0] for row in batch.mapInArrow(Staging(self, number), "part STRING").collect()]
                self.commit(server, number, parts)
            finally:
                if not server.closed:
                    server.execute(f"DROP TABLE IF EXISTS {self.staging(number)}")

    def require_remembered(self, server: Connection, committed: int | None) -> None:
        """SS569 where the database does not know which batches it has, so that a repeated one would be stored twice.

        ``committed``: a batch that it must have; None if it may have none.
        """
        newest = self.newest(server)
        if newest is None or (committed is not None and newest < committed):
            raise self.forgotten()

    def forgotten(self) -> ConnectorError:
        """SS569: the numbers of batches are lost."""
        message = f'table {self.epochs} does not tell which micro-batches of the job are in table "{self.name}"'
        return ConnectorError(EPOCHS_GONE, message, hint=_GIVE_BACK)

    # --- names ------------------------------------------------------------------------------------------------

    @property
    def target(self) -> str:
        """The quoted name of the table."""
        return regclass(self.table)

    @property
    def epochs(self) -> str:
        """The quoted name of the table of epochs, in the schema of the table."""
        return regclass((*self.table[:-1], EPOCHS))

    def staging(self, number: int) -> str:
        """One table per job, table and batch, beside the table."""
        digest = hashlib.sha256(f"{self.run}\0{self.target}".encode()).hexdigest()[:16]
        return regclass((*self.table[:-1], f"sqlstream_staging_{digest}_{number}"))

    @property
    def _names(self) -> str:
        return ", ".join(regclass((stored,)) for _, stored, _ in self.columns)

    # --- the driver's side ------------------------------------------------------------------------------------

    def prepare(self, server: Connection) -> None:
        """Create the table of epochs if there is none."""
        with server.transaction():
            server.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [EPOCHS])  # several jobs start at once
            if server.execute("SELECT to_regclass(%s)", [self.epochs]).fetchone() == (None,):
                server.execute(
                    f"CREATE TABLE {self.epochs} (job text NOT NULL, run text, target text, epoch bigint NOT NULL, "
                    "PRIMARY KEY (run, target))"
                )

    def newest(self, server: Connection) -> int | None:
        """The newest batch of this run that is in the table; -1 where there is none, None without a table of epochs."""
        if server.execute("SELECT to_regclass(%s)", [self.epochs]).fetchone() == (None,):
            return None
        row = server.execute(
            f"SELECT epoch FROM {self.epochs} WHERE run = %s AND target = %s", [self.run, self.target]
        ).fetchone()
        return -1 if row is None else int(row[0])

    def make_staging(self, server: Connection, number: int) -> None:
        """Create the staging table, without the rows of an attempt that failed."""
        server.execute(f"DROP TABLE IF EXISTS {self.staging(number)}")
        server.execute(
            f"CREATE UNLOGGED TABLE {self.staging(number)} AS SELECT {self._names}, ''::text AS {_PART}, "
            f"0 AS {_PARTITION}, 0::bigint AS {_POSITION}, ''::text AS {_KIND} FROM {self.target} WITH NO DATA"
        )

    def commit(self, server: Connection, number: int, parts: Sequence[str]) -> bool:
        """Moves the staged rows of these parts into the table; False where the batch is there already."""
        with server.transaction():
            if not self._claims(server, number):
                return False
            if parts:
                self._move(server, number, list(parts))
            server.execute(f"DROP TABLE {self.staging(number)}")
        return True

    def _claims(self, server: Connection, number: int) -> bool:
        """Stores the number. The lock of its row makes a second driver of the same run wait."""
        changed = server.execute(
            f"INSERT INTO {self.epochs} AS e (job, run, target, epoch) VALUES (%s, %s, %s, %s) "
            "ON CONFLICT (run, target) DO UPDATE SET epoch = EXCLUDED.epoch WHERE e.epoch < EXCLUDED.epoch",
            [self.job, self.run, self.target, number],
        )
        return changed.rowcount == 1

    def _move(self, server: Connection, number: int, parts: list[str]) -> None:
        names, staging = self._names, self.staging(number)
        order = f"{_PARTITION}, {_POSITION}"
        if not self.keys:
            server.execute(
                f"INSERT INTO {self.target} ({names}) SELECT {names} FROM {staging} WHERE {_PART} = ANY(%s) "
                f"ORDER BY {order}",
                [parts],
            )
            return
        key_names = [regclass((key,)) for key in self.keys]
        keys = ", ".join(key_names)
        last = (
            f"(SELECT DISTINCT ON ({keys}) * FROM {staging} WHERE {_PART} = ANY(%s) "
            f"ORDER BY {keys}, {_PARTITION} DESC, {_POSITION} DESC)"
        )
        equal = " AND ".join(f"t.{k} = l.{k}" for k in key_names)
        gone = f"{_KIND} IN ('-D', '-U')"  # where a row is updated, the one that takes its place follows
        server.execute(f"DELETE FROM {self.target} t USING {last} l WHERE {gone} AND {equal}", [parts])
        if self.null_keys:  # which are equal to nothing
            same = " AND ".join(f"t.{k} IS NOT DISTINCT FROM l.{k}" for k in key_names)
            some = " OR ".join(f"l.{k} IS NULL" for k in key_names)
            rows = f"DELETE FROM {self.target} t USING {last} l WHERE {gone} AND ({some}) AND {same}"
            server.execute(rows, [parts])
        server.execute(
            f"INSERT INTO {self.target} ({names}) SELECT {names} FROM {last} l WHERE NOT {gone} "
            f"ON CONFLICT ({keys}) DO {self._update()}",
            [parts],
        )

    def _update(self) -> str:
        others = [regclass((stored,)) for _, stored, _ in self.columns if stored not in self.keys]
        return "UPDATE SET " + ", ".join(f"{n} = EXCLUDED.{n}" for n in others) if others else "NOTHING"


@dataclass(frozen=True)
class Staging:
    """The worker's side: copies the rows of a partition, and returns the name of the part unless it is empty.

    Spark may run a task twice. The driver reads only the parts whose names it gets.
    """

    writer: PostgresWriter
    number: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyspark import TaskContext

        task = TaskContext.get()
        with hiding(self.writer.secrets):
            staged = self.stage(batches, task.partitionId() if task is not None else 0)
        if staged is not None:
            yield pa.record_batch({"part": [staged]})

    def stage(self, batches: Iterator[pa.RecordBatch], partition: int) -> str | None:
        """The name of a new part; None where there are no rows. One COPY is one transaction."""
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return None
        writer, staged = self.writer, uuid.uuid4().hex
        names = f"{writer._names}, {_PART}, {_PARTITION}, {_POSITION}, {_KIND}"
        copying = f"COPY {writer.staging(self.number)} ({names}) FROM STDIN"
        position = 0
        with (
            connected(writer.name, dict(writer.connection), 0) as server,
            server.cursor() as cursor,
            cursor.copy(copying) as copy,
        ):
            for batch in _with_first(first, filled):
                for *values, kind in self._rows(batch):
                    copy.write_row((*values, staged, partition, position, kind))
                    position += 1
        return staged

    def _rows(self, batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
        """The values of the columns in UTC, and the kind."""
        import pyarrow as pa

        columns = [batch.column(name).cast(type_.to_arrow()) for name, _, type_ in self.writer.columns]
        added = pa.array([RowKind.INSERT.value] * batch.num_rows)
        kinds = batch.column(ROW_KIND) if ROW_KIND in batch.schema.names else added
        lists = [python_list(column, f'a value of table "{self.writer.name}"') for column in (*columns, kinds)]
        return zip(*lists, strict=True)


def _with_first(first: pa.RecordBatch, others: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from others


# --- CREATE TABLE and its indexes -------------------------------------------------------------------------------

TOO_OLD = "SS697"
_NULLS_NOT_DISTINCT = 150_000
"""The first version of PostgreSQL whose unique indexes may take NULL for a value like others."""

_CREATED = {**DIALECT.sent, "TINYINT": "smallint", "SMALLINT": "smallint", "INT": "integer", "FLOAT": "real"}


def _indexes(text: str) -> tuple[tuple[str, ...], ...]:
    indexes = tuple(tuple(name.strip() for name in index.split(",")) for index in text.split(";") if index.strip())
    if not indexes or not all(all(index) for index in indexes):
        raise ValueError(text)
    return indexes


INDEXES = OptionKind("indexes", "names of columns with commas, and a semicolon between indexes: 'a; b, c'", _indexes)


def create_table_text(table: Table, parts: tuple[str, ...]) -> str:
    """The CREATE TABLE of PostgreSQL for the columns as declared."""
    columns = [
        f"{regclass((c.name,))} {_sql_type(c.type)}{' NOT NULL' * (not c.nullable)}" for c in table.physical_columns
    ]
    keys = _listed(table.primary_key)
    keyed = bool(keys) and not has_null_keys(table)
    return f"CREATE TABLE {regclass(parts)} ({', '.join([*columns, *([f'PRIMARY KEY ({keys})'] if keyed else [])])})"


def create_table(
    server: Connection, table: Table, parts: tuple[str, ...], indexes: tuple[tuple[str, ...], ...]
) -> None:
    """Create what is missing of the table, its key and its indexes.

    ConnectorError SS697 before PostgreSQL 15 if a key may be NULL.
    """
    if has_null_keys(table) and server.info.server_version < _NULLS_NOT_DISTINCT:
        message = f'the key ({", ".join(table.primary_key)}) of "{table.name}" may be NULL'
        detail = "Servers before PostgreSQL 15 take rows with NULL in their key for different ones."
        hint = "Leave such rows out (WHERE … IS NOT NULL), or give NULL a value with COALESCE."
        raise ConnectorError(TOO_OLD, message, detail=detail, hint=hint)
    with server.transaction():
        server.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [regclass(parts)])  # several jobs start at once
        for statement in _statements(table, parts, indexes):
            server.execute(statement)


def _statements(table: Table, parts: tuple[str, ...], indexes: tuple[tuple[str, ...], ...]) -> Iterator[str]:
    if table.materialized and len(parts) > 1:
        yield f"CREATE SCHEMA IF NOT EXISTS {regclass(parts[:-1][-1:])}"
    yield create_table_text(table, parts).replace("TABLE", "TABLE IF NOT EXISTS", 1)
    if has_null_keys(table):
        name = regclass((f"{parts[-1]}_key",))
        keys = _listed(table.primary_key)
        yield f"CREATE UNIQUE INDEX IF NOT EXISTS {name} ON {regclass(parts)} ({keys}) NULLS NOT DISTINCT"
    spelled = {c.name.casefold(): c.name for c in table.physical_columns}
    for columns in indexes:
        names = tuple(spelled[name.casefold()] for name in columns)
        name = regclass(("_".join((parts[-1], *names, "idx"))[-63:],))  # PostgreSQL cuts longer names
        yield f"CREATE INDEX IF NOT EXISTS {name} ON {regclass(parts)} ({_listed(names)})"


def exists(server: Connection, parts: tuple[str, ...]) -> bool:
    """Whether the database has the table."""
    return server.execute("SELECT to_regclass(%s)", [regclass(parts)]).fetchone() != (None,)


def has_epochs(server: Connection, parts: tuple[str, ...]) -> bool:
    """Whether numbers of batches are stored for the table."""
    epochs = regclass((*parts[:-1], EPOCHS))
    if server.execute("SELECT to_regclass(%s)", [epochs]).fetchone() == (None,):
        return False
    return server.execute(f"SELECT 1 FROM {epochs} WHERE target = %s", [regclass(parts)]).fetchone() is not None


def drop_table(server: Connection, parts: tuple[str, ...]) -> None:
    """Drop the table, and the numbers of its batches."""
    epochs = regclass((*parts[:-1], EPOCHS))
    with server.transaction():
        server.execute(f"DROP TABLE IF EXISTS {regclass(parts)}")
        if server.execute("SELECT to_regclass(%s)", [epochs]).fetchone() != (None,):
            server.execute(f"DELETE FROM {epochs} WHERE target = %s", [regclass(parts)])


def has_null_keys(table: Table) -> bool:
    """Whether the table is a view that may have a row whose key is NULL, as GROUP BY has."""
    return table.materialized and any(c.nullable for c in table.physical_columns if c.name in table.primary_key)


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(regclass((name,)) for name in names)


def innermost(type_: DataType) -> DataType:
    """The type of the elements of an array, however deep."""
    if type_.name != "ARRAY":
        return type_
    element = type_.args[0]
    assert isinstance(element, DataType)
    return innermost(element)


def _sql_type(type_: DataType) -> str:
    if type_.name == "ARRAY":
        return f"{_sql_type(innermost(type_))}[]"
    return f"numeric({type_.args[0]}, {type_.args[1]})" if type_.name == "DECIMAL" else _CREATED[type_.name]
