"""CSV: blocks of bytes and messages as columns.

Arrow's reader cuts a block into texts, which ``values`` makes values of: with the types of the columns it takes no less
time (234 against 208 + 60 ns a row of seven columns, of which a single fault would throw the whole block away), and it
reads other texts as values than the rules say. It is not asked where it is more lenient than they are: about quotes
that are never closed, or that something follows, and bytes that are no UTF-8. Such records are found beforehand, and
cut one by one; the others of the block stay with Arrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from sqlstream.formats.csv_records import (
    Dialect,
    Lines,
    are_regular,
    bytes_at,
    escaped,
    irregular_lines,
    is_blank,
    lines_without_utf8,
    quotes,
    record_of,
)
from sqlstream.formats.decoder import Decoded, Decoder, Fault, Field, is_utf8, reuse_memory, rows_of_nothing, without
from sqlstream.formats.text_rule import in_one_piece
from sqlstream.formats.values import text_rule
from sqlstream.types import DataType

NO_UTF8 = "the record is not UTF-8"

_SHOWN = 100
"""Characters of a value in a message."""
_BLOCK = 1 << 22
_LARGEST_BLOCK = (1 << 31) - 1
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_ANY_TEXT = frozenset({"STRING", "VOID"})


@dataclass(frozen=True)
class CsvDecoder(Decoder):
    """Decodes CSV into Arrow columns. ``zone``: the session's time zone, used for TIMESTAMP values without an offset.

    A field of type VOID that is not wanted counts as a column of the record, but its value is not parsed.
    """

    fields: Sequence[Field]
    dialect: Dialect = field(default_factory=Dialect)
    zone: str = "UTC"
    returns_end_lines: ClassVar[bool] = True

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([(f.name, f.type.to_arrow()) for f in self.fields if f.wanted])

    def spans(self, data: pa.Buffer) -> tuple[np.ndarray, np.ndarray]:
        view, dialect = np.frombuffer(data, np.uint8), self.dialect
        has_quotes = dialect.quote is not None and dialect.quote.encode() in memoryview(data).tobytes()
        if not (has_quotes or dialect.comments or dialect.delimiter <= " ") and len(view) and _lines(view) >= 0:
            return super().spans(data)
        lines = Lines.of_block(view)
        replace(self, fields=[Field(f.name, DataType("VOID"), wanted=False) for f in self.fields])._exact(data, lines)
        return lines.starts[lines.are_records], lines.ends[lines.are_records]

    def block(self, data: pa.Buffer) -> Decoded:
        reuse_memory()
        view = np.frombuffer(data, np.uint8)
        if not len(view):
            return self._decoded(_Texts(self._no_texts(), np.zeros(0, np.int64)), 0, [], None)
        return self._regular(data, view) or self._exact(data, Lines.of_block(view))

    def messages(self, values: pa.BinaryArray) -> Decoded:
        given = values.cast(pa.binary())
        joined = pc.binary_join_element_wise(given.fill_null(b""), b"\n", b"")
        offsets = np.frombuffer(joined.buffers()[1], np.int32)[joined.offset : joined.offset + len(joined) + 1]
        data = (joined.buffers()[2] or pa.py_buffer(b"")).slice(offsets[0], offsets[-1] - offsets[0])
        starts = (offsets[:-1] - offsets[0]).astype(np.int64)
        ends = (offsets[1:] - offsets[0] - 1).astype(np.int64)
        lines = Lines(np.frombuffer(data, np.uint8), starts, ends, are_messages=True)
        lines.are_null = given.is_null().to_numpy(zero_copy_only=False)
        quick = len(lines.starts) and not self._odd_messages(lines).any()
        return (self._regular(data, lines.data, lines) if quick else None) or self._exact(data, lines)

    def split(self, line: bytes) -> list[str | None] | None:
        """Splits one line, such as a header, into its fields. Returns None where the line is not valid CSV; a field is
        None where it is NULL.
        """
        record = self.dialect.splitter.split(line, 0, len(line), ())
        fields = [None if f is None else f.decode(errors="replace") for f in record.fields]
        return None if record.fault else fields

    # --- whole blocks -----------------------------------------------------------------------------------------

    def _regular(self, data: pa.Buffer, view: np.ndarray, messages: Lines | None = None) -> Decoded | None:
        """The records of a block in which nothing is odd but values and the number of fields; else None.

        ``messages``: those of which it is made, one line each.
        """
        dialect = self.dialect
        if not dialect.is_bytes or not is_utf8(view) or self._has_lines_to_skip(view):
            return None
        literal = escaped(view, dialect)
        positions = quotes(view, dialect, literal)
        if np.isin(bytes_at(view, literal), (10, 13)).any():
            return None
        if not are_regular(view, dialect, positions, literal):
            return None
        texts, wrong = self._read(data)
        total = len(texts.records) + len(wrong)
        if any(w.is_blank for w in wrong):
            return None
        if len(positions) and (messages or not dialect.multi_line) and _lines(view) != total:
            return None  # a line break in quotes, or lines without content
        lines = messages

        def located() -> Lines:
            nonlocal lines
            if lines is None:
                lines = Lines.of_block(view)
                if len(positions) and dialect.multi_line:
                    opened, closed = positions[::2], positions[1::2]
                    before = np.searchsorted(opened, lines.starts) - 1
                    _join(lines, (before >= 0) & (lines.starts <= closed[before]))
            return lines

        return self._decoded(texts, total, wrong, located)

    def _has_lines_to_skip(self, view: np.ndarray) -> bool:
        """True where there may be comments, or lines of white space that Arrow takes for values of a single column."""
        if self.dialect.comments and (view[0] == ord("#") or np.isin(view[:-1][view[1:] == ord("#")], (10, 13)).any()):
            return True
        return (view <= 0x20).sum() > np.isin(view, (10, 13)).sum() if len(self.fields) == 1 else False

    def _read(self, data: pa.Buffer) -> tuple[_Texts, list[_Wrong]]:
        """The texts of the records of a block, and those records that have another number of fields."""
        wrong: list[_Wrong] = []
        names = [str(i) for i in range(len(self.fields))]

        def on_wrong(row: Any) -> str:
            blank = row.actual_columns == 1 and is_blank(row.text.encode(), self.dialect)
            wrong.append(_Wrong(row.number - 1, self._not_so_many(row.actual_columns), blank))
            return "skip"

        parsing = csv.ParseOptions(
            delimiter=self.dialect.delimiter,
            quote_char=self.dialect.quote or False,
            double_quote=True,
            escape_char=self.dialect.escape or False,
            newlines_in_values=self.dialect.multi_line,
            invalid_row_handler=on_wrong,
        )
        converting = csv.ConvertOptions(
            check_utf8=False,
            column_types=dict.fromkeys(names, pa.string()),
            include_columns=[names[i] for i in self._needed] or names[:1],
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        # Arrow leaves out a byte order mark, and of a line without an end takes an empty last field for a quoted one.
        view = memoryview(data)
        before = b"\n" if bytes(view[:3]) == _BYTE_ORDER_MARK else b""
        behind = b"" if bytes(view[-1:]) == b"\n" else b"\n"
        if before or behind:
            data = pa.py_buffer(before + data.to_pybytes() + behind)
        for size in (min(_BLOCK, data.size + 1), min(data.size + 1, _LARGEST_BLOCK)):
            wrong.clear()
            reading = csv.ReadOptions(column_names=names, use_threads=False, block_size=size)
            try:
                table = csv.read_csv(pa.BufferReader(data), reading, parsing, converting)
                break
            except pa.ArrowInvalid:  # a record is longer than Arrow's block
                if size > data.size:
                    raise
        records = np.arange(table.num_rows + len(wrong))
        columns = [in_one_piece(table.column(i)) for i in range(len(self._needed))]
        return _Texts(columns, np.delete(records, [w.record for w in wrong]) if wrong else records), wrong

    # --- blocks with odd records ------------------------------------------------------------------------------

    def _exact(self, data: pa.Buffer, lines: Lines) -> Decoded:
        """The records of any lines: those that are irregular are cut one by one, Arrow reads the others."""
        raw = data.to_pybytes()
        dialect = self.dialect
        if not lines.are_messages:
            lines.skip(dialect)
            odd = np.zeros(len(lines.starts), bool)
        else:
            odd = self._odd_messages(lines)
        odd |= irregular_lines(lines, dialect) if dialect.is_bytes else True
        if not is_utf8(lines.data):
            odd[lines_without_utf8(raw, lines.starts)] = True
        odd &= lines.are_records
        cut: list[_Cut] = []
        behind = 0
        for line in np.flatnonzero(odd).tolist():
            if line < behind:
                continue
            item = self._cut(raw, lines, line)
            cut.append(item)
            behind = line + 1
            if not lines.are_messages and item.end > lines.ends[line]:
                behind = int(lines.of(np.array([item.end]))[0]) + 1
                lines.are_records[line + 1 : behind] = False
                lines.ends[line] = item.end
        odd &= lines.are_records
        numbers = lines.numbers()
        good = np.flatnonzero(lines.are_records & ~odd)
        texts, wrong = self._read_lines(raw, lines, good)
        texts = _Texts(texts.columns, numbers[good[texts.records]])
        wrong = [_Wrong(int(numbers[good[w.record]]), w.reason) for w in wrong]
        texts = texts.merged([(int(numbers[c.line]), c.fields) for c in cut if c.reason is None], self._needed)
        wrong += [_Wrong(int(numbers[c.line]), c.reason) for c in cut if c.reason is not None]
        return self._decoded(texts, int(lines.are_records.sum()), wrong, lambda: lines)

    def _odd_messages(self, lines: Lines) -> np.ndarray:
        """Messages are records whatever they hold: all that are not one line of fields are looked at alone."""
        lines.are_records[:] = True
        breaks = np.flatnonzero((lines.data == 10) | (lines.data == 13))
        odd: np.ndarray = np.bincount(lines.of(breaks), minlength=len(lines.starts)) > 1
        odd |= lines.starts == lines.ends
        firsts = lines.data[lines.starts]
        odd |= (firsts <= 0x20) | (firsts == ord("#"))
        return odd

    def _cut(self, raw: bytes, lines: Lines, line: int) -> _Cut:
        start = int(lines.starts[line])
        limit = int(lines.ends[line]) if lines.are_messages else len(raw)
        if lines.are_messages:
            content = raw[start:limit]
            limit = start + len(content.removesuffix(b"\n").removesuffix(b"\r"))
            is_value = len(self.fields) == 1 and not content and not lines.are_null[line]
            reason = "it is empty" if is_blank(content, self.dialect) and not is_value else None
            if self.dialect.comments and content.startswith(b"#"):
                reason = "it is a comment"
            if reason:
                return _Cut(line, (), limit, self._no_row(reason))
        names = [f.name for f in self.fields]
        if lines.are_messages:
            record = self.dialect.splitter.split(raw, start, limit, names)
        else:
            record = record_of(raw, start, self.dialect, names)
        try:
            raw[start : record.end].decode()
        except UnicodeDecodeError:
            return _Cut(line, (), record.end, NO_UTF8)
        reason = record.fault
        breaks = b"\n" in raw[start : record.end] or b"\r" in raw[start : record.end]
        if reason is None and lines.are_messages and record.end < limit:
            reason = "it has several lines"
        elif reason is None and breaks and not lines.are_messages and not self.dialect.multi_line:
            reason = "a quoted field has a line break, and 'csv.multi-line' is not 'true'"
        if reason is not None:
            return _Cut(line, (), record.end, self._no_row(reason))
        if len(record.fields) != len(self.fields):
            return _Cut(line, (), record.end, self._not_so_many(len(record.fields)))
        return _Cut(line, record.fields, record.end)

    def _read_lines(self, raw: bytes, lines: Lines, good: np.ndarray) -> tuple[_Texts, list[_Wrong]]:
        if not len(good):
            return _Texts(self._no_texts(), np.zeros(0, np.int64)), []
        # Runs of good lines are copied at once.
        breaks = np.flatnonzero(np.diff(good) != 1)
        firsts, lasts = good[np.append(0, breaks + 1)], good[np.append(breaks, len(good) - 1)]
        runs = (raw[s:e] for s, e in zip(lines.starts[firsts].tolist(), lines.ends[lasts].tolist(), strict=True))
        return self._read(pa.py_buffer(b"\n".join(runs) + b"\n"))

    # --- values -----------------------------------------------------------------------------------------------

    @cached_property
    def _needed(self) -> list[int]:
        return [i for i, f in enumerate(self.fields) if f.wanted or f.type.name not in _ANY_TEXT]

    def _no_texts(self) -> list[pa.Array]:
        return [pa.array([], pa.string()) for _ in self._needed]

    def _decoded(self, texts: _Texts, total: int, wrong: list[_Wrong], located: Any) -> Decoded:
        """The rows of texts, and the faults of their values among the ``wrong`` records."""
        values, reasons = [], {w.record: [w.reason] for w in wrong}
        bad = np.zeros(len(texts.records), bool)
        for column, index in zip(texts.columns, self._needed, strict=True):
            item = self.fields[index]
            if self.dialect.null is not None:
                column = pc.if_else(pc.equal(column, self.dialect.null), None, column)
            converted, misfits = text_rule(item.type, self.zone).read(column)
            if misfits.any():
                bad |= misfits
                for row in np.flatnonzero(misfits).tolist():
                    shown = column[row].as_py()[:_SHOWN]
                    reason = f'column "{item.name}" of type {item.type} is "{shown}"'
                    reasons.setdefault(int(texts.records[row]), []).append(reason)
            if item.wanted:
                values.append(converted)
        if bad.any():
            values = without(values, bad)
        count = int((~bad).sum())
        rows = pa.RecordBatch.from_arrays(values, schema=self.schema) if values else rows_of_nothing(count)
        return Decoded(rows, total, self._faults(reasons, located))

    def _faults(self, reasons: dict[int, list[str]], located: Any) -> list[Fault]:
        if not reasons:
            return []
        lines: Lines = located()
        of_records = np.flatnonzero(lines.are_records)
        faults = []
        for record, texts in sorted(reasons.items()):
            start, end = int(lines.starts[of_records[record]]), int(lines.ends[of_records[record]])
            content = lines.data[start:end].tobytes()
            faults.append(Fault(record, 0 if lines.are_messages else start, content, ", ".join(texts)))
        return faults

    def _no_row(self, reason: str) -> str:
        return f"the record is no CSV row of {len(self.fields)} columns: {reason}"

    def _not_so_many(self, fields: int) -> str:
        return self._no_row(f"it has {fields}")


@dataclass(frozen=True)
class _Wrong:
    """A record that cannot be read."""

    record: int
    reason: str
    is_blank: bool = False


@dataclass(frozen=True)
class _Cut:
    """A record that was cut alone: its line, its fields, where it ends, and what is wrong with it."""

    line: int
    fields: Sequence[bytes | None]
    end: int
    reason: str | None = None


@dataclass(frozen=True)
class _Texts:
    """Columns of texts, and the numbers of the records that they are of."""

    columns: Sequence[pa.Array]
    records: np.ndarray

    def merged(self, more: list[tuple[int, Sequence[bytes | None]]], needed: Sequence[int]) -> _Texts:
        """With the fields of other records, in the order of all."""
        if not more:
            return self
        records = np.concatenate([self.records, [record for record, _ in more]])
        order = pa.array(np.argsort(records, kind="stable"))
        columns = []
        for column, index in zip(self.columns, needed, strict=True):
            texts = pa.array([fields[index] for _, fields in more], pa.binary()).cast(pa.string())
            columns.append(pa.concat_arrays([column, texts]).take(order))
        return _Texts(columns, np.sort(records))


def _join(lines: Lines, inside: np.ndarray) -> None:
    """Makes lines that begin inside quotes parts of the record before them."""
    lines.are_records &= ~inside
    ends = np.append(np.flatnonzero(~inside)[1:], len(inside)) - 1
    lines.ends[~inside] = lines.ends[ends]


def _lines(view: np.ndarray) -> int:
    """How many lines a block has; -1 where carriage returns alone end some."""
    returns = np.flatnonzero(view == 13)
    if (bytes_at(view, returns + 1) != 10).any():
        return -1
    return int(np.count_nonzero(view == 10)) + int(view[-1] != 10)
