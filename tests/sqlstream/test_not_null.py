"""A NULL in a column that is NOT NULL fails the job, whoever reads the files, and names the row's place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from sqlstream.errors import ExecutionError, SqlStreamError
from sqlstream.jobs import Job
from sqlstream.query import Query
from sqlstream.results import Rows
from sqlstream.session import Session
from tests.depth import ALL, usually

pytestmark = pytest.mark.spark

ROWS = pa.table({
    "id": pa.array([1, None, 3], pa.int64()),
    "name": ["a", "b", "c"],
    "at": pa.array([0, 1_000_000, 2_000_000], pa.timestamp("us", "UTC")),
})  # fmt: skip
COLUMNS = "id BIGINT NOT NULL, name STRING, at TIMESTAMP, WATERMARK FOR at AS at"
TEXTS = {
    "json": '{"id": 1, "name": "a"}\n{"name": "b"}\n{"id": 3, "name": "c"}\n',
    "csv": "1,a,\n,b,\n3,c,\n",
}


def write(format: str, path: Path) -> None:  # noqa: A002
    path.parent.mkdir(exist_ok=True)
    if format in TEXTS:
        path.write_text(TEXTS[format])
    else:
        {"parquet": pq.write_table, "orc": orc.write_table}[format](ROWS, path)


def rows(session: Session, query: str) -> list[tuple[Any, ...]]:
    result = session.sql(query)
    assert isinstance(result, Query)
    return result.fetchall()


def described(session: Session, table: str) -> list[tuple[Any, ...]]:
    result = session.sql(f"DESCRIBE {table}")
    assert isinstance(result, Rows)
    return result.fetchall()


@pytest.fixture
def session(spark) -> Iterator[Session]:
    with Session(spark) as own_session:
        yield own_session


def declare(session: Session, format: str, path: Path, columns: str, **options: str) -> None:  # noqa: A002
    given = {"connector": "filesystem", "format": format, "path": str(path)} | options
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
    session.sql(f"CREATE TABLE t ({columns}) WITH ({listed})")


@pytest.mark.parametrize("format", usually(["json", "csv", "parquet", "orc"], "json", "orc"))
def test_a_null_fails_the_job_with_the_file_and_the_row(format: str, session: Session, tmp_path: Path) -> None:  # noqa: A002
    write(format, tmp_path / "in" / f"ä 1.{format}")
    declare(session, format, tmp_path / "in", COLUMNS.partition(", WATERMARK")[0])
    with pytest.raises(ExecutionError) as caught:
        rows(session, "SELECT name, id FROM t WHERE id > 0")
    place = "line 2" if format in TEXTS else "a row"
    message = f'SS403: column "id" of table "t" is NOT NULL and got NULL in {place} of file'
    assert f'{message} "{tmp_path}/in/ä 1.{format}": {{"id":null,"name":"b"}}' in str(caught.value)
    assert rows(session, "SELECT name FROM t") == [("a",), ("b",), ("c",)]


def test_columns_of_the_primary_key_are_not_null(session: Session, tmp_path: Path) -> None:
    write("json", tmp_path / "in" / "1.json")
    declare(session, "json", tmp_path / "in", "id BIGINT, name STRING, PRIMARY KEY (id) NOT ENFORCED")
    assert ("id", "BIGINT", "FALSE") in [row[:3] for row in described(session, "t")]
    with pytest.raises(ExecutionError, match='SS403: column "id" of table "t" is NOT NULL and got NULL'):
        rows(session, "SELECT name, id FROM t")


@pytest.mark.long
def test_the_exchange_that_reads_parquet_tells_the_row_and_the_job_goes_on(spark: Any, tmp_path: Path) -> None:
    write("parquet", tmp_path / "in" / "2.parquet")
    pq.write_table(ROWS.slice(0, 1), tmp_path / "in" / "1.parquet")

    def run() -> None:
        with Session(spark) as session:
            declare(session, "parquet", tmp_path / "in", COLUMNS, **{"source.max-files-per-trigger": "1"})
            session.sql(f"SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoints'")
            session.sql("SET 'execution.end-of-input' = 'final'")
            session.sql(f"""CREATE TABLE o (id BIGINT, n BIGINT)
                WITH ('connector' = 'filesystem', 'format' = 'parquet', 'path' = '{tmp_path}/out')""")
            job = session.sql("INSERT INTO o SELECT id, COUNT(*) FROM t GROUP BY id, TUMBLE(at, INTERVAL '1' MINUTE)")
            assert isinstance(job, Job)
            job.wait(300)

    message = 'SS403: column "id" of table "t" is NOT NULL and got NULL in row 2 of file'
    for _ in range(2):
        with pytest.raises(SqlStreamError, match=re.escape(f'{message} "{tmp_path}/in/2.parquet"')):
            run()
    pq.write_table(ROWS.filter(ROWS["id"].is_valid()), tmp_path / "in" / "2.parquet")
    run()
    assert sorted(map(tuple, (r.values() for r in pq.read_table(tmp_path / "out").to_pylist()))) == [(1, 2), (3, 1)]


def test_the_check_of_many_columns_has_one_error_so_that_java_compiles_it(session: Session, tmp_path: Path) -> None:
    names = [f"c{i}" for i in range(12)]
    pq.write_table(pa.table({name: pa.array([1], pa.int64()) for name in names}), tmp_path / "a.parquet")
    declare(session, "parquet", tmp_path, ", ".join(f"{name} BIGINT NOT NULL" for name in names))
    plan = session.dataframe("SELECT * FROM t")._jdf.queryExecution().analyzed().toString()
    assert plan.count("raise_error(") == 1


NESTED: list[tuple[str, str, str | None]] = [
    ("v ROW<a INT NOT NULL, b STRING>", '{"v": {"a": 1}}', None),
    ("v ROW<a INT NOT NULL, b STRING>", '{"v": null}', None),
    ("v ROW<a INT NOT NULL, b STRING>", '{"v": {"b": "x"}}', "v.a"),
    ("v ROW<a ROW<b INT NOT NULL> NOT NULL>", '{"v": {"a": {}}}', "v.a.b"),
    ("v ARRAY<ROW<a INT NOT NULL>>", '{"v": [{"a": 1}, null, {"a": null}]}', "v[].a"),
    ("v MAP<STRING, ROW<a INT NOT NULL>>", '{"v": {"x": {}}}', "v{}.a"),
]


@pytest.mark.parametrize(("columns", "record", "path"), NESTED)
def test_fields_within_a_column_are_checked(
    columns: str, record: str, path: str | None, session: Session, tmp_path: Path
) -> None:
    (tmp_path / "a.json").write_text("\n" + record + "\n")
    declare(session, "json", tmp_path, columns)
    if path is None:
        assert len(rows(session, "SELECT v FROM t")) == 1
    else:
        said = f'SS403: column "{path}" of table "t" is NOT NULL and got NULL in line 2 of file "{tmp_path}/a.json"'
        for mode in ("batch", "streaming") if ALL or path == "v[].a" else ("batch",):
            session.sql(f"SET 'execution.runtime-mode' = '{mode}'")
            with pytest.raises(SqlStreamError, match=re.escape(said)):
                rows(session, "SELECT v FROM t")


def test_fields_within_a_column_are_checked_by_a_sink_and_where_bad_rows_are_skipped(
    session: Session, tmp_path: Path
) -> None:
    (tmp_path / "a.json").write_text('{"v": {"a": 1}}\n{"v": {"a": null}}\n')
    declare(session, "json", tmp_path, "v ROW<a INT NOT NULL>", **{"on-error": "skip"})
    assert rows(session, "SELECT v.a FROM t") == [(1,)]
    session.sql("CREATE TABLE o (v ROW<a INT NOT NULL>) WITH ('connector' = 'memory')")
    with pytest.raises(ExecutionError, match=re.escape('SS403: column "v.a" of table "o" is NOT NULL and got NULL')):
        result: Any = session.sql("INSERT INTO o SELECT NAMED_STRUCT('a', NULLIF(v.a, 1)) FROM t")
        result.wait(300)


def test_what_is_not_null_inside_a_type_is_shown() -> None:
    with Session() as session:
        session.sql(
            "CREATE TABLE t (v ROW<a INT NOT NULL, b ARRAY<ROW<c INT NOT NULL>>>) WITH ('connector' = 'memory')"
        )
        shown = str(session.sql("SHOW CREATE TABLE t"))
    assert "v STRUCT<a: INT NOT NULL, b: ARRAY<STRUCT<c: INT NOT NULL>>>" in shown
