"""Changes of tables of MySQL itself, where it differs from MariaDB: its transactions and its log, without Spark."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from functools import partial
from math import isfinite
from pathlib import Path
from random import Random

import pytest

from tests.mariadb_server import PASSWORD
from tests.mysql_server import MySqlServer
from tests.sqlstream.connectors.change_streams import Open, merged, opening
from tests.sqlstream.connectors.test_mysql_cdc import declared, error_of, require_xa_is_told

_TYPES = {
    "TINYINT": ("-128", "127"), "BIGINT UNSIGNED": ("0", "9223372036854775807"), "DECIMAL(10, 2)": ("-1.5", "99.99"),
    "DOUBLE": ("1.5e10", "-0.25"), "DATE": ("'1000-01-01'", "'9999-12-31'"),
    "DATETIME(6)": ("'1000-01-01 00:00:00.000001'", "'9999-12-31 23:59:59.999999'"),
    "TIMESTAMP(3) NULL": ("'1970-01-01 00:00:01.001'", "'2038-01-19 03:14:07.999'"),
    "VARCHAR(20)": ("'é€😀'", "''"), "TEXT": ("'long'", "NULL"), "VARBINARY(9)": ("x'00ff'", "x''"),
    "ENUM('a', 'b')": ("'a'", "'b'"), "SET('a', 'b')": ("'a,b'", "''"), "BIT(1)": ("b'0'", "b'1'"),
    "YEAR": ("1901", "2155"),
    "TIME(3)": ("'-838:59:59'", "'12:00:00.123'"),
}  # fmt: skip
_READ_AS = (
    "TINYINT", "BIGINT", "DECIMAL(10, 2)", "DOUBLE", "DATE", "TIMESTAMP_NTZ(6)", "TIMESTAMP(3)", "STRING", "STRING",
    "BINARY", "STRING", "STRING", "BOOLEAN", "INT", "STRING",
)  # fmt: skip


@pytest.fixture(scope="module")
def started() -> Iterator[MySqlServer]:
    with MySqlServer.running() as server:
        yield server


@pytest.fixture
def server(started: MySqlServer) -> Iterator[MySqlServer]:
    yield started
    started.execute("DROP DATABASE shop", "CREATE DATABASE shop CHARACTER SET utf8mb4", database="")


@pytest.fixture
def opened(server: MySqlServer, tmp_path: Path) -> Iterator[Open]:
    with opening(partial(declared, server), tmp_path) as open_stream:
        yield open_stream


def _gtids(server: MySqlServer) -> str:
    ((gtids,),) = server.rows("SELECT @@global.gtid_executed")
    return str(gtids)


def test_rows_are_read_first_and_then_their_changes(server: MySqlServer, opened: Open):
    server.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t SELECT seq, seq FROM seq_1_to_5")
    stream = opened("id INT; v INT", scan__incremental__snapshot__chunk__size="3")
    rows = stream.next()
    server.execute("UPDATE t SET v = 9 WHERE id IN (1, 5)", "FLUSH BINARY LOGS", "DELETE FROM t WHERE id = 2")
    stream.restart()
    assert stream.read() == rows
    rows += stream.all()
    assert merged(rows) == [(1, 9), (3, 3), (4, 4), (5, 9)]
    server.stop()
    server.start()
    server.execute("INSERT INTO t VALUES (6, 6)")
    assert stream.all() == [(6, 6, "+I")]


@pytest.mark.parametrize("compresses", ["OFF", "ON"])
def test_the_log_and_the_rows_that_were_there_have_the_same_values(compresses: str, server: MySqlServer, opened: Open):
    """Also in compressed transactions."""
    columns = ", ".join(f"c{n} {kind}" for n, kind in enumerate(_TYPES))
    values = [", ".join(given[which] for given in _TYPES.values()) for which in (0, 1)]
    server.execute(f"CREATE TABLE t (id INT PRIMARY KEY, {columns})", f"INSERT INTO t VALUES (1, {values[0]})")
    server.execute(f"INSERT INTO t VALUES (2, {values[1]}), (3{', NULL' * len(_TYPES)})")
    stream = opened("id INT; " + "; ".join(f"c{n} {kind}" for n, kind in enumerate(_READ_AS)))
    there = stream.all()
    assert len(there) == 3
    server.execute(f"SET SESSION binlog_transaction_compression = {compresses}", "UPDATE t SET id = id + 10")
    logged = [row for row in stream.all() if row[-1] == "+I"]
    assert [row[1:] for row in logged] == [row[1:] for row in there]


_JSON = (
    "'null'", "'true'", "'-1'", "'\"text\"'", "'[]'", "'{}'", "NULL",
    """'{"b": 1, "aa": [1, 2.5, 1e20, -0.0, 1e15, 999999999999999.5, 1e-15, 1e-16, 5e-324, null], "": {"c": false}}'""",
    "'[32767, -32768, 65535, 2147483647, -2147483648, 4294967295, -9223372036854775808, 18446744073709551615, 1e99]'",
    r"""'["é😀", "\\u0000\\u001f\\u007f\\b\\t\\n\\f\\r", "\\"\\\\/"]'""",
    "JSON_OBJECT('d', DATE '2024-02-29', 't', CAST('-838:59:59.5' AS TIME(1)), 'n', TIMESTAMP '9999-12-31 23:59:59.9')",
    "JSON_ARRAY(CAST(-1.05 AS DECIMAL(5, 2)), CAST(0 AS DECIMAL(65, 30)), 1.5, UNIX_TIMESTAMP(), YEAR(NOW()))",
    "JSON_ARRAY(CAST('bytes' AS BINARY), b'101', x'', CAST(REPEAT('long', 50) AS BINARY), TIME '01:02:03')",
    "JSON_OBJECT('many', REPEAT('x', 70000), 'more', JSON_ARRAY(1, 70000, 3000000000, REPEAT('y', 130)), 'é', 'ü')",
    "(SELECT JSON_ARRAYAGG(JSON_OBJECT('n', seq, 'half', seq / 2, 'third', seq / 3e0)) FROM seq_1_to_900)",
    f"'{'[' * 98}{']' * 98}'",
)  # fmt: skip


def test_json_in_the_log_is_what_the_server_prints(server: MySqlServer, opened: Open):
    """Also of documents that the server has changed in their place, and of random numbers."""
    server.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, j JSON, n INT UNSIGNED)",
        *(f"INSERT INTO t VALUES ({n}, {given}, 4294967295)" for n, given in enumerate(_JSON)),
    )
    random = Random(7)
    for n in range(20):
        numbers = [struct.unpack("<d", random.randbytes(8))[0] for _ in range(100)]
        numbers += [random.randrange(1 << random.randrange(1, 54)) / 10.0 ** random.randrange(40) for _ in range(400)]
        listed = ", ".join(repr(number) for number in numbers if isfinite(number))
        server.execute(f"INSERT INTO t VALUES ({100 + n}, '[{listed}]', 0)")
    stream = opened("id INT; j STRING; n BIGINT")

    def truth() -> list[tuple[object, ...]]:
        return server.rows("SELECT id, j, n FROM t ORDER BY id")

    assert sorted(row[:-1] for row in stream.all()) == truth()
    for change in (
        "id = id + 1000", "j = JSON_SET(j, '$.b', 2, '$.aa[1]', 'x')", "j = JSON_REPLACE(j, '$.many', 'few')",
        "j = JSON_REMOVE(j, '$.more[1]', '$[2]')", "j = JSON_ARRAY(j, JSON_EXTRACT(j, '$[3]'))",
    ):  # fmt: skip
        server.execute(f"UPDATE t SET {change}, n = n - 1 WHERE n > 0")
        changed = {row[0] for row in server.rows("SELECT id FROM t WHERE n > 0")}
        logged = sorted(row[:-1] for row in stream.all() if row[-1] in ("+U", "+I"))
        assert logged == [row for row in truth() if row[0] in changed]


def test_a_job_begins_behind_transactions(server: MySqlServer, opened: Open):
    server.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    where = {"scan__startup__mode": "specific-offset", "scan__startup__specific_offset__gtid_set": _gtids(server)}
    at_the_end = opened("id INT", **where)
    assert at_the_end.all() == []
    server.execute("INSERT INTO t VALUES (2)", "FLUSH BINARY LOGS", "INSERT INTO t VALUES (3)")
    assert opened("id INT", **where).all() == at_the_end.all() == [(2, "+I"), (3, "+I")]
    source, _, numbers = _gtids(server).partition(":")
    where["scan__startup__specific_offset__gtid_set"] = f"{source}:1-99999"
    assert error_of(opened("id INT", **where).first) == (
        f"SS621: the server does not have all transactions of GTID {source}:1-99999: it has {source}:{numbers}\n"
        "HINT: If it is a replica, wait until it has them. Or start in a new directory."
    )
    where["scan__startup__specific_offset__gtid_set"] = "0-1-5"
    assert error_of(opened("id INT", **where).first).startswith("SS620: 0-1-5 is no GTID of MySQL, which the server is")


def test_a_log_that_begins_anew_is_told(server: MySqlServer, opened: Open):
    server.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    stream = opened("id INT", scan__startup__mode="latest-offset")
    assert stream.all() == []
    server.execute("INSERT INTO t VALUES (2)")
    assert stream.all() == [(2, "+I")]
    stream.stop()
    server.execute("RESET BINARY LOGS AND GTIDS", "INSERT INTO t SELECT seq FROM seq_3_to_900")
    stream.start()
    assert error_of(stream.all).startswith("SS621: ")


def test_a_replica_that_takes_over_is_read_from_the_same_transaction_on(server: MySqlServer, opened: Open):
    """Its log has other files and other places, and a micro-batch that was not complete has the same rows."""
    server.execute("RESET BINARY LOGS AND GTIDS")
    with MySqlServer.running("--server-id=2") as replica:
        source = f"SOURCE_HOST = '127.0.0.1', SOURCE_PORT = {server.port}, SOURCE_USER = 'cdc'"
        source += f", SOURCE_PASSWORD = '{PASSWORD}', SOURCE_AUTO_POSITION = 1, GET_SOURCE_PUBLIC_KEY = 1"
        replica.execute("RESET BINARY LOGS AND GTIDS", f"CHANGE REPLICATION SOURCE TO {source}", "START REPLICA")
        server.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2)")
        stream = opened("id INT; v INT")
        rows = stream.all()
        for _ in range(2):  # until no snapshot is compared with the log any more
            server.execute("UPDATE t SET v = v + 1")
            rows += stream.all()
        server.execute("UPDATE t SET v = 10 WHERE id = 1")
        assert stream.plan()
        changed = stream.read()
        stream.stop()
        server.execute("DELETE FROM t WHERE id = 2")
        deadline = time.monotonic() + 60
        while _gtids(replica) != _gtids(server):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        replica.execute("STOP REPLICA", "RESET REPLICA ALL", "FLUSH BINARY LOGS", "INSERT INTO t VALUES (3, 3)")
        stream.table = declared(replica, "id INT; v INT")
        stream.start()
        assert stream.read() == changed == [(1, 10, "+U")]
        assert stream.all() == [(2, 4, "-D"), (3, 3, "+I")]
        assert merged(rows) == [(1, 3), (2, 4)]
        stream.stop()
        stream.table = declared(server, "id INT; v INT")
        stream.start()
        assert error_of(stream.all).startswith("SS621: the server does not have all transactions of GTID ")


def test_a_place_behind_transactions_without_a_name_has_none(server: MySqlServer, opened: Open):
    """Another server has no place for it: the job does not go on there."""
    server.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    stream = opened("id INT", scan__startup__mode="latest-offset")
    assert stream.all() == []
    modes = ("ON_PERMISSIVE", "OFF_PERMISSIVE")
    try:
        server.execute(*(f"SET GLOBAL gtid_mode = {mode}" for mode in modes), "INSERT INTO t VALUES (1)")
        assert stream.all() == [(1, "+I")]
    finally:
        server.execute(*(f"SET GLOBAL gtid_mode = {mode}" for mode in ("ON_PERMISSIVE", "ON")))
    server.execute("INSERT INTO t VALUES (2)")
    assert stream.all() == [(2, "+I")]
    stream.stop()
    with MySqlServer.running("--server-id=2") as other:
        other.execute("CREATE TABLE t (id INT PRIMARY KEY)")
        stream.table = declared(other, "id INT")
        stream.start()
        assert error_of(stream.all).startswith('SS621: the server of table "shop.t" is another one')


def test_xa_transactions_are_told(server: MySqlServer, opened: Open):
    require_xa_is_told(server, opened)


def test_passwords_need_no_encrypted_connection(server: MySqlServer, opened: Open):
    server.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    assert opened("id INT", ssl__mode="disabled").all() == [(1, "+I")]
