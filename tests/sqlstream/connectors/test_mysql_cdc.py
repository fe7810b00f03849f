"""Changes of tables of MySQL and MariaDB: what micro-batches read of a real MariaDB, without Spark."""

from __future__ import annotations

import json
import re
import shutil
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from sqlstream.connectors import validate
from sqlstream.connectors.changes import received_log
from sqlstream.connectors.mysql import copies, log
from sqlstream.connectors.mysql import server as mysql_server
from sqlstream.errors import SqlStreamError
from sqlstream.formats.binlog import TABLE_MAP
from sqlstream.formats.binlog_events import MYSQL_ANONYMOUS, PARTIAL_UPDATE
from sqlstream.formats.mysql_texts import ENCODINGS
from sqlstream.formats.mysql_texts import decoded as decode_texts
from sqlstream.planner.catalog import UPSERT, Column, Table
from sqlstream.types import parse_type
from tests.mariadb_server import PASSWORD, MariaDbServer, running_server
from tests.sqlstream.connectors.change_streams import (
    Open,
    Row,
    Stream,
    declared_table,
    merged,
    opening,
    text_of_error,
)


@pytest.fixture(scope="module")
def started() -> Iterator[MariaDbServer]:
    with running_server() as server:
        yield server


@pytest.fixture(scope="module")
def certificates() -> Iterator[Path]:
    """The folder of an authority's certificate, ``ca.pem``, and one for 127.0.0.1 with its key."""
    directory = Path(tempfile.mkdtemp(prefix="sqlstream-tls-"))
    directory.chmod(0o755)

    def openssl(*words: str) -> None:
        usual = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
        subprocess.run(["openssl", "req", "-x509", *usual, *words], check=True, capture_output=True, cwd=directory)

    if shutil.which("openssl") is None:
        pytest.skip("openssl is not there: apt-get install openssl")
    try:
        openssl("-subj", "/CN=authority", "-keyout", "ca-key.pem", "-out", "ca.pem")
        openssl(
            "-subj", "/CN=server", "-addext", "subjectAltName=IP:127.0.0.1", "-CA", "ca.pem", "-CAkey", "ca-key.pem",
            "-addext", "basicConstraints=critical,CA:FALSE", "-keyout", "key.pem", "-out", "cert.pem",
        )  # fmt: skip
        for path in directory.iterdir():
            path.chmod(0o644)
        yield directory
    finally:
        shutil.rmtree(directory)


@pytest.fixture(scope="module")
def replica(certificates: Path) -> Iterator[MariaDbServer]:
    """Another server, which has TLS."""
    files = [f"--ssl-{name}={certificates / name}.pem" for name in ("ca", "cert", "key")]
    with running_server("--server-id=2", *files) as server:
        yield server


@pytest.fixture
def server(started: MariaDbServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[MariaDbServer]:
    # PyMySQL loads all certificates of the machine for each connection, also to servers without TLS.
    monkeypatch.setattr(
        "pymysql.connections.ssl.create_default_context", lambda **_: ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    )
    yield started
    started.execute("DROP DATABASE shop", "CREATE DATABASE shop CHARACTER SET utf8mb4", database="")


@pytest.fixture
def opened(server: MariaDbServer, tmp_path: Path) -> Iterator[Open]:
    """Opens a stream of a table: ``opened("id INT; v STRING", key=("id",), scan__startup__mode="latest-offset")``."""
    with opening(partial(declared, server), tmp_path) as open_stream:
        yield open_stream


def declared(server: MariaDbServer, *columns: Any, **options: Any) -> Table:
    usual = {
        "hostname": "127.0.0.1", "port": str(server.port), "username": "cdc", "password": PASSWORD,
        "database-name": "shop", "table-name": "t", "heartbeat.interval": "0 s",
    }  # fmt: skip
    return declared_table("mysql-cdc", usual, *columns, **options)


def error_of(action: Callable[[], object]) -> str:
    return text_of_error(action, PASSWORD)


# --- rows and changes -----------------------------------------------------------------------------------------


def test_rows_are_read_first_and_then_their_changes(server: MariaDbServer, opened: Open):
    server.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(10))",
        "INSERT INTO t SELECT seq, CONCAT('v', seq) FROM seq_1_to_5",
    )
    stream = opened("id INT; v STRING", scan__incremental__snapshot__chunk__size="2")
    assert stream.next() == [(1, "v1", "+I"), (2, "v2", "+I")]
    server.execute(
        "BEGIN", "INSERT INTO t VALUES (6, NULL)", "UPDATE t SET v = 'new' WHERE id = 1",
        "DELETE FROM t WHERE id = 2", "COMMIT", "UPDATE t SET id = 7 WHERE id = 4",
    )  # fmt: skip
    assert sorted(stream.next() + stream.next()) == [(3, "v3", "+I"), (4, "v4", "+I"), (5, "v5", "+I")]
    assert stream.all() == [
        (6, None, "+I"), (1, "new", "+U"), (2, "v2", "-D"), (4, "v4", "-D"), (7, "v4", "+I"),
    ]  # fmt: skip
    assert stream.all() == []


def test_a_job_goes_on_where_it_was_and_repeats_what_was_not_complete(server: MariaDbServer, opened: Open):
    server.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t SELECT seq, seq FROM seq_1_to_4")
    stream = opened("id INT; v INT", scan__incremental__snapshot__chunk__size="3")
    rows = stream.next()
    server.execute("UPDATE t SET v = -v WHERE id IN (1, 4)", "FLUSH BINARY LOGS")
    stream.restart()
    assert stream.read() == rows
    rest = stream.all()
    assert merged(rows + rest) == [(1, -1), (2, 2), (3, 3), (4, -4)]
    for _ in range(2):
        server.execute("UPDATE t SET v = v + 10")
        assert stream.plan()
        changed = stream.read()
        assert len(changed) == 4
        stream.stop()
        server.execute("DELETE FROM t WHERE id = 1", "INSERT INTO t VALUES (1, 0)")
        stream.start()
        assert stream.read() == changed
        rest += changed + stream.all()
    assert merged(rows + rest) == [(1, 0), (2, 22), (3, 23), (4, 16)]


def test_a_position_between_transactions_that_follow_each_other_is_of_one_of_them(server: MariaDbServer, opened: Open):
    server.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    stream = opened("id INT", source__max_rows_per_trigger="1")
    assert stream.all() == []
    with server.connected() as one, server.connected() as other:
        for writer, key in ((one, 1), (other, 2)):
            writer.begin()
            writer.query(f"INSERT INTO t VALUES ({key})")
        other.commit()
        one.commit()
    for key in (2, 1):
        assert stream.plan()
        for _ in range(2):
            stream.restart()
            assert stream.read() == [(key, "+I")]
    assert not stream.plan()


def test_a_quiet_table_lets_the_server_forget_its_log(server: MariaDbServer, opened: Open):
    server.execute("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE other (id INT)")
    stream = opened("id INT", heartbeat__interval="1 ms")
    assert stream.all() == []
    before = json.loads(stream.offsets[-1])["lsn"]
    server.execute("INSERT INTO other SELECT seq FROM seq_1_to_100", "FLUSH BINARY LOGS")
    assert stream.plan()
    assert stream.read() == []
    assert json.loads(stream.offsets[-1])["lsn"] != before
    server.execute("INSERT INTO t VALUES (1)")
    assert stream.all() == [(1, "+I")]


def test_a_table_of_no_columns_read_and_one_without_rows_are_read(server: MariaDbServer, opened: Open):
    server.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)")
    stream = opened("id INT")
    stream.columns = ()
    stream.start()
    assert stream.all() == [("+I",), ("+I",)]
    server.execute("CREATE TABLE u (id INT PRIMARY KEY)")
    assert opened("id INT", table_name="u").all() == []


def test_updates_have_the_old_row_where_the_table_asks_for_it(server: MariaDbServer, opened: Open):
    server.execute("CREATE TABLE t (v INT, w VARCHAR(5))", "INSERT INTO t VALUES (1, 'a'), (1, 'a'), (2, 'b')")
    stream = opened("v INT; w STRING", key=(), before=True)
    assert stream.all() == [(1, "a", "+I"), (1, "a", "+I"), (2, "b", "+I")]
    server.execute("UPDATE t SET v = 3 WHERE w = 'b'", "DELETE FROM t WHERE v = 1 LIMIT 1")
    assert stream.all() == [(2, "b", "-U"), (3, "b", "+U"), (1, "a", "-D")]


class Work:
    """Transactions of two connections that overlap, are rolled back or move rows to other keys. Keys are texts that
    only the server can order.
    """

    def __init__(self, server: MariaDbServer, random: Random) -> None:
        self._random = random
        self._keys = [f"{chr(i)}{i}" for i in range(60, 130) if chr(i) not in "\\'"]
        self._writers = [server.connected() for _ in range(2)]
        for writer in self._writers:
            writer.query("SET innodb_lock_wait_timeout = 0, autocommit = 0")

    def step(self) -> None:
        import pymysql

        writer, what = self._random.choice(self._writers), self._random.randrange(9)
        key, other = (self._random.choice(self._keys) for _ in range(2))
        try:
            with writer.cursor() as cursor:
                if what < 3:
                    sql = "INSERT INTO t VALUES (%s, %s) ON DUPLICATE KEY UPDATE v = VALUES(v) + 1"
                    cursor.execute(sql, [key, self._random.randrange(100)])
                elif what < 5:
                    cursor.execute("DELETE FROM t WHERE id = %s", [key])
                elif what == 5:
                    cursor.execute("UPDATE t SET id = %s WHERE id >= %s ORDER BY id LIMIT 1", [other, key])
                elif what == 6:
                    writer.rollback()
                else:
                    writer.commit()
        except pymysql.Error:  # another one has the row, or the key
            writer.rollback()

    def commit(self) -> None:
        for writer in self._writers:
            writer.commit()

    def end(self) -> None:
        self.commit()
        for writer in self._writers:
            writer.close()


@pytest.mark.parametrize(
    ("seed", "locks"), [(0, False), (1, True), *(pytest.param(n, n > 3, marks=pytest.mark.long) for n in range(2, 6))]
)
def test_any_order_of_work_and_of_failures_gives_the_table(
    server: MariaDbServer, opened: Open, seed: int, locks: bool, monkeypatch: pytest.MonkeyPatch
):
    """Also while rows are copied, while micro-batches are repeated by other processes, and for servers that do not say
    the place of a snapshot, so that the table is locked."""
    monkeypatch.setattr("sqlstream.udfs.database_changes._AT_ONCE", 3)
    if locks:
        monkeypatch.setattr(copies, "_with_place", lambda server: None)
    random = Random(seed)
    before = bool(seed % 2)
    server.execute(
        "CREATE TABLE t (id VARCHAR(9) PRIMARY KEY, v INT)",
        "INSERT INTO t SELECT CONCAT(CHAR(seq), seq), seq FROM seq_65_to_122_step_3",
    )
    stream = opened("id STRING; v INT", before=before, scan__incremental__snapshot__chunk__size="4")
    table: dict[Row, Row] = {}
    merged(stream.next(), 1, table)
    work = Work(server, random)
    try:
        for _ in range(70):
            what = random.randrange(12)
            if what < 9:
                work.step()
                continue
            if locks:
                work.commit()
            if what < 11 and stream.plan():
                if random.random() < 0.3:
                    stream.restart()
                merged(stream.read(), 1, table)
            else:
                stream.restart()
    finally:
        work.end()
    merged(stream.all(), 1, table)
    assert sorted(table.values()) == sorted(server.rows("SELECT id, v FROM t"))


def test_tables_are_cut_by_keys_of_all_kinds(server: MariaDbServer, opened: Open):
    """In parts of one row, each in a snapshot of its own, while rows change before and behind them."""
    keys = {
        "BIGINT UNSIGNED": ("DECIMAL(20, 0)", "18446744073709551615", "9223372036854775807", "18446744073709551614"),
        "DECIMAL(30, 10)": ("STRING", "1.0000000001", "1.0000000002", "-7"),
        "VARCHAR(20)": ("STRING", "'it''s %s {}'", "'b\\\\'", "'Ä'"),
        "BINARY(3)": ("BINARY", "x'00ff00'", "x'ff0000'", "x'000000'"),
        "DATETIME(3)": ("TIMESTAMP_NTZ", "'2024-01-01 00:00:00.001'", "'2024-01-01 00:00:00.002'", "'1970-01-01'"),
    }
    for n, (stored, (type_, *values)) in enumerate(keys.items()):
        server.execute(
            f"CREATE TABLE k{n} (a {stored}, b INT, v INT, PRIMARY KEY (a, b))",
            *(f"INSERT INTO k{n} VALUES ({value}, {b}, 0)" for value in values for b in (1, 2)),
        )
        stream = opened(
            f"a {type_}; b INT; v INT", ("a", "b"), table_name=f"k{n}", scan__incremental__snapshot__chunk__size="1"
        )
        rows = []
        for step in range(4):
            rows += stream.next()
            server.execute(f"UPDATE k{n} SET v = v + {step + 1}")
            if step % 2:
                stream.restart()
        rows += stream.all()
        table = merged(rows, 2)
        assert [v for _, _, v in table] == [10] * 6, stored
        assert len(table) == 6


# --- values ---------------------------------------------------------------------------------------------------

_TYPES = {
    "b TINYINT(1)": ("BOOLEAN", "1", "0"),
    "b2 BIT(1)": ("BOOLEAN", "b'1'", "b'0'"),
    "t TINYINT": ("TINYINT", "-128", "NULL"),
    "tu TINYINT UNSIGNED": ("SMALLINT", "255", "0"),
    "i INT": ("INT", "-2147483648", "0"),
    "iz INT(5) ZEROFILL": ("BIGINT", "42", "4294967295"),
    "is_ INT(5) ZEROFILL": ("STRING", "42", "0"),
    "m MEDIUMINT UNSIGNED": ("INT", "16777215", "0"),
    "l BIGINT": ("BIGINT", "-9223372036854775808", "NULL"),
    "lu BIGINT UNSIGNED": ("DECIMAL(20, 0)", "18446744073709551615", "0"),
    "lb BIGINT UNSIGNED": ("BIGINT", "9223372036854775807", "0"),
    "f FLOAT": ("FLOAT", "0.1", "-3.4e38"),
    "fs FLOAT": ("STRING", "0.1", "1.5"),
    "d DOUBLE": ("DOUBLE", "1e300", "-0.1"),
    "ds DOUBLE": ("STRING", "1e300", "0.1"),
    "n DECIMAL(20, 3)": ("DECIMAL(20, 3)", "12345678901234567.125", "-0.001"),
    "n2 DECIMAL(6, 2) UNSIGNED": ("DECIMAL(10, 2)", "9999.99", "0"),
    "v VARCHAR(30)": ("STRING", "'a\\nb\"c,\\\\ \\t😀'", "''"),
    "w VARCHAR(30) CHARACTER SET latin1": ("STRING", "'äöü€'", "''"),
    "c CHAR(5)": ("STRING", "'ab '", "NULL"),
    "x TEXT": ("STRING", "REPEAT('ä', 40000)", "''"),
    "e ENUM('a', 'b c')": ("STRING", "'b c'", "NULL"),
    "s SET('x', 'y')": ("STRING", "'x,y'", "''"),
    "j JSON": ("STRING", "'{\"a\":  [1]}'", "NULL"),
    "bn BINARY(4)": ("BINARY", "x'00ff0000'", "NULL"),
    "vb VARBINARY(10)": ("BINARY", "x'00ff10'", "''"),
    "bl LONGBLOB": ("BINARY", "REPEAT(x'00ff', 40000)", "''"),
    "y YEAR": ("INT", "2024", "1901"),
    "dt DATE": ("DATE", "'1000-01-01'", "'9999-12-31'"),
    "dz DATE": ("STRING", "'0000-00-00'", "'2024-02-29'"),
    "t0 DATETIME(6)": ("TIMESTAMP", "'2024-02-29 23:59:59.999999'", "'1000-01-01'"),
    "t1 DATETIME": ("TIMESTAMP_NTZ", "'9999-12-31 23:59:59'", "'1969-12-31 23:59:59'"),
    "t2 TIMESTAMP(3) NULL": ("TIMESTAMP", "'2024-03-31 00:30:00.25'", "'1970-01-01 00:00:01'"),
    "t3 TIMESTAMP NULL": ("TIMESTAMP_NTZ", "'2024-03-31 00:30:00'", "NULL"),
    "tm TIME(2)": ("STRING", "'-838:59:59'", "'00:00:00.5'"),
}  # fmt: skip


def test_the_log_and_the_rows_that_were_there_have_the_same_values(server: MariaDbServer, opened: Open):
    names = [column.split()[0] for column in _TYPES]
    values = [", ".join(value[n] for value in _TYPES.values()) for n in (1, 2)]
    server.execute(
        f"CREATE TABLE t (id INT PRIMARY KEY, {', '.join(_TYPES)})",
        *(f"INSERT INTO t VALUES ({n}, {text})" for n, text in enumerate(values)),
    )
    columns = "; ".join(f"{name} {type_}" for name, (type_, *_) in zip(names, _TYPES.values(), strict=True))
    stream = opened(f"id INT; {columns}")
    copied = stream.all()
    server.execute("UPDATE t SET id = id + 10")
    retracted = [row for row in stream.all() if row[-1] == "-D"]
    for n, name in enumerate(names):
        assert [row[n + 1] for row in copied] == [row[n + 1] for row in retracted], name
    first = dict(zip(names, copied[0][1:-1], strict=True))
    assert (first["b"], first["b2"], first["lu"], first["ds"]) == (True, True, 2**64 - 1, "1e+300")
    assert (first["bn"], first["w"], first["is_"]) == (b"\x00\xff\0\0", "äöü€", "42")
    assert str(first["t0"]) == "2024-02-29 23:59:59.999999+00:00"


def test_columns_that_are_not_read_may_be_of_any_type(server: MariaDbServer, opened: Open):
    """Columns behind them are found nevertheless, and the signs of numbers."""
    others = {"p": "POINT", "i6": "INET6", "i4": "INET4", "u": "UUID", "g": "GEOMETRY", "c": "TEXT COMPRESSED",
              "d": "VARCHAR(99) COMPRESSED", "y": "YEAR", "j": "JSON"}  # fmt: skip
    types = ", ".join(f"{name} {type_}, {name}1 INT UNSIGNED, {name}2 INT" for name, type_ in others.items())
    server.execute(f"CREATE TABLE t (id INT PRIMARY KEY, {types})")
    numbers = [f"{name}{n}" for name in others for n in (1, 2)]
    stream = opened("id INT; " + "; ".join(f"{name} BIGINT" for name in numbers))
    assert stream.all() == []
    values = {"p": "POINT(1, 2)", "i6": "'::1'", "i4": "'10.0.0.1'", "u": "UUID()", "g": "POINT(1, 2)",
              "c": "REPEAT('x', 999)", "d": "REPEAT('y', 99)", "y": "2024", "j": "'[1]'"}  # fmt: skip
    server.execute(f"INSERT INTO t VALUES (1, {', '.join(f'{value}, 4294967295, -1' for value in values.values())})")
    assert stream.all() == [(1, *[4294967295, -1] * len(others), "+I")]


@pytest.mark.long
def test_rows_may_be_longer_than_a_packet(server: MariaDbServer, opened: Open):
    longest = (1 << 24) - 1
    sizes = [longest - 6, longest - 5, longest - 4, 20_000_000, 1]  # behind the id and the length
    server.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, v LONGTEXT)",
        *(f"INSERT INTO t VALUES ({n}, REPEAT('x', {size}))" for n, size in enumerate(sizes)),
    )
    stream = opened("id INT; v STRING")
    assert [(n, len(v)) for n, v, _ in stream.all()] == list(enumerate(sizes))
    server.execute("UPDATE t SET id = id + 5")
    assert [(n, len(v)) for n, v, kind in stream.all() if kind == "+I"] == list(enumerate(sizes, 5))


_ODD = {
    "tn TIME(6)": ("-00:00:00.000001", "-01:30:00.25", "838:59:59.999999"),
    "t1 TIME(1)": ("-00:00:00.9", "-838:59:59.9", "00:00:00"),
    "t4 TIME(4)": ("-12:00:00.0001", "-00:59:59.9999", "100:00:00.5"),
    "ti TIME": ("-00:00:01", "00:00:00", "838:59:59"),
    "dz DATETIME(3)": ("0000-00-00", "2024-00-10 00:00:00", "9999-12-31 23:59:59.999"),
    "dd DATE": ("2024-02-00", "0000-00-00", "9999-12-31"),
    "tz TIMESTAMP(6) NULL": ("0000-00-00", "1970-01-01 00:00:01", "2038-01-19 03:14:07.999999"),
    "y YEAR": ("0", "2155", "1901"),
    "e ENUM('a', 'b', 'ü')": ("", "ü", "none of them"),
    "s SET('x', 'y', 'ü')": ("", "x,y,ü", "ü"),
    "b BIT(64)": ("18446744073709551615", "0", "9223372036854775808"),
    "n DECIMAL(65, 30)": ("-99999999999999999999999999999999999.000000000000000000000000000001", "0", "-0.1"),
    "c CHAR(3) CHARACTER SET utf16": ("Ω😀", "", "ab"),
    "u VARCHAR(9) CHARACTER SET ucs2": ("Ωя", "", "ab"),
    "v VARCHAR(9) CHARACTER SET utf32": ("Ω😀", "", "ab"),
    "j VARCHAR(9) CHARACTER SET sjis": ("テスト", "", "ab"),
    "g VARCHAR(9) CHARACTER SET gbk": ("中文", "", "ab"),
    "r TEXT CHARACTER SET cp1251": ("привет", "", "ab"),
    "k CHAR(9) CHARACTER SET koi8r COLLATE koi8r_bin": ("привет", "", "ab"),
    "x ENUM('да', 'нет') CHARACTER SET cp1251": ("да", "нет", "да"),
    "l VARCHAR(9) CHARACTER SET latin1": ("€ÿ", "", "ab"),
    "a VARCHAR(9) CHARACTER SET ascii": ("~", "", "ab"),
}
"""Columns that are read as STRING, with values of three rows."""


def test_odd_values_are_read_alike_from_rows_and_from_the_log(server: MariaDbServer, opened: Open):
    """Also while the server, and whoever writes, are in another time zone."""
    server.execute("SET GLOBAL time_zone = '+05:30'")
    names = [column.split()[0] for column in _ODD]
    try:
        server.execute(
            f"CREATE TABLE t (id INT PRIMARY KEY, {', '.join(_ODD)}, g1 INT AS (id + 1) VIRTUAL, h1 INT AS (id) STORED)"
        )
        for n in range(3):
            values = ", ".join(
                value[n] if name == "b" else f"'{value[n]}'" for name, value in zip(names, _ODD.values(), strict=True)
            )
            server.execute(f"INSERT INTO t (id, {', '.join(names)}) VALUES ({n}, {values})")
        stream = opened(f"id INT; {'; '.join(f'{name} STRING' for name in names)}")
        copied = stream.all()
        server.execute("SET time_zone = '-08:00'", "UPDATE t SET id = id + 10")
    finally:
        server.execute("SET GLOBAL time_zone = 'SYSTEM'")
    retracted = [row for row in stream.all() if row[-1] == "-D"]
    for n, name in enumerate(names, 1):
        assert [row[n] for row in copied] == [row[n] for row in retracted], name
    there = {name: [row[n] for row in copied] for n, name in enumerate(names, 1)}
    assert there["tn"] == ["-00:00:00.000001", "-01:30:00.250000", "838:59:59.999999"]
    assert there["dz"] == ["0000-00-00 00:00:00.000", "2024-00-10 00:00:00.000", "9999-12-31 23:59:59.999"]
    assert there["tz"][0] == "0000-00-00 00:00:00.000000"
    assert there["e"] == ["", "ü", ""]
    assert there["b"][0] == "18446744073709551615"
    assert (there["c"][0], there["j"][0], there["k"][0], there["x"][1]) == ("Ω😀", "テスト", "привет", "нет")


@pytest.mark.parametrize("width", [1, pytest.param(2, marks=pytest.mark.long)])
def test_characters_are_those_of_the_server(server: MariaDbServer, width: int):
    """All of one byte, or of two; but not those that the server has no character for."""
    decoded = "HEX(CONVERT(CONVERT(UNHEX(LPAD(HEX(seq), {}, '0')) USING {}) USING utf8mb4))"
    there = {name for (name,) in server.rows("SELECT character_set_name FROM information_schema.character_sets")}
    for charset in sorted(name for name in there if ENCODINGS.get(name) and not name.startswith("utf")):
        if width == 1 and charset == "ucs2":
            continue
        query = f"SELECT seq, {decoded.format(2 * width, charset)} FROM seq_0_to_{256**width - 1}"
        texts = {n: bytes.fromhex(text).decode(errors="replace") for n, text in server.rows(query) if text is not None}
        known = {n: text for n, text in texts.items() if not re.search("[?\ufffd\ue000-\uf8ff]", text)}
        raw = pa.array([n.to_bytes(width, "big") for n in known], pa.binary())
        found = decode_texts(raw, charset).to_pylist()
        others = {f"{n:x}": (a, b) for (n, a), b in zip(known.items(), found, strict=True) if a != b}
        assert others == {}, charset
        assert len(known) > 100, charset


def test_a_character_set_whose_log_is_not_read_is_told(server: MariaDbServer, opened: Open):
    server.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9) CHARACTER SET armscii8)")
    assert error_of(lambda: opened("id INT; v STRING")) == (
        'SS626: column "v" of table "t" has the character set armscii8, which is not read\n'
        "HINT: Leave it out, or let it have utf8mb4 in the database."
    )
    assert opened("id INT").all() == []


@pytest.mark.parametrize(
    ("stored", "type_", "value", "shown"),
    [
        ("DATE", "DATE", "'0000-00-00'", "0000-00-00"),
        ("DATETIME", "TIMESTAMP_NTZ", "'2024-00-10'", "2024-00-10 00:00:00"),
        ("DECIMAL(20, 2)", "DECIMAL(5, 2)", "1000", "1000.00"),
        ("TINYINT", "BOOLEAN", "NULL", ""),
    ],
)
def test_values_without_a_place_in_the_declared_type_are_refused(
    server: MariaDbServer, opened: Open, stored: str, type_: str, value: str, shown: str
):
    server.execute(f"CREATE TABLE t (id INT PRIMARY KEY, v {stored})")
    stream = opened(f"id INT; v {type_}")
    assert stream.all() == []
    server.execute(f"INSERT INTO t VALUES (1, {value})")
    other = opened(f"id INT; v {type_}")
    if value == "NULL":
        assert stream.all() == other.all() == [(1, None, "+I")]
        return
    for each in (stream, other):
        assert each.plan()
        assert error_of(each.read).startswith(f'SS402: column "v" of table "t" is "{shown}", which is no {type_}\n')


def test_a_value_that_does_not_fit_is_refused(server: MariaDbServer, opened: Open):
    server.execute("CREATE TABLE t (id INT PRIMARY KEY, v BIGINT UNSIGNED)")
    stream = opened("id INT; v BIGINT")
    assert stream.all() == []
    server.execute("INSERT INTO t VALUES (1, 18446744073709551615)")
    assert stream.plan()
    assert error_of(stream.read) == (
        'SS402: column "v" of table "t" is "18446744073709551615", which is no BIGINT\n'
        "HINT: Declare the column with a larger type, or as STRING."
    )


def test_columns_of_an_older_format_are_told(server: MariaDbServer, opened: Open):
    """Of which the log does not say how many bytes they have."""
    server.execute("SET GLOBAL mysql56_temporal_format = OFF")
    try:
        server.execute("CREATE TABLE t (id INT PRIMARY KEY, a DATETIME, b TIME(2), c TIMESTAMP NULL)")
    finally:
        server.execute("SET GLOBAL mysql56_temporal_format = ON")
    assert error_of(lambda: opened("id INT")) == (
        'SS626: column "a" of table "shop.t" is of an older format of times, which is not read\n'
        "HINT: ALTER TABLE `shop`.`t` FORCE; gives it the format of now."
    )
    server.execute("ALTER TABLE t FORCE")
    stream = opened("id INT; b STRING")
    assert stream.all() == []
    server.execute("INSERT INTO t VALUES (1, NOW(), '-10:00:00.5', NOW())")
    assert stream.all() == [(1, "-10:00:00.50", "+I")]


def test_long_keys_have_a_hidden_column(server: MariaDbServer, opened: Open):
    """MariaDB adds one with a number for a UNIQUE text."""
    server.execute("CREATE TABLE t (id INT PRIMARY KEY, b TEXT UNIQUE, c INT)", "INSERT INTO t VALUES (1, 'a', 2)")
    stream = opened("id INT; b STRING; c INT")
    assert stream.all() == [(1, "a", 2, "+I")]
    server.execute("UPDATE t SET b = 'b'", "INSERT INTO t VALUES (2, NULL, 3)", "DELETE FROM t WHERE id = 1")
    assert stream.all() == [(1, "b", 2, "+U"), (2, None, 3, "+I"), (1, "b", 2, "-D")]


def test_columns_that_do_not_fit_are_told(server: MariaDbServer, opened: Open):
    server.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, v BIGINT, p POINT, g INT AS (id + 1) VIRTUAL, h INT AS (id + 2) STORED)",
        "INSERT INTO t (id, v) VALUES (1, 2)",
    )
    assert error_of(lambda: opened("id INT; v INT; p STRING; q INT")) == (
        'SS564: column "v" of table "t" is INT, but bigint in the database\n'
        "HINT: Declare it with the type that it has there, or as STRING.\n\n"
        'SS564: column "p" of table "t" is STRING, but point in the database\n'
        "HINT: Leave the column out: the connector does not read this type.\n\n"
        'SS564: column "q" of table "t" does not exist in the database\n'
        "HINT: Columns: g, h, id, p, v."
    )
    assert error_of(lambda: opened("id INT; h INT")) == (
        'SS626: column "h" of table "t" is GENERATED, and the log may have no values of it\n'
        "HINT: Leave it out, and compute it in the query."
    )
    server.execute("ALTER TABLE t DROP p")
    stream = opened("id INT; v BIGINT")
    server.execute("UPDATE t SET v = 3", "INSERT INTO t (id, v) VALUES (4, 5)")
    assert merged(stream.all()) == [(1, 3), (4, 5)]
    server.execute("UPDATE t SET v = 7")
    assert merged(stream.all()[-2:]) == [(1, 7), (4, 7)]


def test_metadata_columns_say_where_a_row_is_from(server: MariaDbServer, opened: Open):
    server.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    table = declared(server, "id INT")
    keys = {"at": "op_ts", "d": "database_name", "n": "table_name"}
    more = tuple(
        Column(name, parse_type("TIMESTAMP" if name == "at" else "STRING"), metadata_key=key)
        for name, key in keys.items()
    )
    stream = opened("id INT")
    stream.table = Table(
        "t", (*table.columns, *more), "mysql-cdc", table.options, primary_key=("id",), changelog=UPSERT
    )
    assert validate(stream.table, {}) == ()
    stream.columns = ("id", *keys)
    stream.start()
    ((one, at, *where, kind),) = stream.next()
    assert (one, at.timestamp(), where, kind) == (1, 0, ["shop", "t"], "+I")
    server.execute("INSERT INTO t VALUES (2)")
    ((now,),) = server.rows("SELECT UNIX_TIMESTAMP()")
    ((_, at, *_),) = stream.all()
    assert abs(now - at.timestamp()) < 10


# --- what the log has no rows of ------------------------------------------------------------------------------


def test_truncate_is_an_error_or_skipped(server: MariaDbServer, opened: Open):
    server.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)", "TRUNCATE t")
    streams = [opened("id INT"), opened("id INT", scan__truncate="skip")]
    for stream in streams:
        stream.first()
    server.execute("TRUNCATE TABLE t", "INSERT INTO t VALUES (2)")
    assert [stream.all() for stream in streams] == [[(2, "+I")]] * 2  # before the rows were copied
    server.execute("TRUNCATE `shop`.t", "INSERT INTO t VALUES (3)")
    assert streams[1].all() == [(3, "+I")]
    assert streams[0].plan()
    assert error_of(streams[0].read) == (
        'SS624: table "shop.t" was emptied by a statement of which the log names no rows: TRUNCATE `shop`.t\n'
        "HINT: Start in a new directory, with the rows of the table as they are now. 'scan.truncate' = 'skip' leaves "
        'the rows of "t" as they are.'
    )


def test_a_partitioned_table_is_one_table_whose_partitions_are_not_emptied(server: MariaDbServer, opened: Open):
    server.execute(
        "CREATE TABLE t (id INT, day INT, v INT, PRIMARY KEY (id, day)) PARTITION BY LIST (day) "
        "(PARTITION p1 VALUES IN (1), PARTITION p2 VALUES IN (2))",
        "INSERT INTO t VALUES (1, 1, 0), (2, 2, 0)",
    )
    streams = [
        opened("id INT; day INT; v INT", ("id", "day"), scan__incremental__snapshot__chunk__size="1", **more)
        for more in ({}, {"scan__truncate": "skip"})
    ]
    rows = [stream.all() for stream in streams]
    server.execute("UPDATE t SET day = 2, v = 1 WHERE id = 1", "UPDATE t SET day = 1 WHERE id = 2")
    for stream, before in zip(streams, rows, strict=True):
        changed = stream.all()
        assert [(day, kind) for id_, day, _, kind in changed if id_ == 1] == [(1, "-D"), (2, "+I")]
        assert merged(before + changed, 2) == [(1, 2, 1), (2, 1, 0)]
    server.execute("ALTER TABLE t TRUNCATE PARTITION p1", "INSERT INTO t VALUES (3, 1, 0)")
    assert streams[1].all() == [(3, 1, 0, "+I")]
    assert streams[0].plan()
    assert error_of(streams[0].read).startswith(
        'SS624: table "shop.t" was emptied by a statement of which the log names no rows: ALTER TABLE t TRUNCATE '
        "PARTITION p1\n"
    )


def test_columns_may_be_added_and_other_changes_of_the_table_are_told(server: MariaDbServer, opened: Open):
    server.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1)")
    stream, follows = opened("id INT; v INT"), opened("id INT; v INT", scan__schema_change="follow")
    rows = stream.all()
    assert follows.all() == rows
    server.execute(
        "INSERT INTO t VALUES (2, 2)", "ALTER TABLE t ADD w INT FIRST", "INSERT INTO t VALUES (0, 3, 3)",
        "ALTER TABLE t MODIFY v VARCHAR(9)", "INSERT INTO t VALUES (0, 4, '4')", "ALTER TABLE t DROP v",
        "INSERT INTO t VALUES (0, 5)",
    )  # fmt: skip
    assert follows.all() == [(2, 2, "+I"), (3, 3, "+I"), (4, 4, "+I"), (5, None, "+I")]
    assert stream.plan()
    assert error_of(stream.read) == (
        'SS622: table "shop.t" has a column "v" in the log whose type was not int: it was changed\n'
        'HINT: Declare "t" as the table is now and start in a new directory, or let '
        "'scan.schema-change' = 'follow' read columns that the log lacks as NULL."
    )
    server.execute("RENAME TABLE t TO gone")
    assert follows.plan()
    assert error_of(follows.read) == (
        'SS622: table "shop.t" was dropped, renamed or replaced: RENAME TABLE t TO gone\n'
        "HINT: Start in a new directory, with the rows of the table as they are now."
    )


def test_changes_that_the_log_has_as_statements_are_told(server: MariaDbServer, opened: Open):
    server.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    stream = opened("id INT")
    assert stream.all() == []
    server.execute("SET binlog_format = STATEMENT", "INSERT INTO t VALUES (1)")
    assert stream.plan()
    assert error_of(stream.read) == (
        'SS620: the log has changes of table "shop.t" as a statement, not as rows\n'
        "HINT: Let no session have another binlog_format than ROW. Start in a new directory, with the rows of the "
        "table as they are now."
    )


def test_transactions_that_are_undone_or_of_other_tables_give_nothing(server: MariaDbServer, opened: Open):
    server.execute(
        "CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE u (id INT PRIMARY KEY)",
        "CREATE TABLE m (id INT) ENGINE = MyISAM",
    )  # fmt: skip
    stream = opened("id INT")
    assert stream.all() == []
    server.execute(
        "BEGIN", "INSERT INTO t VALUES (1)", "INSERT INTO m VALUES (1)", "ROLLBACK",
        "BEGIN", "INSERT INTO t VALUES (2)", "SAVEPOINT a", "INSERT INTO u VALUES (1)", "ROLLBACK TO a", "COMMIT",
        "SET GLOBAL log_bin_compress_min_len = 10", "SET GLOBAL log_bin_compress = ON",
        "INSERT INTO t SELECT seq FROM seq_3_to_100", "SET GLOBAL log_bin_compress = OFF",
    )  # fmt: skip
    assert stream.all() == [(n, "+I") for n in range(2, 101)]


def require_xa_is_told(server: MariaDbServer, opened: Open) -> None:
    """Asserts that transactions of XA are told if they change the table that is read, and only then."""
    server.execute("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE u (id INT PRIMARY KEY)")
    stream = opened("id INT")
    assert stream.all() == []
    for table in ("u", "t"):
        server.execute(
            f"XA START '{table}'", f"INSERT INTO {table} VALUES (1)", f"XA END '{table}'", f"XA PREPARE '{table}'",
            f"XA COMMIT '{table}'",
        )  # fmt: skip
        if table == "u":
            assert stream.all() == []
    assert error_of(stream.all) == (
        'SS630: a transaction of XA has changed table "shop.t", and the log cannot be read\n'
        "HINT: Read it by Debezium and Kafka."
    )


def test_xa_transactions_are_told(server: MariaDbServer, opened: Open):
    require_xa_is_told(server, opened)


def logged(kind: int, body: bytes = b"") -> bytes:
    """An event that ends at byte 1000 of its file."""
    sizes = (19 + len(body)).to_bytes(4, "little") + (1000).to_bytes(4, "little")
    return bytes(4) + bytes([kind]) + bytes(4) + sizes + bytes(2) + body


_MAPPED, _OTHER = (
    logged(TABLE_MAP, number.to_bytes(6, "little") + bytes(2) + b"\4shop\0\1" + name + b"\0")
    for number, name in ((7, b"t"), (8, b"u"))
)
_PARTIAL, _OF_OTHER = (logged(PARTIAL_UPDATE, number.to_bytes(6, "little")) for number in (7, 8))


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([_MAPPED, _PARTIAL], "the server logs parts of JSON (binlog_row_value_options)"),
        ([_OTHER, _OF_OTHER, _MAPPED, _PARTIAL], "the server logs parts of JSON (binlog_row_value_options)"),
        ([_OTHER, _OF_OTHER], None),
    ],
)
def test_events_of_mysql_that_are_not_read_are_told(
    events: list[Any], message: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    class Dump:
        system = "one"

        def __init__(self, *_: object) -> None:
            self._left = [logged(MYSQL_ANONYMOUS), *(logged(e) if isinstance(e, int) else e for e in events)]

        def event(self) -> bytes | None:
            return self._left.pop(0) if self._left else None

        def rest(self) -> None:
            time.sleep(0.001)

        def close(self) -> None:
            """There is no connection."""

    monkeypatch.setattr(log, "BinlogDump", Dump)
    receiver = log.BinlogReceiver({}, ("shop", "t"), 1, 4, "log.1", tmp_path, "")
    try:
        if message is None:
            assert not receiver.wait(receiver.has_transactions, 0.05)
        else:
            assert error_of(lambda: receiver.wait(lambda: False, 5)) == (
                f"SS630: {message}, and the log cannot be read\nHINT: Read it by Debezium and Kafka."
            )
    finally:
        receiver.stop()


# --- servers --------------------------------------------------------------------------------------------------


def test_names_are_taken_as_they_are(server: MariaDbServer, opened: Open):
    server.execute(
        "CREATE DATABASE `Big Shop`", "CREATE TABLE `Big Shop`.`My ``T` (`Id` INT PRIMARY KEY, `the {v}` INT)",
        "CREATE TABLE `Big Shop`.`my ``t` (`Id` INT PRIMARY KEY, `the {v}` INT)",
        "INSERT INTO `Big Shop`.`My ``T` VALUES (1, 2)",
    )  # fmt: skip
    try:
        table = declared(server, "Id INT", ("Id",), table_name="My `T", database_name="Big Shop")
        stream = opened("Id INT", ("Id",), table_name="My `T", database_name="Big Shop")
        stream.table = Table(
            "t", (*table.columns, Column("the {v}", parse_type("INT"))), "mysql-cdc", table.options,
            primary_key=("Id",), changelog=UPSERT,
        )  # fmt: skip
        stream.columns = ("Id", "the {v}")
        stream.start()
        rows = stream.all()
        server.execute("UPDATE `Big Shop`.`My ``T` SET `the {v}` = 3", "INSERT INTO `Big Shop`.`my ``t` VALUES (4, 5)")
        assert rows + stream.all() == [(1, 2, "+I"), (1, 3, "+U")]
    finally:
        server.execute("DROP DATABASE `Big Shop`")


def test_names_of_tables_may_be_in_lower_case_whatever_statements_spell(server: MariaDbServer, tmp_path: Path):
    with running_server("--lower-case-table-names=1") as folding:
        folding.execute("CREATE TABLE Orders (id INT PRIMARY KEY)", "INSERT INTO ORDERS VALUES (1)")
        with opening(partial(declared, folding), tmp_path) as opened:
            streams = [
                opened("id INT", database_name="SHOP", table_name="Orders", scan__truncate=way)
                for way in ("skip", "fail")
            ]
            assert [stream.all() for stream in streams] == [[(1, "+I")]] * 2
            folding.execute("TRUNCATE Shop.ORDERS", "INSERT INTO orders VALUES (2)")
            assert streams[0].all() == [(2, "+I")]
            assert error_of(streams[1].next).startswith('SS624: table "shop.orders" was emptied by a statement')


def test_a_database_that_is_dropped_is_told(server: MariaDbServer, opened: Open):
    server.execute("CREATE DATABASE cellar", "CREATE TABLE cellar.t (id INT PRIMARY KEY)")
    stream = opened("id INT", database_name="cellar")
    assert stream.all() == []
    server.execute("DROP DATABASE cellar")
    assert stream.plan()
    assert error_of(stream.read).startswith('SS622: table "cellar.t" was dropped, renamed or replaced: DROP ')


@pytest.mark.parametrize("charset", ["latin1", "utf8mb4"])
def test_statements_may_be_in_any_character_set(server: MariaDbServer, opened: Open, charset: str):
    server.execute("CREATE TABLE `größe #1` (id INT PRIMARY KEY, `Übermaß -- ?` VARCHAR(9))")
    stream = opened("id INT", table_name="größe #1")
    assert stream.all() == []
    server.execute("INSERT INTO `größe #1` VALUES (1, 'ß')")
    assert stream.all() == [(1, "+I")]
    with server.connected() as connection, connection.cursor() as cursor:
        cursor.execute(f"SET NAMES {charset}")
        connection.encoding = {"latin1": "cp1252"}.get(charset, "utf8")
        cursor.execute("TRUNCATE `größe #1`")
    assert stream.plan()
    assert error_of(stream.read).startswith('SS624: table "shop.größe #1" was emptied by a statement')


def test_a_job_begins_where_it_is_told(server: MariaDbServer, opened: Open):
    server.execute("CREATE TABLE t (id INT PRIMARY KEY)", "RESET MASTER", "INSERT INTO t VALUES (1)")
    ((file, offset, *_),) = server.rows("SHOW MASTER STATUS")
    latest = opened("id INT", scan__startup__mode="latest-offset")
    latest.first()
    server.execute("INSERT INTO t VALUES (2)")
    assert latest.all() == [(2, "+I")]
    assert opened("id INT", scan__startup__mode="earliest-offset").all() == [(1, "+I"), (2, "+I")]
    where = {
        "scan__startup__mode": "specific-offset", "scan__startup__specific_offset__file": file,
        "scan__startup__specific_offset__pos": str(offset),
    }  # fmt: skip
    assert opened("id INT", **where).all() == [(2, "+I")]
    where["scan__startup__specific_offset__file"] = "log.000007"
    assert error_of(opened("id INT", **where).first) == (
        f"SS621: the server does not have its log from file 7:{offset} on, where the job goes on\n"
        "DETAIL: The oldest file that it has is log.000001.\n"
        "HINT: Start in a new directory ('execution.checkpointing.dir'), with the rows of the table as they are now, "
        "and let the server keep its log longer (binlog_expire_logs_seconds)."
    )


def test_a_job_begins_behind_transactions(server: MariaDbServer, opened: Open):
    server.execute("CREATE TABLE t (id INT PRIMARY KEY)", "RESET MASTER", "INSERT INTO t VALUES (1)")
    ((gtids,),) = server.rows("SELECT @@gtid_binlog_pos")
    where = {"scan__startup__mode": "specific-offset", "scan__startup__specific_offset__gtid_set": gtids}
    at_the_end = opened("id INT", **where)
    assert at_the_end.all() == []
    server.execute("INSERT INTO t VALUES (2)", "FLUSH BINARY LOGS", "INSERT INTO t VALUES (3)")
    assert opened("id INT", **where).all() == at_the_end.all() == [(2, "+I"), (3, "+I")]
    where["scan__startup__specific_offset__gtid_set"] = "0-1-9999"
    assert error_of(opened("id INT", **where).first).startswith(
        "SS621: the server does not send its log from GTID 0-1-9999 on: "
    )
    where["scan__startup__specific_offset__gtid_set"] = of_mysql = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5"
    assert error_of(opened("id INT", **where).first) == (
        f"SS620: {of_mysql} is no GTID of MariaDB, which the server is\n"
        "HINT: Name the file and the byte of the log where the job begins."
    )


def test_another_log_of_the_same_server_is_told(server: MariaDbServer, opened: Open):
    server.execute("CREATE TABLE t (id INT PRIMARY KEY)", "RESET MASTER", "INSERT INTO t VALUES (1)")
    stream = opened("id INT", scan__startup__mode="earliest-offset")
    assert stream.all() == [(1, "+I")]
    stream.stop()
    server.execute("RESET MASTER", "SET gtid_domain_id = 5", "INSERT INTO t SELECT seq FROM seq_2_to_500")
    stream.start()
    assert error_of(stream.all) == (
        'SS621: the server of table "shop.t" is another one than the job has read before\n'
        "HINT: Start in a new directory."
    )


def test_a_replica_that_takes_over_is_read_from_the_same_transaction_on(
    server: MariaDbServer, replica: MariaDbServer, opened: Open
):
    """Its log has other files and other places, and a micro-batch that was not complete has the same rows."""
    server.execute(
        "RESET MASTER", "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2)",
        "CREATE TABLE u (id INT)",
    )  # fmt: skip
    source = (
        f"MASTER_HOST = '127.0.0.1', MASTER_PORT = {server.port}, MASTER_USER = 'cdc', MASTER_PASSWORD = '{PASSWORD}'"
    )
    replica.execute(
        "RESET MASTER", "SET GLOBAL gtid_slave_pos = ''", f"CHANGE MASTER TO {source}, MASTER_USE_GTID = slave_pos",
        "START SLAVE",
    )  # fmt: skip
    stream = opened("id INT; v INT")
    rows = stream.all()
    for _ in range(2):  # until no snapshot is compared with the log any more
        server.execute("UPDATE t SET v = v + 1")
        rows += stream.all()
    server.execute("UPDATE t SET v = 10 WHERE id = 1", "INSERT INTO u VALUES (1)")
    assert stream.plan()
    changed = stream.read()
    stream.stop()
    server.execute("DELETE FROM t WHERE id = 2", "INSERT INTO u VALUES (2)")
    deadline = time.monotonic() + 30
    while replica.rows("SELECT @@gtid_slave_pos") != server.rows("SELECT @@gtid_binlog_pos"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    replica.execute("STOP SLAVE", "RESET SLAVE ALL", "FLUSH BINARY LOGS", "INSERT INTO t VALUES (3, 3)")
    stream.table = declared(replica, "id INT; v INT")
    stream.start()
    assert stream.read() == changed == [(1, 10, "+U")]
    assert stream.all() == [(2, 4, "-D"), (3, 3, "+I")]
    assert merged(rows) == [(1, 3), (2, 4)]
    stream.restart()
    replica.execute("INSERT INTO t VALUES (4, 4)")
    assert stream.all() == [(4, 4, "+I")]
    stream.stop()
    stream.table = declared(server, "id INT; v INT")
    stream.start()
    assert error_of(stream.all).startswith("SS621: the server does not send its log from GTID 0-2-")


def test_a_server_that_has_other_rows_is_told(server: MariaDbServer, replica: MariaDbServer, opened: Open):
    for each in (server, replica):
        each.execute("DROP TABLE IF EXISTS t", "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)")
    stream = opened("id INT", scan__incremental__snapshot__chunk__size="1")
    assert stream.next() == [(1, "+I")]
    stream.stop()
    stream.table = declared(replica, "id INT")
    stream.start()
    assert error_of(stream.all).startswith('SS621: the server of table "shop.t" is another one than the job has read')


def test_two_readers_with_one_number_are_told(server: MariaDbServer, opened: Open):
    server.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    stream, other = (opened("id INT", server_id="5400") for _ in range(2))
    assert stream.all() == other.all() == []
    server.execute("INSERT INTO t VALUES (1)")
    assert other.all() == [(1, "+I")]
    deadline = time.monotonic() + 30
    text = ""
    while not text and time.monotonic() < deadline:
        try:
            stream.all()
        except SqlStreamError as error:
            text = str(error)
    assert text == (
        "SS632: another job or replica reads the log of the server with 'server-id' = '5400'\n"
        "HINT: Give each job and each replica a number of its own, or leave the option out."
    )
    server.execute("INSERT INTO t VALUES (2)")
    assert other.all() == [(2, "+I")]


def test_connections_are_encrypted(server: MariaDbServer, replica: MariaDbServer, certificates: Path, opened: Open):
    def reading(at: MariaDbServer, mode: str, **options: str) -> Stream:
        return opened("id INT", port=str(at.port), ssl__mode=mode, **options)

    ca = {"ssl__ca_file": str(certificates / "ca.pem")}
    replica.execute(
        "DROP TABLE IF EXISTS t", "CREATE TABLE t (id INT PRIMARY KEY)",
        "CREATE USER secure@'127.0.0.1' IDENTIFIED BY 'hunter2' REQUIRE SSL", "GRANT ALL ON *.* TO secure@'127.0.0.1'",
        user="root", password="",
    )  # fmt: skip
    server.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    text = error_of(lambda: reading(replica, "disabled", username="secure"))
    assert text.endswith('HINT: Correct the options "username" and "password".')
    streams = [
        reading(replica, "required", username="secure"), reading(replica, "verify-ca", username="secure", **ca),
        reading(replica, "Verify-Identity", username="secure", **ca), reading(replica, "preferred", username="secure"),
    ]  # fmt: skip
    assert [stream.all() for stream in streams] == [[]] * 4
    replica.execute("INSERT INTO t SELECT seq FROM seq_1_to_20000")
    assert [len(stream.all()) for stream in streams] == [20_000] * 4
    hint = "HINT: Options say how connections are encrypted: "
    hint += '"ssl.mode", "ssl.ca-file", "ssl.cert-file", "ssl.key-file".'
    for text in (
        error_of(lambda: reading(server, "required")),
        error_of(lambda: reading(replica, "verify-identity", ssl__ca_file=str(certificates / "key.pem"))),
        error_of(lambda: reading(replica, "verify-identity")),
        error_of(lambda: reading(replica, "verify-identity", hostname="localhost", **ca)),
    ):
        assert text.startswith("SS562: the MySQL server at ")
        assert text.endswith(hint)


def test_a_run_of_what_is_there_ends(server: MariaDbServer, opened: Open):
    server.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)")
    stream = opened("id INT", scan__incremental__snapshot__chunk__size="1")
    stream.first()
    server.execute("INSERT INTO t VALUES (3)", "INSERT INTO t VALUES (4)")
    stream.reader.prepareForTriggerAvailableNow()
    found = stream.next()
    server.execute("INSERT INTO t VALUES (5)")
    found += stream.all()
    stream.restart()
    assert merged(found + stream.all()) == [(1,), (2,), (3,), (4,), (5,)]


def test_a_run_of_what_is_there_reads_all_transactions(
    server: MariaDbServer, opened: Open, monkeypatch: pytest.MonkeyPatch
):
    """Also those that have not been received yet when the first ones are read."""
    monkeypatch.setattr(received_log, "_AT_ONCE", 1)
    server.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    stream = opened("id INT", source__max_rows_per_trigger="200")
    assert stream.all() == []
    server.execute("FOR i IN 1..2000 DO INSERT INTO t VALUES (i); END FOR")
    stream.restart()
    stream.reader.prepareForTriggerAvailableNow()
    server.execute("INSERT INTO t VALUES (2001)")
    assert [n for n, _ in stream.all()] == list(range(1, 2001))
    stream.restart()
    assert stream.all() == [(2001, "+I")]


def test_a_log_that_is_gone_is_told(server: MariaDbServer, opened: Open):
    server.execute("CREATE TABLE t (id INT PRIMARY KEY)", "RESET MASTER")
    stream = opened("id INT")
    assert stream.all() == []
    stream.stop()
    readers = server.rows("SELECT id FROM information_schema.processlist WHERE command = 'Binlog Dump'")
    server.execute(
        *(f"KILL {reader}" for (reader,) in readers),  # the server does not notice at once that one has gone
        "INSERT INTO t VALUES (1)", "FLUSH BINARY LOGS",
    )  # fmt: skip
    while server.rows("SHOW BINARY LOGS")[0][0] == "log.000001":
        server.execute("PURGE BINARY LOGS TO 'log.000002'", "DO SLEEP(0.1)")
    stream.start()
    assert error_of(stream.all).startswith("SS621: the server has removed its log from file 1:")
    server.execute("RESET MASTER")


def test_a_server_that_restarts_is_asked_again(server: MariaDbServer, opened: Open):
    server.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    stream = opened("id INT")
    rows = stream.all()
    server.execute("INSERT INTO t VALUES (2)")
    rows += stream.next()
    server.stop()
    server.start()
    server.execute("INSERT INTO t VALUES (3)")
    assert merged(rows + stream.all()) == [(1,), (2,), (3,)]


@pytest.mark.parametrize(
    ("setting", "value", "hint"),
    [
        ("binlog_row_value_options", "PARTIAL_JSON", "SET GLOBAL binlog_row_value_options = '';"),
        ("log_bin", "OFF", "Start the server with log_bin, and with binlog_row_metadata = FULL."),
    ],
)
def test_settings_of_mysql_that_are_not_read_are_told(
    setting: str, value: str, hint: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(mysql_server, "rows", lambda *_: [(setting, value)])
    monkeypatch.setattr(mysql_server, "product_of", lambda _: mysql_server.Product("MySQL", (8, 0, 36)))
    assert error_of(lambda: mysql_server.require_row_log(None, "shop")) == (
        f"SS620: the server has {setting} = {value}, and its log does not have what is read\n"
        f"HINT: {hint} What was logged before stays as it is."
    )


@pytest.mark.parametrize(
    ("setting", "value", "usual"),
    [
        ("binlog_format", "MIXED", "ROW"), ("binlog_row_image", "MINIMAL", "FULL"),
        ("binlog_row_metadata", "NO_LOG", "FULL"),
    ],
)  # fmt: skip
def test_a_server_whose_log_lacks_something_is_told(
    server: MariaDbServer, opened: Open, setting: str, value: str, usual: str
):
    server.execute("CREATE TABLE t (id INT PRIMARY KEY)", f"SET GLOBAL {setting} = {value}")
    text = error_of(lambda: opened("id INT"))
    server.execute(f"SET GLOBAL {setting} = {usual}")
    assert text == (
        f"SS620: the server has {setting} = {value}, and its log does not have what is read\n"
        f"HINT: SET GLOBAL {setting} = '{usual}'; What was logged before stays as it is."
    )


def test_users_and_servers_that_are_wrong_are_told(server: MariaDbServer, opened: Open):
    server.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    text = error_of(lambda: opened("id INT", password="wrong"))
    assert text.startswith(f'SS562: the MySQL server at "127.0.0.1:{server.port}" of table "t" cannot be reached\n')
    assert text.endswith('HINT: Correct the options "username" and "password".')
    assert error_of(lambda: opened("id INT", port="1")).endswith(
        'HINT: Is the server running, and can it be reached from here? Its address is in "hostname" and "port".'
    )
    assert error_of(lambda: opened("id INT", table_name="T")) == (
        'SS563: table "shop.T" of table "t" does not exist in the database\nHINT: Did you mean "t"?'
    )
    root = {"user": "root", "password": ""}
    server.execute(
        f"CREATE USER reader@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'", "GRANT SELECT ON shop.* TO reader@'127.0.0.1'",
        **root,
    )  # fmt: skip
    try:
        assert error_of(lambda: opened("id INT", username="reader")).startswith(
            "SS620: the user may not read the log: Access denied; you need (at least one of) the "
        )
        server.execute("GRANT BINLOG MONITOR ON *.* TO reader@'127.0.0.1'", **root)
        stream = opened("id INT", username="reader")
        assert stream.next() == []
        assert error_of(stream.next).endswith("HINT: GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO the user.")
    finally:
        server.execute("DROP USER reader@'127.0.0.1'", **root)


def test_tables_whose_changes_the_log_lacks_are_refused(server: MariaDbServer, opened: Open):
    server.execute(
        "CREATE TABLE p (id INT PRIMARY KEY)",
        "CREATE TABLE t (id INT PRIMARY KEY, p INT, CONSTRAINT of_p FOREIGN KEY (p) REFERENCES p (id) "
        "ON DELETE CASCADE)",
        "CREATE VIEW v AS SELECT * FROM p", "CREATE TABLE m (id INT PRIMARY KEY) ENGINE = MyISAM",
    )  # fmt: skip
    assert error_of(lambda: opened("id INT")) == (
        'SS626: the log lacks changes of table "shop.t" that its foreign key "of_p" makes (ON DELETE or ON UPDATE)\n'
        "HINT: Let the foreign key RESTRICT, or let 'scan.cascade' = 'skip' leave these rows as they were."
    )
    assert opened("id INT", scan__cascade="skip").all() == []
    assert error_of(lambda: opened("id INT", table_name="v")) == (
        'SS626: "shop.v" is no table whose changes the log would tell (VIEW)\n'
        "HINT: Read a table without system versioning, not a view."
    )
    assert error_of(lambda: opened("id INT", table_name="m")) == (
        'SS626: table "shop.m" is of the engine MyISAM, of whose rows there is no snapshot\n'
        "HINT: ALTER TABLE `shop`.`m` ENGINE = InnoDB;"
    )


def test_options_that_do_not_go_together_are_refused(server: MariaDbServer):
    def messages(columns: str = "id INT", **options: str) -> list[str]:
        return [f"{d.code}: {d.message}" for d in validate(declared(server, columns, ("id",), False, **options), {})]

    assert messages() == []
    assert messages(scan__startup__mode="specific-offset") == [
        "SS503: 'scan.startup.mode' = 'specific-offset' requires the option \"scan.startup.specific-offset.file\"",
        "SS503: 'scan.startup.mode' = 'specific-offset' requires the option \"scan.startup.specific-offset.pos\"",
    ]
    assert messages(
        scan__startup__mode=" SPECIFIC-OFFSET", scan__startup__specific_offset__pos="4",
        scan__startup__specific_offset__file="log.000001",
    ) == []  # fmt: skip
    assert messages(scan__startup__specific_offset__pos="4") == [
        "SS504: option \"scan.startup.specific-offset.pos\" is of 'scan.startup.mode' = 'specific-offset' alone"
    ]
    assert messages(server_id="7-5")[0].startswith("SS504: ")
    gtids = {"scan__startup__specific_offset__gtid_set": "0-1-5"}
    assert messages(scan__startup__mode="specific-offset", **gtids) == []
    assert messages(**gtids) == [
        "SS504: option \"scan.startup.specific-offset.gtid-set\" is of 'scan.startup.mode' = 'specific-offset' alone"
    ]
    assert messages(scan__startup__mode="specific-offset", scan__startup__specific_offset__pos="4", **gtids) == [
        'SS504: option "scan.startup.specific-offset.pos" does not go with "scan.startup.specific-offset.gtid-set"'
    ]
    neither = {"scan__startup__specific_offset__gtid_set": "3e11fa47:1-5"}
    assert messages(scan__startup__mode="specific-offset", **neither)[0].endswith("is not a GTID position")
    assert messages(ssl__ca_file="ca.pem", ssl__key_file="key.pem") == [
        "SS504: option \"ssl.ca-file\" has no effect with 'ssl.mode' = 'preferred'",
        'SS504: option "ssl.key-file" needs the option "ssl.cert-file"',
    ]
    assert (
        messages(ssl__mode="verify-ca", ssl__ca_file="ca.pem", ssl__cert_file="cert.pem", ssl__key_file="key.pem") == []
    )
    assert messages("id INT; m MAP<STRING, INT>") == [
        'SS505: connector "mysql-cdc" has no values of type MAP<STRING, INT> for column "m"'
    ]
    assert messages(scan__startup__mode="timestamp")[0].startswith("SS350: ")
    assert messages(server_time_zone="UTC") == ['SS350: option "server-time-zone" is not executed yet']
    assert messages(on_error="skip") == [
        'SS504: option "on-error" of the connector "mysql-cdc" is \'fail\': no change may be left out'
    ]
