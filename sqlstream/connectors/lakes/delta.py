"""``delta``: Delta tables without jars of Spark, as streams of versions, finished data, for lookups, and as sinks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sqlstream.connectors import on_spark
from sqlstream.connectors.connector import WRONG_COLUMN, BatchWriter
from sqlstream.connectors.environment import Environment
from sqlstream.connectors.files.filesystem import LOOKUP_OPTIONS
from sqlstream.connectors.files.tables import partition_columns
from sqlstream.connectors.lakes.delta_columns import storage_of
from sqlstream.connectors.lakes.table import SINK_OPTIONS, SOURCE_OPTIONS, LakeTable, Upkeep
from sqlstream.connectors.lakes.versions import UNSUPPORTED_FEATURE
from sqlstream.connectors.stores.options import (
    DELTA_STORE_OPTIONS,
    STORE_VARIABLES,
    check_store_options,
)
from sqlstream.errors import Diagnostic, Span
from sqlstream.options import NAME, PATH, STRING, Option, hint_of, one_of
from sqlstream.planner.catalog import Table
from sqlstream.secrets import REFERENCE

_CLIENT = "delta.client"
_OWN_OPTIONS = (
    Option(
        "partition-by", NAME, "Columns, separated by commas, by which a table that is created is partitioned.",
        source=False, sink=True,
    ),
    Option("delta.#", STRING, "A property of a table that is created, such as delta.enableChangeDataFeed.",
           source=False, sink=True),
    Option("parquet.compression", one_of("none", "snappy", "gzip", "zstd", "lz4"), "How columns are compressed.",
           "snappy", source=False, sink=True),
)  # fmt: skip


class Delta(LakeTable):
    """Delta tables, which tasks read and write as Parquet files. The package deltalake reads and writes their log."""

    name = "delta"
    doc = (
        "Delta tables, without Spark's jars: read at any version, as a stream of new versions or of their changes, for "
        "lookups; written exactly once, by PRIMARY KEY where there is one."
    )
    options = (
        Option(
            "path",
            PATH,
            "The directory of the table, its URL in an object store, or its name in a Unity catalog: "
            "uc://catalog.schema.table.",
            required=True,
            sink=True,
        ),
        Option("storage.#", STRING, "An option of the object store as deltalake has it, such as its keys.", sink=True),
        *DELTA_STORE_OPTIONS,
        *SOURCE_OPTIONS,
        *SINK_OPTIONS,
        *_OWN_OPTIONS,
        *LOOKUP_OPTIONS,
    )
    variables = ("path", "storage.#", *STORE_VARIABLES)
    not_stored = ("VARIANT", "INTERVAL", "TIME")

    def check(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        yield from super().check(table, spans)
        yield from _check_client(table, spans)
        yield from _check_partitions(table, spans)
        yield from check_store_options(table.options, uri_scheme(table.option("path") or ""), spans)

    def place(self, values: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
        return values["path"], storage_of(values)

    def is_local(self, table: Table) -> bool:
        path = table.option("path") or ""
        return "://" not in path and REFERENCE.search(path) is None

    # --- sink -----------------------------------------------------------------------------------------------------

    def write_batches(self, environment: Environment, table: Table) -> BatchWriter:
        from sqlstream.connectors.lakes.delta_tables import prepared

        values = self.resolved_values(table)
        return on_spark.delta_sink.writer(environment, table, prepared(table, values), values)

    def location(self, table: Table) -> str:
        path = table.option("path") or ""
        return path.rstrip("/") if "://" in path else str(Path(path).absolute())

    def newest_epoch(self, table: Table, run: str) -> int | None:
        from sqlstream.connectors.lakes.delta_tables import newest_epoch

        return newest_epoch(table, *self.place(self.resolved_values(table)), run)

    def truncate(self, directory: Path, table: Table) -> None:
        from sqlstream.connectors.lakes.delta_tables import remove_rows

        remove_rows(table, self.resolved_values(table))

    def upkeep(self) -> Upkeep:
        from sqlstream.connectors.lakes.delta_upkeep import compact, expire

        return Upkeep(compact, expire)


def uri_scheme(path: str) -> str:
    """The path with the scheme by which the options of stores are named."""
    return path.replace("s3a://", "s3://", 1)


def _check_client(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    """SS547 for the option that would be a property of the table otherwise."""
    if table.option(_CLIENT) is not None:
        message = f'connector "delta" of table "{table.name}" has no other client than deltalake'
        detail = "Spark's own connector of Delta has no release for each version of Spark that sqlstream runs on."
        hint = f'Leave the option "{_CLIENT}" out: Spark reads and writes the same tables elsewhere.'
        yield Diagnostic(UNSUPPORTED_FEATURE, message, spans.get(_CLIENT), detail=detail, hint=hint)


def _check_partitions(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    kinds = {c.name: c.type.name for c in table.physical_columns}
    for name in partition_columns(table):
        if name not in kinds:
            message = f'option "partition-by" names the column "{name}", which table "{table.name}" does not have'
            yield Diagnostic(WRONG_COLUMN, message, spans.get("partition-by"), hint=hint_of(name, kinds, "Columns"))
        elif kinds[name] in ("BINARY", "ARRAY", "MAP", "STRUCT"):
            message = f'column "{name}" of type {kinds[name]} cannot partition a Delta table'
            yield Diagnostic(WRONG_COLUMN, message, spans.get("partition-by"), hint="Name a column of a plain type.")
    if kinds and set(kinds) <= set(partition_columns(table)):
        message = f'option "partition-by" names all columns of table "{table.name}"'
        hint = "Files must hold at least one column: leave one out of the option."
        yield Diagnostic(WRONG_COLUMN, message, spans.get("partition-by"), hint=hint)
