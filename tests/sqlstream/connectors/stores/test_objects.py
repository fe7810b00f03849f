"""Objects of stores: what is listed, how they are opened, errors, and options as arguments of the libraries."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime

import pytest

from sqlstream.connectors.stores.objects import ObjectStore, azure_arguments, gcs_arguments, s3_arguments
from sqlstream.connectors.stores.options import check_store_options, deltalake_options, pyiceberg_properties
from sqlstream.connectors.stores.stores import store_of
from sqlstream.errors import ConnectorError, SqlStreamError
from sqlstream.formats.file_access import ObjectBytes, ObjectFile
from sqlstream.formats.store_errors import store_error
from tests.s3_server import KEY, SECRET, S3Server


def names(store: ObjectStore, folder: str, pattern: str = "") -> list[str]:
    return sorted(o.url.removeprefix(f"{folder}/") for o in store.listed(f"{folder}/{pattern}" if pattern else folder))


def test_objects_of_folders_and_patterns_are_listed_without_hidden_ones(s3_server: S3Server) -> None:
    bucket, store = s3_server.bucket(), s3_server.store
    odd = "we ird%20#+é/x;y=1.csv"
    for name in ("a.csv", "day=1/b.csv", "day=2/c.txt", "_hidden/d.csv", "day=1/.e.csv", odd, "day=1/deep/f.csv"):
        s3_server.put(f"{bucket}/in/{name}", "1\n")
    every = ["a.csv", "day=1/b.csv", "day=1/deep/f.csv", "day=2/c.txt", odd]
    assert names(store, f"{bucket}/in") == every
    assert names(store, f"{bucket}/in", "day=*") == ["day=1/b.csv", "day=1/deep/f.csv", "day=2/c.txt"]
    assert names(store, f"{bucket}/in", "day=[2-9]/?.*") == ["day=2/c.txt"]
    assert names(store, f"{bucket}/in", "day=[!2]/*.csv") == ["day=1/b.csv"]
    assert names(store, f"{bucket}/in", "**/*.csv") == ["a.csv", "day=1/b.csv", "day=1/deep/f.csv", odd]
    (one,) = store.listed(f"{bucket}/in/a.csv")
    assert (one.url, one.size) == (f"{bucket}/in/a.csv", 2)
    assert abs(datetime.now(UTC).timestamp() - one.modified / 1e6) < 600
    assert store.read(f"{bucket}/in/{odd}") == b"1\n"
    assert store.listed(f"{bucket}/none") == []
    assert (store.exists(f"{bucket}/in"), store.exists(f"{bucket}/none"), store.exists(f"{bucket}/in/*.x")) == (
        True, False, True,
    )  # fmt: skip


def test_objects_are_read_at_any_position_and_not_twice(s3_server: S3Server) -> None:
    bucket, store = s3_server.bucket(), s3_server.store
    data = bytes(range(256)) * 40_000  # three chunks
    s3_server.put(f"{bucket}/x", data)
    with store.opened(f"{bucket}/x") as file:
        file.seek(5_000_000)
        assert file.read(10) == data[5_000_000:5_000_010]
        file.seek(-3, 2)
        assert (file.read(), file.read(5)) == (data[-3:], b"")
    fetched = list[tuple[int, int]]()

    def fetch(start: int, count: int) -> bytes:
        fetched.append((start, count))
        return data[start : start + count]

    content = ObjectBytes(len(data), fetch)
    whole = ObjectFile(content)
    pieces = [whole.read(1 << 20) for _ in range(11)]
    assert b"".join(pieces) == data
    assert len(fetched) == 3
    assert (content[300], content[10:20], content.find(b"\xff\x00\x01", 9_000_000)) == (44, data[10:20], 9_000_191)
    assert content.find(b"none at all", 0) == -1
    with pytest.raises(IndexError):
        content[len(data)]


def test_errors_name_the_store_and_what_to_do(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket, store = s3_server.bucket(), s3_server.store
    s3_server.put(f"{bucket}/x", "1")
    with pytest.raises(ConnectorError) as missing:
        store.listed("s3://no-such-bucket/in")
    first = missing.value.diagnostic
    assert (first.code, first.message) == ("SS676", 'the bucket of "s3://no-such-bucket/in" does not exist')
    assert "Request" not in (first.detail or "")
    with pytest.raises(FileNotFoundError):
        store.opened(f"{bucket}/gone")
    with s3_server.refusing_keys(), pytest.raises(ConnectorError) as denied:
        store.listed(bucket)
    first = denied.value.diagnostic
    assert (first.code, first.message) == ("SS675", f'the object store denies access to "{bucket}"')
    assert "'s3.access-key-id'" in (first.hint or "")
    assert KEY not in str(first)
    nowhere = store_of(
        "s3://b/x", {**s3_server.options, "s3.endpoint": "http://127.0.0.1:9", "s3.connect-timeout": 1.0}
    )
    assert nowhere is not None
    with pytest.raises(ConnectorError, match=r'SS677: the object store of "s3://b/x" does not answer'):
        nowhere.listed("s3://b/x")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("When reading: AWS Error ACCESS_DENIED during HeadObject operation: No response body.", "SS675"),
        ("AWS Error UNKNOWN (HTTP status 403) during GetObject operation", "SS675"),
        ("AWS Error NO_SUCH_BUCKET during ListObjectsV2 operation: gone", "SS676"),
        ("AWS Error NETWORK_CONNECTION during HeadObject operation: curlCode: 28, Timeout was reached", "SS677"),
        ("Permanent error: GetObjectMetadata [PERMISSION_DENIED]", "SS675"),
        ("Azure: ContainerNotFound: The specified container does not exist", "SS676"),
        ("Parquet magic bytes not found in footer", None),
    ],
)
def test_what_libraries_say_has_codes(text: str, code: str | None) -> None:
    error = store_error("s3://b/k", text)
    assert (None if error is None else error.code) == code


def test_options_are_those_of_the_libraries() -> None:
    given = {
        "s3.endpoint": "http://localhost:9000", "s3.region": "eu-central-1", "s3.access-key-id": "k",
        "s3.secret-access-key": "s", "s3.session-token": "t", "s3.anonymous": False, "s3.connect-timeout": 2.5,
    }  # fmt: skip
    assert s3_arguments(given) == {
        "scheme": "http", "endpoint_override": "localhost:9000", "region": "eu-central-1", "access_key": "k",
        "secret_key": "s", "session_token": "t", "anonymous": False, "connect_timeout": 2.5,
    }  # fmt: skip
    assert gcs_arguments({"gcs.oauth2.token": "t", "gcs.oauth2.token-expires-at": 1_700_000_000_000}) == {
        "access_token": "t", "credential_token_expiration": datetime.fromtimestamp(1_700_000_000, UTC),
    }  # fmt: skip
    azure = {"adls.account-key": "a2V5", "adls.blob-storage-authority": "localhost:10000"}
    assert azure_arguments(azure, "data@shop.dfs.core.windows.net") == {
        "account_name": "shop", "account_key": "a2V5", "blob_storage_authority": "localhost:10000",
        "dfs_storage_authority": "localhost:10000",
    }  # fmt: skip
    assert deltalake_options(given) == {
        "aws_endpoint_url": "http://localhost:9000", "aws_allow_http": "true", "aws_region": "eu-central-1",
        "aws_access_key_id": "k", "aws_secret_access_key": "s", "aws_session_token": "t", "connect_timeout": "2.5s",
    }  # fmt: skip
    assert pyiceberg_properties(given)["s3.secret-access-key"] == "s"
    assert "s3.anonymous" not in pyiceberg_properties(given)


def test_clients_of_other_stores_are_made_of_their_options() -> None:
    key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
    azure = store_of("abfss://data@shop.dfs.core.windows.net/in", {"adls.account-key": key})
    google = store_of("gs://bucket/in", {"gcs.anonymous": True})
    assert azure is not None
    assert google is not None
    assert azure.files("abfss://data@shop.dfs.core.windows.net/in").type_name == "abfs"
    assert google.files("gs://bucket/in").type_name == "gcs"
    with pytest.raises(ConnectorError, match=r'SS508: the object store of "abfss://data@" cannot be opened'):
        ObjectStore("abfss").files("abfss://data@/x")


def test_secrets_are_in_no_text_and_reach_the_tasks(s3_server: S3Server) -> None:
    store = s3_server.store
    assert SECRET not in repr(store)
    assert KEY not in repr(store)
    bucket = s3_server.bucket()
    s3_server.put(f"{bucket}/x", "data")
    there = pickle.loads(pickle.dumps(store))
    assert there.read(f"{bucket}/x") == b"data"


def test_keys_of_the_environment_are_taken(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = s3_server.bucket()
    s3_server.put(f"{bucket}/x", "data")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "from-the-environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.url)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    store = store_of(f"{bucket}/x", {})
    assert store is not None
    assert store.read(f"{bucket}/x") == b"data"


def test_options_of_other_stores_and_halves_of_pairs_are_refused() -> None:
    def wrong(path: str, **options: str) -> list[str]:
        given = [(key.replace("__", ".").replace("_", "-"), value) for key, value in options.items()]
        return [d.message for d in check_store_options(given, path, {})]

    assert wrong("/data", s3__region="x") == ['option "s3.region" is for paths of s3://']
    assert wrong("s3a://b/x", s3__region="x") == ['option "s3.region" is for paths of s3://']
    assert wrong("s3://b/x", adls__account_name="x") == ['option "adls.account-name" is for paths of abfss://']
    assert wrong("s3://b/x", s3__access_key_id="x") == [
        'option "s3.access-key-id" needs the option "s3.secret-access-key"'
    ]
    assert wrong("s3://b/x", s3__region="x") == []


def test_a_torn_object_is_named(s3_server: S3Server) -> None:
    from sqlstream.udfs.files.columnar import ColumnarFiles

    bucket = s3_server.bucket()
    s3_server.put(f"{bucket}/x.parquet", b"PAR1 and no end")
    files = ColumnarFiles("parquet", (), access=s3_server.store)
    with pytest.raises(SqlStreamError, match=rf'SS528: file "{bucket}/x.parquet" cannot be read'):
        [*files.batches(f"{bucket}/x.parquet")]
    with pytest.raises(SqlStreamError, match=rf'SS529: file "{bucket}/y.parquet" was listed, and is gone'):
        [*files.batches(f"{bucket}/y.parquet")]
