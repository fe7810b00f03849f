"""Rows as CSV that ``CsvDecoder`` reads again: the same rows, or an error that names what the format cannot hold."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.formats.csv_records import Dialect
from sqlstream.formats.decoder import Field
from sqlstream.formats.values import text_rule
from sqlstream.types import DataType

_HELD = frozenset(
    {"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "STRING", "DATE", "TIME"}
    | {"TIMESTAMP", "TIMESTAMP_NTZ", "VOID"}
)
_BEGINNINGS = r"^[\x00-\x20#\x{feff}]"
"""What a line may not begin with: it would be a comment, a byte order mark, or skipped as white space."""
_IN_NUMBERS_AND_TIMES = frozenset("0123456789+-.: truefalsENaInityZ")
_SHOWN = 60
_NO_CONTENT = "makes a line without content, which readers skip"


class NotRepresentable(ValueError):
    """Raised for a value that would be read back as a different one if it were written as CSV.

    ``column`` is the column of the value. It is None where the table's text for NULL itself cannot be written;
    ``value`` is then that text.
    """

    def __init__(self, column: str | None, value: str | None, reason: str) -> None:
        shown = "NULL" if value is None else '"' + repr(value)[1:-1][:_SHOWN] + '"'
        of = "the text that stands for NULL" if column is None else f'a value of column "{column}"'
        super().__init__(f"{of}, {shown}, {reason}")
        self.column, self.value, self.reason = column, value, reason


@dataclass(frozen=True)
class CsvEncoder:
    """Encodes rows with the columns ``fields`` as CSV. ``zone``: the session's time zone, in which TIMESTAMP values
    are written.

    A TIMESTAMP that would be read back as another instant, such as an ambiguous one when clocks are set back, is
    written in UTC with a ``Z``. The constructor raises TypeError for column types that CSV cannot hold, and
    NotRepresentable where the text for NULL cannot be written.
    """

    fields: Sequence[Field]
    dialect: Dialect = field(default_factory=Dialect)
    zone: str = "UTC"

    def __post_init__(self) -> None:
        for item in self.fields:
            if item.type.name not in _HELD:
                raise TypeError(f'format "csv" cannot hold column "{item.name}" of type {item.type}')
        if self.dialect.null is not None:
            self._null_text()

    def block(self, rows: pa.RecordBatch) -> pa.Buffer:
        """Encodes each row as one line and returns all lines. Raises NotRepresentable at the first value that would be
        read back differently.
        """
        lines = pc.binary_join_element_wise(self.messages(rows), b"\n", b"")
        data, offsets = lines.buffers()[2], np.frombuffer(lines.buffers()[1], np.int32)
        return data.slice(0, int(offsets[len(lines)])) if data is not None else pa.py_buffer(b"")

    def messages(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Returns one CSV record per row, without a line end. Raises NotRepresentable as ``block`` does."""
        columns = [self._column(i, item, rows.column(i)) for i, item in enumerate(self.fields)]
        lines = columns[0] if len(columns) == 1 else pc.binary_join_element_wise(*columns, self.dialect.delimiter)
        if len(columns) == 1:
            self._refuse(self.fields[0].name, rows.column(0).cast(pa.string()), pc.equal(lines, ""), _NO_CONTENT)
        return lines.cast(pa.binary())

    def _column(self, index: int, item: Field, values: pa.Array) -> pa.Array:
        texts = self._texts(item, values)
        if self.dialect.null is not None:
            taken = pc.equal(texts, self.dialect.null)
            self._refuse(item.name, texts, taken, "is the text that stands for NULL")
        marks = {*self.dialect.delimiter, *(self.dialect.quote or ""), *(self.dialect.escape or "")}
        plain = item.type.name != "STRING" and not marks & _IN_NUMBERS_AND_TIMES
        fields = texts if plain else self._spelled(item.name, texts, first=index == 0)
        return fields.fill_null("" if self.dialect.null is None else self._null_text(first=index == 0))

    def _null_text(self, *, first: bool = True) -> str:
        text = self._spelled(None, pa.array([self.dialect.null]), first=first)[0].as_py()
        assert isinstance(text, str)
        return text

    def _texts(self, item: Field, values: pa.Array) -> pa.Array:
        """The values as texts that the rule of their type reads as the same values."""
        if item.type.name == "STRING":
            return values
        rule = text_rule(item.type, self.zone)
        values = values.cast(item.type.to_arrow())
        texts = _texts_of(values, item.type, self.zone)
        read, _ = rule.read(texts)
        if item.type.name == "TIMESTAMP" and not read.equals(values):
            in_utc = _texts_of(values, item.type, "UTC")
            texts = pc.if_else(pc.equal(read, values).fill_null(False), texts, in_utc)
            read, _ = rule.read(texts)
        if item.type.name not in ("FLOAT", "DOUBLE", "VOID"):
            differs = pc.invert(pc.equal(read, values).fill_null(False))
            self._refuse(item.name, texts, differs, "is not read again")
        return texts

    def _spelled(self, name: str | None, texts: pa.Array, *, first: bool) -> pa.Array:
        """The texts as fields: quoted and escaped where they must be."""
        delimiter, quote, escape = self.dialect.delimiter, self.dialect.quote, self.dialect.escape
        has_breaks = pc.match_substring_regex(texts, r"[\r\n]")
        if quote is None or not self.dialect.multi_line:
            self._refuse(name, texts, has_breaks, "has a line break")
        spelled = texts if escape is None else pc.replace_substring(texts, escape, escape * 2)
        if quote is None:
            return self._unquoted(name, texts, spelled, first=first)
        beginnings = f"|{_BEGINNINGS}" if first else ""
        special = rf"[{re.escape(delimiter + quote)}\r\n]|^$"
        is_odd = pc.match_substring_regex(texts, special + beginnings)
        if not pc.any(is_odd).as_py():
            return spelled
        within = pc.replace_substring(spelled, quote, (escape or quote) + quote)
        return pc.if_else(is_odd, pc.binary_join_element_wise(quote, within, quote, ""), spelled)

    def _unquoted(self, name: str | None, texts: pa.Array, spelled: pa.Array, *, first: bool) -> pa.Array:
        delimiter, escape = self.dialect.delimiter, self.dialect.escape
        self._refuse(name, texts, pc.equal(texts, ""), "is empty, which without quotes is NULL")
        is_odd = pc.match_substring_regex(texts, _BEGINNINGS if first else "^\0")
        if escape is None:
            has_delimiter = pc.match_substring(texts, delimiter)
            self._refuse(name, texts, has_delimiter, "has a delimiter, and no quotes are allowed")
            if first and (self.dialect.comments or len(self.fields) == 1):
                self._refuse(name, texts, is_odd, "makes a line that is skipped")
            return spelled
        spelled = pc.replace_substring(spelled, delimiter, escape + delimiter)
        is_escaped = pc.or_(pc.starts_with(texts, escape), pc.starts_with(texts, delimiter))
        marked = pc.binary_join_element_wise(escape, spelled, "")
        return pc.if_else(pc.and_not(is_odd, is_escaped), marked, spelled)

    def _refuse(self, name: str | None, texts: pa.Array, condition: pa.Array, reason: str) -> None:
        wrong = pc.and_kleene(pc.is_valid(texts), condition) if reason != _NO_CONTENT else condition
        if pc.any(wrong).as_py():
            raise NotRepresentable(name, texts.filter(wrong)[0].as_py(), reason)


def _texts_of(values: pa.Array, kind: DataType, zone: str) -> pa.Array:
    match kind.name:
        case "FLOAT" | "DOUBLE":  # as Java spells them
            texts = values.cast(pa.string())
            for ours, java in (("nan", "NaN"), ("inf", "Infinity"), ("-inf", "-Infinity")):
                texts = pc.if_else(pc.equal(texts, ours), java, texts)
            return texts
        case "TIME":
            return values.cast(pa.time64("us"), safe=False).cast(pa.string())
        case "TIMESTAMP" if zone == "UTC":
            return values.cast(pa.string())
        case "TIMESTAMP":
            return pc.local_timestamp(values.cast(pa.timestamp("us", zone))).cast(pa.string())
        case "VOID":
            return pa.nulls(len(values), pa.string())
    return values.cast(pa.string())
