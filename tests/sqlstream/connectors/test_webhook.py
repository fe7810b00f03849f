"""The connector webhook: who may send, what is refused, and that what was answered with 200 is on disk."""

from __future__ import annotations

import gzip
import hmac
import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sqlstream.connectors.receiving.spool import Spool
from sqlstream.connectors.receiving.webhook import NotSplit, split_array, split_lines
from sqlstream.errors import SqlStreamError
from sqlstream.udfs.spool import messages_of
from tests.server_places import free_port, is_listening
from tests.sqlstream.connectors.received import Stream, settings_of

TOKEN = "hunter2hunter2"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


class Hook:
    """A table that listens, and who sends to it."""

    def __init__(self, table: Any, folder: Path, **changes: Any) -> None:
        self.port = int(table.option("port"))
        self.stream = Stream(settings_of(table, folder, **changes))

    def __enter__(self) -> Hook:
        self.stream.plan()
        self.stream.wait(lambda: is_listening(self.port))
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.reader.stop()

    def asked(
        self, method: str = "POST", path: str = "/", body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, str]:
        """The status and the text of an answer; 0 without one."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except OSError as error:
            return 0, str(error)
        finally:
            connection.close()

    def send(self, body: bytes, **headers: str) -> int:
        return self.asked(body=body, headers={**BEARER, **{k.replace("_", "-"): v for k, v in headers.items()}})[0]


@pytest.fixture
def table(make_table):
    def make(**options: object) -> Any:
        given: dict[str, object] = {"port": free_port(), "format": "raw"}
        if not {"open", "hmac__secret"} & options.keys():
            given["auth__token"] = TOKEN
        return make_table("webhook", "line STRING", **{**given, **options})

    return make


def test_what_is_answered_is_stored_with_what_the_request_says(table, tmp_path):
    with Hook(table(path="/hooks/a"), tmp_path) as hook:
        answer = hook.asked("POST", "/hooks/a?x=1", "ü\u2028".encode(), {**BEARER, "X-Kind": "k", "Cookie": "secret"})
        assert answer == (200, "stored\n")
        assert hook.asked("PUT", "/hooks/a", gzip.compress(b"zipped"), {**BEARER, "Content-Encoding": "gzip"})[0] == 200
        first, second = hook.stream.messages(2)
    assert (first["value"].decode(), second["value"]) == ("ü\u2028", b"zipped")
    assert first["subject"] == "/hooks/a?x=1" and first["id"] is None
    assert dict(first["headers"])["x-kind"] == "k" and not {"authorization", "cookie"} & {*dict(first["headers"])}


def test_what_is_refused_is_not_stored(table, tmp_path):
    with Hook(table(max_message_bytes="1 kb"), tmp_path) as hook:
        for wrong in ("", "Bearer x", TOKEN, f"bearer {TOKEN}", f"Bearer {TOKEN}!"):
            assert hook.asked(body=b"a", headers={"Authorization": wrong})[0] == 401
        assert hook.asked("POST", "/other", b"a", BEARER)[0] == 404
        assert hook.asked("GET", "/", None, BEARER)[0] == 405
        assert hook.send(b"x" * 1025) == 413
        assert hook.send(gzip.compress(b"x" * 1_000_000), Content_Encoding="gzip") == 413
        assert hook.asked("POST", "/", iter([b"x" * 600] * 3), BEARER)[0] == 413  # type: ignore[arg-type]
        assert hook.send(b"x" * 1024) == 200
        assert hook.stream.values(1) == [b"x" * 1024]


def test_a_body_that_does_not_come_is_given_up(table, tmp_path):
    head = f"POST / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 9\r\n\r\n"
    with Hook(table(body__timeout="100 ms"), tmp_path) as hook:
        with socket.create_connection(("127.0.0.1", hook.port)) as slow:
            slow.sendall(head.encode() + b"ab")
            assert slow.recv(100).startswith(b"HTTP/1.1 408 ")
        assert hook.send(b"a") == 200


def test_a_token_may_stand_in_another_header(table, tmp_path):
    with Hook(table(auth__header="X-Gitlab-Token"), tmp_path) as hook:
        assert hook.asked(body=b"a", headers=BEARER)[0] == 401
        assert hook.asked(body=b"a", headers={"x-gitlab-token": TOKEN})[0] == 200
        (message,) = hook.stream.messages(1)
        assert "x-gitlab-token" not in dict(message["headers"])


@pytest.mark.parametrize("header", ["X-Hub-Signature-256", "X-Mine"])
def test_bodies_may_be_signed(table, tmp_path, header):
    with Hook(table(hmac__secret="key", hmac__header=header), tmp_path) as hook:
        digest = hmac.new(b"key", b"body", "sha256").hexdigest()
        assert hook.asked(body=b"body")[0] == hook.asked(body=b"other", headers={header: f"sha256={digest}"})[0] == 401
        assert hook.asked(body=b"body", headers={header: f"sha256={digest}"})[0] == 200
        assert hook.asked(body=b"body", headers={header: digest})[0] == 200


def test_what_is_open_is_for_this_machine_and_no_page_of_a_browser(table, tmp_path):
    with Hook(table(open="true"), tmp_path) as hook:
        for host in ("example.org", "127.0.0.1.example.org", ""):
            assert hook.asked(body=b"a", headers={"Host": host})[0] == 403
        assert hook.asked(body=b"a", headers={"Origin": "http://127.0.0.1"})[0] == 403
        assert hook.asked(body=b"a")[0] == 200


def test_a_request_that_is_sent_again_is_stored_once(table, tmp_path):
    with Hook(table(), tmp_path) as hook:
        with ThreadPoolExecutor(8) as pool:
            assert {*pool.map(lambda n: hook.send(b"m%d" % (n % 4), Idempotency_Key=str(n % 4)), range(32))} == {200}
        assert sorted(hook.stream.values(4)) == [b"m0", b"m1", b"m2", b"m3"]
        hook.stream.restart()
        hook.stream.plan()
        hook.stream.wait(lambda: hook.send(b"again", Idempotency_Key="2") == 200)
        assert hook.send(b"new", Idempotency_Key="4") == 200
        (message,) = hook.stream.messages(1)
        assert (message["value"], message["id"]) == (b"new", "4")
    with Hook(table(id__remembered=0, id__header="X-Id"), tmp_path / "all") as hook:
        assert [hook.send(b"a", X_Id="1"), hook.send(b"a", X_Id="1")] == [200, 200]
        assert [m["id"] for m in hook.stream.messages(2)] == ["1", "1"]


def test_a_query_that_keeps_nothing_shows_messages_and_leaves_them_to_their_senders(table, tmp_path):
    with Hook(table(), tmp_path, lasting=False) as hook:
        status, text = hook.asked(body=b"a", headers={**BEARER, "Idempotency-Key": "1"})
        assert (status, text) == (
            503, "the message is shown by a query that keeps nothing: send it again when a job reads the table\n"
        )  # fmt: skip
        assert hook.send(b"a", Idempotency_Key="1") == hook.send(b"b") == 503
        assert hook.stream.values(2) == [b"a", b"b"]


def test_a_full_spool_asks_senders_to_come_again(table, tmp_path):
    with Hook(table(), tmp_path, most_bytes=3000) as hook:
        statuses = [hook.send(b"x" * 500) for _ in range(8)]
        assert statuses[0] == 200 and statuses[-1] == 503
        assert hook.stream.values(statuses.count(200)) == [b"x" * 500] * statuses.count(200)
        assert not hook.stream.plan() and hook.send(b"more") == 200
        assert hook.stream.values(1) == [b"more"]


def test_bodies_are_split(table, tmp_path):
    with Hook(table(split="lines"), tmp_path) as hook:
        assert hook.send(b'{"a": 1}\r\n\n{"a": 2}\n') == 200
        assert hook.stream.values(2) == [b'{"a": 1}', b'{"a": 2}']
    with Hook(table(split="array"), tmp_path / "array") as hook:
        assert hook.send(b'{"a": 1}') == 400
        assert hook.send(b'[{"a": 1.10}, {"a": [2]}]') == 200
        assert hook.stream.values(2) == [b'{"a": 1.10}', b'{"a": [2]}']


def test_a_micro_batch_behind_a_slow_one_reads_fewer_messages(table, tmp_path):
    with Hook(table(split="lines"), tmp_path, most=300, wanted_ms=1) as hook:
        assert hook.send(b"a\n" * 450) == 200
        sizes = []
        while hook.stream.plan():
            sizes.append(len(hook.stream.read()))
            time.sleep(0.1)
        assert sizes == [300, 100, 50]


NO_ARRAYS = (b"", b"1", b"[", b"[1", b"[1,]", b"[,1]", b"[1 2]", b"[1] 2", b"[1]]", b"\xff", b"[a]", b"[" * 100_000)


@pytest.mark.parametrize("wrong", NO_ARRAYS)
def test_what_is_no_array_is_refused(wrong):
    with pytest.raises(NotSplit):
        split_array(wrong)


def test_elements_of_an_array_are_as_they_are_spelled():
    text = ' [1e400, 0.10 ,{"b" : "\\u00fc]," , "a":1},"x",[], null] '
    assert split_array(text.encode()) == [b"1e400", b"0.10", b'{"b" : "\\u00fc]," , "a":1}', b'"x"', b"[]", b"null"]
    assert split_array(b" [ ] ") == [] and split_lines(b"\n \n") == []


def test_a_port_that_is_taken_is_an_error(table, tmp_path, monkeypatch):
    monkeypatch.setattr("sqlstream.connectors.receiving.webhook._PORT_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        source = table(port=taken.getsockname()[1])
        with Stream(settings_of(source, tmp_path)) as stream, pytest.raises(SqlStreamError) as error:
            stream.values(1)
    assert f'SS663: table "t" cannot listen on port {source.option("port")} of "127.0.0.1": ' in str(error.value)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_requests_may_be_encrypted(table, tmp_path):
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    source = table(ssl__certificate=certificate, ssl__key=key)
    with Hook(source, tmp_path) as hook:
        context = ssl.create_default_context(cafile=certificate)
        connection = http.client.HTTPSConnection("localhost", hook.port, timeout=10, context=context)
        connection.request("POST", "/", b"a", BEARER)
        assert connection.getresponse().status == 200
        connection.close()
    wrong = settings_of(table(ssl__certificate=key, ssl__key=key), tmp_path / "wrong")
    message = 'SS504: the certificate of table "t" cannot be read: '
    with Stream(wrong) as stream, pytest.raises(SqlStreamError, match=message):
        stream.values(1)


_SENDER = """
import sys, time
from pathlib import Path
from sqlstream.connectors.receiving.receiver import Receiving
from sqlstream.connectors.receiving.spool import Spool
from sqlstream.connectors.receiving.webhook import Door, WebhookReceiver
receiver = WebhookReceiver("t", "127.0.0.1", int(sys.argv[2]), door=Door(open_token := "hunter2hunter2"))
receiving = Receiving(receiver, Spool(Path(sys.argv[1]), 1000), 1 << 30)
time.sleep(60)
"""


def test_what_was_answered_is_on_disk_when_the_process_is_killed(tmp_path):
    """Each message is sent until it is answered, as a sender does; the process that listens is killed meanwhile."""
    port, folder = free_port(), tmp_path / "spool"
    hook = Hook.__new__(Hook)
    hook.port = port
    answered: list[str] = []
    number = 0
    for _ in range(2):
        process = subprocess.Popen([sys.executable, "-c", _SENDER, str(folder), str(port)])
        end = time.monotonic() + 20
        while hook.asked("GET")[0] == 0:
            assert time.monotonic() < end
            time.sleep(0.02)
        begun, killed = len(answered), False
        while len(answered) < begun + 40:
            if hook.send(json.dumps(number).encode(), Idempotency_Key=str(number)) == 200:
                answered.append(str(number))
                number += 1
            elif killed:
                break
            if len(answered) == begun + 30 and not killed:
                os.kill(process.pid, signal.SIGKILL)
                killed = True
        process.wait(20)
    spool = Spool(folder)
    stored = [v.decode() for b in messages_of(spool.ranges(0, spool.end), ("value",)) for v in b.column(0).to_pylist()]
    spool.close()
    assert stored[: len(answered)] == answered and len(stored) - len(answered) <= 1
