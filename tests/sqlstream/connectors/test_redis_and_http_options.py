"""Options of the connectors redis and http, checked without a server."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from sqlstream.connectors import lookup_connector, sink_connector, validate
from sqlstream.errors import ConnectorError
from sqlstream.planner.catalog import APPEND_ONLY, UPSERT, Table
from sqlstream.udfs.lookup.source import Request

_REDIS = {"url": "redis://h", "key": "a:{k}"}
_HTTP = {"url": "http://h/{k}"}
_ENVIRONMENT: Any = SimpleNamespace(job="job", spark=SimpleNamespace(conf={"spark.sql.session.timeZone": "UTC"}))


def messages(table: Table) -> str:
    return "\n".join(d.render() for d in validate(table, {}))


def looked_up(table: Table, *keys: str) -> Any:
    kinds = {c.name: c.type for c in table.physical_columns}
    lookup = lookup_connector(table.connector).lookup
    return lookup(_ENVIRONMENT, table, Request(tuple((k, kinds[k]) for k in keys), tuple(kinds.items())))


# --- redis ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ("k INT; v INT", {"url": None}, 'SS503: connector "redis" requires one of the options "url" and "host"'),
        ("k INT; v INT", {"host": "h"}, 'SS503: connector "redis" requires one of the options "url" and "host"'),
        ("k INT; v INT", {"port": 1}, 'SS504: option "port" belongs to "host", not to "url"'),
        ("k INT; v INT", {"url": "http://h"}, 'SS504: option "url" of table "t" is no address of Redis'),
        ("k INT; v INT", {"key": None}, 'SS503: table "t" says neither its "key" nor a PRIMARY KEY'),
        ("k INT; v INT", {"key": "fixed"}, 'SS504: option "key" of table "t" holds no column'),
        ("k INT; v INT", {"key": "{kk}"}, 'SS504: option "key" names the column "kk"'),
        ("k ARRAY<INT>; v INT", {}, 'SS505: column "k" of type ARRAY<INT> cannot be part of the option "key"'),
        ("k INT; v VARIANT", {}, 'SS505: connector "redis" has no values of type VARIANT for column "v"'),
        ("k INT; v INT", {"value_column": "v"}, 'SS504: option "value-column" belongs to the data-type string'),
        ("k INT; v INT; w INT", {"data_type": "string"}, "SS505: a string holds one column beside the key"),
        ("k INT", {"data_type": "string"}, "SS505: a string holds one column beside the key"),
        ("k INT; v INT", {"data_type": "string", "value_column": "k"}, 'SS504: option "value-column" names "k"'),
        ("k INT; v INT", {"columns__v__path": "$.v"}, 'SS504: option "columns.v.path" belongs to the data-type json'),
        (
            "k INT",
            {"data_type": "json", "columns__v__path": "$"},
            'SS504: option "columns.v.path" names the column "v"',
        ),
        ("k INT; v INT", {"data_type": "list"}, 'SS504: value "list" of option "data-type"'),
        ("k INT; v INT", {"columns__v__path": "v"}, "Accepted: a path such as $.a.b[0]"),
    ],
)
def test_what_is_wrong_with_a_redis_table_is_told(make_table, columns, options, message):
    given = {key: value for key, value in (_REDIS | options).items() if value is not None}
    assert message in messages(make_table("redis", columns, **given))


def test_the_key_of_redis_is_the_primary_key(make_table):
    table = replace(make_table("redis", "a INT; b INT; v INT", url="redis://h"), primary_key=("a", "b"))
    assert messages(table) == ""
    assert looked_up(table, "b", "a").key.filled({"a": "1", "b": "2"}) == "t:1:2"
    other = replace(table, options=(*table.options, ("key", "x:{a}")))
    assert 'holds other columns than the PRIMARY KEY of table "t"' in messages(other)
    with pytest.raises(ConnectorError, match='SS570: lookup of table "t" has no equality on column "b"'):
        looked_up(table, "a")


def test_addresses_of_redis_are_shown_without_secrets(make_table, monkeypatch):
    monkeypatch.setenv("PW", "hunter2")
    by_url = looked_up(make_table("redis", "k INT", url="rediss://me:${PW}@h:1/3", key="{k}"), "k")
    assert by_url.server.address == "h:1"
    assert by_url.server.url == "rediss://me:hunter2@h:1/3"
    by_host = looked_up(make_table("redis", "k INT", host="::1", database=2, password="${PW}", key="{k}"), "k")
    assert (by_host.server.address, by_host.server.url) == ("::1:6379", "redis://[::1]:6379/2")
    assert by_host.server.settings["password"] == "hunter2"
    assert "hunter2" not in repr(by_url) + repr(by_host)
    monkeypatch.delenv("PW")
    with pytest.raises(ConnectorError, match='SS560: environment variable "PW" of option "password" is not set'):
        looked_up(make_table("redis", "k INT", host="h", password="${PW}", key="{k}"), "k")


# --- http -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "ftp://h/{k}"}, 'SS504: option "url" of table "t" is no URL'),
        ({"url": "http://{k}/"}, 'SS504: option "url" of table "t" is no URL'),
        ({"url": "http://h{k}/"}, 'SS504: option "url" of table "t" is no URL'),
        ({"url": "http://h/a b"}, 'SS504: option "url" of table "t" is no URL'),
        ({"url": "http://h/{kk}"}, 'SS504: option "url" names the column "kk"'),
        ({"url": "http://h/{v}"}, 'SS505: column "v" of type ARRAY<INT> cannot be part of the option "url"'),
        ({"body": "{}"}, 'SS504: option "body" of table "t" is not sent with the method GET'),
        ({"body": "{k", "method": "POST"}, 'SS504: option "body" of table "t" is no JSON'),
        ({"body": '{"a": {x}}', "method": "POST"}, 'SS504: option "body" names the column "x"'),
        ({"batch__url": "http://h/all"}, 'SS504: option "batch.url" of table "t" has no place for the keys'),
        ({"headers__X Y": "1"}, 'SS504: option "headers.X Y" of table "t" is no header'),
        ({"headers__X": "a\nb"}, 'SS504: option "headers.X" of table "t" is no header'),
        ({"auth__username": "me"}, 'SS504: options "auth.username" and "auth.password" need each other'),
        (
            {"auth__username": "me", "auth__password": "p", "auth__token": "t"},
            'SS504: options "auth.token" and "auth.username" exclude each other',
        ),
        ({"status__miss": "404,abc"}, "Accepted: HTTP statuses with commas"),
        ({"status__miss": "99"}, "Accepted: HTTP statuses with commas"),
        ({"columns__x__path": "$"}, 'SS504: option "columns.x.path" names the column "x"'),
        ({"format": "xml"}, 'SS504: value "xml" of option "format"'),
    ],
)
def test_what_is_wrong_with_an_http_table_is_told(make_table, options, message):
    assert message in messages(make_table("http", "k INT; v ARRAY<INT>", **(_HTTP | options)))


@pytest.mark.parametrize("url", ["https://h:8/a?k={k}&b=%20", "${API}/{k}", "http://${HOST}/{k}", "http://h", "${API}"])
def test_urls_are_accepted(make_table, url):
    assert messages(make_table("http", "k INT; v INT", url=url)) == ""


def test_a_variable_that_makes_no_url_is_refused_without_being_shown(make_table, monkeypatch):
    monkeypatch.setenv("API", "hunter 2")
    with pytest.raises(ConnectorError, match='SS504: option "url" is no URL') as error:
        looked_up(make_table("http", "k INT; v INT", url="${API}/{k}"), "k")
    assert "hunter" not in str(error.value)


def test_lookups_over_http_need_the_columns_of_the_request(make_table):
    table = make_table("http", "k INT; v INT; w INT", **_HTTP)
    with pytest.raises(ConnectorError, match='SS570: lookup of table "t" has no equality on column "k"'):
        looked_up(table, "v")
    batched = make_table("http", "k INT; v INT; w INT", batch__url="http://h/?k={keys}", **_HTTP)
    with pytest.raises(ConnectorError, match=r"has \{keys\} for one key column"):
        looked_up(batched, "k", "v")


def test_missing_packages_are_told_with_what_installs_them(make_table, monkeypatch):
    for name, package, options in (("redis", "redis", _REDIS), ("http", "aiohttp", _HTTP)):
        monkeypatch.setattr(f"sqlstream.connectors.{name}.find_spec", lambda _: None)
        table = make_table(name, "k INT; v INT", **options)
        for use in (lambda table=table: looked_up(table, "k"), lambda table=table: _writer(table)):
            with pytest.raises(
                ConnectorError, match=f'SS577: connector "{name}" needs the Python package "{package}"'
            ) as e:
                use()
            assert f"pip install 'sqlstream[{name}]'" in str(e.value)


def _writer(table: Table) -> object:
    return sink_connector(table.connector).batch_writer(_ENVIRONMENT, table)


# --- sinks ----------------------------------------------------------------------------------------------------


def test_tables_that_cannot_be_written_are_refused(make_table):
    reading = make_table("redis", "k INT; v INT", data_type="json", columns__v__path="$.x", **_REDIS)
    with pytest.raises(ConnectorError, match='path" says where to read only'):
        _writer(reading)
    with pytest.raises(ConnectorError, match="sends many rows at once, and its url holds columns of one"):
        _writer(make_table("http", "k INT; v INT", sink__body="array", **_HTTP))


def test_redis_takes_updates_by_primary_key(make_table):
    table = make_table("redis", "k INT; v INT", **_REDIS)
    assert sink_connector("redis").takes_changes(table) == APPEND_ONLY
    assert sink_connector("redis").takes_changes(replace(table, primary_key=("k",))) == UPSERT
    assert sink_connector("http").takes_changes(make_table("http", "k INT", **_HTTP)) == APPEND_ONLY
