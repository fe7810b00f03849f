"""Changes of PostgreSQL's tables: what micro-batches read of a real server, without Spark."""

from __future__ import annotations

import json
import re
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from sqlstream.connectors import validate
from sqlstream.connectors.changes import received_log
from sqlstream.connectors.changes.received_log import Incoming
from sqlstream.connectors.postgres.log import LogError, LogReceiver
from sqlstream.errors import SqlStreamError, SqlStreamWarning
from sqlstream.formats.pgoutput import Snapshot
from sqlstream.planner.catalog import UPSERT, Column, Table
from sqlstream.types import parse_type
from sqlstream.udfs import postgres_changes
from tests.postgres_server import PASSWORD, PostgresServer
from tests.sqlstream.connectors.change_streams import Open, Row, Stream, declared_table, merged, opening, text_of_error

_slots = count()


@pytest.fixture
def server(postgres_server: PostgresServer) -> Iterator[PostgresServer]:
    yield postgres_server
    postgres_server.execute("ALTER ROLE postgres RESET ALL")
    postgres_server.drop_slots()
    for (name,) in postgres_server.rows("SELECT quote_ident(pubname) FROM pg_publication"):
        postgres_server.execute(f"DROP PUBLICATION {name}")
    postgres_server.execute("DROP SCHEMA public CASCADE", "CREATE SCHEMA public")


@pytest.fixture
def opened(server: PostgresServer, tmp_path: Path) -> Iterator[Open]:
    """Opens a stream of a table: ``opened("id INT; v STRING", key=("id",), scan__startup__mode="never")``."""
    with opening(partial(declared, server), tmp_path) as open_stream:
        yield open_stream


def declared(server: PostgresServer, *columns: Any, **options: Any) -> Table:
    usual = {**server.options, "table-name": "t", "slot.name": f"slot{next(_slots)}", "heartbeat.interval": "0 s"}
    return declared_table("postgres-cdc", usual, *columns, **options)


def error_of(action: Callable[[], object]) -> str:
    return text_of_error(action, PASSWORD)


# --- rows and changes -----------------------------------------------------------------------------------------


def test_rows_are_read_first_and_then_their_changes(server: PostgresServer, opened: Open):
    server.execute(
        "CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t SELECT i, 'v' || i FROM generate_series(1, 5) i"
    )
    stream = opened("id INT; v STRING", scan__incremental__snapshot__chunk__size="2")
    assert stream.next() == [(1, "v1", "+I"), (2, "v2", "+I")]
    server.execute(
        "BEGIN; INSERT INTO t VALUES (6, NULL); UPDATE t SET v = 'new' WHERE id = 1; DELETE FROM t WHERE id = 2; END",
        "UPDATE t SET id = 7 WHERE id = 4",
    )
    assert sorted(stream.next() + stream.next()) == [(3, "v3", "+I"), (4, "v4", "+I"), (5, "v5", "+I")]
    assert stream.all() == [
        (6, None, "+I"), (1, "new", "+U"), (2, None, "-D"), (4, None, "-D"), (7, "v4", "+I"),
    ]  # fmt: skip
    assert stream.all() == []


def test_a_job_goes_on_where_it_was_and_repeats_what_was_not_complete(server: PostgresServer, opened: Open):
    server.execute(
        "CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t SELECT i, i FROM generate_series(1, 4) i"
    )
    stream = opened("id INT; v INT", scan__incremental__snapshot__chunk__size="3")
    rows = stream.next()
    server.execute("UPDATE t SET v = -v WHERE id IN (1, 4)")
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
    assert merged(rows + rest) == [(1, 10 - 10), (2, 22), (3, 23), (4, 16)]


def test_a_micro_batch_behind_a_slow_one_reads_fewer_changes(server: PostgresServer, opened: Open):
    server.execute("CREATE TABLE t (id int PRIMARY KEY)")
    stream = opened("id INT", source__max_rows_per_trigger="300", wanted_ms=1)
    assert stream.all() == []
    server.execute(*(f"INSERT INTO t VALUES ({i})" for i in range(450)))
    stream.restart()
    stream.reader.prepareForTriggerAvailableNow()  # which waits for as many as a micro-batch may read
    sizes: list[int] = []
    while sum(sizes) < 450:
        sizes += [len(rows)] if (rows := stream.next()) else []
        time.sleep(0.05)
    assert 90 < sizes[0] <= 100  # three messages of the log are a transaction of one row
    assert max(sizes[1:]) == 33


def test_the_slot_moves_only_when_a_micro_batch_is_complete(server: PostgresServer, opened: Open):
    def kept() -> int:
        ((kept,),) = server.rows("SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots")
        assert kept is not None
        return int(str(kept))

    server.execute("CREATE TABLE t (id int PRIMARY KEY)")
    stream = opened("id INT")
    assert stream.all() == []
    begun = kept()
    server.execute("INSERT INTO t VALUES (1)")
    assert stream.next() == [(1, "+I")]
    assert kept() == begun
    position = json.loads(stream.offsets[-1])
    assert not stream.plan()
    stream.stop()
    high, low = position["lsn"].split("/")
    assert kept() == (int(high, 16) << 32) + int(low, 16) > begun


def test_a_position_between_transactions_that_follow_each_other_is_of_one_of_them(server: PostgresServer, opened: Open):
    """The record of the second COMMIT begins where that of the first ends."""
    server.execute("CREATE TABLE t (id int PRIMARY KEY)")
    stream = opened("id INT", source__max_rows_per_trigger="1")
    assert stream.all() == []
    with server.connected() as one, server.connected() as other:
        for writer, key in ((one, 1), (other, 2)):
            writer.execute(f"BEGIN; INSERT INTO t VALUES ({key})")
        other.execute("COMMIT")
        one.execute("COMMIT")
    for key in (2, 1):
        assert stream.plan()
        for _ in range(2):
            stream.restart()
            assert stream.read() == [(key, "+I")]
    assert not stream.plan()


def test_a_quiet_table_lets_the_server_forget_its_log(server: PostgresServer, opened: Open):
    server.execute("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE other (id int)")
    stream = opened("id INT", heartbeat__interval="1 ms")
    assert stream.all() == []
    before = json.loads(stream.offsets[-1])["lsn"]
    server.execute("INSERT INTO other SELECT generate_series(1, 100)")
    assert stream.plan()
    assert stream.read() == []
    position = json.loads(stream.offsets[-1])["lsn"]
    assert position > before
    server.execute("INSERT INTO t VALUES (1)")
    assert stream.all() == [(1, "+I")]
    stream.stop()
    assert server.rows(f"SELECT confirmed_flush_lsn >= '{position}' FROM pg_replication_slots") == [(True,)]


def test_a_table_of_no_columns_read_and_one_without_rows_are_read(server: PostgresServer, opened: Open, tmp_path: Path):
    server.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)")
    stream = opened("id INT")
    stream.columns = ()
    stream.start()
    assert stream.all() == [("+I",), ("+I",)]
    server.execute("CREATE TABLE u (id int PRIMARY KEY)")
    assert opened("id INT", table_name="u").all() == []


@pytest.mark.parametrize("columns", ["id", "id, v"])
def test_parts_have_as_many_rows_as_they_should(server: PostgresServer, opened: Open, columns: str):
    """Numbers in another order than their texts."""
    server.execute(
        f"CREATE TABLE t (id int, v int, PRIMARY KEY ({columns}))",
        "INSERT INTO t SELECT i, -i FROM generate_series(1, 25) i",
    )
    stream = opened("id INT; v INT", tuple(columns.split(", ")), scan__incremental__snapshot__chunk__size="10")
    assert [[n for n, *_ in stream.next()] for _ in range(3)] == [
        list(range(1, 11)), list(range(11, 21)), list(range(21, 26)),
    ]  # fmt: skip


class Work:
    """Transactions of two connections that overlap, are rolled back whole or to a savepoint, or move rows to other
    keys. Keys are texts, because only the server knows their order.
    """

    def __init__(self, server: PostgresServer, random: Random) -> None:
        self._random = random
        self._keys = [f"{chr(i)}{i}" for i in range(60, 130) if chr(i) not in "\\'"]
        self._writers = [server.connected() for _ in range(2)]
        for writer in self._writers:
            writer.execute("SET lock_timeout = '20 ms'")
            writer.autocommit = False

    def step(self) -> None:
        writer, what = self._random.choice(self._writers), self._random.randrange(11)
        key, other = (self._random.choice(self._keys) for _ in range(2))
        try:
            if what < 3:
                sql = "INSERT INTO t VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET v = EXCLUDED.v + 1"
                writer.execute(sql, [key, self._random.randrange(100)])
            elif what < 5:
                writer.execute("DELETE FROM t WHERE id = %s", [key])
            elif what == 5:
                writer.execute("UPDATE t SET id = %s WHERE id = (SELECT min(id) FROM t WHERE id >= %s)", [other, key])
            elif what == 6:
                writer.rollback()
            elif what > 8:
                writer.execute("SAVEPOINT s" if what == 9 else "ROLLBACK TO s")
            else:
                writer.commit()
        except psycopg.Error:  # another one has the row, or the key
            writer.rollback()

    def end(self) -> None:
        for writer in self._writers:
            writer.commit()
            writer.close()


@pytest.mark.parametrize("seed", range(6))
def test_any_order_of_work_and_of_failures_gives_the_table(
    server: PostgresServer, opened: Open, seed: int, monkeypatch: pytest.MonkeyPatch
):
    """Also while rows are copied, while micro-batches are repeated by other processes, and where the server sends all
    transactions while they run.
    """
    monkeypatch.setattr("sqlstream.udfs.database_changes._AT_ONCE", 3)
    random = Random(seed)
    before = bool(seed % 2)
    if seed % 3:
        server.execute("ALTER ROLE postgres SET debug_logical_replication_streaming = immediate")
    server.execute(
        "CREATE TABLE t (id text PRIMARY KEY, v int)",
        "INSERT INTO t SELECT chr(i) || i, i FROM generate_series(65, 122, 3) i",
        *(["ALTER TABLE t REPLICA IDENTITY FULL"] if before else []),
    )
    stream = opened("id STRING; v INT", before=before, scan__incremental__snapshot__chunk__size="4")
    table: dict[Row, Row] = {}
    merged(stream.next(), 1, table)
    work = Work(server, random)
    for _ in range(70):
        what = random.randrange(12)
        if what < 9:
            work.step()
        elif what < 11 and stream.plan():
            if random.random() < 0.3:
                stream.restart()
            merged(stream.read(), 1, table)
        else:
            stream.restart()
    work.end()
    merged(stream.all(), 1, table)
    assert sorted(table.values()) == sorted(server.rows("TABLE t"))


def test_large_transactions_are_received_while_they_run(
    server: PostgresServer, opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def received() -> int:
        return sum(path.stat().st_size for path in tmp_path.rglob("log-*"))

    def wait_for(least: int, most: int) -> None:
        deadline = time.monotonic() + 30
        while not least <= received() <= most:
            assert stream.next() == []
            assert time.monotonic() < deadline, received()

    monkeypatch.setattr("sqlstream.connectors.changes.spools._BYTES_AT_ONCE", 1000)
    monkeypatch.setattr("sqlstream.connectors.on_spark.database_changes._PATIENT_SECONDS", 0.1)
    server.execute(
        "CREATE TABLE t (id int PRIMARY KEY, v text)", "ALTER ROLE postgres SET logical_decoding_work_mem = '64kB'"
    )
    stream = opened("id INT; v STRING")
    assert stream.all() == []
    many = "INSERT INTO t SELECT i, repeat('x', 100) FROM generate_series({}, {}) i"
    with server.connected() as writer, server.connected() as other:
        writer.autocommit = other.autocommit = False
        writer.execute(many.format(1, 3000))
        wait_for(200_000, 10_000_000)
        other.execute(many.format(10_001, 14_000))
        writer.execute("SAVEPOINT s")
        writer.execute(many.format(3001, 9000))
        wait_for(900_000, 10_000_000)
        stream.restart()
        wait_for(900_000, 10_000_000)
        writer.execute("ROLLBACK TO s")
        server.execute("INSERT INTO t VALUES (0, 'small')")
        assert stream.all() == [(0, "small", "+I")]
        writer.execute("UPDATE t SET id = -id WHERE id = 1")
        writer.commit()
        found = stream.all()
        assert merged(found[:3000] + found[3000:]) == sorted(
            ((n if n > 1 else -1, "x" * 100) for n in range(1, 3001)), key=repr
        )
        other.rollback()
        server.execute("INSERT INTO t VALUES (1, 'new')")
        assert stream.all() == [(1, "new", "+I")]
        wait_for(0, 1000)


@pytest.mark.parametrize("key", [("b", "a"), ("c",)])
def test_parts_are_of_the_key_of_the_database_whatever_key_is_declared(
    server: PostgresServer, opened: Open, key: tuple[str, ...]
):
    server.execute(
        "CREATE TABLE t (a int, b int, c int UNIQUE, v int, PRIMARY KEY (a, b))",
        "INSERT INTO t SELECT i, 10 - i, (i * 7) % 10, 0 FROM generate_series(1, 6) i",
        "ALTER TABLE t REPLICA IDENTITY FULL",
    )
    stream = opened("a INT; b INT; c INT; v INT", key, scan__incremental__snapshot__chunk__size="2")
    rows = []
    for _ in range(3):
        rows += stream.next()
        server.execute("UPDATE t SET v = v + 1")
        stream.restart()
    rows += stream.all()
    assert [kind for *_, kind in rows].count("+I") == 6
    assert [v for *_, v in merged(rows, 2)] == [3] * 6


# --- values ---------------------------------------------------------------------------------------------------

_TYPES = {
    "b boolean": ("BOOLEAN", "true", "NULL"),
    "s smallint": ("SMALLINT", "-32768", "32767"),
    "i integer": ("INT", "-2147483648", "0"),
    "l bigint": ("BIGINT", "9223372036854775807", "NULL"),
    "r real": ("FLOAT", "'NaN'", "0.1"),
    "d double precision": ("DOUBLE", "'-Infinity'", "1e300"),
    "n numeric": ("DECIMAL(20, 3)", "12345678901234567.125", "-0.001"),
    "n2 numeric(6, 2)": ("DECIMAL(10, 2)", "9999.99", "0"),
    "nt numeric": ("STRING", "'NaN'", "1.10"),
    "v varchar(9)": ("STRING", "E'a\\nb\"c,\\\\ \\t'", "''"),
    "c char(5)": ("STRING", "'ab'", "NULL"),
    "bt boolean": ("STRING", "true", "false"),
    "u uuid": ("STRING", "'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "NULL"),
    "j json": ("STRING", "'{\"a\":  [1]}'", "NULL"),
    "jb jsonb": ("STRING", "'{\"a\":  [1]}'", "'null'"),
    "ip inet": ("STRING", "'10.0.0.1'", "'::1'"),
    "e mood": ("STRING", "'so so'", "'ok'"),
    "x bytea": ("BINARY", "'\\x00ff10'", "''"),
    "dt date": ("DATE", "'0001-01-01'", "'9999-12-31'"),
    "ds date": ("STRING", "'infinity'", "'0044-03-15 BC'"),
    "t0 timestamp": ("TIMESTAMP", "'2024-02-29 23:59:59.999999'", "'0001-01-01'"),
    "t1 timestamp": ("TIMESTAMP_NTZ", "'9999-12-31 23:59:59.5'", "'1969-12-31 23:59:59'"),
    "t2 timestamptz": ("TIMESTAMP", "'2024-03-31 02:30:00+02'", "'1900-01-01 00:00:00+00'"),
    "t3 timestamptz": ("TIMESTAMP_NTZ", "'2024-03-31 02:30:00.25+02'", "NULL"),
    "ts timestamptz": ("STRING", "'-infinity'", "'2024-01-01 00:00:00+01'"),
    "tm time": ("STRING", "'24:00:00'", "'00:00:00.5'"),
    "tz timetz": ("STRING", "'24:00:00+15:59'", "'00:00:00.000001-15'"),
    "nn numeric": ("STRING", "1e-20", "'-Infinity'"),
    "rg int4range": ("STRING", "'[1,5)'", "'empty'"),
    "pt point": ("STRING", "'(1,2)'", "NULL"),
    "bi bit varying": ("STRING", "B'0101'", "B''"),
    "rc pair": ("STRING", "ROW(1, 'a,\"b')", "NULL"),
    "cs \"char\"": ("STRING", "'x'", "''"),
    "pn price": ("STRING", "1.50", "NULL"),
    "pd net": ("DECIMAL(10, 2)", "1.50", "NULL"),
    "pb certain": ("STRING", "true", "false"),
    "bc bpchar": ("STRING", "'ab  '", "' '"),
    "ca char(3)[]": ("ARRAY<STRING>", "'{ab,NULL}'", "'{}'"),
    "ip6 inet": ("STRING", "'::ffff:1.2.3.4'", "'10.0.0.0/8'"),
    "ma macaddr": ("STRING", "'08:00:2b:01:02:03'", "NULL"),
    "tv tsvector": ("STRING", "'a b:1A'", "''"),
    "nr numrange": ("STRING", "'[1.50,)'", "NULL"),
    "mr int4multirange": ("STRING", "'{[1,3),[5,7)}'", "'{}'"),
    "na numeric[]": ("ARRAY<STRING>", "'{NaN,1.50,Infinity}'", "NULL"),
    "em mood[]": ("ARRAY<STRING>", "'{\"so so\",ok}'", "NULL"),
    "bo box[]": ("STRING", "'{(1,2),(0,0);(3,4),(0,0)}'", "NULL"),
    "mn money": ("STRING", "'1234.5'", "NULL"),
    "fa real[]": ("ARRAY<FLOAT>", "'{NaN,-Infinity,0.1}'", "NULL"),
    "iv interval": ("STRING", "'1 mon -2 days 03:00'", "NULL"),
    "ai integer[]": ("ARRAY<INT>", "'{1,NULL,3}'", "'{}'"),
    "at text[]": ("ARRAY<STRING>", "ARRAY['a', NULL, 'NULL', '', 'q\"\\,{}', E'\\n']", "NULL"),
    "ad numeric[]": ("ARRAY<DECIMAL(10, 2)>", "'{1.5,2}'", "'{NULL}'"),
    "az timestamptz[]": ("ARRAY<TIMESTAMP>", "'{2024-01-01 00:00:00+01}'", "NULL"),
}  # fmt: skip


def test_the_log_and_the_rows_that_were_there_have_the_same_values(server: PostgresServer, opened: Open):
    """And both are what the connector postgres reads."""
    server.execute(
        "CREATE TYPE mood AS ENUM ('ok', 'so so')",
        "CREATE TYPE pair AS (a int, b text)",
        "CREATE DOMAIN price AS numeric CHECK (VALUE > 0)",
        "CREATE DOMAIN known AS boolean",
        "CREATE DOMAIN certain AS known NOT NULL",
        "CREATE DOMAIN net AS price",
        f"CREATE TABLE t (id int PRIMARY KEY, {', '.join(_TYPES)}, g int GENERATED ALWAYS AS (id + 1) STORED)",
        *(f"INSERT INTO t VALUES ({n}, {', '.join(v[n] for v in _TYPES.values())})" for n in (1, 2)),
    )
    stream = opened("; ".join(["id INT", *(f"{name.split()[0]} {kind}" for name, (kind, *_) in _TYPES.items())]))
    copied = stream.next()
    server.execute("INSERT INTO t SELECT id + 2, " + ", ".join(n.split()[0] for n in _TYPES) + " FROM t")
    logged = stream.all()
    assert [repr(row[1:]) for row in logged] == [repr(row[1:]) for row in copied]
    first = dict(zip(("id", *(name.split()[0] for name in _TYPES)), copied[0], strict=False))
    assert (first["c"], first["bt"], first["ip"], first["nt"]) == ("ab", "true", "10.0.0.1/32", "NaN")
    assert first["at"] == ["a", None, "NULL", "", 'q"\\,{}', "\n"]
    assert str(first["t2"]) == "2024-03-31 00:30:00+00:00"
    assert first["x"] == b"\x00\xff\x10"


def test_a_database_may_have_another_encoding(server: PostgresServer, opened: Open):
    server.execute("CREATE DATABASE western ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    url = f"postgresql://127.0.0.1:{server.port}/western"
    with psycopg.connect(make_conninfo(**{**server.conninfo, "dbname": "western"}), autocommit=True) as western:
        western.execute("""CREATE TABLE t (id int PRIMARY KEY, "größe" text)""")
        western.execute("INSERT INTO t VALUES (1, 'äöü')")
        stream = opened("id INT; größe STRING", url=url)
        assert stream.all() == [(1, "äöü", "+I")]
        western.execute("INSERT INTO t VALUES (2, 'ß')")
        assert stream.all() == [(2, "ß", "+I")]
        stream.stop()
        while western.execute("SELECT FROM pg_replication_slots WHERE active").fetchall():
            time.sleep(0.01)  # the server does not notice at once that the connection is closed
        western.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
    server.execute("DROP DATABASE western WITH (FORCE)")


@pytest.mark.parametrize(
    ("stored", "declared_as", "value"),
    [
        ("numeric", "DECIMAL(5, 2)", "'NaN'"),
        ("timestamptz", "TIMESTAMP", "'infinity'"),
        ("int[]", "ARRAY<INT>", "'{{1}}'"),
        ("numeric", "DECIMAL(5, 2)", "'-Infinity'"),
        ("numeric", "DECIMAL(5, 2)", "1000"),
        ("date", "DATE", "'infinity'"),
        ("date", "DATE", "'0044-03-15 BC'"),
        ("date", "DATE", "'5874897-12-31'"),
        ("timestamp", "TIMESTAMP_NTZ", "'4713-01-01 BC'"),
        ("timestamp", "TIMESTAMP_NTZ", "'294276-12-31 23:59:59'"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(
    server: PostgresServer, opened: Open, stored: str, declared_as: str, value: str
):
    """In the log as in the rows that were there; a STRING takes it."""
    server.execute(f"CREATE TABLE t (id int PRIMARY KEY, v {stored})")
    logged, texts = opened(f"id INT; v {declared_as}"), opened("id INT; v STRING")
    assert logged.all() == texts.all() == []
    server.execute(f"INSERT INTO t VALUES (1, {value})")
    for stream in (logged, opened(f"id INT; v {declared_as}")):
        assert 'SS402: column "v" of table "t" is "' in error_of(stream.next)
    assert len(texts.all()) == 1


def test_metadata_columns_say_where_a_row_is_from(server: PostgresServer, opened: Open):
    server.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    table = declared(server, "id INT")
    keys = {"at": "op_ts", "d": "database_name", "s": "schema_name", "n": "table_name"}
    more = tuple(
        Column(name, parse_type("TIMESTAMP" if name == "at" else "STRING"), metadata_key=key)
        for name, key in keys.items()
    )
    stream = opened("id INT")
    stream.table = Table(
        "t", (*table.columns, *more), "postgres-cdc", table.options, primary_key=("id",), changelog=UPSERT
    )
    stream.columns = ("id", *keys)
    stream.start()
    ((one, at, *where, kind),) = stream.next()
    assert (one, at.timestamp(), where, kind) == (1, 0, ["postgres", "public", "t"], "+I")
    server.execute("INSERT INTO t VALUES (2)")
    ((now,),) = server.rows("SELECT now()")
    ((_, at, *_),) = stream.all()
    assert abs((now - at).total_seconds()) < 10


# --- what the log has of rows ---------------------------------------------------------------------------------


def test_large_values_that_did_not_change_are_those_of_the_old_row(server: PostgresServer, opened: Open):
    big = "repeat('x', 5000) || (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 500) i)"
    server.execute(
        "CREATE TABLE t (id int PRIMARY KEY, v text, n int)", "ALTER TABLE t REPLICA IDENTITY FULL",
        f"INSERT INTO t VALUES (1, {big}, 0)",
    )  # fmt: skip
    stream, upserts = opened("id INT; v STRING; n INT", before=True), opened("id INT; v STRING; n INT")
    ((_, text, _, _),) = stream.next()
    assert upserts.next() == [(1, text, 0, "+I")]
    server.execute("UPDATE t SET n = 1", "UPDATE t SET n = 2", "UPDATE t SET id = 2, v = 'small'", "DELETE FROM t")
    assert stream.all() == [
        (1, text, 0, "-U"), (1, text, 1, "+U"), (1, text, 1, "-U"), (1, text, 2, "+U"),
        (1, text, 2, "-D"), (2, "small", 2, "+I"), (2, "small", 2, "-D"),
    ]  # fmt: skip
    assert upserts.all() == [
        (1, text, 1, "+U"), (1, text, 2, "+U"), (1, text, 2, "-D"), (2, "small", 2, "+I"), (2, "small", 2, "-D"),
    ]  # fmt: skip
    server.execute(f"INSERT INTO t VALUES (3, {big}, 0)", "UPDATE t SET id = 4", "UPDATE t SET id = 5, n = 1")
    assert stream.all() == [
        (3, text, 0, "+I"), (3, text, 0, "-D"), (4, text, 0, "+I"), (4, text, 0, "-D"), (5, text, 1, "+I"),
    ]  # fmt: skip


LARGE = "(SELECT string_agg(md5(i::text || {}), '') FROM generate_series(1, 500) i)"
WITH_LARGE = ("CREATE TABLE t (id int PRIMARY KEY, v text, n int)", f"INSERT INTO t VALUES (1, {LARGE.format(0)}, 0)")


def large_of(server: PostgresServer, number: int = 0) -> str:
    ((text,),) = server.rows(f"SELECT {LARGE.format(number)}")
    return str(text)


def test_a_large_value_that_the_log_lacks_is_that_of_the_row_now(server: PostgresServer, opened: Open):
    """Whatever came later, the last row of each key is right: values change, and rows move, go and come again."""
    server.execute(*WITH_LARGE, f"INSERT INTO t SELECT i, {LARGE.format(0)}, 0 FROM generate_series(2, 5) i")
    stream = opened("id INT; v STRING; n INT")
    rows = stream.next()
    server.execute(
        "UPDATE t SET n = 1", f"UPDATE t SET v = {LARGE.format(2)} WHERE id = 2", "UPDATE t SET n = 2 WHERE id = 2",
        "UPDATE t SET id = 30 WHERE id = 3", "UPDATE t SET id = 31 WHERE id = 30", "DELETE FROM t WHERE id = 4",
        f"DELETE FROM t WHERE id = 5; INSERT INTO t VALUES (5, {LARGE.format(5)}, 7)",
        "UPDATE t SET id = 11 WHERE id = 1; UPDATE t SET n = 3 WHERE id = 11",
    )  # fmt: skip
    old, two, five = (large_of(server, number) for number in (0, 2, 5))
    changes = stream.read() if stream.plan() else []
    assert changes[:3] == [(2, two, 1, "+U"), (5, five, 1, "+U"), (2, two, 1, "+U")]
    assert [row[:1] + row[2:] for row in changes[3:]] == [
        (2, 2, "+U"), (3, None, "-D"), (30, None, "-D"), (31, 1, "+I"), (4, None, "-D"),
        (5, None, "-D"), (5, 7, "+I"), (1, None, "-D"), (11, 1, "+I"), (11, 3, "+U"),
    ]  # fmt: skip
    there = {row[0]: row[:-1] for row in rows}
    for *values, kind in changes:
        if kind == "-D":
            there.pop(values[0], None)
        else:
            there[values[0]] = tuple(values)
    assert sorted(there.values()) == [(2, two, 2), (5, five, 7), (11, old, 3), (31, old, 1)]
    assert sorted(there.values()) == server.rows("TABLE t ORDER BY id")


def test_a_value_is_asked_for_when_its_change_is_seen(server: PostgresServer, opened: Open, monkeypatch: Any):
    """A transaction may be in the log before others see it, whose older value would stay."""
    server.execute(*WITH_LARGE)
    stream = opened("id INT; v STRING; n INT")
    stream.next()
    sees, seen = Snapshot.sees, []

    def sees_later(snapshot: Snapshot, transactions: Any) -> Any:
        seen.append(sees(snapshot, transactions))
        if len(seen) == 1:
            server.execute(f"UPDATE t SET v = {LARGE.format(3)}")
            return ~seen[0]
        return seen[-1]

    server.execute(f"BEGIN; UPDATE t SET v = {LARGE.format(2)}; UPDATE t SET n = 1; COMMIT")
    assert stream.plan()
    monkeypatch.setattr(Snapshot, "sees", sees_later)
    assert stream.read() == [(1, large_of(server, 2), 0, "+U"), (1, large_of(server, 3), 1, "+U")]
    assert [array.tolist() for array in seen] == [[True], [True]]


def test_many_large_values_are_asked_for_some_at_a_time(server: PostgresServer, opened: Open, monkeypatch: Any):
    server.execute(
        "CREATE TABLE t (a int, b text, v text, w text, n int, PRIMARY KEY (b, a)) PARTITION BY HASH (a)",
        "CREATE TABLE t0 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
        "CREATE TABLE t1 (w text, n int, b text NOT NULL, a int NOT NULL, v text)",
        "ALTER TABLE t ATTACH PARTITION t1 FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
        f"INSERT INTO t SELECT i, 'é' || i, i || {LARGE.format(0)}, 'small', 0 FROM generate_series(0, 99) i",
    )  # fmt: skip
    monkeypatch.setattr(postgres_changes, "_ASKED_AT_ONCE", 10)
    stream = opened("a INT; b STRING; v STRING; w STRING; n INT", key=("b", "a"))
    stream.next()
    server.execute("UPDATE t SET n = n + 1", "UPDATE t SET w = v WHERE a < 50", "UPDATE t SET n = n + 1")
    batches = []
    while stream.plan():  # the server may send what is committed in several parts
        shares = stream.reader.partitions(*map(json.loads, stream.offsets[-2:]))
        batches += [b for share in shares for b in stream.changes.rows(stream.reader.read(share))]
    assert max(batch.num_rows for batch in batches) <= 10 and sum(batch.num_rows for batch in batches) == 250
    rows = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    assert sorted(row[:-1] for row in rows[-100:]) == sorted(server.rows("SELECT a, b, v, w, n FROM t"))


def test_a_table_that_was_changed_has_no_value_now(server: PostgresServer, opened: Open):
    server.execute(*WITH_LARGE)
    stream, follows = opened("id INT; v STRING; n INT"), opened("id INT; v STRING; n INT", scan__schema_change="follow")
    assert len(stream.next()) == len(follows.next()) == 1
    server.execute("UPDATE t SET n = 1", "ALTER TABLE t RENAME v TO w")
    assert follows.next() == [(1, None, 1, "+U")]
    assert error_of(stream.next).startswith('SS622: table "public.t" has no column "v" now: it was changed')
    server.execute("DROP TABLE t CASCADE")
    for gone in (stream, follows):
        assert error_of(gone.read).startswith('SS622: table "public.t" has no column "id" now: it was changed')


def test_who_may_not_read_the_table_learns_what_to_do(server: PostgresServer, opened: Open):
    server.execute(*WITH_LARGE, f"CREATE ROLE reader REPLICATION LOGIN PASSWORD '{PASSWORD}'")
    try:
        server.execute(
            "GRANT USAGE ON SCHEMA public TO reader", "GRANT SELECT ON t TO reader", "CREATE PUBLICATION p FOR TABLE t"
        )
        stream = opened("id INT; v STRING; n INT", username="reader", publication__name="p")
        assert len(stream.next()) == 1
        server.execute("REVOKE SELECT ON t FROM reader", "UPDATE t SET n = 1")
        assert error_of(stream.next) == (
            'SS562: large values of table "t" that the log lacks cannot be read: PostgreSQL says: permission denied '
            'for table t\nHINT: ALTER TABLE "public"."t" REPLICA IDENTITY FULL; brings them into the log from now on.'
        )
        stream.stop()
    finally:
        server.execute("DROP OWNED BY reader", "DROP ROLE reader")


def test_large_values_of_rows_that_changed_often_are_right_in_the_end(server: PostgresServer, opened: Open):
    """Also where keys are swapped, and rows are deleted and come again."""
    server.execute(
        "CREATE TABLE t (id int PRIMARY KEY, v text, w text, n int)",
        f"INSERT INTO t SELECT i, {LARGE.format('i')}, {LARGE.format('i + 100')}, 0 FROM generate_series(1, 6) i",
    )  # fmt: skip
    stream = opened("id INT; v STRING; w STRING; n INT")
    there = {row[0]: row[:-1] for row in stream.all()}
    server.execute(
        "UPDATE t SET n = 1", "UPDATE t SET n = 2", f"UPDATE t SET v = {LARGE.format(500)} WHERE id = 1",
        "UPDATE t SET n = 3 WHERE id = 1", "UPDATE t SET id = 11 WHERE id = 2", "UPDATE t SET n = 4 WHERE id = 11",
        "UPDATE t SET id = 2, w = 'small' WHERE id = 11", "UPDATE t SET v = NULL WHERE id = 3",
        "UPDATE t SET n = 5 WHERE id = 3", "DELETE FROM t WHERE id = 4",
        f"INSERT INTO t VALUES (4, {LARGE.format(9)}, NULL, 1)", "UPDATE t SET n = 9 WHERE id = 4",
        "BEGIN; UPDATE t SET id = 50 WHERE id = 5; UPDATE t SET id = 5 WHERE id = 6; "
        "UPDATE t SET id = 6 WHERE id = 50; UPDATE t SET n = n + 1 WHERE id IN (5, 6); COMMIT",
        f"INSERT INTO t VALUES (7, {LARGE.format(7)}, 'w', 0)", "UPDATE t SET n = 1 WHERE id = 7",
        "DELETE FROM t WHERE id = 7",
    )  # fmt: skip
    for *values, kind in stream.all():
        if kind == "-D":
            there.pop(values[0], None)
        else:
            there[values[0]] = tuple(values)
    assert sorted(there.values()) == server.rows("TABLE t ORDER BY id")


def test_large_values_that_the_log_lacks_may_be_an_error_of_which_a_job_is_warned(server: PostgresServer, opened: Open):
    server.execute(*WITH_LARGE)
    hint = (
        'HINT: ALTER TABLE "public"."t" REPLICA IDENTITY FULL; before the update, or let \'scan.unchanged-toast\' = '
        "'current' read the value of the row now."
    )
    with pytest.warns(SqlStreamWarning) as warned:
        stream = opened("id INT; v STRING; n INT", scan__unchanged_toast="fail")
    assert [str(warning.message) for warning in warned] == [
        'WARNING SS623: an update that leaves a large value of column "v" of table "public.t" as it was ends the job, '
        f"because the log does not repeat it\n{hint}"
    ]
    other = opened("id INT; n INT", scan__unchanged_toast="fail")
    assert len(stream.next()) == len(other.next()) == 1
    server.execute("UPDATE t SET v = v || 'new'", "UPDATE t SET n = 1")
    assert other.all() == [(1, 0, "+U"), (1, 1, "+U")]
    assert error_of(stream.next) == (
        'SS623: column "v" of table "public.t" has a large value that an update left as it was, and the log does not '
        f"repeat it\n{hint}"
    )
    server.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    assert len(opened("id INT; v STRING; n INT", scan__unchanged_toast="fail").next()) == 1


def test_a_key_may_be_a_large_value(server: PostgresServer, opened: Open):
    server.execute("CREATE TABLE t (id text PRIMARY KEY, n int)", "ALTER TABLE t ALTER id SET STORAGE EXTERNAL",
                   "INSERT INTO t SELECT string_agg(md5(i::text), ''), 0 FROM generate_series(1, 80) i")  # fmt: skip
    stream = opened("id STRING; n INT", scan__unchanged_toast="current")
    ((key, _, _),) = stream.next()
    server.execute("UPDATE t SET n = 1", "UPDATE t SET n = 2")
    assert stream.next() == [(key, 1, "+U"), (key, 2, "+U")]


def test_a_table_without_a_key_needs_whole_old_rows(server: PostgresServer, opened: Open):
    server.execute("CREATE TABLE t (v text)", "INSERT INTO t VALUES ('a'), ('a'), (NULL)")
    refused = declared(server, "v STRING", key=(), before=True)
    with pytest.raises(SqlStreamError, match=r'SS623: the log has no old rows of table "public.t"'):
        Stream(refused, Path())
    server.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    stream = opened("v STRING", key=(), before=True)
    assert sorted(stream.next(), key=repr) == [("a", "+I"), ("a", "+I"), (None, "+I")]
    server.execute("UPDATE t SET v = 'b' WHERE ctid = '(0,1)'", "DELETE FROM t WHERE v IS NULL")
    assert stream.all() == [("a", "-U"), ("b", "+U"), (None, "-D")]


def test_a_key_that_the_log_does_not_have_is_refused(server: PostgresServer, opened: Open):
    server.execute("CREATE TABLE t (id int PRIMARY KEY, v int UNIQUE NOT NULL)", "CREATE TABLE u (id int)")
    assert error_of(lambda: opened("id INT; v INT", key=("v",))).startswith(
        'SS626: PRIMARY KEY (v) of table "t" is not the key by which the log identifies rows (id)'
    )
    assert 'SS626: table "public.u" has no key' in error_of(lambda: opened("id INT", table_name="u"))
    assert server.rows("SELECT count(*) FROM pg_publication") == [(0,)], "writers of the table would fail"
    server.execute("ALTER TABLE t REPLICA IDENTITY USING INDEX t_v_key", "INSERT INTO t VALUES (1, 2)")
    stream = opened("id INT; v INT", key=("v",))
    assert stream.next() == [(1, 2, "+I")]
    server.execute("UPDATE t SET id = 5", "DELETE FROM t")
    assert stream.all() == [(5, 2, "+U"), (None, 2, "-D")]


def test_truncate_is_an_error_or_skipped(server: PostgresServer, opened: Open):
    server.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    stream, other = opened("id INT"), opened("id INT", scan__truncate="skip")
    assert stream.next() == other.next()
    server.execute("TRUNCATE t", "INSERT INTO t VALUES (2)")
    assert error_of(stream.next).startswith('SS624: table "public.t" was emptied by TRUNCATE')
    assert other.all() == [(2, "+I")]


def test_columns_may_be_added_and_other_changes_of_the_table_are_told(server: PostgresServer, opened: Open):
    server.execute("CREATE TABLE t (id int PRIMARY KEY, v int, w int)", "INSERT INTO t VALUES (1, 1, 1)")
    stream, other = opened("id INT; v INT"), opened("id INT; v INT", scan__schema_change="follow")
    assert stream.next() == other.next()
    server.execute(
        "ALTER TABLE t DROP w", "ALTER TABLE t ADD x text", "INSERT INTO t VALUES (2, 2, 'x')",
    )  # fmt: skip
    assert stream.all() == other.all() == [(2, 2, "+I")]
    server.execute("BEGIN; INSERT INTO t VALUES (3, 3, 'x'); ALTER TABLE t ALTER v TYPE bigint; UPDATE t SET v = 4 "
                   "WHERE id = 2; COMMIT", "ALTER TABLE t RENAME v TO y", "INSERT INTO t VALUES (5, 5)")  # fmt: skip
    assert error_of(stream.all).startswith(
        'SS622: table "public.t" has a column "v" in the log whose type was not integer: it was changed\nHINT: Declare'
    )
    assert [row for row in other.all() if row[0] != 1] == [(3, 3, "+I"), (2, 4, "+U"), (5, None, "+I")]


def test_a_type_that_was_another_is_read_by_its_texts(server: PostgresServer, opened: Open):
    server.execute("CREATE TABLE t (id int PRIMARY KEY, b text, x text, w timestamptz, n int)")
    columns = "id INT; b BOOLEAN; x BINARY; w TIMESTAMP; n STRING"
    stream = opened("id INT", scan__schema_change="follow")
    assert stream.all() == []
    stream.stop()
    server.execute(
        r"INSERT INTO t VALUES (1, 'true', '\xff', '2024-01-01 00:00:00+00', 7)",
        "INSERT INTO t VALUES (2, 'f', 'text', NULL, NULL)",
        "ALTER TABLE t ALTER b TYPE boolean USING b::boolean, ALTER x TYPE bytea USING x::bytea, "
        "ALTER w TYPE timestamp USING w AT TIME ZONE 'UTC', ALTER n TYPE text",
        r"INSERT INTO t VALUES (3, true, '\x', '2024-01-01', 'x')",
    )  # fmt: skip
    stream.table = declared(
        server, columns, scan__schema_change="follow", slot__name=dict(stream.table.options)["slot.name"]
    )
    stream.columns = tuple(c.name for c in stream.table.columns)
    stream.start()
    assert error_of(stream.all).startswith('SS402: column "x" of table "t" is "text", which is no BINARY')
    stream.columns = ("id", "b", "w", "n")
    stream.restart()
    assert [(i, b, str(w)[:10], n) for i, b, w, n, _ in stream.read()] == [
        (1, True, "2024-01-01", "7"), (2, False, "None", None), (3, True, "2024-01-01", "x"),
    ]  # fmt: skip


def test_older_log_is_read_as_the_table_was_then(server: PostgresServer, opened: Open):
    """By a job that starts with the table as it is now: columns have other places, and other names."""
    server.execute("CREATE TABLE t (a int, id int PRIMARY KEY, v int, old text)")
    stream, strict = opened("id INT; v INT; a INT"), opened("id INT; old STRING")
    follows = opened("id INT; old STRING", scan__schema_change="follow")
    for each in (stream, strict, follows):
        assert each.all() == []
        each.stop()
    server.execute(
        "INSERT INTO t VALUES (7, 1, 10, 'x')", "ALTER TABLE t ADD w int DEFAULT 3", "INSERT INTO t VALUES (7, 2, 20)",
        "ALTER TABLE t DROP a", "ALTER TABLE t ADD a int DEFAULT 5", "INSERT INTO t VALUES (3, 30, 'y', 4, 8)",
        "ALTER TABLE t RENAME old TO new", "UPDATE t SET a = 9",
    )  # fmt: skip
    stream.start()
    assert stream.all() == [
        (1, 10, 7, "+I"), (2, 20, 7, "+I"), (3, 30, 8, "+I"), (1, 10, 9, "+U"), (2, 20, 9, "+U"), (3, 30, 9, "+U"),
    ]  # fmt: skip
    for each in (strict, follows):
        each.table = replace(each.table, columns=(each.table.columns[0], Column("new", parse_type("STRING"))))
        each.columns = ("id", "new")
        each.start()
    assert error_of(strict.all).startswith('SS622: table "public.t" has no column "new" in the log: it was changed\n')
    assert follows.all() == [
        (1, None, "+I"), (2, None, "+I"), (3, None, "+I"), (1, "x", "+U"), (2, None, "+U"), (3, "y", "+U"),
    ]  # fmt: skip


def test_names_are_taken_as_they_are(server: PostgresServer, opened: Open):
    server.execute(
        'CREATE SCHEMA "My ""Schema"', 'CREATE TABLE "My ""Schema"."T.a" ("Id" int PRIMARY KEY, "Drop %s" text)',
        'INSERT INTO "My ""Schema"."T.a" VALUES (1, $$a$$)',
    )  # fmt: skip
    try:
        table = declared(server, "id INT")
        columns = (Column("id", parse_type("INT"), nullable=False), Column("drop %s", parse_type("STRING")))
        options = {**dict(table.options), "schema-name": 'My "Schema', "table-name": "T.a", "publication.name": "P \"'"}
        named = Table("t", columns, "postgres-cdc", tuple(options.items()), primary_key=("id",), changelog=UPSERT)
        server.execute("CREATE TABLE t (id int PRIMARY KEY)")
        stream = opened("id INT")
        stream.table, stream.columns = named, ("id", "drop %s")
        stream.start()
        assert stream.next() == [(1, "a", "+I")]
        server.execute('UPDATE "My ""Schema"."T.a" SET "Drop %s" = $$b$$')
        assert stream.all() == [(1, "b", "+U")]
        stream.stop()
    finally:
        server.execute('DROP SCHEMA "My ""Schema" CASCADE')


@pytest.mark.parametrize("via_root", [True, False])
def test_a_partitioned_table_is_one_table(server: PostgresServer, opened: Open, via_root: bool):
    """Whether the log names the table or its partitions, also new ones and one with its columns in another order."""
    server.execute(
        "CREATE TABLE t (id int, day int, v text, PRIMARY KEY (id, day)) PARTITION BY LIST (day)",
        "CREATE TABLE t1 PARTITION OF t FOR VALUES IN (1)",
        "CREATE TABLE t2 (v text, gone int, day int NOT NULL, id int NOT NULL, PRIMARY KEY (id, day))",
        "ALTER TABLE t2 DROP gone", "ALTER TABLE t ATTACH PARTITION t2 FOR VALUES IN (2)",
        "CREATE TABLE other (id int PRIMARY KEY)",
        f"CREATE PUBLICATION p FOR TABLE t, other WITH (publish_via_partition_root = {via_root})",
        "INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b')",
    )  # fmt: skip
    options = {"scan__incremental__snapshot__chunk__size": "1", "publication__name": "p"}
    stream = opened("id INT; day INT; v STRING", key=("id", "day"), **options)
    rows = stream.next() + stream.next() + stream.all()
    server.execute(
        "UPDATE t SET day = 2 WHERE id = 1", "INSERT INTO t1 VALUES (3, 1, 'c')", "UPDATE t SET day = 2 WHERE id = 3",
        "UPDATE t SET day = 1 WHERE id = 3", "CREATE TABLE t3 PARTITION OF t FOR VALUES IN (3) PARTITION BY HASH (id)",
        "INSERT INTO other VALUES (1)", "CREATE TABLE t30 PARTITION OF t3 FOR VALUES WITH (MODULUS 1, REMAINDER 0)",
        "INSERT INTO t VALUES (4, 3, 'd')", "UPDATE t SET v = v || day", "DELETE FROM t WHERE id = 2",
    )  # fmt: skip
    stream.restart()
    changed = stream.all()
    assert merged(rows + changed, 2) == [(1, 2, "a2"), (3, 1, "c1"), (4, 3, "d3")]
    moves = [row for row in changed if row[0] == 3][:5]
    assert [(day, kind) for _, day, _, kind in moves] == [(1, "+I"), (1, "-D"), (2, "+I"), (2, "-D"), (1, "+I")]


def test_truncate_of_a_partition_is_told(server: PostgresServer, opened: Open):
    server.execute(
        "CREATE TABLE t (id int, day int, PRIMARY KEY (id, day)) PARTITION BY LIST (day)",
        "CREATE TABLE t1 PARTITION OF t FOR VALUES IN (1)", "CREATE TABLE t2 PARTITION OF t FOR VALUES IN (2)",
        "INSERT INTO t VALUES (1, 1), (2, 2)",
    )  # fmt: skip
    stream = opened("id INT; day INT", key=("id", "day"))
    skipping = opened("id INT; day INT", key=("id", "day"), scan__truncate="skip")
    assert len(stream.all()) == len(skipping.all()) == 2
    server.execute("TRUNCATE t2", "INSERT INTO t VALUES (3, 1)")
    assert error_of(stream.next).startswith(
        'SS624: partition "public.t2" of table "public.t" was emptied by TRUNCATE, of which the log names no rows'
    )
    assert skipping.all() == [(3, 1, "+I")]


def test_truncate_that_the_copied_rows_have_seen_is_left_out(server: PostgresServer, opened: Open):
    """As other changes are that were committed before the rows were copied; one between two parts is an error."""
    server.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)")
    stream = opened("id INT")
    stream.first()
    server.execute("TRUNCATE t", "INSERT INTO t VALUES (3)")
    assert stream.all() == [(3, "+I")]
    parts = opened("id INT", scan__incremental__snapshot__chunk__size="1")
    server.execute("INSERT INTO t VALUES (4)")
    assert parts.next() == [(3, "+I")]
    parts.stop()
    server.execute("TRUNCATE t", "INSERT INTO t VALUES (5)")
    parts.start()
    assert error_of(parts.all).startswith('SS624: table "public.t" was emptied by TRUNCATE')


def test_truncate_of_several_tables_is_told(server: PostgresServer, opened: Open):
    server.execute(
        "CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE of (t int REFERENCES t)", "CREATE TABLE other (id int)",
        "CREATE PUBLICATION everything FOR ALL TABLES",
    )  # fmt: skip
    stream = opened("id INT", publication__name="everything")
    assert stream.all() == []
    server.execute("TRUNCATE other, of", "INSERT INTO t VALUES (1)")
    assert stream.all() == [(1, "+I")]
    server.execute("TRUNCATE other, t CASCADE")
    assert error_of(stream.next).startswith('SS624: table "public.t" was emptied by TRUNCATE')


@pytest.mark.parametrize("is_stopped", [True, False])
def test_another_table_of_the_same_name_is_told(server: PostgresServer, opened: Open, is_stopped: bool):
    server.execute("CREATE PUBLICATION everything FOR ALL TABLES", "CREATE TABLE t (id int PRIMARY KEY)")
    stream = opened("id INT", publication__name="everything")
    server.execute("INSERT INTO t VALUES (1)")
    assert stream.all() == [(1, "+I")]
    if is_stopped:
        stream.stop()
    server.execute("DROP TABLE t", "CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (2)")
    if is_stopped:
        stream.start()
    assert error_of(stream.all).startswith(
        'SS622: table "public.t" was dropped, renamed or replaced: the log has another one of its name\nHINT: Start in'
    )


def test_a_table_that_is_renamed_is_the_same_table(server: PostgresServer, opened: Open):
    server.execute("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE u (id int PRIMARY KEY)")
    stream = opened("id INT")
    assert stream.all() == []
    server.execute("INSERT INTO t VALUES (1)", "ALTER TABLE t RENAME TO v", "ALTER TABLE u RENAME TO t",
                   "INSERT INTO v VALUES (2)", "INSERT INTO t VALUES (3)")  # fmt: skip
    assert stream.all() == [(1, "+I"), (2, "+I")]


@pytest.mark.parametrize("how", ["DROP TABLE t2", "ALTER TABLE t DETACH PARTITION t2"])
def test_changes_of_a_partition_that_is_gone_are_read(server: PostgresServer, opened: Open, how: str):
    """A row that was moved or deleted there before would stay otherwise, and a repeated micro-batch lack its rows."""
    server.execute(
        "CREATE TABLE t (id int, day int, PRIMARY KEY (id, day)) PARTITION BY LIST (day)",
        "CREATE TABLE t1 PARTITION OF t FOR VALUES IN (1)", "CREATE TABLE t2 PARTITION OF t FOR VALUES IN (2)",
        "INSERT INTO t VALUES (1, 2), (2, 2)",
    )  # fmt: skip
    stream = opened("id INT; day INT", key=("id", "day"))
    rows = stream.all()
    stream.stop()
    server.execute("UPDATE t SET day = 1 WHERE id = 1", "DELETE FROM t WHERE id = 2", how)
    stream.start()
    changed = stream.next()
    assert changed == [(1, 2, "-D"), (1, 1, "+I"), (2, 2, "-D")]
    stream.restart()
    assert stream.read() == changed
    assert merged(rows + changed, 2) == [(1, 1)]


def test_partitions_must_identify_their_rows(server: PostgresServer, opened: Open):
    """Each partition has an identity of its own, whatever the table has."""
    server.execute(
        "CREATE TABLE t (id int, day int) PARTITION BY LIST (day)", "CREATE TABLE t1 PARTITION OF t FOR VALUES IN (1)",
        "ALTER TABLE t REPLICA IDENTITY FULL",
    )  # fmt: skip
    columns: Any = ("id INT; day INT", (), True)
    assert 'SS623: the log has no old rows of table "public.t1"' in error_of(lambda: opened(*columns))
    server.execute("ALTER TABLE t1 REPLICA IDENTITY FULL")
    stream = opened(*columns)
    assert stream.all() == []
    server.execute("INSERT INTO t VALUES (1, 1)", "UPDATE t SET id = 2")
    assert stream.all() == [(1, 1, "+I"), (1, 1, "-U"), (2, 1, "+U")]
    server.execute("ALTER TABLE t1 REPLICA IDENTITY NOTHING")
    assert 'SS626: table "public.t1" has no key' in error_of(lambda: opened("id INT; day INT", ("id",)))


def test_an_identity_that_is_not_the_key_is_told(server: PostgresServer, opened: Open):
    server.execute("CREATE TABLE t (id int PRIMARY KEY, v int UNIQUE NOT NULL)", "INSERT INTO t VALUES (1, 1)",
                   "ALTER TABLE t REPLICA IDENTITY NOTHING")  # fmt: skip
    assert 'SS626: table "public.t" has no key by which the log identifies rows' in error_of(
        lambda: opened("id INT; v INT")
    )
    server.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    stream = opened("id INT; v INT", ("v",))
    assert stream.all() == [(1, 1, "+I")]
    server.execute("ALTER TABLE t REPLICA IDENTITY DEFAULT", "DELETE FROM t")
    assert error_of(stream.next) == (
        'SS623: the log has no old values of the key (v) of table "public.t"\n'
        'HINT: ALTER TABLE "public"."t" REPLICA IDENTITY FULL; and start in a new directory.'
    )


def test_a_key_that_two_rows_may_have_for_a_moment_is_refused(server: PostgresServer, opened: Open):
    server.execute("CREATE TABLE t (id int PRIMARY KEY DEFERRABLE, v int)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    assert 'SS626: table "public.t" has no key by which' in error_of(lambda: opened("id INT; v INT"))
    server.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    assert error_of(lambda: opened("id INT; v INT")) == (
        'SS626: the key (id) of table "t" is DEFERRABLE: two rows may have it at a time\n'
        "HINT: Leave PRIMARY KEY out, with 'changelog-mode' = 'I,UB,UA,D', or let the key be NOT DEFERRABLE."
    )
    stream = opened("id INT; v INT", (), True, scan__incremental__snapshot__chunk__size="1")
    rows = [row for _ in range(3) for row in stream.next()]
    server.execute("UPDATE t SET id = id + 1")
    assert [row[:2] for row in rows] == [(1, 1), (2, 2)]
    assert stream.all() == [(1, 1, "-D"), (2, 1, "+I"), (2, 2, "-D"), (3, 2, "+I")]


def test_a_key_that_is_renamed_while_rows_are_copied_is_told(server: PostgresServer, opened: Open):
    """The server knows the order of the rows by it."""
    server.execute("CREATE TABLE t (a int PRIMARY KEY, c int UNIQUE, v int)", "ALTER TABLE t REPLICA IDENTITY FULL",
                   "INSERT INTO t SELECT i, -i, 0 FROM generate_series(1, 3) i")  # fmt: skip
    stream = opened("c INT; v INT", ("c",), scan__incremental__snapshot__chunk__size="1")
    for step in range(4):
        stream.next()
        server.execute(f"UPDATE t SET v = {step + 1}")
        stream.restart()
    server.execute("ALTER TABLE t RENAME a TO b", "UPDATE t SET v = 9")
    assert error_of(stream.all).startswith('SS622: table "public.t" has no column "a" in the log: it was changed')


def test_a_key_that_is_generated_cuts_no_parts(server: PostgresServer, opened: Open):
    server.execute(
        "CREATE TABLE t (c int, g int GENERATED ALWAYS AS (c + 1) STORED PRIMARY KEY)",
        "ALTER TABLE t REPLICA IDENTITY FULL", "INSERT INTO t VALUES (1), (2), (3)",
    )  # fmt: skip
    stream = opened("c INT", ("c",), scan__incremental__snapshot__chunk__size="1")
    rows = stream.next()
    assert [n for n, _ in rows] == [1, 2, 3]
    server.execute("UPDATE t SET c = -c")
    assert merged(rows + stream.all()) == [(-1,), (-2,), (-3,)]


# --- what goes wrong ------------------------------------------------------------------------------------------


def test_a_slot_that_is_gone_or_has_moved_is_told(server: PostgresServer, opened: Open):
    server.execute("CREATE TABLE t (id int PRIMARY KEY)")
    stream = opened("id INT", slot__name="mine")
    stream.all()
    server.execute("INSERT INTO t VALUES (1)")
    stream.next()
    stream.stop()
    server.execute("INSERT INTO t VALUES (2)")
    server.execute("SELECT pg_replication_slot_advance('mine', pg_current_wal_lsn())")
    stream.start()
    assert 'SS621: slot "mine" has moved to ' in error_of(stream.next)
    server.execute("SELECT pg_drop_replication_slot('mine')")
    text = error_of(stream.next)
    assert 'SS621: slot "mine" is gone, and with it the changes behind ' in text
    assert (
        "HINT: SELECT pg_drop_replication_slot('mine'); where it is still there, and start in a new directory" in text
    )
    server.execute("SELECT pg_create_physical_replication_slot('mine')")
    assert 'SS621: slot "mine" is of the plugin "None"' in error_of(stream.next)
    server.execute("SELECT pg_drop_replication_slot('mine')")
    server.execute("SELECT pg_create_logical_replication_slot('mine', 'pgoutput')")
    assert 'SS621: slot "mine" has moved to ' in error_of(stream.next)


def test_transactions_that_are_prepared_count_when_they_are_committed(server: PostgresServer, opened: Open):
    server.execute("CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 0)")
    stream = opened("id INT; v INT")
    assert stream.all() == [(1, 0, "+I")]
    server.execute("BEGIN; UPDATE t SET v = 1; PREPARE TRANSACTION 'a'", "BEGIN; INSERT INTO t VALUES (2, 0); "
                   "PREPARE TRANSACTION 'b'", "INSERT INTO t VALUES (3, 0)")  # fmt: skip
    assert stream.all() == [(3, 0, "+I")]
    stream.restart()
    server.execute("COMMIT PREPARED 'a'", "ROLLBACK PREPARED 'b'", "INSERT INTO t VALUES (4, 0)")
    assert stream.all() == [(1, 1, "+U"), (4, 0, "+I")]
    server.execute("SELECT pg_create_logical_replication_slot('early', 'pgoutput', false, true)")
    early = opened("id INT; v INT", slot__name="early")
    assert error_of(early.all).startswith('SS621: slot "early" gives transactions that are prepared before it is known')


def test_a_slot_that_another_job_has_is_told(server: PostgresServer, opened: Open, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sqlstream.connectors.postgres.changes._IN_USE_SECONDS", 0.1)
    server.execute("CREATE TABLE t (id int PRIMARY KEY)")
    stream, other = opened("id INT", slot__name="one"), opened("id INT", slot__name="one")
    assert stream.all() == []
    assert 'SS627: slot "one" is in use: ' in error_of(other.all)


def test_a_publication_that_lacks_something_is_told(server: PostgresServer, opened: Open):
    server.execute(
        "CREATE TABLE t (id int PRIMARY KEY, v int)", "CREATE PUBLICATION a", "CREATE PUBLICATION b FOR TABLE t (id)",
        "CREATE PUBLICATION c FOR TABLE t WITH (publish = 'insert')", "CREATE PUBLICATION d FOR TABLE t WHERE (id > 1)",
        "INSERT INTO t VALUES (1, 1), (2, 2)",
    )  # fmt: skip

    def using(name: str) -> Stream:
        return opened("id INT; v INT", publication__name=name)

    assert 'SS628: publication "a" lacks table "public.t"' in error_of(lambda: using("a"))
    assert 'SS628: publication "b" lacks column "v"' in error_of(lambda: using("b"))
    assert 'SS628: publication "c" does not publish INSERT, UPDATE and DELETE' in error_of(lambda: using("c"))
    server.execute(
        "CREATE TABLE p (id int PRIMARY KEY, v int) PARTITION BY RANGE (id)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20)", "CREATE PUBLICATION e FOR TABLE p1",
        "CREATE PUBLICATION f FOR TABLE p1 WHERE (id > 1), p2",
    )  # fmt: skip
    for name, what in (("e", 'lacks table "public.p" or partitions'), ("f", "has other rows of some partitions")):
        text = error_of(lambda name=name: opened("id INT; v INT", publication__name=name, table_name="p"))  # type: ignore[misc]
        assert text.startswith(f'SS628: publication "{name}" {what} of ')
    stream = using("d")
    assert stream.next() == [(2, 2, "+I")]
    server.execute("UPDATE t SET id = 3 WHERE id = 1", "UPDATE t SET id = 0 WHERE id = 2")
    assert stream.all() == [(3, 1, "+I"), (2, None, "-D")]


def test_views_and_generated_columns_are_refused(server: PostgresServer, opened: Open):
    server.execute(
        "CREATE TABLE t (id int PRIMARY KEY, g int GENERATED ALWAYS AS (id + 1) STORED)", "CREATE VIEW v AS TABLE t"
    )
    assert 'SS626: column "g" of table "t" is GENERATED' in error_of(lambda: opened("id INT; g INT"))
    assert 'SS626: "public.v" is no table' in error_of(lambda: opened("id INT", table_name="v"))
    assert "SS563" in error_of(lambda: opened("id INT", table_name="w"))
    assert "SS564" in error_of(lambda: opened("id STRING; x INT"))


def test_options_that_do_not_go_together_are_refused(server: PostgresServer):
    def messages(columns: str = "id INT", **options: str) -> list[str]:
        found = validate(declared(server, columns, ("id",), False, **options), {})
        assert all(d.hint for d in found)
        return [f"{d.code}: {d.message}" for d in found]

    assert messages() == []
    assert messages(port="1") == ['SS504: option "port" does not go with "url", which names it']
    assert messages(slot__name="Mine") == ['SS504: value "Mine" of option "slot.name" is not a slot name']
    assert messages(on_error="skip") == [
        'SS504: option "on-error" of the connector "postgres-cdc" is \'fail\': no change may be left out'
    ]
    assert messages("id INT; m MAP<STRING, INT>")[0].startswith("SS505: ")
    assert messages(scan__startup__mode="snapshot")[0].startswith("SS")
    assert messages(debezium__slot__name="s") == ['SS350: option "debezium.slot.name" is not executed yet']


def test_a_job_begins_where_it_is_told(server: PostgresServer, opened: Open):
    server.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    latest = opened("id INT", scan__startup__mode="latest-offset", slot__name="shared")
    latest.first()
    server.execute("INSERT INTO t VALUES (2)")
    assert latest.all() == [(2, "+I")]
    latest.commit()
    latest.stop()
    server.execute("INSERT INTO t VALUES (3)")
    again = opened("id INT", scan__startup__mode="committed-offset", slot__name="shared")
    assert again.all() == [(3, "+I")]
    again.stop()
    late = opened("id INT", scan__startup__mode="latest-offset", slot__name="shared")
    late.first()
    server.execute("INSERT INTO t VALUES (4)")
    assert late.all() == [(4, "+I")]


def test_a_run_of_what_is_there_ends(server: PostgresServer, opened: Open):
    server.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)")
    stream = opened("id INT", scan__incremental__snapshot__chunk__size="1")
    stream.first()
    server.execute("INSERT INTO t VALUES (3)", "INSERT INTO t VALUES (4)")
    stream.reader.prepareForTriggerAvailableNow()
    found = stream.next()
    server.execute("INSERT INTO t VALUES (5)")
    assert merged(found + stream.all()) == [(1,), (2,), (3,), (4,)]
    stream.restart()
    assert stream.all() == [(5, "+I")]


def test_a_run_of_what_is_there_reads_all_transactions(
    server: PostgresServer, opened: Open, monkeypatch: pytest.MonkeyPatch
):
    """Also those that have not been received yet when the first ones are read."""
    monkeypatch.setattr(received_log, "_AT_ONCE", 1)
    server.execute("CREATE TABLE t (id int PRIMARY KEY)")
    stream = opened("id INT", source__max_rows_per_trigger="200")
    assert stream.all() == []
    server.execute("DO $$ BEGIN FOR i IN 1..2000 LOOP INSERT INTO t VALUES (i); COMMIT; END LOOP; END $$")
    stream.restart()
    stream.reader.prepareForTriggerAvailableNow()
    server.execute("INSERT INTO t VALUES (2001)")
    assert [n for n, _ in stream.all()] == list(range(1, 2001))
    stream.restart()
    assert stream.all() == [(2001, "+I")]


def test_a_run_of_what_is_there_fails_where_the_server_does_not_send_it(
    server: PostgresServer, opened: Open, monkeypatch: pytest.MonkeyPatch
):
    """It would end with rows unread."""
    monkeypatch.setattr("sqlstream.connectors.on_spark.database_changes._REPLAY_SECONDS", 0.1)
    monkeypatch.setattr(LogReceiver, "_receive", lambda *_: False)
    server.execute("CREATE TABLE t (id int PRIMARY KEY)")
    stream = opened("id INT")
    assert stream.plan()
    server.execute("INSERT INTO t VALUES (1)")
    stream.reader.prepareForTriggerAvailableNow()
    pattern = r"SS621: the server does not send its log up to \w+/\w+, where it ended when this run began\n"
    assert re.match(pattern, error_of(stream.plan))


def test_a_process_that_still_copies_changes_nothing_of_the_next_one(
    server: PostgresServer, opened: Open, monkeypatch: pytest.MonkeyPatch
):
    server.execute(
        "CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t SELECT i, 0 FROM generate_series(1, 4) i"
    )
    killed = opened("id INT; v INT", scan__incremental__snapshot__chunk__size="2")
    rows = killed.next()
    server.execute("UPDATE t SET v = 1 WHERE id = 3")
    stream = Stream(killed.table, killed.folder)
    stream.offsets = [*killed.offsets]
    try:
        assert stream.plan()
        monkeypatch.setattr(killed.reader._copier, "_ahead", None)  # it copies this part only now
        assert killed.plan()
        assert stream.read() == [(3, 1, "+I"), (4, 0, "+I")]
        server.execute("UPDATE t SET v = 2 WHERE id = 1")
        assert merged([*rows, (3, 1, "+I"), (4, 0, "+I"), *stream.all()]) == [(1, 2), (2, 0), (3, 1), (4, 0)]
        assert [path.name for path in killed.folder.rglob("rows-*")] == []
    finally:
        stream.stop()


def test_a_server_that_restarts_is_asked_again(server: PostgresServer, opened: Open):
    server.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    stream = opened("id INT")
    rows = stream.all()
    server.execute("INSERT INTO t VALUES (2)")
    rows += stream.next()
    server.stop()
    server.start()
    server.execute("INSERT INTO t VALUES (3)")
    assert merged(rows + stream.all()) == [(1,), (2,), (3,)]


def test_a_connection_that_breaks_while_the_log_is_waited_for_is_made_again(
    server: PostgresServer, opened: Open, monkeypatch: pytest.MonkeyPatch
):
    server.execute("CREATE TABLE t (id int PRIMARY KEY)")
    stream = opened("id INT")
    assert stream.all() == []
    first, receive = stream.reader._receiver, LogReceiver._receive

    def break_or_receive(receiver: LogReceiver, incoming: Incoming) -> bool:
        if receiver is not first:
            return receive(receiver, incoming)
        if receiver._asks.is_set():
            raise LogError("broken")
        return False

    monkeypatch.setattr(LogReceiver, "_receive", break_or_receive)
    server.execute("INSERT INTO t VALUES (1)")
    assert stream.all() == [(1, "+I")]
    assert stream.reader._receiver is not first


def test_what_the_server_says_when_it_decodes_its_log_is_told_at_once(server: PostgresServer, opened: Open):
    server.execute("CREATE TABLE t (id int PRIMARY KEY)")
    stream = opened("id INT", publication__name="gone")
    assert stream.all() == []
    server.execute("DROP PUBLICATION gone", "INSERT INTO t VALUES (1)")
    began = time.monotonic()
    assert error_of(stream.all).startswith(
        'SS562: changes of table "t" cannot be read: PostgreSQL says: ERROR: publication "gone" does not exist '
    )
    assert time.monotonic() - began < 30


def test_a_server_without_the_setting_is_told(server: PostgresServer, opened: Open, monkeypatch: pytest.MonkeyPatch):
    server.execute("CREATE TABLE t (id int PRIMARY KEY)")
    server.stop()
    with monkeypatch.context() as patched:
        patched.setattr(server, "wal_level", "replica")
        server.start()
        text = error_of(lambda: opened("id INT"))
        server.stop()
    server.start()
    assert text == (
        "SS620: the server has wal_level = replica, whose log does not tell changes of rows\n"
        "HINT: ALTER SYSTEM SET wal_level = logical; and restart the server."
    )


@pytest.mark.long
def test_a_transaction_of_ten_million_rows_takes_the_memory_of_a_small_one(server: PostgresServer, opened: Open):
    def read() -> int:
        """The number of rows, which are not kept."""
        start, end = (json.loads(offset) for offset in stream.offsets[-2:])
        places = (batch for share in stream.reader.partitions(start, end) for batch in stream.reader.read(share))
        return sum(batch.num_rows for batch in stream.changes.rows(places))

    def wait() -> None:
        deadline = time.monotonic() + 900
        while not stream.plan():
            assert time.monotonic() < deadline

    server.execute("CREATE TABLE t (id bigint PRIMARY KEY, v text)")
    stream = opened("id BIGINT; v STRING")
    assert stream.all() == []
    server.execute("INSERT INTO t SELECT i, 'v' || i FROM generate_series(1, 100000) i")
    wait()
    assert read() == 100_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    server.execute("INSERT INTO t SELECT i, 'v' || i FROM generate_series(100001, 10100000) i")
    wait()
    assert read() == 10_000_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10
