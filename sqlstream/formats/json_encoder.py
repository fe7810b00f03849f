"""Rows as objects of JSON, whole columns at a time: what is written is read as what it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.formats.decoder import Field
from sqlstream.formats.json_records import quoted
from sqlstream.formats.text_rule import bytes_of, offsets_of
from sqlstream.types import DataType

_SPECIAL = r'["\\\x00-\x1f]'
_BASE64 = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)
_SECOND = 1_000_000
_LONGEST = 76
"""Digits of Arrow's longest decimals."""


@dataclass(frozen=True)
class JsonEncoder:
    """Encodes rows as JSON in the way of Flink's format ``json``.

    ``standard`` is json.timestamp-format.standard ("SQL" if None); the other options are
    json.encode.decimal-as-plain-number and json.encode.ignore-null-fields. A TIMESTAMP is written in UTC with a ``Z``
    (Flink's TIMESTAMP_LTZ). An INTERVAL is written as Spark spells it. NaN and infinite numbers are strings.
    """

    fields: tuple[Field, ...]
    standard: str | None = None
    plain_decimals: bool = False
    ignores_nulls: bool = False

    def texts(self, rows: pa.RecordBatch) -> pa.StringArray:
        """Returns one JSON object per row, with the fields in declared order."""
        columns = [rows.column(f.name) for f in self.fields]
        return self._objects([f.name for f in self.fields], [f.type for f in self.fields], columns, rows.num_rows)

    def lines(self, rows: pa.RecordBatch) -> bytes:
        """Encodes each row as one line of JSON and returns all lines."""
        texts = pc.binary_join_element_wise(self.texts(rows), "\n", "")
        offsets = offsets_of(texts)
        return bytes_of(texts)[offsets[0] : offsets[-1]].tobytes()

    def _objects(
        self, names: Sequence[str], kinds: Sequence[DataType], columns: Sequence[pa.Array], count: int
    ) -> pa.StringArray:
        if not names:
            return pa.repeat("{}", count)
        members = []
        for name, kind, column in zip(names, kinds, columns, strict=True):
            member = pc.binary_join_element_wise(f",{quoted(name)}:", self._values(kind, column), "")
            members.append(member.fill_null("" if self.ignores_nulls else f",{quoted(name)}:null"))
        joined = pc.binary_join_element_wise(*members, "")
        return _around("{", pc.binary_replace_slice(joined, 0, 1, "").cast(pa.string()), "}")

    def _values(self, kind: DataType, values: pa.Array) -> pa.StringArray:
        """Each value as JSON spells it, NULL for NULL."""
        match kind.name:
            case "STRUCT":
                names = [name for name, _ in kind.fields()]
                kinds = [of for _, of in kind.fields()]
                members = [values.field(i) for i in range(len(names))]
                return pc.if_else(values.is_valid(), self._objects(names, kinds, members, len(values)), None)
            case "ARRAY":
                return _around(
                    "[", _joined(values.offsets, self._values(_type(kind.args[0]), values.values)), "]", values
                )
            case "MAP":
                keys = self._values(_type(kind.args[0]), values.keys)
                items = self._values(_type(kind.args[1]), values.items).fill_null("null")
                entries = pc.binary_join_element_wise(keys, items, ":")
                return _around("{", _joined(values.offsets, entries), "}", values)
        return self._scalars(kind, values)

    def _scalars(self, kind: DataType, values: pa.Array) -> pa.StringArray:
        match kind.name:
            case "STRING":
                return _strings(values)
            case "BINARY":
                return _around('"', _base64(values), '"')
            case "FLOAT" | "DOUBLE":
                return _floats(values)
            case "DECIMAL":
                return _plain(kind, values) if self.plain_decimals else values.cast(pa.string())
            case "TIMESTAMP" | "TIMESTAMP_NTZ":
                texts = values.cast(pa.string())
                return _around(
                    '"', pc.replace_substring(texts, " ", "T") if self.standard == "ISO-8601" else texts, '"'
                )
            case "DATE" | "TIME":
                return _around('"', values.cast(pa.string()), '"')
            case "INTERVAL":
                return _intervals(values)
            case "VOID":
                return pa.nulls(len(values), pa.string())
        return values.cast(pa.string())


def _type(kind: object) -> DataType:
    assert isinstance(kind, DataType)
    return kind


def _around(begin: str, texts: pa.Array, end: str, present: pa.Array | None = None) -> pa.StringArray:
    """The texts with something around them; NULL where ``present`` is."""
    whole = pc.binary_join_element_wise(begin, texts, end, "")
    return whole if present is None else pc.if_else(present.is_valid(), whole, None)


def _joined(offsets: pa.Array, elements: pa.StringArray) -> pa.StringArray:
    """The elements of each list with commas between them; of a list that is NULL anything."""
    return pc.binary_join(pa.ListArray.from_arrays(offsets, elements.fill_null("null")), ",")


def _strings(texts: pa.StringArray) -> pa.StringArray:
    if pc.any(pc.match_substring_regex(texts, _SPECIAL)).as_py():
        for character in ("\\", '"', *map(chr, range(0x20))):  # the backslash first: the others become some
            texts = pc.replace_substring(texts, character, quoted(character)[1:-1])
    return _around('"', texts, '"')


def _floats(values: pa.Array) -> pa.StringArray:
    texts = values.cast(pa.string())
    if pc.all(pc.is_finite(values)).as_py() is not False:
        return texts
    infinite = pc.if_else(pc.greater(values, 0), '"Infinity"', '"-Infinity"')
    odd = pc.if_else(pc.is_nan(values), '"NaN"', infinite)
    return pc.if_else(pc.is_finite(values), texts, odd)


def _plain(kind: DataType, values: pa.Array) -> pa.StringArray:
    """DECIMALs with all their digits. Arrow, as Java, writes small ones with an exponent: not if one is added."""
    scale = kind.args[1]
    assert isinstance(scale, int)
    texts = values.cast(pa.string())
    small = pc.match_substring(texts, "E")
    if not pc.any(small).as_py():
        return texts
    larger = pc.add(
        pc.abs(values.cast(pa.decimal256(_LONGEST - 1, scale))), pa.scalar(Decimal(1), pa.decimal256(40, scale))
    )
    spelled = pc.binary_replace_slice(larger.cast(pa.string()), 0, 1, "0").cast(pa.string())
    signed = pc.if_else(pc.less(values, pa.scalar(Decimal(0), values.type)), _around("-", spelled, ""), spelled)
    return pc.if_else(small, signed, texts)


def _intervals(values: pa.Array) -> pa.StringArray:
    micros = values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    size = np.abs(micros).view(np.uint64)  # the least number has no positive one in int64
    seconds, fraction = np.divmod(size, np.uint64(_SECOND))
    parts = [seconds // 86_400, seconds // 3600 % 24, seconds // 60 % 60, seconds % 60]
    days, hour, minute, second = (pa.array(part).cast(pa.string()) for part in parts)
    two = (pc.utf8_lpad(part, 2, "0") for part in (hour, minute, second))
    clock = pc.binary_join_element_wise(*two, ":")
    digits = pc.utf8_lpad(pa.array(fraction).cast(pa.string()), 6, "0")
    sign = pa.array(np.where(micros < 0, "-", ""))
    amount = pc.binary_join_element_wise(sign, days, " ", clock, ".", digits, "")
    return _around("\"INTERVAL '", pc.if_else(values.is_valid(), amount, None), "' DAY TO SECOND\"")


def _base64(values: pa.BinaryArray) -> pa.StringArray:
    """Base64 with padding: all values in a row, each filled up to whole groups of three bytes."""
    whole = pa.concat_arrays([values.fill_null(b"")])
    offsets = offsets_of(whole).astype(np.int64)
    lengths = np.diff(offsets)
    groups = (lengths + 2) // 3
    starts = np.concatenate([[0], np.cumsum(groups)])
    padded = np.zeros(int(starts[-1]) * 3, np.uint8)
    at = np.arange(offsets[-1] - offsets[0]) + np.repeat(starts[:-1] * 3 - (offsets[:-1] - offsets[0]), lengths)
    padded[at] = bytes_of(whole)[offsets[0] : offsets[-1]]
    three = padded.reshape(-1, 3).astype(np.uint32)
    packed = (three[:, 0] << 16) | (three[:, 1] << 8) | three[:, 2]
    letters = _BASE64[np.stack([(packed >> shift) & 63 for shift in (18, 12, 6, 0)], axis=1)]
    ends, lacking = starts[1:] - 1, groups * 3 - lengths
    letters[ends[lacking > 0], 3] = ord("=")
    letters[ends[lacking > 1], 2] = ord("=")
    buffers = [None, pa.py_buffer((starts * 4).astype(np.int32)), pa.py_buffer(letters.ravel())]
    return pc.if_else(values.is_valid(), pa.Array.from_buffers(pa.string(), len(values), buffers), None)
