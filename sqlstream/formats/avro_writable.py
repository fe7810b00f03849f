"""Which columns can be written as which types of a schema of Avro that is given, and not made of the columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.types as kinds

from sqlstream.formats.avro_schema import Schema
from sqlstream.formats.columnar import is_list


def branch_of(schema: Schema, declared: pa.DataType) -> int | None:
    """Returns the number of the branch of a union that columns of a type are written as; None where there is none."""
    return next(
        (n for n, branch in enumerate(schema.inner) if branch.kind != "null" and writes(branch, declared)), None
    )


def writes(schema: Schema, declared: pa.DataType) -> bool:
    """True where columns of the declared type are written as the type of the schema."""
    return next(unwritten(schema, declared, ""), None) is None


def unwritten(schema: Schema, declared: pa.DataType, path: str) -> Iterator[tuple[str, pa.DataType, str]]:
    """Yields what cannot be written as a type: the path of the column or field, its type, and Avro's."""
    match schema.kind:
        case "union":
            if not kinds.is_null(declared) and branch_of(schema, declared) is None:
                some = [branch for branch in schema.inner if branch.kind != "null"]
                yield from unwritten(some[0], declared, path) if len(some) == 1 else ((path, declared, "union"),)
        case "record" if kinds.is_struct(declared):
            yield from unwritten_fields(schema, [*declared], f"{path}.")
        case "array" if is_list(declared):
            yield from unwritten(schema.inner[0], declared.value_type, path)
        case "map" if kinds.is_map(declared) and kinds.is_string(declared.key_type):
            yield from unwritten(schema.inner[0], declared.item_type, path)
        case _:
            if not any(is_one(declared) for is_one in _WRITES.get((schema.kind, logical_type(schema)), ())):
                yield path, declared, schema.logical or schema.kind


def unwritten_fields(
    schema: Schema, declared: Sequence[pa.Field], within: str = ""
) -> Iterator[tuple[str, pa.DataType | None, str]]:
    """Yields ``unwritten`` of the columns of a record; without a type for a field that has neither column nor default,
    and with the type of Avro ``nothing`` for columns without a field.
    """
    columns = {field.name: field.type for field in declared}
    folded = {name.casefold(): name for name in columns}
    written = set()
    for member in schema.members:
        name = member.name if member.name in columns else folded.get(member.name.casefold())
        if name is not None:
            written.add(name)
            yield from unwritten(member.type, columns[name], f"{within}{name}")
        elif not member.has_default:
            yield f"{within}{member.name}", None, member.type.kind
    for name in (name for name in columns if name not in written):
        yield f"{within}{name}", columns[name], "nothing"


def logical_type(schema: Schema) -> str:
    """Returns the logical type that values are written by; an empty text without one that counts."""
    if schema.is_decimal and schema.kind in ("bytes", "fixed"):
        return "decimal"
    logical = schema.logical or ""
    if schema.kind == "fixed":
        return logical if logical == "uuid" and schema.size == _UUID else ""
    return logical if (schema.kind, logical) in _WRITES else ""


def _is_clock(kind: pa.DataType) -> bool:
    return bool(kinds.is_timestamp(kind) and kind.tz is None)


def _is_instant(kind: pa.DataType) -> bool:
    return bool(kinds.is_timestamp(kind) and kind.tz is not None)


_UUID = 16
_INSTANTS = {("long", f"timestamp-{unit}"): (kinds.is_timestamp,) for unit in ("millis", "micros", "nanos")}
_CLOCKS = {("long", f"local-timestamp-{unit}"): (_is_clock,) for unit in ("millis", "micros", "nanos")}
_WRITES: Mapping[tuple[str, str], tuple[Callable[[pa.DataType], bool], ...]] = {
    ("null", ""): (kinds.is_null,),
    ("boolean", ""): (kinds.is_boolean,),
    ("int", ""): (kinds.is_int8, kinds.is_int16, kinds.is_int32),
    ("long", ""): (kinds.is_integer,),
    ("float", ""): (kinds.is_float32,),
    ("double", ""): (kinds.is_floating, kinds.is_int8, kinds.is_int16, kinds.is_int32),
    ("bytes", ""): (kinds.is_binary, kinds.is_string),
    ("string", ""): (kinds.is_string,),
    ("enum", ""): (kinds.is_string,),
    ("fixed", ""): (kinds.is_binary,),
    ("fixed", "uuid"): (kinds.is_string,),
    ("int", "date"): (kinds.is_date,),
    ("int", "time-millis"): (kinds.is_time,),
    ("long", "time-micros"): (kinds.is_time,),
    ("bytes", "decimal"): (kinds.is_decimal,),
    ("fixed", "decimal"): (kinds.is_decimal,),
    **_INSTANTS,
    **_CLOCKS,
}
"""Which types of columns are written as which type of Avro, by kind and logical type."""
