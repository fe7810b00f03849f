"""Lookups in a real PostgreSQL server: what comes back, in which order, and what goes wrong."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from sqlstream.errors import ConnectorError
from sqlstream.types import parse_type
from sqlstream.udfs.lookup.source import Comparison, Request
from sqlstream.udfs.lookup.sources.postgres import PostgresError, PostgresSource
from sqlstream.udfs.lookup.sources.sql_text import StoredColumn
from tests.postgres_server import PostgresServer, running_server


@pytest.fixture(scope="module")
def server(postgres_server: PostgresServer) -> Iterator[PostgresServer]:
    postgres_server.execute(
        """CREATE TABLE customers (
                id INT PRIMARY KEY, name TEXT, "100% sure" BOOLEAN, level NUMERIC(10, 2), born DATE, seen TIMESTAMPTZ,
                local TIMESTAMP, doc JSONB, tags TEXT[], raw BYTEA, uid UUID, code CHAR(4), ratio REAL, small SMALLINT,
                kind VARCHAR(9))""",
        """INSERT INTO customers VALUES
                (1, 'Ann', true, 1.50, '2001-02-03', '2024-01-01 02:00+02', '2024-01-01 00:00', '{"a": 1}',
                 '{x,NULL}', '\\x00ff', 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', 'ab', 0.5, 7, 'é'),
                (2, 'Bob', NULL, 'NaN', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'NaN', NULL, 'z')""",
        "CREATE TABLE orders (a BIGINT, b TEXT, n INT)",
        """INSERT INTO orders
                SELECT i % 3, CASE WHEN i % 2 = 0 THEN 'even' ELSE 'odd' END, i FROM generate_series(0, 11) i""",
    )
    yield postgres_server
    postgres_server.execute("DROP TABLE customers, orders CASCADE")


TYPES = {
    "id": ("INT", "integer"), "name": ("STRING", "text"), "100% sure": ("BOOLEAN", "boolean"),
    "level": ("DECIMAL(10, 2)", "numeric"), "born": ("DATE", "date"),
    "seen": ("TIMESTAMP", "timestamp with time zone"), "local": ("TIMESTAMP", "timestamp without time zone"),
    "doc": ("STRING", "jsonb"), "tags": ("ARRAY<STRING>", "text[]"), "raw": ("BINARY", "bytea"),
    "uid": ("STRING", "uuid"), "code": ("STRING", "character"), "ratio": ("FLOAT", "real"),
    "small": ("BIGINT", "smallint"), "kind": ("STRING", "character varying"),
    "a": ("BIGINT", "bigint"), "b": ("STRING", "text"), "n": ("INT", "integer"),
}  # fmt: skip


def source(server: PostgresServer, keys: str, columns: str, *filters: Comparison, **options) -> PostgresSource:
    """Of the table orders where it has the keys, else of customers."""
    table = "orders" if keys in ("a", "a,b") else "customers"

    def typed(names: str):
        return tuple((n, parse_type(TYPES[n][0])) for n in names.split(",") if n)

    stored = {n: StoredColumn(parse_type(declared), n, kind) for n, (declared, kind) in TYPES.items()}
    connection = tuple((server.conninfo | options.pop("connection", {})).items())
    request = Request(typed(keys), typed(columns), filters)
    return PostgresSource(table, connection, ("public", table), request, tuple(stored.items()), **options)


def ask(asked: PostgresSource, *keys):
    async def run():
        client = await asked.open()
        try:
            return await client.ask(keys)
        finally:
            await client.close()

    return asyncio.run(run())


def test_answers_come_per_key_in_the_order_of_the_keys(server) -> None:
    answers = ask(source(server, "id", "name,id"), (2,), (9,), (1,), (2,))
    assert answers == [[("Bob", 2)], [], [("Ann", 1)], [("Bob", 2)]]


def test_several_key_columns_and_several_rows(server) -> None:
    answers = ask(source(server, "a,b", "n"), (0, "odd"), (2, "even"), (2, "Even"))
    assert [sorted(rows) for rows in answers] == [[(3,), (9,)], [(2,), (8,)], []]


def test_no_columns_tell_how_many_rows_there_are(server) -> None:
    assert ask(source(server, "a", ""), (0,), (7,)) == [[()] * 4, []]


def test_values_have_the_declared_types(server) -> None:
    names = [n for n in TYPES if n not in ("a", "b", "n")]
    ((row,),) = ask(source(server, "id", ",".join(names)), (1,))
    assert dict(zip(names, row, strict=True)) == {
        "id": 1, "name": "Ann", "100% sure": True, "level": Decimal("1.50"), "born": date(2001, 2, 3),
        "seen": datetime(2024, 1, 1, tzinfo=UTC), "local": datetime(2024, 1, 1, tzinfo=UTC), "doc": '{"a": 1}',
        "tags": ["x", None], "raw": b"\x00\xff", "uid": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "code": "ab",
        "ratio": 0.5, "small": 7, "kind": "é",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("column", "key", "names"),
    [
        ("name", "Ann", ["Ann"]),
        ("name", "ann", []),
        ("name", "a\0b", []),
        ("100% sure", True, ["Ann"]),
        ("level", Decimal("1.5"), ["Ann"]),
        ("born", date(2001, 2, 3), ["Ann"]),
        ("seen", datetime(2024, 1, 1, tzinfo=UTC), ["Ann"]),
        ("local", datetime(2024, 1, 1, tzinfo=UTC), ["Ann"]),
        ("raw", b"\x00\xff", ["Ann"]),
        ("uid", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", ["Ann"]),
        ("uid", "no uuid", []),
        ("code", "ab", ["Ann"]),
        ("code", "ab  ", ["Ann"]),
        ("doc", '{"a": 1}', ["Ann"]),
        ("ratio", 0.5, ["Ann"]),
        ("ratio", float("nan"), ["Bob"]),
        ("small", 2**40, []),
    ],
)
def test_keys_of_every_type(server, column, key, names) -> None:
    assert ask(source(server, column, "name"), (key,)) == [[(name,) for name in names]]


@pytest.mark.parametrize(
    ("comparison", "names"),
    [
        (Comparison("name", "<>", "Ann"), ["Bob"]),
        (Comparison("kind", ">=", "z"), ["Ann", "Bob"]),  # by bytes, where é comes behind z
        (Comparison("name", "IN", ("Bob", "Zoe")), ["Bob"]),
        (Comparison("name", "IN", ()), []),
        (Comparison("100% sure", "IS NULL"), ["Bob"]),
        (Comparison("100% sure", "IS NOT NULL"), ["Ann"]),
        (Comparison("born", "<=", date(2001, 2, 3)), ["Ann"]),
        (Comparison("id", ">", 1), ["Bob"]),
        (Comparison("level", "<", Decimal("1.6")), ["Ann"]),
        (Comparison("uid", "=", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"), ["Ann"]),
    ],
)
def test_filters_are_checked_in_the_server(server, comparison, names) -> None:
    answers = ask(source(server, "id", "name", comparison), (1,), (2,))
    assert [name for rows in answers for (name,) in rows] == names


def test_integer_and_text_keys_go_through_the_index(server) -> None:
    from sqlstream.udfs.lookup.sources.postgres import DIALECT
    from sqlstream.udfs.lookup.sources.sql_text import Question

    server.execute("INSERT INTO customers (id) SELECT i FROM generate_series(100, 20000) i", "ANALYZE customers")
    asked = source(server, "id", "name")
    text = Question(DIALECT, asked.table, asked.request, dict(asked.stored)).text(2).replace("%s", "'{1,2}'")
    plan = server.rows(f"EXPLAIN {text}")
    assert any("Index Scan using customers_pkey" in str(line) for line in plan)


def test_sources_are_equal_by_what_they_ask_and_hide_the_password(server) -> None:
    one = source(server, "id", "name")
    assert pickle.loads(pickle.dumps(one)) == one
    assert hash(one) == hash(source(server, "id", "name"))
    assert one != source(server, "id", "name,born")
    assert "hunter2" not in repr(one)


# --- many requests, faults --------------------------------------------------------------------------------------


def test_requests_share_a_few_connections(server) -> None:
    async def run():
        client = await source(server, "id", "name", connections=3).open()
        answers = await asyncio.gather(*(client.ask([(i % 2 + 1,)]) for i in range(50)))
        used = server.rows("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'WITH k%'")
        await client.close()
        return answers, used

    actual, ((used,),) = asyncio.run(run())
    assert [rows[0][0] for rows in actual] == [("Ann",), ("Bob",)] * 25
    assert 1 <= used <= 3


def test_a_cancelled_request_frees_its_connection(server) -> None:
    server.execute("CREATE OR REPLACE VIEW slow AS SELECT 1 AS id, pg_sleep(60)::text AS name")

    async def run():
        slow = source(server, "id", "name", connections=1)
        client = await source(server, "id", "name", connections=1).open()
        client._question = (await PostgresSource(
            "slow", slow.connection, ("slow",), slow.request, slow.stored).open())._question  # fmt: skip
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.ask([(1,)]), 0.2)
        client._question = (await slow.open())._question
        answers = await client.ask([(1,)])
        await client.close()
        return answers

    assert asyncio.run(run()) == [[("Ann",)]]


def test_a_statement_that_takes_too_long_names_the_option(server) -> None:
    server.execute("CREATE OR REPLACE VIEW slow AS SELECT 1 AS id, pg_sleep(60)::text AS name")
    asked = source(server, "id", "name", statement_timeout_ms=50)
    slow = PostgresSource("slow", asked.connection, ("slow",), asked.request, asked.stored, 1, 50)
    with pytest.raises(PostgresError, match=r"statement timeout \(option statement-timeout: 50 ms\)"):
        ask(slow, (1,))


def test_a_server_that_was_started_again_answers_the_next_request() -> None:
    async def run(server):
        client = await source(server, "id", "name", connections=2).open()
        await asyncio.gather(client.ask([(1,)]), client.ask([(1,)]))
        server.stop()
        with pytest.raises(PostgresError, match="refused"):
            await client.ask([(1,)])
        server.start()
        first = await client.ask([(1,)])
        server.stop()
        server.start()
        second = await client.ask([(1,)])
        await client.close()
        return first, second

    with running_server() as server:
        server.execute("CREATE TABLE customers (id INT, name TEXT)", "INSERT INTO customers VALUES (1, 'Ann')")
        assert asyncio.run(run(server)) == ([[("Ann",)]], [[("Ann",)]])


def test_errors_say_what_the_server_says_in_one_line_and_no_password(server) -> None:
    with pytest.raises(PostgresError, match='password authentication failed for user "postgres"') as caught:
        ask(source(server, "id", "name", connection={"password": "s3cret"}), (1,))
    assert "s3cret" not in str(caught.value) and "\n" not in str(caught.value)
    with pytest.raises(PostgresError, match="NaN"):
        ask(source(server, "id", "level"), (2,))
    with pytest.raises(PostgresError, match="timestamp too large"):
        server.execute("INSERT INTO customers (id, seen) VALUES (3, 'infinity')")
        ask(source(server, "id", "seen"), (3,))


def test_a_key_that_is_no_text_is_an_error_of_ours(server) -> None:
    with pytest.raises(ConnectorError, match='SS585: key "name" of table "customers" is no Unicode text'):
        ask(source(server, "name", "id"), ("\ud800",))
