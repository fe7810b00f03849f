"""Files are looked into before a job starts: which columns they have, and how their header and records name them."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

import sqlstream
from sqlstream.connectors import connector, source_connector
from sqlstream.connectors.files.checks import has_more_files, newest_files
from sqlstream.errors import SqlStreamError
from sqlstream.jobs import Job
from sqlstream.query import Query
from sqlstream.udfs.files.sink_log import log_batch
from tests.depth import usually

ROW = {"id": 1, "price": 2.5, "city": "Ulm"}


@pytest.fixture
def wrong(make_table, tmp_path):
    """What is wrong with the files of the folder for a table with these columns, of which some are read."""

    def found(columns: str, *read: str, **options: object) -> list[str]:
        table = make_table("filesystem", columns, path=tmp_path, **options)
        assert connector("filesystem").validate(table) == ()
        names = read or tuple(c.name for c in table.columns)
        return [str(SqlStreamError.of([d])) for d in source_connector("filesystem").inspect(table, names)]

    return found


def write(path: Path, rows: list[dict]) -> None:
    path.parent.mkdir(exist_ok=True)
    match path.suffix:
        case ".json":
            path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        case ".gz":
            path.write_bytes(gzip.compress("".join(f"{json.dumps(row)}\n" for row in rows).encode()))
        case ".orc":
            orc.write_table(pa.Table.from_pylist(rows), path)
        case _:
            pq.write_table(pa.Table.from_pylist(rows), path)


# --- Parquet and ORC ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_a_column_that_the_file_lacks_is_an_error_that_knows_what_was_meant(wrong, tmp_path, kind):
    write(tmp_path / f"1.{kind}", [ROW])
    (message,) = wrong("id BIGINT; pricee DOUBLE; city STRING", format=kind)
    assert message == (
        f'SS524: file "{tmp_path}/1.{kind}" has no column "pricee"\n'
        'HINT: Did you mean "price"? Columns: city, id, price. '
        f"With '{kind}.missing-columns' = 'null' in its WITH, a column that a file lacks is NULL."
    )
    options = {"format": kind, f"{kind}__missing_columns": "null"}
    assert wrong("id BIGINT; pricee DOUBLE; city STRING", **options) == []


def test_a_name_that_another_column_has_is_not_what_was_meant(wrong, tmp_path):
    write(tmp_path / "1.parquet", [ROW])
    (message,) = wrong("price DOUBLE; prices DOUBLE", format="parquet")
    assert "Did you mean" not in message


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_a_column_of_another_type_is_an_error_with_both(wrong, tmp_path, kind):
    write(tmp_path / f"1.{kind}", [ROW])
    (message,) = wrong("id STRING; price DOUBLE", format=kind)
    assert message.startswith(f'SS467: column "id" is BIGINT in file "{tmp_path}/1.{kind}", not STRING')


def test_columns_that_are_not_read_are_not_looked_for(wrong, tmp_path):
    (tmp_path / "day=1").mkdir()
    write(tmp_path / "day=1" / "1.parquet", [ROW])
    assert wrong("id BIGINT; pricee DOUBLE; day STRING", "id", "day", format="parquet", partition_by="day") == []


def test_what_cannot_be_read_is_told(wrong, tmp_path):
    (tmp_path / "1.parquet").write_text("no Parquet")
    (told,) = wrong("id BIGINT", format="parquet")
    assert told.startswith('SS528: file "') and "1.parquet" in told


# --- CSV ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "options", "problem"),
    [
        ("id,price,city", {}, None),
        ("ID,Price,city", {}, None),
        ("# c\nid,price,city", {"csv__allow_comments": "true"}, None),
        ("id;'price';city", {"csv__field_delimiter": ";", "csv__quote_character": "'"}, None),
        ("id,prize,city", {}, 'column 2 in the header of file "{}" is "prize", not "price" of table "t"\n'
         'HINT: Did you mean "prize"? A table of CSV files has their columns in their order: id, prize, city.'),
        ("id,city,price", {}, 'column 2 in the header of file "{}" is "city", not "price" of table "t"\n'
         "HINT: A table of CSV files has their columns in their order: id, city, price."),
        ("id", {}, 'column 2 in the header of file "{}" is no column, not "price" of table "t"\n'
         "HINT: A table of CSV files has their columns in their order: id."),
        ("id,price,city,zip", {}, 'the header of file "{}" has 4 columns, and table "t" has 3: it has no "zip"\n'
         "HINT: A table of CSV files has all of their columns in their order: id, price, city, zip."),
    ],
)  # fmt: skip
def test_the_header_names_the_columns_in_their_places(wrong, tmp_path, header, options, problem):
    (tmp_path / "1.csv").write_text(f"{header}\n1,2.5,Ulm\n")
    actual = wrong("id BIGINT; price DOUBLE; city STRING", format="csv", csv__header="true", **options)
    assert actual == ([] if problem is None else [f"SS525: {problem.format(tmp_path / '1.csv')}"])


def test_a_column_that_is_not_read_may_have_another_name_in_the_header(wrong, tmp_path):
    (tmp_path / "1.csv").write_text("id,prize\n1,2.5\n")
    assert wrong("id BIGINT; price DOUBLE", "id", format="csv", csv__header="true") == []


# --- JSON -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["1.json", "1.json.gz"])
def test_a_field_that_is_misspelt_is_an_error(wrong, tmp_path, name):
    write(tmp_path / name, [ROW, ROW])
    (message,) = wrong("id BIGINT; pricee DOUBLE", format="json")
    assert message.startswith(
        f'SS526: no record looked at has the field "pricee" of table "t", but file "{tmp_path}/{name}" has "price"\n'
        'HINT: Did you mean "price"? With '
    )
    assert wrong("id BIGINT; pricee DOUBLE", format="json", json__missing_columns="null") == []


@pytest.mark.parametrize(
    ("columns", "rows"),
    [
        ("id BIGINT; colour STRING", [ROW]),  # nothing like it is there: a field may be missing
        ("id BIGINT; pricee DOUBLE", [ROW, {"pricee": 1.0}]),  # a record has it
        ("id BIGINT; price DOUBLE; prices DOUBLE", [ROW]),  # the one like it is a column itself
        ("id BIGINT; pricee DOUBLE", [1, "price", None]),  # no records
    ],
)
def test_a_field_may_be_missing(wrong, tmp_path, columns, rows):
    write(tmp_path / "1.json", rows)
    assert wrong(columns, format="json") == []


def test_names_that_differ_in_case_are_two_fields(wrong, tmp_path):
    write(tmp_path / "1.json", [{"Price": 1}])
    (message,) = wrong("price DOUBLE", format="json")
    assert 'Did you mean "Price"?' in message


# --- which files ----------------------------------------------------------------------------------------------


def test_the_newest_files_are_looked_into(tmp_path):
    for number, name in enumerate(["in/b", "a", "in/.hidden", "_log/c", "in/d"]):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (number, number))
    assert [path.name for path in newest_files([tmp_path])] == ["d", "a", "b"]
    assert [path.name for path in newest_files([tmp_path / "in", tmp_path / "a"], 2)] == ["d", "a"]
    assert has_more_files([tmp_path], 2)
    assert not has_more_files([tmp_path], 3)


def test_of_a_sink_only_the_files_of_its_log_are_looked_into(tmp_path):
    for name in ("committed", "torn"):
        (tmp_path / name).write_text(name)
    log_batch(tmp_path, 0, [(tmp_path / "committed", 9, 1)])
    assert [path.name for path in newest_files([tmp_path])] == ["committed"]
    assert not has_more_files([tmp_path], 1)
    (tmp_path / "_spark_metadata" / "0").write_text("v1\n{")
    assert len(newest_files([tmp_path])) == 2


def test_only_the_newest_hundred_count(wrong, tmp_path):
    """A folder of 100,000 files costs a hundred footers."""
    for number in range(102):
        write(tmp_path / f"{number}.parquet", [ROW if number else {"other": 1}])
        os.utime(tmp_path / f"{number}.parquet", (number, number))
    assert wrong("id BIGINT", format="parquet") == []


# --- before Spark starts --------------------------------------------------------------------------------------


def test_queries_and_lookups_look_before_spark_starts(tmp_path):
    write(tmp_path / "1.parquet", [ROW])
    files = f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'parquet')"
    with sqlstream.connect() as session:
        session.sql(f"CREATE TABLE t (id BIGINT, pricee DOUBLE) {files}")
        session.sql("CREATE TABLE o (id BIGINT, pt AS PROCTIME()) WITH ('connector' = 'datagen')")
        for query in (
            "SELECT pricee FROM t",
            "SELECT t.pricee FROM o JOIN t FOR SYSTEM_TIME AS OF o.pt ON t.id = o.id",
        ):
            with pytest.raises(SqlStreamError, match=r'SS524: .* has no column "pricee"'):
                session.sql(query)


# --- files that come later ------------------------------------------------------------------------------------

READERS = ("SELECT id, price + 1 AS c FROM t", "SELECT id, SUM(price) AS c FROM t GROUP BY id COUNT WINDOW (1 ROWS)")
LATER: dict[str, tuple[dict, str]] = {
    "SS524": ({"id": 2, "prize": 2.5}, 'file "{}" has no column "price"'),
    "SS467": ({"id": 2, "price": "dear"}, 'column "price" is STRING in file "{}", not DOUBLE'),
}


@pytest.mark.spark
@pytest.mark.parametrize("query", READERS, ids=["by Spark", "by the exchange"])
@pytest.mark.parametrize("code", usually(LATER, "SS524"))
def test_a_file_that_comes_later_fails_the_job_before_its_rows_are_written(spark, tmp_path, query, code):
    row, message = LATER[code]
    write(tmp_path / "in" / "1.parquet", [ROW])
    with sqlstream.connect(spark) as session:
        session.sql(
            f"CREATE TABLE t (id BIGINT, price DOUBLE) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/in', "
            "'format' = 'parquet', 'source.monitor-interval' = '100 ms')"
        )
        session.sql("CREATE TABLE out (id BIGINT, c DOUBLE) WITH ('connector' = 'memory')")
        job = session.sql(f"INSERT INTO out {query}")
        assert isinstance(job, Job)
        job.checkpoint()
        assert job.progress().rows_in == 1
        write(tmp_path / ".2", [row])
        (tmp_path / ".2").rename(tmp_path / "in" / "2.parquet")
        with pytest.raises(SqlStreamError, match=code) as error:
            job.wait(60)
        assert error.value.diagnostic.message == message.format(tmp_path / "in" / "2.parquet")
        written = session.sql("SELECT id, c FROM out")
        assert isinstance(written, Query)
        assert [key for key, _ in written] == [1]


@pytest.mark.spark
def test_the_header_of_a_file_that_comes_later_fails_the_job(spark, tmp_path):
    (tmp_path / "1.csv").write_text("id,price\n1,2.5\n")
    with sqlstream.connect(spark) as session:
        session.sql(
            f"CREATE TABLE t (id BIGINT, price DOUBLE) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', "
            "'format' = 'csv', 'csv.header' = 'true', 'source.monitor-interval' = '100 ms')"
        )
        session.sql("CREATE TABLE out (id BIGINT, c DOUBLE) WITH ('connector' = 'blackhole')")
        job = session.sql("INSERT INTO out SELECT id, price FROM t")
        assert isinstance(job, Job)
        job.checkpoint()
        (tmp_path / ".2").write_text("id,prize\n1,2.5\n")
        (tmp_path / ".2").rename(tmp_path / "2.csv")
        with pytest.raises(SqlStreamError, match="SS525") as error:
            job.wait(60)
    message = f'column 2 in the header of file "{tmp_path}/2.csv" is "prize", not "price" of table "t"'
    assert error.value.diagnostic.message == message


@pytest.mark.spark
def test_spark_looks_into_files_that_only_it_reaches(spark, make_table, tmp_path):
    from sqlstream.connectors.on_spark.file_source import wrong_columns_through_spark

    write(tmp_path / "p" / "1.parquet", [ROW])
    write(tmp_path / "j" / "1.json", [ROW])
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "1.csv").write_text("id,price\n1,2.5\n")
    codes = []
    for folder, kind in (("p", "parquet"), ("j", "json"), ("c", "csv"), ("nothing", "parquet")):
        given = {"csv__header": "true"} if kind == "csv" else {}
        table = make_table("filesystem", "id BIGINT; pricee DOUBLE", path=tmp_path / folder, format=kind, **given)
        values = connector("filesystem").values(table)
        codes.append([d.code for d in wrong_columns_through_spark(spark, table, values, table.columns)])
    assert codes == [["SS524"], ["SS526"], ["SS525"], []]
