"""Messages of protobuf as their ``.proto`` text or a compiled descriptor says: fields, their numbers and types."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlstream.formats.avro_schema import SchemaError
from sqlstream.formats.protobuf_source import (
    KINDS,
    OPTIONAL,
    REPEATED,
    GivenField,
    GivenFile,
    GivenMessage,
    file_of_descriptor,
    parsed_file,
    wire_fields,
)

SCALARS = frozenset(KINDS) - {"group", "message", "enum"}


@dataclass(eq=False)
class Enum:
    """The numbers of an enum by their names."""

    full_name: str
    names: dict[str, int]

    @property
    def numbers(self) -> dict[int, str]:
        """The names by their numbers: of two names of a number the first."""
        return {number: name for name, number in reversed(self.names.items())}


@dataclass
class ProtoField:
    """A field of a message. ``kind``: a scalar type, ``message`` or ``enum``, whose type is in ``message`` or ``enum``.
    ``presence``: it may be unset, which is not its default. ``packed``: how a repeated one is written. ``oneof``: the
    number of the oneof in its message, of whose fields only one is set. ``delimited``: a message between two tags, a
    group.
    """

    name: str
    number: int
    kind: str
    label: str = ""
    presence: bool = False
    packed: bool = False
    message: Message | None = None
    enum: Enum | None = None
    default: Any = None
    oneof: int | None = None
    delimited: bool = False

    @property
    def repeated(self) -> bool:
        return self.label == REPEATED

    @property
    def is_map(self) -> bool:
        return self.repeated and self.message is not None and self.message.is_entry


@dataclass(eq=False)
class Message:
    """A message. ``is_entry``: it is a key and a value of a map."""

    full_name: str
    fields: list[ProtoField] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    is_entry: bool = False

    @property
    def name(self) -> str:
        return self.full_name.rpartition(".")[2]

    def field(self, name: str) -> ProtoField | None:
        """Returns the field of the name, else the first that differs only in case, or None."""
        exact = (f for f in self.fields if f.name == name)
        return next(exact, None) or next((f for f in self.fields if f.name.casefold() == name.casefold()), None)


@dataclass(frozen=True)
class ProtoFile:
    """The messages of a file, those that stand in no other one, in their order."""

    messages: tuple[Message, ...]

    def all(self) -> Iterator[Message]:
        """The messages, and those in them."""
        waiting = [*self.messages]
        while waiting:
            message = waiting.pop(0)
            yield message
            waiting += message.messages

    def message(self, name: str) -> Message:
        """Returns the message of a name, with its package or without, or with that of a class of Java. Raises
        SchemaError.
        """
        every = [message for message in self.all() if not message.is_entry]
        last = name.replace("$", ".").rpartition(".")[2]
        found = [m for m in every if m.full_name == name] or [m for m in every if m.name == last]
        if len(found) != 1:
            names = ", ".join(m.full_name for m in every)
            raise SchemaError(f'has no message "{name}"; it has {names or "none"}')
        return found[0]

    def indexes(self, message: Message) -> tuple[int, ...]:
        """Returns where a message is, as ``at`` takes it."""
        return _indexes(self.messages, message) or ()

    def at(self, indexes: Sequence[int]) -> Message:
        """Returns the message at indexes, of which each but the first is that of a message in the one before. Raises
        SchemaError.
        """
        messages: Sequence[Message] = self.messages
        message = None
        for index in indexes:
            if not 0 <= index < len(messages):
                raise SchemaError(f"has no message at {list(indexes)}")
            message = messages[index]
            messages = message.messages
        if message is None:
            raise SchemaError("has no message at []")
        return message


def _indexes(messages: Sequence[Message], wanted: Message) -> tuple[int, ...] | None:
    for index, message in enumerate(messages):
        inner = () if message is wanted else _indexes(message.messages, wanted)
        if inner is not None:
            return (index, *inner)
    return None


def parse_proto(text: str, imports: Sequence[str] = ()) -> ProtoFile:
    """Parses the text of a ``.proto``, or its descriptor in Base64, as some clients register it. ``imports``: the texts
    of those that it imports. Raises SchemaError.
    """
    try:
        files = [parsed_file(other) for other in (*imports, text)]
        return _linked([parsed_file(known) for known in _WELL_KNOWN], files)[-1]
    except (IndexError, ValueError, KeyError, RecursionError) as error:
        raise error if isinstance(error, SchemaError) else SchemaError(f"is no .proto: {error}") from None


def parse_descriptors(content: bytes) -> ProtoFile:
    """Parses a FileDescriptorSet, as ``protoc --descriptor_set_out=…`` writes it. Raises SchemaError."""
    try:
        files = [file_of_descriptor(file) for number, file in wire_fields(content) if number == 1]
        linked = _linked([parsed_file(known) for known in _WELL_KNOWN], files)
    except SchemaError:
        raise
    except (IndexError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise SchemaError("is no FileDescriptorSet, as protoc writes it") from None
    return ProtoFile(tuple(message for file in linked for message in file.messages))


# --- names of types ---------------------------------------------------------------------------------------------

_PACKABLE = SCALARS - {"string", "bytes"} | {"enum"}


def _linked(known: Sequence[GivenFile], files: Sequence[GivenFile]) -> list[ProtoFile]:
    """The files with the types that their fields name, which may be those of ``known``."""
    types: dict[str, Message | Enum] = {}
    made: list[tuple[GivenFile, list[tuple[GivenMessage, Message]], ProtoFile]] = []
    for file in (*known, *files):
        pairs: list[tuple[GivenMessage, Message]] = []
        top = tuple(_declared(message, file.package, types, pairs) for message in file.messages)
        for name, numbers in file.enums:
            types[_joined(file.package, name)] = Enum(_joined(file.package, name), numbers)
        made.append((file, pairs, ProtoFile(top)))
    for file, pairs, _ in made:
        for given, message in pairs:
            message.fields = [_field(f, message, file, types) for f in given.fields]
    return [linked for _, _, linked in made[len(known) :]]


def _joined(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name


def _declared(
    given: GivenMessage, scope: str, types: dict[str, Message | Enum], pairs: list[tuple[GivenMessage, Message]]
) -> Message:
    message = Message(_joined(scope, given.name), is_entry=given.is_entry)
    types[message.full_name] = message
    pairs.append((given, message))
    for name, numbers in given.enums:
        types[_joined(message.full_name, name)] = Enum(_joined(message.full_name, name), numbers)
    message.messages = [_declared(inner, message.full_name, types, pairs) for inner in given.messages]
    return message


def _field(given: GivenField, within: Message, file: GivenFile, types: Mapping[str, Message | Enum]) -> ProtoField:
    kind = None if given.type in SCALARS else _type(given.type, within.full_name, types)
    message, enum = kind if isinstance(kind, Message) else None, kind if isinstance(kind, Enum) else None
    made = ProtoField(
        given.name, given.number, "message" if message else "enum" if enum else given.type,
        "" if given.label == OPTIONAL else given.label,
        message=message, enum=enum, oneof=given.oneof,
    )  # fmt: skip
    singular = not made.repeated and not within.is_entry
    in_oneof = given.oneof is not None
    made.presence = singular and (file.syntax != "proto3" or given.optional or in_oneof or message is not None)
    made.packed = made.kind in _PACKABLE and (file.syntax != "proto2" if given.packed is None else given.packed)
    if message is not None and not made.is_map and not within.is_entry:
        made.delimited = file.delimited if given.delimited is None else given.delimited
    made.default = _default(given.default, made)
    return made


def _type(name: str, scope: str, types: Mapping[str, Message | Enum]) -> Message | Enum:
    """The type of a name in a scope: the innermost that has it."""
    if name.startswith("."):
        scope, name = "", name[1:]
    while True:
        found = types.get(_joined(scope, name))
        if found is not None:
            return found
        if not scope:
            raise SchemaError(f'names the type "{name}", which it does not define')
        scope = scope.rpartition(".")[0]


def _default(text: str | None, made: ProtoField) -> Any:
    """The default of a field of proto2, as a value of Python; that of its type without one."""
    if made.kind == "enum":
        assert made.enum is not None
        if text is not None and text not in made.enum.names:
            raise SchemaError(f'has the default "{text}", which enum {made.enum.full_name} lacks')
        return text if text is not None else next(iter(made.enum.names), None)
    if made.kind in ("string", "bytes"):
        plain = "" if text is None else text[1:-1] if text[:1] in ("'", '"') and len(text) > 1 else text
        unescaped: bytes = codecs.escape_decode(plain.encode())[0]  # as those of C
        return unescaped if made.kind == "bytes" else unescaped.decode(errors="replace")
    if made.kind == "bool":
        return text == "true"
    if made.kind in ("float", "double"):
        return float(text or 0)
    if made.kind == "message":
        return None
    digits = text or "0"
    return int(digits, 8) if re.fullmatch("[+-]?0[0-7]+", digits) else int(digits, 0)


_WELL_KNOWN = (
    'syntax = "proto3"; package google.protobuf; message Timestamp { int64 seconds = 1; int32 nanos = 2; }'
    "message Duration { int64 seconds = 1; int32 nanos = 2; } message Empty {}"
    "message DoubleValue { double value = 1; } message FloatValue { float value = 1; }"
    "message Int64Value { int64 value = 1; } message UInt64Value { uint64 value = 1; }"
    "message Int32Value { int32 value = 1; } message UInt32Value { uint32 value = 1; }"
    "message BoolValue { bool value = 1; } message StringValue { string value = 1; }"
    "message BytesValue { bytes value = 1; } message Any { string type_url = 1; bytes value = 2; }"
    "message Struct { map<string, Value> fields = 1; } message ListValue { repeated Value values = 1; }"
    "enum NullValue { NULL_VALUE = 0; } message FieldMask { repeated string paths = 1; }"
    "message Value { oneof kind { NullValue null_value = 1; double number_value = 2; string string_value = 3; "
    "bool bool_value = 4; Struct struct_value = 5; ListValue list_value = 6; } }",
    'syntax = "proto3"; package google.type; message Date { int32 year = 1; int32 month = 2; int32 day = 3; }'
    "message TimeOfDay { int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }"
    "message Money { string currency_code = 1; int64 units = 2; int32 nanos = 3; }"
    "message LatLng { double latitude = 1; double longitude = 2; } message TimeZone { string id = 1; "
    "string version = 2; } message Fraction { int64 numerator = 1; int64 denominator = 2; }"
    "message Interval { google.protobuf.Timestamp start_time = 1; google.protobuf.Timestamp end_time = 2; }"
    "message DateTime { int32 year = 1; int32 month = 2; int32 day = 3; int32 hours = 4; int32 minutes = 5; "
    "int32 seconds = 6; int32 nanos = 7; oneof time_offset { google.protobuf.Duration utc_offset = 8; "
    "TimeZone time_zone = 9; } }"
    "enum DayOfWeek { DAY_OF_WEEK_UNSPECIFIED = 0; MONDAY = 1; TUESDAY = 2; WEDNESDAY = 3; THURSDAY = 4; FRIDAY = 5; "
    "SATURDAY = 6; SUNDAY = 7; }"
    "enum Month { MONTH_UNSPECIFIED = 0; JANUARY = 1; FEBRUARY = 2; MARCH = 3; APRIL = 4; MAY = 5; JUNE = 6; "
    "JULY = 7; AUGUST = 8; SEPTEMBER = 9; OCTOBER = 10; NOVEMBER = 11; DECEMBER = 12; }"
    "message PostalAddress { int32 revision = 1; string region_code = 2; string language_code = 3; "
    "string postal_code = 4; string sorting_code = 5; string administrative_area = 6; string locality = 7; "
    "string sublocality = 8; repeated string address_lines = 9; repeated string recipients = 10; "
    "string organization = 11; }",
    'syntax = "proto3"; package confluent.type; message Decimal { bytes value = 1; uint32 precision = 2; '
    "int32 scale = 3; }",
)
"""Files that others import without bringing them."""
