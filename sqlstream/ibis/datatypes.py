"""Types of Ibis as types of the dialect and back, and rows of Arrow in the types that Ibis has promised."""

from __future__ import annotations

from typing import Any

import ibis.common.exceptions as com
import ibis.expr.datatypes as dt
import ibis.expr.schema as sch
import pyarrow as pa
import pyarrow.compute as pc
from ibis.backends.sql.datatypes import SqlglotType
from ibis.formats.pyarrow import PyArrowData, PyArrowSchema, PyArrowType
from sqlglot import exp

from sqlstream.planner.catalog import Column
from sqlstream.results import Columns
from sqlstream.types import DataType

_MICROSECONDS = 6
_LARGER: dict[type[dt.DataType], dt.DataType] = {
    dt.UInt8: dt.int16,
    dt.UInt16: dt.int32,
    dt.UInt32: dt.int64,
    dt.UInt64: dt.Decimal(20, 0),
}
"""The dialect has no unsigned integers; the next larger type has room for all of their values."""


class SqlStreamType(SqlglotType):
    """Types of Ibis as sqlglot's, spelled in the dialect ``sqlstream``.

    A timestamp without a time zone is TIMESTAMP_NTZ, one with a time zone TIMESTAMP. JSON, UUID and addresses are
    STRING. Raises UnsupportedBackendType for types of geometry.
    """

    dialect = "sqlstream"
    default_decimal_precision = 38
    default_decimal_scale = 18

    @classmethod
    def from_ibis(cls, dtype: dt.DataType) -> exp.DataType:
        """The type as sqlglot's, without NOT NULL."""
        if isinstance(dtype, dt.GeoSpatial):
            raise com.UnsupportedBackendType(f"sqlstream has no type for {dtype}")
        if isinstance(dtype, dt.Unknown):
            raise com.UnsupportedBackendType(f"sqlstream needs a known type in place of {dtype}")
        if isinstance(dtype, dt.JSON | dt.UUID | dt.INET | dt.MACADDR):
            dtype = dt.string
        spelled: exp.DataType = super().from_ibis(_LARGER.get(type(dtype), dtype))
        return spelled

    @classmethod
    def _from_ibis_Timestamp(cls, dtype: dt.Timestamp) -> exp.DataType:  # noqa: N802 - Ibis asks by this name
        kind = exp.DType.TIMESTAMPNTZ if dtype.timezone is None else exp.DType.TIMESTAMPTZ
        exact = dtype.scale is not None and dtype.scale <= _MICROSECONDS
        precision = [exp.DataTypeParam(this=exp.Literal.number(dtype.scale))] if exact else None
        return exp.DataType(this=kind, expressions=precision)

    @classmethod
    def _from_ibis_Binary(cls, dtype: dt.Binary) -> exp.DataType:  # noqa: N802
        return exp.DataType(this=exp.DType.BINARY)

    @classmethod
    def _from_ibis_Interval(cls, dtype: dt.Interval) -> exp.DataType:  # noqa: N802
        return exp.DataType(this=exp.DType.INTERVAL)


def ibis_type(type_: DataType, time_zone: str, *, nullable: bool = True, precision: int | None = None) -> dt.DataType:
    """The Ibis type of values of an SQL type. ``time_zone``: that of TIMESTAMP; ``precision``: the p of
    ``TIMESTAMP(p)``. Types that Arrow has none for are unknown.
    """
    try:
        arrow = type_.to_arrow(time_zone)
    except TypeError:
        return dt.unknown
    dtype: dt.DataType = PyArrowType.to_ibis(arrow, nullable=nullable)
    if isinstance(dtype, dt.Timestamp):
        return dtype.copy(scale=precision)
    return dtype


def schema_of_table(columns: tuple[Column, ...], time_zone: str) -> sch.Schema:
    """The schema of a table of the catalog, with NOT NULL and the precision of timestamps as they were declared."""
    return sch.Schema(
        {c.name: ibis_type(c.type, time_zone, nullable=c.nullable, precision=c.precision) for c in columns}
    )


def schema_of_query(columns: Columns, time_zone: str) -> sch.Schema:
    """The schema of a query's result. Raises IbisInputError where two columns have the same name."""
    names = [name for name, _ in columns]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise com.IbisInputError(f"columns of a table of Ibis have names of their own, here repeated: {repeated}")
    return sch.Schema({name: ibis_type(type_, time_zone) for name, type_ in columns})


def in_schema(table: pa.Table, schema: sch.Schema) -> pa.Table:
    """The columns of a result, in order, with the names and types of a schema of Ibis."""
    named = table.rename_columns(list(schema.names))
    wanted = PyArrowSchema.from_ibis(schema)
    for position, field in enumerate(wanted):
        named = named.set_column(position, field.name, _on_its_clock(named.column(position), field.type))
    return PyArrowData.convert_table(named, schema)


def _on_its_clock(column: pa.ChunkedArray, wanted: pa.DataType) -> Any:
    """A time that Ibis shows without a time zone is the time on the clock of the session, where it has one."""
    has_zone = pa.types.is_timestamp(column.type) and column.type.tz is not None
    wants_none = pa.types.is_timestamp(wanted) and wanted.tz is None
    if pa.types.is_duration(column.type) and pa.types.is_duration(wanted):
        return column.cast(wanted, safe=False)  # Ibis has differences of times in whole seconds
    return pc.local_timestamp(column) if has_zone and wants_none else column


def stored(table: pa.Table, schema: sch.Schema) -> pa.Table:
    """Rows of a table in memory as Spark reads them from a file: in the types of the dialect."""
    fields = [(name, _plain(PyArrowType.from_ibis(dtype))) for name, dtype in schema.items()]
    return table.rename_columns(list(schema.names)).cast(pa.schema(fields), safe=False)


def _plain(type_: pa.DataType) -> pa.DataType:
    if isinstance(type_, pa.BaseExtensionType):
        return _plain(type_.storage_type)
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us", tz=type_.tz)
    if type_ in _SIGNED:
        return _SIGNED[type_]
    if pa.types.is_struct(type_):
        return pa.struct([(f.name, _plain(f.type)) for f in type_])
    if pa.types.is_map(type_):
        return pa.map_(_plain(type_.key_type), _plain(type_.item_type))
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return pa.list_(_plain(type_.value_type))
    return type_


_SIGNED = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.uint64(): pa.decimal128(20, 0)}
