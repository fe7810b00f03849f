"""The connector sse against a server: what is read, with which id it goes on, and when it gives up."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from sqlstream.errors import SqlStreamError
from tests.server_places import free_port
from tests.sqlstream.connectors.received import Stream, settings_of
from tests.web_server import serving


@dataclass
class Events:
    """A server that answers each request with the next of ``scripts``, and the rest of them with silence. A script is
    chunks of bytes; an answer is given as it is.
    """

    scripts: list[Sequence[bytes] | web.Response]
    asked: list[web.Request] = field(default_factory=list)
    type: str = "text/event-stream"

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request)
        script = self.scripts.pop(0) if self.scripts else None
        if isinstance(script, web.Response):
            return script
        answer = web.StreamResponse(headers={"Content-Type": self.type})
        await answer.prepare(request)
        for chunk in script or ():
            await answer.write(chunk)
            await asyncio.sleep(0.001)
        if script is None:
            await asyncio.sleep(5)
        return answer

    @property
    def ids(self) -> list[str | None]:
        return [request.headers.get("Last-Event-ID") for request in self.asked]


@pytest.fixture
def table(make_table):
    def make(port: int, **options: object) -> Any:
        given = {"url": f"http://127.0.0.1:{port}/events", "format": "raw", "reconnect__delay": "10 ms"}
        return make_table("sse", "line STRING", **{**given, **options})

    return make


def test_events_go_on_behind_the_last_one_after_a_connection_ended(table, tmp_path):
    events = Events([
        [b": hello\n\n", b"id: 1\ndata: a\n\n", "id: 2\nevent: add\ndata: grün\u2028🚀\n\n".encode()[:25],
         "id: 2\nevent: add\ndata: grün\u2028🚀\n\n".encode()[25:], b"id: 3\ndata: not whole"],
        [b"retry: 20\nid: 4\n\n"],
        [b"data: b\n\n"],
    ])  # fmt: skip
    with serving(events) as port, Stream(settings_of(table(port), tmp_path)) as stream:
        found = stream.messages(3)
        assert [m["value"].decode() for m in found] == ["a", "grün\u2028🚀", "b"]
        assert [(m["id"], m["subject"]) for m in found] == [("1", "message"), ("2", "add"), ("4", "message")]
        stream.wait(lambda: len(events.asked) == 4)
    assert events.ids == [None, "2", "4", "4"]
    assert events.asked[0].headers["Accept"] == "text/event-stream"


def test_a_job_goes_on_behind_the_last_event_that_it_has_stored(table, tmp_path):
    events = Events([[b"id: 1\ndata: a\n\n", b"id: 2\ndata: b\n\n"]])
    with serving(events) as port, Stream(settings_of(table(port, event_id="zero"), tmp_path, most=1)) as stream:
        assert stream.values(1) == [b"a"]
        stream.wait(lambda: len(events.asked) == 2)
        stream.restart()
        assert stream.read() == stream.read() and stream.plan() and [m["value"] for m in stream.read()] == [b"b"]
        stream.wait(lambda: len(events.asked) == 3)
        assert not stream.plan()
    assert events.ids == ["zero", "2", "2"]


def test_an_id_that_a_server_has_taken_back_is_not_sent_again(table, tmp_path):
    events = Events([[b"id: 1\ndata: a\n\nid\ndata: b\n\n"]])
    with serving(events) as port, Stream(settings_of(table(port, event_id="zero"), tmp_path)) as stream:
        assert stream.values(2) == [b"a", b"b"]
        stream.wait(lambda: len(events.asked) == 2)
        stream.restart()
        assert not stream.plan()
        stream.wait(lambda: len(events.asked) == 3)
    assert events.ids == ["zero", None, None]


def test_only_events_of_some_types_are_rows_and_all_count(table, tmp_path):
    events = Events([[b"id: 1\nevent: add\ndata: a\n\nid: 2\nevent: tick\ndata: t\n\nevent: drop\ndata: d\n\n"]])
    with serving(events) as port, Stream(settings_of(table(port, event_types="add, drop"), tmp_path)) as stream:
        assert stream.values(2) == [b"a", b"d"]
        stream.wait(lambda: len(events.asked) == 2)
    assert events.ids == [None, "2"]


def test_secrets_are_for_the_server_of_the_url_alone(table, tmp_path, monkeypatch):
    monkeypatch.setenv("KEY", "hunter2hunter2")
    other = Events([[b"data: a\n\n"]])
    with serving(other) as elsewhere:
        events = Events([web.Response(status=307, headers={"Location": f"http://127.0.0.1:{elsewhere}/there"})])
        with serving(events) as port:
            source = table(port, auth__token="${KEY}", headers__X_Key="${KEY}", headers__User_Agent="me")
            with Stream(settings_of(source, tmp_path)) as stream:
                assert stream.values(1) == [b"a"]
                assert "hunter2" not in repr(stream.settings)
    (first, *_), (second, *_) = events.asked, other.asked
    assert first.headers["Authorization"] == "Bearer hunter2hunter2" and first.headers["X-Key"] == "hunter2hunter2"
    assert "Authorization" not in second.headers and "X-Key" not in second.headers
    assert second.headers["User-Agent"] == "me" and second.path == "/there"


REFUSALS: dict[str, tuple[web.Response | list[bytes], str, str]] = {
    "no more": (web.Response(status=204), "", 'SS661: {server} sends no events to table "t": status 204: there are no'),
    "no right": (web.Response(status=401, text="no, hunter2hunter2"), "", "status 401: no, ******"),
    "nothing": (
        web.Response(status=404, text="gone"),
        "",
        "status 404: gone\nHINT: Correct the options url, headers or",
    ),
    "no events": ([b"{}"], "application/json", "it answers application/json, not text/event-stream: {{}}\nHINT"),
    "too large": (
        [b"data: " + b"x" * 2000],
        "text/event-stream",
        'SS664: {server} sends table "t" an event of more than 1024 bytes\nHINT: Raise the option max-message-bytes.',
    ),
}


@pytest.mark.parametrize("refusal", REFUSALS)
def test_what_another_attempt_would_not_change_fails(table, tmp_path, refusal):
    answer, type_, message = REFUSALS[refusal]
    events = Events([answer], type=type_)
    with serving(events) as port:
        source = table(port, auth__token="hunter2hunter2", max_message_bytes="1 kb")
        with Stream(settings_of(source, tmp_path)) as stream, pytest.raises(SqlStreamError) as error:
            stream.values(1)
    assert message.format(server=f"http://127.0.0.1:{port}/events") in str(error.value)
    assert "hunter2" not in str(error.value)


def test_a_server_that_is_busy_or_silent_is_asked_again(table, tmp_path):
    events = Events([web.Response(status=503, text="later"), None, [b"data: a\n\n"]])  # type: ignore[list-item]
    with serving(events) as port, Stream(settings_of(table(port, silence__timeout="50 ms"), tmp_path)) as stream:
        assert stream.values(1) == [b"a"]


def test_a_server_that_cannot_be_reached_for_too_long_fails_the_job(table, tmp_path):
    source = table(free_port(), reconnect__timeout="100 ms", reconnect__max_delay="20 ms")
    with Stream(settings_of(source, tmp_path)) as stream, pytest.raises(SqlStreamError) as error:
        stream.values(1)
    assert "SS660: http://127.0.0.1" in str(error.value) and 'of table "t" cannot be reached' in str(error.value)
    assert "tried for 0.1 seconds, as 'reconnect.timeout' says" in str(error.value)


def test_what_was_received_is_read_before_the_error(table, tmp_path):
    events = Events([[b"id: 1\ndata: a\n\n"], web.Response(status=404)])
    with serving(events) as port, Stream(settings_of(table(port), tmp_path)) as stream:
        assert stream.values(1) == [b"a"]
        with pytest.raises(SqlStreamError, match="SS661"):
            stream.values(1)
