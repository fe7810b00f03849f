"""HTTP servers as lookup sources, asked on servers that also fail, hang and answer nonsense."""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web

from sqlstream.connectors import lookup_connector, validate
from sqlstream.errors import ConnectorError
from sqlstream.planner.catalog import Column, Table
from sqlstream.types import parse_type
from sqlstream.udfs.lookup.source import LookupSource, Request

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_ENVIRONMENT: Any = SimpleNamespace(spark=SimpleNamespace(conf={"spark.sql.session.timeZone": "Asia/Tokyo"}))
_PLANES = {"N1": {"tailnum": "N1", "seats": 55, "engine": {"kind": "jet", "n": 2}}, "N2": {"tailnum": "N2", "seats": 4}}


def source(url: str, columns: str, *keys: str, **options: object) -> LookupSource:
    """``columns`` as ``name TYPE; …``; in option keys ``__`` stands for a dot and ``_`` for a hyphen."""
    kinds = [(name, parse_type(kind)) for name, kind in (c.split(" ", 1) for c in columns.split("; "))]
    pairs = [(key.replace("__", ".").replace("_", "-"), str(value)) for key, value in options.items()]
    table = Table("planes", tuple(Column(*kind) for kind in kinds), "http", (("url", url), *pairs))
    assert not validate(table, {}), [d.render() for d in validate(table, {})]
    lookup = lookup_connector("http").lookup
    return lookup(_ENVIRONMENT, table, Request(tuple((n, dict(kinds)[n]) for n in keys), tuple(kinds)))


@asynccontextmanager
async def serving(handler: Handler, port: int = 0):
    """The address of a server in this loop."""
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def client_of(source: LookupSource):
    client = await source.open()
    try:
        yield client
    finally:
        await client.close()


def asked(handler: Handler, place: str, columns: str, key: str, *keys: tuple[object, ...], **options: object) -> Any:
    """What the server answers for the keys; ``key`` names their columns, with blanks."""

    async def run() -> Any:
        async with (
            serving(handler) as address,
            client_of(source(address + place, columns, *key.split(), **options)) as client,
        ):
            return [list(rows) for rows in await client.ask(keys)]

    return asyncio.run(run())


def failing(handler: Handler, *keys: tuple[object, ...], **options: object) -> str:
    with pytest.raises(ConnectorError) as error:
        asked(handler, "/{tailnum}", "tailnum STRING; seats INT", "tailnum", *(keys or (("N1",),)), **options)
    return str(error.value)


async def planes(request: web.Request) -> web.Response:
    actual = _PLANES.get(request.path[1:])
    return web.json_response(actual, status=200 if actual else 404)


def answering(text: str, status: int = 200) -> Handler:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=text, status=status)

    return answer


# --- requests -------------------------------------------------------------------------------------------------


def test_a_request_per_key_finds_its_row():
    answers = asked(planes, "/{tailnum}", "tailnum STRING; seats INT", "tailnum", ("N1",), ("N3",), ("N2",))
    assert answers == [[("N1", 55)], [], [("N2", 4)]]


def test_keys_of_a_batch_are_asked_for_at_the_same_time():
    waiting: list[str] = []
    all_there = asyncio.Event()

    async def meet(request: web.Request) -> web.Response:
        waiting.append(request.path)
        if len(waiting) == 150:
            all_there.set()
        await all_there.wait()
        return await planes(request)

    keys = [("N1",)] * 150
    assert asked(meet, "/{tailnum}", "tailnum STRING; seats INT", "tailnum", *keys) == [[("N1", 55)]] * 150


def test_values_are_encoded_in_urls():
    seen = []

    async def note(request: web.Request) -> web.Response:
        seen.append((request.raw_path, request.query.get("b")))
        return web.json_response({})

    columns = "a STRING; b TIMESTAMP; c DECIMAL(4, 2)"
    key = ("../x y?&/ü%", datetime(2024, 1, 31, 12, 30, tzinfo=UTC), Decimal("1.50"))
    path = "/p/{a}/{c}?b={b}&fixed=%20"
    assert asked(note, path, columns, "a b c", key, ("..", *key[1:])) == [[key], [("..", *key[1:])]]
    assert seen[0] == (
        "/p/..%2Fx%20y%3F%26%2F%C3%BC%25/1.50?b=2024-01-31T12%3A30%3A00Z&fixed=%20", "2024-01-31T12:30:00Z"
    )  # fmt: skip
    assert seen[1][0].startswith("/p/%2E%2E/1.50?")


def test_a_body_is_json_whatever_the_values_are():
    seen: list[Any] = []

    async def note(request: web.Request) -> web.Response:
        seen.append((request.method, request.headers["Content-Type"], await request.json()))
        return web.json_response({"seats": 3})

    body = '{"q": {"t": {tailnum}}, "text": "is {tailnum}", "n": {n}}'
    key = ('a"b\\', 7)
    answers = asked(note, "/q", "tailnum STRING; n INT; seats INT", "tailnum n", key, method="POST", body=body)
    assert answers == [[(*key, 3)]]
    assert seen == [("POST", "application/json", {"q": {"t": key[0]}, "text": f"is {key[0]}", "n": 7})]


def test_headers_and_credentials_are_sent(monkeypatch):
    seen: list[Any] = []

    async def note(request: web.Request) -> web.Response:
        seen.append([request.headers.get(name) for name in ("Authorization", "X-Client", "Accept")])
        seen.append(request.query_string)
        return web.json_response({})

    monkeypatch.setenv("TOKEN", "t0k{a}")
    given = {"headers__X-Client": "me", "auth__token": "${TOKEN}"}
    table = "a STRING"
    asked(note, "/{a}?key=${TOKEN}", table, "a", ("x",), **given)
    asked(note, "/{a}", table, "a", ("x",), auth__username="me", auth__password="p", headers__Accept="text/json")
    assert seen[0] == ["Bearer t0k{a}", "me", "application/json"]
    assert seen[1] == "key=t0k{a}"
    assert seen[2] == ["Basic bWU6cA==", None, "text/json"]


def test_sources_travel_and_tell_no_secret(monkeypatch):
    monkeypatch.setenv("TOKEN", "hunter2")
    secretive = source("http://h/{a}?key=${TOKEN}", "a STRING", "a", auth__token="${TOKEN}", headers__X_Key="hunter2")
    assert pickle.loads(pickle.dumps(secretive)) == secretive
    assert hash(secretive) == hash(pickle.loads(pickle.dumps(secretive)))
    assert "hunter2" not in repr(secretive)


# --- batches --------------------------------------------------------------------------------------------------


def _batches(seen: list[Any]) -> Handler:
    async def answer(request: web.Request) -> web.Response:
        body = await request.json() if request.can_read_body else None
        seen.append((request.method, request.path_qs, body))
        names = body["ids"] if body else request.query["ids"].split(",")
        rows = [_PLANES[n] for n in reversed(names) if n in _PLANES]
        return web.json_response({"items": [*rows, {"tailnum": "other"}]})

    return answer


@pytest.mark.parametrize(
    ("options", "request_"),
    [
        ({"batch__url": "/?ids={keys}"}, ("GET", "/?ids=N1,X,N2", None)),
        ({"batch__body": '{"ids": {keys}}'}, ("POST", "/all", {"ids": ["N1", "X", "N2"]})),
        ({"batch__body": '{"ids": {tailnum}}'}, ("POST", "/all", {"ids": ["N1", "X", "N2"]})),
    ],
)
def test_a_batch_is_one_request_whose_rows_find_their_keys(options, request_):
    seen: list[Any] = []

    async def run() -> Any:
        async with serving(_batches(seen)) as address:
            given = {k: address + v if k == "batch__url" else v for k, v in options.items()}
            columns = "tailnum STRING; seats INT"
            lookup_source = source(f"{address}/all", columns, "tailnum", path="$.items", **given)
            async with client_of(lookup_source) as client:
                return await client.ask([("N1",), ("X",), ("N2",)])

    assert asyncio.run(run()) == [[("N1", 55)], [], [("N2", 4)]]
    assert seen == [request_]


def test_batches_of_several_columns_are_objects():
    seen: list[Any] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(await request.json())
        return web.json_response([{"a": "x", "b": "2", "v": 1}, {"a": "x", "b": 2, "v": 2}])

    body = '{"keys": {keys}, "all": {a}}'
    answers = asked(answer, "/", "a STRING; b INT; v INT", "a b", ("x", 2), ("y", 3), batch__body=body)
    assert answers == [[("x", 2, 1), ("x", 2, 2)], []]
    assert seen == [{"keys": [{"a": "x", "b": 2}, {"a": "y", "b": 3}], "all": ["x", "y"]}]


def test_rows_of_a_batch_must_tell_their_keys():
    with pytest.raises(ConnectorError, match='does not tell the key column "a"'):
        asked(answering('[{"v": 1}]'), "/", "a STRING; v INT", "a", ("x",), ("y",), batch__body="{keys}")


# --- answers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("document", "path", "rows"),
    [
        ('{"seats": 1}', "$", [1]),
        ('[{"seats": 1}, {"seats": "2"}, null]', "$", [1, 2]),
        ('{"a": {"items": [{"seats": 1}, {}]}}', "$.a.items", [1, None]),
        ('{"a": {"items": [{"seats": 1}, {}]}}', "$.a.items[*]", [1, None]),
        ('{"a": {"items": [{"seats": 1}, {"seats": 2}]}}', "$.a.items[1]", [2]),
        ('{"items": []}', "$.items", []),
        ('{"items": null}', "$.items", []),
        ("{}", "$.items", []),
        ("null", "$", []),
    ],
)
def test_rows_stand_where_the_path_leads(document, path, rows):
    answers = asked(answering(document), "/{tailnum}", "tailnum STRING; seats INT", "tailnum", ("N1",), path=path)
    assert answers == [[("N1", seats) for seats in rows]]


def test_columns_stand_where_their_paths_lead():
    document = {"at": 1706704200000, "day": "2024-01-31T08:00:00", "price": 0, "e": {"tags": [{"n": "a"}, {"n": "b"}]}}
    text = json.dumps(document).replace('"price": 0', '"price": 0.10000000000000000001')
    columns = "id INT; at TIMESTAMP; day TIMESTAMP; price DECIMAL(38, 20); tags ARRAY<STRING>; e STRUCT<x: INT>"
    answers = asked(answering(text), "/{id}", columns, "id", (1,), columns__tags__path="$.e.tags[*].n")
    price = Decimal("0.10000000000000000001")
    at, day = datetime(2024, 1, 31, 12, 30, tzinfo=UTC), datetime(2024, 1, 30, 23, tzinfo=UTC)
    assert answers == [[(1, at, day, price, ["a", "b"], {"x": None})]]


def test_rows_may_be_plain_values():
    answers = asked(answering("[1, 2]"), "/{id}", "id STRING; n INT", "id", ("x",), columns__n__path="$")
    assert answers == [[("x", 1), ("x", 2)]]


def test_rows_of_other_keys_are_no_answer():
    document = '[{"tailnum": "N1", "year": 1}, {"tailnum": "N1", "year": 2}, {"tailnum": "N2", "year": 1}]'
    answers = asked(answering(document), "/{tailnum}", "tailnum STRING; year INT", "year tailnum", (1, "N1"))
    assert answers == [[("N1", 1)]]
    with pytest.raises(ConnectorError, match='does not tell the key column "year"'):
        asked(answering("{}"), "/{tailnum}", "tailnum STRING; year INT", "year tailnum", (1, "N1"))


@pytest.mark.parametrize("status", [404, 204])
def test_statuses_may_say_that_there_is_no_row(status):
    columns = "tailnum STRING; seats INT"
    assert asked(answering("", status), "/{tailnum}", columns, "tailnum", ("N1",)) == [[]]
    assert asked(answering("gone", 410), "/{tailnum}", columns, "tailnum", ("N1",), status__miss="404, 410") == [[]]
    assert "status 404" in failing(answering("", 404), status__miss="")


# --- failures -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "hint"),
    [(500, "RETRY ON ERROR asks again"), (429, "lower CAPACITY"), (401, "auth.token"), (400, "status.miss")],
)
def test_other_statuses_are_errors_that_show_the_answer(status, hint):
    text = failing(answering("<html>\n<h1>Oh\n</h1>" + "x" * 500, status))
    assert text.startswith("SS575: http://127.0.0.1:")
    assert f'answered table "planes" with status {status} for key (tailnum = N1): <html> <h1>Oh </h1>xxx' in text
    assert len(text.splitlines()[0]) < 400
    assert hint in text


def test_secrets_that_a_server_repeats_are_not_shown(monkeypatch):
    monkeypatch.setenv("TOKEN", "hunter2")

    async def repeat(request: web.Request) -> web.Response:
        return web.Response(text=f"bad {request.headers['Authorization']}", status=403)

    text = failing(repeat, auth__token="${TOKEN}")
    assert "status 403 for key (tailnum = N1): bad Bearer ******" in text
    assert "hunter2" not in text


@pytest.mark.parametrize("text", ["<html>", "", '{"seats": 1'])
def test_an_answer_that_is_no_json_is_shown(text):
    actual = failing(answering(text))
    assert actual.startswith("SS576: answer of http://127.0.0.1:")
    assert f'/{{tailnum}} to table "planes" for key (tailnum = N1) is no JSON: {text or "nothing"}' in actual


def test_values_of_another_type_are_named():
    actual = failing(answering('{"seats": "many"}'))
    assert actual.startswith(
        'SS573: table "planes" cannot be read for key (tailnum = N1): column "seats" of type INT is "many"'
    )
    assert "holds no object for a row" in failing(answering("[1]"))


def test_answers_in_no_known_encoding_are_errors():
    async def bytes_(request: web.Request) -> web.Response:
        return web.Response(body=b"\xff")

    assert "is no text in utf-8" in failing(bytes_)
    assert "is no text in klingon" in failing(_klingon)


async def _klingon(request: web.Request) -> web.Response:
    return web.Response(body=b"{}", headers={"Content-Type": "application/json; charset=klingon"})


def test_answers_have_a_largest_size():
    actual = failing(answering('{"seats": 1, "x": "' + "x" * 200_000 + '"}'), max_answer_bytes=100_000)
    assert 'to table "planes" for key (tailnum = N1) is larger than 100000 bytes' in actual


def test_a_server_that_is_not_there_is_named():
    async def run() -> str:
        async with serving(planes) as address:
            pass
        async with client_of(source(address + "/{tailnum}", "tailnum STRING", "tailnum")) as client:
            with pytest.raises(ConnectorError) as error:
                await client.ask([("N1",)])
        assert f"from {address}/{{tailnum}} for key (tailnum = N1): Cannot connect to host" in str(error.value)
        return str(error.value)

    assert asyncio.run(run()).startswith('SS574: table "planes" got no answer')


def test_a_server_that_hangs_is_not_waited_for():
    async def hang(request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    text = failing(hang, ("N1",), timeout="100 ms")
    assert text.startswith('SS574: table "planes" got no answer from http://127.0.0.1:')
    assert "for key (tailnum = N1) in 100 ms\nHINT: " in text


def test_an_answer_that_ends_in_the_middle_is_an_error():
    async def half(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Length": "100", "Content-Type": "application/json"})
        await answer.prepare(request)
        await answer.write(b'{"seats": 1')
        assert request.transport is not None
        request.transport.close()
        return answer

    assert failing(half).startswith('SS574: table "planes" got no answer from http://127.0.0.1:')


def test_a_server_that_was_restarted_is_asked_again():
    async def restarted() -> list[Any]:
        async with serving(planes) as address:
            port = int(address.rpartition(":")[2])
        lookup_source = source(address + "/{tailnum}", "tailnum STRING; seats INT", "tailnum")
        async with client_of(lookup_source) as client:
            async with serving(planes, port):
                first = await client.ask([("N1",)])
            with pytest.raises(ConnectorError, match="SS574"):
                await client.ask([("N1",)])
            async with serving(planes, port):
                return [first, await client.ask([("N2",)])]

    assert asyncio.run(restarted()) == [[[("N1", 55)]], [[("N2", 4)]]]


# --- redirects ------------------------------------------------------------------------------------------------


def redirected(place: Callable[[str, str], str], **options: object) -> list[tuple[str, dict[str, str | None]]]:
    """Who was asked, first or other, with which headers. ``place`` makes the Location of the addresses of both."""
    seen: list[tuple[str, dict[str, str | None]]] = []
    addresses: dict[str, str] = {}
    names = ("X-Api-Key", "Authorization", "Cookie", "User-Agent", "Accept", "X-Plan")

    def server(name: str) -> Handler:
        async def answer(request: web.Request) -> web.StreamResponse:
            seen.append((name, {n: request.headers.get(n) for n in names if n in request.headers}))
            if request.path == "/N1":
                return web.Response(status=302, headers={"Location": place(*addresses.values())})
            if request.path == "/back":
                return web.Response(status=307, headers={"Location": f"{addresses['first']}/end"})
            return web.json_response({"tailnum": "N1", "seats": 55})

        return answer

    async def run() -> Any:
        async with serving(server("first")) as first, serving(server("other")) as other:
            addresses.update(first=first, other=other)
            lookup_source = source(f"{first}/{{tailnum}}", "tailnum STRING; seats INT", "tailnum", **options)
            async with client_of(lookup_source) as client:
                return [await client.ask([("N1",)]), await client.ask([("N1",)])]

    assert asyncio.run(run()) == [[[("N1", 55)]]] * 2
    return seen


SECRET_HEADERS = {
    "headers__X-Api-Key": "key-4711", "headers__Cookie": "sid=1", "headers__X-Plan": "gold", "auth__token": "tok-4711",
}  # fmt: skip
SENT = {"X-Api-Key": "key-4711", "Cookie": "sid=1", "X-Plan": "gold", "Authorization": "Bearer tok-4711"}


def test_secret_headers_do_not_follow_to_another_host():
    seen = redirected(lambda first, other: f"{other}/end", **SECRET_HEADERS, **{"headers__User-Agent": "me"})
    public = {"User-Agent": "me", "Accept": "application/json"}
    assert seen == [("first", SENT | public), ("other", public)] * 2


def test_a_variable_makes_any_header_a_secret(monkeypatch):
    monkeypatch.setenv("AGENT", "agent-4711")
    seen = redirected(lambda first, other: f"{other}/end", **{"headers__User-Agent": "${AGENT}"})
    assert [headers["User-Agent"] == "agent-4711" for _, headers in seen] == [True, False] * 2


def test_secret_headers_follow_on_the_same_host_and_back_to_it():
    here = redirected(lambda first, other: "/end", **SECRET_HEADERS)
    assert [(name, SENT.items() <= headers.items()) for name, headers in here] == [("first", True)] * 4
    back = redirected(lambda first, other: f"{other}/back", **SECRET_HEADERS)
    assert [(name, "Authorization" in headers) for name, headers in back[:3]] == [
        ("first", True), ("other", False), ("first", True),
    ]  # fmt: skip


def test_a_circle_of_redirects_ends():
    asked_for = []

    async def circle(request: web.Request) -> web.Response:
        asked_for.append(request.path)
        return web.Response(status=302, headers={"Location": "/again"})

    assert "SS575" in failing(circle) and len(asked_for) == 11


@pytest.mark.parametrize("place", ["file:///etc/passwd", "http://[::1/x"])
def test_a_redirect_to_no_address_is_an_error(place: str):
    async def send_away(request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": place})

    assert failing(send_away).startswith("SS574")


# --- texts that are none --------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"method": "POST", "body": '{"n": {tailnum}}'}])
def test_a_key_that_is_no_text_is_an_error_of_ours(options: dict[str, object]):
    text = failing(planes, ("N\ud800",), **options)
    assert text.startswith("""SS585: key "tailnum" of table "planes" is no Unicode text: 'N\\ud800'""")
