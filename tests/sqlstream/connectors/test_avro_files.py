"""Avro files read the same at every door, as streams, in the exchange, as finished data and in lookups; and written."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest

from sqlstream.connectors import connector
from sqlstream.connectors.on_spark.task_files import task_writer
from sqlstream.errors import SqlStreamError
from sqlstream.jobs import Job
from sqlstream.session import Session
from tests.depth import usually
from tests.sqlstream.connectors.test_columnar_files import at_all_doors, rows, table

pytestmark = pytest.mark.spark

AT = datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=UTC)
KINDS: dict[str, tuple[str, Any, Any]] = {
    "i": ("INT", "int", 7),
    "tiny": ("TINYINT", "int", -128),
    "d": ("DOUBLE", "double", 0.5),
    "s": ("STRING", "string", "ü"),
    "day": ("DATE", {"type": "int", "logicalType": "date"}, date(2024, 2, 29)),
    "t": ("TIME", {"type": "int", "logicalType": "time-millis"}, time(1, 2, 3, 4000)),
    "ts": ("TIMESTAMP", {"type": "long", "logicalType": "timestamp-micros"}, AT),
    "clock": ("TIMESTAMP_NTZ", {"type": "long", "logicalType": "local-timestamp-micros"}, AT.replace(tzinfo=None)),
    "dec": (
        "DECIMAL(10, 2)",
        {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
        Decimal("-12.34"),
    ),
    "e": ("STRING", {"type": "enum", "name": "e", "symbols": ["A", "B"]}, "B"),
    "a": ("ARRAY<INT>", {"type": "array", "items": ["null", "int"]}, [1, None, 3]),
    "m": ("MAP<STRING, BIGINT>", {"type": "map", "values": "long"}, {"x": 1}),
}


def written(path: Path, fields: dict[str, Any], records: list[dict[str, Any]], **options: Any) -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": n, "type": kind} for n, kind in fields.items()]}
    with path.open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema(schema), records, **options)


def test_all_types_are_read_at_every_door(spark, tmp_path):
    (tmp_path / "in").mkdir()
    fields = {"K": "long", **{name: ["null", kind] for name, (_, kind, _) in KINDS.items()}, "more": "string"}
    records = [
        {"K": 0, **{name: value for name, (_, _, value) in KINDS.items()}, "more": ""},
        {"K": 1, **dict.fromkeys(KINDS), "more": "x"},
    ]
    written(tmp_path / "in" / "1.avro", fields, records[:1], codec="deflate")
    written(tmp_path / "in" / "2.avro", dict(reversed(fields.items())), records[1:])
    declared = ", ".join(["k BIGINT", *(f"{name} {kind}" for name, (kind, _, _) in KINDS.items())])
    with Session(spark) as session:
        session.sql("SET 'table.local-time-zone' = 'Europe/Amsterdam'")
        table(session, "t", declared, tmp_path / "in", "avro")
        for door, found in at_all_doors(session, [*KINDS]).items():
            assert found == [tuple(value for _, _, value in KINDS.values()), (None,) * len(KINDS)], door
        firsts = ", ".join(f"FIRST_VALUE({name}) AS {name}" for name in ("i", "s", "ts", "dec"))
        exchange = rows(session, f"SELECT k, {firsts} FROM t GROUP BY k COUNT WINDOW (1 ROWS)")
        assert sorted(exchange) == [(0, 7, "ü", AT, Decimal("-12.34")), (1, None, None, None, None)]
        session.sql("SET 'execution.runtime-mode' = 'batch'")
        assert rows(session, "SELECT COUNT(*) FROM t") == [(2,)]
        session.sql("SET 'sqlstream.file-reader' = 'spark'")
        for mode in ("batch", "streaming"):
            session.sql(f"SET 'execution.runtime-mode' = '{mode}'")
            assert rows(
                session,
                "SELECT k, s, ts, m FROM t ORDER BY k LIMIT 2"
                if mode == "batch"
                else "SELECT k, s, ts, m FROM t WHERE k = 0",
            )[0] == (0, "ü", AT, {"x": 1}), mode


def test_tasks_share_a_file_and_its_rows_keep_their_order(spark, tmp_path):
    count = 50_000
    records = [{"n": n, "text": f"{n:x}" * 8} for n in range(count)]
    written(tmp_path / "1.avro", {"n": "long", "text": "string"}, records, codec="deflate", sync_interval=4_000)
    with Session(spark) as session:
        session.sql("SET 'execution.runtime-mode' = 'streaming'")
        session.sql("SET 'parallelism.default' = '4'")
        table(session, "t", "n BIGINT, text STRING, pt AS PROCTIME()", tmp_path, "avro")
        (found,) = rows(session, "SELECT COUNT(*), SUM(n), MIN(text) FROM t GROUP BY n < 0 COUNT WINDOW (50000 ROWS)")
        assert found == (count, count * (count - 1) // 2, "0" * 8)
        assert [n for (n,) in rows(session, "SELECT n FROM t")] == [*range(count)]


def test_bad_records_and_damaged_blocks_are_skipped_or_named(spark, tmp_path):
    path, folder = tmp_path / "1.avro", tmp_path
    written(path, {"k": "long", "v": ["int", "string"]}, [{"k": n, "v": n * 100} for n in range(3)])
    whole = bytearray(path.read_bytes())
    written(tmp_path / "2.avro", {"k": "long", "v": "int"}, [{"k": n, "v": 1} for n in range(2_000)], sync_interval=999)
    damaged = bytearray((tmp_path / "2.avro").read_bytes())
    damaged[-3] ^= 1
    (tmp_path / "2.avro").write_bytes(damaged)
    assert whole
    with Session(spark) as session:
        table(session, "t", "k BIGINT, v TINYINT", folder, "avro")
        with pytest.raises(SqlStreamError) as raised:
            rows(session, "SELECT k, v FROM t WHERE v > 1")
        assert 'column "v" of type TINYINT is 200' in str(raised.value)
        assert "1.avro" in str(raised.value)
        assert "record 3 of the block at byte" in str(raised.value)
        table(session, "s", "k BIGINT, v TINYINT", folder, "avro", **{"on-error": "skip"})
        for mode in ("batch", "streaming"):
            session.sql(f"SET 'execution.runtime-mode' = '{mode}'")
            found = rows(session, "SELECT k, v FROM s")
            assert sorted(found)[:3] == [(0, 0), (0, 1), (1, 1)]
            assert 1_500 < len(found) < 2_002


def test_columns_that_a_file_lacks_or_has_otherwise_are_named_before_the_job(spark, tmp_path):
    written(tmp_path / "1.avro", {"k": "long", "price": "string"}, [{"k": 1, "price": "2"}])
    with Session(spark) as session:
        table(session, "t", "k BIGINT, pricee STRING", tmp_path, "avro")
        with pytest.raises(SqlStreamError, match=r'SS524: file ".*1.avro" has no column "pricee"'):
            rows(session, "SELECT pricee FROM t")
        table(session, "u", "k BIGINT, price INT", tmp_path, "avro")
        with pytest.raises(SqlStreamError, match=r'SS467: column "price" is STRING in file ".*1.avro", not INT'):
            rows(session, "SELECT price FROM u")
        table(session, "n", "k BIGINT, pricee STRING", tmp_path, "avro", **{"avro.missing-columns": "null"})
        assert rows(session, "SELECT k, pricee FROM n") == [(1, None)]
        (tmp_path / "2.avro").write_bytes(b"PAR1")
        with pytest.raises(SqlStreamError, match=r"SS528: .*it does not begin as an Avro file does"):
            rows(session, "SELECT k FROM t")


def test_types_that_avro_lacks_are_refused_with_the_table(spark, tmp_path):
    for column, reason in (
        ("v VARIANT", "Avro has no VARIANT"),
        ("v MAP<INT, INT>", "keys of a MAP are texts"),
        ("`größe` INT", '"größe" is no name in Avro'),
        ("v STRUCT<`a b`: INT>", '"a b" is no name in Avro'),
        ("v INTERVAL DAY TO SECOND", "Avro has no INTERVAL"),
    ):
        with Session(spark) as session, pytest.raises(SqlStreamError) as raised:
            table(session, "t", column, tmp_path, "avro")
        assert "SS505" in str(raised.value)
        assert reason in str(raised.value)


@pytest.mark.long
@pytest.mark.parametrize("form", usually(["avro", "arrow", "csv", "json"], "avro"))
def test_a_stream_writes_files_once_with_a_log_of_spark(spark, tmp_path, form):
    source, target = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    (tmp_path / "checkpoint").mkdir()
    options = {"partition-by": "day"}

    def add(first: int, count: int) -> None:
        for n in range(first, first + count):
            (source / f"{n:03}.csv").write_text(f"{n},2024-01-0{n % 3 + 1},x{n}\n{n + 1000},,\n")

    def insert() -> None:
        with Session(spark) as session:
            session.sql(f"SET 'execution.checkpointing.dir' = '{tmp_path / 'checkpoint'}'")
            table(session, "s", "n INT, day DATE, t STRING", source, "csv", **{"source.max-files-per-trigger": "1"})
            table(session, "t", "n INT, day DATE, t STRING", target, form, **options)
            session.sql("SET 'execution.runtime-mode' = 'streaming'")
            job = session.sql("INSERT INTO t SELECT n, day, t FROM s")
            assert isinstance(job, Job)
            job.wait()

    add(0, 12)
    insert()
    add(12, 2)
    insert()
    expected = sorted((n, date(2024, 1, n % 3 + 1), f"x{n}") for n in range(14))
    (target / "day=2024-01-01" / f"part-of-a-failed-attempt.{form}").write_bytes(b"")
    log = {path.name for path in (target / "_spark_metadata").iterdir()}
    assert {"9.compact", "12", "13"} <= log
    with Session(spark) as session:
        table(session, "t", "n INT, day DATE, t STRING", target, form, **options)
        for mode in ("batch", "streaming"):
            session.sql(f"SET 'execution.runtime-mode' = '{mode}'")
            found = rows(session, "SELECT n, day, t FROM t")
            assert sorted(row for row in found if row[1] is not None) == expected, mode
            assert sorted(n for n, day, t in found if day is None and t is None) == [*range(1000, 1014)]
    assert spark.read.format("binaryFile").load(str(target)).count() == 28


@pytest.mark.parametrize("logged", [True, False])
def test_a_micro_batch_that_is_written_again_is_there_once(spark, tmp_path, logged, make_table, environment):
    made = make_table("filesystem", "a INT; b STRING", path=tmp_path, format="avro", avro__codec="deflate")
    values = connector("filesystem").values(made)
    write = task_writer(environment, made, values, logged=logged)
    for number, text in ((0, "x"), (1, "y"), (1, "y"), (2, "z")):
        write(spark.createDataFrame([(number, text)], "a INT, b STRING").repartition(1), number)
    files = list(tmp_path.rglob("*.avro"))
    assert len(files) == 3
    read: list[Any] = [row for path in files for row in fastavro.reader(BytesIO(path.read_bytes()))]
    assert sorted(row["a"] for row in read) == [0, 1, 2]
    assert not (tmp_path / "_sqlstream_writing").exists()


@pytest.mark.parametrize("codec", [pytest.param("null", marks=pytest.mark.long), "deflate"])
def test_a_file_is_read_in_bounded_micro_batches(spark, tmp_path, codec):
    count = 2_000
    for day in (1, 2):
        (tmp_path / "in" / f"day={day}").mkdir(parents=True)
        records = [{"n": n, "text": f"{n:x}" * 4} for n in range(day * count, (day + 1) * count)]
        path = tmp_path / "in" / f"day={day}" / "1.avro"
        written(path, {"n": "long", "text": "string"}, records, codec=codec, sync_interval=1_000)
    bound = sum(path.stat().st_size for path in (tmp_path / "in").rglob("*.avro")) // 4
    with Session(spark) as session:
        session.sql(f"SET 'execution.checkpointing.dir' = '{tmp_path / 'checkpoint'}'")
        options = {"source.max-bytes-per-trigger": f"{bound} b", "partition-by": "day"}
        table(session, "t", "n BIGINT, text STRING, day INT", tmp_path / "in", "avro", **options)
        table(session, "o", "n BIGINT, text STRING, day INT", tmp_path / "out", "json")
        session.sql("SET 'execution.runtime-mode' = 'streaming'")
        job = session.sql("INSERT INTO o SELECT n, text, day FROM t")
        assert isinstance(job, Job)
        job.wait(300)
        progress = job.progress()
        assert (progress.batches >= 4, progress.rows_in) == (True, 2 * count)
        session.sql("SET 'execution.runtime-mode' = 'batch'")
        found = rows(session, "SELECT n, text, day FROM o")
    assert sorted(found) == [(n, f"{n:x}" * 4, n // count) for n in range(count, 3 * count)]
