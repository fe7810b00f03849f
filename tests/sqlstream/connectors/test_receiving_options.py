"""Options of the connectors that receive messages, checked without a server."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from sqlstream.connectors import Environment, source_connector, validate
from sqlstream.connectors.receiving.webhook import Webhook
from sqlstream.connectors.secrets import masked
from sqlstream.errors import ConnectorError
from sqlstream.planner.catalog import Table

_GIVEN: dict[str, dict[str, object]] = {
    "sse": {"url": "http://h/events"},
    "websocket": {"url": "wss://h/stream"},
    "webhook": {"port": 9000, "auth__token": "${HOOK_TOKEN}"},
}


def messages(table: Table) -> str:
    return "\n".join(d.render() for d in validate(table, {}))


@pytest.fixture
def table(make_table):
    def make(connector: str, columns: str = "a INT", metadata: dict[str, str] | None = None, **options: object) -> Any:
        given = {"format": "json", **_GIVEN[connector], **options}
        return make_table(connector, columns, metadata, **{k: v for k, v in given.items() if v is not None})

    return make


@pytest.mark.parametrize(
    ("connector", "options", "message"),
    [
        ("sse", {}, ""),
        ("websocket", {}, ""),
        ("webhook", {}, ""),
        ("sse", {"format": None}, 'SS503: connector "sse" requires the option "format"'),
        ("sse", {"format": "debezium-json"}, ""),
        ("sse", {"format": "avro"}, ""),
        ("sse", {"csv__null_literal": "-"}, 'SS504: option "csv.null-literal" has no effect with format "json"'),
        ("sse", {"on_error": "skip"}, ""),
        (
            "sse",
            {"url": "ws://h/"},
            'SS504: option "url" of table "t" is no URL\nHINT: Write it as \'https://host/path\'',
        ),
        ("sse", {"url": "http://h/ü"}, 'SS504: option "url" of table "t" is no URL'),
        ("sse", {"url": "${EVENTS}"}, ""),
        ("sse", {"url": "https://${HOST}/events?key=${KEY}"}, ""),
        ("sse", {"auth__username": "me"}, 'SS504: options "auth.username" and "auth.password" need each other'),
        ("sse", {"headers__a:b": "c"}, 'SS504: option "headers.a:b" of table "t" is no header'),
        ("sse", {"subscribe": "x"}, 'SS502: connector "sse" has no option "subscribe"'),
        ("sse", {"silence__timeout": "soon"}, 'SS504: value "soon" of option "silence.timeout" is not a duration'),
        ("sse", {"max_message_bytes": 0}, 'SS504: value "0" of option "max-message-bytes" is not a size'),
        (
            "sse",
            {"event_types": "${A}"},
            'SS587: option "event-types" of connector "sse" takes no environment',
        ),
        ("websocket", {"url": "http://h/"}, "HINT: Write it as 'wss://host/path', percent-encoded."),
        ("websocket", {"url": "${STREAM}"}, ""),
        ("webhook", {"port": None}, 'SS503: connector "webhook" requires the option "port"'),
        ("webhook", {"port": 0}, 'SS504: value "0" of option "port" is not an integer'),
        (
            "webhook",
            {"auth__token": None},
            'SS503: connector "webhook" requires one of the options "auth.token" and "hmac.secret"\n'
            "HINT: Add 'auth.token' = '${NAME}', or 'open' = 'true' for whoever is on this machine.",
        ),
        ("webhook", {"auth__token": None, "open": "true"}, ""),
        ("webhook", {"auth__token": None, "hmac__secret": "${KEY}"}, ""),
        ("webhook", {"open": "true"}, 'SS504: options "open" and "auth.token" exclude each other'),
        (
            "webhook",
            {"auth__token": None, "open": "true", "host": "0.0.0.0"},
            'SS504: option "open" is for a "host" that is this machine alone',
        ),
        ("webhook", {"ssl__key": "key.pem"}, 'SS504: options "ssl.certificate" and "ssl.key" need each other'),
        ("webhook", {"path": "hooks"}, 'SS504: option "path" of table "t" is no path of a URL'),
        ("webhook", {"split": "words"}, 'SS504: value "words" of option "split" is not accepted'),
    ],
)
def test_what_is_wrong_with_a_table_is_told(table, connector, options, message):
    found = messages(table(connector, **options))
    assert message in found if message else found == ""


@pytest.mark.parametrize("connector", _GIVEN)
def test_messages_have_metadata(table, connector):
    keys = source_connector(connector).metadata(table(connector))
    assert str(keys["received-at"]) == "TIMESTAMP"
    assert messages(table(connector, "a INT", {key.replace("-", "_"): key for key in keys})) == ""
    wrong = table(connector)
    wrong = replace(wrong, columns=(*wrong.columns, replace(wrong.columns[0], name="o", metadata_key="offset")))
    assert f'SS505: connector "{connector}" has no metadata key "offset"' in messages(wrong)


def test_secrets_are_not_shown(table):
    given = {
        "auth__token": "hunter2", "headers__X_Key": "hunter2", "url": "https://me:hunter2@h/x?key=hunter2",
        "subscribe": '{"key": "hunter2"}',
    }  # fmt: skip
    for connector in ("sse", "websocket"):
        shown = dict(masked(table(connector, **given).options))
        assert "hunter2" not in str(shown)
    shown = dict(masked(table("webhook", auth__token="hunter2", hmac__secret="hunter2", split="lines").options))
    assert "hunter2" not in str(shown) and shown["split"] == "lines" and shown["port"] == "9000"


def test_a_job_says_what_it_lacks(table, monkeypatch):
    monkeypatch.setattr("sqlstream.connectors.receiving.sse.find_spec", lambda name: None)
    for connector in _GIVEN:
        source = table(connector, auth__token="x")
        kind = source_connector(connector)
        with pytest.raises(ConnectorError) as error:
            kind.receiver(source, kind.resolved_values(source), 0)  # type: ignore[attr-defined]
        assert f'SS577: connector "{connector}" needs the Python package "aiohttp"' in str(error.value)
        assert "pip install 'sqlstream[http]'" in str(error.value)


def test_a_port_is_listened_on_once(table):
    with pytest.raises(ConnectorError, match='SS669: table "t" is read twice, and a port is listened on once'):
        Webhook().receiver(table("webhook", auth__token="x"), Webhook().values(table("webhook")), 1)


def test_a_checkpoint_elsewhere_is_refused(table):
    spark: Any = SimpleNamespace()
    source = table("webhook", auth__token="x")
    with pytest.raises(ConnectorError, match='SS629: connector "webhook" needs a checkpoint that is a folder of this'):
        Webhook().read(Environment(spark, None, watches=[]), source, ("a",))  # type: ignore[arg-type]


def test_an_address_is_looked_at_again_when_its_secrets_are_known(table, monkeypatch):
    monkeypatch.setenv("EVENTS", "ftp://h/")
    source, kind = table("sse", url="${EVENTS}"), source_connector("sse")
    with pytest.raises(ConnectorError, match='SS504: option "url" is no URL'):
        kind.receiver(source, kind.resolved_values(source), 0)  # type: ignore[attr-defined]
