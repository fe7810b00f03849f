"""Queries and jobs over files in an object store: finished data, streams that go on, sinks that write once."""

from __future__ import annotations

import gzip
import json
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from sqlstream.connectors.stores.epochs import LOG
from sqlstream.errors import SqlStreamError
from sqlstream.jobs import Job
from sqlstream.session import Session
from tests.s3_server import KEY, SECRET, S3Server
from tests.sqlstream.connectors.jobs_of_tables import declare, rows, started

pytestmark = pytest.mark.spark


def create(
    session: Session, s3: S3Server, name: str, path: str, form: str, columns: str = "id BIGINT, word STRING",
    **options: str,
) -> None:  # fmt: skip
    given = {"connector": "filesystem", "path": path, "format": form, **s3.options}
    declare(session, name, columns, given, **options)


@contextmanager
def running(session: Session, insert: str) -> Iterator[Job]:
    job = started(session, insert)
    try:
        yield job
    finally:
        job.stop()


def lines(*ids: int) -> str:
    return "".join(json.dumps({"id": n, "word": f"w{n % 3}"}) + "\n" for n in ids)


@pytest.mark.long
def test_finished_data_lookups_and_what_is_shown(session: Session, s3_server: S3Server) -> None:
    bucket = s3_server.bucket()
    for day in (1, 2):
        table = pa.table(
            {"id": pa.array(range(day * 100), pa.int64()), "word": [f"w{n % 3}" for n in range(day * 100)]}
        )
        pq.write_table(table, f"{bucket[5:]}/facts/day={day}/a.parquet", filesystem=s3_server.files)
    s3_server.put(f"{bucket}/words/x.json.gz", gzip.compress(b'{"word": "w1", "text": "one"}\n'))
    create(session, s3_server, "facts", f"{bucket}/facts", "parquet", "id BIGINT, word STRING, day INT, "
           "`file.name` STRING METADATA", partition_by="day")  # fmt: skip
    create(session, s3_server, "words", f"{bucket}/words", "json", "word STRING, text STRING")
    query = "SELECT day, COUNT(*), SUM(id), MAX(`file.name`) FROM facts GROUP BY day"
    assert rows(session, query) == [(1, 100, 4950, "a.parquet"), (2, 200, 19900, "a.parquet")]
    joined = "SELECT f.id, w.text FROM facts AS f JOIN words AS w ON f.word = w.word WHERE f.id < 5"
    assert rows(session, joined) == [(1, "one"), (1, "one"), (4, "one"), (4, "one")]
    session.sql("SET 'execution.runtime-mode' = 'streaming'")
    counted = "SELECT word, COUNT(*) AS n FROM facts GROUP BY word"
    assert {("w0", 101), ("w1", 100), ("w2", 99)} <= {tuple(row)[-2:] for row in session.sql(counted)}  # type: ignore[union-attr]
    looked_up = (
        "SELECT f.id, w.text FROM (SELECT id, word, PROCTIME() AS pt FROM facts WHERE id < 5) AS f "
        "JOIN words FOR SYSTEM_TIME AS OF f.pt AS w ON f.word = w.word"
    )
    assert rows(session, looked_up) == [(1, "one"), (1, "one"), (4, "one"), (4, "one")]
    shown = [str([*map(tuple, session.sql(s))]) for s in ("SHOW CREATE TABLE facts", f"EXPLAIN PHYSICAL {counted}")]  # type: ignore[arg-type]
    assert s3_server.url in shown[0]
    for text in shown:
        assert SECRET not in text
        assert KEY not in text


def test_a_stream_goes_on_and_writes_each_row_once(session: Session, s3_server: S3Server, tmp_path: Path) -> None:
    """A micro-batch whose commit is lost is written again; what it had left is removed."""
    bucket = s3_server.bucket()
    s3_server.put(f"{bucket}/in/a.json", lines(*range(200)))
    create(session, s3_server, "source", f"{bucket}/in", "json", source__monitor_interval="1 s",
           source__max_bytes_per_trigger="2 kb")  # fmt: skip
    create(session, s3_server, "target", f"{bucket}/out", "parquet", partition_by="word")
    session.sql(f"SET 'execution.checkpointing.dir' = '{tmp_path / 'checkpoints'}'")
    session.sql("SET 'pipeline.name' = 'copy'; SET 'metrics.prometheus.port' = '0'")
    insert = "INSERT INTO target SELECT id, word FROM source"

    def ids_of(urls: list[str], client: fs.S3FileSystem = s3_server.files) -> list[int]:
        files = (pq.read_table(url[5:], filesystem=client)["id"].to_pylist() for url in urls)
        return [n for ids in files for n in ids]

    def written() -> list[int]:
        """What readers see that know the log."""
        return ids_of([o.url for o in s3_server.store.listed(f"{bucket}/out")])

    def until(count: int, job: Job) -> None:
        end = time.monotonic() + 240
        while len(ids := written()) < count:
            assert time.monotonic() < end, (len(ids), job.progress())
            assert not job.wait(0.5), "a stream never ends"
        assert sorted(ids) == [*range(count)]

    with running(session, insert) as job:
        until(200, job)
        assert job.progress().batches > 1
    with urllib.request.urlopen(f"{session.open_metrics()}/metrics") as answer:
        (sent,) = (line for line in answer.read().decode().splitlines() if line.startswith("sqlstream_sink_io_bytes_t"))
    assert float(sent.split()[-1]) == sum(stored.size for stored in s3_server.store.listed(f"{bucket}/out"))
    assert any("word=w1/part-000000001-" in key for key in s3_server.keys(f"{bucket}/out"))
    # What a kill leaves: objects of the last micro-batch, no entry of it, and no commit of Spark.
    entries = [key for key in s3_server.keys(f"{bucket}/out") if key.startswith(LOG)]
    s3_server.store.remove(f"{bucket}/out/{entries[-1]}")
    commits = tmp_path / "checkpoints" / "copy" / "spark" / "commits"
    last = max(commits.glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
    assert len(written()) < 200
    s3_server.put(f"{bucket}/in/b.json", lines(*range(200, 300)))
    with running(session, insert) as job:
        until(300, job)
    every = [f"{bucket}/out/{key}" for key in s3_server.keys(f"{bucket}/out") if not key.startswith(LOG)]
    assert sorted(ids_of(every)) == [*range(300)], "readers without the log see the same rows"
    create(session, s3_server, "copy", f"{bucket}/out", "parquet", partition_by="word")
    assert rows(session, "SELECT word, COUNT(*) FROM copy GROUP BY word") == [("w0", 100), ("w1", 100), ("w2", 100)]
    session.sql("SET 'pipeline.name' = 'other'")
    with pytest.raises(SqlStreamError, match=rf'SS508: path "{bucket}/out" of table "target" is not an empty folder'):
        started(session, insert).wait(60)


@pytest.mark.parametrize("form", ["csv", "json", "avro"])
def test_finished_rows_are_written_and_read_back(
    session: Session, s3_server: S3Server, tmp_path: Path, form: str
) -> None:
    bucket = s3_server.bucket()
    header = {"csv__header": "true"} if form == "csv" else {}
    create(session, s3_server, "target", f"{bucket}/out", form, "id BIGINT, word STRING, at TIMESTAMP", **header)
    values = "(1, 'a,\"b\"', TIMESTAMP '2024-01-31 12:00:00.123'), (2, NULL, NULL), (3, 'é', NULL)"
    assert started(session, f"INSERT INTO target VALUES {values}").wait(60)
    read = rows(session, "SELECT id, word, CAST(at AS STRING) FROM target")
    assert read == [(1, 'a,"b"', "2024-01-31 12:00:00.123"), (2, None, None), (3, "é", None)]


def test_errors_of_the_store_are_named_when_a_job_starts(session: Session, s3_server: S3Server) -> None:
    bucket = s3_server.bucket()
    create(session, s3_server, "missing", f"{bucket}/none", "json")
    create(session, s3_server, "elsewhere", "s3://no-such-bucket/x", "json")
    with pytest.raises(SqlStreamError, match=rf'SS508: path "{bucket}/none" of table "missing" does not exist'):
        rows(session, "SELECT * FROM missing")
    with pytest.raises(SqlStreamError, match=r"SS676: the bucket of"):
        rows(session, "SELECT * FROM elsewhere")
    s3_server.put(f"{bucket}/in/x.json", lines(1))
    create(session, s3_server, "there", f"{bucket}/in", "json")
    with s3_server.refusing_keys(), pytest.raises(SqlStreamError, match=r"SS675: the object store denies access"):
        rows(session, "SELECT * FROM there")


@pytest.mark.parametrize(
    ("scheme", "what"),
    [
        ("s3", "Write s3a://… in place of s3://…, and bring its jar: org.apache.hadoop:hadoop-aws"),
        ("s3a", "Bring its jar: org.apache.hadoop:hadoop-aws"),
        ("gs", "Bring its jar: com.google.cloud.bigdataoss:gcs-connector"),
    ],
)
def test_checkpoints_in_stores_are_written_by_spark(
    session: Session, s3_server: S3Server, scheme: str, what: str
) -> None:
    """Which must know the store itself; where it does not, the job says so before it starts."""
    bucket = s3_server.bucket()
    s3_server.put(f"{bucket}/in/a.json", lines(1))
    create(session, s3_server, "source", f"{bucket}/in", "json")
    create(session, s3_server, "target", f"{bucket}/out", "json")
    session.sql(f"SET 'execution.checkpointing.dir' = '{scheme}://bucket/checkpoints'")
    with pytest.raises(SqlStreamError) as raised:
        started(session, "INSERT INTO target SELECT id, word FROM source").wait(60)
    assert str(raised.value).splitlines()[0] == (
        f'SS688: Spark does not know the file system of the checkpoint "{scheme}://bucket/checkpoints/insert-into-target"'
    )
    assert raised.value.diagnostic.hint == (
        f"{what}, with 'spark.jars.packages' when the session starts; or take a directory that all machines mount."
    )
    assert s3_server.keys(f"{bucket}/out") == []
