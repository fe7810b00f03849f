"""Redis as a lookup source, asked on a server that also goes away, hangs and refuses."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from sqlstream.errors import ConnectorError
from sqlstream.types import DataType, parse_type
from sqlstream.udfs.lookup.source import LookupClient, Request
from sqlstream.udfs.lookup.sources.json_paths import parse_path
from sqlstream.udfs.lookup.sources.redis import RedisServer as Address
from sqlstream.udfs.lookup.sources.redis import RedisSource
from sqlstream.udfs.lookup.sources.scalars import parse_template
from tests.redis_server import RedisServer


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as running:
        yield running


@pytest.fixture(autouse=True)
def _empty(server) -> None:
    with server.client() as client:
        client.flushall()


def request(keys: str, columns: str) -> Request:
    return Request(_columns(keys), _columns(columns))


def _columns(text: str) -> tuple[tuple[str, DataType], ...]:
    return tuple((name, parse_type(kind)) for name, kind in (c.split(" ", 1) for c in text.split("; ")))


def source(server: RedisServer, key: str, keys: str, columns: str, data_type: str = "hash", **more: Any) -> RedisSource:
    address = Address(f"127.0.0.1:{server.port}", server.url, timeout_ms=500)
    return RedisSource("airlines", request(keys, columns), address, parse_template(key), data_type, **more)


def asked(source: RedisSource, *keys: tuple[object, ...]) -> list[list[tuple[object, ...]]]:
    async def ask(client: LookupClient) -> Any:
        return await client.ask(keys)

    return [list(rows) for rows in with_client(source, ask)]


def with_client(source: RedisSource, use: Callable[[LookupClient], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        client = await source.open()
        try:
            return await use(client)
        finally:
            await client.close()

    return asyncio.run(run())


def failing(source: RedisSource, *keys: tuple[object, ...]) -> str:
    with pytest.raises(ConnectorError) as error:
        asked(source, *keys)
    return str(error.value)


# --- answers --------------------------------------------------------------------------------------------------


def test_fields_of_hashes_become_columns(server):
    with server.client() as client:
        client.hset("airline:AA", mapping={"name": "American", "fleet": "956", "unread": "x", "tags": '["a"]'})
        client.hset("airline:UA", mapping={"name": "United"})
    lookup_source = source(
        server, "airline:{carrier}", "carrier STRING", "carrier STRING; fleet INT; tags ARRAY<STRING>; name STRING"
    )
    assert asked(lookup_source, ("AA",), ("XX",), ("UA",)) == [
        [("AA", 956, ["a"], "American")],
        [],
        [("UA", None, None, "United")],
    ]


def test_a_hash_without_the_wanted_fields_is_found(server):
    with server.client() as client:
        client.hset("a:1", mapping={"other": "x"})
    assert asked(source(server, "a:{k}", "k INT", "name STRING"), (1,), (2,)) == [[(None,)], []]
    assert asked(source(server, "a:{k}", "k INT", "k INT"), (1,), (2,)) == [[(1,)], []]


def test_strings_hold_one_column(server):
    with server.client() as client:
        client.mset({"p:1.50": "12.345", "p:2.00": ""})
        client.set("b:1", b"\x00\xff")
    prices = source(server, "p:{k}", "k DECIMAL(4, 2)", "v DECIMAL(10, 2)", "string")
    assert asked(prices, (Decimal("1.50"),), (Decimal("3.00"),)) == [[(Decimal("12.35"),)], []]
    texts = replace(prices, request=request("k DECIMAL(4, 2)", "v STRING"))
    assert asked(texts, (Decimal("2.00"),)) == [[("",)]]
    assert asked(source(server, "b:{k}", "k INT", "v BINARY", "string"), (1,)) == [[(b"\x00\xff",)]]


def test_documents_are_read_by_name_and_by_path(server):
    with server.client() as client:
        client.set("d:1", '{"name": "x", "at": 1706704200000, "parts": [{"n": 1}, {"n": 2}], "price": 0.10}')
    paths = {"name": "$.name", "at": "$.at", "numbers": "$.parts[*].n", "first": "$.parts[0]", "price": "$.price"}
    columns = "name STRING; at TIMESTAMP; numbers ARRAY<INT>; first STRUCT<n: INT>; price DECIMAL(20, 18)"
    parsed = tuple((name, parse_path(path)) for name, path in paths.items())
    lookup_source = source(server, "d:{id}", "id INT", columns, "json", paths=parsed)
    at = datetime(2024, 1, 31, 12, 30, tzinfo=UTC)
    assert asked(lookup_source, (1,), (2,)) == [[("x", at, [1, 2], {"n": 1}, Decimal("0.1"))], []]


def test_keys_outside_of_the_redis_key_are_compared(server):
    with server.client() as client:
        client.hset("a:1", mapping={"year": "2013", "v": "x"})
    lookup_source = source(server, "a:{k}", "year INT; k INT", "v STRING")
    assert asked(lookup_source, (2013, 1), (2014, 1)) == [[("x",)], []]


def test_many_keys_take_one_round_trip_and_clients_share_few_connections(server):
    with server.client() as client:
        for k in range(200):
            client.hset(f"a:{k}", "v", k)
        client.config_resetstat()
    lookup_source = source(server, "a:{k}", "k INT", "v INT")
    lookup_source = replace(lookup_source, server=replace(lookup_source.server, max_connections=2))

    async def ask(client: LookupClient) -> Any:
        batches = [client.ask([(k,) for k in range(start, start + 50)]) for start in range(0, 200, 50)]
        return [rows for batch in await asyncio.gather(*batches) for rows in batch]

    assert with_client(lookup_source, ask) == [[(k,)] for k in range(200)]
    with server.client() as client:
        assert client.info("stats")["total_connections_received"] <= 3


def test_sources_travel_and_tell_no_secret(server):
    lookup_source = source(server, "a:{k}", "k INT", "v INT")
    lookup_source = replace(
        lookup_source, server=replace(lookup_source.server, password="hunter2", url="redis://:hunter2@h")
    )
    assert pickle.loads(pickle.dumps(lookup_source)) == lookup_source
    assert hash(lookup_source) == hash(pickle.loads(pickle.dumps(lookup_source)))
    assert "hunter2" not in repr(lookup_source)
    assert lookup_source != replace(lookup_source, server=replace(lookup_source.server, password="other"))


# --- failures -------------------------------------------------------------------------------------------------


def test_a_value_of_another_type_is_named(server):
    with server.client() as client:
        client.hset("a:1", "v", "many")
        client.hset("a:2", "v", b"\xff")
        client.set("s:1", "{")
    lookup_source = source(server, "a:{k}", "k INT", "v INT")
    assert failing(lookup_source, (1,)).startswith(
        'SS573: column "v" of table "airlines" cannot be read for key (k = 1): "many" is no INT\nHINT: '
    )
    assert "it is no UTF-8" in failing(lookup_source, (2,))
    document = source(server, "s:{k}", "k INT", "v INT", "json", paths=(("v", parse_path("$.v")),))
    assert 'table "airlines" cannot read "{" for key (k = 1)' in failing(document, (1,))


@pytest.mark.parametrize("data_type", ["hash", "string"])
def test_a_key_of_another_type_is_named(server, data_type):
    with server.client() as client:
        client.lpush("a:1", "x")
    text = failing(source(server, "a:{k}", "k INT", "v INT", data_type), (2,), (1,))
    assert text.startswith(
        f'SS572: Redis at 127.0.0.1:{server.port} refuses what table "airlines" asks for key (k = 1): '
    )
    assert "WRONGTYPE" in text
    assert "change the option data-type" in text


def test_who_may_not_ask_is_told_so(server, tmp_path):
    with RedisServer(tmp_path, "--requirepass", "right") as closed:
        lookup_source = source(closed, "a:{k}", "k INT", "v INT")
        wrong = replace(lookup_source, server=replace(lookup_source.server, password="hunter2"))
        for one in (lookup_source, wrong):
            text = failing(one, (1,))
            assert text.startswith("SS572: ")
            assert "Correct the options username and password" in text
            assert "hunter2" not in text
        right = replace(lookup_source, server=replace(lookup_source.server, password="right"))
        assert asked(right, (1,)) == [[]]


def test_a_server_that_is_not_there_is_named(tmp_path):
    missing = RedisServer(tmp_path)
    text = failing(source(missing, "a:{k}", "k INT", "v INT"), (1,), (2,), (3,), (4,))
    assert text.startswith(f'SS571: table "airlines" cannot reach Redis at 127.0.0.1:{missing.port} for keys (k = 1), ')
    assert "(k = 3) and 1 more: " in text


def test_a_server_that_hangs_is_not_waited_for(server):
    lookup_source = source(server, "a:{k}", "k INT", "v INT")
    os.kill(server.pid, signal.SIGSTOP)
    try:
        text = failing(lookup_source, (1,))
    finally:
        os.kill(server.pid, signal.SIGCONT)
    assert text.startswith('SS571: table "airlines" got no answer from Redis at')
    assert "in 500 ms" in text


def test_a_server_that_was_restarted_is_asked_again_without_an_error(tmp_path):
    with RedisServer(tmp_path) as server:
        with server.client() as client:
            client.hset("a:1", "v", 5)
        lookup_source = source(server, "a:{k}", "k INT", "v INT")

        async def ask(client: LookupClient) -> Any:
            first = await client.ask([(1,)])
            server.stop()
            with pytest.raises(ConnectorError, match="SS571"):
                await client.ask([(1,)])
            server.start()
            return [first, await client.ask([(1,)])]

        assert with_client(lookup_source, ask) == [[[(5,)]], [[(5,)]]]


def test_an_answer_that_is_no_longer_wanted_is_not_taken_for_the_next(server):
    with server.client() as client:
        for k in range(50):
            client.hset(f"a:{k}", "v", k)
    lookup_source = source(server, "a:{k}", "k INT", "v INT")
    lookup_source = replace(lookup_source, server=replace(lookup_source.server, max_connections=1))

    async def ask(client: LookupClient) -> Any:
        for k in range(50):
            given_up = asyncio.ensure_future(_rows(client, k))
            for _ in range(k % 7):
                await asyncio.sleep(0)
            given_up.cancel()
            assert await _rows(client, 49 - k) == [[(49 - k,)]]

    with_client(lookup_source, ask)


async def _rows(client: LookupClient, k: int) -> Any:
    return await client.ask([(k,)])


def test_a_key_that_is_no_text_is_an_error_of_ours(server):
    lookup_source = source(server, "airline:{k}", "k STRING", "k STRING; name STRING")
    with pytest.raises(ConnectorError, match='SS585: key "k" of table "airlines" is no Unicode text'):
        asked(lookup_source, ("\ud800",))
