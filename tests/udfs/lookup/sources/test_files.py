"""Lookups in files: formats, keys, reloads, what cannot be read."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import math
import os
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc, parquet

from sqlstream.connectors.file_databases import file_as_of
from sqlstream.errors import ConnectorError, ExecutionError
from sqlstream.formats.csv import CsvDecoder
from sqlstream.formats.csv_records import Dialect
from sqlstream.formats.decoder import Field
from sqlstream.formats.json import JsonDecoder
from sqlstream.formats.lines import LineDecoder
from sqlstream.types import parse_type
from sqlstream.udfs.files.columnar import ColumnarFiles
from sqlstream.udfs.files.directories import escaped
from sqlstream.udfs.files.sink_log import begin_after, log_batch
from sqlstream.udfs.files.text import Header, TextFormat
from sqlstream.udfs.lookup.source import Comparison, Request
from sqlstream.udfs.lookup.sources.files import FileSource, Index, as_of


def columns_of(text: str):
    return tuple((name, parse_type(kind)) for name, kind in (c.split(" ", 1) for c in text.split("; ")))


def source_of(path: Path, columns: str, form: str = "csv", keys: str = "k", read: str = "", **settings) -> FileSource:
    own = {name: settings.pop(name) for name in ("partitions", "reload_ms") if name in settings}
    filters = settings.pop("filters", ())
    declared = columns_of(columns)
    kinds = dict(declared)
    wanted = read.split() or [name for name, _ in declared if name not in keys.split()]
    request = Request(tuple((k, kinds[k]) for k in keys.split()), tuple((c, kinds[c]) for c in wanted), filters)
    needed = dict.fromkeys((*keys.split(), *wanted, *(f.column for f in filters)))
    fields = tuple(Field(n, k, n in needed) for n, k in declared if n not in own.get("partitions", ()))
    reader = format_of(form, fields, **settings)
    zone = settings.get("zone", "UTC")
    return FileSource("t", request, str(path), reader, tuple((n, kinds[n]) for n in needed), zone=zone, **own)


def format_of(form, fields, zone="UTC", header=False, drop=False, nulls=False, timestamps=None, **dialect):
    """How files are read; ``dialect``: that of CSV."""
    if form in ("parquet", "orc"):
        return ColumnarFiles(form, tuple((f.name, f.type) for f in fields if f.wanted), nulls)
    if form == "json":
        return TextFormat(JsonDecoder(fields, standard=timestamps, zone=zone), tolerant=drop)
    if form != "csv":
        return TextFormat(LineDecoder(fields[0]))
    syntax = Dialect(**dialect)
    named = Header("t", tuple((i, f.name) for i, f in enumerate(fields) if f.wanted), syntax) if header else None
    has_breaks = syntax.multi_line and syntax.quote is not None
    decoder = CsvDecoder(fields, syntax, zone)
    return TextFormat(decoder, header=named, tolerant=drop, dialect=syntax if has_breaks else None)


@asynccontextmanager
async def opened(source: FileSource):
    client = await source.open()
    try:
        yield client
    finally:
        await client.close()


def ask(source: FileSource, *keys):
    async def answers():
        async with opened(source) as client:
            return await client.ask([key if isinstance(key, tuple) else (key,) for key in keys])

    return asyncio.run(answers())


def written(path: Path, *lines: str) -> Path:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def test_rows_of_a_key_come_in_the_order_of_the_file(tmp_path):
    file = written(tmp_path / "t.csv", "a,1", "b,2", "a,3", ",9")
    assert ask(source_of(file, "k STRING; v INT"), "a", "b", "z") == [[(1,), (3,)], [(2,)], []]


def test_options_of_csv_are_those_of_the_stream(tmp_path):
    file = written(tmp_path / "t.csv", "# of today", "K;name;V", "a;'x;''y';NA", "", "b;;2")
    source = source_of(
        file, "k STRING; name STRING; v INT", delimiter=";", quote="'", header=True, comments=True, null="NA"
    )
    assert ask(source, "a", "b") == [[("x;'y", None)], [(None, 2)]]


def test_quotes_and_escapes_can_be_turned_off_and_on(tmp_path):
    file = written(tmp_path / "t.csv", 'a,"x"', 'b,5\\"')
    assert ask(source_of(file, "k STRING; v STRING", quote=None), "a") == [[('"x"',)]]
    assert ask(source_of(file, "k STRING; v STRING", quote=None, escape="\\"), "b") == [[('5"',)]]


def test_a_header_must_name_the_columns(tmp_path):
    file = written(tmp_path / "t.csv", "k,w", "a,1")
    with pytest.raises(ConnectorError, match=r'SS525: column 2 in the header of file ".*" is "w", not "v" '):
        ask(source_of(file, "k STRING; v INT", header=True), "a")


def test_texts_become_the_declared_types(tmp_path):
    kinds = "k BIGINT; d DECIMAL(6, 2); day DATE; at TIMESTAMP; local TIMESTAMP_NTZ; f FLOAT; b BOOLEAN"
    file = written(
        tmp_path / "t.csv",
        "1,1.239,2024-01-31,2024-01-31 12:30:00.5,2024-01-31 12:30:00,0.5,true",
        "2,,,2024-07-31T12:30:00Z,,NaN,",
    )
    first, second = ask(source_of(file, kinds, zone="Europe/Amsterdam"), 1, 2)
    assert first == [
        (
            Decimal("1.24"),
            date(2024, 1, 31),
            datetime(2024, 1, 31, 11, 30, 0, 500_000, UTC),
            datetime(2024, 1, 31, 12, 30),
            0.5,
            True,
        )
    ]
    assert second[0][2] == datetime(2024, 7, 31, 12, 30, tzinfo=UTC)
    assert math.isnan(second[0][4])


def test_json_reads_nested_values_and_only_what_is_asked_for(tmp_path):
    rows = [{"k": "a", "s": {"x": 1, "y": ["p"]}, "at": "2024-01-31T12:30:00", "odd": [{}]}, {"k": "b"}]
    file = written(tmp_path / "t.json", *map(json.dumps, rows))
    source = source_of(file, "k STRING; s STRUCT<x: INT, y: ARRAY<STRING>>; at TIMESTAMP", "json", read="at s")
    answers = ask(source, "a", "b")
    assert answers == [[(datetime(2024, 1, 31, 12, 30, tzinfo=UTC), {"x": 1, "y": ["p"]})], [(None, None)]]


@pytest.mark.parametrize(
    ("form", "lines", "settings", "message"),
    [
        ("csv", ["a,1", "b", "c,2"], {}, "line 2: the record is no CSV row of 2 columns: it has 1: b"),
        ("csv", ["a,1", "b,x", "c,2"], {}, 'line 2: column "v" of type INT is "x": b,x'),
        ("json", ['{"k": "a", "v": 1}', "oops", '{"k": "c", "v": 2}'], {}, "line 2: the record is no JSON object"),
        (
            "json",
            ['{"k": "a", "v": 1}', '{"k": "b", "v": "x"}', '{"k": "c", "v": 2}'],
            {},
            'line 2: column "v" of type INT is "x"',
        ),
    ],
)
def test_unreadable_rows_fail_the_file_or_are_dropped(tmp_path, form, lines, settings, message):
    file = written(tmp_path / "t", *lines)
    with pytest.raises(ConnectorError) as caught:
        ask(source_of(file, "k STRING; v INT", form), "a")
    assert (caught.value.code, message in str(caught.value)) == ("SS583", True)
    assert str(file) in str(caught.value)
    assert ask(source_of(file, "k STRING; v INT", form, drop=True), "a", "b", "c") == [[(1,)], [], [(2,)]]


def test_a_standard_of_timestamps_is_kept(tmp_path):
    file = written(tmp_path / "t.json", '{"k": "a", "v": "2024-01-31T12:30:00"}')
    with pytest.raises(ConnectorError, match='column "v" of type TIMESTAMP is "2024-01-31T12:30:00"'):
        ask(source_of(file, "k STRING; v TIMESTAMP", "json", timestamps="SQL"), "a")
    assert ask(source_of(file, "k STRING; v TIMESTAMP", "json", timestamps="ISO-8601"), "a") != [[]]


YEARS = "and lookups have the years 1 to 9999"


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("DATE", "12024-01-31", f'column "v" of type DATE is 12024-01-31, {YEARS}'),
        ("DATE", "-0044-03-15", f'column "v" of type DATE is -044-03-15, {YEARS}'),
        ("TIMESTAMP", "12024-01-31 12:30:00", f'column "v" of type TIMESTAMP is 12024-01-31 12:30:00Z, {YEARS}'),
        ("TIMESTAMP_NTZ", "12024-01-31 12:30:00.5", f"is 12024-01-31 12:30:00.500000, {YEARS}"),
    ],
)
def test_a_time_that_python_lacks_is_a_bad_value_of_its_line(tmp_path, kind, text, message):
    for form, lines in (
        ("csv", ["a,", f"b,{text}", "c,"]),
        ("json", ['{"k": "a"}', f'{{"k": "b", "v": "{text}"}}', '{"k": "c"}']),
    ):
        file = written(tmp_path / f"t.{form}", *lines)
        with pytest.raises(ConnectorError) as caught:
            ask(source_of(file, f"k STRING; v {kind}", form), "a")
        assert f'SS583: file "{file}" of table "t" cannot be read: line 2: ' in str(caught.value)
        assert message in str(caught.value)
        assert ask(source_of(file, f"k STRING; v {kind}", form, drop=True), "a", "b", "c") == [[(None,)], [], [(None,)]]
    key = written(tmp_path / "key.csv", f"{text},1")
    with pytest.raises(ConnectorError, match=r'line 1: column "k" of type'):
        ask(source_of(key, f"k {kind}; v INT"), date(2024, 1, 31))


def test_a_time_that_python_lacks_is_found_within_values_and_in_names_of_directories(tmp_path):
    late, early = (pa.scalar(n, pa.int64()).cast(pa.timestamp("us", "UTC")) for n in (317_241_360_000_000_000, 0))
    inner = pa.StructArray.from_arrays([pa.array([early, late, late])], ["at"], mask=pa.array([False, True, False]))
    values = pa.ListArray.from_arrays(pa.array([0, 2, 2, 3], pa.int32()), inner)
    parquet.write_table(pa.table({"k": [1, 2, 3], "v": values}), tmp_path / "t")
    source = source_of(tmp_path / "t", "k BIGINT; v ARRAY<STRUCT<at: TIMESTAMP>>", "parquet")
    with pytest.raises(ConnectorError) as caught:
        ask(source, 1)
    kind = "ARRAY<STRUCT<at: TIMESTAMP>>"
    assert f'row 3: column "v" of type {kind} has 12022-12-24 00:00:00Z, {YEARS}' in str(caught.value)

    maps = pa.array([[("a", None)], None, [("b", 0), ("c", 317_241_360_000_000_000)]], pa.map_(pa.string(), pa.int64()))
    times = pa.MapArray.from_arrays(maps.offsets, maps.keys, maps.items.view(pa.timestamp("us")))
    parquet.write_table(pa.table({"k": [1, 2, 3], "v": times}).slice(1), tmp_path / "maps")
    with pytest.raises(
        ConnectorError, match=r"row 2: column .v. of type MAP<STRING, TIMESTAMP_NTZ> has 12022-12-24 00:00"
    ):
        ask(source_of(tmp_path / "maps", "k BIGINT; v MAP<STRING, TIMESTAMP_NTZ>", "parquet"), 1)

    folder = tmp_path / "in" / "day=12024-01-31"
    folder.mkdir(parents=True)
    written(folder / "t.csv", "1")
    with pytest.raises(
        ConnectorError, match=r'column "day" of type DATE is 12024-01-31, .*: it is the name of its dir'
    ):
        ask(source_of(tmp_path / "in", "k INT; day DATE", partitions=("day",)), 1)


def test_a_timestamp_of_orc_that_arrow_lacks_is_named(tmp_path):
    times = pa.array([datetime(2024, 1, 31), None, datetime(3000, 1, 1)], pa.timestamp("us", "UTC"))
    orc.write_table(
        pa.table({"k": [1, 2, 3], "T": times, "of": times.to_pylist(), "all": [[t] for t in times.to_pylist()]}),
        tmp_path / "t",
    )
    for column, kind in (("t", "TIMESTAMP"), ("all", "ARRAY<TIMESTAMP>")):
        with pytest.raises(ExecutionError) as caught:
            ask(source_of(tmp_path / "t", f"k BIGINT; {column} {kind}", "orc"), 1)
        assert str(caught.value) == (
            f'SS402: column "{column}" of type {kind} is 3000-01-01 00:00:00 in stripe 1 of file "{tmp_path / "t"}", '
            "before 1677 or after 2262\nHINT: Write the files as Parquet, of which lookups read other years, too."
        )
    assert ask(source_of(tmp_path / "t", "k BIGINT; later DATE", "orc", nulls=True), 1) == [[(None,)]]


@pytest.mark.parametrize(("form", "write"), [("parquet", parquet.write_table), ("orc", orc.write_table)])
def test_columns_of_parquet_and_orc_are_found_by_name(tmp_path, form, write):
    table = pa.table({"V": pa.array([1, 2], pa.int64()), "k": ["a", "b"], "tags": [["x"], None]})
    write(table, tmp_path / "t")
    columns = "k STRING; v BIGINT; tags ARRAY<STRING>; later DATE"
    source = source_of(tmp_path / "t", columns, form, nulls=True)
    assert ask(source, "a", "b") == [[(1, ["x"], None)], [(2, None, None)]]
    with pytest.raises(ConnectorError, match=r'SS524: file ".*/t" has no column "later"\nHINT: Columns: V, k, tags'):
        ask(source_of(tmp_path / "t", columns, form), "a")


def test_times_of_parquet_are_in_utc_as_in_streams_whatever_the_zone(tmp_path):
    noon = datetime(2024, 1, 31, 12)
    naive = pa.array([noon], pa.timestamp("us"))
    aware = pa.array([noon], pa.timestamp("us", "UTC"))
    parquet.write_table(pa.table({"k": [1], "naive": naive, "aware": aware}), tmp_path / "t")
    parquet.write_table(pa.table({"k": [2], "naive": naive}), tmp_path / "old", use_deprecated_int96_timestamps=True)
    zone = "Europe/Amsterdam"
    read = source_of(tmp_path / "t", "k BIGINT; naive TIMESTAMP; aware TIMESTAMP_NTZ", "parquet", zone=zone)
    assert ask(read, 1) == [[(noon.replace(tzinfo=UTC), noon)]]
    old = source_of(tmp_path / "old", "k BIGINT; naive TIMESTAMP", "parquet", zone=zone)
    assert ask(old, 2) == [[(noon.replace(tzinfo=UTC),)]]


def test_lines_of_text_are_values(tmp_path):
    file = written(tmp_path / "t.txt", "stop", "go")
    assert ask(source_of(file, "line STRING", "text", "line", "line"), "go", "wait") == [[("go",)], []]


def test_files_may_be_compressed_and_empty(tmp_path):
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,1\n"))
    written(tmp_path / "empty.csv")
    assert ask(source_of(tmp_path, "k STRING; v INT"), "a") == [[(1,)]]
    for header in (True, False):
        assert ask(source_of(tmp_path / "empty.csv", "k STRING; v INT", header=header), "a") == [[]]
    assert ask(source_of(written(tmp_path / "named.csv", "k,v"), "k STRING; v INT", header=True), "a") == [[]]


def test_directories_patterns_and_partitions_hold_files(tmp_path):
    for day, rows in (("2024-01-31", "a,1"), ("2024-02-01", "a,2")):
        (tmp_path / f"day={day}").mkdir()
        os.utime(written(tmp_path / f"day={day}" / "part.csv", rows), (0, int(day[-2:])))
    written(tmp_path / "_SUCCESS", "x")
    source = source_of(tmp_path, "k STRING; v INT; day DATE", partitions=("day",))
    assert ask(source, "a") == [[(2, date(2024, 2, 1)), (1, date(2024, 1, 31))]]
    assert ask(source_of(tmp_path / "*" / "*.csv", "k STRING; v INT"), "a") == [[(2,), (1,)]]
    by_day = source_of(tmp_path, "k STRING; v INT; day DATE", keys="day k", partitions=("day",))
    assert ask(by_day, (date(2024, 1, 31), "a")) == [[(1,)]]


def test_names_of_directories_are_escaped_as_sinks_escape_them_and_in_any_case(tmp_path):
    folder = tmp_path / f"{escaped('a:b')}={escaped('x=y/z')}" / "Day=1"
    folder.mkdir(parents=True)
    written(folder / "part.csv", "k,1")
    source = source_of(tmp_path, "k STRING; v INT; a:b STRING; day INT", partitions=("a:b", "day"))
    assert ask(source, "k") == [[(1, "x=y/z", 1)]]


@pytest.mark.parametrize("pattern", ["in", "i*", "in/"])
def test_of_a_sink_only_the_files_of_its_log_count(tmp_path, pattern):
    """Others are of a micro-batch that was never complete, or has been written again."""
    folder = tmp_path / "in"
    for name, log in (("a.csv", "0"), ("b é.csv", "1"), ("c.csv", None), ("day=2/d.csv", "2")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        file = written(folder / name, f"k,{name[0]}")
        os.utime(file, (ord(name[0]), ord(name[0])))
        if log is not None:
            begin_after(folder, int(log) - 1)
            log_batch(folder, int(log), [(file, 1, 1)])

    async def look():
        async with opened(source_of(tmp_path / pattern, "k STRING; v STRING")) as client:
            before = await client.ask([("k",)])
            assert not await client.reload()
            log_batch(folder, 3, [(folder / "c.csv", 1, 1)])
            assert await client.reload()
            after = await client.ask([("k",)])
            (folder / "a.csv").unlink()
            with pytest.raises(ConnectorError, match=r'SS583: path ".*/in/a.csv" cannot be read .* No such file'):
                await client.reload()
            return before, after

    assert asyncio.run(look()) == ([[("a",), ("b",), ("d",)]], [[("a",), ("b",), ("c",), ("d",)]])


def test_filters_hold_for_the_rows_that_are_kept(tmp_path):
    file = written(tmp_path / "t.csv", "a,1,x", "a,2,", "a,3,y", "a,,z")
    kept = {}
    for operator, value in (("<", 3), ("IN", (1, 3)), ("IS NULL", None), ("<>", 1), ("IS NOT NULL", None)):
        source = source_of(file, "k STRING; v INT; w STRING", read="w", filters=(Comparison("v", operator, value),))
        kept[operator] = [w for rows in ask(source, "a") for (w,) in rows]
    assert kept == {
        "<": ["x", None],
        "IN": ["x", "y"],
        "IS NULL": ["z"],
        "<>": [None, "y"],
        "IS NOT NULL": ["x", None, "y"],
    }


def test_changed_files_are_loaded_again_and_others_are_not(tmp_path):
    file = written(tmp_path / "t.csv", "a,1")

    async def scenario():
        async with opened(source_of(tmp_path, "k STRING; v INT")) as client:
            assert not await client.reload()
            written(file, "a,10")
            written(tmp_path / "more.csv", "b,2")
            before = await client.ask([("a",), ("b",)])
            assert await client.reload()
            return before, await client.ask([("a",), ("b",)])

    assert asyncio.run(scenario()) == ([[(1,)], []], [[(10,)], [(2,)]])


def test_files_have_another_word_when_they_have_changed(tmp_path):
    written(tmp_path / "t.csv", "a,1")
    before = as_of(str(tmp_path))
    assert as_of(str(tmp_path)) == before
    written(tmp_path / ".hidden", "a,1")
    assert as_of(str(tmp_path)) == before
    written(tmp_path / "more.csv", "b,2")
    assert as_of(str(tmp_path)) != before
    nowhere = str(tmp_path / "only on workers")
    assert as_of(nowhere) != as_of(nowhere)
    assert source_of(tmp_path, "k STRING") == source_of(tmp_path, "k STRING")
    assert replace(source_of(tmp_path, "k STRING"), as_of="1") != replace(source_of(tmp_path, "k STRING"), as_of="2")


@pytest.mark.parametrize("way", ["written in place", "moved into its place"])
def test_a_file_of_the_same_size_and_time_is_another_one(tmp_path, way):
    """As ``cp -p`` and ``rsync -t`` leave it."""
    file, beside = tmp_path / "in" / "t.csv", tmp_path / "beside"
    file.parent.mkdir()
    written(file, "a,1")
    os.utime(file, (1, 1))
    before = as_of(str(file.parent)), as_of(str(file)), file_as_of(str(file))
    target = file if way == "written in place" else beside
    written(target, "a,2")
    os.utime(target, (1, 1))
    target.rename(file)
    after = as_of(str(file.parent)), as_of(str(file)), file_as_of(str(file))
    assert all(one != other for one, other in zip(before, after, strict=True))


def test_reloads_come_by_themselves_and_a_failing_one_keeps_the_rows(tmp_path, caplog):
    file = written(tmp_path / "t.csv", "a,1")

    async def until(client, condition):
        while not condition(await client.ask([("a",)])):
            await asyncio.sleep(0.005)

    async def scenario():
        async with opened(source_of(file, "k STRING; v INT", reload_ms=5)) as client:
            written(file, "a,x")
            await until(client, lambda _: caplog.records)
            assert await client.ask([("a",)]) == [[(1,)]]
            written(file, "a,22")
            await until(client, lambda actual: actual == [[(22,)]])

    with caplog.at_level(logging.WARNING, "sqlstream.lookup"):
        asyncio.run(asyncio.wait_for(scenario(), 60))
    message = caplog.messages[0]
    assert 'table "t" keeps the rows it has, reloading failed' in message
    assert 'column "v" of type INT is "x"' in message


def test_a_path_that_does_not_exist_is_an_error(tmp_path):
    with pytest.raises(ConnectorError, match="does not exist") as caught:
        ask(source_of(tmp_path / "none", "k STRING; v INT"), "a")
    assert caught.value.code == "SS583"


VALUES = st.one_of(st.none(), st.sampled_from([0.0, -0.0, 1.5, math.nan]))


@settings(max_examples=60)
@given(st.lists(st.tuples(VALUES, st.sampled_from(["a", "b", None]))), st.tuples(VALUES, st.sampled_from("ab")))
def test_an_index_finds_what_a_loop_over_rows_finds(rows, key):
    if key[0] is None:
        return
    table = pa.table(
        {
            "f": pa.array([r[0] for r in rows], pa.float64()),
            "s": pa.array([r[1] for r in rows], pa.string()),
            "n": pa.array(range(len(rows)), pa.int64()),
        }
    )
    request = Request(columns_of("f DOUBLE; s STRING"), columns_of("n BIGINT"))

    def equal(x, y):
        return x == y or (x is not None and y is not None and x != x and y != y)

    expected = [(n,) for n, row in enumerate(rows) if equal(row[0], key[0]) and row[1] == key[1]]
    assert Index(table, request).rows(key) == expected


@pytest.mark.parametrize("path", ["/tmp/" + "x" * 300, "/tmp/\ud800"])
def test_a_path_that_no_file_system_takes_is_an_error_of_ours(path):
    with pytest.raises(ConnectorError, match="SS583"):
        ask(source_of(Path(path), "k STRING; v STRING"), ("a",))


def test_a_key_that_is_no_text_finds_nothing(tmp_path):
    assert ask(source_of(written(tmp_path / "a.csv", "a,1"), "k STRING; v STRING", read="v"), ("\ud800",)) == [[]]


@pytest.mark.parametrize(
    ("form", "text"),
    [("csv", b"a,1\nb,\xff\n"), ("json", b'{"k": "a", "v": "1"}\n{"k": "b", "v": "\xff"}\n'), ("raw", b"a\n\xff\n")],
)
def test_a_file_that_is_no_text_is_told_with_its_line(form, text, tmp_path):
    file = tmp_path / f"t.{form}"
    file.write_bytes(text)
    columns = "k STRING" if form == "raw" else "k STRING; v STRING"
    with pytest.raises(ConnectorError, match=r"SS583: file .* cannot be read: line 2: .*UTF-8"):
        ask(source_of(file, columns, form), "a")


def test_lines_are_those_of_the_stream(tmp_path):
    text = source_of(written(tmp_path / "t", "a\u2028b"), "k STRING", "text")
    assert ask(text, ("a\u2028b",)) == [[()]]
    folded = source_of(written(tmp_path / "c", '1,"x', 'y"'), "k INT; s STRING", multi_line=True)
    assert ask(folded, (1,)) == [[("x\ny",)]]
    two = written(tmp_path / "j", '{"k": 1}{"k": 2}', '{"k": 3}')
    with pytest.raises(ConnectorError, match="line 1: something follows the JSON object"):
        ask(source_of(two, "k INT; s STRING", "json"), (1,))
    assert ask(source_of(two, "k INT; s STRING", "json", drop=True), (2,), (3,)) == [[], [(None,)]]
