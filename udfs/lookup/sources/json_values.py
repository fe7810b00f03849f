"""Conversion between JSON and values of columns."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import tzinfo
from decimal import Decimal

from sqlstream.types import DataType
from sqlstream.udfs.lookup.sources.scalars import SCALARS, from_number, from_text, shown, to_text

_BARE = frozenset({"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"})

_DECODER = json.JSONDecoder(parse_float=Decimal)
"""Shared, because creating one takes longer than reading a short document."""


def parse_json(text: str) -> object:
    """The value of a JSON text as Python objects; ValueError if it is not JSON.

    Numbers with a point or an exponent become Decimal, so that no digit is lost.
    """
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def has_json(kind: DataType) -> bool:
    """True where values of the type can be read from JSON and written to it."""
    if kind.name == "ARRAY":
        return all(isinstance(element, DataType) and has_json(element) for element in kind.args)
    if kind.name == "MAP":
        key, value = kind.args
        return isinstance(key, DataType) and key.name in SCALARS and isinstance(value, DataType) and has_json(value)
    if kind.name == "STRUCT":
        return all(has_json(member) for _, member in _members(kind))
    return kind.name in SCALARS


def from_json(value: object, kind: DataType, zone: tzinfo) -> object:
    """Converts a part of a JSON document to a value of type ``kind``, in the form that ``pyarrow.array`` accepts.

    Missing fields are None. For STRING any JSON is accepted, as text; other types are also parsed from JSON strings.
    ``zone``: the zone of timestamps without an offset. ValueError says what does not fit.
    """
    if value is None:
        return None
    match kind.name, value:
        case "STRING", _:
            return value if isinstance(value, str) else _text(value)
        case "ARRAY", list():
            (element,) = kind.args
            return [from_json(item, _type(element), zone) for item in value]
        case "MAP", dict():
            key, inner = map(_type, kind.args)
            return [(from_text(k, key, zone), from_json(v, inner, zone)) for k, v in value.items()]
        case "STRUCT", dict():
            return {name: from_json(value.get(name), inner, zone) for name, inner in _members(kind)}
        case "BOOLEAN", bool():
            return value
        case name, str() if name in SCALARS:
            return from_text(value, kind, zone)
        case name, int() | float() | Decimal() if name != "BINARY" and not isinstance(value, bool):
            return from_number(value, kind)
    raise ValueError(f"{shown(_text(value))} is no {kind}")


def from_field(text: str, kind: DataType, zone: tzinfo) -> object:
    """Converts a text to a value of type ``kind``: a scalar from its text, a nested type from JSON. ``zone``: the zone
    of timestamps without an offset. ValueError says what does not fit.
    """
    if kind.name in SCALARS:
        return from_text(text, kind, zone)
    try:
        document = parse_json(text)
    except ValueError:
        raise ValueError(f"{shown(text)} is no JSON, which {kind} is read from") from None
    return from_json(document, kind, zone)


def to_json(value: object, kind: DataType) -> str:
    """The JSON text of a column's value, which ``from_json`` reads again."""
    if value is None:
        return "null"
    match kind.name:
        case "ARRAY":
            assert isinstance(value, list)
            return f"[{','.join(to_json(item, _type(kind.args[0])) for item in value)}]"
        case "MAP":
            key, inner = map(_type, kind.args)
            assert isinstance(value, list)
            return _object({to_text(k, key): to_json(v, inner) for k, v in value})
        case "STRUCT":
            assert isinstance(value, Mapping)
            return _object({name: to_json(value[name], inner) for name, inner in _members(kind)})
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


def _text(value: object) -> str:
    """Parsed JSON as compact text."""
    match value:
        case dict():
            return _object({name: _text(inner) for name, inner in value.items()})
        case list():
            return f"[{','.join(map(_text, value))}]"
        case str():
            return json.dumps(value, ensure_ascii=False)
        case bool():
            return "true" if value else "false"
        case None:
            return "null"
    return str(value)


def _type(value: object) -> DataType:
    assert isinstance(value, DataType)
    return value


def _members(kind: DataType) -> list[tuple[str, DataType]]:
    return [member for member in kind.args if isinstance(member, tuple)]


# --- JSON paths such as ``$.a.b[0]``, ``$.items[*]``, ``$['two words']`` --------------------------------------


_STEP = re.compile(r"\.(?P<name>[^\s.\[\]'\"*$]+)|\['(?P<quoted>[^']+)'\]|\[(?P<index>-?\d+)\]|(?P<all>\[\*\]|\.\*)")
_ALL = None


@dataclass(frozen=True)
class JsonPath:
    """A JSON path. ``steps``: for each step the name of a field, the index of an array (negative ones count from the
    end), or None for all elements.
    """

    steps: tuple[str | int | None, ...] = ()

    @property
    def many(self) -> bool:
        """True if the path may select several values."""
        return _ALL in self.steps

    def found(self, document: object) -> list[object]:
        """The values that the path selects, in document order."""
        places = [document]
        for step in self.steps:
            places = [inner for value in places for inner in _inner(value, step)]
        return places

    def value(self, document: object) -> object:
        """The selected value, None where there is none; for paths with ``*`` a list of all selected values."""
        places = self.found(document)
        return places if self.many else next(iter(places), None)


def parse_path(text: str) -> JsonPath:
    """The path that a text spells. ValueError where it is not a path."""
    if not text.startswith("$"):
        raise ValueError(text)
    steps: list[str | int | None] = []
    position = 1
    while position < len(text):
        step = _STEP.match(text, position)
        if step is None:
            raise ValueError(text)
        steps.append(int(step["index"]) if step["index"] else _ALL if step["all"] else step["name"] or step["quoted"])
        position = step.end()
    return JsonPath(tuple(steps))


def _inner(value: object, step: str | int | None) -> list[object]:
    match step, value:
        case None, list():
            return value
        case None, dict():
            return list(value.values())
        case int(), list():
            return [value[step]] if -len(value) <= step < len(value) else []
        case str(), dict():
            return [value[step]] if step in value else []
    return []
