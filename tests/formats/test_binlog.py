"""Row events of a real MariaDB, read from the files of its binary log: what they say is what a query says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream.formats.binlog import (
    DELETE,
    ROW_KINDS,
    STRING,
    TABLE_MAP,
    UPDATE,
    WRITE,
    BinlogError,
    LoggedColumn,
    LoggedRows,
    Spans,
    TableMap,
    rows_of,
)
from sqlstream.formats.mysql_texts import BYTES, decoded, texts_of
from tests.mariadb_server import MariaDbServer, running_server

_CHECKSUM = 4


@pytest.fixture(scope="module")
def started() -> Iterator[MariaDbServer]:
    with running_server() as server:
        yield server


@pytest.fixture
def server(started: MariaDbServer) -> Iterator[MariaDbServer]:
    started.execute("DROP TABLE IF EXISTS t", "FLUSH BINARY LOGS", "SET GLOBAL binlog_row_metadata = FULL")
    yield started


@dataclass(frozen=True)
class Read:
    """Rows of the log with what they are in."""

    data: np.ndarray
    table: TableMap
    rows: LoggedRows
    charsets: dict[int, str]

    def texts(self, name: str) -> list[Any]:
        (n,) = (n for n, c in enumerate(self.table.columns) if c.name == name)
        column = self.table.columns[n]
        charset = self.charsets.get(column.collation or 0, "utf8mb4")
        found: list[Any] = texts_of(self.data, self.rows.columns[n], column, charset).to_pylist()
        return found


def logged(server: MariaDbServer) -> Read:
    """The events of the newest file that are of the table ``t``, which is not changed in it."""
    content = server.files()[-1].read_bytes()
    table, starts, ends, at = None, [], [], 4
    while at < len(content):
        size = int.from_bytes(content[at + 9 : at + 13], "little")
        end = at + size - _CHECKSUM
        if content[at + 4] == TABLE_MAP:
            table = TableMap.of(content[at:end])
        elif content[at + 4] in ROW_KINDS:
            starts.append(at)
            ends.append(end)
        at += size
    assert table is not None
    assert (table.schema, table.table) == ("shop", "t")
    data = np.frombuffer(content, np.uint8)
    charsets = dict(server.rows("SELECT id, character_set_name FROM information_schema.collations WHERE id > 0"))
    return Read(data, table, rows_of(data, np.array(starts), np.array(ends), table), charsets)


# --- types ----------------------------------------------------------------------------------------------------

_VALUES: dict[str, list[str]] = {
    "TINYINT": ["-128", "127", "0"],
    "TINYINT UNSIGNED": ["0", "255"],
    "SMALLINT": ["-32768", "32767"],
    "SMALLINT UNSIGNED": ["65535"],
    "MEDIUMINT": ["-8388608", "8388607", "-1"],
    "MEDIUMINT UNSIGNED": ["16777215"],
    "INT": ["-2147483648", "2147483647"],
    "INT UNSIGNED": ["4294967295"],
    "BIGINT": ["-9223372036854775808", "9223372036854775807"],
    "BIGINT UNSIGNED": ["18446744073709551615", "9223372036854775808"],
    "DECIMAL(10, 2)": ["-12345678.90", "99999999.99", "0", "-0.01"],
    "DECIMAL(5, 0)": ["-99999", "7"],
    "DECIMAL(9, 9)": ["0.000000001", "-0.999999999"],
    "DECIMAL(65, 30)": ["-12345678901234567890123456789012345.123456789012345678901234567890", "1"],
    "DECIMAL(18, 9) UNSIGNED": ["123456789.987654321"],
    "YEAR": ["0", "1901", "2155", "2024"],
    "DATE": ["'0000-00-00'", "'1000-01-01'", "'9999-12-31'", "'2024-00-10'", "'2024-02-29'"],
    "DATETIME": ["'0000-00-00 00:00:00'", "'1000-01-01 00:00:00'", "'9999-12-31 23:59:59'"],
    "DATETIME(1)": ["'2024-02-29 01:02:03.4'"],
    "DATETIME(3)": ["'2024-02-29 01:02:03.456'", "'0001-01-01 00:00:00.001'"],
    "DATETIME(6)": ["'9999-12-31 23:59:59.999999'", "'2024-02-29 01:02:03.000001'"],
    "TIMESTAMP NULL": ["'0000-00-00 00:00:00'", "'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'"],
    "TIMESTAMP(5) NULL": ["'2000-02-29 23:59:59.98765'"],
    "TIMESTAMP(6) NULL": ["'2038-01-19 03:14:07.999999'", "'1999-12-31 00:00:00.000001'"],
    "TIME": ["'-838:59:59'", "'838:59:59'", "'00:00:00'", "'-00:00:01'", "'23:59:59'"],
    "TIME(1)": ["'-00:00:00.1'", "'12:34:56.7'", "'-01:00:00.0'"],
    "TIME(3)": ["'-00:00:00.001'", "'-23:00:01.999'", "'100:00:00.5'"],
    "TIME(6)": ["'-838:59:58.999999'", "'838:59:58.999999'", "'-00:00:00.000001'"],
    "ENUM('a', 'b c', 'ü')": ["'a'", "'ü'", "''"],
    "SET('x', 'y', 'ü')": ["''", "'x,ü'", "'x,y,ü'"],
    "BIT(1)": ["b'1'", "b'0'"],
    "BIT(12)": ["b'101010101010'"],
    "BIT(64)": ["18446744073709551615"],
    "CHAR(5)": ["'ab  '", "''", "'üüüüü'"],
    "CHAR(200)": ["REPEAT('ü', 200)"],
    "VARCHAR(20)": ["'a b '", "''", "'😀'"],
    "VARCHAR(2000)": ["REPEAT('x', 2000)", "'ü'"],
    "VARCHAR(20) CHARACTER SET latin1": ["'äöü€'", "'plain'"],
    "VARCHAR(20) CHARACTER SET ucs2": ["'äöü'"],
    "VARCHAR(20) CHARACTER SET utf16": ["'😀ä'"],
    "VARCHAR(20) CHARACTER SET gbk": ["'中文'"],
    "VARCHAR(20) CHARACTER SET koi8r": ["'привет'"],
    "VARCHAR(20) CHARACTER SET utf8mb3": ["'äöü'"],
    "CHAR(3) CHARACTER SET ascii": ["'abc'"],
    "TEXT": ["REPEAT('äb', 20000)", "''"],
    "TINYTEXT": ["'t'"],
    "LONGTEXT CHARACTER SET latin1": ["REPEAT('ß', 70000)"],
    "JSON": ["""'{"a": [1, null, "ü"]}'"""],
    "BINARY(4)": ["x'00ff0000'", "x'01020304'", "x'00000000'"],
    "VARBINARY(10)": ["x'00ff00'", "''"],
    "BLOB": ["x'ff00'", "REPEAT(x'00', 300)"],
}  # fmt: skip


def test_values_of_all_types_are_those_of_a_query(server: MariaDbServer):
    columns = ", ".join(f"c{n} {type_}" for n, type_ in enumerate(_VALUES))
    rows = max(map(len, _VALUES.values()))
    values = [
        ", ".join(column[row] if row < len(column) else "NULL" for column in _VALUES.values()) for row in range(rows)
    ]
    server.execute(
        f"CREATE TABLE t (id INT PRIMARY KEY, {columns})",
        *(f"INSERT INTO t VALUES ({row}, {text})" for row, text in enumerate(values)),
    )
    read = logged(server)
    assert read.texts("id") == [str(row) for row in range(rows)]
    for n, type_ in enumerate(_VALUES):
        spelled = f"c{n} + 0" if type_.startswith("BIT") else f"c{n}"
        if "BINARY" not in type_ and "BLOB" not in type_:
            spelled = f"CAST({spelled} AS CHAR)"
        there = [value for (value,) in server.rows(f"SELECT {spelled} FROM t ORDER BY id")]
        assert read.texts(f"c{n}") == there, type_
    signs = [c.unsigned for c in read.table.columns[1:11]]
    assert signs == [False, True] * 5


def test_floats_are_the_same_numbers(server: MariaDbServer):
    server.execute(
        "CREATE TABLE t (f FLOAT, d DOUBLE)",
        "INSERT INTO t VALUES (1.1, 0.1), (-3.4e38, 1.7976931348623157e308), (0, -5e-324), (NULL, NULL)",
    )
    read = logged(server)
    there = server.rows("SELECT f + 0e0, d FROM t")
    assert [None if x is None else np.float32(x) for x in read.texts("f")] == [
        None if f is None else np.float32(f) for f, _ in there
    ]
    assert [None if x is None else float(x) for x in read.texts("d")] == [d for _, d in there]


# --- changes --------------------------------------------------------------------------------------------------


def test_updates_have_the_rows_before_and_after_in_the_order_of_the_log(server: MariaDbServer):
    server.execute(
        "CREATE TABLE t (id INT, v VARCHAR(10))",
        "INSERT INTO t VALUES (1, 'a'), (2, NULL)", "UPDATE t SET v = 'b', id = id + 10", "DELETE FROM t WHERE id = 11",
    )  # fmt: skip
    read = logged(server)
    kinds = read.rows.kinds.tolist()
    assert list(zip(kinds, read.rows.old.tolist(), read.texts("id"), read.texts("v"), strict=True)) == [
        (WRITE, False, "1", "a"), (WRITE, False, "2", None),
        (UPDATE, True, "1", "a"), (UPDATE, False, "11", "b"), (UPDATE, True, "2", None), (UPDATE, False, "12", "b"),
        (DELETE, True, "11", "b"),
    ]  # fmt: skip


def test_many_rows_of_many_events_and_columns(server: MariaDbServer):
    many = ", ".join(f"c{n} INT" for n in range(300))
    server.execute(
        f"CREATE TABLE t (id INT, {many})",
        "INSERT INTO t (id, c0, c150, c299) SELECT seq, seq % 7, NULLIF(seq % 3, 0), seq FROM seq_1_to_2000",
    )
    read = logged(server)
    there = server.rows("SELECT id, c0, c150, c299, c1 FROM t ORDER BY id")
    found = zip(*(read.texts(name) for name in ("id", "c0", "c150", "c299", "c1")), strict=True)
    assert [tuple(None if x is None else int(x) for x in row) for row in found] == there
    assert len(np.unique(read.rows.events)) > 5


def test_names_are_those_at_the_time_of_the_change(server: MariaDbServer):
    server.execute("CREATE TABLE t (`Größe` INT, b INT)", "INSERT INTO t VALUES (1, 2)")
    assert [c.name for c in logged(server).table.columns] == ["Größe", "b"]
    server.execute("ALTER TABLE t CHANGE b c BIGINT, ADD d INT", "FLUSH BINARY LOGS", "INSERT INTO t VALUES (3, 4, 5)")
    read = logged(server)
    assert [c.name for c in read.table.columns] == ["Größe", "c", "d"]
    assert (read.texts("c"), read.texts("d")) == (["4"], ["5"])


def test_logs_without_names_or_with_some_columns_are_refused(server: MariaDbServer):
    server.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 2)")
    with server.connected() as connection, connection.cursor() as cursor:
        cursor.execute("SET binlog_row_image = MINIMAL")
        cursor.execute("UPDATE t SET v = 3")
    with pytest.raises(BinlogError, match=r'^the log has only some columns of "t"$'):
        logged(server)
    server.execute("SET GLOBAL binlog_row_metadata = NO_LOG", "FLUSH BINARY LOGS", "INSERT INTO t VALUES (5, 6)")
    with pytest.raises(BinlogError, match=r"^the log lacks the names of columns$"):
        logged(server)


def test_types_that_are_not_read_are_named(server: MariaDbServer):
    server.execute(
        "CREATE TABLE t (place POINT, v TEXT COMPRESSED, w VARCHAR(300) COMPRESSED, id INT)",
        "INSERT INTO t VALUES (POINT(1, 2), REPEAT('a', 500), REPEAT('b', 300), 7), (NULL, NULL, NULL, 8)",
    )
    read = logged(server)
    assert read.texts("id") == ["7", "8"]
    for name, number in (("place", 255), ("v", 140), ("w", 141)):
        with pytest.raises(
            BinlogError, match=rf'^column "{name}" is of a type of the log that is not read \({number}\)$'
        ):
            read.texts(name)


# --- without a server -----------------------------------------------------------------------------------------


def test_a_row_that_ends_too_early_is_an_error():
    table = TableMap(1, "s", "t", (LoggedColumn("v", STRING, 10),))
    event = bytes(19 + 8) + b"\x01\xff" + b"\x00" + b"\x09abc"
    data = np.frombuffer(event[:4] + b"\x17" + event[5:], np.uint8)
    with pytest.raises(BinlogError, match=r'^a row of "t" ends too early$'):
        rows_of(data, np.array([0]), np.array([len(data)]), table)


def test_texts_that_are_none_of_their_character_set():
    assert decoded(pa.array([b"\x81\x80", None]), "latin1").to_pylist() == ["\x81€", None]
    with pytest.raises(BinlogError, match=r"^a text is none of the character set utf8mb4$"):
        decoded(pa.array([b"\xff"]), "utf8mb4")
    with pytest.raises(BinlogError, match=r"^a text is none of the character set gbk$"):
        decoded(pa.array([b"\xff\xff"]), "gbk")
    with pytest.raises(BinlogError, match=r"^texts of the character set swe7 are not read$"):
        decoded(pa.array([b"a"]), "swe7")


@given(st.lists(st.one_of(st.none(), st.binary(max_size=6)), max_size=20))
def test_zeros_at_the_end_of_a_binary_are_put_back(values: list[bytes | None]):
    stripped = [None if value is None else value.rstrip(b"\0") for value in values]
    data = np.frombuffer(b"".join(value or b"" for value in stripped) + b"\0", np.uint8)
    lengths = np.array([len(value or b"") for value in stripped], np.int64)
    spans = Spans(np.cumsum(lengths) - lengths, lengths, np.array([value is not None for value in stripped], bool))
    found = texts_of(data, spans, LoggedColumn("v", STRING, 6), BYTES).to_pylist()
    assert found == [None if value is None else value.ljust(6, b"\0") for value in values]


@given(st.lists(st.decimals(-(10**12), 10**12, places=11, allow_nan=False), max_size=20))
def test_decimals_are_read_as_they_are_packed(values: list[Decimal]):
    column = LoggedColumn("v", 246, 24, 11)
    data = np.frombuffer(b"".join(map(packed, values)) + b"\0", np.uint8)
    size = column.fixed
    assert size is not None
    starts = np.arange(len(values), dtype=np.int64) * size
    spans = Spans(starts, np.full(len(values), size), np.ones(len(values), bool))
    assert [Decimal(text) for text in texts_of(data, spans, column).to_pylist()] == values


def packed(value: Decimal) -> bytes:
    """A DECIMAL(24, 11) as MySQL stores it: 4 + 9 digits before the point, 9 + 2 behind it."""
    digits = str(abs(int(value.scaleb(11)))).zfill(24)
    groups = ((digits[:4], 2), (digits[4:13], 4), (digits[13:22], 4), (digits[22:], 1))
    stored = bytearray(b"".join(int(group).to_bytes(size, "big") for group, size in groups))
    stored[0] |= 0x80
    return bytes(~byte & 0xFF for byte in stored) if value < 0 else bytes(stored)
