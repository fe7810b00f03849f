"""Values and rows in tests: conversion to and from Arrow, changelogs, and the text of golden files.

Times are milliseconds since the epoch, ``datetime`` (without a zone: UTC) or text (``00:00:10`` is on 1970-01-01).
Output rows have plain Python values: TIMESTAMP as ``datetime`` without a zone, in UTC; DECIMAL as ``Decimal``; ARRAY as
list, MAP as dict, STRUCT as dict by field.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from sqlstream.types import DataType
from sqlstream.udfs.kernel import ROW_KIND
from sqlstream.udfs.texts import python_list

if TYPE_CHECKING:
    import pyarrow as pa

Time = int | str | datetime

_EPOCH = datetime(1970, 1, 1)


def to_ms(time: Time) -> int:
    """A time, in any form that ``watermark`` and ``processing_time`` accept, in milliseconds since 1970."""
    if isinstance(time, int):
        return time
    return int(since_epoch(time) / timedelta(milliseconds=1))


def since_epoch(time: Time) -> timedelta:
    """The time since 1970 as a ``timedelta``, exact to the microsecond; an integer is in milliseconds, and a time
    without time zone is in UTC.
    """
    if isinstance(time, bool) or not isinstance(time, int | str | datetime):
        raise TypeError(f"a time is milliseconds, a datetime or a text, not {time!r}")
    if isinstance(time, int):
        return timedelta(milliseconds=time)
    moment = _moment(time) if isinstance(time, str) else time
    return (moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment) - _EPOCH


def _moment(text: str) -> datetime:
    on_first_day = text[2:3] == ":"
    return datetime.fromisoformat(f"1970-01-01 {text}" if on_first_day else text)


def to_arrow(value: Any, kind: DataType) -> Any:
    """The ``value`` in the form that ``pyarrow.array`` accepts for ``kind.to_arrow()``; TypeError or ValueError if
    it does not fit.
    """
    if value is None:
        return None
    convert = _CONVERTERS.get(kind.name)
    if convert is None:
        raise TypeError(f"tests cannot write values of type {kind}")
    return convert(value, kind)


def _integer(value: Any, kind: DataType) -> int:
    if isinstance(value, bool) or int(value) != value:
        raise TypeError(f"{value!r} is not a value of type {kind}")
    return int(value)


def _boolean(value: Any, kind: DataType) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is not a value of type {kind}")
    return value


def _string(value: Any, kind: DataType) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a value of type {kind}")
    return value


def _binary(value: Any, kind: DataType) -> bytes:
    return value if isinstance(value, bytes) else bytes.fromhex(_string(value, kind))


def _decimal(value: Any, kind: DataType) -> Decimal:
    precision, scale = kind.args
    assert isinstance(precision, int) and isinstance(scale, int)
    try:
        number = Decimal(str(value)).quantize(Decimal(1).scaleb(-scale), context=Context(prec=precision))
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite():
        raise TypeError(f"{value!r} is not a value of type {kind}")
    return number


def _date(value: Any, kind: DataType) -> date:
    return value if isinstance(value, date) else date.fromisoformat(_string(value, kind))


def _timestamp(value: Any, kind: DataType) -> int:
    """Microseconds since the epoch, which no year limits."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value * 1000
    return since_epoch(value) // timedelta(microseconds=1)


def _array(value: Any, kind: DataType) -> list[Any]:
    return [to_arrow(v, _argument(kind, 0)) for v in value]


def _map(value: Any, kind: DataType) -> list[tuple[Any, Any]]:
    pairs = value.items() if isinstance(value, Mapping) else value
    return [(to_arrow(k, _argument(kind, 0)), to_arrow(v, _argument(kind, 1))) for k, v in pairs]


def _struct(value: Any, kind: DataType) -> dict[str, Any]:
    members = members_of(kind)
    values = [value[name] for name, _ in members] if isinstance(value, Mapping) else list(value)
    return {name: to_arrow(v, t) for (name, t), v in zip(members, values, strict=True)}


_CONVERTERS: dict[str, Callable[[Any, DataType], Any]] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT"), _integer),
    **dict.fromkeys(("FLOAT", "DOUBLE"), lambda value, kind: float(value)),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_NTZ"), _timestamp),
    "BOOLEAN": _boolean,
    "STRING": _string,
    "BINARY": _binary,
    "DECIMAL": _decimal,
    "DATE": _date,
    "ARRAY": _array,
    "MAP": _map,
    "STRUCT": _struct,
}


def _argument(kind: DataType, index: int) -> DataType:
    argument = kind.args[index]
    assert isinstance(argument, DataType)
    return argument


def element_of(kind: DataType) -> DataType:
    """The type of an ARRAY's elements."""
    return _argument(kind, 0)


def entry_of(kind: DataType) -> tuple[DataType, DataType]:
    """A pair: the type of a MAP's keys and the type of its values."""
    return _argument(kind, 0), _argument(kind, 1)


def members_of(kind: DataType) -> list[tuple[str, DataType]]:
    """The fields of a STRUCT type, as pairs of name and type."""
    return [member for member in kind.args if isinstance(member, tuple)]


def from_arrow(value: Any, kind: DataType) -> Any:
    """Converts a value of type ``kind`` that ``to_pylist`` of pyarrow returned into the form that tests compare:
    TIMESTAMP in UTC without a time zone, MAP and STRUCT as dictionaries.
    """
    if value is None:
        return None
    match kind.name:
        case "TIMESTAMP":
            return value.astimezone(UTC).replace(tzinfo=None)
        case "ARRAY":
            return [from_arrow(v, element_of(kind)) for v in value]
        case "MAP":
            pairs: Sequence[tuple[Any, Any]] = value
            key, entry = entry_of(kind)
            return {from_arrow(k, key): from_arrow(v, entry) for k, v in pairs}
        case "STRUCT":
            return {name: from_arrow(value[name], t) for name, t in members_of(kind)}
        case _:
            return value


# --- Changelogs ------------------------------------------------------------------------------------------------


Change = tuple[Any, ...]
"""A row kind (``+I``, ``-U``, ``+U``, ``-D``) followed by the values of the row."""

Row = tuple[Any, ...]

KINDS = ("+I", "-U", "+U", "-D")
_ADDS = ("+I", "+U")


def changes_of(rows: pa.Table, types: Sequence[DataType]) -> list[Change]:
    """The rows of a micro-batch as tuples: first the kind (+I where the table has no kinds), then the values, as tests
    compare them.

    ExecutionError SS469 for times that Python's datetime does not support.
    """
    kinds = ["+I"] * rows.num_rows
    if ROW_KIND in rows.column_names:
        kinds = rows.column(ROW_KIND).to_pylist()
        rows = rows.drop_columns([ROW_KIND])
    columns = [
        [from_arrow(v, type_) for v in python_list(column, f'a value of column "{name}"')]
        for name, column, type_ in zip(rows.column_names, rows.columns, types, strict=True)
    ]
    return list(zip(kinds, *columns, strict=True))


def merge(changes: Iterable[Change], key: Sequence[int] | None = None) -> list[Row]:
    """The rows that remain when all changes are applied in order, oldest first.

    ``key`` are the positions of the key's columns: a row replaces the one with its key. Without a key, equal rows
    are counted, and a retraction removes one of them; ValueError where there is none.
    """
    return _counted(changes) if key is None else list(_keyed(changes, key).values())


def _counted(changes: Iterable[Change]) -> list[Row]:
    rows: list[Row] = []
    for kind, *values in changes:
        if kind in _ADDS:
            rows.append(tuple(values))
        elif tuple(values) in rows:
            rows.remove(tuple(values))
        else:
            raise ValueError(f"{kind} {tuple(values)} withdraws a row that is not there")
    return rows


def _keyed(changes: Iterable[Change], key: Sequence[int]) -> dict[tuple[str, ...], Row]:
    rows: dict[tuple[str, ...], Row] = {}
    for kind, *values in changes:
        name = tuple(repr(values[i]) for i in key)  # arrays and structs are keys too, but not hashable
        if kind in _ADDS:
            rows[name] = tuple(values)
        else:
            rows.pop(name, None)
    return rows


# --- Text: how golden files spell rows, and how they are read back ---------------------------------------------
# Columns are separated by two or more spaces. A value is spelled without quotes where that is unambiguous, else as a
# JSON string; times on 1970-01-01 lose their date. ``read(spell(value, type), type) == value`` for every type.


_BARE = re.compile(r"[^\s\"\\,:()\[\]{}<>|#]+")
_FIRST_DAY = date(1970, 1, 1)


# --- spelling -------------------------------------------------------------------------------------------------


def spell_row(values: Sequence[Any], types: Sequence[DataType]) -> str:
    """A row as golden files write it: its values separated by two spaces."""
    return "  ".join(spell(v, t) for v, t in zip(values, types, strict=True))


def spell(value: Any, kind: DataType) -> str:
    """A value, as ``from_arrow`` returns it, as golden files write it."""
    if value is None:
        return "NULL"
    match kind.name:
        case "TIMESTAMP" | "TIMESTAMP_NTZ":
            return _spell_time(value)
        case "ARRAY":
            return f"[{', '.join(spell(v, element_of(kind)) for v in value)}]"
        case "MAP":
            key, entry = entry_of(kind)
            return "{" + ", ".join(f"{spell(k, key)}: {spell(v, entry)}" for k, v in value.items()) + "}"
        case "STRUCT":
            return "(" + ", ".join(f"{name}: {spell(value[name], t)}" for name, t in members_of(kind)) + ")"
        case _:
            return _spell_simple(value)


def _spell_simple(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value if _BARE.fullmatch(value) and value != "NULL" else json.dumps(value, ensure_ascii=False)
        case bytes():
            return f"0x{value.hex()}"
        case Decimal():
            return f"{value:f}"
        case float():
            return repr(value)
        case timedelta():
            return f"{value / timedelta(milliseconds=1):g}ms"
        case _:
            return str(value)


def _spell_time(moment: datetime) -> str:
    fraction = f".{moment.microsecond:06d}".rstrip("0").rstrip(".") if moment.microsecond else ""
    time = moment.strftime("%H:%M:%S") + fraction
    return time if moment.date() == _FIRST_DAY else f"{moment.date().isoformat()} {time}"


# --- reading --------------------------------------------------------------------------------------------------


def read_row(line: str, types: Sequence[DataType]) -> tuple[Any, ...]:
    """The values of a row from a line of a golden file. ValueError for a wrong number of values, or one that does not
    have its type.
    """
    return _read_columns(columns_of(line), types)


def read_rows(line: str, types: Sequence[DataType]) -> list[tuple[Any, ...]]:
    """The rows in one line of a golden file, which are separated by a column ``|``."""
    rows: list[list[str]] = [[]]
    for text in columns_of(line):
        if text == "|":
            rows.append([])
        else:
            rows[-1].append(text)
    return [_read_columns(row, types) for row in rows]


def _read_columns(texts: Sequence[str], types: Sequence[DataType]) -> tuple[Any, ...]:
    if len(texts) != len(types):
        raise ValueError(f"{len(types)} columns expected, separated by two or more spaces, and {len(texts)} found")
    return tuple(read(text, kind) for text, kind in zip(texts, types, strict=True))


def columns_of(line: str) -> list[str]:
    """The texts of a line's columns; spaces within quotes and brackets do not separate columns."""
    columns, start, depth = [], 0, 0
    for token in re.finditer(r'"(?:[^"\\]|\\.)*"|[\[({]|[\])}]|\s{2,}|.', line.strip()):
        text = token.group()
        depth += (text in "[({") - (text in "])}") if len(text) == 1 else 0
        if text.isspace() and len(text) > 1 and depth == 0:
            columns.append(token.string[start : token.start()])
            start = token.end()
    rest = line.strip()[start:]
    return [*columns, rest] if rest else columns


def read(text: str, kind: DataType) -> Any:
    """The value that a text of a golden file stands for, in the form that ``to_arrow`` accepts."""
    if text == "NULL":
        return None
    match kind.name:
        case "TIMESTAMP" | "TIMESTAMP_NTZ":
            return datetime.fromisoformat(f"1970-01-01 {text}" if text[2:3] == ":" else text)
        case "ARRAY":
            return [read(item, element_of(kind)) for item in _items(text, "[]")]
        case "MAP":
            key, entry = entry_of(kind)
            return {read(k, key): read(v, entry) for k, v in map(_pair, _items(text, "{}"))}
        case "STRUCT":
            given = [_pair(item)[1] for item in _items(text, "()")]
            return {name: read(v, t) for v, (name, t) in zip(given, members_of(kind), strict=True)}
        case _:
            return _read_simple(text, kind)


def _read_simple(text: str, kind: DataType) -> Any:
    match kind.name:
        case "STRING":
            return json.loads(text) if text.startswith('"') else text
        case "BOOLEAN":
            return {"true": True, "false": False}[text]
        case "FLOAT" | "DOUBLE":
            return float(text)
        case "DECIMAL":
            return Decimal(text)
        case "DATE":
            return date.fromisoformat(text)
        case "BINARY":
            return bytes.fromhex(text.removeprefix("0x"))
        case "INTERVAL":
            return timedelta(milliseconds=float(text.removesuffix("ms")))
        case _:
            return int(text)


def _items(text: str, brackets: str) -> list[str]:
    if text[:1] != brackets[0] or text[-1:] != brackets[1]:
        raise ValueError(f"{text!r} is not in {brackets}")
    return list(_split(text[1:-1], ","))


def _pair(text: str) -> tuple[str, str]:
    # A time holds colons of its own, but never one before a space.
    key, value = _split(text, ": ")
    return key, value


def _split(text: str, separator: str) -> Iterator[str]:
    """The parts between separators that stand outside quotes and brackets."""
    start, depth = 0, 0
    for token in re.finditer(r'"(?:[^"\\]|\\.)*"|[\[({]|[\])}]|' + separator + "|.", text):
        token_text = token.group()
        depth += (token_text in ("[", "(", "{")) - (token_text in ("]", ")", "}"))
        if token_text == separator and depth == 0:
            yield text[start : token.start()].strip()
            start = token.end()
    if text[start:].strip():
        yield text[start:].strip()
