"""The structure of CSV: which lines are records, and which of them only a closer look can cut into fields.

A quote opens a field that begins with it, and is closed by one that a delimiter or the end of the line follows; within
it a doubled quote is one. A quote elsewhere is a character. The escape character takes the next one literally, within
quotes and without. What is closed in a later line is one record; what is never closed ends with its line.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

_LF, _CR = 10, 13
_CHECKED = 1 << 16
"""Bytes that are looked at for UTF-8 at once: where one is wrong, these are decoded again, into wider characters."""
_ESCAPED = 0xDC80, 0xDCFF
"""What Python decodes bytes to that are not UTF-8."""

LONGEST_BROKEN = 1 << 16
"""The most bytes of a record with line breaks where the table has no multi-line: a quote that is closed only behind
them is never closed. So the bytes around a position tell whether a record begins there.
"""


@dataclass(frozen=True)
class Dialect:
    """The syntax of a CSV table: delimiter, quote and escape characters, the text that means NULL, and so on.

    ``quote``, ``escape`` and ``null`` are None where the table has none. ``multi_line``: quoted fields may contain
    line breaks.
    """

    delimiter: str = ","
    quote: str | None = '"'
    escape: str | None = None
    null: str | None = None
    comments: bool = False
    multi_line: bool = False

    def __post_init__(self) -> None:
        if self.escape == self.quote:  # as Spark spells that quotes are doubled
            object.__setattr__(self, "escape", None)

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Dialect:
        """Creates the dialect from the ``csv.*`` options of a table."""
        quote = None if options["csv.disable-quote-character"] else options["csv.quote-character"]
        return cls(
            options["csv.field-delimiter"],
            quote,
            options["csv.escape-character"],
            options["csv.null-literal"],
            bool(options["csv.allow-comments"]),
            bool(options.get("csv.multi-line")),
        )

    @property
    def is_bytes(self) -> bool:
        """True where delimiter, quote and escape are ASCII characters, which are one byte each."""
        return all(c is None or c.isascii() for c in (self.delimiter, self.quote, self.escape))

    @cached_property
    def splitter(self) -> Splitter:
        """The object that splits single records of this dialect into fields."""
        return Splitter(self)


@dataclass
class Lines:
    """The lines of a block as arrays: ``starts`` and ``ends`` are the byte offsets of their content in ``data``.

    ``are_records`` is true for each line that begins a record. A record with several lines is represented by its first
    line, whose end is then the end of the record. ``are_messages``: each line is one message, which may contain line
    breaks, and ``are_null`` is true for those without a value.
    """

    data: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    are_messages: bool = False
    are_records: np.ndarray = field(init=False)
    are_null: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.are_records = self.ends > self.starts
        self.are_null = np.zeros(len(self.starts), bool)

    @classmethod
    def of_block(cls, data: np.ndarray) -> Lines:
        """Finds the lines of a block. A line ends with LF, CR or CR LF."""
        breaks = data == _LF
        is_return = data == _CR
        returns = np.flatnonzero(is_return) if is_return.any() else np.zeros(0, np.int64)
        if len(returns):
            breaks[returns[bytes_at(data, returns + 1) != _LF]] = True
        ends = np.flatnonzero(breaks)
        starts = np.concatenate([[0], ends + 1])
        ends = np.append(ends, len(data))
        if len(returns):
            before = data[np.maximum(ends - 1, 0)]
            ends = ends - ((before == _CR) & (ends > starts) & (bytes_at(data, ends) == _LF))
        last = len(starts) - (starts[-1] == len(data))
        return cls(data, starts[:last], ends[:last])

    def numbers(self) -> np.ndarray:
        """Returns, for each line, the number of the record that it belongs to, from 0."""
        return np.cumsum(self.are_records) - 1

    def of(self, positions: np.ndarray) -> np.ndarray:
        """Returns, for each byte offset, the index of the line that contains it."""
        return np.searchsorted(self.starts, positions, "right") - 1

    def skip(self, dialect: Dialect) -> None:
        """Sets ``are_records`` to false for comments and for lines that contain only white space."""
        firsts = self.data[np.minimum(self.starts, max(len(self.data) - 1, 0))]
        if dialect.comments:
            self.are_records &= firsts != ord("#")
        # A line that begins with a delimiter, such as a tab, has one.
        may_be_blank = (firsts <= 0x20) & (firsts != dialect.delimiter.encode()[0])
        for line in np.flatnonzero(self.are_records & may_be_blank).tolist():
            content = self.data[self.starts[line] : self.ends[line]].tobytes()
            self.are_records[line] = not is_blank(content, dialect)


def bytes_at(data: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Returns the bytes at the given offsets of a block. Offsets outside of the block give a line feed."""
    if not len(data):
        return np.full(len(positions), _LF, np.uint8)
    inside = (positions >= 0) & (positions < len(data))
    found: np.ndarray = np.where(inside, data[np.clip(positions, 0, len(data) - 1)], np.uint8(_LF))
    return found


def is_blank(content: bytes, dialect: Dialect) -> bool:
    """True where a line consists of white space and contains no delimiter, which may be white space itself."""
    return not content.strip(bytes(range(0x21))) and dialect.delimiter.encode() not in content


@dataclass(frozen=True)
class Record:
    """A CSV record split into fields, of which NULL ones are None. ``end``: the byte offset at which the record ends.
    ``fault``: why it is not valid CSV, else None. ``open``: it has a quote that is not closed before the end of the
    text.
    """

    fields: Sequence[bytes | None]
    end: int
    fault: str | None = None
    open: bool = False


class Splitter:
    """Splits single records into fields, byte by byte. It is used for records that Arrow's CSV reader would read
    wrongly.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._delimiter = dialect.delimiter.encode()
        self._quote = dialect.quote.encode() if dialect.quote else None
        self._escape = dialect.escape.encode() if dialect.escape else None
        special = [re.escape(c) for c in (self._delimiter, self._escape) if c]
        self._in_plain = re.compile(b"|".join([*special, b"\r", b"\n"]))
        self._in_quotes = re.compile(b"|".join(re.escape(c) for c in (self._quote, self._escape) if c) or b"(?!)")

    def split(self, data: bytes, start: int, limit: int, names: Sequence[str]) -> Record:
        """Returns the fields of one record, which begins at byte ``start`` of ``data`` and ends before byte ``limit``
        at the latest, and the byte offset of its end. ``names``: the names of the columns, for messages.
        """
        fields: list[bytes | None] = []
        position = start
        while True:
            name = names[len(fields)] if len(fields) < len(names) else None
            of = "" if name is None else f' of column "{name}"'
            quoted = self._quote is not None and data.startswith(self._quote, position, limit)
            read = self._quoted if quoted else self._plain
            value, after, fault = read(data, position, limit)
            if fault is not None:
                return Record((), _end_of_line(data, position, limit), fault.format(of=of), quoted and after >= limit)
            fields.append(value if value or quoted else None)
            if after >= limit or data[after] in (_LF, _CR):
                return Record(fields, after)
            position = after + len(self._delimiter)

    def _plain(self, data: bytes, start: int, limit: int) -> tuple[bytes, int, str | None]:
        value, position, search = b"", start, start
        while True:
            special = self._in_plain.search(data, search, limit)
            if special is None:
                return value + data[position:limit], limit, None
            if special[0] != self._escape or self._escape == self._delimiter:
                return value + data[position : special.start()], special.start(), None
            value += data[position : special.start()]
            position, search = special.end(), special.end() + 1
            if position >= limit or data[position] in (_LF, _CR):
                return b"", position, "the escape character at its end escapes nothing"

    def _quoted(self, data: bytes, start: int, limit: int) -> tuple[bytes, int, str | None]:
        assert self._quote is not None
        value = b""
        position = search = start + len(self._quote)
        while True:
            special = self._in_quotes.search(data, search, limit)
            if special is None:
                return b"", limit, "the quote{of} is never closed"
            if special[0] == self._escape:
                value += data[position : special.start()]
                position, search = special.end(), special.end() + 1
                continue
            if data.startswith(self._quote, special.end(), limit):
                value += data[position : special.end()]
                position = search = special.end() + len(self._quote)
                continue
            after = special.end()
            if after >= limit or data[after] in (_LF, _CR) or data.startswith(self._delimiter, after, limit):
                return value + data[position : special.start()], after, None
            in_one_line = _end_of_line(data, start, limit) >= special.start()
            unclosed = "the quote{of} is never closed"
            return b"", after, "something follows the quotes{of}" if in_one_line else unclosed


def _end_of_line(data: bytes, start: int, limit: int) -> int:
    end = _LINE_BREAK.search(data, start, limit)
    return limit if end is None else end.start()


_LINE_BREAK = re.compile(rb"[\r\n]")


def record_of(data: bytes, start: int, dialect: Dialect, names: Sequence[str] = ()) -> Record:
    """Splits the record that begins at byte ``start`` of a text. ``names``: those of the columns, for messages."""
    record = dialect.splitter.split(data, start, len(data), names)
    if not dialect.multi_line and record.end - start > LONGEST_BROKEN:
        return dialect.splitter.split(data, start, _end_of_line(data, start, len(data)), names)
    return record


# --- which records are regular --------------------------------------------------------------------------------


def escaped(data: np.ndarray, dialect: Dialect) -> np.ndarray:
    """Returns the offsets of the bytes that follow an escape character and are therefore literal."""
    if dialect.escape is None:
        return np.zeros(0, np.int64)
    positions = np.flatnonzero(data == ord(dialect.escape))
    begins = np.concatenate([[True], np.diff(positions) != 1])[: len(positions)]
    indices = np.arange(len(positions))
    in_run = indices - np.maximum.accumulate(np.where(begins, indices, 0)) if len(positions) else indices
    after: np.ndarray = positions[in_run % 2 == 0] + 1
    return after


def quotes(data: np.ndarray, dialect: Dialect, literal: np.ndarray) -> np.ndarray:
    """Returns the offsets of the quote characters that are not escaped. ``literal``: the offsets that ``escaped``
    returned.
    """
    if dialect.quote is None:
        return np.zeros(0, np.int64)
    is_quote = data == ord(dialect.quote)
    positions = np.flatnonzero(is_quote) if is_quote.any() else np.zeros(0, np.int64)
    return positions[~np.isin(positions, literal)] if len(literal) else positions


def are_regular(data: np.ndarray, dialect: Dialect, positions: np.ndarray, literal: np.ndarray) -> bool:
    """True where the quotes of a block alternately open and close fields, so that Arrow's reader splits the block
    correctly.

    ``positions``: the offsets of all quotes. ``literal``: the offsets of escaped bytes. Line breaks in quoted fields
    are allowed.
    """
    if len(positions) % 2:
        return False
    return not _misplaced(data, dialect, positions, literal, np.arange(len(positions)) % 2 == 0).any()


def irregular_lines(lines: Lines, dialect: Dialect) -> np.ndarray:
    """Returns a mask of the lines with misplaced or unclosed quotes, which must be split by ``Splitter`` instead of
    Arrow's reader.
    """
    data = lines.data
    literal = escaped(data, dialect)
    positions = quotes(data, dialect, literal)
    line = lines.of(positions)
    rank = np.arange(len(positions)) - np.searchsorted(line, line)
    wrong = _misplaced(data, dialect, positions, literal, rank % 2 == 0)
    odd: np.ndarray = np.bincount(line, minlength=len(lines.starts)) % 2 == 1
    odd[line[wrong]] = True
    at_ends = literal[literal > 0] - 1
    ends = lines.of(at_ends)
    odd[ends[at_ends + 1 >= lines.ends[ends]]] = True
    return odd


def _misplaced(
    data: np.ndarray, dialect: Dialect, positions: np.ndarray, literal: np.ndarray, opens: np.ndarray
) -> np.ndarray:
    """The quotes that neither open nor close a field, nor are halves of a doubled one. ``opens``: those that should
    open one.
    """
    is_end = np.zeros(256, bool)
    is_end[[_LF, _CR, ord(dialect.delimiter)]] = True
    touches = np.diff(positions) == 1
    before = is_end[bytes_at(data, positions - 1)] & ~np.isin(positions - 1, literal)
    before[1:] |= touches
    behind = is_end[bytes_at(data, positions + 1)]
    behind[:-1] |= touches
    misplaced: np.ndarray = ~np.where(opens, before, behind)
    return misplaced


def length_of_records(data: bytes, dialect: Dialect) -> int:
    """Returns how many bytes of a text are whole records, whatever follows it. The text begins where a record does; its
    quoted fields may have line breaks.
    """
    last = data.rfind(b"\n") + 1
    quote = (dialect.quote or "").encode()
    if not quote or quote not in data:
        return last
    view = np.frombuffer(data, np.uint8)
    if dialect.is_bytes and not (dialect.comments and _begins_with_comment(data)):
        literal = escaped(view, dialect)
        positions = quotes(view, dialect, literal)
        opens = np.arange(len(positions)) % 2 == 0
        if not _misplaced(view, dialect, positions, literal, opens).any():
            feeds = np.flatnonzero(view == _LF)
            ends = feeds[np.searchsorted(positions, feeds) % 2 == 0]
            return int(ends[-1]) + 1 if len(ends) else 0
    position = 0
    while (at := data.find(quote, position)) >= 0:  # lines without quotes are records, or none
        start = max(data.rfind(b, position, at) for b in (b"\n", b"\r")) + 1 or position
        if dialect.comments and data.startswith(b"#", start):
            position = _end_of_line(data, at, len(data))
            continue
        record = dialect.splitter.split(data, start, len(data), ())
        if (
            record.open or data.find(b"\n", record.end) < 0
        ):  # its line end may still come, and ``last`` be in its quotes
            return start
        position = record.end
    return last


def begin_of_record(data: bytes, at: int, dialect: Dialect) -> int:
    """Returns ``at``, where a line begins, or, if this line break is in quotes, the beginning of the first line behind
    that record. The text begins where a record does, and goes on for more than LONGEST_BROKEN bytes from ``at``, or to
    the end of the file. It is that of a table without multi-line.
    """
    quote = (dialect.quote or "").encode()
    if not quote or data.find(quote, 0, at) < 0 or _are_lines(data[:at], dialect):
        return at
    position = 0
    while (found := data.find(quote, position, at)) >= 0:  # lines without quotes are records, or none
        start = max(data.rfind(b, position, found) for b in (b"\n", b"\r")) + 1 or position
        if dialect.comments and data.startswith(b"#", start):
            position = _end_of_line(data, found, len(data))
            continue
        position = record_of(data, start, dialect).end
        if position >= at:
            at = data.find(b"\n", position) + 1 or len(data)
    return at


def _are_lines(data: bytes, dialect: Dialect) -> bool:
    """True where all quotes of a text open and close fields within a line, so that each line is a record."""
    if not dialect.is_bytes or (dialect.comments and _begins_with_comment(data)):
        return False
    view = np.frombuffer(data, np.uint8)
    literal = escaped(view, dialect)
    positions = quotes(view, dialect, literal)
    if not are_regular(view, dialect, positions, literal):
        return False
    feeds = np.flatnonzero(view == _LF)
    return not (np.searchsorted(positions, feeds) % 2).any() and not np.isin(feeds, literal).any()


def _begins_with_comment(data: bytes) -> bool:
    return data.startswith(b"#") or b"\n#" in data or b"\r#" in data


def lines_without_utf8(data: bytes, starts: np.ndarray) -> list[int]:
    """Returns the indices of the lines that are not valid UTF-8. ``starts``: the byte offsets at which lines begin."""
    view, wrong, first = memoryview(data), [], 0
    while first < len(starts):
        last = max(int(np.searchsorted(starts, starts[first] + _CHECKED)), first + 1)
        begin = int(starts[first])
        end = int(starts[last]) if last < len(starts) else len(data)
        places = begin + _places_without_utf8(view[begin:end])
        wrong.extend(np.unique(np.searchsorted(starts, places, "right") - 1).tolist())
        first = last
    return wrong


def _places_without_utf8(text: memoryview) -> np.ndarray:
    """The offsets of the bytes that are not valid UTF-8."""
    try:
        codecs.utf_8_decode(text, "strict", True)
    except UnicodeDecodeError:
        escaped, _ = codecs.utf_8_decode(text, "surrogateescape", True)
        characters = np.frombuffer(escaped.encode("utf-32-le", "surrogatepass"), np.uint32)
        is_wrong = (characters >= _ESCAPED[0]) & (characters <= _ESCAPED[1])
        lengths = 1 + (characters >= 0x80).astype(np.int64) + (characters >= 0x800) + (characters >= 0x10000)
        lengths[is_wrong] = 1
        return (np.cumsum(lengths) - lengths)[is_wrong]
    return np.zeros(0, np.int64)
