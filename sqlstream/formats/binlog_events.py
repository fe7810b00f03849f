"""What events of MySQL's and MariaDB's binary log mean for one table: rows of it, the end of a transaction, or a
statement that changes the table in a way of which the log has no rows.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping
from enum import Enum
from types import MappingProxyType

import pyarrow as pa

from sqlstream.formats.binlog import BinlogError, packed
from sqlstream.formats.mysql_texts import ENCODINGS

QUERY, ROTATE, XID, HEARTBEAT, PARTIAL_UPDATE, PAYLOAD = 2, 4, 16, 27, 39, 40
MYSQL_GTID, MYSQL_ANONYMOUS, MYSQL_TAGGED_GTID, MARIADB_GTID = 33, 34, 42, 162
NAMELESS = (MYSQL_ANONYMOUS, MYSQL_TAGGED_GTID)
"""What begins transactions of MySQL that have no GTID, or one with a tag, which is not read."""
QUERY_COMPRESSED = 165
_COMPRESSED = {166: 23, 167: 24, 168: 25, 169: 30, 170: 31, 171: 32}
"""The types of MariaDB's compressed row events, and of what is in them."""

_HEADER = 19
_STANDALONE = 1
_CHARSET, _BEFORE_CHARSET = 4, {0: 5, 1: 9, 3: 5, 6: 0}
"""Of what a session had set: the number of its character sets, and of what may be before that with its bytes, 0 for a
text behind its length.
"""

_END_OF_FIELDS, _CODEC, _SIZE, _UNCOMPRESSED = 0, 2, 3, 255
"""Of a compressed transaction."""


class Effect(Enum):
    """What a statement of the log does."""

    NONE = "nothing that is read"
    COMMIT = "ends a transaction"
    BEGIN = "begins a transaction"
    EMPTIES = "removes rows of the table without naming them"
    REPLACES = "drops, renames or replaces the table"
    CHANGES_ROWS = "changes rows of the table, which it does not name"


def is_standalone(gtid: bytes) -> bool:
    """True where the transaction that an event MARIADB_GTID begins is one statement, which no COMMIT follows."""
    return bool(gtid[_HEADER + 12] & _STANDALONE)


def uncompressed(event: bytes) -> bytes:
    """Returns the event that a compressed row event or query event of MariaDB is; other events are returned unchanged.
    BinlogError where it cannot be read.
    """
    kind = event[4]
    if kind in _COMPRESSED:
        begin = _begin_of_compressed_rows(event, version=1 if kind < 169 else 2)
        what = _COMPRESSED[kind]
    elif kind == QUERY_COMPRESSED:
        begin, what = _begin_of_query(event), QUERY
    else:
        return event
    size = event[begin] & 7
    if event[begin] & 0xF0 != 0x80 or not size:
        raise BinlogError("the log is compressed in a way that is not known")
    length = int.from_bytes(event[begin + 1 : begin + 1 + size], "big")
    try:
        content = zlib.decompress(event[begin + 1 + size :], bufsize=max(length, 1))
    except zlib.error:
        raise BinlogError("a compressed event of the log is damaged") from None
    whole = event[:begin] + content
    return whole[:4] + bytes([what]) + whole[5:9] + len(whole).to_bytes(4, "little") + whole[13:]


def _begin_of_compressed_rows(event: bytes, version: int) -> int:
    """Rows are compressed behind the maps of the columns that are there."""
    at = _HEADER + 8
    if version == 2:
        at += int.from_bytes(event[at : at + 2], "little")
    count, at = (event[at], at + 1) if event[at] < 0xFB else (int.from_bytes(event[at + 1 : at + 3], "little"), at + 3)
    maps = 2 if event[4] in (167, 170) else 1
    return at + maps * ((count + 7) // 8)


def _begin_of_query(event: bytes) -> int:
    variables = int.from_bytes(event[_HEADER + 11 : _HEADER + 13], "little")
    return _HEADER + 13 + variables + event[_HEADER + 8] + 1


def events_of_payload(event: bytes) -> Iterator[bytes]:
    """The events of a transaction that MySQL has compressed, without check sums. BinlogError where it cannot be read.

    https://dev.mysql.com/doc/dev/mysql-server/latest/classbinary__log_1_1Transaction__payload__event.html
    """
    fields, at = dict[int, int](), _HEADER
    while event[at] != _END_OF_FIELDS:
        field, begin = event[at], at + 2
        at = begin + event[at + 1]
        fields[field] = packed(event, begin)[0]
    content = event[at + 1 :]
    if fields.get(_CODEC) != _UNCOMPRESSED:
        try:
            content = pa.decompress(content, fields[_SIZE], "zstd", asbytes=True)
        except (OSError, KeyError):
            raise BinlogError("a compressed transaction of the log is damaged") from None
    at = 0
    while at < len(content):
        size = int.from_bytes(content[at + 9 : at + 13], "little")
        yield content[at : at + size]
        at += size


def statement_of(event: bytes, charsets: Mapping[int, str] = MappingProxyType({})) -> tuple[str, str]:
    """Returns the default database and the text of an event QUERY, which is as its session has sent it. ``charsets``:
    the character set of each collation, by number.
    """
    begin = _begin_of_query(event)
    schema = event[begin - event[_HEADER + 8] - 1 : begin - 1]
    charset = charsets.get(_collation_of_session(event), "utf8")
    return schema.decode(errors="replace"), event[begin:].decode(ENCODINGS.get(charset) or "utf_8", errors="replace")


def _collation_of_session(event: bytes) -> int:
    """The number of the collation in which a session has sent its statement; 0 where the event does not say it."""
    at = _HEADER + 13
    end = at + int.from_bytes(event[_HEADER + 11 : at], "little")
    while at < end and event[at] in _BEFORE_CHARSET:
        at += _BEFORE_CHARSET[event[at]] or event[at + 1] + 2
    return int.from_bytes(event[at + 1 : at + 3], "little") if at < end and event[at] == _CHARSET else 0


# --- statements -----------------------------------------------------------------------------------------------

_IN_QUOTES = r"`(?:[^`]|``)*`|\"(?:[^\"\\]|\\.|\"\")*\"|'(?:[^'\\]|\\.|'')*'"
_COMMENT = re.compile(rf"({_IN_QUOTES})|/\*M?!\d*|\*/|/\*.*?\*/|--\s[^\n]*|#[^\n]*", re.DOTALL)
"""What ``/*!`` begins is a comment for other databases only, and what is in quotes is none."""
_NAME = r"(?:`(?:[^`]|``)+`|\"(?:[^\"]|\"\")+\"|[\w$]+)"
_QUALIFIED = rf"{_NAME}(?:\s*\.\s*{_NAME})?"
_IF = r"(?:IF\s+(?:NOT\s+)?EXISTS\s+)?"
_FLAGS = re.IGNORECASE | re.DOTALL
_ALTER = rf"ALTER\s+(?:ONLINE\s+|IGNORE\s+)*TABLE\s+{_IF}"
_TRUNCATE = re.compile(rf"TRUNCATE\s+(?:TABLE\s+)?({_QUALIFIED})", _FLAGS)
_PARTITIONS = re.compile(
    rf"{_ALTER}({_QUALIFIED})\s.*\b(?:(?:TRUNCATE|DROP|EXCHANGE|DISCARD|IMPORT|CONVERT)\s+PARTITION|CONVERT\s+TABLE"
    r"|(?:DISCARD|IMPORT)\s+TABLESPACE)\b",
    _FLAGS,
)
_EXCHANGED = re.compile(rf"{_ALTER}{_QUALIFIED}\s.*\bEXCHANGE\s+PARTITION\s.*\bWITH\s+TABLE\s+({_QUALIFIED})", _FLAGS)
_CONVERTED = re.compile(rf"{_ALTER}{_QUALIFIED}\s.*\bCONVERT\s+TABLE\s+({_QUALIFIED})", _FLAGS)
_DROP = re.compile(rf"DROP\s+TABLES?\s+{_IF}(.*)", _FLAGS)
_RENAME = re.compile(rf"RENAME\s+TABLES?\s+{_IF}(.*)", _FLAGS)
_RENAMED = re.compile(rf"{_ALTER}({_QUALIFIED})\s.*\bRENAME\s+(?!COLUMN\b|INDEX\b|KEY\b)", _FLAGS)
_DROP_DATABASE = re.compile(rf"DROP\s+(?:DATABASE|SCHEMA)\s+{_IF}({_NAME})", _FLAGS)
_REPLACE = re.compile(rf"CREATE\s+OR\s+REPLACE\s+TABLE\s+({_QUALIFIED})", _FLAGS)
_ROWS = re.compile(r"(?:INSERT|UPDATE|DELETE|REPLACE|LOAD|WITH)\b", _FLAGS)
_EVERY = re.compile(_QUALIFIED)


def effect_of(schema: str, statement: str, table: tuple[str, str], *, folds: bool = False) -> Effect:
    """Returns what a statement means for a table. ``schema``: the default database; ``table``: its database and name;
    ``folds``: names that differ only in their case are the same.
    """
    table = _folded(table) if folds else table
    text = _without_comments(statement)
    word = text[:10].upper().rstrip(";")
    if word in ("COMMIT", "ROLLBACK"):
        return Effect.COMMIT
    if word == "BEGIN" or word.startswith(("XA START", "XA BEGIN")):
        return Effect.BEGIN

    def names(pattern: re.Pattern[str]) -> list[tuple[str, str]]:
        found = pattern.match(text)
        return named(found[1]) if found else []

    def named(names: str) -> list[tuple[str, str]]:
        parts = [_parts(name, schema) for name in _EVERY.findall(names)]
        return list(map(_folded, parts)) if folds else parts

    if any(table in names(pattern) for pattern in (_TRUNCATE, _PARTITIONS, _EXCHANGED)):
        return Effect.EMPTIES
    if any(table in names(pattern) for pattern in (_DROP, _RENAME, _RENAMED, _REPLACE, _CONVERTED)):
        return Effect.REPLACES
    if table[0] in (name for _, name in names(_DROP_DATABASE)):
        return Effect.REPLACES
    if _ROWS.match(text) and table in named(text):
        return Effect.CHANGES_ROWS
    return Effect.NONE


def is_rollback(statement: str) -> bool:
    """True for a statement that undoes a transaction or a part of one."""
    return _without_comments(statement).upper().startswith("ROLLBACK")


def _without_comments(statement: str) -> str:
    return _COMMENT.sub(lambda found: found[1] or " ", statement).strip()


def _folded(table: tuple[str, str]) -> tuple[str, str]:
    return table[0].lower(), table[1].lower()


def _parts(name: str, schema: str) -> tuple[str, str]:
    parts = [_unquoted(part) for part in re.findall(_NAME, name)]
    return (parts[0], parts[1]) if len(parts) == 2 else (schema, parts[0])


def _unquoted(name: str) -> str:
    quote = name[0]
    return name[1:-1].replace(quote * 2, quote) if quote in '`"' else name
