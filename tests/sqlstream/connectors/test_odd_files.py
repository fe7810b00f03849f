"""Files that would be lost, read twice or read in part are found, named, and leave the checkpoint as it was."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from sqlstream.connectors.files.checks import no_text, walk, wrong_files
from sqlstream.errors import SqlStreamError
from sqlstream.jobs import Job
from sqlstream.planner.catalog import Column, Table
from sqlstream.query import Query
from sqlstream.session import Session
from sqlstream.statements.jobs import properties
from sqlstream.types import parse_type
from sqlstream.udfs.files.columnar import ColumnarFiles
from sqlstream.udfs.files.listed import ListedFiles
from tests.depth import usually

LINES = '{"id": 1, "name": "a"}\n'
TABLE = pa.table({"id": pa.array(range(6), pa.int64()), "name": ["a"] * 6,
                  "at": pa.array([0] * 6, pa.timestamp("us", "UTC"))})  # fmt: skip


PARTITIONED = {
    "k=1/j=2": 'file ".*/a.json" is not in "k=…"',
    "z=1": 'file ".*/a.json" is not in "k=…"',
    ".": 'file ".*/a.json" is not in "k=…"',
    "k=abc": "Failed to cast value 'abc' to data type \"INT\"",
    "k=": "Found an empty partition column value",
}


@pytest.mark.spark
@pytest.mark.parametrize("folder", PARTITIONED)
def test_directories_that_partition_by_does_not_fit_are_named(folder: str, spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in" / folder).mkdir(parents=True)
    (tmp_path / "in" / folder / "a.json").write_text(LINES)
    with Session(spark) as session:
        session.sql(f"""CREATE TABLE t (id BIGINT, k INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/in',
            'format' = 'json', 'partition-by' = 'k')""")
        with pytest.raises(
            SqlStreamError, match=f'SS532: table "t" has the option "partition-by": .*{PARTITIONED[folder]}'
        ):
            query = session.sql("SELECT * FROM t")
            assert isinstance(query, Query)
            query.rows()


# --- before a job starts --------------------------------------------------------------------------------------


def test_links_to_what_is_read_anyway_are_told_apart_from_others(tmp_path: Path) -> None:
    root, outside = tmp_path / "in", tmp_path / "outside"
    (root / "sub").mkdir(parents=True)
    outside.mkdir()
    for file in (root / "a.json", root / "sub" / "b.json", outside / "c.json", root / "_hidden", root / ".crc"):
        file.write_text(LINES)
    links = {"loop": root, "sub/up": root, "again": root / "a.json"}
    links |= {"other": outside, "other2": outside, "sub2": Path("sub")}
    for name, target in links.items():
        (root / name).symlink_to(target)
    nodes = walk([root])
    assert sorted(map(str, nodes.files)) == [f"{root}/{name}" for name in ("a.json", "other/c.json", "sub/b.json")]
    assert {str(p.relative_to(root)) for p in nodes.links} == {"loop", "sub/up", "again", "other2", "sub2"}


@pytest.mark.parametrize(
    ("name", "content", "format", "said"),
    [
        ("a.parquet", b"", "parquet", "SS528.*it is empty, and not a Parquet file"),
        ("a.orc", b"", "orc", "SS528.*it is empty, and not an ORC file"),
        ("a.parquet", b"XXXX1234", "parquet", "SS528.*does not begin as a Parquet file does"),
        ("a.json.gz", LINES.encode(), "json", r'SS528.*does not begin as a file "\*.gz" does'),
        ("a.csv.bz2", b"1,a\n", "csv", r'SS528.*does not begin as a file "\*.bz2" does'),
        ("a.json.gz", b"", "json", r'SS528.*it is empty, and no file "\*.gz"'),
        (b"a\xff.json", LINES.encode(), "json", r'SS530: the name of file ".*/a\\xff.json" of table "t" is no UTF-8'),
        ("a.json", None, "json", 'SS529: file ".*/a.json" was listed, and is gone'),
        ("a.json", b"", "json", None),
        ("a.json.gz", gzip.compress(b"", mtime=0), "json", None),
    ],
)
def test_files_that_readers_would_skip_are_found(
    name: str | bytes,
    content: bytes | None,
    format: str,  # noqa: A002
    said: str | None,
    tmp_path: Path,
) -> None:
    path = Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), os.fsencode(name))))  # noqa: PTH118
    if content is None:
        path.symlink_to(tmp_path / "nowhere")
    else:
        path.write_bytes(content)
    collected = [f"{d.code}: {d.message}" for d in wrong_files(Table("t", (), ""), walk([tmp_path]).files, format)]
    assert len(collected) == (said is not None)
    assert said is None or re.match(said, collected[0])


@pytest.mark.parametrize("log", ["4", "4.compact"])
def test_the_files_of_a_micro_batch_are_looked_for(log: str, tmp_path: Path) -> None:
    data, spark = tmp_path / "in put", tmp_path / "checkpoint" / "spark"
    for folder in (*(spark / "sources" / str(n) for n in range(3)), spark / "offsets", data):
        folder.mkdir(parents=True)
    (data / "b.json").write_text(LINES)

    def entry(path: Path, number: int) -> str:
        return json.dumps({"path": path.as_uri(), "timestamp": 1, "batchId": number}, separators=(",", ":"))

    def offsets(batch: int, *lines: str) -> None:
        (spark / "offsets" / str(batch)).write_text("\n".join(["v1", "{}", *lines]))

    gone, control = entry(data / "a.json", 3), entry(tmp_path / "checkpoint" / "control" / "x.json", 4)
    (spark / "sources/0/3").write_text(f"v1\n{gone}\n")  # of the micro-batch before
    (spark / "sources/0" / log).write_text(f"v1\n{gone}\n{entry(data / 'b.json', 4)}\n")
    (spark / "sources/1/4").write_text(f"v1\n{control}\n")
    (spark / "sources/2/2").write_text(f"v1\n{entry(data / 'c.json', 2)}\n")  # nothing new has come since
    offsets(7, '{"logOffset":3}', '{"logOffset":3}', '{"logOffset":3}', '{"logOffset":2}')
    offsets(8, '{"logOffset":4}', '{"logOffset":4}', '{"logOffset":4}', '{"logOffset":2}')
    listed = ListedFiles("t", str(spark / "sources"), f"{data}/", "json")
    assert listed.count_missing(8) == 0
    (data / "b.json").unlink()
    with pytest.raises(SqlStreamError, match=re.escape(f'SS529: file "{data}/b.json" of table "t" was listed')):
        listed.count_missing(8)
    assert replace(listed, skips=True).count_missing(8) == 1
    assert replace(listed, root=f"{tmp_path}/in/").count_missing(8) == 0
    assert listed.count_missing(9) == 0, "one that has not begun"


def test_a_micro_batch_may_have_several_entries_of_a_log(tmp_path: Path) -> None:
    """A job that ends between an entry and the offsets adds another one when it starts again."""
    spark = tmp_path / "checkpoint" / "spark"
    for folder in (spark / "sources" / "0", spark / "offsets"):
        folder.mkdir(parents=True)
    for number in range(3):
        line = f'{{"path":"file://{tmp_path}/{number}.json","timestamp":1,"batchId":{number}}}'
        (spark / "sources/0" / str(number)).write_text(f"v1\n{line}\n")
    for batch, end in ((0, 0), (1, 2)):
        (spark / "offsets" / str(batch)).write_text(f'v1\n{{}}\n{{"logOffset":{end}}}')
    listed = ListedFiles("t", str(spark / "sources"), f"{tmp_path}/", "json", skips=True)
    assert listed.count_missing(1) == 2
    (spark / "offsets" / "0").unlink()
    assert listed.count_missing(1) == 1, "what is older may be of another micro-batch"


# --- while it runs --------------------------------------------------------------------------------------------


def rows(session: Session, query: str) -> list[tuple[Any, ...]]:
    result = session.sql(query)
    assert isinstance(result, Query)
    return result.fetchall()


def run(spark: Any, folder: Path, format: str, **options: str) -> Job:  # noqa: A002
    """Takes the rows of a directory into another one, a file in each micro-batch."""
    given = {"connector": "filesystem", "path": f"{folder}/in", "format": format, "source.max-files-per-trigger": "1"}
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in (given | options).items())
    with Session(spark) as session:
        session.sql(f"""
            SET 'execution.checkpointing.dir' = '{folder}/checkpoint';
            CREATE TABLE t (id BIGINT, name STRING) WITH ({listed});
            CREATE TABLE o (id BIGINT, name STRING)
                WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{folder}/out')""")
        job = session.sql("INSERT INTO o SELECT id, name FROM t")
        assert isinstance(job, Job)
        job.wait(300)
        return job


def rows_in(folder: Path) -> int:
    return sum(len(path.read_text().splitlines()) for path in folder.glob("part-*"))


def torn(content: bytes) -> bytes:
    return content[: len(content) // 2]


def some_lines() -> bytes:
    chance = random.Random(1)
    return gzip.compress("".join(f'{{"id": {chance.randrange(10**9)}}}\n' for _ in range(3000)).encode())


@pytest.mark.spark
@pytest.mark.parametrize("format", ["parquet", "orc", "json"])
def test_a_torn_file_is_named_and_read_once_it_is_whole(format: str, spark: Any, tmp_path: Path) -> None:  # noqa: A002
    (tmp_path / "in").mkdir()
    suffix = "json.gz" if format == "json" else format
    first, second = (tmp_path / "in" / f"{i} ü.{suffix}" for i in (1, 2))
    for file in (first, second):
        if format == "json":
            file.write_bytes(some_lines())
        else:
            {"parquet": pq.write_table, "orc": orc.write_table}[format](TABLE, file)
    os.utime(first, (1, 1))
    whole = second.read_bytes()
    second.write_bytes(torn(whole))
    with pytest.raises(SqlStreamError, match=re.escape(f'SS528: file "{second}" cannot be read: ')):
        run(spark, tmp_path, format)
    second.write_bytes(whole)
    run(spark, tmp_path, format)
    assert rows_in(tmp_path / "out") == 2 * (3000 if format == "json" else 6)


@pytest.mark.spark
def test_a_file_that_is_gone_before_it_is_read_stops_the_job_until_it_is_back(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    files = [tmp_path / "in" / f"{i}.json" for i in range(3)]
    for i, file in enumerate(files):
        file.write_text(LINES * 6)
        os.utime(file, (i + 1, i + 1))
    files[0].write_text("no json\n")  # the job stops here, once Spark has listed the file
    os.utime(files[0], (1, 1))
    with pytest.raises(SqlStreamError, match="SS402"):
        run(spark, tmp_path, "json")
    files[0].unlink()
    for _ in range(2):
        with pytest.raises(SqlStreamError, match=re.escape(f'SS529: file "{files[0]}" of table "t" was listed')):
            run(spark, tmp_path, "json")
    files[0].write_text(LINES * 6)
    run(spark, tmp_path, "json")
    assert rows_in(tmp_path / "out") == 18


@pytest.mark.spark
def test_files_that_are_gone_are_left_out_where_the_table_skips_them(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for i in range(2):
        (tmp_path / "in" / f"{i}.json").write_text("no json\n" if i == 0 else LINES)
        os.utime(tmp_path / "in" / f"{i}.json", (i + 1, i + 1))
    with pytest.raises(SqlStreamError, match="SS402"):
        run(spark, tmp_path, "json")
    (tmp_path / "in" / "0.json").unlink()
    run(spark, tmp_path, "json", **{"source.missing-files": "skip"})
    assert rows_in(tmp_path / "out") == 1


SINKS = {
    "Spark's own": "INSERT INTO o SELECT deleting(id) AS id FROM t",
    "a statement set": "EXECUTE STATEMENT SET BEGIN INSERT INTO o SELECT deleting(id) AS id FROM t; "
    "INSERT INTO o2 SELECT id FROM t; END",
}
OF_WINDOWS = "INSERT INTO o SELECT deleting(id) AS id FROM t GROUP BY id COUNT WINDOW (1 ROWS)"
"""The exchange reads its Parquet files itself."""


@pytest.mark.spark
@pytest.mark.parametrize("format", ["csv", "json", "orc"])
def test_a_file_that_is_emptied_while_a_micro_batch_reads_it_is_named(
    format: str,  # noqa: A002
    spark: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To their readers it has no rows; to that of Parquet it is torn."""
    (tmp_path / "in").mkdir()
    for number in range(3):
        write_ids(tmp_path / "in" / f"{number}.{format}", format, range(number * 10, number * 10 + 10))
    emptied = tmp_path / "in" / f"1.{format}"
    size = emptied.stat().st_size

    class Emptying(ListedFiles):
        def count_missing(self, batch: int) -> int:
            missing = ListedFiles.count_missing(self, batch)
            emptied.write_bytes(b"")
            return missing

    monkeypatch.setattr("sqlstream.connectors.on_spark.file_source.ListedFiles", Emptying)
    cut = re.escape(f'SS531: file "{emptied}" was cut from {size:,} to 0 bytes while it was read')
    with pytest.raises(SqlStreamError, match=cut):
        take_ids(spark, tmp_path, format, itself, SINKS["Spark's own"], most=3)


@pytest.mark.spark
@pytest.mark.parametrize("skips", usually([False, True], False))
@pytest.mark.parametrize(
    ("statement", "format"),
    usually(
        [(OF_WINDOWS, "parquet"), *product(SINKS.values(), ("json", "csv", "parquet"))], (SINKS["Spark's own"], "json")
    ),
)
def test_no_file_that_is_deleted_between_listing_and_reading_is_lost(
    statement: str,
    format: str,  # noqa: A002
    skips: bool,
    spark: Any,
    tmp_path: Path,
) -> None:
    """90 rows in nine files, all of which Spark lists at first; the fourth goes while the first is read."""
    folder, fourth = tmp_path / "in", tmp_path / "in" / f"3.{format}"
    folder.mkdir()
    for number in range(9):
        write_ids(folder / f"{number}.{format}", format, range(number * 10, number * 10 + 10))
    whole = fourth.read_bytes()

    def deleting(id: int) -> int:  # noqa: A002
        fourth.unlink(missing_ok=True)
        return id

    with pytest.raises(SqlStreamError, match="SS529") if not skips else nullcontext():
        job = take_ids(spark, tmp_path, format, deleting, statement, skips=skips)
        assert job.progress().missing_files == {"t": 1}
        assert ('missing files of "t"', "1") in list(properties(job.record))
    expected = 30  # rows of the micro-batches before
    if not skips:
        assert ids_in(tmp_path / "out") == [*range(expected)]
        fourth.write_bytes(whole)
        (folder / f"0.{format}").unlink()  # has been read
        job = take_ids(spark, tmp_path, format, itself, statement)
        assert not job.progress().missing_files
    assert ids_in(tmp_path / "out") == [n for n in range(90) if not skips or not 30 <= n < 40]


def itself(id: int) -> int:  # noqa: A002
    return id


def write_ids(path: Path, format: str, ids: range) -> None:  # noqa: A002
    columnar = {"parquet": pq.write_table, "orc": orc.write_table}.get(format)
    if columnar is not None:
        columnar(pa.table({"id": pa.array(ids, pa.int64())}), path)
    else:
        path.write_text("".join(f'{{"id": {n}}}\n' if format == "json" else f"{n}\n" for n in ids))
    os.utime(path, (ids[0] + 1, ids[0] + 1))


def take_ids(
    spark: Any,
    folder: Path,
    format: str,  # noqa: A002
    deleting: Callable[[int], int],
    statement: str,
    *,
    skips: bool = False,
    most: int = 1,
) -> Job:
    with Session(spark) as session:
        session.register_function("deleting", deleting)
        session.sql(f"""
            SET 'execution.checkpointing.dir' = '{folder}/checkpoint'; SET 'pipeline.name' = 'taking';
            CREATE TABLE t (id BIGINT) WITH ('connector' = 'filesystem', 'path' = '{folder}/in/../in',
                'format' = '{format}', 'source.max-files-per-trigger' = '{most}',
                'source.missing-files' = '{"skip" if skips else "fail"}');
            CREATE TABLE o (id BIGINT) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{folder}/out');
            CREATE TABLE o2 (id BIGINT) WITH ('connector' = 'blackhole')""")
        job = session.sql(statement)
        assert isinstance(job, Job)
        job.wait(300)
        return job


def ids_in(folder: Path) -> list[int]:
    return sorted(json.loads(line)["id"] for path in folder.rglob("part-*") for line in path.read_text().splitlines())


@pytest.mark.spark
@pytest.mark.parametrize("format", usually(["json", "parquet"], "json"))
def test_a_link_to_its_own_directory_gives_no_row_twice(format: str, spark: Any, tmp_path: Path) -> None:  # noqa: A002
    folder = tmp_path / "in ü"
    folder.mkdir()
    if format == "json":
        (folder / "a.json").write_text(LINES * 6)
    else:
        pq.write_table(TABLE, folder / "a.parquet")
    (folder / "loop").symlink_to(folder)
    with Session(spark) as session:
        session.sql(f"""CREATE TABLE t (id BIGINT, name STRING)
            WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = '{format}')""")
        assert len(rows(session, "SELECT id FROM t")) == 6
        counts = rows(session, "SELECT COUNT(*) AS n FROM t GROUP BY COUNT WINDOW (6 ROWS)")
    assert counts == [(6,)]


def test_texts_of_a_file_are_looked_at_once_for_each_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    batches = ColumnarFiles.batches

    def counted(files: ColumnarFiles, path: str) -> Iterator[pa.RecordBatch]:
        read.append(path)
        return batches(files, path)

    monkeypatch.setattr(ColumnarFiles, "batches", counted)
    columns = [Column("id", parse_type("BIGINT")), Column("name", parse_type("STRING"))]
    for name in ("a", "b"):
        pq.write_table(TABLE, tmp_path / f"{name}.parquet")
    assert [no_text("parquet", columns, [tmp_path]) for _ in range(3)] == [None] * 3
    assert len(read) == 2
    bad = TABLE.set_column(1, "name", pa.array([b"\xff"] * TABLE.num_rows))
    pq.write_table(bad, tmp_path / "b.parquet")
    for _ in range(2):
        error = no_text("parquet", columns, [tmp_path])
        assert error is not None
        assert error.diagnostic.message == (
            f'column "name" of type STRING is "\ufffd" in row 1 of file "{tmp_path}/b.parquet"'
        )
    assert len(read) == 3
