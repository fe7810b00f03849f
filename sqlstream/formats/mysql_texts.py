"""Values of the binary log of MySQL and MariaDB as the server prints them, so that rows of a table and changes in the
log are read by one rule.

Times are those of a session with time_zone = '+00:00'. FLOAT and DOUBLE are spelled as Arrow spells them. BIT is a
number, as ``column + 0`` gives it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.formats import binlog
from sqlstream.formats.avro_cursor import slices
from sqlstream.formats.binlog import BinlogError, LoggedColumn, Spans
from sqlstream.formats.mysql_digits import (
    Part,
    big,
    clock,
    dates,
    decimals,
    integers,
    little,
    matrix_of,
    spans,
    spelled,
)
from sqlstream.formats.text_rule import where
from sqlstream.formats.values import text_rule
from sqlstream.types import DataType

BYTES = "binary"
"""The character set of columns that hold bytes, not texts."""

ENCODINGS: Mapping[str, str] = {
    "armscii8": "", "ascii": "ascii", "big5": "big5", "cp1250": "cp1250", "cp1251": "cp1251", "cp1256": "cp1256",
    "cp1257": "cp1257", "cp850": "cp850", "cp852": "cp852", "cp866": "cp866", "cp932": "cp932", "eucjpms": "cp932",
    "euckr": "cp949", "gb18030": "gb18030", "gb2312": "gb2312", "gbk": "gbk", "greek": "iso8859_7",
    "hebrew": "iso8859_8", "koi8r": "koi8_r", "koi8u": "koi8_u", "latin1": "cp1252", "latin2": "iso8859_2",
    "latin5": "iso8859_9", "latin7": "iso8859_13", "macroman": "mac_roman", "sjis": "shift_jis", "tis620": "tis_620",
    "ucs2": "utf_16_be", "ujis": "euc_jp", "utf16": "utf_16_be", "utf16le": "utf_16_le", "utf32": "utf_32_be",
    "utf8": "utf_8", "utf8mb3": "utf_8", "utf8mb4": "utf_8",
}  # fmt: skip
"""Python's name of each character set, empty for those that it lacks. The characters of eucjpms are those of cp932, in
other bytes.
"""

_OTHERS = {
    "cp866": str.maketrans("№¤", "ⁿ²"), "greek": str.maketrans("‘’", "ʽʼ"), "hebrew": str.maketrans("¯", "‾"),
    "koi8u": str.maketrans("∙", "•"), "sjis": str.maketrans("＼", "\\"), "ujis": str.maketrans("＼", "\\"),
}  # fmt: skip
"""Characters that Python finds in texts, and those that the server takes their bytes for."""


def texts_of(data: np.ndarray, spans: Spans, column: LoggedColumn, charset: str = "utf8mb4") -> pa.Array:
    """Returns the values of a column as texts, NULL where there is none; those of the character set BYTES as bytes.
    ``charset``: that of the column.

    Raises BinlogError for a type that is not read, and for a text that is none of its character set.
    """
    if column.type in (binlog.VARCHAR, binlog.STRING, binlog.BLOB):
        return _strings(data, spans, column, charset)
    if column.type not in _TEXTS:
        raise BinlogError(f'column "{column.name}" is of a type of the log that is not read ({column.type})')
    some = np.flatnonzero(spans.present)
    texts = _TEXTS[column.type](matrix_of(data, spans.starts[some], column.fixed or 0), column, charset)
    if len(some) == len(spans.present):
        return texts
    index = np.cumsum(spans.present) - 1
    return texts.take(pa.array(index, mask=~spans.present))


def values_of(texts: pa.Array, declared: DataType) -> tuple[pa.Array, np.ndarray]:
    """Returns the values of the type ``declared`` of a column by its texts or bytes, and which of them are none of the
    type: these are NULL.
    """
    if declared.name == "BINARY":
        return texts.cast(pa.binary()), np.zeros(len(texts), bool)
    if pa.types.is_binary(texts.type):
        raise BinlogError(f"bytes are no {declared}")
    if declared.name == "BOOLEAN":
        numbers = pc.match_substring_regex(texts, "^-?[0-9]+$").fill_null(True)
        wrong = pc.invert(numbers).to_numpy(zero_copy_only=False)
        return where(numbers, pc.not_equal(texts, "0")), wrong
    return text_rule(declared).read(texts)


# --- texts and bytes ------------------------------------------------------------------------------------------


def _strings(data: np.ndarray, spans: Spans, column: LoggedColumn, charset: str) -> pa.Array:
    raw = slices(data, spans.starts, spans.starts + spans.lengths)
    if charset == BYTES:
        found = pc.binary_join_element_wise(raw, _padding(spans, column), pa.scalar(b"")) if _pads(column) else raw
    else:
        found = decoded(raw, charset)
    return found if spans.present.all() else where(pa.array(spans.present), found)


def _pads(column: LoggedColumn) -> bool:
    return column.type == binlog.STRING


def _padding(spans: Spans, column: LoggedColumn) -> pa.Array:
    """The zeros at the end of a BINARY, which the log leaves out."""
    lacking = np.where(spans.present, column.first - spans.lengths, 0)
    zeros = np.zeros(int(lacking.max(initial=0)) or 1, np.uint8)
    ends = np.cumsum(lacking)
    offsets = np.concatenate(([0], ends)).astype(np.int32)
    content = pa.py_buffer(np.zeros(max(int(offsets[-1]), len(zeros)), np.uint8))
    return pa.Array.from_buffers(pa.binary(), len(lacking), [None, pa.py_buffer(offsets), content])


def decoded(raw: pa.Array, charset: str) -> pa.Array:
    """Returns texts of a character set. Of one that is not UTF-8 each different text is decoded once."""
    encoding = ENCODINGS.get(charset, "")
    if not encoding:
        raise BinlogError(f"texts of the character set {charset} are not read")
    if encoding in ("utf_8", "ascii"):
        try:
            return raw.cast(pa.string())
        except pa.ArrowInvalid:
            raise BinlogError(f"a text is none of the character set {charset}") from None
    different = raw.dictionary_encode()
    texts = [_decoded(value, encoding, charset) for value in different.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(different.indices)


def _decoded(value: bytes, encoding: str, charset: str) -> str:
    try:
        if charset in _BY_CHARACTER:
            characters, one = _BY_CHARACTER[charset]
            return "".join(map(one, characters.findall(value)))
        text = value.decode(encoding)
        return text.translate(_OTHERS[charset]) if charset in _OTHERS else text
    except UnicodeDecodeError:
        if encoding == "cp1252":  # the server takes the five bytes without character for control characters
            return "".join(bytes([b]).decode("cp1252" if b not in _CONTROLS else "latin1") for b in value)
        raise BinlogError(f"a text is none of the character set {charset}") from None


def _of_big5(value: bytes) -> str:
    """Seven characters more than Python's big5 has."""
    return value.decode("cp950" if b"\xf9\xd6" <= value <= b"\xf9\xdc" else "big5")


def _of_eucjpms(value: bytes) -> str:
    """JIS X 0212 behind 0x8F, katakana of half the width behind 0x8E, JIS X 0208 with more rows, and ASCII."""
    if value[0] == 0x8F:
        return value.decode("euc_jp")
    if value[0] == 0x8E or len(value) == 1:
        return value[-1:].decode("cp932")
    row, cell = value[0] - 0xA0, value[1] - 0xA0
    first = (row - 1) // 2 + (0x81 if row <= 62 else 0xC1)
    second = cell + 0x3F + (cell > 63) if row % 2 else cell + 0x9E
    return bytes((first % 256, second % 256)).decode("cp932")


_BY_CHARACTER: Mapping[str, tuple[re.Pattern[bytes], Callable[[bytes], str]]] = {
    "big5": (re.compile(rb"[\x81-\xfe].|.", re.DOTALL), _of_big5),
    "eucjpms": (re.compile(rb"\x8f.{2}|[\x80-\xff].|.", re.DOTALL), _of_eucjpms),
}
"""Character sets that Python lacks: what is a character, and what decodes it."""


_CONTROLS = frozenset(b"\x81\x8d\x8f\x90\x9d")


def _enum(matrix: np.ndarray, column: LoggedColumn, charset: str) -> pa.Array:
    names = decoded(pa.array([b"", *column.members], pa.binary()), charset)
    return names.take(pa.array(little(matrix).astype(np.int64)))


def _set(matrix: np.ndarray, column: LoggedColumn, charset: str) -> pa.Array:
    names = decoded(pa.array(column.members, pa.binary()), charset).to_pylist()
    masks, which = np.unique(little(matrix), return_inverse=True)
    texts = [",".join(name for n, name in enumerate(names) if mask >> n & 1) for mask in masks.tolist()]
    return pa.array(texts, pa.string()).take(pa.array(which))


# --- numbers --------------------------------------------------------------------------------------------------


def _integer(matrix: np.ndarray, column: LoggedColumn, charset: str) -> pa.Array:
    return integers(matrix, unsigned=column.unsigned)


def _bit(matrix: np.ndarray, column: LoggedColumn, charset: str) -> pa.Array:
    return pa.array(big(matrix)).cast(pa.string())


def _year(matrix: np.ndarray, column: LoggedColumn, charset: str) -> pa.Array:
    return spelled([(np.where(matrix[:, 0] == 0, 0, matrix[:, 0].astype(np.int64) + 1900), 4)], len(matrix))


def _float(matrix: np.ndarray, column: LoggedColumn, charset: str) -> pa.Array:
    kind = "<f4" if column.type == binlog.FLOAT else "<f8"
    numbers = np.ascontiguousarray(matrix).view(kind).reshape(-1).astype(np.float64)
    return pa.array(numbers).cast(pa.string())


def _decimal(matrix: np.ndarray, column: LoggedColumn, charset: str) -> pa.Array:
    return decimals(matrix, column.first, column.second)


# --- times ----------------------------------------------------------------------------------------------------


def _with_fraction(matrix: np.ndarray, column: LoggedColumn, parts: list[Part]) -> pa.Array:
    """A time with its fraction of a second, which the last bytes are."""
    digits = column.first
    if digits:
        fraction = big(matrix).astype(np.int64)
        parts = [*parts, ".", (fraction // (10 if digits % 2 else 1), digits)]
    return spelled(parts, len(matrix))


def _date(matrix: np.ndarray, column: LoggedColumn, charset: str) -> pa.Array:
    days = little(matrix).astype(np.int64)
    return spelled([(days >> 9, 4), "-", (days >> 5 & 15, 2), "-", (days & 31, 2)], len(matrix))


def _datetime(matrix: np.ndarray, column: LoggedColumn, charset: str) -> pa.Array:
    packed = big(matrix[:, :5]).astype(np.int64) - (1 << 39)
    return _with_fraction(matrix[:, 5:], column, [*dates(packed >> 22, packed >> 17 & 31), " ", *clock(packed)])


def _timestamp(matrix: np.ndarray, column: LoggedColumn, charset: str) -> pa.Array:
    seconds = big(matrix[:, :4]).astype(np.int64)
    zero = seconds == 0
    days = (seconds // 86_400).astype("datetime64[D]")
    months = days.astype("datetime64[M]").astype(np.int64)
    year, month = months // 12 + 1970, months % 12 + 1
    day = (days - days.astype("datetime64[M]")).astype(np.int64) + 1
    year, month, day = (np.where(zero, 0, part) for part in (year, month, day))
    return _with_fraction(matrix[:, 4:], column, [
        (year, 4), "-", (month, 2), "-", (day, 2), " ", (seconds // 3600 % 24, 2), ":", (seconds // 60 % 60, 2), ":",
        (seconds % 60, 2),
    ])  # fmt: skip


def _time(matrix: np.ndarray, column: LoggedColumn, charset: str) -> pa.Array:
    size = matrix.shape[1] - 3
    packed = big(matrix).astype(np.int64) - (1 << (8 * size + 23))
    negative, packed = packed < 0, np.abs(packed)
    fraction, packed = packed & ((1 << 8 * size) - 1), packed >> 8 * size
    digits = column.first
    behind: list[Part] = [".", (fraction // (10 if digits % 2 else 1), digits)] if digits else []
    return spans(packed, negative, behind)


_TEXTS: Mapping[int, Callable[[np.ndarray, LoggedColumn, str], pa.Array]] = {
    **dict.fromkeys((binlog.TINY, binlog.SHORT, binlog.INT24, binlog.LONG, binlog.LONGLONG), _integer),
    binlog.FLOAT: _float,
    binlog.DOUBLE: _float,
    binlog.DECIMAL: _decimal,
    binlog.BIT: _bit,
    binlog.YEAR: _year,
    binlog.DATE: _date,
    binlog.DATETIME: _datetime,
    binlog.TIMESTAMP: _timestamp,
    binlog.TIME: _time,
    binlog.ENUM: _enum,
    binlog.SET: _set,
}
