"""Delta tables that jobs write: created, checked against the declared columns, and evolved where the user says so."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sqlstream.connectors.files.tables import partition_columns
from sqlstream.connectors.lakes.commits import COMMIT_TIMEOUT, CommitRetry
from sqlstream.connectors.lakes.delta_columns import (
    PRIMARY_KEY,
    delta_errors,
    is_there,
    open_table,
    require_deltalake,
    storage_of,
    uri_of,
)
from sqlstream.connectors.lakes.delta_writing import DeltaFiles
from sqlstream.connectors.lakes.versions import NO_LAKE_TABLE, UNSUPPORTED_FEATURE, WRONG_LAKE_COLUMN
from sqlstream.errors import ConnectorError, Diagnostic
from sqlstream.formats.store_errors import store_error
from sqlstream.options import WRONG_VALUE
from sqlstream.planner.catalog import Column, Table
from sqlstream.udfs.texts import one_line

if TYPE_CHECKING:
    from deltalake import DeltaTable

_REFUSED_PROPERTIES = {
    "delta.constraints.": "CHECK constraints",
    "delta.columnMapping.mode": "column mapping",
    "delta.enableRowTracking": "row tracking",
    "delta.enableIcebergCompat": "compatibility with Iceberg",
    "delta.enableInCommitTimestamps": "timestamps in commits",
    "delta.setTransactionRetentionDuration": "transactions that are forgotten, and with them what a job has written",
}
_REFUSED_FIELDS = {
    "delta.generationExpression": "is generated",
    "delta.identity.": "is an identity column",
    "delta.invariants": "has an invariant",
}
_OFF = ("false", "none")
_WRITTEN = frozenset(
    {"appendOnly", "changeDataFeed", "checkConstraints", "columnMapping", "deletionVectors", "generatedColumns",
     "invariants", "timestampNtz", "variantType", "variantType-preview"}
)  # fmt: skip
"""Features of tables that the library writes, where the ones in _REFUSED_PROPERTIES are not used."""


def prepared(table: Table, values: Mapping[str, Any]) -> DeltaFiles:
    """Creates the Delta table if there is none, checks that it has the declared columns, and returns how files are
    written into it. ``values``: the resolved options.

    ConnectorError SS545 without a table, SS546 for columns that do not match, SS547 for features of Delta that the sink
    does not support.
    """
    require_deltalake()
    path, storage = values["path"], storage_of(values)
    with delta_errors(table.name, path):
        there = is_there(path, storage)
    if not there:
        _create(table, values, path, storage)
    stored = open_table(table.name, path, storage)
    _refuse_features(table, stored)
    if values["sink.schema-evolution"] == "add-columns" and (missing := _missing(table, stored)):
        _add_columns(table, stored, missing)
        stored = open_table(table.name, path, storage)
    wrong = [*_wrong_columns(table, stored), *_wrong_partitions(table, stored)]
    if wrong:
        raise ConnectorError.of(wrong)
    compression = values["parquet.compression"]
    types = {c.name.casefold(): c.type.to_arrow() for c in table.physical_columns}
    schema = pa.schema([(name, types[name.casefold()]) for name in _own_names(stored) if name.casefold() in types])
    partitions = tuple(stored.metadata().partition_columns)
    filled = {c.name.casefold() for c in table.physical_columns if not c.nullable}
    required = tuple(name for name in partitions if name.casefold() in filled)
    return DeltaFiles(path, schema, partitions, compression, storage, required)


def remove_rows(table: Table, values: Mapping[str, Any]) -> None:
    """Removes all rows, in a new version of the Delta table; does nothing where there is none."""
    require_deltalake()
    path, storage = values["path"], storage_of(values)
    with delta_errors(table.name, path):
        there = is_there(path, storage)
    if there:
        CommitRetry(values[COMMIT_TIMEOUT]).commit(
            f'Delta table "{table.name}"',
            lambda: open_table(table.name, path, storage),
            lambda _: False,
            _delete_all,
            is_passing,
        )


def _delete_all(stored: DeltaTable) -> None:
    stored.delete()


def is_passing(error: Exception) -> bool:
    """Whether a commit may succeed when it is repeated: another writer was first, or the store did not answer."""
    from deltalake.exceptions import CommitFailedError

    return isinstance(error, CommitFailedError | OSError)


# --- what it has of a checkpoint ------------------------------------------------------------------------------


def application(run: str) -> str:
    """The name under which the micro-batches of a checkpoint are recorded as transactions of the table."""
    return f"sqlstream-{run}"


def newest_epoch(table: Table, path: str, storage: Mapping[str, str], run: str) -> int | None:
    """The number of the newest micro-batch of a checkpoint that the Delta table has; None if it has none."""
    require_deltalake()
    with delta_errors(table.name, path):
        if not is_there(path, storage):
            return None
        return open_table(table.name, path, storage).transaction_version(application(run))


# --- creating and evolving ------------------------------------------------------------------------------------


def _create(table: Table, values: Mapping[str, Any], path: str, storage: Mapping[str, str]) -> None:
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    if not values["create-table"]:
        message = f'the path of table "{table.name}" has no Delta table'
        raise ConnectorError(NO_LAKE_TABLE, message, hint="Correct the path, or let 'create-table' be 'true'.")
    schema = pa.schema([_field(column) for column in table.physical_columns])
    properties = {key: str(value) for key, value in values.items() if key.startswith("delta.")}
    if table.primary_key:
        properties[PRIMARY_KEY] = json.dumps(table.primary_key)
    try:
        DeltaTable.create(
            uri_of(path), schema, mode="ignore", partition_by=partition_columns(table),
            configuration=properties or None, storage_options=dict(storage) or None,
            raise_if_key_not_exists=not table.primary_key,
        )  # fmt: skip
    except (DeltaError, OSError, ValueError) as error:
        if (of_store := store_error(path, one_line(error), f'Delta table "{table.name}"')) is not None:
            raise of_store from None
        message = f'Delta table "{table.name}" cannot be created: {one_line(error)}'
        raise ConnectorError(NO_LAKE_TABLE, message) from None


def _field(column: Column) -> pa.Field:
    return pa.field(column.name, column.type.to_arrow(), column.nullable)


def _own_names(stored: DeltaTable) -> list[str]:
    return [field.name for field in stored.schema().fields]


def _missing(table: Table, stored: DeltaTable) -> list[Column]:
    there = {name.casefold() for name in _own_names(stored)}
    return [column for column in table.physical_columns if column.name.casefold() not in there]


def _add_columns(table: Table, stored: DeltaTable, missing: list[Column]) -> None:
    from deltalake import Schema

    fields = pa.schema([pa.field(c.name, c.type.to_arrow()) for c in missing])  # older rows have NULL
    with delta_errors(table.name, stored.table_uri):
        stored.alter.add_columns(Schema.from_arrow(fields).fields)


# --- checks ---------------------------------------------------------------------------------------------------


def _refuse_features(table: Table, stored: DeltaTable) -> None:
    features = [*_refused(stored)]
    if features:
        message = f'the Delta table of "{table.name}" has {features[0]}, which the sink does not support'
        raise ConnectorError(UNSUPPORTED_FEATURE, message, hint="Write into another table, or with Spark's own writer.")
    if table.primary_key and (decimals := decimal_partitions(stored)):
        message = (
            f'the Delta table of "{table.name}" is partitioned by "{decimals[0]}" of type DECIMAL, and its rows have '
            "a key: a MERGE of deltalake spoils partitions below zero"
        )
        hint = "Partition it by a column of another type, or leave the PRIMARY KEY out."
        raise ConnectorError(UNSUPPORTED_FEATURE, message, hint=hint)
    append_only = stored.metadata().configuration.get("delta.appendOnly") == "true"
    if append_only and table.primary_key:
        message = f'the Delta table of "{table.name}" takes new rows only (delta.appendOnly), and its rows have a key'
        raise ConnectorError(UNSUPPORTED_FEATURE, message, hint="Leave the PRIMARY KEY out.")


def decimal_partitions(stored: DeltaTable) -> list[str]:
    """The partition columns of type DECIMAL. The library writes the text of -1.50 as -1.-50 where it rewrites rows, and
    nobody can open such a table again.
    """
    schema = pa.schema(stored.schema().to_arrow())
    return [name for name in stored.metadata().partition_columns if pa.types.is_decimal(schema.field(name).type)]


def _refused(stored: DeltaTable) -> Iterator[str]:
    for feature in stored.protocol().writer_features or ():
        if feature not in _WRITTEN:
            yield f'the feature "{feature}"'
    for key, value in stored.metadata().configuration.items():
        for prefix, feature in _REFUSED_PROPERTIES.items():
            if key.startswith(prefix) and value not in _OFF:
                yield feature
    for field in json.loads(stored.schema().to_json())["fields"]:
        for prefix, what in _REFUSED_FIELDS.items():
            if any(key.startswith(prefix) for key in field["metadata"]):
                yield f'a column "{field["name"]}" that {what}'


def _wrong_columns(table: Table, stored: DeltaTable) -> Iterator[Diagnostic]:
    from deltalake import Schema

    declared = {c.name.casefold(): c for c in table.physical_columns}
    there = {field.name.casefold(): field for field in stored.schema().fields}
    for name, column in declared.items():
        field = there.get(name)
        if field is None:
            message = f'column "{column.name}" of table "{table.name}" does not exist in the Delta table'
            hint = "Leave it out, or let the sink add it: 'sink.schema-evolution' = 'add-columns'."
            yield Diagnostic(WRONG_LAKE_COLUMN, message, hint=hint)
            continue
        wanted = Schema.from_arrow(pa.schema([_field(column)])).fields[0].type
        if wanted != field.type:
            kind = pa.schema(stored.schema().to_arrow()).field(field.name).type
            message = f'column "{column.name}" of table "{table.name}" is {column.type}, but {kind} in the Delta table'
            yield Diagnostic(WRONG_LAKE_COLUMN, message, hint="Declare it with the type that it has there.")
        elif column.nullable and not field.nullable:
            message = f'column "{column.name}" of table "{table.name}" may be NULL, but is NOT NULL in the Delta table'
            yield Diagnostic(WRONG_LAKE_COLUMN, message, hint="Declare it NOT NULL.")
    for name, field in there.items():
        if name not in declared and not field.nullable:
            message = f'column "{field.name}" is NOT NULL in the Delta table, and table "{table.name}" lacks it'
            yield Diagnostic(WRONG_LAKE_COLUMN, message, hint="Declare the column.")


def _wrong_partitions(table: Table, stored: DeltaTable) -> Iterator[Diagnostic]:
    declared, there = partition_columns(table), [*stored.metadata().partition_columns]
    names = {c.name.casefold() for c in table.physical_columns}
    if declared and declared != there:
        listed = ", ".join(there) or "no column"
        message = f'table "{table.name}" is partitioned by {", ".join(declared)}, but by {listed} in the Delta table'
        yield Diagnostic(WRONG_VALUE, message, hint='Correct the option "partition-by", or leave it out.')
    for name in there:
        if name.casefold() not in names:
            message = f'column "{name}" partitions the Delta table, and table "{table.name}" lacks it'
            yield Diagnostic(WRONG_LAKE_COLUMN, message, hint="Declare the column.")
