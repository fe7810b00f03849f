"""Messages that say which schema of a registry they were written with: a byte 0, four bytes of the schema's id, and for
protobuf which message of the schema it is. Confluent's serializers write them, and Flink's formats ``…-confluent``.

A batch is decoded by its schemas: all messages of one schema at once. So columns are read by name from whichever schema
a message has, and those that write may go on to another one while a job runs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from sqlstream.formats.avro_cursor import PADDING, Cursor, Data, Unread, message_bounds, slices
from sqlstream.formats.avro_encoder import variable
from sqlstream.formats.avro_messages import avro_decoder
from sqlstream.formats.avro_schema import SchemaError
from sqlstream.formats.decoder import Decoded, Decoder, Fault, Field, in_order
from sqlstream.formats.json import JsonDecoder
from sqlstream.formats.protobuf import ProtobufDecoder, ProtoType
from sqlstream.formats.schema_registry import AVRO, JSON, PROTOBUF, RegisteredSchema, Registry

HEADER = 5
"""The bytes before what a message holds: 0 and the id, the highest byte first."""

_EMPTY = "the message is empty"
_NO_HEADER = "it does not begin with a byte 0 and the id of a schema, as messages of a schema registry do"
_SHORT = "it ends within the id of its schema"
_MOST_KEPT = 1_000


def header_of(number: int) -> bytes:
    """Returns what messages of the schema with the id begin with."""
    return b"\0" + number.to_bytes(4, "big")


@dataclass(frozen=True)
class RegisteredDecoder(Decoder):
    """Decodes messages of the schemas of a registry. A message whose schema the registry does not know, or whose schema
    does not have the columns, is a fault.

    ConnectorError SS598 where the registry does not answer, SS599 where it refuses to.
    """

    fields: tuple[Field, ...]
    registry: Registry

    kind: ClassVar[str]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(f.name, f.type.to_arrow()) for f in self.fields if f.wanted])

    @abstractmethod
    def of_schema(self, schema: RegisteredSchema, header: bytes) -> Decoder:
        """Returns the decoder of what follows the ``header`` in messages of the schema.

        Raises SchemaError where it cannot be read, or has other columns than the table.
        """

    def header_ends(self, data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Returns the position at which the header of each message ends; it is after the end of the message where that
        ends within its header.
        """
        return starts + HEADER

    def begin(self) -> None:
        self.registry.ask_again()

    def block(self, data: pa.Buffer) -> Decoded:
        raise AssertionError("messages of a schema registry are not in files")

    def messages(self, values: pa.BinaryArray) -> Decoded:
        data, starts, ends = message_bounds(values)
        bodies = self.header_ends(data, starts, ends)
        empty = starts == ends
        other = (data.take(starts, mode="clip") != 0) if len(data) else empty
        short = bodies > ends
        reasons = np.select([empty, other, short], [1, 2, 3])
        good = np.flatnonzero(reasons == 0)
        faults = {int(n): _REASONS[int(reasons[n])] for n in np.flatnonzero(reasons)}
        headers = slices(data, starts[good], bodies[good]).dictionary_encode()
        codes, known = headers.indices.to_numpy(zero_copy_only=False), headers.dictionary.to_pylist()
        parts: list[tuple[np.ndarray, pa.RecordBatch]] = []
        for code, header in enumerate(known):
            lanes = good if len(known) == 1 else good[codes == code]
            decoder = self._decoder(header)
            if isinstance(decoder, str):
                faults |= dict.fromkeys(lanes.tolist(), decoder)
                continue
            decoded = decoder.messages(slices(data, bodies[lanes], ends[lanes]))
            parts.append((lanes[decoded.numbers], decoded.rows))
            faults |= {int(lanes[fault.record]): fault.reason for fault in decoded.faults}
        return Decoded(
            in_order(parts, self.schema), len(values),
            [Fault(n, 0, data[starts[n] : ends[n]].tobytes(), faults[n]) for n in sorted(faults)],
        )  # fmt: skip

    def _decoder(self, header: bytes) -> Decoder | str:
        """The decoder of messages with a header, or why they cannot be decoded."""
        decoder = _decoders.get((self, header))
        if decoder is not None:
            return decoder
        number = int.from_bytes(header[1:HEADER], "big")
        schema = self.registry.schema(number)
        if schema is None:  # it may be registered before the next micro-batch
            return f"schema registry {self.registry.shown} knows no schema with the id {number}"
        if schema.kind != self.kind:
            decoder = f"schema {number} of the registry is of type {schema.kind}, not {self.kind}"
        else:
            try:
                decoder = self.of_schema(schema, header)
            except SchemaError as error:
                decoder = f"schema {number} of the registry {error}"
        if len(_decoders) >= _MOST_KEPT:
            _decoders.clear()
        _decoders[self, header] = decoder
        return decoder


_REASONS = {1: _EMPTY, 2: _NO_HEADER, 3: _SHORT}
_decoders: dict[tuple[RegisteredDecoder, bytes], Decoder | str] = {}
"""The decoders of this process, or why there is none."""


@dataclass(frozen=True)
class RegisteredAvro(RegisteredDecoder):
    """Messages of the format ``avro-confluent``. ``reader``: the text of a schema with aliases and defaults of the
    columns; None without one.
    """

    reader: str | None = None

    kind: ClassVar[str] = AVRO

    def of_schema(self, schema: RegisteredSchema, header: bytes) -> Decoder:
        return avro_decoder(self.fields, schema.text, self.reader, schema.references)


@dataclass(frozen=True)
class RegisteredProtobuf(RegisteredDecoder):
    """Messages of the format ``protobuf-confluent``: after the id they say which message of the schema they are, by
    indexes: their number and each of them. The first message, of one index 0, is said by a single 0. ``defaults``: see
    ``ProtobufDecoder``.
    """

    defaults: bool = False

    kind: ClassVar[str] = PROTOBUF

    def header_ends(self, data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        after = starts + HEADER
        first = data.take(after, mode="clip") if len(data) else after
        stops = after + 1
        others = np.flatnonzero((first != 0) & (after < ends))
        if len(others):
            stops[others] = self._ends_of_indexes(data, after[others], ends[others])
        return stops

    @staticmethod
    def _ends_of_indexes(data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        padded = Data(np.concatenate((data, np.zeros(PADDING, np.uint8))))
        unread = Unread(len(starts))
        cursor = Cursor(padded, starts, ends, np.arange(len(starts)), unread)
        counts = cursor.number("")
        wrong = (counts < 0) | (counts > _MOST_INDEXES)
        for index in range(int(np.where(wrong, 0, counts).max(initial=0))):
            more = np.flatnonzero(~wrong & (counts > index))
            inner = cursor.of(more)
            inner.number("")
            cursor.at = cursor.at.copy()
            cursor.at[more] = inner.at
        return np.where(wrong | unread.mask, ends + 1, cursor.at)

    def of_schema(self, schema: RegisteredSchema, header: bytes) -> Decoder:
        kind = ProtoType(schema.text, indexes_of(header[HEADER:]), schema.references)
        decoder = ProtobufDecoder(self.fields, kind, self.defaults, lacks=True)
        _ = decoder.reader
        return decoder


_MOST_INDEXES = 100


def indexes_of(written: bytes) -> tuple[int, ...]:
    """Returns the indexes of a message as they are written after the id of its schema."""
    numbers, value, shift = [], 0, 0
    for byte in written:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append((value >> 1) ^ -(value & 1))
            value = shift = 0
    return tuple(numbers[1:]) or (0,)


def written_indexes(indexes: Sequence[int]) -> bytes:
    """Returns the indexes of a message as they follow the id of its schema."""
    if tuple(indexes) == (0,):
        return b"\0"
    numbers = np.array([len(indexes), *indexes], np.uint64) << np.uint64(1)
    return b"".join(variable(numbers).to_pylist())


@dataclass(frozen=True)
class RegisteredJson(RegisteredDecoder):
    """Messages of the format ``json-confluent``: JSON after the id of a JSON Schema, read as by ``json``."""

    json: JsonDecoder | None = None

    kind: ClassVar[str] = JSON

    @property
    def schema(self) -> pa.Schema:
        assert self.json is not None
        return self.json.schema

    def of_schema(self, schema: RegisteredSchema, header: bytes) -> Decoder:
        assert self.json is not None
        return self.json
