"""Delta tables of a Unity catalog, whose REST API a server of these tests speaks."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from aiohttp import web

from sqlstream.catalogs.kinds import mounted
from sqlstream.catalogs.store import Bound
from sqlstream.connectors import connector
from sqlstream.connectors.lakes import unity
from sqlstream.connectors.lakes.delta_log import DeltaLog
from sqlstream.connectors.lakes.unity import found_place
from sqlstream.connectors.lakes.versions import LakeSettings
from sqlstream.errors import ConnectorError, SqlStreamError
from sqlstream.planner.catalog import Table
from tests.server_places import free_port
from tests.sqlstream.connectors.lakes import batches_of, together
from tests.sqlstream.connectors.test_delta_sink import append, stored, upsert, writer_of
from tests.web_server import serving

deltalake: Any = pytest.importorskip("deltalake", reason="the package deltalake is not installed")

_ROOT = "/api/2.1/unity-catalog"
COLUMNS = (("id", "BIGINT"), ("v", "STRING"))


@dataclass
class Unity:
    """What the server knows: where each table of the schema ``sales`` in the catalog ``main`` is. ``answers``: the next
    ones, as states of HTTP, instead of those that it would give. ``keys``: to stores, of which each answer has others.
    """

    folder: Path
    url: str = ""
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    keys: list[dict[str, Any]] = field(default_factory=list)
    reads_only: bool = False

    def add(self, name: str, place: str | None, kind: str = "DELTA") -> None:
        self.tables[name] = {
            "name": name, "catalog_name": "main", "schema_name": "sales", "data_source_format": kind,
            "table_type": "EXTERNAL", "storage_location": place, "table_id": f"id-{name}", "columns": [],
        }  # fmt: skip

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(f"{request.method} {request.path_qs.removeprefix(_ROOT)}")
        if self.answers:
            return web.json_response({"message": "not now"}, status=self.answers.pop(0))
        if request.headers.get("Authorization") != "Bearer the token":
            return web.json_response({"error_code": "UNAUTHENTICATED", "message": "who are you"}, status=401)
        match request.path.removeprefix(_ROOT).split("/")[1:]:
            case ["schemas"]:  # in two pages
                first = "page_token" not in request.query
                page = [{"name": "sales"}] if first else [{"name": "empty"}]
                return web.json_response({"schemas": page, "next_page_token": "more" if first else ""})
            case ["tables"]:
                found = list(self.tables.values()) if request.query["schema_name"] == "sales" else []
                return web.json_response({"tables": found})
            case ["tables", name] if name.startswith("main.sales.") and name[11:] in self.tables:
                return web.json_response(self.tables[name[11:]])
            case ["temporary-table-credentials"]:
                body = json.loads(await request.read())
                self.asked[-1] += f" {body['table_id']} {body['operation']}"
                if self.reads_only and body["operation"] == "READ_WRITE":
                    return web.json_response({"message": "you may not write"}, status=403)
                return web.json_response(self.keys.pop(0))
        return web.json_response({"error_code": "NOT_FOUND", "message": "there is none"}, status=404)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Unity]:
    monkeypatch.setattr(unity, "_known", {})
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    known = Unity(tmp_path)
    with serving(known.answer) as port:
        known.url = f"http://127.0.0.1:{port}"
        yield known


def opened(server: Unity, **more: str) -> Any:
    options = {"type": "delta", "catalog-type": "unity", "uri": server.url, "warehouse": "main",
               "catalog.token": "${UNITY_TOKEN}", **more}  # fmt: skip
    return mounted("u", options, {}, None)


def table_of(store: Any, name: str) -> Table:
    entry = store.entry("SALES", "relation", name)
    assert isinstance(entry, Bound)
    assert isinstance(entry.item, Table)
    return entry.item


def settings(server: Unity, name: str, **more: Any) -> LakeSettings:
    storage = {unity.WORKSPACE: server.url, unity.TOKEN: "the token"}
    return LakeSettings("delta", "t", f"uc://main.sales.{name}", storage, COLUMNS, **more)


@pytest.fixture
def orders(server: Unity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table on this machine, which has two rows."""
    monkeypatch.setenv("UNITY_TOKEN", "the token")
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "v": ["a", "b"]})
    deltalake.write_deltalake(tmp_path / "somewhere/orders", rows, partition_by=["v"])
    server.add("orders", f"file://{tmp_path}/somewhere/orders")
    server.add("texts", f"file://{tmp_path}/texts", "CSV")
    return tmp_path / "somewhere/orders"


def test_its_schemas_are_databases(server: Unity, orders: Path) -> None:
    store = opened(server)
    assert [database.name for database in store.databases()] == ["sales", "empty"]
    assert store.names("sales", "relation") == ["orders"]
    assert store.names("Empty", "relation") == []
    table = table_of(store, "ORDERS")
    assert [(c.name, c.type.ddl()) for c in table.columns] == [*COLUMNS]
    assert table.options == (
        ("path", "uc://main.sales.orders"), ("storage.unity_workspace_url", server.url),
        ("storage.unity_access_token", "${UNITY_TOKEN}"), ("partition-by", "v"),
    )  # fmt: skip
    assert "the token" not in repr(store)


def test_tables_are_read_and_written(server: Unity, orders: Path) -> None:
    kind: Any = connector("delta")
    table = table_of(opened(server), "orders")
    assert not kind.is_local(table)  # an exchange does not know how to open its files
    append(writer_of(table), 0, (3, "c"))
    upsert(writer_of(Table("t", table.columns, "delta", table.options, primary_key=("id",)), "u"), 0, (1, "A", "+U"))
    assert stored(orders) == [(1, "A"), (2, "b"), (3, "c")]
    assert sorted(together(batches_of(settings(server, "orders")))) == [(1, "A"), (2, "b"), (3, "c")]
    assert sorted(together(batches_of(settings(server, "orders", as_of=0)))) == [(1, "a"), (2, "b")]
    kind.compact(table)


def test_keys_are_asked_for_again_before_they_expire(server: Unity, monkeypatch: pytest.MonkeyPatch) -> None:
    server.add("far", "s3://bucket/far")
    server.reads_only = True
    now = time.time()
    for number, seconds in enumerate((3600, 310)):
        keys = {"access_key_id": f"k{number}", "secret_access_key": "s", "session_token": "t"}
        server.keys.append({"aws_temp_credentials": keys, "expiration_time": (now + seconds) * 1000})
    own = settings(server, "far").storage
    place = found_place("uc://main.sales.far", {**own, "aws_region": "eu-west-1"})
    assert place == ("s3://bucket/far", {
        "aws_access_key_id": "k0", "aws_secret_access_key": "s", "aws_session_token": "t", "aws_region": "eu-west-1",
    })  # fmt: skip
    assert server.asked[-2:] == [
        "POST /temporary-table-credentials id-far READ_WRITE", "POST /temporary-table-credentials id-far READ",
    ]  # fmt: skip
    asked = len(server.asked)
    assert found_place("uc://main.sales.far", own)[1]["aws_access_key_id"] == "k0"
    assert len(server.asked) == asked
    monkeypatch.setattr(time, "time", lambda: now + 3400)
    assert found_place("uc://main.sales.far", own)[1]["aws_access_key_id"] == "k1"


def test_a_stream_goes_on_with_other_keys(server: Unity, orders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = DeltaLog(settings(server, "orders", bounded=False))
    before = log._table
    assert log.newest() == 0
    assert log._table is before
    monkeypatch.setattr(unity, "_asked", lambda *_: (time.time() + 99, f"file://{orders}", {"timeout": "30s"}))
    monkeypatch.setattr(unity, "_known", {})
    deltalake.write_deltalake(orders, pa.table({"id": pa.array([3], pa.int64()), "v": ["c"]}), mode="append")
    assert log.newest() == 1
    assert log._table is not before


def test_an_answer_is_asked_for_again_while_it_may_come(server: Unity, orders: Path) -> None:
    server.answers = [503, 429]
    assert opened(server).names("sales", "relation") == ["orders"]
    assert len(server.asked) == 5  # the schemas, which have two pages, and the tables
    server.answers = [500, 500, 500]
    with pytest.raises(ConnectorError, match=r"SS677: the Unity catalog at .* does not answer\nDETAIL: not now."):
        opened(server).databases()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none", r"SS545: the Unity catalog at \"http://127.0.0.1:\d+\" has no such thing\nDETAIL: there is none."),
        ("texts", "SS547: table \"main.sales.texts\" of a Unity catalog has the format CSV, not DELTA"),
        ("view", "SS547: table \"main.sales.view\" of a Unity catalog has no place"),
        ("google", "SS547: the keys that a Unity catalog gives to table \"main.sales.google\" are tokens of Google"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named(server: Unity, orders: Path, name: str, message: str) -> None:
    server.add("view", None)
    server.add("google", "gs://bucket/t")
    server.keys = [{"gcp_oauth_token": {"oauth_token": "t"}, "expiration_time": 0}]
    with pytest.raises(ConnectorError, match=message):
        batches_of(settings(server, name))


def test_servers_that_refuse_or_do_not_answer_are_named(server: Unity, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNITY_TOKEN", "another")
    with pytest.raises(
        ConnectorError, match=r"SS675: the Unity catalog at .* refuses the request\nDETAIL: who are you"
    ):
        opened(server).databases()
    server.url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(ConnectorError, match=r"SS677: the Unity catalog at .* does not answer"):
        opened(server).databases()
    with pytest.raises(ConnectorError, match=r"SS545: \"uc://main.t\" is no table of a Unity catalog"):
        found_place("uc://main.t", {unity.WORKSPACE: server.url})


def test_nothing_is_made_in_it(server: Unity, orders: Path) -> None:
    store = opened(server)
    for change in (
        lambda: store.put("sales", "relation", Bound(Table("new", (), "delta")), new=True),
        lambda: store.remove("sales", "relation", "orders"),
        lambda: store.drop_database("sales"),
    ):
        with pytest.raises(
            SqlStreamError, match=r"SS246: the catalog of a lake (makes|removes) no (tables|schemas) in Unity"
        ):
            change()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "'catalog-type' = 'folder' need the option \"path\""),
        ({"path": "x", "uri": "http://x"}, "'catalog-type' = 'folder' have no option \"uri\""),
        ({"catalog-type": "unity", "uri": "http://x"}, "'catalog-type' = 'unity' need the option \"warehouse\""),
        ({"catalog-type": "unity", "uri": "u", "warehouse": "w", "path": "x"}, "have no option \"path\""),
        ({"catalog-type": "glue", "path": "x"}, "Accepted: one of 'folder', 'unity'"),
    ],
)  # fmt: skip
def test_options_belong_to_a_kind_of_catalog(options: dict[str, str], message: str) -> None:
    with pytest.raises(SqlStreamError, match=message):
        mounted("u", {"type": "delta", **options}, {}, None)
