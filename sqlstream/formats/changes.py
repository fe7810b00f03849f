"""Messages that tell changes of a table, such as Debezium's: envelopes of JSON or Avro around rows before and after.

The decoder of the format reads the envelope, and with it the values by the rules of all of its messages. A message is a
change of one row, or of several where the format has lists, and an update is -U and +U. One that cannot be read is a
fault as a whole, so that no half of an update is applied. The rules are those of Flink's
``DebeziumJsonDeserializationSchema``, ``CanalJsonDeserializationSchema`` and the like.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.formats.debezium import LogicalRule, LogicalTypes, is_logical
from sqlstream.formats.decoder import Decoded, Decoder, Fault, Field, cut
from sqlstream.formats.json import JsonDecoder
from sqlstream.types import BOOLEAN, STRING, DataType

INSERT, UPDATE, DELETE, SKIPPED = 0, 1, 2, 3
"""What a message does to a row. SKIPPED: nothing, because it reports a statement such as CREATE TABLE."""
_UNKNOWN = -1
_KINDS = pa.array(["+I", "-U", "-D", "+U"])

_SCHEMA, _PAYLOAD = "schema", "payload"
_PATH = re.compile(r'column "(?:payload\.)?(?:%s)(?:\[\d+\])?\.')
_SHOWN = 100
"""Characters of a value in a reason."""


@dataclass(frozen=True)
class Envelope:
    """Where a message has what.

    * ``operation``: the field that says what the message does; ``operations``: pairs of a value of it, and INSERT,
      UPDATE, DELETE or SKIPPED.
    * ``after``, ``before``: the fields with the new and the old row; ``lists``: they are lists of rows.
    * ``old``: the field ``before`` has only the columns that an update changed, and a deleted row is in ``after``.
    * ``ddl``: a boolean field that is true for statements that change no rows.
    * ``nested``: all of this is in the field ``payload``, beside ``schema``.
    * ``unavailable``: the text of values that are not in the message, because the database did not log them.
    * ``hint``: what is said beside that the operation is missing; ``number_hint``: beside that a number is no time.
    """

    operation: str
    operations: tuple[tuple[str, int], ...]
    after: str = "after"
    before: str = "before"
    lists: bool = False
    old: bool = False
    ddl: str | None = None
    nested: bool = False
    hint: str = ""
    number_hint: str = ""
    unavailable: str | None = None


@dataclass(frozen=True)
class ChangeDecoder(Decoder):
    """Decodes messages of changes into rows with their kinds.

    ``fields``: the columns of the rows. ``metadata``: further fields of the envelope, as columns ``names[i]`` behind
    those of the rows. ``kind``: the name of the last column, with the kind of each row: +I, -U, +U or -D.
    ``with_before``: updates have -U, and must have the old row. ``logical``: the schema of a message says which of its
    numbers are dates and times, as Debezium does; ``unit``: else it is this one, "ms", "us" or "ns".
    ``records``: decodes the envelope, where it is no JSON. The others are those of ``JsonDecoder``.
    """

    fields: tuple[Field, ...]
    envelope: Envelope
    kind: str
    metadata: tuple[tuple[str, Field], ...] = ()
    with_before: bool = True
    ignores_errors: bool = False
    standard: str | None = None
    zone: str = "UTC"
    logical: bool = False
    unit: str | None = None
    records: Decoder | None = None

    @cached_property
    def schema(self) -> pa.Schema:
        wanted = [(f.name, f.type.to_arrow()) for f in self.fields if f.wanted]
        more = [(name, f.type.to_arrow()) for name, f in self.metadata]
        return pa.schema([*wanted, *more, (self.kind, pa.string())])

    def begin(self) -> None:
        if self.records is not None:
            self.records.begin()

    def block(self, data: pa.Buffer) -> Decoded:
        """Decodes lines, each of which is one message."""
        starts, ends = self.spans(data)
        decoded = self.messages(cut(data, starts, ends))
        faults = [replace(f, start=int(starts[f.record])) for f in decoded.faults]
        return replace(decoded, faults=faults)

    def messages(self, values: pa.BinaryArray) -> Decoded:
        values = values.cast(pa.binary())
        read = (self.records or self._json).messages(values)
        good = read.numbers
        message = _Message(self.envelope, read.rows)
        changes = _Changes(self, message, values.take(pa.array(good)))
        reasons = {fault.record: self._reason(fault.reason) for fault in self._counting(values, read.faults)}
        reasons |= {int(good[n]): reason for n, reason in changes.reasons.items()}
        faults = [Fault(n, 0, values[n].as_py() or b"", reasons[n]) for n in sorted(reasons)]
        rows, origins = changes.rows()
        return Decoded(rows, len(values), faults, good[origins])

    def _counting(self, values: pa.BinaryArray, faults: Sequence[Fault]) -> Sequence[Fault]:
        """The faults but those of messages that change no rows, whatever else is in them."""
        if not faults or not self.envelope.ddl:
            return faults
        told = self._statements.messages(values.take(pa.array([fault.record for fault in faults])))
        skipped = set(told.numbers[_Message(self.envelope, told.rows).operations == SKIPPED].tolist())
        return [fault for n, fault in enumerate(faults) if n not in skipped]

    def _reason(self, text: str) -> str:
        names = "|".join(map(re.escape, (self.envelope.after, self.envelope.before)))
        return self.with_unit(re.sub(_PATH.pattern % names, 'column "', text))

    def with_unit(self, text: str) -> str:
        """Returns ``text``, the reason why a message was not decoded. If it says that a number cannot be read as a
        time, the format's hint follows (Debezium's names the option that gives the unit of such numbers).
        """
        hint = self.envelope.number_hint
        return _TIMES.sub(lambda found: f"{found[0]}{hint}", text) if hint else text

    # --- what is decoded as JSON ------------------------------------------------------------------------------

    @cached_property
    def row_fields(self) -> tuple[tuple[str, DataType], ...]:
        """The columns as JSON has them: texts for what a logical type may say."""
        return tuple((f.name, STRING if self.is_logical(f.type) else f.type) for f in self.fields)

    def is_logical(self, kind: DataType) -> bool:
        """True where a value of the type may be a number that counts, or bytes."""
        return is_logical(kind, by_schema=self.logical, by_unit=self.unit is not None)

    @cached_property
    def _json(self) -> JsonDecoder:
        row = DataType("STRUCT", self.row_fields)
        image = DataType("ARRAY", (row,)) if self.envelope.lists else row
        inner = {self.envelope.after: image, self.envelope.before: image} | self._telling
        inner |= {f.name: f.type for _, f in self.metadata if f.name != _SCHEMA or not self.envelope.nested}
        needs_schema = self.logical or any(f.name == _SCHEMA for _, f in self.metadata)
        return self._decoder(inner, needs_schema and self.envelope.nested)

    @cached_property
    def _statements(self) -> JsonDecoder:
        """Reads only what a message does."""
        return self._decoder(self._telling, with_schema=False)

    @cached_property
    def changed(self) -> JsonDecoder:
        """Reads the names of the fields that an old row has."""
        kind = DataType("MAP", (STRING, STRING))
        inner = {self.envelope.before: DataType("ARRAY", (kind,)) if self.envelope.lists else kind}
        return self._decoder(inner, with_schema=False)

    @property
    def _telling(self) -> dict[str, DataType]:
        ddl = {self.envelope.ddl: BOOLEAN} if self.envelope.ddl is not None else {}
        return {self.envelope.operation: STRING} | ddl

    def _decoder(self, inner: Mapping[str, DataType], with_schema: bool) -> JsonDecoder:
        fields = tuple(Field(name, kind) for name, kind in inner.items())
        if self.envelope.nested:
            fields = (Field(_PAYLOAD, DataType("STRUCT", tuple(inner.items()))),)
        if with_schema:
            fields = (*fields, Field(_SCHEMA, STRING))
        return JsonDecoder(fields, ignores_errors=self.ignores_errors, standard=self.standard, zone=self.zone)


_TIMES = re.compile(
    r'column "[^"]*" of type (?:DATE|TIME|TIMESTAMP|TIMESTAMP_NTZ) is "\s*[+-]?[0-9.]+(?:[eE][+-]?\d+)?\s*"'
)


class _Message:
    """The columns of decoded envelopes."""

    def __init__(self, envelope: Envelope, rows: pa.RecordBatch) -> None:
        self.envelope, self.rows = envelope, rows

    def column(self, name: str) -> pa.Array:
        """A field of the envelope, NULL where there is no envelope."""
        if not self.envelope.nested or name == _SCHEMA:
            return self.rows.column(name)
        return pc.struct_field(self.rows.column(_PAYLOAD), name)

    @cached_property
    def operations(self) -> np.ndarray:
        """What each message does: INSERT, UPDATE, DELETE, SKIPPED, or -1."""
        words = [word for word, _ in self.envelope.operations]
        found = pc.index_in(self.column(self.envelope.operation), pa.array(words, pa.string()))
        codes = np.array([*(code for _, code in self.envelope.operations), _UNKNOWN], np.int8)
        operations: np.ndarray = codes[found.fill_null(len(words)).to_numpy(zero_copy_only=False)]
        if self.envelope.ddl is not None:
            ddl = self.column(self.envelope.ddl).fill_null(False).to_numpy(zero_copy_only=False)
            operations[ddl] = SKIPPED
        return operations


@dataclass
class _Images:
    """Rows of messages, before or after their change: one column for each field, and which rows are there."""

    columns: list[pa.Array]
    there: np.ndarray
    misfits: dict[int, dict[int, str]] = field(default_factory=dict)
    """By column and row: values that do not fit."""


class _Changes:
    """The changes of the rows of decoded messages. ``values``: the messages."""

    def __init__(self, decoder: ChangeDecoder, message: _Message, values: pa.BinaryArray) -> None:
        self.decoder, self.message, self.values = decoder, message, values
        self.envelope = decoder.envelope
        self.reasons: dict[int, str] = {}
        """Why messages are faults, by number."""
        operations = message.operations
        self._note_unknown(operations)
        after, before = (message.column(name) for name in (self.envelope.after, self.envelope.before))
        if self.envelope.lists:
            after, before, self.of = self._elements(after, before, operations)
        else:
            self.of = np.arange(len(after))
        self.operations = operations[self.of]
        self.after, self.before = self._images(after), self._images(before)
        self._note_lacking()
        self._note_misfits()
        if self.envelope.unavailable is not None:
            self._fill_unavailable(self.envelope.unavailable)

    def _note(self, messages: np.ndarray, reason: str) -> None:
        for message in np.unique(messages).tolist():
            self.reasons.setdefault(message, reason)

    def _note_unknown(self, operations: np.ndarray) -> None:
        name = self.envelope.operation
        words = self.message.column(name)
        for n in np.flatnonzero(operations == _UNKNOWN).tolist():
            word = words[n].as_py()
            lacks = f"{_lacking(name)}{self.envelope.hint}"
            self.reasons[n] = lacks if word is None else f'"{name}" is "{word[:_SHOWN]}", which is no change'

    def _elements(
        self, after: pa.ListArray, before: pa.ListArray, operations: np.ndarray
    ) -> tuple[pa.StructArray, pa.StructArray, np.ndarray]:
        """The rows of all lists: new ones, for each the old one at its place, and the number of its message."""
        counts, olds = (
            pc.list_value_length(rows).fill_null(0).to_numpy(zero_copy_only=False) for rows in (after, before)
        )
        changes = (operations != SKIPPED) & (operations != _UNKNOWN)
        self._note(np.flatnonzero(changes & (after.is_null().to_numpy(zero_copy_only=False) | (olds > counts))),
                   _lacking(self.envelope.after))  # fmt: skip
        of = np.repeat(np.arange(len(counts)), counts)
        place = np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)
        there = place < olds[of]
        index = (np.cumsum(olds) - olds)[of] + place
        return after.flatten(), before.flatten().take(pa.array(index, mask=~there)), of

    def _images(self, rows: pa.StructArray) -> _Images:
        there = rows.is_valid().to_numpy(zero_copy_only=False)
        images = _Images(rows.flatten(), there)
        for n, f in enumerate(self.decoder.fields):
            if self.decoder.is_logical(f.type):
                rule = LogicalRule(f.type, self.decoder.unit, self.decoder.zone, self.decoder.standard)
                texts = images.columns[n]
                images.columns[n], misfits = rule.read(texts, self._logical.of(f.name).of(self.of))
                if misfits.any() and not self.decoder.ignores_errors:
                    images.misfits[n] = {row: texts[row].as_py() for row in np.flatnonzero(misfits).tolist()}
        return images

    @cached_property
    def _logical(self) -> LogicalTypes:
        """The logical types of the columns, by message."""
        schemas = self.message.column(_SCHEMA) if self.decoder.logical else pa.nulls(len(self.values), pa.string())
        return LogicalTypes(schemas)

    # --- what is wrong ----------------------------------------------------------------------------------------

    @cached_property
    def _reads_after(self) -> np.ndarray:
        """Of which rows the new one counts."""
        read: np.ndarray = (self.operations == INSERT) | (self.operations == UPDATE)
        return read | (self.operations == DELETE) if self.envelope.old else read

    @cached_property
    def _reads_before(self) -> np.ndarray:
        """Of which rows the old one counts."""
        updates: np.ndarray = (self.operations == UPDATE) & self.decoder.with_before
        return updates if self.envelope.old else updates | (self.operations == DELETE)

    def _note_lacking(self) -> None:
        self._note(self.of[self._reads_before & ~self.before.there], _lacking(self.envelope.before))
        self._note(self.of[self._reads_after & ~self.after.there], _lacking(self.envelope.after))

    def _note_misfits(self) -> None:
        wrong: dict[int, dict[str, None]] = {}
        for images, read in ((self.before, self._reads_before), (self.after, self._reads_after)):
            for n, misfits in images.misfits.items():
                name, kind = self.decoder.fields[n].name, self.decoder.fields[n].type
                for row, text in misfits.items():
                    if read[row]:
                        reason = self.decoder.with_unit(f'column "{name}" of type {kind} is "{text[:_SHOWN]}"')
                        wrong.setdefault(int(self.of[row]), {})[reason] = None
        for message, reasons in wrong.items():
            self.reasons.setdefault(message, ", ".join(reasons))

    def _fill_unavailable(self, text: str) -> None:
        """Takes values that are not in the new rows from the old ones. Messages that have them in neither are faults,
        and so are those whose old row counts and lacks one; rows that are deleted by their key need no other values.

        Only texts, bytes and arrays of texts can be such values; for others Debezium's text is one that does not fit.
        """
        for n, f in enumerate(self.decoder.fields):
            after, before = self.after.columns[n], self.before.columns[n]
            missing, unknown = _is_unavailable(after, text), _is_unavailable(before, text)
            if not (missing.any() or unknown.any()):
                continue
            known = self.before.there & ~unknown
            self.after.columns[n] = pc.if_else(pa.array(missing & known), before, after)
            lost = missing & ~known & self._reads_after
            if self.decoder.with_before:
                lost |= unknown & self._reads_before
            else:
                self.before.columns[n] = pc.if_else(pa.array(unknown), pa.scalar(None, before.type), before)
            self._note(
                self.of[lost], f'column "{f.name}" is not in the message: "{text}" (REPLICA IDENTITY FULL adds it)'
            )

    # --- rows -------------------------------------------------------------------------------------------------

    def rows(self) -> tuple[pa.RecordBatch, np.ndarray]:
        """The rows, in the order of the messages, and the number of the message of each."""
        operations = self.operations.copy()
        if self.reasons:
            operations[np.isin(self.of, list(self.reasons))] = SKIPPED
        halves = np.where(operations == UPDATE, 1 + self.decoder.with_before, 1)
        halves[(operations == SKIPPED) | (operations == _UNKNOWN)] = 0
        element = np.repeat(np.arange(len(operations)), halves)
        last = np.append(element[1:] != element[:-1], True)[: len(element)]
        what = operations[element]
        is_old = (what == UPDATE) & ~last
        kinds = np.select([what == INSERT, is_old, what == DELETE], [0, 1, 2], 3)
        from_before = is_old if self.envelope.old else is_old | (what == DELETE)
        columns = [self._column(n, element, from_before) for n, f in enumerate(self.decoder.fields) if f.wanted]
        origins = self.of[element]
        chosen = pa.array(origins)
        columns += [self._metadata(f).take(chosen) for _, f in self.decoder.metadata]
        columns.append(_KINDS.take(pa.array(kinds)))
        return pa.RecordBatch.from_arrays(columns, schema=self.decoder.schema), origins

    def _column(self, n: int, element: np.ndarray, from_before: np.ndarray) -> pa.Array:
        """Values of a column: of the old rows where ``from_before``, else of the new ones."""
        if self.envelope.old and from_before.any():
            from_before = from_before & self._has_old(self.decoder.fields[n].name)[element]
        after, before = self.after.columns[n], self.before.columns[n]
        if not from_before.any():
            return after.take(pa.array(element))
        return pa.concat_arrays([after, before]).take(pa.array(element + len(after) * from_before))

    def _has_old(self, name: str) -> np.ndarray:
        """Of which rows the old one has the field, NULL or not."""
        has = np.zeros(len(self.of), bool)
        is_it = pc.equal(self._names.keys, name).to_numpy(zero_copy_only=False)
        owners = self._names.owners[is_it]
        has[owners[owners < len(has)]] = True
        return has

    @cached_property
    def _names(self) -> _Names:
        updates = np.flatnonzero(self.message.operations == UPDATE)
        told = self.decoder.changed.messages(self.values.take(pa.array(updates)))
        maps = _Message(self.envelope, told.rows).column(self.envelope.before)
        of_message = updates[told.numbers]
        rows = first = np.searchsorted(self.of, of_message)
        if self.envelope.lists:
            lengths = pc.list_value_length(maps).fill_null(0).to_numpy(zero_copy_only=False)
            place = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
            rows, maps = np.repeat(first, lengths) + place, maps.flatten()
        maps = maps.take(pa.array(np.arange(len(maps))))  # whose keys are those of its own rows
        offsets = maps.offsets.to_numpy()
        return _Names(maps.keys.slice(offsets[0], offsets[-1] - offsets[0]), np.repeat(rows, np.diff(offsets)))

    def _metadata(self, f: Field) -> pa.Array:
        if f.name == _SCHEMA and not self.envelope.nested:
            return pa.nulls(len(self.values), f.type.to_arrow())
        return self.message.column(f.name)


@dataclass(frozen=True)
class _Names:
    """The keys of old rows, and the row of each."""

    keys: pa.StringArray
    owners: np.ndarray


def _is_unavailable(values: pa.Array, text: str) -> np.ndarray:
    """Which values are the text of one that is not in the message, in the ways in which Debezium writes it: of bytes as
    such, in hexadecimal or in base64; of arrays as their one item, or, if they are of numbers, its bytes as items; of
    maps as their one key and value. As Debezium's ``UnchangedToastedPlaceholder``.
    """
    kind, marked = values.type, np.zeros(len(values), bool)
    if pa.types.is_map(kind) or pa.types.is_list(kind):
        bytes_of_text = np.frombuffer(text.encode(), np.uint8)
        is_number = pa.types.is_list(kind) and (_is_number(kind.value_type))
        size = len(bytes_of_text) if is_number else 1
        is_there = values.is_valid().to_numpy(zero_copy_only=False)
        lengths = np.where(is_there, np.diff(values.offsets.to_numpy()), 0)
        as_long = np.flatnonzero(lengths == size)
        taken = values.take(pa.array(as_long))
        if is_number:
            numbers = taken.flatten().cast(pa.float64()).fill_null(-1).to_numpy(zero_copy_only=False)
            marked[as_long] = (numbers.reshape(-1, size) == bytes_of_text).all(axis=1)
        elif pa.types.is_list(kind):
            items = taken.flatten()
            marked[as_long] = _is_unavailable(items, text) | _is_one_of(items, [_uuid_of(text)])
        else:
            marked[as_long] = _is_unavailable(taken.keys, text) & _is_unavailable(taken.items, text)
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        inside = text.encode()
        texts = [text, base64.b64encode(inside).decode(), inside.hex(), f'{{"{text}":"{text}"}}']  # and of hstore
        marked[:] = _is_one_of(values, texts if pa.types.is_string(kind) else [inside])
    return marked


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _is_one_of(values: pa.Array, spelled: Sequence[str | bytes]) -> np.ndarray:
    if not (pa.types.is_string(values.type) or pa.types.is_binary(values.type)):
        return np.zeros(len(values), bool)
    found: np.ndarray = pc.is_in(values, pa.array(spelled, values.type)).to_numpy(zero_copy_only=False)
    return found


def _uuid_of(text: str) -> str:
    """What Java's ``UUID.nameUUIDFromBytes`` makes of it."""
    return str(UUID(bytes=hashlib.md5(text.encode(), usedforsecurity=False).digest(), version=3))


def _lacking(name: str) -> str:
    return f'the message has no "{name}"'
