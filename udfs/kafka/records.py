"""Messages of topics as rows: their values, and their keys where these hold columns of their own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.formats.decoder import Decoded, Fault, OptionalRecords, rows_of_nothing
from sqlstream.types import from_arrow
from sqlstream.udfs.bad_records import BAD
from sqlstream.udfs.kafka.fetched import DDL, PLACES
from sqlstream.udfs.kernel import ROW_KIND
from sqlstream.udfs.lifts import LIFT
from sqlstream.udfs.messages import BAD_TYPE, VALUE, MessageRows, unreadable_record

KEY = "key"


def ddl_of_messages(columns: Iterable[str]) -> str:
    """The schema of messages with some of ``fetched.FIELDS``, and LIFT, in Spark's DDL syntax."""
    return ", ".join(f"{name} {'BIGINT' if name == LIFT else DDL[name]}" for name in columns)


def with_values(messages: pa.RecordBatch) -> pa.RecordBatch:
    """The messages with the name VALUE for what they hold."""
    return messages.rename_columns([VALUE if name == "value" else name for name in messages.schema.names])


def place_of(messages: pa.RecordBatch, index: int) -> str:
    """Where a message is: ``topic[partition]@offset``."""
    topic, number, offset = (messages.column(name)[index] for name in PLACES)
    return f"{topic}[{number}]@{offset}"


def records_of_messages(messages: pa.RecordBatch, numbers: np.ndarray) -> pa.StructArray:
    """The column BAD of the messages of these numbers, with their values and places, and no error."""
    chosen = messages.take(pa.array(numbers))
    topic, number, offset = (chosen.column(name).cast(pa.string()) for name in PLACES)
    places = pc.binary_join_element_wise(topic, "[", number, "]@", offset, "")
    parts = [chosen.column(VALUE).cast(pa.binary()), pa.nulls(len(places), pa.string()), places]
    return pa.StructArray.from_arrays(parts, fields=[*BAD_TYPE])


@dataclass(frozen=True)
class KeyRecords:
    """Decodes keys of messages into columns of the table, which have ``names`` there. They are NULL where a message has
    no key.

    ``tolerant``: a message whose key cannot be read is a fault; else it is an error. ``drops``: it is left out.
    ``of_deletes``: values hold all columns, so that keys are looked at only where a message has no value.
    """

    decoder: OptionalRecords
    names: tuple[str, ...]
    tolerant: bool = False
    drops: bool = False
    of_deletes: bool = False

    @property
    def added(self) -> list[pa.Field]:
        """The columns that the rows of values do not have."""
        fields = zip(self.decoder.schema, self.names, strict=True)
        return [] if self.of_deletes else [field.with_name(name) for field, name in fields]

    def joined(self, values: Decoded, messages: pa.RecordBatch) -> Decoded:
        """Returns the rows of values with the columns of keys. ExecutionError SS402 for a key that cannot be read,
        unless it is a fault or left out.
        """
        numbers = values.numbers
        looked_at = np.unique(numbers)  # a message may be several rows
        if self.of_deletes:
            looked_at = looked_at[messages.column(VALUE).is_null().to_numpy(zero_copy_only=False)[looked_at]]
        keys = self.decoder.messages(messages.column(KEY).take(pa.array(looked_at)).cast(pa.binary()))
        faults = [replace(fault, record=int(looked_at[fault.record])) for fault in keys.faults]
        if faults and not (self.tolerant or self.drops):
            raise unreadable_record(f" at {place_of(messages, faults[0].record)}", faults[0])
        row_of_key = np.full(messages.num_rows, -1)
        row_of_key[looked_at[keys.numbers]] = np.arange(keys.rows.num_rows)
        stays = ~np.isin(numbers, [fault.record for fault in faults])
        rows = _with_columns(values.rows.filter(pa.array(stays)), self.names, keys.rows, row_of_key[numbers[stays]])
        both = [*values.faults, *([] if self.drops else faults)]
        return Decoded(rows, values.records, sorted(both, key=lambda fault: fault.record), numbers[stays])


def _with_columns(
    rows: pa.RecordBatch, names: Sequence[str], others: pa.RecordBatch, which: np.ndarray
) -> pa.RecordBatch:
    """The rows with the columns of ``others`` by these names. ``which``: the row of ``others`` of each row, -1 for
    none, where a column is what it was, or NULL.
    """
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    has_other = which >= 0
    chosen = pa.array(which, mask=~has_other)
    for name, column in zip(names, others.columns, strict=True):
        taken = column.take(chosen)
        columns[name] = pc.if_else(pa.array(has_other), taken, columns[name]) if name in columns else taken
    return pa.RecordBatch.from_arrays([*columns.values()], [*columns]) if columns else rows_of_nothing(rows.num_rows)


@dataclass(frozen=True)
class TopicRecords(MessageRows):
    """Decodes messages of topics. As in Flink, those without a value are no rows, unless ``decoder`` reads them as
    NULLs, nor are blank ones if ``skips_blank``.

    ``placed``: rows that could be read have their record and place in BAD, too, as a NULL may make them bad ones.
    ``keys``: how columns are read from keys, if some are. ``upserts``: a message without a value, which is a row,
    deletes that of its key; rows have ROW_KIND.
    """

    skips_blank: bool = False
    placed: bool = False
    keys: KeyRecords | None = None
    upserts: bool = False

    @property
    def columns(self) -> pa.Schema:
        more = [*(self.keys.added if self.keys is not None else ())]
        more += [pa.field(ROW_KIND, pa.string())] if self.upserts else []
        return pa.schema([*self.decoder.schema, *more])

    @property
    def fields(self) -> frozenset[str]:
        """The fields of messages (``fetched.FIELDS``) that are decoded, or name the place of a message."""
        return frozenset({"value", *PLACES, *([KEY] if self.keys is not None else [])})

    def tolerating(self) -> TopicRecords:
        """Returns these with faults in place of errors."""
        keys = None if self.keys is None else replace(self.keys, tolerant=True)
        return replace(self, tolerant=True, keys=keys)

    def begin(self) -> None:
        super().begin()
        if self.keys is not None:
            self.keys.decoder.begin()

    def read(self, messages: pa.RecordBatch) -> Decoded:
        values = messages.column(VALUE)
        decoded = self.decoded(values)
        if self.keys is not None:
            decoded = self.keys.joined(decoded, messages)
        return self._with_kinds(decoded, values) if self.upserts else decoded

    def decoded(self, values: pa.Array) -> Decoded:
        """The rows and faults of messages, without those that are no rows. ``values``: what they hold."""
        decoded = self.decoder.messages(values.cast(pa.binary()))
        if not decoded.faults:
            return decoded
        left = [f for f in decoded.faults if not self._is_none(values[f.record].as_py())]
        return replace(decoded, faults=left, origins=decoded.numbers)

    def _is_none(self, value: bytes | None) -> bool:
        return value is None or (self.skips_blank and not value.strip())

    def _with_kinds(self, decoded: Decoded, values: pa.Array) -> Decoded:
        given = values.is_valid().take(pa.array(decoded.numbers))
        kinds = pc.if_else(given, "+U", "-D")
        arrays, names = [*decoded.rows.columns, kinds], [*decoded.rows.schema.names, ROW_KIND]
        return replace(decoded, rows=pa.RecordBatch.from_arrays(arrays, names), origins=decoded.numbers)

    def _good(self, batch: pa.RecordBatch, decoded: Decoded) -> pa.Array:
        return records_of_messages(batch, decoded.numbers) if self.placed else super()._good(batch, decoded)

    def _place(self, batch: pa.RecordBatch, fault: Fault) -> str | None:
        return place_of(batch, fault.record)


@dataclass(frozen=True)
class RowsOfMessages:
    """Decodes messages that have columns of ``fetched.FIELDS``. The rows have the columns of ``records``, by ``names``,
    and the columns ``kept`` of their message, which may be LIFT.
    """

    records: TopicRecords
    kept: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of what is decoded: a table may have columns of the names that fields of messages have."""
        hidden = (BAD, ROW_KIND)
        return tuple(f.name if f.name in hidden else f"value{i}" for i, f in enumerate(self.records.schema))

    @property
    def ddl(self) -> str:
        """The schema of the rows in Spark's DDL syntax."""
        own = (f"{name} {from_arrow(f.type).ddl()}" for name, f in zip(self.names, self.records.schema, strict=True))
        return ", ".join((*own, ddl_of_messages(self.kept)) if self.kept else own)

    def rows(self, messages: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of batches of messages. ExecutionError SS402 for a record that cannot be read, if bad ones are not
        tolerated.
        """
        self.records.begin()
        names = self.names
        for batch in messages:
            named = with_values(batch)
            rows = self.records.of(named)
            others = [name for name in named.schema.names if name != VALUE]
            kept = (rows.column(len(names) + others.index(name)) for name in self.kept)
            yield pa.RecordBatch.from_arrays([*rows.columns[: len(names)], *kept], [*names, *self.kept])
