"""Delta and Iceberg tables in an object store, with the options of files there; without Spark."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sqlstream.connectors import connector
from sqlstream.connectors.lakes.table import LakeTable
from sqlstream.connectors.lakes.versions import LakeSettings
from sqlstream.errors import SqlStreamError
from sqlstream.planner.catalog import Column, Table
from sqlstream.secrets import shown_value
from sqlstream.session import Session
from sqlstream.types import parse_type
from tests.s3_server import KEY, SECRET, S3Server
from tests.sqlstream.connectors import delta_tables
from tests.sqlstream.connectors.jobs_of_tables import declare, named, rows
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


# --- files in other stores than the table -------------------------------------------------------------------------


def parquet(**columns: Any) -> bytes:
    to = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), to)
    return bytes(to.getvalue().to_pybytes())


def delta_with_files(s3: S3Server, tmp_path: Path, path: str) -> tuple[Table, str]:
    """A table with a file of its own, and two with the same path in it in another bucket and below a folder there, of
    which one has a deleted row.
    """
    other, own = s3.bucket(), tmp_path / "own"
    name = "a b%ü.parquet"
    adds = [delta_tables.added(own, name, pa.table({"id": [1, 2], "v": ["own", "own"]}))]
    adds[0]["add"]["path"] = quote(name)
    for number, url in enumerate((f"{other}/{name}", f"{other}/t/{name}")):
        data = parquet(id=[10 + number, 20 + number], v=["other", "other"])
        s3.put(url, data)
        adds.append(
            {"add": {**adds[0]["add"], "path": f"{other}/{quote(url.removeprefix(f'{other}/'))}", "size": len(data)}}
        )
    adds[2]["add"]["deletionVector"] = delta_tables.deletion_vector([1])
    log = [
        delta_tables.protocol("deletionVectors"),
        delta_tables.metadata([delta_tables.field("id", "long"), delta_tables.field("v", "string")]), *adds,
    ]  # fmt: skip
    delta_tables.commit(own, 0, *log)
    if "://" in path:
        for file in (f for f in own.rglob("*") if f.is_file()):
            s3.put(f"{path}/{file.relative_to(own)}", file.read_bytes())
    return table("delta", s3, path=path), other


def test_files_of_delta_tables_may_be_in_other_buckets(s3_server: S3Server, tmp_path: Path) -> None:
    declared, _ = delta_with_files(s3_server, tmp_path, f"{s3_server.bucket()}/t")
    expected = [(1, "own"), (2, "own"), (10, "other"), (11, "other"), (20, "other")]
    assert [sorted(batch) for batch in batches_of(settings(declared))] == [expected]
    stream = replace(settings(declared), bounded=False, start="earliest")
    assert [sorted(batch) for batch in batches_of(stream)] == [expected]


@pytest.mark.spark
def test_tables_on_this_machine_may_have_files_in_stores(session: Session, s3_server: S3Server, tmp_path: Path) -> None:
    """Exchanges, which read files themselves, open them as well."""
    own = tmp_path / "own"
    there, _ = delta_with_files(s3_server, tmp_path, str(own))
    storage = {"aws_endpoint": s3_server.url, "aws_region": "us-east-1", "aws_allow_http": "true",
               "aws_access_key_id": KEY, "aws_secret_access_key": SECRET}  # fmt: skip
    declared = replace(there, options=(("path", str(own)), *((f"storage.{k}", v) for k, v in storage.items())))
    expected = [(1, "own"), (2, "own"), (10, "other"), (11, "other"), (20, "other")]
    assert [sorted(batch) for batch in batches_of(settings(declared))] == [expected]
    given = {"connector": "delta", **dict(declared.options)}
    declare(session, "t", "id BIGINT, v STRING", given)
    assert rows(session, "SELECT v, SUM(id) FROM t GROUP BY v") == [("other", 41), ("own", 3)]


def test_files_of_iceberg_tables_may_be_in_other_buckets(s3_server: S3Server, tmp_path: Path) -> None:
    """A local warehouse, whose table has its metadata in one bucket and its files in two others."""
    from sqlstream.connectors.lakes.iceberg_columns import catalog_of

    catalog = {
        "table-name": "shop.t", "catalog.uri": f"sqlite:///{tmp_path / 'catalog.db'}",
        "catalog.warehouse": f"file://{tmp_path}/warehouse",
    }  # fmt: skip
    declared = Table("t", COLUMNS, "iceberg", tuple((catalog | s3_server.options).items()))
    kind: Any = connector("iceberg")
    of_library = catalog_of(kind.place(kind.resolved_values(declared))[1])
    of_library.create_namespace("shop")
    schema = pa.schema([("id", pa.int64()), ("v", pa.string())])
    made = of_library.create_table("shop.t", schema, location=f"{s3_server.bucket()}/t")
    for number in range(2):
        with made.transaction() as transaction:
            transaction.set_properties({"write.data.path": f"{s3_server.bucket()}/data {number}"})
        made.append(pa.table({"id": pa.array([number], pa.int64()), "v": ["x"]}, schema))
    assert [sorted(batch) for batch in batches_of(settings(declared))] == [[(0, "x"), (1, "x")]]
    files = [task.file.file_path for task in made.scan().plan_files()]
    opened = [kind.record_format(None, declared, ("id",)).stored(path) for path in files]
    assert sorted(pq.read_table(file)["id"].to_pylist() for file in opened) == [[0], [1]]


def test_files_that_other_stores_refuse_are_named(s3_server: S3Server, tmp_path: Path) -> None:
    declared, other = delta_with_files(s3_server, tmp_path, f"{s3_server.bucket()}/t")
    s3_server.files.delete_file(f"{other.removeprefix('s3://')}/t/a b%ü.parquet")
    with pytest.raises(SqlStreamError, match=f"SS529.*{other}/t/a b%ü.parquet") as raised:
        batches_of(settings(declared))
    assert "VACUUM" in str(raised.value)


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
