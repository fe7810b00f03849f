"""Rows into Iceberg tables, each micro-batch exactly once.

The commit of a micro-batch sets a property of the table: the number of the newest micro-batch of the checkpoint. A
micro-batch whose number is there already changes nothing when it runs again, and a commit whose answer was lost is
found before it is repeated. A commit is refused where another one came in between, and then made again.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sqlstream.connectors.connector import Environment
from sqlstream.connectors.formats import quoted
from sqlstream.connectors.lakes.commits import CommitRetry
from sqlstream.connectors.lakes.iceberg_columns import EPOCH, StoredColumns, open_table
from sqlstream.connectors.lakes.iceberg_tables import IcebergFiles, all_columns, data_file
from sqlstream.connectors.lakes.keys import key_ranges
from sqlstream.connectors.on_spark.keyed_rows import last_changes
from sqlstream.planner.catalog import RowKind, Table
from sqlstream.udfs.kernel import ROW_KIND
from sqlstream.udfs.spark.batches import rows_of

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table as IcebergTable

_COMPARED = 200
"""Keys up to which the library compares each with the statistics of a file. With more of them it reads all files."""

_RETRACTIONS = (RowKind.DELETE.value, RowKind.UPDATE_BEFORE.value)


@dataclass(frozen=True)
class IcebergWriter:
    """Writes micro-batches into an Iceberg table.

    ``name``: the table in SQL, for messages. ``identifier`` and ``storage``: the table in its catalog, and the
    properties of that. ``columns``: by name in the rows, the name in the table. ``keys``: rows replace those with the
    same values in these columns of the table; without keys rows are appended. ``run``: identifies the checkpoint.
    ``retry``: how long commits are repeated.
    """

    name: str
    identifier: str
    storage: dict[str, str] = field(repr=False)
    columns: dict[str, str]
    keys: tuple[str, ...]
    run: str
    retry: CommitRetry = field(default_factory=CommitRetry)

    def __call__(self, batch: DataFrame, number: int) -> None:
        table = self.opened()
        if self.is_committed(table, number):
            batch.write.format("noop").mode("overwrite").save()  # operators with state have to see the batch again
        elif self.keys or ROW_KIND in batch.columns:
            self.upsert(batch.toArrow(), number)
        else:
            rows = batch.select(*(F.col(quoted(name)).alias(own) for name, own in self.columns.items()))
            files = rows.mapInArrow(rows_of(self.files(table)), "file STRING").collect()
            self.append([row[0] for row in files], number)

    # --- the two ways to write ------------------------------------------------------------------------------------

    def files(self, table: IcebergTable) -> IcebergFiles:
        """What writes files of the table."""
        return IcebergFiles(table.metadata, table.io, all_columns(table))

    def append(self, files: Iterable[str], number: int) -> None:
        """Adds files that tasks have written to the table, as micro-batch ``number``."""
        added = [data_file(text) for text in files]
        if added:
            self._commit(number, lambda table: added, None)

    def upsert(self, changes: pa.Table, number: int) -> None:
        """Applies changes to the table, as micro-batch ``number``: the last one of each key. Rows with these keys are
        deleted, and the new ones added, in one commit.
        """
        names = [self.columns.get(name, name) for name in changes.column_names]
        last = last_changes(changes.rename_columns(names), self.keys)
        if not last.num_rows:
            return
        there = last.filter(pc.invert(pc.is_in(last[ROW_KIND], pa.array(_RETRACTIONS)))).drop_columns([ROW_KIND])
        same = same_keys(last.select([*self.keys]))

        def written(table: IcebergTable) -> list[Any]:
            return [data_file(text) for text in self.files(table).written(there)]

        self._commit(number, written, same)

    # --- commits --------------------------------------------------------------------------------------------------

    @property
    def application(self) -> str:
        """The property of the table with the number of the newest micro-batch of this checkpoint."""
        return f"{EPOCH}{self.run}"

    def opened(self) -> IcebergTable:
        """The newest version of the table."""
        return open_table(self.name, self.identifier, self.storage)

    def is_committed(self, table: IcebergTable, number: int) -> bool:
        """Whether the table has the micro-batch."""
        return int(table.properties.get(self.application, -1)) >= number

    def _commit(self, number: int, files: Any, replaced: BooleanExpression | None) -> None:
        """Commits the micro-batch unless the table has it, and again after conflicts with other writers. ``files``: a
        function from the table to the files to add; ``replaced``: which rows are deleted before.
        """

        def attempt(table: IcebergTable) -> None:
            # The library would repeat a commit after another one without looking whether it was this micro-batch.
            table.metadata.properties["commit.retry.num-retries"] = "0"
            self._try(table, number, files(table), replaced)

        name = f'Iceberg table "{self.name}"'
        self.retry.commit(name, self.opened, lambda table: self.is_committed(table, number), attempt, _is_passing)

    def _try(self, table: IcebergTable, number: int, files: Sequence[Any], replaced: BooleanExpression | None) -> None:
        own = {"sqlstream.run": self.run, "sqlstream.epoch": str(number)}
        transaction = table.transaction()
        if replaced is not None and table.current_snapshot() is not None:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Delete operation did not match any records")
                transaction.delete(replaced, snapshot_properties=own)
        if files:
            with transaction.update_snapshot(snapshot_properties=own).fast_append() as append:
                for file in files:
                    append.append_data_file(file)
        transaction.set_properties({self.application: str(number)})
        transaction.commit_transaction()


def _is_passing(error: Exception) -> bool:
    """Whether the commit may succeed when it is repeated: another writer was first, or the store did not answer."""
    from pyiceberg.exceptions import CommitFailedException, ServiceUnavailableError

    return isinstance(error, CommitFailedException | ServiceUnavailableError | OSError)


def same_keys(keys: pa.Table) -> BooleanExpression:
    """The rows of a table whose keys are among these, as an expression of Iceberg. NULL is equal to NULL."""
    from pyiceberg import expressions

    ice: Any = expressions  # whose annotations do not know terms as texts
    if keys.num_columns == 1:
        (name,) = keys.column_names
        values = keys[name].drop_null().to_pylist()
        some: BooleanExpression = ice.In(name, values) if values else ice.AlwaysFalse()
        ranges = key_ranges(keys[name]) if len(values) > _COMPARED else None
        if ranges:
            pairs = [
                ice.And(ice.GreaterThanOrEqual(name, low), ice.LessThanOrEqual(name, high)) for low, high in ranges
            ]
            some = ice.And(ice.Or(*pairs) if len(pairs) > 1 else pairs[0], some)
        if keys[name].null_count:
            some = ice.Or(some, ice.IsNull(name))
        return some
    rows: list[BooleanExpression] = [
        ice.And(*(ice.IsNull(name) if value is None else ice.EqualTo(name, value) for name, value in row.items()))
        for row in keys.to_pylist()
    ]
    same: BooleanExpression = ice.Or(*rows) if len(rows) > 1 else rows[0]
    return same


def writer(
    environment: Environment, table: Table, stored: IcebergTable, identifier: str, storage: dict[str, str],
    timeout_ms: int,
) -> IcebergWriter:  # fmt: skip
    """Returns the writer of a table whose columns were checked."""
    there = StoredColumns.of(stored)
    columns = {c.name: there.own(c.name) or c.name for c in table.physical_columns}
    keys = tuple(columns[key] for key in table.primary_key)
    return IcebergWriter(table.name, identifier, storage, columns, keys, environment.run, CommitRetry(timeout_ms))
