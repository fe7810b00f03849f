"""SQL types, and their one mapping to Spark, Arrow and sqlglot.

A ``DataType`` is spelled as Spark spells it in DDL. Flink's spellings are accepted where text is parsed
(``VARCHAR(n)``, ``TIMESTAMP(p)``, ``TIMESTAMP_LTZ(p)``, ``BYTES``, ``ROW<…>``) and become Spark's: precision of
timestamps is always microseconds, lengths of strings are not enforced.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sqlstream.errors import BindError

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp

# sqlglot's types by name: kernels use this module in Spark's workers, which have no sqlglot and would load it for long.
_SIMPLE = {
    "BOOLEAN": "BOOLEAN",
    "TINYINT": "TINYINT",
    "SMALLINT": "SMALLINT",
    "INT": "INT",
    "BIGINT": "BIGINT",
    "FLOAT": "FLOAT",
    "DOUBLE": "DOUBLE",
    "CHAR": "STRING",
    "NCHAR": "STRING",
    "VARCHAR": "STRING",
    "NVARCHAR": "STRING",
    "TEXT": "STRING",
    "BINARY": "BINARY",
    "VARBINARY": "BINARY",
    "DATE": "DATE",
    "TIMESTAMP": "TIMESTAMP",
    "TIMESTAMPLTZ": "TIMESTAMP",
    "TIMESTAMPTZ": "TIMESTAMP",
    "DATETIME": "TIMESTAMP",
    "TIMESTAMPNTZ": "TIMESTAMP_NTZ",
    "NULL": "VOID",
    "VARIANT": "VARIANT",
    "INTERVAL": "INTERVAL",
    "TIME": "TIME",
}

_SPARK_INTERVAL = "INTERVAL DAY TO SECOND"
_YEAR_MONTH = "INTERVAL YEAR TO MONTH"
_LARGEST_DECIMAL = 38

NO_SUCH_TYPE = "SS280"


@dataclass(frozen=True)
class DataType:
    """An SQL type. ``args``: (precision, scale) of DECIMAL, (element type,) of ARRAY, (key type, value type) of MAP,
    and pairs of name and type for STRUCT.

    ``nullable`` is False for a STRUCT field, ARRAY element or MAP value that is NOT NULL. It is ignored when types are
    compared.
    """

    name: str
    args: tuple[object, ...] = ()
    nullable: bool = field(default=True, compare=False)

    @property
    def is_unknown(self) -> bool:
        """True where only Spark can determine the type, when the plan is lowered."""
        return self.name == "UNKNOWN"

    @property
    def defect(self) -> str | None:
        """Why no column can have this type, as the end of a message ``type "…" …``; None if the type is valid."""
        for nested in self.parts():
            if nested.is_unknown:
                return "does not exist"
            if nested.name == "DECIMAL" and not _fits_decimal(*nested.args):
                return f"is out of range: a DECIMAL has 1 to {_LARGEST_DECIMAL} digits and no larger scale"
        return None

    def parts(self) -> Iterator[DataType]:
        """Yields this type and all types nested in it."""
        yield self
        for kind in (*self.inner, *(kind for _, kind in self.fields())):
            yield from kind.parts()

    def fields(self) -> list[tuple[str, DataType]]:
        """Returns pairs of name and type for the fields of a STRUCT."""
        return [member for member in self.args if isinstance(member, tuple)]

    @property
    def inner(self) -> tuple[DataType, ...]:
        """The type of the elements of an ARRAY, or the types of the keys and of the values of a MAP."""
        return tuple(argument for argument in self.args if isinstance(argument, DataType))

    def with_inner(self, change: Callable[[DataType], DataType]) -> DataType:
        """Returns the type with each type directly in it replaced by the result of ``change``: those of elements, of
        keys and values, or of fields. Types without such are returned as they are.
        """
        changed: tuple[object, ...] = tuple((name, change(kind)) for name, kind in self.fields())
        changed = changed or tuple(change(kind) for kind in self.inner)
        return replace(self, args=changed) if changed else self

    @property
    def is_numeric(self) -> bool:
        """True for integer types, DECIMAL, FLOAT and DOUBLE."""
        return self.name in _NUMERIC

    @property
    def is_timestamp(self) -> bool:
        """True for TIMESTAMP and TIMESTAMP_NTZ."""
        return self.name in ("TIMESTAMP", "TIMESTAMP_NTZ")

    def ddl(self) -> str:
        """Returns the type in Spark's DDL syntax, in upper case: ``DECIMAL(10, 2)``, ``ARRAY<INT>``, ``STRUCT<a:
        INT>``.
        """
        match self.name:
            case "DECIMAL":
                return f"DECIMAL({self.args[0]}, {self.args[1]})"
            case "ARRAY" | "MAP":
                return f"{self.name}<{', '.join(a.ddl() for a in self.inner)}>"
            case "STRUCT":
                return f"STRUCT<{', '.join(f'{_quoted(n)}: {t.ddl()}' for n, t in self.fields())}>"
            case "INTERVAL":
                return _SPARK_INTERVAL
            case _:
                return self.name

    def declaration(self) -> str:
        """Returns the type in this dialect's syntax, with NOT NULL of nested types: ``STRUCT<a: INT NOT NULL>``.
        Spark's readers do not accept that form.
        """
        match self.name:
            case "ARRAY" | "MAP":
                return f"{self.name}<{', '.join(_required(a) for a in self.inner)}>"
            case "STRUCT":
                return f"STRUCT<{', '.join(map(_declared, self.fields()))}>"
        return self.ddl()

    def __str__(self) -> str:
        return self.ddl()

    def to_sqlglot(self) -> exp.DataType:
        """Returns the type as sqlglot's type, for type inference."""
        from sqlglot import exp  # Spark's workers have types, and load no parser

        if self.is_unknown:
            return exp.DataType(this=exp.DType.UNKNOWN)
        if self.name == "INTERVAL":
            return exp.DataType(this=exp.DType.INTERVAL)
        if self.name == "VOID":
            return exp.DataType(this=exp.DType.NULL)
        return exp.DataType.build(self.ddl(), dialect="spark")

    def to_arrow(self, time_zone: str = "UTC") -> pa.DataType:
        """Returns the Arrow type in which Spark exchanges values of this type. TIMESTAMP is in the given time zone.

        Raises TypeError for UNKNOWN and year-month intervals, which have none.
        """
        import pyarrow as pa  # statements without rows start without it

        match self.name:
            case "DECIMAL":
                return pa.decimal128(*self.args)
            case "ARRAY":
                return pa.list_(self.inner[0].to_arrow(time_zone))
            case "MAP":
                return pa.map_(*(a.to_arrow(time_zone) for a in self.inner))
            case "STRUCT":
                return pa.struct([(n, t.to_arrow(time_zone)) for n, t in self.fields()])
            case "TIMESTAMP":
                return pa.timestamp("us", tz=time_zone)
            case "TIMESTAMP_NTZ":
                return pa.timestamp("us")
            case "INTERVAL":
                return pa.duration("us")
            case "VARIANT":
                return pa.struct([pa.field(n, pa.binary(), nullable=False) for n in ("value", "metadata")])
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
    "TIME": "time64[ns]",
    "VOID": "null",
}

BOOLEAN, INT, BIGINT, DOUBLE, STRING = (DataType(n) for n in ("BOOLEAN", "INT", "BIGINT", "DOUBLE", "STRING"))
TIMESTAMP, INTERVAL, UNKNOWN = DataType("TIMESTAMP"), DataType("INTERVAL"), DataType("UNKNOWN")
INTERVAL_OF_MONTHS = DataType(_YEAR_MONTH)
"""The type of intervals of months and years, to which INTERVAL, of days and seconds, is not converted."""


def _fits_decimal(precision: object, scale: object) -> bool:
    return isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision <= _LARGEST_DECIMAL > 0


def _quoted(name: str) -> str:
    """Spark wants backticks around names of fields that are no plain words."""
    return name if name.isidentifier() and name.isascii() else "`" + name.replace("`", "``") + "`"


def _declared(member: tuple[str, DataType]) -> str:
    name, kind = member
    return f"{_quoted(name)}: {kind.declaration()}{'' if kind.nullable else ' NOT NULL'}"


def _required(kind: DataType) -> str:
    return f"{kind.declaration()}{'' if kind.nullable else ' NOT NULL'}"


def from_sqlglot(node: exp.DataType | None) -> DataType:
    """Converts a sqlglot type, parsed or inferred; UNKNOWN if there is no corresponding type."""
    if node is None:
        return UNKNOWN
    if getattr(node.this, "key", None) == "interval":  # a node in place of a name
        return _interval(node.this)
    kind = node.this.name
    if kind == "USERDEFINED":
        kind = _SYNONYMS.get(str(node.args.get("kind")).upper(), kind)
    if kind in _SIMPLE:
        return DataType(_SIMPLE[kind])
    inner = node.expressions
    if kind == "DECIMAL":
        numbers = [int(e.name) for e in inner]
        precision = numbers[0] if numbers else 10
        return DataType("DECIMAL", (precision, numbers[1] if len(numbers) > 1 else 0))
    if kind in ("ARRAY", "LIST"):
        return DataType("ARRAY", (_element(inner, 0),))
    if kind == "MAP":
        return DataType("MAP", (_element(inner, 0), _element(inner, 1)))
    if kind == "STRUCT":
        return DataType("STRUCT", tuple((e.name, _field(e)) for e in inner))
    return UNKNOWN


def _field(definition: exp.Expr) -> DataType:
    kind = from_sqlglot(definition.args.get("kind"))
    constraints = [c.args.get("kind") for c in definition.args.get("constraints") or ()]
    required = any(
        c is not None and c.key == "notnullcolumnconstraint" and not c.args.get("allow_null") for c in constraints
    )
    return replace(kind, nullable=False) if required else kind


def _element(inner: list[exp.DataType], index: int) -> DataType:
    if index >= len(inner):
        return UNKNOWN
    kind = from_sqlglot(inner[index])
    return replace(kind, nullable=False) if inner[index].args.get("nullable") is False else kind


def _interval(node: exp.Interval) -> DataType:
    units = {v.name.upper() for v in node.walk() if v.key == "var"}
    return INTERVAL_OF_MONTHS if units & {"YEAR", "MONTH"} else INTERVAL


def parse_type(text: str) -> DataType:
    """Parses a type in Spark's DDL syntax or ``simpleString`` (``decimal(10,2)``, ``array<int>``). Raises BindError
    SS280 if it is invalid.
    """
    import sqlglot  # as in to_sqlglot

    spelled = _SYNONYM.sub(lambda word: _SYNONYMS[word[0].upper()], text)
    level = sqlglot.ErrorLevel.RAISE
    try:
        kind = from_sqlglot(sqlglot.parse_one(spelled, dialect="spark", into=sqlglot.exp.DataType, error_level=level))
    except sqlglot.errors.SqlglotError:
        kind = UNKNOWN
    if kind.defect is not None:
        hint = "Types are Spark's: BIGINT, DECIMAL(10, 2), STRING, TIMESTAMP, ARRAY<INT>, STRUCT<a: INT> and so on."
        raise BindError(NO_SUCH_TYPE, f'type "{text}" {kind.defect}', hint=hint)
    return kind


# Types that sqlglot's Spark dialect does not know, where no name of a field is meant.
_SYNONYMS = {"VOID": "NULL", "BYTES": "BINARY"}
_SYNONYM = re.compile(r"\b(?:void|bytes)\b(?!\s*[:`])", re.IGNORECASE)


# --- Spark and Arrow ------------------------------------------------------------------------------------------


_SPARK_NAMES = {"byte": "TINYINT", "short": "SMALLINT", "integer": "INT", "long": "BIGINT"}


def from_spark(json_value: Any) -> DataType:
    """Converts a PySpark type, given as its ``jsonValue()``, because ``simpleString`` would lose quotes of field
    names.
    """
    if isinstance(json_value, str):
        return parse_type(_SPARK_NAMES.get(json_value, json_value).split(" collate ")[0])
    match json_value["type"]:
        case "array":
            return DataType("ARRAY", (from_spark(json_value["elementType"]),))
        case "map":
            return DataType("MAP", (from_spark(json_value["keyType"]), from_spark(json_value["valueType"])))
        case "struct":
            return DataType("STRUCT", tuple((f["name"], from_spark(f["type"])) for f in json_value["fields"]))
        case "udt":
            return from_spark(json_value["sqlType"])
    raise TypeError(json_value)


def from_arrow(type_: pa.DataType) -> DataType:
    """Converts an Arrow type; UNKNOWN where Spark has no corresponding type."""
    import pyarrow.types as kinds  # as in to_arrow

    if kinds.is_decimal(type_):
        return DataType("DECIMAL", (type_.precision, type_.scale))
    if kinds.is_list(type_) or kinds.is_large_list(type_):
        return DataType("ARRAY", (from_arrow(type_.value_type),))
    if kinds.is_map(type_):
        return DataType("MAP", (from_arrow(type_.key_type), from_arrow(type_.item_type)))
    if kinds.is_struct(type_):
        return DataType("STRUCT", tuple((f.name, from_arrow(f.type)) for f in type_))
    if kinds.is_timestamp(type_):
        return DataType("TIMESTAMP_NTZ") if type_.tz is None else TIMESTAMP
    if kinds.is_duration(type_):
        return INTERVAL
    return DataType(_FROM_ARROW.get(str(type_), "UNKNOWN"))


_FROM_ARROW = {alias: name for name, alias in _ARROW.items()} | {
    "float": "FLOAT",
    "double": "DOUBLE",
    "date32[day]": "DATE",
    "large_string": "STRING",
    "large_binary": "BINARY",
}
