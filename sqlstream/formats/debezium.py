"""Values of Debezium's messages by their logical types: ``io.debezium.time.*`` and ``org.apache.kafka.connect.data.*``.

Debezium writes dates as days, and times as counts of a unit that depends on the column of the database. A message says
which where it has its schema (``debezium-json.schema-include``); else the option ``debezium-json.time-unit`` does.
Without either a number is no date and no time: 9999 may be a year, or 1997-05-18.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.formats.text_rule import bytes_of, offsets_of, where
from sqlstream.formats.values import text_rule
from sqlstream.types import BIGINT, DataType

_NUMBER = r"^\s*[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?\s*$"
"""A text that is a number, which is no DATE and no time by itself."""
_WHOLE = r"^\s*[+-]?[0-9]+\s*$"

_TIMES = frozenset({"DATE", "TIME", "TIMESTAMP", "TIMESTAMP_NTZ"})
_DAYS = frozenset({"io.debezium.time.Date", "org.apache.kafka.connect.data.Date"})
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_UNITS = {
    "io.debezium.time.Timestamp": "ms",
    "io.debezium.time.Time": "ms",
    "org.apache.kafka.connect.data.Timestamp": "ms",
    "org.apache.kafka.connect.data.Time": "ms",
    "io.debezium.time.MicroTimestamp": "us",
    "io.debezium.time.MicroTime": "us",
    "io.debezium.time.NanoTimestamp": "ns",
    "io.debezium.time.NanoTime": "ns",
}
_FIRST, _LAST = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The microseconds of the years 1 to 9999."""
_DAY = 86_400_000_000
_MOST_MILLIS = (1 << 63) // 1000 - 1
_LONGEST = 16
"""Bytes of a DECIMAL."""


def is_logical(kind: DataType, *, by_schema: bool, by_unit: bool) -> bool:
    """True where a value of the type may be a number that counts, or the bytes of one."""
    return ((by_schema or by_unit) and kind.name in _TIMES) or (by_schema and kind.name == "DECIMAL")


class LogicalType(NamedTuple):
    """The logical type of a column in one schema, and the scale of a Decimal."""

    name: str | None
    scale: int = 0


@dataclass(frozen=True)
class LogicalColumn:
    """The logical types of one column: ``types``, one for each schema, and ``schemas``, the number of that of each
    row.
    """

    types: tuple[LogicalType, ...]
    schemas: np.ndarray

    def of(self, rows: np.ndarray) -> LogicalColumn:
        """Those of some rows, by their numbers."""
        return LogicalColumn(self.types, self.schemas[rows])


@dataclass(frozen=True)
class LogicalTypes:
    """The logical types that messages declare. ``schemas``: the field ``schema`` of each, NULL without one."""

    schemas: pa.StringArray

    def of(self, column: str) -> LogicalColumn:
        """The logical types of a column."""
        known, numbers = self._known
        nothing = LogicalType(None)
        return LogicalColumn((*(types.get(column, nothing) for types in known), nothing), numbers)

    @cached_property
    def _known(self) -> tuple[list[dict[str, LogicalType]], np.ndarray]:
        """The columns of each distinct schema, of which a stream has few, and the number of that of each message."""
        coded = self.schemas.dictionary_encode()
        known = [dict(_declared(text)) for text in coded.dictionary.to_pylist()]
        return known, coded.indices.fill_null(len(known)).to_numpy(zero_copy_only=False)


def _declared(text: str) -> Iterator[tuple[str, LogicalType]]:
    """The logical types of the columns in a schema of Kafka Connect."""
    try:
        schema = json.loads(text)
    except ValueError:
        return
    images = [f for f in _fields(schema) if f.get("field") in ("after", "before")]
    for item in _fields(images[0]) if images else ():
        parameters = item.get("parameters")
        scale = str(parameters.get("scale")) if isinstance(parameters, dict) else ""
        if isinstance(item.get("name"), str) and isinstance(item.get("field"), str):
            yield item["field"], LogicalType(item["name"], int(scale) if scale.lstrip("-").isdecimal() else 0)


def _fields(schema: Any) -> list[dict[str, Any]]:
    fields = schema.get("fields") if isinstance(schema, dict) else None
    return [item for item in fields if isinstance(item, dict)] if isinstance(fields, list) else []


@dataclass(frozen=True)
class LogicalRule:
    """Converts texts of values into DATE, TIME, timestamps or DECIMAL.

    ``unit``: what numbers without logical type count, "ms", "us" or "ns"; None: nothing. ``zone``, ``standard``: see
    ``text_rule``, which reads all other texts.
    """

    kind: DataType
    unit: str | None = None
    zone: str = "UTC"
    standard: str | None = None

    def read(self, texts: pa.StringArray, logical: LogicalColumn | None = None) -> tuple[pa.Array, np.ndarray]:
        """Returns the values, and a mask of the texts that do not fit, whose value is NULL.

        ``logical``: the logical type of each; None where none has one.
        """
        if logical is None:
            logical = LogicalColumn((LogicalType(None),), np.zeros(len(texts), np.intp))
        if self.kind.name == "DECIMAL":
            is_number = np.array([kind.name == _DECIMAL for kind in logical.types])[logical.schemas]
        else:
            is_number = pc.match_substring_regex(texts, _NUMBER).fill_null(False).to_numpy(zero_copy_only=False)
        rule = text_rule(self.kind, self.zone, self.standard)
        values, _ = rule.read(where(~is_number, texts))
        if is_number.any():
            some = pa.array(np.flatnonzero(is_number))
            found = LogicalColumn(logical.types, logical.schemas[is_number])
            counted = (self._decimals if self.kind.name == "DECIMAL" else self._counted)(texts.take(some), found)
            values = pc.replace_with_mask(values, pa.array(is_number), counted)
        return values, rule.misfits(texts, values)

    def _counted(self, texts: pa.StringArray, logical: LogicalColumn) -> pa.Array:
        whole = where(pc.match_substring_regex(texts, _WHOLE), texts)
        numbers, _ = text_rule(BIGINT).read(whole)
        valid = numbers.is_valid().to_numpy(zero_copy_only=False)
        counts = numbers.fill_null(0).to_numpy(zero_copy_only=False)
        if self.kind.name == "DATE":
            known = [self.unit is not None if t.name is None else t.name in _DAYS for t in logical.types]
            valid = valid & np.array(known)[logical.schemas] & (counts >= _FIRST // _DAY) & (counts <= _LAST // _DAY)
            return pa.array(np.where(valid, counts, 0).astype(np.int32), mask=~valid).cast(pa.date32())
        units = [self.unit if t.name is None else _UNITS.get(t.name) for t in logical.types]
        unit = np.array([unit or "" for unit in units])[logical.schemas]
        valid = valid & (unit != "") & ((unit != "ms") | (np.abs(counts) <= _MOST_MILLIS))
        counts = np.where(valid, counts, 0)
        micros = np.select([unit == "ms", unit == "ns"], [counts * 1000, counts // 1000], counts)  # also before 1970
        if self.kind.name == "TIME":
            valid &= (micros >= 0) & (micros < _DAY)
            return pa.array(np.where(valid, micros, 0) * 1000, mask=~valid).cast(self.kind.to_arrow())
        valid &= (micros >= _FIRST) & (micros <= _LAST)
        return pa.array(micros, mask=~valid).cast(self.kind.to_arrow())

    def _decimals(self, texts: pa.StringArray, logical: LogicalColumn) -> pa.Array:
        """Numbers whose bytes the texts have in Base64, with a sign, the most significant first."""
        raw, _ = text_rule(DataType("BINARY")).read(texts)
        lengths = pc.binary_length(raw)
        raw = where(pc.and_(pc.greater(lengths, 0), pc.less_equal(lengths, _LONGEST)), raw).fill_null(b"")
        data, offsets = bytes_of(raw), offsets_of(raw)
        sizes = np.diff(offsets)
        place = np.arange(_LONGEST)[None, :] - (_LONGEST - sizes)[:, None]
        first = np.append(data, np.uint8(0))[np.minimum(offsets[:-1], len(data))]
        sign = np.where(first >= 0x80, np.uint8(0xFF), np.uint8(0))
        inside = np.append(data, np.uint8(0))[np.clip(offsets[:-1, None] + place, 0, len(data))]
        wide = np.where(place >= 0, inside, sign[:, None]).astype(np.uint8)
        little = np.ascontiguousarray(wide[:, ::-1])
        unscaled = pa.Array.from_buffers(pa.decimal128(38, 0), len(raw), [None, pa.py_buffer(little)])
        scales = np.array([f"E{-kind.scale}" for kind in logical.types])[logical.schemas]
        spelled = pc.binary_join_element_wise(unscaled.cast(pa.string()), pa.array(scales, pa.string()), "")
        values, _ = text_rule(self.kind).read(where(sizes > 0, spelled))
        return values
