"""Rows of files of text, such as CSV and lines of JSON, read by tasks themselves."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.errors import ConnectorError, ExecutionError
from sqlstream.formats import csv, json_records
from sqlstream.formats import lines as formats_lines
from sqlstream.formats.blocks import Block, LineNumbers, TextFile, line_ends
from sqlstream.formats.csv_records import Dialect, is_blank
from sqlstream.formats.decoder import Decoded, Decoder, Fault, cut
from sqlstream.formats.encodings import longer_header
from sqlstream.formats.file_access import LOCAL, FileAccess
from sqlstream.udfs.files.records import ReadRecords, RecordFormat
from sqlstream.udfs.messages import BAD_TYPE, bad_records, said, unreadable_record

WRONG_HEADER = "SS525"

_NO_UTF8 = frozenset({csv.NO_UTF8, json_records.NO_UTF8, formats_lines.NO_UTF8})
_LINE_END = re.compile(rb"\r\n?|\n")


@dataclass(frozen=True)
class Header:
    """Describes the header line of CSV files, which names the columns and is not a record. ``columns``: for each column
    that is read, its position in the line, from 0, and its name. ``count``: how many columns all files have, if that is
    to be checked.
    """

    table: str
    columns: tuple[tuple[int, str], ...]
    dialect: Dialect
    count: int | None = None

    def behind(self, data: pa.Buffer, path: str) -> int | None:
        """Checks the header, the first record in the first block of a file, and returns the position of the first byte
        after it; None if there is no record. Raises ConnectorError SS525 if the header names other columns.
        """
        text, start = data.to_pybytes(), 0
        while start < len(text):
            end = self._end_of_line(text, start)
            line = text[start:end]
            if is_blank(line, self.dialect) or (self.dialect.comments and line.startswith(b"#")):
                start = end
                continue
            record = self.dialect.splitter.split(text, start, len(text), ())
            self._check([(name or b"").decode(errors="replace") for name in record.fields], path)
            return self._end_of_line(text, record.end)
        return None

    def may_be_late(self, text: TextFile) -> bool:
        """True where lines that are no records, such as comments, may come before the header of a file."""
        with text.access.opened(text.path) as file:
            begin = file.read(len(codecs.BOM_UTF8) + 1).removeprefix(codecs.BOM_UTF8)[:1]
        return begin <= b" " or begin == b"#"

    def _end_of_line(self, text: bytes, start: int) -> int:
        """The position after the line feed, the carriage return or both that end the line."""
        end = _LINE_END.search(text, start)
        return len(text) if end is None else end.end()

    def _check(self, names: Sequence[str], path: str) -> None:
        for index, name in self.columns:
            there = names[index] if index < len(names) else None
            if there is None or there.casefold() != name.casefold():
                shown = "no column" if there is None else f'"{there}"'
                message = (
                    f'column {index + 1} in the header of file "{path}" is {shown}, not "{name}" of table '
                    f'"{self.table}"'
                )
                hint = f"A table of CSV files has their columns in their order: {', '.join(names)}."
                raise ConnectorError(WRONG_HEADER, message, hint=hint)
        if self.count is not None and len(names) > self.count:
            message, hint = longer_header(self.table, self.count, path, names)
            raise ConnectorError(WRONG_HEADER, message, hint=hint)


@dataclass(frozen=True)
class TextFormat(RecordFormat):
    """How the text files of a table are read: the encoding of the text, and the decoder that makes rows of it.

    ``dialect``, ``access``: see ``TextFile``.
    """

    decoder: Decoder
    encoding: str = "utf-8"
    dialect: Dialect | None = None
    header: Header | None = None
    tolerant: bool = False
    keeps_records: bool = False
    access: FileAccess = LOCAL

    @property
    def schema(self) -> pa.Schema:
        return self.decoder.schema

    def decoded(self, path: str, begin: int = 0, end: int | None = None) -> Iterator[tuple[Decoded, Read]]:
        """The records of a file that begin between two bytes, block by block. Raises ConnectorError
        SS525 for a header with other columns.
        """
        file = TextFile(path, self.encoding, self.dialect, access=self.access)
        lines, first = LineNumbers(file, self.decoder.returns_end_lines), self._first_record(file, begin)
        for block in file.blocks(begin, end):
            if first is None and self.header is not None:
                behind = self.header.behind(block.data, path)
                first = None if behind is None else block.start + behind
            skipped = block.data.size if first is None else min(max(first - block.start, 0), block.data.size)
            read = Read(path, block, skipped, lines, self.decoder)
            yield _in_encoding(self.decoder.block(block.data.slice(skipped)), self.encoding), read
            lines.passed(block)

    def _first_record(self, file: TextFile, begin: int) -> int | None:
        """Where the records of a file begin at the earliest, behind the header; None if the first block that is read
        shall tell.
        """
        if self.header is None or (begin > 0 and not self.header.may_be_late(file)):
            return 0
        if begin <= 0:
            return None
        for block in file.blocks():
            behind = self.header.behind(block.data, file.path)
            if behind is not None:
                return block.start + behind
        return 0


def _in_encoding(decoded: Decoded, encoding: str) -> Decoded:
    """With faults that name the encoding of the file, of which a byte that it does not have is one that UTF-8 does not
    have either.
    """
    if encoding == "utf-8" or not decoded.faults:
        return decoded
    faults = [
        replace(fault, reason=f"it is no {encoding}") if fault.reason in _NO_UTF8 else fault for fault in decoded.faults
    ]
    return replace(decoded, faults=faults)


@dataclass(frozen=True)
class Read(ReadRecords):
    """A decoded block of a text file, to find lines and texts of its records for messages. The first ``skipped`` bytes
    of the block, the header, were not decoded.
    """

    path: str
    block: Block
    skipped: int
    lines: LineNumbers
    decoder: Decoder

    def lines_at(self, starts: Sequence[int]) -> list[int]:
        """The line numbers in the file of these byte positions. Positions count from the first decoded byte of the
        block.
        """
        return self.lines.of(self.block, [self.skipped + start for start in starts])

    def error(self, fault: Fault) -> ExecutionError:
        (line,) = self.lines_at([fault.start])
        return unreadable_record(f' in line {line} of file "{self.path}"', fault)

    def message(self, fault: Fault) -> str:
        (line,) = self.lines_at([fault.start])
        return f"line {line}: {said(fault)}"

    def bad(self, faults: Sequence[Fault]) -> pa.StructArray:
        numbers = self.lines_at([fault.start for fault in faults])
        return bad_records(faults, [f"{self.path}:{number}" for number in numbers])

    def place(self, row: int, decoded: Decoded) -> str:
        starts = self.decoder.starts(self.block.data.slice(self.skipped))
        record = int(decoded.numbers[row])
        (line,) = self.lines_at([int(starts[min(record, len(starts) - 1)])])
        return f"line {line}"

    def lines_of_good(self, decoded: Decoded) -> np.ndarray | None:
        data = self.block.data.slice(self.skipped)
        ends = self._line_ends(data)
        before = self.lines.before(self.block) + len(self._line_ends(self.block.data.slice(0, self.skipped)))
        is_ended = len(ends) > 0 and int(ends[-1]) == data.size - 1
        if len(ends) + (not is_ended) == decoded.records:  # each line is a record
            return before + 1 + decoded.numbers
        starts = self.decoder.starts(data)
        if len(starts) != decoded.records:
            return None
        return np.asarray(before + 1 + np.searchsorted(ends, starts)[decoded.numbers])

    def _line_ends(self, data: pa.Buffer) -> np.ndarray:
        return line_ends(np.frombuffer(data, np.uint8), returns=self.decoder.returns_end_lines)

    def records(self, decoded: Decoded) -> pa.StructArray:
        data = self.block.data.slice(self.skipped)
        (starts, ends), lines = self.decoder.spans(data), self.lines_of_good(decoded)
        if lines is None or len(starts) != decoded.records:
            return pa.nulls(decoded.rows.num_rows, BAD_TYPE)
        places = pc.binary_join_element_wise(self.path, pa.array(lines).cast(pa.string()), ":")
        texts = cut(data, starts, ends).take(pa.array(decoded.numbers))
        return pa.StructArray.from_arrays([texts, pa.nulls(len(texts), pa.string()), places], fields=[*BAD_TYPE])
