"""Delta and Iceberg tables in an object store, with the options of files there; without Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sqlstream.connectors import connector
from sqlstream.connectors.lakes.table import LakeTable
from sqlstream.connectors.lakes.versions import LakeSettings
from sqlstream.errors import SqlStreamError
from sqlstream.planner.catalog import Column, Table
from sqlstream.secrets import shown_value
from sqlstream.types import parse_type
from tests.s3_server import KEY, SECRET, S3Server
from tests.sqlstream.connectors.jobs_of_tables import named
from tests.sqlstream.connectors.lakes import batches_of
from tests.sqlstream.connectors.test_delta_sink import append, writer_of

pytest.importorskip("deltalake", reason="the package deltalake is not installed")
pytest.importorskip("pyiceberg", reason="the package pyiceberg is not installed")

COLUMNS = (Column("id", parse_type("BIGINT")), Column("v", parse_type("STRING")))


def table(kind: str, s3: S3Server, **options: str) -> Table:
    given = named(options)
    return Table("t", COLUMNS, kind, tuple({**given, **s3.options}.items()))


def settings(declared: Table) -> LakeSettings:
    kind = connector(declared.connector)
    assert isinstance(kind, LakeTable)
    assert kind.validate(declared) == ()
    return kind.settings(declared, ("id", "v"))


def test_delta_tables_are_written_and_read(s3_server: S3Server) -> None:
    declared = table("delta", s3_server, path=f"{s3_server.bucket()}/t")
    to = writer_of(declared)
    append(to, 0, (1, "a"), (2, "b"))
    append(to, 1, (3, "c"))
    append(to, 1, (3, "c"))  # a micro-batch that is repeated
    assert [sorted(batch) for batch in batches_of(settings(declared))] == [[(1, "a"), (2, "b"), (3, "c")]]
    assert SECRET not in repr(settings(declared))


def test_rows_of_delta_tables_are_removed_replaced_and_looked_after(s3_server: S3Server, tmp_path: Path) -> None:
    declared = table("delta", s3_server, path=f"{s3_server.bucket()}/t")
    kind = connector("delta")
    assert isinstance(kind, LakeTable)
    to = writer_of(declared)
    append(to, 0, (1, "a"), (2, "b"))
    append(to, 1, (3, "c"))
    kind.compact(declared)
    kind.expire_snapshots(declared, datetime.now(UTC))
    assert [sorted(batch) for batch in batches_of(settings(declared))] == [[(1, "a"), (2, "b"), (3, "c")]]
    append(writer_of(declared, "other", {}), 0, (4, "d"))
    assert batches_of(settings(declared)) == [[(4, "d")]]
    kind.truncate(tmp_path, declared)
    assert batches_of(settings(declared)) in ([], [[]])


def test_options_of_deltalake_win(s3_server: S3Server) -> None:
    given = {"path": "s3a://b/t", "storage.aws_region": "eu-central-1"}
    declared = Table("t", COLUMNS, "delta", tuple((given | s3_server.options).items()))
    storage = settings(declared).storage
    assert (storage["aws_region"], storage["aws_access_key_id"]) == ("eu-central-1", KEY)
    assert storage["aws_allow_http"] == "true"


def test_iceberg_tables_are_written_and_read(s3_server: S3Server, tmp_path: Path) -> None:
    from sqlstream.connectors.lakes.iceberg_tables import prepared

    catalog = {
        "table-name": "shop.t", "catalog.uri": f"sqlite:///{tmp_path / 'catalog.db'}",
        "catalog.warehouse": f"{s3_server.bucket()}/warehouse",
    }  # fmt: skip
    declared = Table("t", COLUMNS, "iceberg", tuple((catalog | s3_server.options).items()))
    kind = connector("iceberg")
    assert isinstance(kind, LakeTable)
    values = kind.resolved_values(declared)
    stored = prepared(declared, values, kind.place(values)[1])
    stored.append(pa.table({"id": pa.array([1, 2], pa.int64()), "v": ["a", "b"]}))
    assert [sorted(batch) for batch in batches_of(settings(declared))] == [[(1, "a"), (2, "b")]]


def test_stores_that_refuse_are_named(s3_server: S3Server) -> None:
    there = table("delta", s3_server, path=f"{s3_server.bucket()}/t")
    append(writer_of(there), 0, (1, "a"))
    with s3_server.refusing_keys(), pytest.raises(SqlStreamError) as denied:
        batches_of(settings(there))
    assert denied.value.code == "SS675"
    assert SECRET not in str(denied.value)
    with pytest.raises(SqlStreamError) as missing:
        batches_of(settings(table("delta", s3_server, path="s3://no-such-bucket/t")))
    assert missing.value.code in ("SS676", "SS545")


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("delta", {"path": "/lake/t", "s3.region": "x"}, 'option "s3.region" is for paths of s3://'),
        ("delta", {"path": "s3://b/t", "s3.access-key-id": "x"},
         'option "s3.access-key-id" needs the option "s3.secret-access-key"'),
        ("iceberg", {"table-name": "a.b", "s3.session-token": "x"},
         'option "s3.session-token" needs the option "s3.access-key-id"'),
    ],
)  # fmt: skip
def test_wrong_options_are_refused(kind: str, options: dict[str, str], message: str) -> None:
    declared = Table("t", COLUMNS, kind, tuple(options.items()))
    assert [d.message for d in connector(kind).validate(declared)] == [message]


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("s3.endpoint", "http://localhost:9000", "http://localhost:9000"),
        ("s3.endpoint", "http://me:hunter2@localhost:9000", "http://******:******@localhost:9000"),
        ("s3.region", "eu-central-1", "eu-central-1"),
        ("s3.access-key-id", KEY, "******"),
        ("s3.secret-access-key", SECRET, "******"),
        ("s3.secret-access-key", "${SECRET}", "${SECRET}"),
        ("s3.session-token", "FwoGZXIvYXdzEPj", "******"),
        ("gcs.oauth2.token", "ya29.a0AfB", "******"),
        ("adls.account-key", "key", "******"),
        ("adls.sas-token", "sas", "******"),
        ("adls.client-secret", "secret", "******"),
    ],
)
def test_secrets_are_not_shown(key: str, value: str, shown: str) -> None:
    actual: Any = shown_value(key, value)
    assert actual == shown
