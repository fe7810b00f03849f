"""Rows into Delta tables, each micro-batch exactly once.

The commit of a micro-batch records its number as a transaction of the application, which is the checkpoint. A
micro-batch whose number is recorded already changes nothing when it runs again, and a commit whose answer was lost is
found before it is repeated. Delta refuses a commit where another one of the same application came in between.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sqlstream.connectors.environment import Environment
from sqlstream.connectors.formats import quoted
from sqlstream.connectors.lakes.commits import COMMIT_TIMEOUT, CommitRetry
from sqlstream.connectors.lakes.delta_columns import open_table
from sqlstream.connectors.lakes.delta_log import commit_of
from sqlstream.connectors.lakes.delta_tables import application, is_passing
from sqlstream.connectors.lakes.delta_upkeep import compact
from sqlstream.connectors.lakes.delta_writing import DeltaFiles
from sqlstream.connectors.lakes.keys import key_ranges
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
    from deltalake import CommitProperties, DeltaTable

_LOG = logging.getLogger("sqlstream.delta")
_REMOVES = "__removes"
"""The column that is true in rows of a merge that remove those with their keys, and false in rows that are added."""


@dataclass(frozen=True)
class DeltaWriter:
    """Writes micro-batches into a Delta table.

    ``name``: the table in SQL, for messages. ``files``: where and how tasks write the files of appended rows. ``keys``:
    rows replace those with the same values in these columns, of which ``null_keys`` may be NULL; without keys rows are
    appended. ``run``: identifies the checkpoint. ``compact_every``: small files are put together after so many
    micro-batches. ``replaces``: the first micro-batch of the checkpoint removes the rows of this partition, all without
    values; None for none. ``retry``: how long commits are repeated. ``written``: gets the bytes of files that are
    added.
    """

    name: str
    files: DeltaFiles
    keys: tuple[str, ...]
    null_keys: tuple[str, ...]
    run: str
    compact_every: int | None = None
    replaces: Mapping[str, str | None] | None = None
    retry: CommitRetry = field(default_factory=CommitRetry)
    written: WrittenBytes = field(default_factory=WrittenBytes)

    def __call__(self, batch: DataFrame, number: int) -> None:
        if self.is_committed(self.opened(), number):
            batch.write.format("noop").mode("overwrite").save()  # operators with state have to see the batch again
            return
        if self.keys or ROW_KIND in batch.columns:
            self.upsert(batch.toArrow(), number)
        else:
            files = batch.select(*(F.col(quoted(name)) for name in self.files.schema.names))
            rows = files.mapInArrow(rows_of(self.files), "action STRING").collect()
            self.append([json.loads(row[0]) for row in rows], number)
        if self.compact_every is not None and (number + 1) % self.compact_every == 0:
            self.compact()

    # --- the two ways to write ------------------------------------------------------------------------------------

    def append(self, actions: list[dict[str, Any]], number: int) -> None:
        """Adds files that tasks have written to the table, as micro-batch ``number``."""
        from deltalake.transaction import AddAction, RemoveAction

        if not actions and self.replaces is None:
            return
        added: list[AddAction | RemoveAction] = [
            AddAction(a["path"], a["size"], a["partitionValues"], a["modificationTime"], True, a["stats"])
            for a in actions
        ]

        def commit(table: DeltaTable, properties: CommitProperties) -> None:
            replaced = self._replaced(table)
            if replaced is not None:
                # Others may have replaced the same rows: the library would add ours to theirs if it tried again itself.
                properties.max_commit_retries = 0
            table.create_write_transaction(
                added, "append" if replaced is None else "overwrite", table.schema(), [*self.files.partitions],
                replaced or None, commit_properties=properties,
            )  # fmt: skip

        self._commit(commit, number)
        self.written.add(self.name, sum(action["size"] for action in actions))

    def _replaced(self, table: DeltaTable) -> list[tuple[str, str, str]] | None:
        """What the micro-batch replaces, as conditions on partitions: all rows without any; None for none."""
        if self.replaces is None or table.transaction_version(application(self.run)) is not None:
            return None
        own = {name.casefold(): name for name in self.files.partitions}
        given = {own[name.casefold()]: value for name, value in self.replaces.items()}
        return [(name, "=", self.files.partition_text(name, value) or "") for name, value in given.items()]

    def upsert(self, changes: pa.Table, number: int) -> None:
        """Applies changes to the table, as micro-batch ``number``: the last one of each key. Rows with these keys are
        deleted, and the new ones added, in one version.
        """
        last = last_changes(self.files.as_stored(changes), self.keys)
        if self.replaces is not None and self._replaced(self.opened()) is not None:
            there = last.filter(pa.array(~is_retraction(last[ROW_KIND])))
            written = self.files.rows(iter(there.to_batches()))
            self.append([json.loads(text) for batch in written for text in batch["action"].to_pylist()], number)
            return
        if not last.num_rows:
            return
        rows = last.select(self.files.schema.names).cast(self.files.schema)
        new = rows.filter(pa.array(~is_retraction(last[ROW_KIND])))
        source = pa.concat_tables([_marked(rows, True), _marked(new, False)])
        values = {_sql(name): f"s.{_sql(name)}" for name in self.files.schema.names}
        condition = " AND ".join([f"s.{_sql(_REMOVES)}", self._same_key(), *self._in_ranges(rows)])

        def commit(table: DeltaTable, properties: CommitProperties) -> None:
            # An update would leave all rows of a key where another writer has added some of the same key.
            merge = table.merge(source, condition, "s", "t", commit_properties=properties).when_matched_delete()
            merge.when_not_matched_insert(values, f"NOT s.{_sql(_REMOVES)}").execute()
            self.written.add(self.name, self._bytes_added(table.version(), number))

        self._commit(commit, number)

    def _bytes_added(self, version: int, number: int) -> int:
        """The bytes of the files that micro-batch ``number`` has added as a version, which the library does not say of
        a merge. 0 where the commit cannot be read, or is of another: the rows are there.
        """
        try:
            actions = commit_of(self.files.file_system(), version)
        except (OSError, ValueError) as error:
            _LOG.info('bytes written to table "%s" are not known: %s', self.name, one_line(error))
            return 0
        own = {"appId": application(self.run), "version": number}
        is_own = any(own.items() <= action["txn"].items() for action in actions if "txn" in action)
        return sum(action["add"]["size"] for action in actions if is_own and "add" in action)

    def _same_key(self) -> str:
        """A condition by which NULL, too, is equal to NULL where a key column may be NULL."""
        pairs = [(f"t.{_sql(key)}", f"s.{_sql(key)}", key in self.null_keys) for key in self.keys]
        return " AND ".join(f"({t} {'IS NOT DISTINCT FROM' if null else '='} {s})" for t, s, null in pairs)

    def _in_ranges(self, source: pa.Table) -> Iterator[str]:
        """Conditions on the table alone, by which the merge leaves files out whose statistics show none of the keys."""
        for key in self.keys:
            ranges = key_ranges(source[key])
            if ranges is None:
                continue
            column = f"t.{_sql(key)}"
            pairs = [f"({column} >= {_literal(low)} AND {column} <= {_literal(high)})" for low, high in ranges]
            if source[key].null_count:
                pairs.append(f"{column} IS NULL")
            yield f"({' OR '.join(pairs)})"

    # --- commits --------------------------------------------------------------------------------------------------

    def opened(self) -> DeltaTable:
        """The newest version of the table."""
        return open_table(self.name, self.files.location, self.files.storage)

    def is_committed(self, table: DeltaTable, number: int) -> bool:
        """Whether the table has the micro-batch."""
        newest = table.transaction_version(application(self.run))
        return newest is not None and newest >= number

    def _commit(self, commit: Callable[[DeltaTable, CommitProperties], None], number: int) -> None:
        """Commits the micro-batch unless the table has it, and again after conflicts with other writers."""
        from deltalake import CommitProperties
        from deltalake.transaction import Transaction

        properties = CommitProperties(app_transactions=[Transaction(application(self.run), number)])
        self.retry.commit(
            f'Delta table "{self.name}"',
            self.opened,
            lambda table: self.is_committed(table, number),
            lambda table: commit(table, properties),
            is_passing,
        )

    def compact(self) -> None:
        """Puts small files together, which changes no row. Where other writers prevent that it is left to the next
        time.
        """
        try:
            compact(self.name, self.files.location, self.files.storage, CommitRetry(0))
        except ConnectorError as error:
            _LOG.warning('files of table "%s" are not put together: %s', self.name, one_line(error))


def writer(environment: Environment, table: Table, files: DeltaFiles, values: Mapping[str, Any]) -> DeltaWriter:
    """Returns the writer of a table of which ``files`` says where and how its files are written. ``values``: the
    options.
    """
    own = {name.casefold(): name for name in files.schema.names}
    keys = tuple(own[key.casefold()] for key in table.primary_key)
    nullable = {c.name.casefold() for c in table.physical_columns if c.nullable}
    null_keys = tuple(key for key in keys if key.casefold() in nullable)
    retry = CommitRetry(values[COMMIT_TIMEOUT])
    replaced, every = replaced_partition(environment, table), values["sink.compact-every"]
    written = environment.written
    return DeltaWriter(table.name, files, keys, null_keys, environment.run, every, replaced, retry, written)


def _marked(rows: pa.Table, removes: bool) -> pa.Table:
    return rows.append_column(_REMOVES, pa.repeat(removes, rows.num_rows))


def _sql(name: str) -> str:
    """The name of a column in expressions of the library."""
    return '"' + name.replace('"', '""') + '"'


def _literal(value: Any) -> str:
    """A key in expressions of the library."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return f"CAST('{value.isoformat()}' AS DATE)" if isinstance(value, date) else str(value)
