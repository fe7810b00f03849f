"""Files read and written by Spark; every option shows its effect."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pytest

from sqlstream.connectors import sink_connector, source_connector
from sqlstream.errors import ConnectorError

pytestmark = pytest.mark.spark

MALFORMED = "SS402: a row in line 1 of file"
COLUMNS = "id BIGINT; name STRING; price DECIMAL(10, 2); ts TIMESTAMP"
ROWS = [
    (1, "plain", Decimal("1.50"), datetime(2024, 1, 31, 12, 30, 0, 500000)),
    (2, 'quoted "x", y', None, datetime(1969, 12, 31, 23, 59, 59)),
    (3, None, Decimal("-2.00"), None),
]


@pytest.fixture
def files(make_table, tmp_path):
    def make(text: str | None = None, columns: str = "a INT; b STRING", name: str = "in", **options):
        path = tmp_path / name
        if text is not None:
            path.mkdir(exist_ok=True)
            (path / "1.txt").write_text(text)
        return make_table("filesystem", columns, **({"path": path, "format": "csv"} | options))

    return make


@pytest.mark.parametrize("name", ["csv", "json", "parquet", "orc"])
def test_what_is_written_is_read_again(name, spark, make_table, files, environment, read_all, tmp_path) -> None:
    source = make_table("filesystem", COLUMNS, path=tmp_path / "source", format="parquet")
    spark.createDataFrame(ROWS, "id BIGINT, name STRING, price DECIMAL(10,2), ts TIMESTAMP").coalesce(1).write.parquet(
        str(tmp_path / "source")
    )
    sink = files(None, COLUMNS, "out", format=name)
    _run(environment, source, sink, tmp_path / "writing")
    assert sorted(read_all(sink)) == ROWS


def test_a_micro_batch_that_runs_again_takes_the_place_of_what_it_wrote(files, spark, environment, read_all) -> None:
    sink = files(None, "id INT; day STRING", "out", format="json", partition_by="day")
    write_batch = sink_connector("filesystem").batch_writer(environment, sink)
    rows = spark.createDataFrame([(1, "a"), (2, "b")], "id INT, day STRING")
    for number in (0, 7, 7):
        write_batch(rows, number)
    write_batch(rows.where("id = 2"), 0)
    assert sorted(read_all(sink)) == [(1, "a"), (2, "b"), (2, "b")]


def _run(environment, source, sink, checkpoint: Path) -> None:
    read, write = source_connector(source.connector).read, sink_connector(sink.connector).stream
    rows = read(environment, source, tuple(c.name for c in source.columns))
    writer = write(environment, sink, rows).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()


def test_relative_paths_begin_where_the_process_is_and_not_where_java_was_started(
    make_table, environment, read_all, tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.csv").write_text("1,a\n2,b\n")
    given = ("in.csv", "csv")
    for path, form in (("out/rows", "parquet"), ("again", "json")):
        source = make_table("filesystem", "a INT; b STRING", path=given[0], format=given[1])
        sink = make_table("filesystem", "a INT; b STRING", path=path, format=form)
        _run(environment, source, sink, tmp_path / "writing" / path)
        assert sorted(read_all(sink)) == [(1, "a"), (2, "b")]
        assert [*(tmp_path / path).glob(f"*.{form}")]
        given = (path, form)


def test_a_resumed_job_goes_on_where_it_stopped(make_table, environment, read_all, tmp_path) -> None:
    source = make_table("filesystem", "line STRING", path=tmp_path / "in", format="text")
    sink = make_table("filesystem", "line STRING", path=tmp_path / "out", format="text")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1").write_text("one\n")
    _run(environment, source, sink, tmp_path / "writing")
    (tmp_path / "in" / "2").write_text("two\n")
    _run(replace(environment, resumed=True), source, sink, tmp_path / "writing")
    assert read_all(sink) == [("one",), ("two",)]


def test_a_new_job_does_not_write_among_the_files_of_another(make_table, environment, tmp_path) -> None:
    sink = make_table("filesystem", "line STRING", path=tmp_path, format="text")
    (tmp_path / "left.txt").touch()
    write = sink_connector("filesystem").stream
    with pytest.raises(ConnectorError) as error:
        write(environment, sink, environment.spark.readStream.format("rate").load())
    assert error.value.code == "SS508"
    assert "is not an empty directory" in str(error.value)


def test_files_that_no_batch_has_committed_are_not_read(make_table, environment, read_all, tmp_path) -> None:
    source = make_table("filesystem", "line STRING", path=tmp_path / "in", format="text")
    sink = make_table("filesystem", "line STRING", path=tmp_path / "out", format="text")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1").write_text("committed\n")
    _run(environment, source, sink, tmp_path / "writing")
    (tmp_path / "out" / "part-00000-left-behind.txt").write_text("not committed\n")
    assert read_all(sink) == [("committed",)]


def test_partitions_become_directories(make_table, files, environment, read_all, tmp_path) -> None:
    source = files("1,x\n2,y\n3,x\n")
    sink = files(None, name="out", partition_by="b")
    _run(environment, source, sink, tmp_path / "writing")
    assert sorted(p.name for p in (tmp_path / "out").iterdir() if p.name.startswith("b=")) == ["b=x", "b=y"]
    assert sorted(read_all(sink)) == [(1, "x"), (2, "y"), (3, "x")]


# --- order and batches ----------------------------------------------------------------------------------------


def test_files_are_read_in_the_order_of_time_and_name(make_table, read_all, tmp_path) -> None:
    for name, seconds in (("c", 1_000), ("b", 3_000), ("a", 2_000), ("z", 4_000), ("y", 4_000)):
        (tmp_path / f"{name}.txt").write_text(f"{name}\n")
        os.utime(tmp_path / f"{name}.txt", (seconds, seconds))
    for files in (1, 10):
        options = {"source__max_files_per_trigger": files}
        table = make_table("filesystem", "line STRING", path=tmp_path / "*.txt", format="text", **options)
        assert [line for (line,) in read_all(table, checkpoint=f"{files}")] == ["c", "a", "b", "y", "z"]


def test_the_number_of_files_limits_a_batch(make_table, environment, tmp_path) -> None:
    for i in range(4):
        (tmp_path / f"{i}.txt").write_text(f"{i}\n")
    options = {"source__max_files_per_trigger": 2}
    table = make_table("filesystem", "line STRING", path=tmp_path / "*.txt", format="text", **options)
    read = source_connector("filesystem").read
    sizes: list[int] = []
    writer = read(environment, table, ("line",)).writeStream.foreachBatch(lambda rows, _: sizes.append(rows.count()))
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert sizes == [2, 2]


def test_a_watched_directory_is_made_and_brings_later_files(make_table, environment, tmp_path) -> None:
    options = {"source__monitor_interval": "100 ms"}
    table = make_table("filesystem", "line STRING", path=tmp_path / "later", format="text", **options)
    assert not source_connector("filesystem").bounded(table)
    read = source_connector("filesystem").read
    collected: list[str] = []
    writer = read(environment, table, ("line",)).writeStream.foreachBatch(
        lambda rows, _: collected.extend(row.line for row in rows.collect())
    )
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        for name in ("first", "second"):
            (tmp_path / "later" / name).write_text(f"{name}\n")
            query.processAllAvailable()
        assert collected == ["first", "second"]
    finally:
        query.stop()


def test_a_file_that_comes_late_and_is_old_is_read(make_table, environment, tmp_path) -> None:
    options = {"source__monitor_interval": "100 ms"}
    table = make_table("filesystem", "line STRING", path=tmp_path / "in", format="text", **options)
    read = source_connector("filesystem").read
    collected: list[str] = []
    writer = read(environment, table, ("line",)).writeStream.foreachBatch(
        lambda rows, _: collected.extend(row.line for row in rows.collect())
    )
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        for name, age in (("new", 0), ("newer", 0), ("old", 3_000_000)):
            (tmp_path / name).write_text(f"{name}\n")
            os.utime(tmp_path / name, (time.time() - age, time.time() - age))
            (tmp_path / name).rename(tmp_path / "in" / name)
            query.processAllAvailable()
        assert collected == ["new", "newer", "old"]
    finally:
        query.stop()


def test_files_of_directories_inside_are_read(make_table, read_all, tmp_path) -> None:
    for path in ("a.txt", "2024/b.txt", "2024/01/c.txt", "day=1/d.txt"):
        (tmp_path / "in" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / path).write_text(f"{path}\n")
    table = make_table("filesystem", "line STRING", path=tmp_path / "in", format="text")
    assert sorted(read_all(table)) == [("2024/01/c.txt",), ("2024/b.txt",), ("a.txt",), ("day=1/d.txt",)]


# --- columns --------------------------------------------------------------------------------------------------


def test_columns_come_in_the_order_asked_for(files, read_all) -> None:
    assert read_all(files("1,x\n"), "b", "a") == [("x", 1)]


def test_metadata_tells_the_file(make_table, read_all, tmp_path) -> None:
    file = tmp_path / "one.csv"
    file.write_text("7\n")
    os.utime(file, (1_700_000_000, 1_700_000_000))
    metadata = {"p": "file.path", "n": "file.name", "s": "file.size", "m": "file.modification-time"}
    table = make_table("filesystem", "a INT", metadata, path=file.as_uri(), format="csv")
    assert read_all(table, "s", "n", "a", "p", "m") == [
        (2, "one.csv", 7, str(file), datetime(2023, 11, 14, 22, 13, 20))
    ]


# --- csv ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "options", "rows"),
    [
        ("1;x\n", {"csv__field_delimiter": ";"}, [(1, "x")]),
        ("1\tx\n", {"csv__field_delimiter": "\\t"}, [(1, "x")]),
        ("1,'x,y'\n", {"csv__quote_character": "'"}, [(1, "x,y")]),
        ('1,"x"\n', {}, [(1, "x")]),
        ('1,"x"\n', {"csv__disable_quote_character": "true"}, [(1, '"x"')]),
        ('1,"x^"y"\n', {"csv__escape_character": "^"}, [(1, 'x"y')]),
        ('1,"x, ""y"""\n2,"C:\\"\n', {}, [(1, 'x, "y"'), (2, "C:\\")]),
        ("1,n/a\n", {"csv__null_literal": "n/a"}, [(1, None)]),
        ("# c\n1,x\n", {"csv__allow_comments": "true"}, [(1, "x")]),
        ("a,b\n1,x\n", {"csv__header": "true"}, [(1, "x")]),
        ("1,x\nbad,y\n3\n4,z\n", {"csv__ignore_parse_errors": "true"}, [(1, "x"), (4, "z")]),
    ],
)
def test_csv_options_change_what_is_read(files, read_all, text: str, options: dict[str, str], rows: list) -> None:
    assert read_all(files(text, **options)) == rows


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, '1,"x, y"\n2,\n'),
        ({"csv__field_delimiter": "|"}, "1|x, y\n2|\n"),
        ({"csv__null_literal": "n/a"}, '1,"x, y"\n2,n/a\n'),
        ({"csv__header": "true"}, 'a,b\n1,"x, y"\n2,\n'),
        ({"csv__quote_character": "'"}, "1,'x, y'\n2,\n"),
    ],
)
def test_csv_options_change_what_is_written(files, environment, tmp_path, options, text: str) -> None:
    source = files('1,"x, y"\n2,\n')
    _run(environment, source, files(None, name="out", **options), tmp_path / "writing")
    (written,) = (tmp_path / "out").glob("part-*")
    assert written.read_text() == text


@pytest.mark.parametrize("text", ["bad,x\n", "1\n", "1,x,extra\n", "99999999999,x\n"])
def test_a_bad_csv_row_fails_the_job(files, read_all, text: str) -> None:
    with pytest.raises(Exception, match=MALFORMED):
        read_all(files(text))


def test_columns_that_are_not_read_are_not_looked_at(files, read_all) -> None:
    assert read_all(files("bad,x\n"), "b") == [("x",)]


def test_a_header_with_other_names_fails_the_job(files, read_all) -> None:
    with pytest.raises(Exception, match=r'SS525: column 1 in the header of file ".*" is "b", not "a" of table "t"'):
        read_all(files("b,a\n1,x\n", csv__header="true"))


# --- json -----------------------------------------------------------------------------------------------------


def test_bad_json_fails_the_job_unless_it_is_ignored(files, read_all) -> None:
    text = '{"a": 1, "b": "x"}\n{"a": "bad"}\nnot json\n{"b": "y"}\n'
    said = r'SS402: a row in line 2 of file "/.*" cannot be read: column "a" of type INT is "bad"'
    with pytest.raises(Exception, match=said):
        read_all(files(text, format="json"))
    ignoring = files(text, format="json", json__ignore_parse_errors="true")
    assert read_all(ignoring, checkpoint="again") == [(1, "x"), (None, None), (None, "y")]


def test_json_holds_nested_rows(files, read_all) -> None:
    table = files('{"s": {"x": 1}, "l": [1, null]}\n', "s STRUCT<x: INT>; l ARRAY<INT>", format="json")
    assert read_all(table) == [((1,), [1, None])]


@pytest.mark.parametrize(
    ("standard", "good", "bad"),
    [
        ("SQL", "2024-01-31 12:30:00.25", "2024-01-31T12:30:00"),
        ("ISO-8601", "2024-01-31T12:30:00.25", "2024-01-31 12:30:00"),
    ],
)
def test_the_standard_of_json_timestamps_is_enforced(files, read_all, standard: str, good: str, bad: str) -> None:
    options = {"format": "json", "json__timestamp_format__standard": standard}
    moment = datetime(2024, 1, 31, 12, 30, 0, 250000)
    assert read_all(files(f'{{"t": "{good}"}}\n', "t TIMESTAMP", **options)) == [(moment,)]
    with pytest.raises(Exception, match="SS402"):
        read_all(files(f'{{"t": "{bad}"}}\n', "t TIMESTAMP", **options), checkpoint="bad")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, '{"a":1,"t":"2024-01-31 12:30:00.250000"}\n{"a":2,"t":null}\n'),
        (
            {"json__timestamp_format__standard": "ISO-8601"},
            '{"a":1,"t":"2024-01-31T12:30:00.250000"}\n{"a":2,"t":null}\n',
        ),
        ({"json__encode__ignore_null_fields": "true"}, '{"a":1,"t":"2024-01-31 12:30:00.250000"}\n{"a":2}\n'),
    ],
)
def test_json_options_change_what_is_written(files, environment, tmp_path, options, text: str) -> None:
    columns = "a INT; t TIMESTAMP"
    source = files("1,2024-01-31 12:30:00.25\n2,\n", columns)
    _run(environment, source, files(None, columns, "out", format="json", **options), tmp_path / "writing")
    (written,) = (tmp_path / "out").glob("part-*")
    assert written.read_text() == text


def test_a_sink_below_a_file_is_refused_before_the_job_starts(make_table, environment, tmp_path) -> None:
    (tmp_path / "file").touch()
    sink = make_table("filesystem", "line STRING", path=tmp_path / "file" / "a" / "b", format="text")
    with pytest.raises(ConnectorError, match=r'SS508: path ".*/file/a/b" of table ".*" cannot be used: ".*" is no dir'):
        sink_connector("filesystem").batch_writer(environment, sink)
