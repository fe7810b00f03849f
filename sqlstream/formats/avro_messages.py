"""Messages of Avro of one writer's schema: a record, or a union of records, of which a message says the branch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sqlstream.formats.avro import AvroDecoder
from sqlstream.formats.avro_cursor import message_bounds, slices
from sqlstream.formats.avro_schema import Schema, SchemaError, missing_or_other, parse_schema
from sqlstream.formats.decoder import Decoded, Decoder, Fault, Field, in_order
from sqlstream.types import from_arrow


def avro_decoder(
    fields: tuple[Field, ...], writer: str, reader: str | None, references: tuple[str, ...] = ()
) -> Decoder:
    """Returns the decoder of messages of a schema. As Avro resolves schemas, a union of a writer is read by the branch
    that a message has, and what is no record is read by a column called ``value`` alone.

    Raises SchemaError where the schema does not have the columns.
    """
    schema = parse_schema(writer, references)
    records = [branch for branch in schema.inner if branch.kind == "record"] if schema.kind == "union" else []
    has_value = any(f.name.casefold() == "value" for f in fields)
    if records and not (has_value and all(record.member("value") is None for record in records)):
        return UnionDecoder(fields, tuple(_branches(schema, fields, writer, reader, references)))
    if schema.kind != "record" and fields and not has_value:
        raise SchemaError(f'is of type {schema.kind} and no record, which only a column "value" reads')
    _require_columns(AvroDecoder.record_schema(schema), fields)
    return _prepared(AvroDecoder(fields, writer, reader, references))


def _prepared(decoder: AvroDecoder) -> AvroDecoder:
    """The decoder, of which it is known that it reads the columns."""
    _ = decoder.record
    return decoder


def _branches(
    schema: Schema, fields: tuple[Field, ...], writer: str, reader: str | None, references: tuple[str, ...]
) -> list[AvroDecoder | str]:
    union = json.loads(writer)
    while isinstance(union, dict):  # {"type": [ … ]}
        union = union["type"]
    texts = [json.dumps(branch) for branch in union]
    found: list[AvroDecoder | str] = []
    for number, branch in enumerate(schema.inner):
        if branch.kind != "record":
            found.append(f"it is of the branch {branch.kind} of its schema, which is no record")
            continue
        _require_columns(branch, fields)
        found.append(_prepared(AvroDecoder(fields, texts[number], reader, (*references, *texts[:number]))))
    return found


def _require_columns(record: Schema, fields: Sequence[Field]) -> None:
    columns = [pa.field(f.name, f.type.to_arrow()) for f in fields]
    for path, declared, found, _ in missing_or_other(record, columns, nulls=True):
        has = found if pa.types.is_union(found) else from_arrow(found)
        raise SchemaError(f'has "{path}" as {has}, which is not read as {from_arrow(declared)}')


@dataclass(frozen=True)
class UnionDecoder(Decoder):
    """Decodes messages of a union. ``branches``: the decoder of each, or why it cannot be a row."""

    fields: tuple[Field, ...]
    branches: tuple[AvroDecoder | str, ...]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(f.name, f.type.to_arrow()) for f in self.fields if f.wanted])

    def block(self, data: pa.Buffer) -> Decoded:
        raise AssertionError("records of files are of one schema each")

    def messages(self, values: pa.BinaryArray) -> Decoded:
        data, starts, ends = message_bounds(values)
        empty = starts == ends
        first = np.where(empty, 0, data.take(starts, mode="clip") if len(data) else 0)
        # The number of a branch is a zigzag varint: below 64 one byte, whose lowest bit is 0.
        branches = np.where((first & 0x81) == 0, first >> 1, len(self.branches))
        faults = dict.fromkeys(np.flatnonzero(empty).tolist(), "the message is empty")
        parts: list[tuple[np.ndarray, pa.RecordBatch]] = []
        for branch in np.unique(branches[~empty]).tolist():
            lanes = np.flatnonzero(~empty & (branches == branch))
            decoder = self.branches[branch] if branch < len(self.branches) else "has a branch of no union"
            if isinstance(decoder, str):
                faults |= dict.fromkeys(lanes.tolist(), decoder)
                continue
            decoded = decoder.messages(slices(data, starts[lanes] + 1, ends[lanes]))
            parts.append((lanes[decoded.numbers], decoded.rows))
            faults |= {int(lanes[fault.record]): fault.reason for fault in decoded.faults}
        found = [Fault(n, 0, data[starts[n] : ends[n]].tobytes(), faults[n]) for n in sorted(faults)]
        return Decoded(in_order(parts, self.schema), len(values), found)
