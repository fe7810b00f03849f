"""One JSON record, read exactly: what it is if something in it is out of the ordinary, or why it is none.

Beyond RFC 8259 this accepts what Spark's readers do: control characters within strings, texts and keys in single
quotes, and NaN, Infinity, -Infinity, +Infinity, +INF and -INF. Of a key that an object has twice the last value counts.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from sqlstream.types import DataType

NO_OBJECT = "the record is no JSON object"
NO_UTF8 = "it is no UTF-8"
TOO_DEEP = "it is nested too deeply for a VARIANT"
GOES_ON = "something follows the JSON object"

_DEEPEST = 1000
"""Levels that Spark's reader of JSON takes, which makes the VARIANT."""

_SPACE = re.compile(r"[ \t\r\n]*")
_TOKEN = re.compile(  # of texts, which may be long, not each character is a step
    r"""(?P<text>"[^"\\]*+(?:\\.[^"\\]*+)*+"|'[^'\\]*+(?:\\.[^'\\]*+)*+')
    |(?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)(?![0-9A-Za-z_.+-])
    |(?P<word>true|false|null)(?![0-9A-Za-z_$])
    |(?P<odd>NaN|Infinity|[-+]Infinity|[-+]INF)(?![0-9A-Za-z_$])
    |(?P<mark>[{}\[\],:])""",
    re.DOTALL | re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))|(.)", re.DOTALL)
_ESCAPED = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "'": "'"}
_INFINITE = {"+Infinity": "Infinity", "+INF": "Infinity", "-INF": "-Infinity"}


class RawJson(DataType):
    """STRING with the JSON text of any value, also of strings and null, from which Spark makes a VARIANT."""

    def ddl(self) -> str:
        """What the column is declared as, for messages."""
        return "VARIANT"


RAW_JSON = RawJson("STRING")


def with_raw_json(kind: DataType) -> DataType:
    """The type with RAW_JSON in place of each VARIANT."""
    return RAW_JSON if kind.name == "VARIANT" else kind.with_inner(with_raw_json)


class NoRecord(ValueError):
    """Raised for a text that is not a valid record. The message is the reason."""


class Value(NamedTuple):
    """A parsed JSON value: the part of ``text`` between two positions.

    ``content``: for a string its text without escapes, for an object a dictionary of values, for an array a list of
    values, else None. ``infinite``: the value is NaN or an infinite number.
    """

    text: str
    begin: int
    end: int
    content: Any = None
    infinite: bool = False

    @property
    def raw(self) -> str:
        """The original text. Values do not hold it, because each level of deep nesting would repeat the inner ones."""
        return self.text[self.begin : self.end]


def parse(record: bytes) -> Value:
    """Parses one record, which must be a JSON object. Raises NoRecord if it is not."""
    try:
        text = record.decode()
    except UnicodeDecodeError:
        raise NoRecord(NO_UTF8) from None
    if not text.startswith("{", _after_space(text, 0)):
        raise NoRecord(NO_OBJECT)
    return parse_value(text)


def parse_value(text: str) -> Value:
    """Parses one JSON value of any type. Raises NoRecord if the text is none."""
    value, end = _value(text, _after_space(text, 0))
    if _after_space(text, end) != len(text):
        raise NoRecord(GOES_ON)
    return value


def regular(value: Value, fields: list[tuple[str, DataType]]) -> str:
    """Rewrites an object as canonical JSON, with only the given fields, for the vectorized parser.

    It is used for objects with unusual syntax, such as escaped keys or single quotes. An object or array where the
    field has a scalar type is written as a string with its JSON text, and so is any value of RAW_JSON.

    Raises NoRecord for a value of RAW_JSON that is nested too deeply.
    """
    kinds = dict(fields)  # in the order of the record, in which faults are listed
    members = ((name, member, kinds[name]) for name, member in value.content.items() if name in kinds)
    return "{" + ",".join(f"{quoted(name)}:{_regular(member, kind)}" for name, member, kind in members) + "}"


def _regular(value: Value, kind: DataType) -> str:
    content = value.content
    if isinstance(kind, RawJson):
        return quoted(spelled(value))
    if isinstance(content, str):
        return quoted(content)
    if isinstance(content, dict) and kind.name == "STRUCT":
        return regular(value, kind.fields())
    if isinstance(content, dict) and kind.name == "MAP":
        return "{" + ",".join(f"{quoted(k)}:{_regular(v, kind.inner[1])}" for k, v in content.items()) + "}"
    if isinstance(content, list) and kind.name == "ARRAY":
        return "[" + ",".join(_regular(element, kind.inner[0]) for element in content) + "]"
    return quoted(value.raw) if content is not None or value.infinite else value.raw


def spelled(value: Value) -> str:
    """Rewrites a value of any type as JSON in which no object has a key twice and no string has control characters.
    Raises NoRecord if it is nested too deeply to become a VARIANT.
    """
    written: list[str] = []
    pending: list[Value | str] = [value]
    depth = 0
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            depth -= item in ("}", "]")
            written.append(item)
            continue
        content = item.content
        if not isinstance(content, dict | list):
            is_text = content is not None or item.infinite
            written.append(quoted(content if isinstance(content, str) else item.raw) if is_text else item.raw)
            continue
        depth += 1
        if depth > _DEEPEST:
            raise NoRecord(TOO_DEEP)
        named = isinstance(content, dict)
        members = _members(content)
        pending.append("}" if named else "]")
        for number in range(len(members) - 1, -1, -1):
            key, member = members[number]
            pending += [member, f",{key}" if number else key]
        written.append("{" if named else "[")
    return "".join(written)


def _members(content: dict[str, Value] | list[Value]) -> list[tuple[str, Value]]:
    """Pairs of what is written before a value, and the value."""
    if isinstance(content, dict):
        return [(f"{quoted(key)}:", value) for key, value in content.items()]
    return [("", value) for value in content]


def quoted(text: str) -> str:
    """Returns the text as a JSON string literal, in double quotes, with the fewest possible escapes."""
    return json.dumps(text.encode(errors="replace").decode(), ensure_ascii=False)


def _after_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    assert space is not None
    return space.end()


def _value(text: str, at: int) -> tuple[Value, int]:
    """The value at a position, and where it ends; without recursion, because records may be nested deeply."""
    containers: list[tuple[int, str, dict[str, Value] | list[Value]]] = []  # where each begins, and its key around it
    key = ""
    while True:
        kind, token, at = _token(text, at)
        if token in ("{", "["):
            begin = at - 1
            content: dict[str, Value] | list[Value] = {} if token == "{" else []
            closing = _closes(text, at, token)
            if not closing:
                containers.append((begin, key, content))
                key, at = _key(text, at) if token == "{" else ("", at)
                continue
            at = closing
            value = Value(text, begin, at, content)
        else:
            value = _scalar(kind, token)
        while containers:  # a value is complete: what it is in goes on, or is complete, too
            begin, outer, content = containers[-1]
            goes_on, at = _added(text, at, content, key, value)
            if goes_on:
                key, at = _key(text, at) if isinstance(content, dict) else ("", at)
                break
            containers.pop()
            value, key = Value(text, begin, at, content), outer
        else:
            return value, at


def _scalar(kind: str | None, token: str) -> Value:
    match kind:
        case "text":
            return Value(token, 0, len(token), _unescaped(token))
        case "number" | "word":
            return Value(token, 0, len(token))
        case "odd":
            spelling = _INFINITE.get(token, token)
            return Value(spelling, 0, len(spelling), infinite=True)
    raise NoRecord(NO_OBJECT)


def _added(text: str, at: int, content: dict[str, Value] | list[Value], key: str, value: Value) -> tuple[bool, int]:
    """Adds a member to a container. Whether another one follows, and where the text goes on."""
    if isinstance(content, dict):
        content.pop(key, None)  # the last one counts, at its place
        content[key] = value
    else:
        content.append(value)
    _, token, at = _token(text, at)
    if token not in (",", "}" if isinstance(content, dict) else "]"):
        raise NoRecord(NO_OBJECT)
    return token == ",", at


def _token(text: str, at: int) -> tuple[str | None, str, int]:
    token = _TOKEN.match(text, _after_space(text, at))
    if token is None:
        raise NoRecord(NO_OBJECT)
    return token.lastgroup, token.group(), token.end()


def _closes(text: str, at: int, opening: str) -> int:
    """Behind the end of an empty container; 0 where it is not empty."""
    at = _after_space(text, at)
    return at + 1 if text.startswith("}" if opening == "{" else "]", at) else 0


def _key(text: str, at: int) -> tuple[str, int]:
    kind, token, at = _token(text, at)
    colon = _token(text, at)
    if kind != "text" or colon[1] != ":":
        raise NoRecord(NO_OBJECT)
    return _unescaped(token), colon[2]


def _unescaped(token: str) -> str:
    inner = token[1:-1]
    if "\\" not in inner:
        return inner

    def character(escape: re.Match[str]) -> str:
        code, letter, plain = escape.groups()
        if plain is not None:
            return str(plain)
        if code is not None:
            return chr(int(code, 16))
        if letter not in _ESCAPED:
            raise NoRecord(NO_OBJECT)
        return _ESCAPED[letter]

    joined = _ESCAPE.sub(character, inner)
    # Two escapes that are a pair of surrogates are one character; others are none, and become "?" as in Java.
    return joined.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass").encode(errors="replace").decode()
