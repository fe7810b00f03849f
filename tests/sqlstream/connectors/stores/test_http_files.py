"""Files of web servers: by ranges where the server has them, whole where not, and what is refused."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from sqlstream.connectors import validate
from sqlstream.connectors.environment import Environment
from sqlstream.connectors.files.filesystem import FileSystem
from sqlstream.connectors.on_spark.record_files import record_format
from sqlstream.connectors.stores import http
from sqlstream.connectors.stores.objects import ObjectStore
from sqlstream.connectors.stores.stores import store_of
from sqlstream.errors import SqlStreamError
from tests.sqlstream.connectors.stores.test_reading_and_writing import ROWS, SPARK, as_file, in_shares, table_at


class Server(ThreadingHTTPServer):
    """``files``: content by path. ``ranges``: ranges are answered. ``fails``: how many requests fail first."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.ranges, self.fails = True, 0
        self.asked: list[tuple[str, str, str | None]] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.answer(body=True)

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def answer(self, *, body: bool) -> None:
        wanted = self.headers.get("Range")
        self.server.asked.append((self.command, self.path, wanted))
        data = self.server.files.get(self.path)
        if self.server.fails:
            self.server.fails -= 1
            self.send_error(503)
            return
        if data is None or self.path == "/secret":
            self.send_error(404 if data is None else 403)
            return
        part = data
        if wanted is not None and self.server.ranges:
            first, last = wanted.removeprefix("bytes=").split("-")
            part = data[int(first) : int(last) + 1]
        self.send_response(206 if part is not data else 200)
        self.send_header("Content-Length", str(len(part)))
        self.send_header("Last-Modified", "Wed, 31 Jan 2024 12:00:00 GMT")
        if self.server.ranges:
            self.send_header("Accept-Ranges", "bytes")
        self.end_headers()
        if body:
            self.wfile.write(part)

    def log_message(self, *args: Any) -> None:
        """The tests look at ``asked``."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(http, "_PAUSE_SECONDS", 0.01)
    with serving() as running:
        yield running


@contextmanager
def serving() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def store_at(path: str, **values: str) -> ObjectStore:
    store = store_of(path, values)
    assert isinstance(store, http.HttpFiles)
    return store


@pytest.mark.parametrize("form", ["json", "csv", "parquet", "orc", "arrow"])
@pytest.mark.parametrize("ranges", [True, False])
def test_files_are_read_in_shares(server: Server, tmp_path: Path, form: str, ranges: bool) -> None:
    server.ranges, server.fails = ranges, 2
    server.files = {"/a": as_file(form, ROWS[:200], tmp_path / "x"), "/b": as_file(form, ROWS[200:], tmp_path / "x")}
    path = f"{server.url}/a {server.url}/b"
    table = table_at(path, form, None)
    reader = record_format(Environment(SPARK, tmp_path), table, ("id", "word"), FileSystem().values(table))
    assert reader is not None
    shares = in_shares(store_at(path), reader, path, 2)
    assert [row for share in shares for row in share] == ROWS
    assert any(wanted for _, _, wanted in server.asked) == ranges


def test_packed_files_are_unpacked(server: Server, tmp_path: Path) -> None:
    server.files = {"/a.json.gz": gzip.compress(b'{"id": 1, "word": "x"}\n')}
    path = f"{server.url}/a.json.gz"
    table = table_at(path, "json", None)
    reader = record_format(Environment(SPARK, tmp_path), table, ("id", "word"), FileSystem().values(table))
    assert reader is not None
    assert in_shares(store_at(path), reader, path, 1) == [[{"id": 1, "word": "x"}]]


def test_only_what_is_needed_of_a_large_file_is_fetched(server: Server) -> None:
    server.files = {"/x": bytes(range(256)) * 40_000}
    with store_at(f"{server.url}/x").opened(f"{server.url}/x") as file:
        file.seek(5_000_000)
        assert file.read(4) == server.files["/x"][5_000_000:5_000_004]
    assert [wanted for _, _, wanted in server.asked] == [None, f"bytes={1 << 22}-{(1 << 23) - 1}"]


def test_errors_say_what_the_server_answers(server: Server) -> None:
    server.files = {"/secret": b"x", "/a": b"x"}
    store = store_at(f"{server.url}/a")
    (listed,) = store.listed(f"{server.url}/a")
    assert (listed.size, listed.modified) == (1, 1_706_702_400_000_000)
    with pytest.raises(SqlStreamError, match=r'SS675: the server denies access to "http://[^"]*/secret"'):
        store.listed(f"{server.url}/secret")
    with pytest.raises(FileNotFoundError):
        store.listed(f"{server.url}/none")
    assert store_at(f"{server.url}/a", **{"source.missing-files": "skip"}).listed(f"{server.url}/none") == []
    server.fails = 3
    with pytest.raises(SqlStreamError, match=r'SS677: the server of "http://[^"]*/a" does not answer'):
        store.listed(f"{server.url}/a")
    with pytest.raises(SqlStreamError, match=r"SS689.*nothing is written to web servers"):
        store.begin(f"{server.url}/a")


def test_folders_patterns_and_watching_are_refused(make_table: Any) -> None:
    def wrong(path: str, **options: str) -> list[str]:
        table = make_table("filesystem", "id BIGINT", path=path, format="json", **options)
        return [d.message for d in validate(table, {})]

    assert wrong("https://host.test/a.json https://host.test/b.json?v=2") == []
    assert wrong("https://host.test/in/") == ['path "https://host.test/in/" of table "t" is no URL of a file']
    assert wrong("https://host.test/*.json") == ['path "https://host.test/*.json" of table "t" is no URL of a file']
    assert wrong("https://host.test/a.json", source__monitor_interval="1 s") == [
        'table "t" cannot watch "https://host.test/a.json": web servers list no files'
    ]
    assert wrong("https://host.test/a.json", s3__region="x") == ['option "s3.region" is for paths of s3://']
