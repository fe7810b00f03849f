"""Values in texts, the same in every format: ``docs/formats.md`` has the rules, and their tests are made from it.

The rules are those of Flink's deserialisers of CSV and JSON (``CsvToRowDataConverters``, ``JsonToRowDataConverters``);
where Flink has none, or it has several, what Spark's CAST of a text says.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.formats.number_texts import DecimalRule, FloatRule, WholeNumberRule
from sqlstream.formats.text_rule import TextRule, bytes_of, offsets_of, trimmed, where
from sqlstream.formats.time_texts import DateRule, InstantRule, IntervalRule, TimeRule, TimestampRule
from sqlstream.types import DataType


def text_rule(kind: DataType, zone: str = "UTC", standard: str | None = None) -> TextRule:
    """Returns the rule that converts texts into values of the scalar type ``kind``.

    ``zone``: the session's time zone, for a TIMESTAMP without an offset. ``standard``: the required form of
    timestamps, "SQL" or "ISO-8601"; None accepts both. Raises TypeError for nested types, VARIANT and year-month
    intervals.
    """
    rule = _RULES.get(kind.name)
    if rule is None:
        raise TypeError(f"no text is read as {kind}")
    return rule(kind, zone, standard)


class StringRule(TextRule):
    """Reads STRING: the text unchanged."""

    def cast(self, texts: pa.Array) -> pa.Array:
        return texts


class BooleanRule(TextRule):
    """Parses BOOLEAN: ``true`` in any case is TRUE, every other text is FALSE (``Boolean.parseBoolean``)."""

    def cast(self, texts: pa.Array) -> pa.Array:
        return pc.equal(pc.ascii_lower(trimmed(texts)), "true")


class BinaryRule(TextRule):
    """Parses BINARY: Base64 with padding. White space is ignored."""

    def cast(self, texts: pa.Array) -> pa.Array:
        spelled = pc.replace_substring_regex(texts, r"[\x00-\x20]+", "")
        spelled = where(pc.match_substring_regex(spelled, "^[A-Za-z0-9+/]*={0,2}$"), spelled)
        lengths = pc.binary_length(spelled)
        spelled = where(pc.equal(pc.bit_wise_and(lengths, 3), 0), spelled)
        # All texts in a row, in each four characters are three bytes; padding is at the end of a text.
        present = pa.concat_arrays([spelled.fill_null("")])
        characters, ends = bytes_of(present), offsets_of(present)
        quads = _BASE64[characters[ends[0] : ends[-1]]].reshape(-1, 4).astype(np.uint32)
        packed = (quads[:, 0] << 18) | (quads[:, 1] << 12) | (quads[:, 2] << 6) | quads[:, 3]
        raw = np.stack([packed >> 16, packed >> 8, packed], axis=1).astype(np.uint8).ravel()
        padded = (characters[ends[0] : ends[-1]] == ord("=")).reshape(-1, 4)
        kept = np.stack([np.ones(len(quads), bool), ~padded[:, 2], ~padded[:, 3]], axis=1).ravel()
        totals = np.concatenate([[0], np.cumsum(kept)])
        offsets = totals[(ends - ends[0]) // 4 * 3].astype(np.int32)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(raw[kept])]
        return where(pc.is_valid(spelled), pa.Array.from_buffers(pa.binary(), len(texts), buffers))


class NothingRule(TextRule):
    """Reads VOID: every text is valid and becomes NULL."""

    def cast(self, texts: pa.Array) -> pa.Array:
        return pa.nulls(len(texts))

    def misfits(self, texts: pa.Array, values: pa.Array) -> np.ndarray:
        return np.zeros(len(texts), bool)


_BASE64 = np.zeros(256, np.uint8)
_BASE64[np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)] = np.arange(64)

_RULES: dict[str, type[TextRule]] = {
    "STRING": StringRule,
    "BOOLEAN": BooleanRule,
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT"), WholeNumberRule),
    **dict.fromkeys(("FLOAT", "DOUBLE"), FloatRule),
    "DECIMAL": DecimalRule,
    "DATE": DateRule,
    "TIME": TimeRule,
    "TIMESTAMP": InstantRule,
    "TIMESTAMP_NTZ": TimestampRule,
    "INTERVAL": IntervalRule,
    "BINARY": BinaryRule,
    "VOID": NothingRule,
}
