"""Conversion between JSON and values of columns, in single documents such as answers of servers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime
from decimal import Context, Decimal
from functools import cached_property
from typing import Any, cast
from zoneinfo import ZoneInfo

import pyarrow as pa

from sqlstream.formats.debezium import LogicalRule
from sqlstream.formats.decoder import Field
from sqlstream.formats.json import JsonDecoder
from sqlstream.formats.json_records import Value, parse_value, quoted
from sqlstream.formats.values import text_rule
from sqlstream.types import STRING, DataType
from sqlstream.udfs.lookup.sources.json_paths import JsonPath, content_of
from sqlstream.udfs.lookup.sources.scalars import SCALARS, from_text, shown, to_text
from sqlstream.udfs.texts import is_text

_BARE = frozenset({"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"})

_BY_TEXT = frozenset({"DECIMAL", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_NTZ"})

_UNIT = "ms"
"""What numbers for TIMESTAMP count since 1970: servers write them so."""


def _whole(digits: str) -> int | Decimal:
    """A whole number; -0, which int does not have, is left to a closer look."""
    return int(digits) if digits != "-0" else Decimal(digits)


_DECODER = json.JSONDecoder(parse_float=Decimal, parse_int=_whole)
"""Shared, because creating one takes longer than reading a short document."""


class Misfit(ValueError):
    """Raised for a value that does not fit its column. ``node``: the index of its node; the message is the reason."""

    def __init__(self, node: int, reason: str) -> None:
        super().__init__(reason)
        self.node = node


class JsonDocument:
    """A JSON text, whose values are read as the format ``json`` reads them (docs/formats.md).

    Python's parser takes a fraction of the time of the decoder, and most values are the same in both. Others, and
    documents that Python refuses, are read by the decoder from the text as it stands. ValueError if it is no JSON.
    """

    def __init__(self, text: str) -> None:
        self._text, self.is_plain = text, True
        try:
            self.document: object = _DECODER.decode(text)
        except (ValueError, RecursionError):  # also numbers that are longer than Python reads
            self.document, self.is_plain = self.exact, False

    @cached_property
    def exact(self) -> Value:
        """The document with the text of each value."""
        return parse_value(self._text)

    def root(self) -> JsonNodes:
        """The document as the only node."""
        return JsonNodes(self, lambda document: [document])

    def rows(self, path: JsonPath) -> JsonNodes:
        """The nodes at a path, or the elements of an array that is there; null is none."""
        return JsonNodes(self, lambda document: _rows(path, document))


class JsonNodes:
    """Values of a document, such as the objects of rows. ``find``: finds them in either form of the document."""

    def __init__(
        self, document: JsonDocument, find: Callable[[object], list[object]], chosen: Sequence[int] | None = None
    ) -> None:
        self._document, self._find, self._chosen = document, find, chosen

    def select(self, chosen: Sequence[int]) -> JsonNodes:
        """Those of the given indices."""
        own = self._chosen
        return JsonNodes(self._document, self._find, chosen if own is None else [own[n] for n in chosen])

    @cached_property
    def nodes(self) -> list[object]:
        """The nodes as Python's parser gives them, or the decoder's."""
        return self._of(self._document.document)

    def _of(self, document: object) -> list[object]:
        found = self._find(document)
        return found if self._chosen is None else [found[n] for n in self._chosen]

    def __len__(self) -> int:
        return len(self.nodes)

    def has(self, node: int, path: JsonPath) -> bool:
        """True where the path leads to a value that is not null."""
        return not _is_null(path.value(self.nodes[node]))

    def column(self, path: JsonPath, name: str, kind: DataType, zone: str) -> list[Any]:
        """The value at the path in each node, in the form that ``pyarrow.array`` accepts; missing ones are None.

        ``zone``: the zone of timestamps without an offset. Misfit where a value does not fit.
        """
        if self._document.is_plain:
            values = _fast([path.value(node) for node in self.nodes], kind, zone)
            if values is not None:
                return values
        texts = [_text(path.value(node)) for node in self._of(self._document.exact)]
        decoder = JsonDecoder((Field(name, _with_text_keys(kind)),), zone=zone, unit=_UNIT)
        records = [f"{{{quoted(name)}:{text}}}".encode() for text in texts]
        decoded = decoder.messages(pa.array(records, pa.binary()))
        if decoded.faults:
            raise Misfit(decoded.faults[0].record, decoded.faults[0].reason)
        values = []
        for number, value in enumerate(decoded.rows.column(0)):
            try:
                values.append(_with_keys(value.as_py(), kind, zone))
            except (OverflowError, ValueError) as error:  # a time beyond the years of Python, a key of another type
                text = shown(texts[number].removeprefix('"').removesuffix('"'))
                raise Misfit(number, f'column "{name}" of type {kind} is {text}: {error}') from None
        return values


def _rows(path: JsonPath, document: object) -> list[object]:
    objects = path.found(document)
    if not path.many and len(objects) == 1 and isinstance(content_of(objects[0]), list):
        objects = cast(list[object], content_of(objects[0]))
    return [row for row in objects if not _is_null(row)]


def _is_null(value: object) -> bool:
    return value is None or (isinstance(value, Value) and value.raw == "null")


def _text(value: object) -> str:
    """A value as it stands in the document; the list of all values that a path with ``*`` selects as an array."""
    if isinstance(value, list):
        return f"[{','.join(map(_text, value))}]"
    return value.raw if isinstance(value, Value) else "null"


def is_object(node: object) -> bool:
    """True for objects and arrays, in which paths lead on."""
    return isinstance(content_of(node), dict | list)


def read_text(text: str, name: str, kind: DataType, zone: str) -> Any:
    """The value of a JSON text that is a whole document. ValueError says what does not fit."""
    try:
        document = JsonDocument(text)
    except ValueError:
        raise ValueError(f"{shown(text)} is no JSON, which {kind} is read from") from None
    return document.root().column(JsonPath(), name, kind, zone)[0]


# --- values of which Python's parser gives the same as the decoder ---------------------------------------------------


def _fast(values: list[Any], kind: DataType, zone: str) -> list[Any] | None:
    """The values as values of the type; None where one needs a closer look."""
    given = [value for value in values if value is not None]
    if kind.name in ("ARRAY", "MAP", "STRUCT"):
        return _fast_nested(values, given, kind, zone)
    plain = _PLAIN.get(kind.name)
    if plain is not None:
        return values if all(map(plain, given)) else None
    if kind.name == "DOUBLE" and all(type(value) in (int, Decimal) for value in given):
        return [None if value is None else float(value) for value in values]
    simple = _SIMPLE.get(kind.name)
    if simple is not None:
        with suppress(_NotSimple, ValueError):
            return [None if value is None else simple(value, kind) for value in values]
    is_number = (int, Decimal) if kind.name == "DECIMAL" else (int,) if kind.is_timestamp else ()
    if kind.name not in _BY_TEXT or not all(type(v) in is_number or _is_plain_text(v) for v in given):
        return None
    return _from_texts([None if value is None else str(value) for value in values], kind, zone)


def _from_texts(texts: list[str | None], kind: DataType, zone: str) -> list[Any] | None:
    rule = LogicalRule(kind, _UNIT, zone) if kind.is_timestamp else text_rule(kind, zone)
    array, misfits = rule.read(pa.array(texts, pa.string()))
    try:
        return None if misfits.any() else array.to_pylist()
    except (OverflowError, ValueError):
        return None


def _fast_nested(values: list[Any], given: list[Any], kind: DataType, zone: str) -> list[Any] | None:
    if not all(type(value) is (list if kind.name == "ARRAY" else dict) for value in given):
        return None
    if kind.name == "STRUCT":
        members = kind.fields()
        columns = [_fast([None if v is None else v.get(n) for v in values], t, zone) for n, t in members]
        if None in columns:
            return None
        names = [name for name, _ in members]
        rows = zip(*cast(list[list[Any]], columns), strict=True) if columns else ((),) * len(values)
        return [None if v is None else dict(zip(names, row, strict=True)) for v, row in zip(values, rows, strict=True)]
    inner = [element for value in given for element in (value.values() if kind.name == "MAP" else value)]
    elements = _fast(inner, kind.inner[-1], zone)
    if elements is None:
        return None
    if kind.name == "MAP":
        keys = _fast([key for value in given for key in value], kind.inner[0], zone)
        if keys is None:
            return None
        elements = list(zip(keys, elements, strict=True))
    taken = iter(elements)
    return [None if value is None else [next(taken) for _ in value] for value in values]


class _NotSimple(Exception):
    """Raised for a value that a rule of texts must look at."""


_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3}|\.\d{6})?Z", re.ASCII)
_EXACT = Context(prec=38)


def _simple_date(value: object, kind: DataType) -> date:
    if type(value) is not str or not _DAY.fullmatch(value):
        raise _NotSimple
    return date.fromisoformat(value)


def _simple_instant(value: object, kind: DataType) -> datetime:
    if type(value) is not str or not _INSTANT.fullmatch(value):
        raise _NotSimple
    return datetime.fromisoformat(f"{value[:-1]}+00:00")


def _simple_decimal(value: object, kind: DataType) -> Decimal:
    """A number that need not be rounded."""
    precision, scale = cast(tuple[int, int], kind.args)
    if type(value) not in (int, Decimal) or abs(cast(Decimal, value)) >= 10 ** (precision - scale):
        raise _NotSimple
    number = Decimal(cast(Decimal, value))
    if not number.is_finite() or cast(int, number.as_tuple().exponent) < -scale:
        raise _NotSimple
    return number.quantize(Decimal(1).scaleb(-scale), context=_EXACT)


_SIMPLE: Mapping[str, Callable[[object, DataType], Any]] = {
    "DATE": _simple_date,
    "DECIMAL": _simple_decimal,
    "TIMESTAMP": _simple_instant,
}


def _is_plain_text(value: object) -> bool:
    return type(value) is str and is_text(value)


def _integer(bits: int) -> Callable[[object], bool]:
    bound = 1 << (bits - 1)
    return lambda value: type(value) is int and -bound <= value < bound


_PLAIN: Mapping[str, Callable[[object], bool]] = {
    "STRING": _is_plain_text,
    "BOOLEAN": lambda value: type(value) is bool,
    **{name: _integer(bits) for name, bits in (("TINYINT", 8), ("SMALLINT", 16), ("INT", 32), ("BIGINT", 64))},
}


# --- MAPs with keys of other types, which the decoder reads as texts -------------------------------------------------


def _with_text_keys(kind: DataType) -> DataType:
    changed = kind.with_inner(_with_text_keys)
    return replace(changed, args=(STRING, changed.inner[1])) if kind.name == "MAP" else changed


def _with_keys(value: Any, kind: DataType, zone: str) -> Any:
    if value is None or all(part.name != "MAP" or part.args[0] == STRING for part in kind.parts()):
        return value
    if kind.name == "ARRAY":
        return [_with_keys(element, kind.inner[0], zone) for element in value]
    if kind.name == "STRUCT":
        return {name: _with_keys(value[name], member, zone) for name, member in kind.fields()}
    keys = _from_texts([key for key, _ in value], kind.inner[0], zone)
    if keys is None:
        raise ValueError(f"a key is no {kind.args[0]}")
    return [(key, _with_keys(v, kind.inner[1], zone)) for key, (_, v) in zip(keys, value, strict=True)]


def has_json(kind: DataType) -> bool:
    """True where values of the type can be read from JSON and written to it."""
    if kind.name == "ARRAY":
        return all(isinstance(element, DataType) and has_json(element) for element in kind.args)
    if kind.name == "MAP":
        key, value = kind.args
        return isinstance(key, DataType) and key.name in SCALARS and isinstance(value, DataType) and has_json(value)
    if kind.name == "STRUCT":
        return all(has_json(member) for _, member in kind.fields())
    return kind.name in SCALARS


def from_field(text: str, name: str, kind: DataType, zone: str) -> object:
    """Converts a text to a value of type ``kind``: a scalar from its text, a nested type from JSON. ``name``: its
    column. ``zone``: the zone of timestamps without an offset. ValueError says what does not fit.
    """
    return from_text(text, kind, ZoneInfo(zone)) if kind.name in SCALARS else read_text(text, name, kind, zone)


# --- writing --------------------------------------------------------------------------------------------------


def to_json(value: object, kind: DataType) -> str:
    """The JSON text of a column's value, which ``JsonDocument`` reads again."""
    if value is None:
        return "null"
    match kind.name:
        case "ARRAY":
            assert isinstance(value, list)
            return f"[{','.join(to_json(item, kind.inner[0]) for item in value)}]"
        case "MAP":
            key, inner = kind.inner
            assert isinstance(value, list)
            return _object({to_text(k, key): to_json(v, inner) for k, v in value})
        case "STRUCT":
            assert isinstance(value, Mapping)
            return _object({name: to_json(value[name], inner) for name, inner in kind.fields()})
    text = to_text(value, kind)
    # NaN and infinity are no numbers of JSON; as texts they are read again.
    bare = kind.name in _BARE and text[-1] not in "Ny"
    return text if bare else json.dumps(text, ensure_ascii=False)


def to_field(value: object, kind: DataType) -> str:
    """The text of a field that ``from_field`` reads again."""
    return to_text(value, kind) if kind.name in SCALARS else to_json(value, kind)


def json_object(values: Mapping[str, object], kinds: Mapping[str, DataType]) -> str:
    """A row as a JSON object, with its fields in the order of ``kinds``."""
    return _object({name: to_json(values[name], kind) for name, kind in kinds.items()})


def _object(fields: Mapping[str, str]) -> str:
    return "{" + ",".join(f"{json.dumps(name, ensure_ascii=False)}:{text}" for name, text in fields.items()) + "}"
