"""The client of schema registries, over HTTP: what it asks, once; what it waits for; what it says of a refusal."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlstream.errors import ConnectorError
from sqlstream.formats import schema_registry
from sqlstream.formats.schema_registry import AVRO, PROTOBUF, RegisteredSchema, Registry
from tests.schema_registry import TestRegistry, basic, serving


@pytest.fixture
def server() -> Iterator[TestRegistry]:
    with serving() as registry:
        yield registry


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(schema_registry, "_FIRST_PAUSE", 0.01)


def of(server: TestRegistry, **given: object) -> Registry:
    return Registry((server.url,), **given)  # type: ignore[arg-type]


def test_a_schema_is_asked_for_once(server: TestRegistry):
    number = server.register("s", '"long"')
    registry = of(server)
    assert registry.schema(number) == registry.schema(number) == RegisteredSchema(number, '"long"', AVRO)
    assert of(server).schema(number) is not None  # another one of the same process
    assert server.asked == [f"GET /schemas/ids/{number}"]


def test_an_unknown_id_is_asked_for_again_after_a_while(server: TestRegistry, monkeypatch: pytest.MonkeyPatch):
    registry = of(server)
    assert registry.schema(5) is None
    server.register("s", '"long"', id=5)
    assert registry.schema(5) is None
    assert len(server.asked) == 1
    monkeypatch.setattr(schema_registry, "_UNKNOWN_SECONDS", 0)
    assert registry.schema(5) is not None


def test_an_unknown_id_is_asked_for_once_in_each_micro_batch(server: TestRegistry):
    registry, other = of(server), of(server, token="t")
    for _ in range(2):
        assert registry.schema(5) is registry.schema(5) is other.schema(5) is None
        registry.ask_again()
    assert len(server.asked) == 3  # the other one was not told to ask again
    server.register("s", '"long"', id=5)
    assert registry.schema(5) == registry.schema(5) == RegisteredSchema(5, '"long"', AVRO)
    registry.ask_again()
    assert registry.schema(5) is not None
    assert len(server.asked) == 4


def test_a_registry_that_is_away_for_a_moment_is_waited_for(server: TestRegistry):
    number = server.register("s", '"long"')
    server.away = 3
    assert of(server).schema(number) is not None
    assert len(server.asked) == 4


def test_a_registry_that_stays_away_fails_with_its_url_and_without_its_password(server: TestRegistry):
    server.away = 1000
    url = server.url.replace("http://", "http://user:secret@")
    with pytest.raises(ConnectorError) as caught:
        Registry((url,), patience=0.1).schema(1)
    message = f'SS598: schema registry "{server.url}" does not answer: 503 Master not available'
    assert str(caught.value).splitlines() == [
        message, "HINT: Look whether it runs there, and at the options of the format."
    ]  # fmt: skip
    with pytest.raises(ConnectorError, match=r'SS598: schema registry "http://localhost:1" .*refused'):
        Registry(("http://localhost:1",), patience=0.0).schema(1)


def test_another_server_of_the_same_registry_is_asked_where_one_is_away(server: TestRegistry):
    number = server.register("s", '"long"')
    assert Registry(("http://localhost:1", server.url), patience=5).schema(number) is not None


@pytest.mark.parametrize(
    ("given", "header"),
    [({"user": "ann:s3cret"}, basic("ann:s3cret")), ({"token": "t0ken"}, "Bearer t0ken"), ({}, basic("bob:p@ss"))],
)
def test_users_and_tokens_are_sent_and_not_shown(server: TestRegistry, given: dict[str, str], header: str):
    server.authorization = header
    number = server.register("s", '"long"')
    url = server.url if given else server.url.replace("http://", "http://bob:p%40ss@")
    registry = Registry((url,), **given)  # type: ignore[arg-type]
    assert registry.schema(number) is not None
    assert not any(secret in repr(registry) for secret in ("s3cret", "t0ken", "p%40ss"))
    with pytest.raises(ConnectorError) as caught:
        Registry((server.url,), user="ann:wrong").schema(number + 1)
    assert str(caught.value).splitlines() == [
        f'SS599: schema registry "{server.url}" refuses a request: 401 Unauthorized',
        "HINT: Look at the options basic-auth.user-info and bearer-auth.token of the format.",
    ]


def test_a_schema_comes_with_those_that_it_refers_to_first_those_of_others(server: TestRegistry):
    server.register("a", "A", PROTOBUF)
    server.register("b", "B", PROTOBUF, [{"name": "a.proto", "subject": "a", "version": 1}])
    both = [{"name": f"{name}.proto", "subject": name, "version": 1} for name in "ba"]
    number = server.register("c", "C", PROTOBUF, both)
    assert of(server).schema(number) == RegisteredSchema(number, "C", PROTOBUF, ("A", "B"), ("a.proto", "b.proto"))


def test_a_schema_is_registered_under_a_subject(server: TestRegistry):
    registry = of(server)
    schema = RegisteredSchema(0, '"long"')
    assert registry.registered("a/b", schema) is None
    number = registry.register("a/b", schema)
    assert registry.register("a/b", schema) == registry.registered("a/b", schema) == number
    assert registry.latest("a/b") == RegisteredSchema(number, '"long"')
    assert registry.latest("other") is None
    server.refused.add("a/b")
    with pytest.raises(ConnectorError) as caught:
        registry.register("a/b", RegisteredSchema(0, '"int"'))
    assert str(caught.value).splitlines() == [
        f'SS599: schema registry "{server.url}" refuses a request: Schema being registered is incompatible with an '
        'earlier schema for subject "s"',
        "HINT: Change the columns or the option schema, or take another subject.",
    ]


def test_what_is_no_registry_is_refused(server: TestRegistry):
    with pytest.raises(ConnectorError, match=r"SS599: .* refuses a request: 404 HTTP 404 Not Found"):
        Registry((f"{server.url}/elsewhere",)).schema(1)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_certificates_are_checked_by_files_of_pem(tmp_path: Path):
    key, certificate, both = (tmp_path / name for name in ("key.pem", "cert.pem", "both.pem"))
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    both.write_text(key.read_text() + certificate.read_text())
    with serving(both) as server:
        number = server.register("s", '"long"')
        assert of(server, authorities=str(certificate), certificate=str(both)).schema(number) is not None
        with pytest.raises(ConnectorError) as caught:
            of(server).schema(number)
        assert "refuses a request: its certificate is not trusted: self-signed certificate" in str(caught.value)
        assert "ssl.truststore.location" in str(caught.value)
        with pytest.raises(ConnectorError, match=r'SS599: certificates ".*none.pem" .* cannot be read'):
            of(server, authorities=str(tmp_path / "none.pem")).schema(number)
