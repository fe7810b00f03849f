"""Rows into Iceberg tables, each micro-batch exactly once.

The commit of a micro-batch sets a property of the table: the number of the newest micro-batch of the checkpoint. A
micro-batch whose number is there already changes nothing when it runs again, and a commit whose answer was lost is
found before it is repeated. A commit is refused where another one came in between, and then made again: of an upsert
only what the other commits have changed is computed again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sqlstream.connectors.environment import Environment
from sqlstream.connectors.formats import quoted
from sqlstream.connectors.lakes.commits import COMMIT_TIMEOUT, CommitRetry
from sqlstream.connectors.lakes.iceberg_columns import StoredColumns, open_table
from sqlstream.connectors.lakes.iceberg_commits import Shortened, commit, is_passing, live_manifests, without_partition
from sqlstream.connectors.lakes.iceberg_epochs import NUMBER, RUN, epoch_of, properties_of_commit
from sqlstream.connectors.lakes.iceberg_merge import IcebergMerge
from sqlstream.connectors.lakes.iceberg_tables import IcebergFiles, all_columns, data_file
from sqlstream.connectors.lakes.iceberg_upkeep import compact
from sqlstream.connectors.on_spark.keyed_rows import last_changes
from sqlstream.connectors.stored_tables import replaced_partition
from sqlstream.connectors.written import WrittenBytes
from sqlstream.errors import ConnectorError
from sqlstream.planner.catalog import Table
from sqlstream.udfs.kernel import ROW_KIND
from sqlstream.udfs.keys import is_retraction
from sqlstream.udfs.spark.batches import rows_of
from sqlstream.udfs.texts import one_line

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile, ManifestFile
    from pyiceberg.table import Table as IcebergTable

    CommitTo = Callable[[IcebergTable, Mapping[str, str | None], Mapping[str, str]], None]

_LOG = logging.getLogger("sqlstream.iceberg")


@dataclass(frozen=True)
class IcebergWriter:
    """Writes micro-batches into an Iceberg table.

    ``name``: the table in SQL, for messages. ``identifier`` and ``storage``: the table in its catalog, and the
    properties of that. ``columns``: by name in the rows, the name in the table. ``keys``: rows replace those with the
    same values in these columns of the table; without keys rows are appended. ``run``: identifies the checkpoint.
    ``compact_every``: small files are put together after so many micro-batches. ``replaces``: the first micro-batch of
    the checkpoint removes the rows of this partition, all without values; None for none. ``retry``: how long commits
    are repeated. ``written``: gets the bytes of files that are added.
    """

    name: str
    identifier: str
    storage: dict[str, str] = field(repr=False)
    columns: dict[str, str]
    keys: tuple[str, ...]
    run: str
    compact_every: int | None = None
    replaces: Mapping[str, str | None] | None = None
    retry: CommitRetry = field(default_factory=CommitRetry)
    written: WrittenBytes = field(default_factory=WrittenBytes)
    _committed: list[int] = field(default_factory=list, repr=False)

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
        if self.compact_every is not None and (number + 1) % self.compact_every == 0:
            self.compact()

    # --- the two ways to write ------------------------------------------------------------------------------------

    def files(self, table: IcebergTable) -> IcebergFiles:
        """What writes files of the table."""
        return IcebergFiles(table.metadata, table.io, all_columns(table))

    def append(self, files: Iterable[str], number: int) -> None:
        """Adds files that tasks have written to the table, as micro-batch ``number``."""
        self._add([data_file(text) for text in files], number)

    def _add(self, added: list[DataFile], number: int) -> None:
        """Commits files, and removes those that the micro-batch replaces."""

        def commit_to(table: IcebergTable, properties: Mapping[str, str | None], summary: Mapping[str, str]) -> None:
            manifests = live_manifests(table)
            commit(table, manifests, added, self._replaced(table, manifests), properties, summary)

        if added or self.replaces is not None:
            self._commit(number, commit_to)
            self.written.add(self.name, sum(file.file_size_in_bytes for file in added))

    def _replaced(self, table: IcebergTable, manifests: Sequence[ManifestFile]) -> dict[str, Shortened]:
        if self.replaces is None or not self._is_first(table):
            return {}
        own = {self.columns.get(name, name): value for name, value in self.replaces.items()}
        return without_partition(table, manifests, own)

    def _is_first(self, table: IcebergTable) -> bool:
        """Whether the checkpoint has committed nothing. The table may have forgotten that since."""
        return not self._committed and epoch_of(table, self.run) is None

    def upsert(self, changes: pa.Table, number: int) -> None:
        """Applies changes to the table, as micro-batch ``number``: the last one of each key. Rows with these keys are
        deleted, and the new ones added, in one snapshot.
        """
        names = [self.columns.get(name, name) for name in changes.column_names]
        last = last_changes(changes.rename_columns(names), self.keys)
        there = last.filter(pa.array(~is_retraction(last[ROW_KIND]))).drop_columns([ROW_KIND])
        table = self.opened()
        if self.replaces is not None and self._is_first(table):
            self._add(self.files(table).written(there), number)
        elif last.num_rows:
            merge = IcebergMerge(last.select([*self.keys]), there)
            self._commit(number, merge.commit)
            self.written.add(self.name, merge.bytes_added)

    def compact(self) -> None:
        """Puts small files together, which changes no row. Where other writers prevent that it is left to the next
        time.
        """
        try:
            compact(self.name, self.identifier, self.storage, CommitRetry(0))
        except ConnectorError as error:
            _LOG.warning('files of table "%s" are not put together: %s', self.name, one_line(error))

    # --- commits --------------------------------------------------------------------------------------------------

    def opened(self) -> IcebergTable:
        """The newest version of the table."""
        return open_table(self.name, self.identifier, self.storage)

    def is_committed(self, table: IcebergTable, number: int) -> bool:
        """Whether the table has the micro-batch."""
        newest = epoch_of(table, self.run)
        return newest is not None and newest >= number

    def _commit(self, number: int, commit_to: CommitTo) -> None:
        """Commits the micro-batch unless the table has it, and again after conflicts with other writers. ``commit_to``
        makes the commit, with properties of the table and texts for the snapshot.
        """
        own = {RUN: self.run, NUMBER: str(number)}
        self.retry.commit(
            f'Iceberg table "{self.name}"',
            self.opened,
            lambda table: self.is_committed(table, number),
            lambda table: commit_to(table, properties_of_commit(table, self.run, number), own),
            is_passing,
        )
        self._committed[:] = [number]


def writer(
    environment: Environment, table: Table, stored: IcebergTable, identifier: str, storage: dict[str, str],
    values: Mapping[str, Any],
) -> IcebergWriter:  # fmt: skip
    """Returns the writer of a table whose columns were checked. ``values``: the options."""
    there = StoredColumns.of(stored)
    columns = {c.name: there.own(c.name) or c.name for c in table.physical_columns}
    keys = tuple(columns[key] for key in table.primary_key)
    every, retry = values["sink.compact-every"], CommitRetry(values[COMMIT_TIMEOUT])
    return IcebergWriter(
        table.name, identifier, storage, columns, keys, environment.run, every,
        replaced_partition(environment, table), retry, environment.written,
    )  # fmt: skip
