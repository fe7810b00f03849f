"""The connector websocket against a server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiohttp import WSMsgType, web

from sqlstream.errors import SqlStreamError
from tests.sqlstream.connectors.received import Stream, settings_of
from tests.web_server import serving

Script = Callable[[web.WebSocketResponse], Awaitable[None]]


class Sockets:
    """A server that lets each connection do what the next of ``scripts`` does, and the rest stay open."""

    def __init__(self, *scripts: Script, **settings: Any) -> None:
        self.scripts, self.settings = list(scripts), settings
        self.asked: list[web.Request] = []
        self.heard: list[str] = []

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request)
        socket = web.WebSocketResponse(**self.settings)
        await socket.prepare(request)
        if self.scripts:
            await self.scripts.pop(0)(socket)
        else:
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    self.heard.append(message.data)
        return socket


def says(*texts: str | bytes, code: int = 1000) -> Script:
    async def say(socket: web.WebSocketResponse) -> None:
        for text in texts:
            await (socket.send_str(text) if isinstance(text, str) else socket.send_bytes(text))
        await socket.close(code=code)

    return say


@pytest.fixture
def table(make_table):
    def make(port: int, **options: object) -> Any:
        given = {"url": f"ws://127.0.0.1:{port}/stream", "format": "raw", "reconnect__delay": "10 ms"}
        return make_table("websocket", "line STRING", **{**given, **options})

    return make


def test_texts_and_bytes_are_messages_and_connections_are_made_again(table, tmp_path):
    sockets = Sockets(says("a\u2028ü\n", b"\x00\xff"), says("b", code=1011), protocols=("v2", "v1"))
    with serving(sockets) as port:
        source = table(port, subprotocols="v1, v3", auth__username="me", auth__password="pw", subscribe="please")
        with Stream(settings_of(source, tmp_path)) as stream:
            assert stream.values(3) == ["a\u2028ü\n".encode(), b"\x00\xff", b"b"]
            stream.wait(lambda: sockets.heard == ["please"])
            stream.restart()
            stream.wait(lambda: stream.plan() or sockets.heard == ["please", "please"])
            assert len(stream.offsets) == 4 or not stream.plan()
    request = sockets.asked[0]
    assert request.headers["Sec-WebSocket-Protocol"] == "v1,v3" and request.headers["Authorization"] == "Basic bWU6cHc="


def test_many_messages_are_stored_together(table, tmp_path):
    texts = [f"message {n}" for n in range(5000)]
    with serving(Sockets(says(*texts))) as port, Stream(settings_of(table(port), tmp_path)) as stream:
        assert stream.values(5000) == [text.encode() for text in texts]


def test_a_connection_without_an_answer_is_made_again(table, tmp_path):
    async def sleeps(socket: web.WebSocketResponse) -> None:
        await asyncio.sleep(1)  # and reads no ping

    for name, options in {
        "ping": {"heartbeat__interval": "50 ms"},
        "silence": {"heartbeat__interval": "0", "silence__timeout": "50 ms"},
    }.items():
        source = partial(table, **options)
        with serving(Sockets(sleeps, says("a"))) as port, Stream(settings_of(source(port), tmp_path / name)) as stream:
            assert stream.values(1) == [b"a"]


def error_of(source: Any, folder: Path) -> str:
    with Stream(settings_of(source, folder)) as stream, pytest.raises(SqlStreamError) as error:
        stream.values(1)
    return str(error.value)


def test_a_message_that_is_too_large_fails(table, tmp_path):
    with serving(Sockets(says("x" * 2000))) as port:
        error = error_of(table(port, max_message_bytes="1 kb"), tmp_path)
    assert f'SS664: ws://127.0.0.1:{port}/stream sends table "t" a message of more than 1024 bytes' in error


def test_a_server_that_refuses_or_redirects_fails(table, tmp_path):
    async def refuse(request: web.Request) -> web.StreamResponse:
        return web.Response(status=403)

    async def redirect(request: web.Request) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": "http://127.0.0.1:9/elsewhere"})

    for handler, message in ((refuse, 'lets table "t" not connect: status 403'), (redirect, 'redirects table "t"')):
        with serving(handler) as port:
            error = error_of(table(port), tmp_path / handler.__name__)
        assert f"SS661: ws://127.0.0.1:{port}/stream {message}" in error
