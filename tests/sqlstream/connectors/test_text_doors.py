"""Files of text as streams, in windows, and as finished data: the same rows, and the same faults with their lines."""

from __future__ import annotations

import json
import os
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from sqlstream.errors import SqlStreamError
from sqlstream.jobs import Job
from sqlstream.query import Query
from sqlstream.session import Session
from tests.depth import usually

pytestmark = pytest.mark.spark

GOOD = {
    "csv": b'\xef\xbb\xbf1,"x, y",2024-01-31 12:00:00\r\n2,,2024-01-31 12:00:01\r\n',
    "json": b'{"a": 1, "b": "x, y", "ts": "2024-01-31 12:00:00"}\n\n{"a": 2, "ts": "2024-01-31 12:00:01"}\r\n',
}
BAD = {
    "csv": b"1,x,2024-01-31 12:00:00\n2,caf\xe9,2024-01-31 12:00:01\n3,y\n4,z,31/01/2024\nno,w,2024-01-31 12:00:01\n"
    b'5,"v,2024-01-31 12:00:02\n6,u,2024-01-31 12:00:03\n',
    "json": b'{"a": 1, "ts": "2024-01-31 12:00:00"}\n{"a": 2, "b": "caf\xe9", "ts": "2024-01-31 12:00:01"}\n{"a": 3\n'
    b'{"a": 4, "ts": "31/01/2024"}\n{"a": "no", "ts": "2024-01-31 12:00:01"}\n[5]\n'
    b'{"a": 6, "ts": "2024-01-31 12:00:03"}\n',
}
LAST = 7
"""The number of lines of each, of which the first and the last are good."""
WINDOW = "SELECT a, COUNT(*) AS n FROM t GROUP BY a, TUMBLE(ts, INTERVAL '1' MINUTE)"
PLAIN, WINDOWS = "INSERT INTO o SELECT a, 1 AS n FROM t", f"INSERT INTO o {WINDOW}"
JOBS = usually(product(("csv", "json"), (PLAIN, WINDOWS)), ("csv", PLAIN))


def declare(session: Session, folder: Path, form: str, more: str = "") -> None:
    session.sql(f"""CREATE TABLE t (a INT, b STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH (
        'connector' = 'filesystem', 'path' = '{folder}', 'format' = '{form}', 'source.max-files-per-trigger' = '1'
        {more})""")


def write(folder: Path, form: str, content: bytes, number: int = 1) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{number} ü%20.{form}"
    path.write_bytes(content)
    os.utime(path, (number, number))
    return path


def rows(session: Session, query: str) -> list[tuple[Any, ...]]:
    result = session.sql(query)
    assert isinstance(result, Query)
    return sorted(result.fetchall(), key=repr)


def written(folder: Path) -> list[int]:
    lines = [line for file in folder.rglob("part-*") for line in file.read_text().splitlines()]
    return sorted(json.loads(line)["a"] for line in lines)


@pytest.mark.parametrize("form", ["csv", pytest.param("json", marks=pytest.mark.long)])
def test_every_door_reads_the_same_rows_and_names_the_same_line(form: str, spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "in", form, GOOD[form])
    bad = write(tmp_path / "bad", form, BAD[form])
    said = f'SS402: a row in line 2 of file "{bad}" cannot be read'
    with Session(spark) as session:
        for mode in ("streaming", "batch"):
            session.sql(f"SET 'execution.runtime-mode' = '{mode}'; DROP TABLE IF EXISTS t")
            declare(session, tmp_path / "in", form)
            assert rows(session, "SELECT a, b FROM t") == [(1, "x, y"), (2, None)]
            session.sql("DROP TABLE t")
            declare(session, tmp_path / "bad", form)
            for query in ("SELECT b FROM t", *([WINDOW] if mode == "streaming" else [])):
                with pytest.raises(SqlStreamError) as error:
                    rows(session, query.replace("SELECT a,", "SELECT b,").replace("BY a,", "BY b,"))
                assert said in str(error.value), (mode, query)


@pytest.mark.parametrize(("form", "statement"), JOBS)
def test_a_dead_letter_is_the_record_with_its_file_and_line(
    form: str, statement: str, spark: Any, tmp_path: Path
) -> None:
    path = write(tmp_path / "in", form, BAD[form])
    with Session(spark) as session:
        session.sql(f"""
            CREATE TABLE dead (record BINARY, error STRING, place STRING) WITH ('connector' = 'memory');
            CREATE TABLE o (a INT, n BIGINT) WITH ('connector' = 'filesystem', 'format' = 'json',
                'path' = '{tmp_path}/out')""")
        declare(session, tmp_path / "in", form, ", 'on-error' = 'dead-letter:dead'")
        job = session.sql(statement)
        assert isinstance(job, Job)
        assert job.wait(200)
        letters = rows(session, "SELECT place, record, error FROM dead")
        assert job.progress().bad_rows == {"t": LAST - 2}
    lines = BAD[form].split(b"\n")
    assert [(place, bytes(record)) for place, record, _ in letters] == [
        (f"{path}:{n}", lines[n - 1]) for n in range(2, LAST)
    ]
    assert all(error.startswith("SS402: ") for _, _, error in letters)
    assert written(tmp_path / "out") == [1, 6]


@pytest.mark.parametrize(("form", "statement"), JOBS)
def test_a_checkpoint_of_sparks_readers_goes_on(form: str, statement: str, spark: Any, tmp_path: Path) -> None:
    """Earlier versions read these files through Spark, as it still reads remote ones."""
    for number, reader in ((1, "spark"), (2, "auto")):
        write(tmp_path / "in", form, GOOD[form].replace(b"2024-01-31 12:", b"2024-01-31 %d:" % (10 + number)), number)
        with Session(spark) as session:
            session.sql(f"""
                SET 'sqlstream.file-reader' = '{reader}'; SET 'pipeline.name' = 'going-on';
                SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoint'; SET 'execution.end-of-input' = 'final';
                CREATE TABLE o (a INT, n BIGINT) WITH ('connector' = 'filesystem', 'format' = 'json',
                    'path' = '{tmp_path}/out')""")
            more = ", 'source.monitor-interval' = '100 ms'" if number == 1 else ""
            declare(session, tmp_path / "in", form, more)
            job = session.sql(statement)
            assert isinstance(job, Job)
            if number == 1:
                job.checkpoint()
                job.stop()
            job.wait(200)
    assert written(tmp_path / "out") == [1, 1, 2, 2]


def test_other_encodings_are_read_and_wrong_bytes_are_faults(spark: Any, tmp_path: Path) -> None:
    with Session(spark) as session:
        for encoding in ("ISO-8859-1", "UTF-16", "windows-1252"):
            session.sql("DROP TABLE IF EXISTS t")
            write(tmp_path / encoding, "csv", "1,café,\n".encode(encoding))
            declare(session, tmp_path / encoding, "csv", f", 'encoding' = '{encoding}'")
            assert rows(session, "SELECT b FROM t") == [("café",)]
        session.sql("DROP TABLE t")
        with pytest.raises(SqlStreamError, match='option "encoding" is not an encoding'):
            declare(session, tmp_path, "csv", ", 'encoding' = 'rot13'")
        with pytest.raises(SqlStreamError, match='SS504: option "encoding" has no effect with format "parquet"'):
            declare(session, tmp_path, "parquet", ", 'encoding' = 'UTF-16'")


@pytest.mark.long
def test_what_spark_has_compressed_is_read_in_a_stream_and_as_finished_data(spark: Any, tmp_path: Path) -> None:
    """Each row once from each compression; 20,000 rows are several blocks of Hadoop's."""
    compressions = ("deflate", "snappy", "lz4", "gzip", "bzip2")
    given = spark.range(20_000).selectExpr("id AS a", "repeat('x', CAST(id % 50 AS INT)) AS b", "'2024-01-31' AS ts")
    for compression in compressions:
        given.coalesce(1).write.mode("append").option("compression", compression).csv(str(tmp_path / "in"))
    assert {path.suffix for path in (tmp_path / "in").glob("part-*")} == {".deflate", ".snappy", ".lz4", ".gz", ".bz2"}
    with Session(spark) as session:
        declare(session, tmp_path / "in", "csv")
        session.sql(f"""CREATE TABLE o (a BIGINT, n BIGINT, ts TIMESTAMP) WITH ('connector' = 'filesystem',
            'format' = 'json', 'path' = '{tmp_path}/out')""")
        job = session.sql("""INSERT INTO o SELECT SUM(a), SUM(LENGTH(b)), window_end
            FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' DAY) GROUP BY window_start, window_end""")
        assert isinstance(job, Job)
        assert job.wait(200)
        session.sql("SET 'execution.runtime-mode' = 'batch'")
        totals = (len(compressions) * 19_999 * 10_000, len(compressions) * 400 * 1225)
        assert rows(session, "SELECT SUM(a), SUM(LENGTH(b)) FROM t") == [totals]
    assert written(tmp_path / "out") == [totals[0]]
