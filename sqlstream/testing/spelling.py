"""Rows as one line of text: how golden files spell values, and how they read them back.

Columns are separated by two or more spaces. A value is spelled without quotes where that is unambiguous, else as a
JSON string; times on 1970-01-01 lose their date. ``read(spell(value, type), type) == value`` for every type.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from sqlstream.testing.values import element_of, entry_of, members_of
from sqlstream.types import DataType

_BARE = re.compile(r"[^\s\"\\,:()\[\]{}<>|#]+")
_FIRST_DAY = date(1970, 1, 1)


# --- spelling -------------------------------------------------------------------------------------------------


def spell_row(values: Sequence[Any], types: Sequence[DataType]) -> str:
    return "  ".join(spell(v, t) for v, t in zip(values, types, strict=True))


def spell(value: Any, kind: DataType) -> str:
    """The text of a value as ``values.from_arrow`` returns it."""
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
    """The values of a line; ValueError where it does not have one per type, or one is no value of its type."""
    return _read_columns(columns_of(line), types)


def read_rows(line: str, types: Sequence[DataType]) -> list[tuple[Any, ...]]:
    """The rows of a line, with a column ``|`` between one and the next."""
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
    """The texts of a line's columns; spaces within quotes and brackets separate nothing."""
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
    """The value that ``text`` spells, as ``values.to_arrow`` takes it."""
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
