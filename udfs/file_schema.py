"""Compares the columns of Parquet and ORC files with the declared columns of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as kinds

from sqlstream.errors import ConnectorError, Diagnostic, ExecutionError, SqlStreamError
from sqlstream.types import from_arrow

MISSING_COLUMN = "SS524"
OTHER_TYPE = "SS467"

_NULLS = "With '{format}.missing-columns' = 'null' in its WITH, a column that a file lacks is NULL."


@dataclass(frozen=True)
class Mismatch:
    """A column of a table, or a field within one (``place.city``), that differs in a file.

    ``found`` is its type in the file, None if the file has no such column; ``names`` are the columns of the file.
    """

    column: str
    declared: pa.DataType
    found: pa.DataType | None
    names: tuple[str, ...] = ()

    def diagnostic(self, file: str, suggestion: str = "", format: str = "parquet") -> Diagnostic:  # noqa: A002
        """SS524 or SS467, with the file and both types. ``suggestion`` is what the caller knows of a missing name."""
        if self.found is None:
            columns_hint = suggestion or f"Columns: {', '.join(sorted(self.names))}."
            message = f'file "{file}" has no column "{self.column}"'
            return Diagnostic(MISSING_COLUMN, message, hint=f"{columns_hint} {_NULLS.format(format=format)}")
        type_in_file = type_name(self.found)
        message = f'column "{self.column}" is {type_in_file} in file "{file}", not {type_name(self.declared)}'
        return Diagnostic(OTHER_TYPE, message, hint="Give the column the type that it has in its files.")

    def error(self, file: str) -> SqlStreamError:
        """The ``diagnostic`` as an exception."""
        diagnostic = self.diagnostic(file)
        kind = ConnectorError if self.found is None else ExecutionError
        return kind(diagnostic.code, diagnostic.message, hint=diagnostic.hint)


def require_columns(path: str, wanted: Mapping[str, pa.DataType]) -> None:
    """SS524 where a Parquet file lacks a column, SS467 where it is of another type."""
    with suppress(pa.ArrowException, OSError):  # what cannot be read is for the reader to say
        schema = pq.read_schema(path)
        for mismatch in mismatches(dict(zip(schema.names, schema.types, strict=True)), wanted, nulls=False):
            raise mismatch.error(path)


def mismatches(
    there: Mapping[str, pa.DataType], wanted: Mapping[str, pa.DataType], *, nulls: bool, within: str = ""
) -> Iterator[Mismatch]:
    """The differences between the columns ``there`` in a file and the ``wanted`` ones, with names compared without
    regard to case, as in Spark.

    ``nulls``: a missing column is NULL, not a difference. ``within``: the path of the enclosing column, ending with a
    dot.
    """
    by_name = {name.casefold(): kind for name, kind in reversed([*there.items()])}
    for name, kind in wanted.items():
        type_in_file = by_name.get(name.casefold())
        if type_in_file is None:
            if not nulls:
                yield Mismatch(f"{within}{name}", kind, None, tuple(there))
        elif kinds.is_struct(type_in_file) and kinds.is_struct(kind):
            yield from mismatches(_fields(type_in_file), _fields(kind), nulls=nulls, within=f"{within}{name}.")
        elif not _readable(type_in_file, kind):
            yield Mismatch(f"{within}{name}", kind, type_in_file)


def type_name(kind: pa.DataType) -> str:
    """The type as SQL spells it; Arrow's name for types that SQL does not have, such as ``uint32``."""
    plain = kind.value_type if kinds.is_dictionary(kind) else kind
    sql_type = from_arrow(plain)
    return str(kind) if any(member.is_unknown for member in sql_type.parts()) else str(sql_type)


def _fields(struct: pa.StructType) -> dict[str, pa.DataType]:
    return {field.name: field.type for field in struct}


def is_text(kind: pa.DataType) -> bool:
    """True for texts and bytes, which Parquet may leave open."""
    return any(is_one(kind) for is_one in (kinds.is_string, kinds.is_large_string, kinds.is_string_view,
                                           kinds.is_binary, kinds.is_large_binary))  # fmt: skip


def _readable(in_file: pa.DataType, wanted: pa.DataType) -> bool:
    """False where no reader converts values of the first type to the second.

    Spark's reader and that of the exchange differ, for instance in nanoseconds; each reports itself what it does not
    support.
    """
    if kinds.is_null(in_file):
        return True
    if kinds.is_dictionary(in_file):
        in_file = in_file.value_type
    if kinds.is_nested(in_file) or kinds.is_nested(wanted):
        return _readable_nested(in_file, wanted)
    return any(is_found(in_file) and is_wanted(wanted) for is_found, is_wanted in _READABLE)


def _readable_nested(in_file: pa.DataType, wanted: pa.DataType) -> bool:
    if kinds.is_map(in_file) and kinds.is_map(wanted):
        return _readable(in_file.key_type, wanted.key_type) and _readable(in_file.item_type, wanted.item_type)
    if _is_list(in_file) and _is_list(wanted):
        return _readable(in_file.value_type, wanted.value_type)
    if kinds.is_struct(in_file) and kinds.is_struct(wanted):
        return not [*mismatches(_fields(in_file), _fields(wanted), nulls=True)]
    return False


def _is_list(kind: pa.DataType) -> bool:
    return any(is_one(kind) for is_one in (kinds.is_list, kinds.is_large_list, kinds.is_fixed_size_list))


def _is_small(kind: pa.DataType) -> bool:
    """True for whole numbers that Parquet stores in 32 bits."""
    return bool(kinds.is_integer(kind) and kind.bit_width <= 32)


def _is_whole(digits: int) -> Callable[[pa.DataType], bool]:
    """True for decimals with room for so many digits before the point."""
    return lambda kind: bool(kinds.is_decimal(kind) and kind.precision - kind.scale >= digits)


def _is_clock(kind: pa.DataType) -> bool:
    """True for timestamps without time zone."""
    return bool(kinds.is_timestamp(kind) and kind.tz is None)


_READABLE: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], bool]], ...] = (
    (kinds.is_boolean, kinds.is_boolean),
    (_is_small, lambda kind: kinds.is_integer(kind) or kinds.is_float64(kind) or kinds.is_date(kind)),
    (_is_small, _is_whole(10)),
    (kinds.is_integer, lambda kind: kinds.is_int64(kind) or kinds.is_duration(kind)),
    (kinds.is_integer, _is_whole(20)),
    (lambda kind: kinds.is_floating(kind) and not kinds.is_float64(kind), kinds.is_floating),
    (kinds.is_float64, kinds.is_float64),
    (kinds.is_decimal, lambda kind: kinds.is_decimal(kind) or kinds.is_binary(kind)),
    (is_text, is_text),
    (kinds.is_fixed_size_binary, is_text),
    (kinds.is_timestamp, lambda kind: kinds.is_timestamp(kind) or kinds.is_int64(kind)),
    (kinds.is_date, lambda kind: kinds.is_date(kind) or _is_clock(kind)),
    (kinds.is_time, kinds.is_time),
    (
        lambda kind: kinds.is_date(kind) or kinds.is_time(kind),
        lambda kind: kinds.is_integer(kind) or kinds.is_float64(kind),
    ),
    (kinds.is_duration, lambda kind: kinds.is_duration(kind) or kinds.is_int64(kind)),
)
"""Types in files and declared ones, such that one reader at least takes the first for the second."""
