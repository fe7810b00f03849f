"""Iceberg tables in their catalogs: how they are opened, and the columns that they have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sqlstream.connectors.lakes.iceberg_doubles import read_doubles_exactly
from sqlstream.connectors.lakes.versions import NO_LAKE_TABLE, UNSUPPORTED_FEATURE, LakeColumns, LakeSettings
from sqlstream.errors import ConnectorError, Diagnostic
from sqlstream.formats.columnar import usual_type
from sqlstream.formats.store_errors import store_error
from sqlstream.types import DataType
from sqlstream.udfs.files.details import constant_text
from sqlstream.udfs.lookup.sources.clients import no_package
from sqlstream.udfs.texts import one_line

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table


# --- opening --------------------------------------------------------------------------------------------------


def require_pyiceberg() -> None:
    """Raises ConnectorError SS577 where the package is not installed."""
    if find_spec("pyiceberg") is None:
        raise no_package("iceberg", "pyiceberg")


@contextmanager
def iceberg_errors(name: str, kind: str = "table") -> Iterator[None]:
    """Turns errors of the library into ConnectorError SS545. ``name``: of the table, or of what ``kind`` says."""
    from pyiceberg.exceptions import NoSuchTableError

    try:
        yield
    except ConnectorError:
        raise
    except NoSuchTableError as error:
        message = f'the catalog of table "{name}" has no such Iceberg table'
        hint = "Correct the option \"table-name\"; an INSERT creates the table, unless 'create-table' is 'false'."
        raise ConnectorError(NO_LAKE_TABLE, message, detail=f"{one_line(error).rstrip('.')}.", hint=hint) from None
    except Exception as error:  # of any client of a catalog or a store
        of_store = store_error("s3://", one_line(error), f'Iceberg {kind} "{name}"') if _is_of_store(error) else None
        if of_store is not None:
            raise of_store from None
        message = f'Iceberg {kind} "{name}" cannot be read: {one_line(error)}'
        raise ConnectorError(NO_LAKE_TABLE, message) from None


def _is_of_store(error: Exception) -> bool:
    """Whether pyarrow has raised the error, about an object store. Clients of catalogs raise others."""
    return isinstance(error, OSError) and ("AWS Error" in str(error) or "://" in str(error))


@lru_cache(16)
def _catalog(properties: tuple[tuple[str, str], ...]) -> Catalog:
    from pyiceberg.catalog import load_catalog

    read_doubles_exactly()
    given = dict(properties)
    return load_catalog(given.pop("name", "default"), **given)


def catalog_of(properties: Mapping[str, str]) -> Catalog:
    """Opens a catalog with the properties of pyiceberg, and its ``name``, by which SQL catalogs tell their tables from
    those of others in the same database. A process has one for equal properties.
    """
    return _catalog(tuple(sorted(properties.items())))


def open_table(name: str, identifier: str, properties: Mapping[str, str]) -> Table:
    """Opens an Iceberg table. ConnectorError SS545 where that fails."""
    require_pyiceberg()
    with iceberg_errors(name):
        return catalog_of(properties).load_table(identifier)


@lru_cache(16)
def _opened(settings: str) -> Table:
    own = LakeSettings.of_json(settings)
    return open_table(own.name, own.location, own.storage)


def open_data_file(settings: LakeSettings, location: str) -> pa.NativeFile:
    """Opens a data file by the means that the catalog gives for its table."""
    file = _opened(settings.to_json()).io.new_input(location).open()
    return pa.PythonFile(file, mode="r")


# --- columns --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StoredColumns(LakeColumns):
    """The columns of an Iceberg table: their ids, and, for files without ids, the names that they may have there.
    ``moved`` are those with fields that files have by other names. ``defaults``: the values of columns in files that
    lack them, as ``FileDetails`` spells them.
    """

    kind = "Iceberg"
    ids: Mapping[str, int]
    names: Mapping[str, Sequence[str]]
    moved: frozenset[str] = frozenset()
    defaults: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(table: Table, schema: Schema | None = None) -> StoredColumns:
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        own = schema or table.schema()
        ids = {field.name: field.field_id for field in own.fields}
        mapping = table.name_mapping()
        mapped = {f.field_id: f.names for f in mapping.root} if mapping is not None else {}
        names = {name: mapped.get(number, []) for name, number in ids.items()} if mapping is not None else {}
        arrow = schema_to_pyarrow(own, include_field_ids=False)
        kinds = pa.schema([(f.name, usual_type(f.type)) for f in arrow])
        moved = frozenset(_with_moved_fields(table, own))
        defaults = {f.name: f.initial_default for f in own.fields if f.initial_default is not None}
        texts = {name: value_text(value, kinds.field(name).type) for name, value in defaults.items()}
        return StoredColumns(kinds, ids, names, moved, {name: text for name, text in texts.items() if text is not None})

    def in_files(self, own: str) -> str:
        return str(self.ids[own])

    def unsupported(self, shown: str, own: str, declared: DataType) -> Iterator[Diagnostic]:
        if own in self.moved:
            message = f"fields in column {shown} were renamed or made again, which is not supported"
            yield Diagnostic(UNSUPPORTED_FEATURE, message, hint="Leave the column out of the table.")


def _with_moved_fields(table: Table, schema: Schema) -> Iterator[str]:
    """The columns with fields that had other names in earlier schemas, or whose names other fields had: files have
    those, and are read by names.
    """
    for column in schema.fields:
        now = _fields_in(schema, column.field_id)
        for earlier in table.schemas().values():
            before = _fields_in(earlier, column.field_id)
            ids = {name: number for number, name in before.items()}
            if any(before.get(number, name) != name or ids.get(name, number) != number for number, name in now.items()):
                yield column.name
                break


def _fields_in(schema: Schema, column: int) -> dict[int, str]:
    """The names of the fields in a column, by their ids; nothing where the schema lacks the column."""
    top = schema.find_column_name(column) if column in schema.field_ids else None
    names = ((number, schema.find_column_name(number) or "") for number in schema.field_ids)
    return {number: name.removeprefix(f"{top}.") for number, name in names if name.startswith(f"{top}.")}


def value_text(value: Any, kind: pa.DataType) -> str | None:
    """The text of a value that rows share, which Iceberg has as its own representation: days, microseconds."""
    if value is not None and pa.types.is_date(kind) and isinstance(value, int):
        return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
    if value is not None and pa.types.is_timestamp(kind) and isinstance(value, int):
        time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value)
        return (time if kind.tz is not None else time.replace(tzinfo=None)).isoformat()
    return constant_text(value)
