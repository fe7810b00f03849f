"""SQL types, and their one mapping to Spark, Arrow and sqlglot.

A ``DataType`` is spelled as Spark spells it in DDL. Flink's spellings are accepted where text is parsed
(``VARCHAR(n)``, ``TIMESTAMP(p)``, ``TIMESTAMP_LTZ(p)``, ``BYTES``, ``ROW<…>``) and become Spark's: precision of
timestamps is always microseconds, lengths of strings are not enforced.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

if TYPE_CHECKING:
    import pyarrow as pa

_T = exp.DataType.Type

_SIMPLE: dict[exp.DType, str] = {
    _T.BOOLEAN: "BOOLEAN",
    _T.TINYINT: "TINYINT",
    _T.SMALLINT: "SMALLINT",
    _T.INT: "INT",
    _T.BIGINT: "BIGINT",
    _T.FLOAT: "FLOAT",
    _T.DOUBLE: "DOUBLE",
    _T.CHAR: "STRING",
    _T.NCHAR: "STRING",
    _T.VARCHAR: "STRING",
    _T.NVARCHAR: "STRING",
    _T.TEXT: "STRING",
    _T.BINARY: "BINARY",
    _T.VARBINARY: "BINARY",
    _T.DATE: "DATE",
    _T.TIMESTAMP: "TIMESTAMP",
    _T.TIMESTAMPLTZ: "TIMESTAMP",
    _T.TIMESTAMPTZ: "TIMESTAMP",
    _T.DATETIME: "TIMESTAMP",
    _T.TIMESTAMPNTZ: "TIMESTAMP_NTZ",
    _T.NULL: "VOID",
    _T.VARIANT: "VARIANT",
    _T.INTERVAL: "INTERVAL",
}

_SPARK_INTERVAL = "INTERVAL DAY TO SECOND"


@dataclass(frozen=True)
class DataType:
    """``args``: (precision, scale) of DECIMAL, (element,) of ARRAY, (key, value) of MAP, (name, type)s of STRUCT."""

    name: str
    args: tuple[object, ...] = ()

    @property
    def is_unknown(self) -> bool:
        """True where only Spark can tell the type; it does so when the plan is lowered."""
        return self.name == "UNKNOWN"

    @property
    def is_numeric(self) -> bool:
        return self.name in _NUMERIC

    @property
    def is_timestamp(self) -> bool:
        return self.name in ("TIMESTAMP", "TIMESTAMP_NTZ")

    def ddl(self) -> str:
        """The type in Spark's DDL, upper-case: ``DECIMAL(10, 2)``, ``ARRAY<INT>``, ``STRUCT<a: INT>``."""
        match self.name:
            case "DECIMAL":
                return f"DECIMAL({self.args[0]}, {self.args[1]})"
            case "ARRAY" | "MAP":
                return f"{self.name}<{', '.join(_ddl(a) for a in self.args)}>"
            case "STRUCT":
                return f"STRUCT<{', '.join(f'{n}: {_ddl(t)}' for n, t in _members(self))}>"
            case "INTERVAL":
                return _SPARK_INTERVAL
            case _:
                return self.name

    def __str__(self) -> str:
        return self.ddl()

    def to_sqlglot(self) -> exp.DataType:
        """For sqlglot's type inference."""
        if self.is_unknown:
            return exp.DataType(this=_T.UNKNOWN)
        if self.name == "INTERVAL":
            return exp.DataType(this=_T.INTERVAL)
        if self.name == "VOID":
            return exp.DataType(this=_T.NULL)
        return exp.DataType.build(self.ddl(), dialect="spark")

    def to_arrow(self) -> pa.DataType:
        """The Arrow type that Spark exchanges for this type; TypeError for UNKNOWN."""
        import pyarrow as pa

        match self.name:
            case "DECIMAL":
                return pa.decimal128(*self.args)
            case "ARRAY":
                return pa.list_(_type(self.args[0]).to_arrow())
            case "MAP":
                return pa.map_(_type(self.args[0]).to_arrow(), _type(self.args[1]).to_arrow())
            case "STRUCT":
                return pa.struct([(n, t.to_arrow()) for n, t in _members(self)])
            case "TIMESTAMP":
                return pa.timestamp("us", tz="UTC")
            case "TIMESTAMP_NTZ":
                return pa.timestamp("us")
            case "INTERVAL":
                return pa.duration("us")
        if self.name not in _ARROW:
            raise TypeError(f"type {self.name} has no Arrow type")
        return pa.type_for_alias(_ARROW[self.name])


_NUMERIC = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"})
_ARROW = {
    "BOOLEAN": "bool",
    "TINYINT": "int8",
    "SMALLINT": "int16",
    "INT": "int32",
    "BIGINT": "int64",
    "FLOAT": "float32",
    "DOUBLE": "float64",
    "STRING": "string",
    "BINARY": "binary",
    "DATE": "date32",
    "VOID": "null",
}

BOOLEAN, INT, BIGINT, DOUBLE, STRING = (DataType(n) for n in ("BOOLEAN", "INT", "BIGINT", "DOUBLE", "STRING"))
TIMESTAMP, INTERVAL, UNKNOWN = DataType("TIMESTAMP"), DataType("INTERVAL"), DataType("UNKNOWN")


def _ddl(value: object) -> str:
    return _type(value).ddl()


def _type(value: object) -> DataType:
    assert isinstance(value, DataType)
    return value


def _members(struct: DataType) -> list[tuple[str, DataType]]:
    return [member for member in struct.args if isinstance(member, tuple)]


def from_sqlglot(node: exp.DataType | None) -> DataType:
    """The type of a parsed or inferred sqlglot type; UNKNOWN for what has no counterpart."""
    if node is None:
        return UNKNOWN
    kind = node.this
    if kind in _SIMPLE:
        return DataType(_SIMPLE[kind])
    inner = node.expressions
    if kind == _T.DECIMAL:
        numbers = [int(e.name) for e in inner]
        precision = numbers[0] if numbers else 10
        return DataType("DECIMAL", (precision, numbers[1] if len(numbers) > 1 else 0))
    if kind in (_T.ARRAY, _T.LIST):
        return DataType("ARRAY", (_element(inner, 0),))
    if kind == _T.MAP:
        return DataType("MAP", (_element(inner, 0), _element(inner, 1)))
    if kind == _T.STRUCT:
        return DataType("STRUCT", tuple((e.name, from_sqlglot(e.args.get("kind"))) for e in inner))
    return UNKNOWN


def _element(inner: list[exp.Expression], index: int) -> DataType:
    found = inner[index] if index < len(inner) else None
    return from_sqlglot(found) if isinstance(found, exp.DataType) else UNKNOWN


def parse_type(text: str) -> DataType:
    """The type that Spark's DDL or ``simpleString`` spells (``decimal(10,2)``, ``array<int>``)."""
    if text.lower().startswith("interval"):
        return INTERVAL
    return from_sqlglot(exp.DataType.build(text, dialect="spark", udt=True))
