"""Iceberg tables that jobs write: created with partitions and transforms, checked, evolved; and files of tasks."""

from __future__ import annotations

import base64
import pickle
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sqlstream.connectors.lakes.commits import CommitRetry
from sqlstream.connectors.lakes.iceberg_columns import (
    StoredColumns,
    catalog_of,
    iceberg_errors,
    open_table,
    require_pyiceberg,
)
from sqlstream.connectors.lakes.iceberg_commits import is_passing, remove_all
from sqlstream.connectors.lakes.iceberg_partitions import partitions_of, sorted_rows
from sqlstream.connectors.lakes.versions import NO_LAKE_TABLE, UNSUPPORTED_FEATURE, WRONG_LAKE_COLUMN
from sqlstream.errors import ConnectorError, Diagnostic
from sqlstream.formats.columnar import usual_type
from sqlstream.planner.catalog import Table
from sqlstream.udfs.texts import one_line

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table as IcebergTable
    from pyiceberg.table.metadata import TableMetadata

_MOST_BYTES = 128 << 20
"""Bytes of rows that a task gathers before it writes files."""

_MICROS = pa.time64("us")

# --- files of tasks -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class IcebergFiles:
    """Writes the rows of a task into data files of an Iceberg table, by its partitions. ``metadata`` and ``io``: the
    table as of the start of the micro-batch, and its store. ``schema``: all columns of the table, in its order.
    """

    metadata: TableMetadata
    io: FileIO = field(repr=False)
    schema: pa.Schema

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Writes all rows, then yields the files, each as text (``data_file``)."""
        files: list[DataFile] = []
        waiting: list[pa.RecordBatch] = []
        for batch in batches:
            waiting.append(batch)
            if sum(b.nbytes for b in waiting) > _MOST_BYTES:
                files += self.written(pa.Table.from_batches(waiting))
                waiting = []
        if waiting:
            files += self.written(pa.Table.from_batches(waiting))
        texts = [base64.b64encode(pickle.dumps(file)).decode() for file in files]
        yield pa.record_batch({"file": pa.array(texts, pa.string())})

    def written(self, rows: pa.Table) -> list[DataFile]:
        """Writes rows into files. Columns that the rows lack are NULL."""
        if not rows.num_rows:
            return []
        columns = [
            rows[f.name].cast(f.type) if f.name in rows.column_names else pa.nulls(rows.num_rows, f.type)
            for f in self.schema
        ]
        whole = pa.Table.from_arrays(columns, schema=self.schema)
        return data_files(self.metadata, whole, self.io)


def data_file(text: str) -> DataFile:
    """The file of the library that ``IcebergFiles`` has described."""
    file: DataFile = pickle.loads(base64.b64decode(text))
    return file


@cache
def _sort_order_index() -> int:
    """Where a file has its sort order, which the library does not set."""
    from pyiceberg.manifest import DATA_FILE_TYPE, DEFAULT_READ_VERSION

    return [field.name for field in DATA_FILE_TYPE[DEFAULT_READ_VERSION].fields].index("sort_order_id")


def data_files(metadata: TableMetadata, rows: pa.Table, io: FileIO) -> list[DataFile]:
    """Writes rows with all columns of the table into files of its partitions."""
    from pyiceberg.io.pyarrow import bin_pack_arrow_table, pyarrow_to_schema, write_file
    from pyiceberg.table import TableProperties, WriteTask
    from pyiceberg.utils.properties import property_as_int

    default = TableProperties.WRITE_TARGET_FILE_SIZE_BYTES_DEFAULT
    size = property_as_int(metadata.properties, TableProperties.WRITE_TARGET_FILE_SIZE_BYTES, default) or default
    mapping = metadata.schema().name_mapping
    schema = pyarrow_to_schema(rows.schema, name_mapping=mapping, format_version=metadata.format_version)
    parts = partitions_of(sorted_rows(rows, metadata), metadata)
    batches = ((partition, own) for partition, part in parts for own in bin_pack_arrow_table(part, size))
    name: Any = uuid.uuid4()
    tasks = (WriteTask(name, n, schema, own, partition_key=part) for n, (part, own) in enumerate(batches))
    files = [*write_file(io, metadata, tasks)]
    for file in files:
        file.spec_id = metadata.default_spec_id
        file[_sort_order_index()] = metadata.default_sort_order_id
    return files


# --- creating and evolving ------------------------------------------------------------------------------------


def prepared(table: Table, values: Mapping[str, Any], storage: Mapping[str, str]) -> IcebergTable:
    """Creates the Iceberg table if there is none, checks that it has the declared columns, and returns it. ``values``:
    the resolved options; ``storage``: the properties of the catalog.

    ConnectorError SS545 without a table, SS546 for columns that do not match.
    """
    require_pyiceberg()
    identifier = values["table-name"]
    with iceberg_errors(table.name):
        there = catalog_of(storage).table_exists(identifier)
    if not there:
        _create(table, values, storage)
    stored = open_table(table.name, identifier, storage)
    _require_version(table, stored.format_version)
    if values["sink.schema-evolution"] == "add-columns":
        _add_columns(table, stored)
        stored = open_table(table.name, identifier, storage)
    wrong = [*_wrong_columns(table, stored)]
    if wrong:
        raise ConnectorError.of(wrong)
    return stored


def _create(table: Table, values: Mapping[str, Any], storage: Mapping[str, str]) -> None:
    from pyiceberg.exceptions import TableAlreadyExistsError
    from pyiceberg.table.sorting import NullOrder
    from pyiceberg.transforms import IdentityTransform

    identifier = values["table-name"]
    if not values["create-table"]:
        message = f'the catalog of table "{table.name}" has no such Iceberg table'
        raise ConnectorError(NO_LAKE_TABLE, message, hint="Correct the name, or let 'create-table' be 'true'.")
    catalog = catalog_of(storage)
    properties = {key.removeprefix("table."): str(v) for key, v in values.items() if key.startswith("table.")}
    _require_version(table, properties.get("format-version", "2"))
    try:
        catalog.create_namespace_if_not_exists(identifier.rpartition(".")[0])
        made = catalog.create_table(identifier, _schema(table), properties=properties)
        if table.primary_key and not any(c.nullable for c in table.physical_columns if c.name in table.primary_key):
            with made.update_schema() as schema:
                schema.set_identifier_fields(*table.primary_key)
        if values["sort-by"]:
            with made.update_sort_order() as order:
                for key in values["sort-by"]:
                    add = order.desc if key.descending else order.asc
                    nulls = NullOrder.NULLS_FIRST if key.nulls_first else NullOrder.NULLS_LAST
                    add(key.column, IdentityTransform(), nulls)
        if values["partition-by"]:
            with made.update_spec() as spec:
                for part in values["partition-by"]:
                    spec.add_field(part.column, part.to_iceberg(), part.name)
    except TableAlreadyExistsError:
        return
    except Exception as error:  # of any client of a catalog or a store
        message = f'Iceberg table "{table.name}" cannot be created: {one_line(error)}'
        raise ConnectorError(NO_LAKE_TABLE, message) from None


def _require_version(table: Table, version: int | str) -> None:
    """Raises SS547 for a version of the format whose metadata the library does not write."""
    if str(version) not in ("1", "2"):
        message = f'the Iceberg table of "{table.name}" has version {version} of the format, which cannot be written'
        raise ConnectorError(UNSUPPORTED_FEATURE, message, hint="Write into a table of version 2.")


def _schema(table: Table) -> pa.Schema:
    kinds = ((c, c.type.to_arrow()) for c in table.physical_columns)
    return pa.schema([pa.field(c.name, _MICROS if pa.types.is_time64(k) else k, c.nullable) for c, k in kinds])


def _add_columns(table: Table, stored: IcebergTable) -> None:
    there = StoredColumns.of(stored)
    missing = [c for c in table.physical_columns if there.own(c.name) is None]
    if missing:
        with iceberg_errors(table.name), stored.update_schema() as update:
            update.union_by_name(pa.schema([pa.field(c.name, c.type.to_arrow()) for c in missing]))


def _wrong_columns(table: Table, stored: IcebergTable) -> Iterator[Diagnostic]:
    there = StoredColumns.of(stored)
    declared = {there.own(c.name): c for c in table.physical_columns}
    for own, column in declared.items():
        if own is None:
            message = f'column "{column.name}" of table "{table.name}" does not exist in the Iceberg table'
            hint = "Leave it out, or let the sink add it: 'sink.schema-evolution' = 'add-columns'."
            yield Diagnostic(WRONG_LAKE_COLUMN, message, hint=hint)
            continue
        kind, wanted = there.schema.field(own).type, _as_stored(column.type.to_arrow())
        if kind != wanted and not _same_but_names(kind, wanted):
            message = (
                f'column "{column.name}" of table "{table.name}" is {column.type}, but {kind} in the Iceberg table'
            )
            yield Diagnostic(WRONG_LAKE_COLUMN, message, hint="Declare it with the type that it has there.")
    for field_ in stored.schema().fields:
        column_ = declared.get(field_.name)
        if field_.required and (column_ is None or column_.nullable):
            message = f'column "{field_.name}" is required in the Iceberg table, and may be NULL in "{table.name}"'
            yield Diagnostic(WRONG_LAKE_COLUMN, message, hint="Declare the column NOT NULL.")


def _as_stored(kind: pa.DataType) -> pa.DataType:
    """The type in which Iceberg has values of a type: it has no small integers, and microseconds of a day."""
    if pa.types.is_time64(kind):
        return _MICROS
    return pa.int32() if pa.types.is_int8(kind) or pa.types.is_int16(kind) else kind


def _same_but_names(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether nested types differ in the names of elements of lists and maps alone, or not to the eye."""
    return bool(pa.types.is_nested(one) and usual_type(one).equals(usual_type(other), check_metadata=False))


def all_columns(stored: IcebergTable) -> pa.Schema:
    """All columns of the table as Arrow's, as its files have them. Of binary types the library truncates the small one
    only, where a table is partitioned by that.
    """
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    schema: Schema = stored.schema()
    made: pa.Schema = schema_to_pyarrow(schema, include_field_ids=False)
    return pa.schema([f.with_type(pa.binary()) if pa.types.is_large_binary(f.type) else f for f in made])


def remove_rows(table: Table, identifier: str, storage: Mapping[str, str], timeout_ms: int) -> None:
    """Removes all rows, in a new snapshot of the table; does nothing where there is none. ``timeout_ms``: how long the
    commit is repeated.
    """
    require_pyiceberg()
    with iceberg_errors(table.name):
        there = catalog_of(storage).table_exists(identifier)
    if there:
        CommitRetry(timeout_ms).commit(
            f'Iceberg table "{table.name}"',
            lambda: open_table(table.name, identifier, storage),
            lambda _: False,
            remove_all,
            is_passing,
        )
