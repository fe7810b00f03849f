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

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from sqlstream.connectors.postgres.server import EPOCHS, connected, exists, regclass
from sqlstream.errors import ConnectorError
from sqlstream.planner.catalog import RowKind
from sqlstream.secrets import NO_SECRETS, Secrets
from sqlstream.types import DataType
from sqlstream.udfs.hiding import hiding
from sqlstream.udfs.kernel import ROW_KIND
from sqlstream.udfs.texts import python_list

if TYPE_CHECKING:
    from sqlstream.connectors.postgres.server import Connection

GONE = "SS569"

_GIVE_BACK = (
    "Give the table back from a copy. Else see which rows are there, and start the job anew in another directory "
    "('execution.checkpointing.dir')."
)
_BEGIN_AGAIN = "CREATE OR REPLACE MATERIALIZED VIEW begins the view anew, DROP MATERIALIZED VIEW ends it."
_PART, _PARTITION, _POSITION, _KIND = '"sqlstream part"', '"sqlstream partition"', '"sqlstream row"', '"sqlstream kind"'


@dataclass(frozen=True)
class PostgresWriter:
    """Writes micro-batches into a PostgreSQL table, each exactly once.

    Tasks copy rows into a staging table. One transaction then moves them into the table and records the micro-batch's
    number in a table of epochs.

    * ``columns``: for each column its name in the rows, its name in the database and its declared type.
    * ``keys``: the key's column names in the database; without keys, rows are only inserted. ``null_keys``: a key may
      be NULL.
    * ``run``: identifies the checkpoint, because each checkpoint numbers micro-batches from 0.
    * ``is_view``: the rows are those of a materialized view.
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
    is_view: bool = False

    def __call__(self, batch: DataFrame, number: int) -> None:
        with connected(self.name, dict(self.connection), self.statement_timeout_ms) as server:
            self.require_there(server)
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
        """Raises SS569 where the database lost the record of stored micro-batches, because a repeated one would be
        stored twice.

        ``committed``: a micro-batch that must be recorded; None if none needs to be.
        """
        newest = self.newest(server)
        if newest is None or (committed is not None and newest < committed):
            raise self.forgotten()

    def require_there(self, server: Connection) -> None:
        """Raises SS569 where somebody has dropped the table, or its schema. In a new table the rows of earlier
        micro-batches would be missing.
        """
        if exists(server, self.table):
            return
        message = f'the database has table {self.target} of "{self.name}" no more: it was dropped while a job writes it'
        detail = "Rows of earlier epochs, which went with it, would not be written again."
        raise ConnectorError(GONE, message, detail=detail, hint=_BEGIN_AGAIN if self.is_view else _GIVE_BACK)

    def forgotten(self) -> ConnectorError:
        """Returns the error SS569, which says that the record of stored micro-batches is lost."""
        message = f'table {self.epochs} does not tell which micro-batches of the job are in table "{self.name}"'
        return ConnectorError(GONE, message, hint=_GIVE_BACK)

    # --- names ------------------------------------------------------------------------------------------------

    @property
    def target(self) -> str:
        """The quoted name of the table that is written."""
        return regclass(self.table)

    @property
    def epochs(self) -> str:
        """The quoted name of the table of epochs, which records the last stored micro-batch. It is in the schema of
        the written table.
        """
        return regclass((*self.table[:-1], EPOCHS))

    def staging(self, number: int) -> str:
        """Returns the quoted name of a micro-batch's staging table, which is unique per checkpoint, table and
        micro-batch.
        """
        digest = hashlib.sha256(f"{self.run}\0{self.target}".encode()).hexdigest()[:16]
        return regclass((*self.table[:-1], f"sqlstream_staging_{digest}_{number}"))

    @property
    def _names(self) -> str:
        return ", ".join(regclass((stored,)) for _, stored, _ in self.columns)

    # --- the driver's side ------------------------------------------------------------------------------------

    def prepare(self, server: Connection) -> None:
        """Creates the table of epochs if it does not exist."""
        with server.transaction():
            server.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [EPOCHS])  # several jobs start at once
            if server.execute("SELECT to_regclass(%s)", [self.epochs]).fetchone() == (None,):
                server.execute(
                    f"CREATE TABLE {self.epochs} (job text NOT NULL, run text, target text, epoch bigint NOT NULL, "
                    "PRIMARY KEY (run, target))"
                )

    def newest(self, server: Connection) -> int | None:
        """Returns the newest micro-batch of this checkpoint that is stored; -1 if none is, None if there is no table
        of epochs.
        """
        if server.execute("SELECT to_regclass(%s)", [self.epochs]).fetchone() == (None,):
            return None
        row = server.execute(
            f"SELECT epoch FROM {self.epochs} WHERE run = %s AND target = %s", [self.run, self.target]
        ).fetchone()
        return -1 if row is None else int(row[0])

    def make_staging(self, server: Connection, number: int) -> None:
        """Creates the staging table of a micro-batch. One that a failed attempt has left is dropped first."""
        server.execute(f"DROP TABLE IF EXISTS {self.staging(number)}")
        server.execute(
            f"CREATE UNLOGGED TABLE {self.staging(number)} AS SELECT {self._names}, ''::text AS {_PART}, "
            f"0 AS {_PARTITION}, 0::bigint AS {_POSITION}, ''::text AS {_KIND} FROM {self.target} WITH NO DATA"
        )

    def commit(self, server: Connection, number: int, parts: Sequence[str]) -> bool:
        """Moves the staged rows into the table, in one transaction. Returns False and does nothing if the micro-batch
        is already stored.

        ``parts``: the names of the task outputs to move, because a task that Spark ran twice has staged its rows
        twice.
        """
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
    """Copies partitions into the staging table, in Spark's tasks. The rows that a task copies are a "part" with a name.

    Spark may run a task twice. The tasks return the names of their parts, and the driver moves only the parts whose
    names it receives.
    """

    writer: PostgresWriter
    number: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        with hiding(self.writer.secrets):
            staged = self.stage(batches, task.partitionId() if task is not None else 0)
        if staged is not None:
            yield pa.record_batch({"part": [staged]})

    def stage(self, batches: Iterator[pa.RecordBatch], partition: int) -> str | None:
        """Copies the rows of a partition as a new part and returns its name; None if there are no rows. One COPY is
        one transaction.
        """
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
        columns = [batch.column(name).cast(type_.to_arrow()) for name, _, type_ in self.writer.columns]
        added = pa.array([RowKind.INSERT.value] * batch.num_rows)
        kinds = batch.column(ROW_KIND) if ROW_KIND in batch.schema.names else added
        lists = [python_list(column, f'a value of table "{self.writer.name}"') for column in (*columns, kinds)]
        return zip(*lists, strict=True)


def _with_first(first: pa.RecordBatch, others: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from others
