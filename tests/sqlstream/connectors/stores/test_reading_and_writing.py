"""Readers and writers of every format over objects: as over files of this machine, in shares and in ranges."""

from __future__ import annotations

import asyncio
import bz2
import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import ipc, orc

from sqlstream.connectors import Environment, lookup_connector
from sqlstream.connectors.files.filesystem import FileSystem
from sqlstream.connectors.files.ranges import FileRanges, Limits
from sqlstream.connectors.on_spark.record_files import record_format
from sqlstream.connectors.stores.epochs import INTERVAL, LOG, EpochLog, logged, object_name
from sqlstream.connectors.stores.objects import ObjectStore
from sqlstream.connectors.stores.paths import StoredObject
from sqlstream.errors import SqlStreamError
from sqlstream.formats.avro_encoder import AvroWriter
from sqlstream.planner.catalog import Column, Table
from sqlstream.types import parse_type
from sqlstream.udfs.files.records import RecordFormat, RecordRows
from sqlstream.udfs.files.splits import BEGIN, END, FILE, LENGTH, MODIFIED, SHARE, SHARES
from sqlstream.udfs.files.written import (
    ArrowOutput,
    AvroOutput,
    FileOutput,
    LineOutput,
    OrcOutput,
    ParquetOutput,
    WrittenFiles,
)
from sqlstream.udfs.lookup.source import Request
from sqlstream.udfs.lookup.sources.files import FileSource
from tests.s3_server import S3Server
from tests.sqlstream.connectors.jobs_of_tables import named

KINDS = (("id", parse_type("BIGINT")), ("word", parse_type("STRING")))
ROWS = [{"id": n, "word": f'wört {n}, "q"'} for n in range(500)]
SPARK: Any = SimpleNamespace(conf={"spark.sql.session.timeZone": "UTC"})


def as_file(form: str, rows: list[dict[str, Any]], path: Path) -> bytes:
    table = pa.table({"id": pa.array([r["id"] for r in rows], pa.int64()), "word": [r["word"] for r in rows]})
    match form:
        case "json":
            return "".join(json.dumps(row) + "\n" for row in rows).encode()
        case "csv":
            quoted = ((row["id"], row["word"].replace('"', '""')) for row in rows)
            return "".join(f'{id_},"{word}"\n' for id_, word in quoted).encode()
        case "parquet":
            pq.write_table(table, path, row_group_size=100)
        case "orc":
            orc.write_table(table, path)
        case "arrow":
            with ipc.new_file(path, table.schema) as writer:
                writer.write_table(table, 100)
        case "avro":
            with path.open("wb") as file:
                for batch in table.to_batches(100):
                    writer = AvroWriter(file, KINDS, "deflate", legacy=False)
                    writer.write(batch)
                    writer.close()
                    break
    return path.read_bytes()


def table_at(path: str, form: str, s3: S3Server | None, **options: str) -> Table:
    given = {"path": path, "format": form} | (s3.options if s3 else {})
    given |= named(options)
    return Table("t", tuple(Column(name, kind) for name, kind in KINDS), "filesystem", tuple(given.items()))


def format_of(table: Table) -> RecordFormat:
    values = FileSystem().values(table)
    form = record_format(Environment(SPARK, Path("session")), table, ("id", "word"), values)
    assert form is not None
    return form


def read(form: RecordFormat, places: list[dict[str, Any]]) -> list[dict[str, Any]]:
    reader = RecordRows(form.schema, {}, form)
    given = pa.RecordBatch.from_pylist(places)
    return [row for batch in reader.rows([given]) for row in batch.to_pylist()]


def in_shares(store: ObjectStore, form: RecordFormat, path: str, shares: int) -> list[list[dict[str, Any]]]:
    listed = [{FILE: o.url, LENGTH: o.size, MODIFIED: o.modified, SHARES: shares} for o in store.listed(path)]
    return [read(form, [{**place, SHARE: share} for place in listed]) for share in range(shares)]


@pytest.mark.parametrize("form", ["json", "csv", "parquet", "orc", "arrow", "avro"])
def test_tasks_share_objects_of_each_format(s3_server: S3Server, tmp_path: Path, form: str) -> None:
    rows = ROWS[:100] if form == "avro" else ROWS
    bucket, data = s3_server.bucket(), as_file(form, rows, tmp_path / "x")
    s3_server.put(f"{bucket}/in/x.{form}", data)
    shares = in_shares(s3_server.store, format_of(table_at(f"{bucket}/in", form, s3_server)), f"{bucket}/in", 3)
    assert [row for share in shares for row in share] == rows
    if form in ("json", "csv", "parquet"):
        assert all(shares)


def test_all_objects_of_a_folder_are_removed(s3_server: S3Server, tmp_path: Path) -> None:
    """With the log of a sink, and without those of other folders."""
    bucket = s3_server.bucket()
    for name in ("t/a.json", "t/day=1/b.json", f"t/{LOG}/000000000000.json", "t2/a.json", "a.json"):
        s3_server.put(f"{bucket}/{name}", b"{}")
    kind = FileSystem()
    kind.truncate(tmp_path, table_at(f"{bucket}/t/", "json", s3_server))
    assert sorted(s3_server.keys(bucket)) == ["a.json", "t2/a.json"]
    kind.truncate(tmp_path, table_at(f"{bucket}/none", "json", s3_server))
    for path in (f"{bucket}/a.json", f"{bucket}/*.json"):
        with pytest.raises(SqlStreamError, match=r"SS508: path .* is no folder"):
            kind.truncate(tmp_path, table_at(path, "json", s3_server))


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".zst", ".deflate"])
def test_packed_text_is_unpacked(s3_server: S3Server, suffix: str) -> None:
    bucket, data = s3_server.bucket(), as_file("json", ROWS, Path("unused"))
    packers: dict[str, Callable[[bytes], bytes]] = {
        ".gz": gzip.compress,
        ".bz2": bz2.compress,
        ".zst": lambda text: pa.Codec("zstd").compress(text, asbytes=True),
        ".deflate": zlib.compress,
    }
    s3_server.put(f"{bucket}/in/x.json{suffix}", packers[suffix](data))
    first, second = in_shares(
        s3_server.store, format_of(table_at(f"{bucket}/in", "json", s3_server)), f"{bucket}/in", 2
    )
    assert [*first, *second] == ROWS
    assert not second


def test_other_encodings_headers_and_bad_records(s3_server: S3Server) -> None:
    bucket = s3_server.bucket()
    s3_server.put(f"{bucket}/latin/x.csv", "id;word\n1;é\n".encode("latin-1"))
    options = {"encoding": "ISO-8859-1", "csv__header": "true", "csv__field_delimiter": ";"}
    latin = format_of(table_at(f"{bucket}/latin", "csv", s3_server, **options))
    assert in_shares(s3_server.store, latin, f"{bucket}/latin", 1) == [[{"id": 1, "word": "é"}]]
    s3_server.put(f"{bucket}/bad/x.json", '{"id": 1}\n{"id": "x"}\n')
    bad = format_of(table_at(f"{bucket}/bad", "json", s3_server))
    with pytest.raises(SqlStreamError, match=rf'SS402.* in line 2 of file "{bucket}/bad/x.json"'):
        in_shares(s3_server.store, bad, f"{bucket}/bad", 1)
    pq.write_table(pa.table({"id": ["x"], "word": ["y"]}), f"{bucket[5:]}/types/x.parquet", filesystem=s3_server.files)
    wrong = format_of(table_at(f"{bucket}/types", "parquet", s3_server))
    with pytest.raises(SqlStreamError, match=rf'SS467.*"{bucket}/types/x.parquet"'):
        in_shares(s3_server.store, wrong, f"{bucket}/types", 1)


def test_objects_that_are_gone_or_cut(s3_server: S3Server) -> None:
    bucket = s3_server.bucket()
    s3_server.put(f"{bucket}/x.json", '{"id": 1}\n')
    places = [{FILE: f"{bucket}/{name}.json", LENGTH: 10, MODIFIED: 1, SHARE: 0, SHARES: 1} for name in "xy"]
    with pytest.raises(SqlStreamError, match=rf'SS529: file "{bucket}/y.json" was listed, and is gone'):
        read(format_of(table_at(bucket, "json", s3_server)), places)
    skipping = format_of(table_at(bucket, "json", s3_server, source__missing_files="skip"))
    assert read(skipping, places) == [{"id": 1, "word": None}]
    ranges = [{**places[0], LENGTH: 100, BEGIN: 0, END: 5}]
    with pytest.raises(SqlStreamError, match=r"SS531.*was cut from 100 to 10 bytes"):
        read(skipping, ranges)


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_ranges_of_objects_are_read_once_and_new_objects_are_found(
    s3_server: S3Server, tmp_path: Path, form: str
) -> None:
    bucket = s3_server.bucket()

    def put(name: str, rows: list[dict[str, Any]]) -> None:
        s3_server.put(f"{bucket}/in/day=1/{name}.{form}", as_file(form, rows, tmp_path / "x"))

    def ranges() -> FileRanges:
        limits = Limits(1_500, None, lambda path: True)
        return FileRanges(
            tmp_path / "ranges", f"{bucket}/in", limits, None, 100, ("day",), tmp_path / "checkpoint", s3_server.store
        )

    put("a", ROWS[:200])
    first = ranges()
    first.look()
    before = len([*(tmp_path / "ranges").glob("*.jsonl")])
    assert before > 1
    put("b", ROWS[200:])
    again = ranges()  # as after a restart
    again.look()
    again.look()
    form_of = format_of(table_at(f"{bucket}/in", form, s3_server))
    rows = []
    for file in sorted((tmp_path / "ranges").glob("*.jsonl")):
        places = [json.loads(line) for line in file.read_text().splitlines()]
        assert {place.pop("__directories")["day"] for place in places} == {"1"}
        rows += read(form_of, [{**place, SHARE: 0, SHARES: 1} for place in places])
    assert rows == ROWS


# --- writing ------------------------------------------------------------------------------------------------------

OUTPUTS: list[FileOutput] = [ParquetOutput(KINDS), OrcOutput(KINDS), AvroOutput(KINDS, "snappy"), ArrowOutput(KINDS)]


@pytest.mark.parametrize("output", OUTPUTS, ids=lambda output: output.suffix)
def test_written_objects_are_read_back(s3_server: S3Server, output: FileOutput) -> None:
    bucket = s3_server.bucket()
    batch = pa.RecordBatch.from_pylist([{**row, "day": str(number % 2)} for number, row in enumerate(ROWS)])
    files = WrittenFiles(output, f"{bucket}/out", ("day",), s3_server.store, object_name(7))
    (written,) = files.rows(iter([batch]))
    assert all(row["path"].startswith(f"{bucket}/out/day=") for row in written.to_pylist())
    assert [row["size"] for row in written.to_pylist()] == [
        s3_server.store.size(p) for p in written["path"].to_pylist()
    ]
    form = format_of(table_at(f"{bucket}/out", output.suffix[1:], s3_server))
    (rows,) = in_shares(s3_server.store, form, f"{bucket}/out", 1)
    assert sorted(rows, key=lambda row: row["id"]) == ROWS


def test_lines_are_written_with_a_header(s3_server: S3Server) -> None:
    bucket = s3_server.bucket()
    output = LineOutput((("__line", parse_type("STRING")),), "csv", "a,b")
    files = WrittenFiles(output, f"{bucket}/out", (), s3_server.store, object_name(0))
    texts = pa.array(["x", "1,2", "", "é"])[1:]
    (written,) = files.rows(iter([pa.RecordBatch.from_arrays([texts], ["__line"])]))
    assert s3_server.store.read(written["path"][0].as_py()) == "a,b\n1,2\n\né\n".encode()


def test_a_task_that_fails_leaves_nothing(s3_server: S3Server) -> None:
    bucket = s3_server.bucket()

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist(ROWS)
        raise ValueError("later rows cannot be computed")

    with pytest.raises(ValueError, match="later rows"):
        [*WrittenFiles(ParquetOutput(KINDS), f"{bucket}/out", (), s3_server.store).rows(batches())]
    assert s3_server.keys(f"{bucket}/out") == []


# --- epochs -------------------------------------------------------------------------------------------------------


class Memory:
    """A store in memory."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def below(self, path: str) -> list[StoredObject]:
        return [StoredObject(url, len(data), 0) for url, data in self.objects.items() if url.startswith(f"{path}/")]

    def read(self, path: str) -> bytes | None:
        return self.objects.get(path)

    def write(self, path: str, data: bytes) -> None:
        self.objects[path] = data

    def remove(self, path: str) -> None:
        self.objects.pop(path, None)


@settings(max_examples=50)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3)), max_size=45))
def test_objects_count_once_whatever_fails(steps: list[tuple[bool, int]]) -> None:
    """Each step is an epoch with some objects, which is complete or fails behind writing them and is then repeated."""
    store = Memory()
    log = EpochLog(store, "s3://b/out")
    complete: list[str] = []
    epoch = 0
    for number, (fails, count) in enumerate(steps):
        names = [f"s3://b/out/k={n}/{object_name(epoch)}-{number}-{n}.json" for n in range(count)]
        for name in names:
            store.write(name, b"{}")
        if fails:
            log.remove_incomplete()
        else:
            log.commit(epoch, [StoredObject(name, 2, 5) for name in names])
            complete += names
            epoch += 1
        assert log.newest() == (epoch - 1 if epoch else None)
        counted = logged("s3://b/out", store.below("s3://b/out"), store.read)
        assert (counted or []) == [StoredObject(name, 2, 5) for name in complete]
    entries = [url for url in store.objects if f"/{LOG}/" in url]
    assert len(entries) <= 2 * INTERVAL
    assert {url for url in store.objects if f"/{LOG}/" not in url} == set(complete)


def test_readers_take_what_the_log_has(s3_server: S3Server) -> None:
    bucket, store = s3_server.bucket(), s3_server.store
    log = EpochLog(store, f"{bucket}/out")
    for epoch in range(INTERVAL + 2):
        url = f"{bucket}/out/{object_name(epoch)}-x.json"
        s3_server.put(url, json.dumps({"id": epoch}) + "\n")
        if epoch <= INTERVAL:
            log.commit(epoch, [StoredObject(url, 10, 0)])
    assert len(store.listed(f"{bucket}/out")) == INTERVAL + 1
    assert len(store.listed(f"{bucket}/out/part-00000000[0-4]*")) == 5
    log.remove_incomplete()
    assert len([key for key in s3_server.keys(f"{bucket}/out") if not key.startswith(LOG)]) == INTERVAL + 1


# --- lookups ------------------------------------------------------------------------------------------------------


def test_lookups_hold_objects_and_read_them_again(s3_server: S3Server) -> None:
    bucket = s3_server.bucket()
    s3_server.put(f"{bucket}/in/word=a%20b/x.csv.gz", gzip.compress(b"1\n2\n"))
    table = table_at(f"{bucket}/in", "csv", s3_server, partition_by="word")
    request = Request((KINDS[0],), KINDS)
    source = lookup_connector("filesystem").lookup(Environment(SPARK, Path("session")), table, request)
    assert isinstance(source, FileSource)

    async def answers() -> list[Any]:
        client = await source.open()
        first = await client.ask([(1,), (3,)])
        s3_server.put(f"{bucket}/in/word=c/y.csv", b"3\n")
        assert await client.reload()
        return [first, await client.ask([(1,), (3,)])]

    first, second = asyncio.run(answers())
    assert first == [[(1, "a b")], []]
    assert second == [[(1, "a b")], [(3, "c")]]
