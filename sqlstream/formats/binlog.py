"""Row events of the binary log of MySQL and MariaDB, as columns.

An event has rows of one table, one after the other, and each row is a map of its NULLs and then its values, which have
no marks between them. So a value is found only behind the one before it. But of many events the next value can be read
in one step over arrays: thousands of events are read at a time, as many rows of each as it has.

https://dev.mysql.com/doc/dev/mysql-server/latest/classbinary__log_1_1Rows__event.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

TABLE_MAP = 19
WRITE, UPDATE, DELETE = 0, 1, 2
ROW_KINDS = {23: WRITE, 24: UPDATE, 25: DELETE, 30: WRITE, 31: UPDATE, 32: DELETE}
"""What the types of row events do: those of version 1, which MariaDB writes, and of version 2."""

TINY, SHORT, LONG, FLOAT, DOUBLE, LONGLONG, INT24 = 1, 2, 3, 4, 5, 8, 9
DATE, YEAR, VARCHAR, BIT, TIMESTAMP, DATETIME, TIME = 10, 13, 15, 16, 17, 18, 19
DECIMAL, ENUM, SET, BLOB, STRING = 246, 247, 248, 252, 254
JSON = 245
GEOMETRY, VECTOR, COMPRESSED_BLOB, COMPRESSED_VARCHAR = 255, 242, 140, 141
"""Types whose values are skipped, not read."""

_HEADER = 19
_SIZES = {
    TINY: 1, SHORT: 2, INT24: 3, LONG: 4, LONGLONG: 8, FLOAT: 4, DOUBLE: 8, YEAR: 1, DATE: 3,
}  # fmt: skip
_META = {
    FLOAT: 1, DOUBLE: 1, VARCHAR: 2, 253: 2, BLOB: 1, GEOMETRY: 1, JSON: 1, STRING: 2, DECIMAL: 2, BIT: 2, TIMESTAMP: 1,
    DATETIME: 1, TIME: 1, ENUM: 2, SET: 2, VECTOR: 1, COMPRESSED_BLOB: 1, COMPRESSED_VARCHAR: 2,
}  # fmt: skip
"""How many bytes say more of a type; 253 is another number of VARCHAR."""
_NUMBERS = frozenset({TINY, SHORT, INT24, LONG, LONGLONG, FLOAT, DOUBLE, DECIMAL, YEAR})
_TEXTS = frozenset({VARCHAR, 253, BLOB, STRING, COMPRESSED_BLOB, COMPRESSED_VARCHAR})
_PREFIXED = frozenset({BLOB, JSON, GEOMETRY, VECTOR, COMPRESSED_BLOB})
_DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
_SIGNS, _CHARSET, _CHARSETS, _NAMES, _SETS, _ENUMS = 1, 2, 3, 4, 5, 6
_ENUM_CHARSET, _ENUM_CHARSETS = 10, 11


class BinlogError(Exception):
    """Events that cannot be read, and why."""


@dataclass(frozen=True)
class LoggedColumn:
    """A column as the log has it.

    * ``type``: one of the numbers above; ``first`` and ``second``: its sizes, as far as the type has some: for DECIMAL
      the digits and those behind the point, for times those of a second, else the number of bytes.
    * ``collation``: the number of that of a text, 63 for bytes. ``members``: the values of ENUM and SET, encoded.
    """

    name: str
    type: int
    first: int = 0
    second: int = 0
    unsigned: bool = False
    collation: int | None = None
    members: tuple[bytes, ...] = ()

    @property
    def fixed(self) -> int | None:
        """The number of bytes of each value; None where values say it themselves."""
        if self.type == DECIMAL:
            return decimal_bytes(self.first, self.second)
        if self.type in (TIMESTAMP, DATETIME, TIME):
            return {TIMESTAMP: 4, DATETIME: 5, TIME: 3}[self.type] + (self.first + 1) // 2
        if self.type in (ENUM, SET, BIT):
            return self.first
        return _SIZES.get(self.type)

    @property
    def prefix(self) -> int:
        """The number of bytes with the length of a value."""
        return self.first if self.type in _PREFIXED else 1 if self.first < 256 else 2


def decimal_bytes(digits: int, scale: int) -> int:
    """The number of bytes of a DECIMAL: four for nine digits, before the point and behind it."""
    whole = digits - scale
    return whole // 9 * 4 + _DIGIT_BYTES[whole % 9] + scale // 9 * 4 + _DIGIT_BYTES[scale % 9]


# --- tables ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TableMap:
    """A table as it was when the rows that follow were written. ``number``: by which these name it."""

    number: int
    schema: str
    table: str
    columns: tuple[LoggedColumn, ...]

    @staticmethod
    def of(event: bytes) -> TableMap:
        """Reads an event TABLE_MAP. BinlogError where it lacks the names of columns, or has a type that is not read."""
        number, schema, table, at = named_table(event)
        count, at = packed(event, at)
        types = event[at : at + count]
        _, at = packed(event, at + count)
        columns = []
        for type_ in types:
            size = _META.get(type_, 0)
            columns.append(_column(type_, event[at : at + size]))
            at += size
        at += (count + 7) // 8
        more = dict(_fields(event, at))
        if _NAMES not in more:
            raise BinlogError("the log lacks the names of columns")
        described = _described(columns, more)
        return TableMap(number, schema, table, tuple(described))


def named_table(event: bytes) -> tuple[int, str, str, int]:
    """Returns of an event TABLE_MAP the number, the schema and the name, and where the columns begin."""
    number = int.from_bytes(event[_HEADER : _HEADER + 6], "little")
    at = _HEADER + 8
    schema = event[at + 1 : at + 1 + event[at]].decode()
    at += event[at] + 2
    table = event[at + 1 : at + 1 + event[at]].decode()
    return number, schema, table, at + event[at] + 2


def _column(type_: int, meta: bytes) -> LoggedColumn:
    if type_ == STRING and meta[0] in (ENUM, SET):
        return LoggedColumn("", meta[0], meta[1])
    if type_ == STRING:  # two bits of the length are in the type, inverted
        return LoggedColumn("", STRING, meta[1] | ((meta[0] & 0x30) ^ 0x30) << 4)
    if type_ in (VARCHAR, 253):
        return LoggedColumn("", VARCHAR, int.from_bytes(meta, "little"))
    if type_ == COMPRESSED_VARCHAR:
        return LoggedColumn("", type_, int.from_bytes(meta, "little"))
    if type_ == BIT:
        return LoggedColumn("", BIT, meta[1] + (meta[0] > 0))
    if type_ == DECIMAL:
        return LoggedColumn("", DECIMAL, meta[0], meta[1])
    return LoggedColumn("", type_, meta[0] if meta else 0)


def _described(columns: list[LoggedColumn], more: dict[int, bytes]) -> Iterator[LoggedColumn]:
    names = iter(_strings(more[_NAMES]))
    signs = iter(_bits(more.get(_SIGNS, b"")))
    collations = iter(_collations(more, _CHARSET, _CHARSETS, sum(c.type in _TEXTS for c in columns)))
    of_members = iter(_collations(more, _ENUM_CHARSET, _ENUM_CHARSETS, sum(c.type in (ENUM, SET) for c in columns)))
    members = {ENUM: iter(_members(more.get(_ENUMS, b""))), SET: iter(_members(more.get(_SETS, b"")))}
    for c in columns:
        unsigned = c.type in _NUMBERS and next(signs, False)
        collation = next(collations) if c.type in _TEXTS else next(of_members) if c.type in members else None
        values = next(members[c.type], ()) if c.type in members else ()
        yield LoggedColumn(next(names), c.type, c.first, c.second, unsigned, collation, values)


def packed(data: bytes, at: int) -> tuple[int, int]:
    """A number of variable length, and where it ends."""
    size = {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(data[at], 0)
    return (int.from_bytes(data[at + 1 : at + 1 + size], "little"), at + 1 + size) if size else (data[at], at + 1)


def _fields(event: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    while at < len(event):
        size, begin = packed(event, at + 1)
        yield event[at], event[begin : begin + size]
        at = begin + size


def _numbers(data: bytes) -> list[int]:
    numbers, at = [], 0
    while at < len(data):
        number, at = packed(data, at)
        numbers.append(number)
    return numbers


def _strings(data: bytes) -> list[str]:
    strings, at = [], 0
    while at < len(data):
        size, at = packed(data, at)
        strings.append(data[at : at + size].decode())
        at += size
    return strings


def _bits(data: bytes) -> Iterator[bool]:
    for byte in data:
        yield from (bool(byte >> (7 - n) & 1) for n in range(8))


def _collations(more: dict[int, bytes], of_most: int, of_each: int, count: int) -> list[int | None]:
    """The collation of each text: that of most with those of some, or one for each."""
    if of_each in more:
        return list(_numbers(more[of_each]))
    if of_most not in more:
        return [None] * count
    usual, *others = _numbers(more[of_most])
    of_some = dict(zip(others[::2], others[1::2], strict=True))
    return [of_some.get(n, usual) for n in range(count)]


def _members(data: bytes) -> Iterator[tuple[bytes, ...]]:
    at = 0
    while at < len(data):
        count, at = packed(data, at)
        values = []
        for _ in range(count):
            size, at = packed(data, at)
            values.append(data[at : at + size])
            at += size
        yield tuple(values)


# --- rows -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spans:
    """Where the values of a column are in the data. ``present``: false for NULL."""

    starts: np.ndarray
    lengths: np.ndarray
    present: np.ndarray


@dataclass(frozen=True)
class LoggedRows:
    """Rows of events, in the order of the log. Of an update there are two, the old one first.

    ``events``: the index of the event of each; ``kinds``: WRITE, UPDATE or DELETE; ``old``: as the row was before.
    """

    events: np.ndarray
    kinds: np.ndarray
    old: np.ndarray
    columns: tuple[Spans, ...]


def rows_of(data: np.ndarray, starts: np.ndarray, ends: np.ndarray, table: TableMap) -> LoggedRows:
    """Reads the rows of events that are in ``data`` between these positions, all of ``table``.

    Raises BinlogError where rows lack columns, as they do with binlog_row_image = MINIMAL, or end too early.
    """
    kinds = _kinds(data[starts + 4])
    at = _begin_of_rows(data, starts, kinds, table)
    events, columns = _images(data, at, ends, table)
    order = np.argsort(events, kind="stable")
    of_event = events[order]
    firsts = np.searchsorted(of_event, of_event, "left")
    even = (np.arange(len(of_event)) - firsts) % 2 == 0
    of_row = kinds[of_event]
    old = (of_row == DELETE) | ((of_row == UPDATE) & even)
    spans = tuple(Spans(*(values[order] for values in column)) for column in columns)
    return LoggedRows(of_event, of_row, old, spans)


def _kinds(types: np.ndarray) -> np.ndarray:
    of_type = np.full(256, -1)
    of_type[list(ROW_KINDS)] = list(ROW_KINDS.values())
    kinds: np.ndarray = of_type[types]
    return kinds


def _begin_of_rows(data: np.ndarray, starts: np.ndarray, kinds: np.ndarray, table: TableMap) -> np.ndarray:
    """Where the first row of each event begins. Checks that rows have all columns."""
    at = starts + _HEADER + 8
    second = np.flatnonzero(data[starts + 4] >= 30)
    at[second] += little_endian(data, at[second], 2)
    count = len(table.columns)
    width = little_endian(data, at, 1)
    if count > 250:
        width = little_endian(data, at + 1, 2)
    at = at + (1 if count <= 250 else 3)
    size = (count + 7) // 8
    whole = np.full(size, 0xFF, np.uint8)
    whole[-1] = 0xFF >> (-count % 8)
    updates = kinds == UPDATE
    for some in (slice(None), updates):
        bits = data[at[some][:, None] + np.arange(size)]
        bits[:, -1] &= whole[-1]
        if (width != count).any() or (bits != whole).any():
            raise BinlogError(f'the log has only some columns of "{table.table}"')
        at[some] += size
    return at


def _images(
    data: np.ndarray, at: np.ndarray, ends: np.ndarray, table: TableMap
) -> tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray, np.ndarray]]]:
    """The rows of all events: first the first of each, then the second."""
    size = (len(table.columns) + 7) // 8
    readers = [_reader(data, column) for column in table.columns]
    events: list[np.ndarray] = [np.zeros(0, np.int64)]
    found: list[list[tuple[np.ndarray, np.ndarray, np.ndarray]]] = [[] for _ in readers]
    alive = np.flatnonzero(at < ends)
    while len(alive):
        nulls = at[alive]
        place = nulls + size
        for n, read in enumerate(readers):
            present = data.take(nulls + n // 8, mode="clip") >> np.uint8(n % 8) & 1 == 0
            begins, lengths = read(place)
            begins, lengths = np.where(present, begins, place), np.where(present, lengths, 0)
            found[n].append((begins, lengths, present))
            place = begins + lengths
        if (place > ends[alive]).any():
            raise BinlogError(f'a row of "{table.table}" ends too early')
        at[alive] = place
        events.append(alive)
        alive = alive[place < ends[alive]]
    none = np.zeros(0, np.int64)
    columns = [
        tuple(np.concatenate(part) for part in zip((none, none, none.astype(bool)), *parts, strict=True))
        for parts in found
    ]
    return np.concatenate(events), columns  # type: ignore[return-value]


def _reader(data: np.ndarray, column: LoggedColumn) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """What says of positions where the values there begin and how long they are."""
    fixed = column.fixed
    if fixed is not None:
        return lambda at: (at, np.full(len(at), fixed))
    if column.type not in (VARCHAR, STRING, COMPRESSED_VARCHAR, *_PREFIXED):
        raise BinlogError(f'column "{column.name}" is of a type of the log that is not read ({column.type})')
    prefix = column.prefix
    return lambda at: (at + prefix, little_endian(data, at, prefix))


def little_endian(data: np.ndarray, at: np.ndarray, size: int) -> np.ndarray:
    """The unsigned numbers of ``size`` bytes at these positions."""
    number = np.zeros(len(at), np.int64)
    for n in range(size):
        number |= data.take(at + n, mode="clip").astype(np.int64) << (8 * n)
    return number
