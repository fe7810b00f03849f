"""The source of messages in docs/connectors_of_your_own.md, against a server of lines."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

from tests.sqlstream.connectors.connectors_apart import register
from tests.sqlstream.connectors.received import Stream, settings_of

PAGE = Path(__file__).parents[3] / "docs" / "connectors_of_your_own.md"


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Registers the connector, as an entry point of a package would."""
    _, text = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    register(monkeypatch, "lines", "Lines", text)


@contextmanager
def server(texts: list[str], heard: list[str]) -> Iterator[int]:
    """Sends each connection two lines behind those that it has, and hears what it says."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection, connection.makefile("rwb") as file:
                    if not (said := file.readline().decode().strip()):
                        continue  # who only looks whether the port is open, as a scan of all ports does
                    heard.append(said)
                    after = int(said.split()[1])
                    for text in texts[after : after + 2]:
                        file.write(f"{text}\n".encode())
                        file.flush()
                        heard.append(file.readline().decode().strip())

        thread = Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(5)


def test_lines_are_stored_before_they_are_acknowledged(lines, make_table, tmp_path):
    heard: list[str] = []
    with server(["a", "b", "c"], heard) as port:
        given = {"host": "127.0.0.1", "port": port, "format": "raw", "reconnect__delay": "10 ms"}
        table = make_table("lines", "line STRING", {"n": "number"}, **given)
        with Stream(settings_of(table, tmp_path)) as stream:
            assert [(m["value"], m["id"]) for m in stream.messages(3)] == [(b"a", "1"), (b"b", "2"), (b"c", "3")]
            stream.wait(lambda: "ok 3" in heard)
            stream.restart()
            stream.plan()
            stream.wait(lambda: heard.count("after 3") >= 2)
            assert not stream.plan()
    assert heard[:6] == ["after 0", "ok 1", "ok 2", "after 2", "ok 3", "after 3"]
