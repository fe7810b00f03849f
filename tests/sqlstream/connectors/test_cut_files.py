"""Streams over files that are cut: micro-batches of a bounded size, with each row once, however the job goes on."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sqlstream.connectors.files.tables import BYTES_PER_TRIGGER, MOST_PER_TRIGGER
from sqlstream.connectors.on_spark import cut_files
from sqlstream.connectors.on_spark.cut_files import most_bytes
from sqlstream.errors import ExecutionError, SqlStreamError
from sqlstream.jobs import Job
from sqlstream.planner.catalog import Table
from sqlstream.session import Session
from sqlstream.udfs.files.directories import path_of_url
from sqlstream.udfs.files.sink_log import logged_lines

pytestmark = pytest.mark.spark

BOUND, SMALLER = ("'source.max-bytes-per-trigger' = '2 kb'", "'source.max-bytes-per-trigger' = '1 kb'")
NO_BOUND = "'on-error' = 'fail'"
ROWS = 200  # of CSV about 20 bytes each, of JSON 45, so that micro-batches are two and five at least
STATEMENT = (
    "INSERT INTO o SELECT 'a' AS t, id FROM a UNION ALL SELECT 'b' AS t, id FROM b "
    "UNION ALL SELECT 'w', CAST(n AS BIGINT) FROM (SELECT w, COUNT(*) AS n FROM a GROUP BY w COUNT WINDOW (50 ROWS))"
)


def put(folder: Path, form: str, name: str, start: int, count: int = ROWS) -> None:
    folder.mkdir(exist_ok=True)
    rows = ({"id": id_, "w": id_ % 2, "word": "é" * 5} for id_ in range(start, start + count))
    if form == "csv":
        lines = ["id,w,word", *(",".join(map(str, row.values())) for row in rows)]
    else:
        lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    hidden = folder / f".{name}"
    hidden.write_text("\n".join([*lines, ""]), encoding="utf-8")
    os.utime(hidden, (start + 1, start + 1))
    hidden.rename(folder / f"{name}.{form}")


@contextmanager
def running(
    spark: Any,
    folder: Path,
    checkpoint: str,
    bound: str = BOUND,
    savepoint: Path | None = None,
    watched: bool = False,
    reader: str = "auto",
) -> Iterator[Job]:
    """A job over two tables, one of CSV and one of JSON, that writes into ``out-CHECKPOINT``. ``reader``: the setting
    ``sqlstream.file-reader``.
    """
    options = f"{bound}, 'connector' = 'filesystem'" + (", 'source.monitor-interval' = '50 ms'" if watched else "")
    with Session(spark) as session:
        session.sql(f"SET 'execution.checkpointing.dir' = '{folder}/{checkpoint}'; SET 'pipeline.name' = 'cutting'")
        session.sql(f"SET 'sqlstream.file-reader' = '{reader}'")
        if savepoint is not None:
            session.sql(f"SET 'execution.state-recovery.path' = '{savepoint}'")
        session.sql(f"""
            CREATE TABLE a (id BIGINT, w INT, word STRING)
                WITH ({options}, 'path' = '{folder}/a', 'format' = 'csv', 'csv.header' = 'true');
            CREATE TABLE b (id BIGINT) WITH ({options}, 'path' = '{folder}/b', 'format' = 'json');
            CREATE TABLE o (t STRING, id BIGINT)
                WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{folder}/out-{checkpoint}')""")
        job = session.sql(STATEMENT)
        assert isinstance(job, Job)
        yield job
        job.stop()


def written(folder: Path) -> dict[str, list[int]]:
    """What the log of the sink has: a task that fails may leave a file."""
    paths = [path_of_url(json.loads(line)["path"]) for line in logged_lines(folder)]
    rows = [json.loads(line) for path in paths for line in Path(path).read_text().splitlines()]
    return {t: sorted(row["id"] for row in rows if row["t"] == t) for t in "abw"}


def everything(rows: int) -> dict[str, list[int]]:
    return {"a": [*range(rows)], "b": [*range(rows)], "w": [50] * (rows // 50)}


@pytest.mark.long
def test_a_file_is_read_in_bounded_micro_batches_and_again_where_one_was_not_complete(
    spark: Any, tmp_path: Path
) -> None:
    for table, form in (("a", "csv"), ("b", "json")):
        put(tmp_path / table, form, "first", 0)
    with running(spark, tmp_path, "first") as job:
        job.wait(300)
        assert job.progress().batches >= 4
        assert job.progress().rows_in == 2 * ROWS  # of two tables, however often the query names them
    assert written(tmp_path / "out-first") == everything(ROWS)
    spark_folder = tmp_path / "first" / "cutting" / "spark"
    commits = sorted((spark_folder / "commits").glob("[0-9]*"), key=lambda p: int(p.name))
    assert len(commits) >= 4
    # What a kill leaves: the last micro-batch has its ranges and offsets, and is not complete; nor are its rows there.
    last = int(commits[-1].name)
    for table, form in (("a", "csv"), ("b", "json")):
        put(tmp_path / table, form, "second", ROWS)
    commits[-1].unlink()
    commits[-1].with_name(f".{commits[-1].name}.crc").unlink(missing_ok=True)
    with running(spark, tmp_path, "first") as job:
        job.wait(300)
        assert job.progress().last_batch > last
    assert written(tmp_path / "out-first") == everything(2 * ROWS)


@pytest.mark.long
def test_savepoints_have_the_position_in_the_file(spark: Any, tmp_path: Path) -> None:
    for table, form in (("a", "csv"), ("b", "json")):
        put(tmp_path / table, form, "first", 0)
    with running(spark, tmp_path, "first", SMALLER, watched=True) as job:
        while job.progress().last_batch < 1:
            job.wait(0.1)
        savepoint = Path(job.savepoint(f"{tmp_path}/savepoint"))
        for table, form in (("a", "csv"), ("b", "json")):
            put(tmp_path / table, form, "second", ROWS)
        while written(tmp_path / "out-first") != everything(2 * ROWS):
            job.checkpoint()
    whole = written(tmp_path / "out-first")
    assert whole == everything(2 * ROWS)
    shutil.rmtree(tmp_path / "first")
    with running(spark, tmp_path, "second", BOUND, savepoint) as job:
        job.wait(300)
    after = written(tmp_path / "out-second")
    assert all(after[t] == whole[t][-len(after[t]) :] for t in "abw")
    assert ROWS < len(after["b"]) < 2 * ROWS, "the savepoint was taken within the first file"


@pytest.mark.long
def test_a_job_that_has_begun_with_whole_files_goes_on_with_them_and_the_other_way_round(
    spark: Any, tmp_path: Path
) -> None:
    for table, form in (("a", "csv"), ("b", "json")):
        put(tmp_path / table, form, "first", 0)
    for name, bounds in (("whole", (NO_BOUND, BOUND)), ("cut", (BOUND, NO_BOUND))):
        for number, bound in enumerate(bounds):
            if number:
                put(tmp_path / "a", "csv", f"{name}-second", ROWS, 100)
            with running(spark, tmp_path, name, bound) as job:
                job.wait(300)
            rows = {"a": ROWS + 100 * number, "b": ROWS}
            assert {t: len(ids) for t, ids in written(tmp_path / f"out-{name}").items() if t != "w"} == rows, name
        (tmp_path / "a" / f"{name}-second.csv").unlink()
    refused = pytest.raises(ExecutionError, match=r'SS421.*"[^"]*/cut/cutting" has positions within files of table "a"')
    with refused, running(spark, tmp_path, "cut", reader="spark"):
        pass
    with running(spark, tmp_path, "whole", reader="spark") as job:
        job.wait(300)
    assert len(written(tmp_path / "out-whole")["b"]) == ROWS


PARQUET = """
    SET 'execution.checkpointing.dir' = '{folder}/checkpoint'; SET 'pipeline.name' = 'columns';
    CREATE TABLE p (id BIGINT) WITH ('connector' = 'filesystem', 'path' = '{folder}/in', 'format' = 'parquet',
        'source.max-bytes-per-trigger' = '1 kb');
    CREATE TABLE o (t STRING, n BIGINT) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{folder}/out');
    """
COUNTS = "INSERT INTO o SELECT 'c', n FROM (SELECT COUNT(*) AS n FROM {table} GROUP BY id COUNT WINDOW (1 ROWS)) AS c"


def run(spark: Any, folder: Path, statement: str) -> None:
    """Runs a statement in which each part of a query has sources and operators of its own."""
    with Session(spark) as session:
        session.sql("SET 'table.optimizer.reuse-source-enabled' = 'false'")
        session.sql("SET 'table.optimizer.reuse-sub-plan-enabled' = 'false'")
        session.sql(PARQUET.format(folder=folder))
        job = session.sql(statement)
        assert isinstance(job, Job)
        job.wait(300)


@pytest.mark.long
def test_of_parquet_too_and_parts_of_a_query_may_read_differently(spark: Any, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name / "in").mkdir(parents=True)
        pq.write_table(pa.table({"id": [*range(10)]}), tmp_path / name / "in" / "a.parquet")
    whole = COUNTS.format(table="p")
    run(spark, tmp_path / "one", whole)
    with pytest.raises(ExecutionError, match=r"SS421.*positions within files"):
        run(spark, tmp_path / "one", COUNTS.format(table="(SELECT * FROM p WHERE MOD(ABS(id), 2) = 1)"))
    run(spark, tmp_path / "one", whole)
    both = f"{whole} UNION ALL SELECT 'p', id FROM p"
    run(spark, tmp_path / "two", both)
    run(spark, tmp_path / "two", both)
    for name, rows in (("one", 10), ("two", 20)):
        files = (path_of_url(json.loads(line)["path"]) for line in logged_lines(tmp_path / name / "out"))
        assert sum(len(Path(file).read_text().splitlines()) for file in files) == rows
    assert [*(tmp_path / "two" / "checkpoint" / "columns" / "ranges" / "p").iterdir()]


def test_parts_of_a_query_go_on_with_what_each_of_them_has_read(spark: Any, tmp_path: Path) -> None:
    def counts(*tables: str) -> str:
        return " UNION ALL ".join((COUNTS if n == 0 else COUNTS[14:]).format(table=t) for n, t in enumerate(tables))

    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"id": [*range(10)]}), tmp_path / "in" / "a.parquet")
    cut, whole = "p", "(SELECT * FROM p WHERE MOD(ABS(id), 2) = 1)"
    run(spark, tmp_path, counts(cut, whole))
    for tables, message in (
        ((cut, cut), r'SS421: .* has whole files, where the query reads parts of those of "p" now'),
        ((whole, cut), r'SS421: .* has positions within files of table "p", where Spark reads whole files now'),
        ((whole, whole), r'SS421: .* has positions within files of table "p"'),
    ):
        with pytest.raises(ExecutionError, match=message):
            run(spark, tmp_path, counts(*tables))
    pq.write_table(pa.table({"id": [*range(10, 12)]}), tmp_path / "in" / "b.parquet")
    run(spark, tmp_path, counts(cut, whole))
    files = (path_of_url(json.loads(line)["path"]) for line in logged_lines(tmp_path / "out"))
    assert sum(len(Path(file).read_text().splitlines()) for file in files) == 12 + 6


def test_large_inputs_are_bounded_by_default(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also Parquet, and what Spark reads itself, which are whole files then."""
    monkeypatch.setattr(cut_files, "DEFAULT_BYTES", {"csv": 2_500, "json": 2_500, "parquet": 2_500})
    for table, form in (("a", "csv"), ("b", "json")):
        put(tmp_path / table, form, "first", 0)
    with running(spark, tmp_path, "first", NO_BOUND) as job:
        job.wait(300)
        assert job.progress().batches >= 3
    assert written(tmp_path / "out-first") == everything(ROWS)
    (tmp_path / "p").mkdir()
    for number in range(3):
        pq.write_table(pa.table({"id": range(number * 300, number * 300 + 300)}), tmp_path / "p" / f"{number}.parquet")
    with Session(spark) as session:
        options = f"'connector' = 'filesystem', 'path' = '{tmp_path}/p', 'format' = 'parquet'"
        session.sql(f"CREATE TABLE p (id BIGINT) WITH ({options})")
        session.sql("CREATE TABLE nowhere (n BIGINT) WITH ('connector' = 'blackhole')")
        for query in ("SELECT id FROM p", "SELECT COUNT(*) FROM p GROUP BY id COUNT WINDOW (1 ROWS)"):
            counted = session.sql(f"INSERT INTO nowhere {query}")
            assert isinstance(counted, Job)
            counted.wait(300)
            assert (counted.progress().rows_in, counted.progress().batches >= 3) == (900, True), query


def test_files_that_are_gone_or_cut_between_their_micro_batches_are_named(spark: Any, tmp_path: Path) -> None:
    for table, form in (("a", "csv"), ("b", "json")):
        put(tmp_path / table, form, "first", 0)
    path = tmp_path / "a" / "first.csv"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"199,", b"x99,"))
    with pytest.raises(SqlStreamError, match=r"SS402.*line 201.*first.csv"), running(spark, tmp_path, "first") as job:
        job.wait(300)
    path.write_bytes(whole[: len(whole) // 4])
    with pytest.raises(SqlStreamError, match=r"SS531.*first.csv"), running(spark, tmp_path, "first") as job:
        job.wait(300)
    path.unlink()
    with pytest.raises(SqlStreamError, match=r"SS529.*first.csv"), running(spark, tmp_path, "first") as job:
        job.wait(300)
    path.write_bytes(whole)
    with running(spark, tmp_path, "first") as job:
        job.wait(300)
    assert written(tmp_path / "out-first") == everything(ROWS)


def test_what_was_read_is_removed_and_restarts_and_savepoints_go_on(spark: Any, tmp_path: Path) -> None:
    def start(session: Session, name: str) -> Job:
        session.sql(f"""
            SET 'execution.checkpointing.dir' = '{tmp_path}/{name}'; SET 'pipeline.name' = 'cutting';
            SET 'execution.checkpointing.num-retained' = '10';
            CREATE TABLE b (id BIGINT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/b', 'format' = 'json',
                'source.max-bytes-per-trigger' = '350 b', 'source.monitor-interval' = '50 ms');
            CREATE TABLE o (t STRING, id BIGINT)
                WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{tmp_path}/out-{name}')""")
        job = session.sql("INSERT INTO o SELECT 'b', id FROM b")
        assert isinstance(job, Job)
        return job

    put(tmp_path / "b", "json", "first", 0)
    folder = tmp_path / "first" / "cutting" / "ranges" / "b"
    for rows in (ROWS, ROWS + 50):
        put(tmp_path / "b", "json", f"until-{rows}", ROWS, rows - ROWS)
        with Session(spark) as session:
            job = start(session, "first")
            while len(written(tmp_path / "out-first")["b"]) < rows:
                job.checkpoint()
            savepoint = job.savepoint(f"{tmp_path}/savepoint-{rows}")
            job.stop()
        assert written(tmp_path / "out-first")["b"] == [*range(rows)]
        assert 11 <= len([*folder.glob("*/*.jsonl")]) <= 24
    put(tmp_path / "b", "json", "last", ROWS + 50, 20)
    with Session(spark) as session:
        session.sql(f"SET 'execution.state-recovery.path' = '{savepoint}'")
        job = start(session, "second")
        while len(written(tmp_path / "out-second")["b"]) < 20:
            job.checkpoint()
        job.stop()
    assert written(tmp_path / "out-second")["b"] == [*range(ROWS + 50, ROWS + 70)]


def test_of_parquet_only_what_is_read_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 20_000
    random = np.random.default_rng(7)
    rows = pa.table({"id": np.arange(count), "Word": [random.bytes(50) for _ in range(count)]})
    pq.write_table(rows, tmp_path / "0.parquet", compression="none", use_dictionary=False)
    size = (tmp_path / "0.parquet").stat().st_size
    values = {BYTES_PER_TRIGGER: None, MOST_PER_TRIGGER: None, "format": "parquet", "path": str(tmp_path)}
    monkeypatch.setattr(cut_files, "DEFAULT_BYTES", {"parquet": size // 2})
    monkeypatch.setattr(cut_files, "memory_limit", lambda: None)

    def most(*columns: str, **changed: Any) -> int | None:
        return most_bytes(values | changed, lambda: size, columns=columns)

    assert most("id") is None, "half of the bytes of the file are not of this column"
    assert size // 2 < (most("word") or 0) < size, "names of columns have no case"
    assert most("id", "word") == pytest.approx(size // 2, rel=0.01)
    assert most("id", **{MOST_PER_TRIGGER: 3}) is None and most("id", **{BYTES_PER_TRIGGER: 7}) == 7
    assert most("id", path=f"{tmp_path}/none") == size // 2
    monkeypatch.setattr(cut_files, "MOST_ROWS", 5_000)
    assert most("id") == pytest.approx(size / 4, rel=0.01)
    monkeypatch.setattr(cut_files, "memory_limit", lambda: 4 << 30)
    assert most("id") == pytest.approx(size / 16, rel=0.01), "a quarter of the memory that is enough"
    assert most("id", "word") == pytest.approx(size / 16, rel=0.01)
    assert most("id", **{BYTES_PER_TRIGGER: size}) == size, "what the user says holds"


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_rows_that_joins_make_longer_are_fewer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    """A result of a join has the columns of both sides, however short the rows of one of them are."""
    orders, items = tmp_path / "orders", tmp_path / "items"
    for folder, width in ((orders, 8), (items, 792)):
        folder.mkdir()
        if form == "csv":
            (folder / "0.csv").write_text(("x" * (width - 1) + "\n") * 2000)
        else:
            rows = pa.table({"text": pa.array(np.arange(2000)) if width == 8 else ["x" * (width - 4)] * 2000})
            pq.write_table(rows, folder / "0.parquet", compression="none", use_dictionary=False)
    (file,) = orders.iterdir()
    size = file.stat().st_size
    values = {BYTES_PER_TRIGGER: None, MOST_PER_TRIGGER: None, "format": form, "path": str(orders)}
    options = (("path", str(items)), ("format", form))
    beside = [(Table("items", (), "filesystem", options=options), ("text",))]
    monkeypatch.setattr(cut_files, "DEFAULT_BYTES", {form: size - 1})
    monkeypatch.setattr(cut_files, "MOST_JOINED", 400_000)
    monkeypatch.setattr(cut_files, "memory_limit", lambda: None)
    bounds = [most_bytes(values, lambda: size, columns=["text"], joined=joined) for joined in ([], beside)]
    assert bounds == [pytest.approx(size - 1, abs=1), pytest.approx(500 * size / 2000, rel=0.05)]
