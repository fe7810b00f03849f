"""``iceberg``: Iceberg tables without jars of Spark, as streams of snapshots, finished data, lookups and sinks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlstream.connectors import on_spark
from sqlstream.connectors.connector import WRONG_COLUMN, BatchWriter
from sqlstream.connectors.environment import Environment
from sqlstream.connectors.files.filesystem import LOOKUP_OPTIONS
from sqlstream.connectors.lakes.commits import COMMIT_TIMEOUT
from sqlstream.connectors.lakes.table import SINK_OPTIONS, SOURCE_OPTIONS, LakeTable, Upkeep
from sqlstream.connectors.stores.options import (
    ICEBERG_STORE_OPTIONS,
    STORE_VARIABLES,
    check_pairs,
    prefixed,
    pyiceberg_properties,
)
from sqlstream.errors import Diagnostic, Span
from sqlstream.options import NAME, STRING, Option, OptionKind, hint_of
from sqlstream.planner.catalog import Table
from sqlstream.secrets import REFERENCE, shown_value


def _identifier(text: str) -> str:
    parts = text.strip().split(".")
    if len(parts) < 2 or not all(parts):
        raise ValueError(text)
    return text.strip()


def _partitions(text: str) -> Any:
    from sqlstream.connectors.lakes.iceberg_partitions import partition_fields

    return partition_fields(text)


def _sort_keys(text: str) -> Any:
    from sqlstream.connectors.lakes.iceberg_partitions import sort_keys

    return sort_keys(text)


_IDENTIFIER = OptionKind("table name", "a namespace and a name: sales.orders", _identifier)
_PARTITIONS = OptionKind(
    "partitions", "columns and transforms of them: 'day(ts), bucket(16, id), country'", _partitions
)
_SORT_KEYS = OptionKind("sort keys", "columns in their order: 'ts DESC, name ASC NULLS FIRST'", _sort_keys)
_CATALOG = "catalog."


class Iceberg(LakeTable):
    """Iceberg tables, whose files tasks read and write. The package pyiceberg keeps catalogs and metadata."""

    name = "iceberg"
    doc = (
        "Iceberg tables of any catalog of pyiceberg, without Spark's jars: read at any snapshot, as a stream of new "
        "snapshots or of their changes, for lookups; written exactly once, by PRIMARY KEY where there is one."
    )
    options = (
        Option("table-name", _IDENTIFIER, "The table in the catalog: sales.orders.", required=True, sink=True),
        Option("catalog.type", NAME, "The kind of catalog: sql, rest, hive, glue or dynamodb.", "sql", sink=True),
        Option("catalog.name", NAME, "Its name; SQL catalogs of other names share a database.", "default", sink=True),
        Option("catalog.#", STRING, "A property of the catalog or the store as pyiceberg has it, such as catalog.uri, "
               "catalog.warehouse, catalog.token or catalog.s3.secret-access-key.", sink=True),
        *ICEBERG_STORE_OPTIONS,
        *SOURCE_OPTIONS,
        *SINK_OPTIONS,
        Option(
            "partition-by", _PARTITIONS, "Columns and transforms by which a table that is created is partitioned.",
            source=False, sink=True,
        ),
        Option("sort-by", _SORT_KEYS, "Columns by which rows are sorted in the files of a table that is created.",
               source=False, sink=True),
        Option("table.#", STRING, "A property of a table that is created, such as table.write.format.default.",
               source=False, sink=True),
        *LOOKUP_OPTIONS,
    )  # fmt: skip
    variables = ("catalog.#", "table-name", *STORE_VARIABLES)

    def check(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        yield from super().check(table, spans)
        yield from check_pairs(table.options, spans)
        names = [c.name for c in table.physical_columns]
        values = self.values(table)
        for key, part in ((k, part) for k in ("partition-by", "sort-by") for part in values[k] or ()):
            if part.column not in names:
                message = f'option "{key}" names the column "{part.column}", which table "{table.name}" lacks'
                hint = hint_of(part.column, names, "Columns")
                yield Diagnostic(WRONG_COLUMN, message, spans.get(key), hint=hint)

    def place(self, values: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
        return values["table-name"], pyiceberg_properties(values) | prefixed(values, _CATALOG)

    def is_local(self, table: Table) -> bool:
        """Whether the warehouse is a local directory; a catalog that is asked may have its tables anywhere."""
        warehouse = table.option("catalog.warehouse") or "://"
        if REFERENCE.search(warehouse) or (table.option("catalog.type") or "sql").strip().lower() != "sql":
            return False
        return "://" not in warehouse.removeprefix("file://")

    def write_batches(self, environment: Environment, table: Table) -> BatchWriter:
        from sqlstream.connectors.lakes.iceberg_tables import prepared

        values = self.resolved_values(table)
        identifier, storage = self.place(values)
        stored = prepared(table, values, storage)
        return on_spark.iceberg_sink.writer(environment, table, stored, identifier, storage, values)

    def location(self, table: Table) -> tuple[str | None, ...]:
        """Without passwords, because the checkpoint records it."""
        keys = ("catalog.uri", "catalog.name", "catalog.warehouse", "table-name")
        texts = {key: table.option(key) for key in keys}
        return tuple(text and shown_value(key, text) for key, text in texts.items())

    def newest_epoch(self, table: Table, run: str) -> int | None:
        from sqlstream.connectors.lakes.iceberg_epochs import epoch_of, opened_if_there

        stored = opened_if_there(table, *self.place(self.resolved_values(table)))
        return None if stored is None else epoch_of(stored, run)

    def forgotten_until(self, table: Table) -> datetime | None:
        from sqlstream.connectors.lakes.iceberg_epochs import forgotten_until, opened_if_there

        stored = opened_if_there(table, *self.place(self.resolved_values(table)))
        return None if stored is None else forgotten_until(stored)

    def truncate(self, directory: Path, table: Table) -> None:
        from sqlstream.connectors.lakes.iceberg_tables import remove_rows

        values = self.resolved_values(table)
        remove_rows(table, *self.place(values), values[COMMIT_TIMEOUT])

    def upkeep(self) -> Upkeep:
        from sqlstream.connectors.lakes.iceberg_upkeep import compact, expire

        return Upkeep(compact, expire)
