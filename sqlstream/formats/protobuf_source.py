"""What files of protobuf say, before the names of types are looked up: ``.proto`` texts, and descriptors.

Neither ``protoc`` nor the package ``protobuf`` is needed: a schema registry gives texts, and ``protoc
--descriptor_set_out=… --include_imports`` makes files of descriptors, which are protobuf themselves.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from sqlstream.formats.avro_schema import SchemaError
from sqlstream.formats.varints import varint

KINDS = (
    "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "group", "message", "bytes",
    "uint32", "enum", "sfixed32", "sfixed64", "sint32", "sint64",
)  # fmt: skip
"""The types of fields, in the order of their numbers in descriptors."""
OPTIONAL, REQUIRED, REPEATED = "optional", "required", "repeated"
"""The labels of fields; that of a field without a word is an empty text."""


@dataclass
class GivenField:
    """A field. ``type``: a scalar type, or the name of another one. ``default``: as it is spelled. ``oneof``: the
    number of the oneof in its message, of whose fields only one is set. ``delimited``: whether a message is written as
    a group; None: as the file says.
    """

    name: str
    number: int
    type: str
    label: str = ""
    packed: bool | None = None
    default: str | None = None
    oneof: int | None = None
    optional: bool = False
    delimited: bool | None = None


@dataclass
class GivenMessage:
    """A message, with those and the enums in it. ``is_entry``: it is a key and a value of a map."""

    name: str
    fields: list[GivenField] = field(default_factory=list)
    messages: list[GivenMessage] = field(default_factory=list)
    enums: list[tuple[str, dict[str, int]]] = field(default_factory=list)
    is_entry: bool = False


@dataclass
class GivenFile:
    """A file: its package, syntax and definitions. ``delimited``: messages in others are groups, unless their field
    says otherwise.
    """

    package: str = ""
    syntax: str = "proto2"
    delimited: bool = False
    messages: list[GivenMessage] = field(default_factory=list)
    enums: list[tuple[str, dict[str, int]]] = field(default_factory=list)


def parsed_file(text: str) -> GivenFile:
    """Parses the text of a ``.proto``, or a descriptor in Base64, as some clients register it."""
    if re.fullmatch(r"[A-Za-z0-9+/\s]+={0,2}\s*", text):
        return file_of_descriptor(base64.b64decode(text))
    return _Parser(text).file()


# --- texts ----------------------------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"""(?P<blank>\s+|//[^\n]*|/\*.*?\*/)
    | (?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    | (?P<word>\.?[A-Za-z_][\w.]*)
    | (?P<number>[+-]?(?:0[xX][0-9a-fA-F]+|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+))
    | (?P<sign>[-+{}()\[\]<>=;,:/])""",
    re.VERBOSE | re.DOTALL,
)
_ENCODING, _DELIMITED = "features.message_encoding", "DELIMITED"
_CLOSING = {"{": "}", "[": "]", "(": ")", "<": ">"}


_QUOTES = ("'", '"')


def _in_quotes_of(literal: str, other: str) -> str:
    """What stands in the ``other`` literal, as it stands in one with the quotes of the first."""
    return other[1:-1] if other[0] == literal[0] else other[1:-1].replace(literal[0], f"\\{literal[0]}")


class _Parser:
    """Parses the tokens of a ``.proto``, one after the other."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = []
        at = 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise SchemaError(f"is no .proto: {text[at : at + 20]!r} in line {text.count(chr(10), 0, at) + 1}")
            if found["blank"] is None:
                self._tokens.append(found[0])
            at = found.end()
        self._at = 0
        self._syntax = "proto2"

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        if self._at >= len(self._tokens):
            raise SchemaError("is no .proto: it ends too early")
        self._at += 1
        return self._tokens[self._at - 1]

    def _expect(self, token: str) -> None:
        found = self._next()
        if found != token:
            raise SchemaError(f'is no .proto: "{found}" instead of "{token}"')

    def _skip(self) -> None:
        """Moves behind a statement: to its semicolon, or its body in braces."""
        while True:
            token = self._next()
            if token == ";":
                return
            if token in _CLOSING:
                self._skip_to(_CLOSING[token])
                if token == "{":
                    if self._peek() == ";":
                        self._next()
                    return

    def _skip_to(self, end: str) -> None:
        while (token := self._next()) != end:
            if token in _CLOSING:
                self._skip_to(_CLOSING[token])

    def file(self) -> GivenFile:
        file = GivenFile()
        while self._peek():
            match self._next():
                case "syntax" | "edition":
                    self._expect("=")
                    file.syntax = self._syntax = self._next().strip("\"'")
                    self._expect(";")
                case "package":
                    file.package = self._next()
                    self._expect(";")
                case "message":
                    file.messages.append(self._message())
                case "enum":
                    file.enums.append(self._enum())
                case ";":
                    pass
                case "option" if self._peek() == _ENCODING:
                    self._next()
                    self._expect("=")
                    file.delimited = self._next() == _DELIMITED
                    self._expect(";")
                case "import" | "option" | "service" | "extend":
                    self._skip()
                case other:
                    raise SchemaError(f'is no .proto: "{other}" where a definition should be')
        return file

    def _message(self) -> GivenMessage:
        return self._members(GivenMessage(self._next()), "{")

    def _members(self, message: GivenMessage, *opening: str) -> GivenMessage:
        for token in opening:
            self._expect(token)
        while (token := self._next()) != "}":
            self._member(message, token)
        return message

    def _member(self, message: GivenMessage, token: str) -> None:
        match token:
            case "message" if self._tokens[self._at + 1] == "{":
                message.messages.append(self._message())
            case "enum" if self._tokens[self._at + 1] == "{":
                message.enums.append(self._enum())
            case "oneof" if self._tokens[self._at + 1] == "{":
                self._oneof(message)
            case "option" if self._peek() == "map_entry":  # as Confluent's serializer registered maps
                self._next()
                self._expect("=")
                message.is_entry = self._next() == "true"
                self._expect(";")
            case "option" | "reserved" | "extensions" | "extend":
                self._skip()
            case "map" if self._peek() == "<":
                self._map(message)
            case ";":
                pass
            case _:
                label = token if token in (OPTIONAL, REQUIRED, REPEATED) else ""
                self._field_or_group(message, self._next() if label else token, label)

    def _oneof(self, message: GivenMessage) -> None:
        self._next()
        self._expect("{")
        first = len(message.fields)  # a number that no other oneof of the message has
        while (token := self._next()) != "}":
            if token == "option":
                self._skip()
            else:
                self._field_or_group(message, token, oneof=first)

    def _field_or_group(self, message: GivenMessage, word: str, label: str = "", *, oneof: int | None = None) -> None:
        if word == "group":
            self._group(message, label, oneof=oneof)
        else:
            message.fields.append(self._field(word, label, oneof=oneof))

    def _group(self, within: GivenMessage, label: str = "", *, oneof: int | None = None) -> None:
        """A message and the field of it, whose name is that of the message in small letters."""
        name = self._next()
        self._expect("=")
        number = int(self._next(), 0)
        list(self._options("{"))
        within.messages.append(self._members(GivenMessage(name)))
        optional = label == OPTIONAL
        field = GivenField(name.lower(), number, name, label, oneof=oneof, optional=optional, delimited=True)
        within.fields.append(field)

    def _field(self, type: str, label: str = "", *, oneof: int | None = None) -> GivenField:  # noqa: A002
        name = self._next()
        self._expect("=")
        made = GivenField(name, int(self._next(), 0), type, label, oneof=oneof, optional=label == OPTIONAL)
        for option, value in self._options():
            if option == "packed":
                made.packed = value == "true"
            elif option == "default":
                made.default = value
            elif option == _ENCODING:
                made.delimited = value == _DELIMITED
        return made

    def _options(self, end: str = ";") -> Iterator[tuple[str, str]]:
        """Yields the options of a field, up to the token ``end``."""
        if self._peek() == "[":
            self._next()
            while self._peek() != "]":
                name = self._next()
                if name == "(":
                    self._skip_to(")")
                while self._peek() not in ("=", "]"):
                    self._next()
                self._expect("=")
                value = self._next()
                if value in _CLOSING:
                    self._skip_to(_CLOSING[value])
                elif value in "+-":
                    value += self._next()
                while value[:1] in _QUOTES and self._peek()[:1] in _QUOTES:  # literals behind each other are one
                    value = f"{value[:-1]}{_in_quotes_of(value, self._next())}{value[0]}"
                yield name, value
                if self._peek() == ",":
                    self._next()
            self._expect("]")
        self._expect(end)

    def _map(self, message: GivenMessage) -> None:
        self._expect("<")
        key = self._next()
        self._expect(",")
        value = self._next()
        self._expect(">")
        name = self._next()
        words = (f"{word[:1].upper()}{word[1:]}" for word in name.split("_"))  # as protoc
        entry = GivenMessage(f"{''.join(words)}Entry", is_entry=True)
        entry.fields = [GivenField("key", 1, key), GivenField("value", 2, value)]
        self._expect("=")
        message.fields.append(GivenField(name, int(self._next(), 0), entry.name, REPEATED))
        list(self._options())
        message.messages.append(entry)

    def _enum(self) -> tuple[str, dict[str, int]]:
        name, names = self._next(), {}
        self._expect("{")
        while (token := self._next()) != "}":
            if token in ("option", "reserved"):
                self._skip()
            elif token != ";":
                self._expect("=")
                value = self._next()
                names[token] = int(value + self._next() if value == "-" else value, 0)
                list(self._options())
        return name, names


# --- descriptors ------------------------------------------------------------------------------------------------


def wire_fields(content: bytes) -> Iterator[tuple[int, Any]]:
    """Yields the fields of a message: their numbers, and bytes or numbers."""
    at = 0
    while at < len(content):
        tag, at = varint(content, at)
        match tag & 7:
            case 0:
                value, at = varint(content, at)
                yield tag >> 3, value
            case 2:
                size, at = varint(content, at)
                if at + size > len(content):
                    raise ValueError("it ends too early")
                yield tag >> 3, content[at : at + size]
                at += size
            case 1 | 5:
                at += 8 if tag & 7 == 1 else 4
            case _:
                raise ValueError("a group")  # descriptors have none


_EDITION_2023 = 1000


def file_of_descriptor(content: bytes) -> GivenFile:
    """Parses a FileDescriptorProto."""
    file = GivenFile()
    for number, value in wire_fields(content):
        match number:
            case 2:
                file.package = value.decode()
            case 4:
                file.messages.append(_message_of(value))
            case 8:
                file.delimited = _is_delimited(value, 50) or False
            case 5:
                file.enums.append(_enum_of(value))
            case 12:
                file.syntax = value.decode()
            case 14:
                file.syntax = "2023" if value >= _EDITION_2023 else file.syntax
    return file


def _message_of(content: bytes) -> GivenMessage:
    message = GivenMessage("")
    for number, value in wire_fields(content):
        match number:
            case 1:
                message.name = value.decode()
            case 2:
                message.fields.append(_field_of(value))
            case 3:
                message.messages.append(_message_of(value))
            case 4:
                message.enums.append(_enum_of(value))
            case 7:
                message.is_entry = any(option == (7, 1) for option in wire_fields(value))
    return message


def _field_of(content: bytes) -> GivenField:
    given = dict(wire_fields(content))
    kind = KINDS[given[5] - 1] if 5 in given else "message"
    label = {1: "", 2: REQUIRED, 3: REPEATED}[given.get(4, 1)]
    options = given.get(8, b"")
    packed = dict(wire_fields(options)).get(2)
    delimited = kind == "group" or _is_delimited(options, 21)
    default = given[7].decode() if 7 in given else None
    optional = bool(given.get(17))
    return GivenField(
        given[1].decode(), given[3], given[6].decode() if 6 in given else kind, label,
        None if packed is None else bool(packed), default, None if optional else given.get(9), optional, delimited,
    )  # fmt: skip


def _is_delimited(options: bytes, features: int) -> bool | None:
    """Whether options say that messages are groups; None where they say nothing. ``features``: their field for that."""
    encoding = dict(wire_fields(dict(wire_fields(options)).get(features, b""))).get(5)
    return None if encoding is None else encoding == 2


def _enum_of(content: bytes) -> tuple[str, dict[str, int]]:
    name, names = "", {}
    for number, value in wire_fields(content):
        if number == 1:
            name = value.decode()
        elif number == 2:
            given = dict(wire_fields(value))
            unsigned = given.get(2, 0)
            names[given[1].decode()] = unsigned - (1 << 64) if unsigned >> 63 else unsigned
    return name, names
