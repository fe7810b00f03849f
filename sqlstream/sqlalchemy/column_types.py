"""Types of SQLAlchemy that only some databases have, and its types for ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy.sql import sqltypes, type_api
from sqlalchemy.types import TypeEngine, UserDefinedType

from sqlstream.planner.catalog import Column
from sqlstream.types import DataType


class TINYINT(sqltypes.Integer):
    """A whole number of one byte."""

    __visit_name__ = "TINYINT"


class INTERVAL(type_api.NativeForEmulated, sqltypes._AbstractInterval):
    """A span of time; ``timedelta`` in Python."""

    __visit_name__ = "INTERVAL"
    native = True

    @classmethod
    def adapt_emulated_to_native(cls, impl: Any, **kw: Any) -> INTERVAL:
        """This type for SQLAlchemy's ``Interval``."""
        return cls()


class CalendarDate(sqltypes.Date):
    """A DATE, also where a datetime is given: Spark would compare its time of day, too."""

    def bind_processor(self, dialect: Any) -> Callable[[Any], Any]:
        """Dates for parameters: those of a ``datetime`` lose their time of day."""
        return lambda value: value.date() if isinstance(value, datetime) else value


class MAP(UserDefinedType[dict[Any, Any]]):
    """``MAP<key, value>``; a dictionary in Python."""

    __visit_name__ = "MAP"
    cache_ok = True

    def __init__(self, key: Any, value: Any) -> None:
        self.key = sqltypes.to_instance(key)
        self.value = sqltypes.to_instance(value)


class STRUCT(UserDefinedType[dict[str, Any]]):
    """``STRUCT<name: type, …>``; a dictionary in Python."""

    __visit_name__ = "STRUCT"
    cache_ok = True

    def __init__(self, fields: Mapping[str, Any] | tuple[tuple[str, Any], ...]) -> None:
        given = fields.items() if isinstance(fields, Mapping) else fields
        self.fields = tuple((name, sqltypes.to_instance(kind)) for name, kind in given)


class VARIANT(UserDefinedType[Any]):
    """A value of any type."""

    __visit_name__ = "VARIANT"
    cache_ok = True


class DOUBLE(sqltypes.Float):  # type: ignore[type-arg] # SQLAlchemy 1.4 has no arguments there
    """DOUBLE of SQLAlchemy 1.4, which has none."""

    __visit_name__ = "DOUBLE"


_SIMPLE: dict[str, type[TypeEngine[Any]]] = {
    "BOOLEAN": sqltypes.BOOLEAN,
    "TINYINT": TINYINT,
    "SMALLINT": sqltypes.SMALLINT,
    "INT": sqltypes.INTEGER,
    "BIGINT": sqltypes.BIGINT,
    "FLOAT": sqltypes.REAL,
    "DOUBLE": getattr(sqltypes, "DOUBLE", DOUBLE),
    "STRING": sqltypes.VARCHAR,
    "BINARY": sqltypes.BINARY,
    "DATE": sqltypes.DATE,
    "TIME": sqltypes.TIME,
    "INTERVAL": INTERVAL,
    "VARIANT": VARIANT,
    "TIMESTAMP_NTZ": sqltypes.TIMESTAMP,
}


def alchemy_type(type_: DataType) -> TypeEngine[Any]:
    """SQLAlchemy's type for one of ours; NullType where only Spark knows the type."""
    match type_.name, type_.args:
        case "DECIMAL", (int(precision), int(scale)):
            return sqltypes.DECIMAL(precision, scale)
        case "TIMESTAMP", _:
            return sqltypes.TIMESTAMP(timezone=True)
        case "ARRAY", (DataType() as element,):
            return _array(element)
        case "MAP", (DataType() as key, DataType() as value):
            return MAP(alchemy_type(key), alchemy_type(value))
        case "STRUCT", _:
            return STRUCT(tuple((name, alchemy_type(kind)) for name, kind in type_.fields()))
    simple = _SIMPLE.get(type_.name)
    return sqltypes.NullType() if simple is None else simple()


def _array(element: DataType) -> TypeEngine[Any]:
    """SQLAlchemy says the depth of an array of arrays as a number."""
    depth = 1
    while element.name == "ARRAY" and isinstance(element.args[0], DataType):
        element, depth = element.args[0], depth + 1
    return sqltypes.ARRAY(alchemy_type(element), dimensions=depth)


def type_of_column(column: Column) -> TypeEngine[Any]:
    """That of a column, with the length that it was declared with."""
    declared = (column.declared or "").upper()
    name, _, rest = declared.partition("(")
    length = rest.rstrip(")")
    if column.type.name == "STRING" and name in ("CHAR", "VARCHAR") and length.isdigit():
        kind = sqltypes.CHAR if name == "CHAR" else sqltypes.VARCHAR
        return kind(int(length))
    return alchemy_type(column.type)
