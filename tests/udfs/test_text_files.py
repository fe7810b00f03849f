"""File ranges of text become rows, with bad records and their places."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sqlstream.errors import ConnectorError, ExecutionError
from sqlstream.formats.csv import CsvDecoder
from sqlstream.formats.csv_records import Dialect
from sqlstream.formats.decoder import Decoder, Field, cut
from sqlstream.formats.json import JsonDecoder
from sqlstream.formats.lines import LineDecoder
from sqlstream.types import STRING, TIMESTAMP, DataType
from sqlstream.udfs.bad_records import BAD, READ_LINE
from sqlstream.udfs.event_times import EARLIEST, LATEST
from sqlstream.udfs.exchange import PARTS
from sqlstream.udfs.files.records import RecordRows, RequiredValue
from sqlstream.udfs.files.splits import FILE, LENGTH, MODIFIED, SHARE, SHARES, FromFile
from sqlstream.udfs.files.text import Header, TextFormat
from sqlstream.udfs.messages import BAD_TYPE

DECODER = LineDecoder(Field("line", STRING))
LINE = {"line": pa.string()}
INT = DataType("INT")


def rows(reader: RecordRows, path: Path, shares: int = 1) -> list[dict[str, Any]]:
    size = path.stat().st_size
    places = [
        pa.RecordBatch.from_pylist([{FILE: path.as_uri(), LENGTH: size, MODIFIED: 0, SHARE: share, SHARES: shares}])
        for share in range(shares)
    ]
    return [row for place in places for batch in reader.rows([place]) for row in batch.to_pylist()]


@pytest.mark.parametrize("shares", [1, 2, 3, 9])
def test_every_line_is_in_one_share(shares: int, tmp_path: Path) -> None:
    path = tmp_path / "a b%20.txt"
    path.write_bytes(b"\xef\xbb\xbfhead\r\n" + b"".join(b"%d\r\n" % n for n in range(50)))
    header = Header("t", ((0, "HEAD"),), Dialect())
    reader = RecordRows(pa.schema(LINE), {}, TextFormat(DECODER, header=header))
    assert [row["line"] for row in rows(reader, path, shares)] == [str(n) for n in range(50)]


def test_properties_of_the_file_and_the_order_of_its_ranges_are_columns(tmp_path: Path) -> None:
    path = tmp_path / "a+%b.txt"
    path.write_text("x\ny\n")
    kinds = LINE | {"n": pa.string(), "s": pa.int64(), PARTS[0]: pa.int64(), PARTS[2]: pa.int64()}
    reader = RecordRows(pa.schema(kinds), {}, TextFormat(DECODER), {"n": "file.name", "s": "file.size"})
    time = path.stat().st_mtime_ns // 1_000_000 * 1000
    assert [[*row.values()] for row in rows(reader, path, 2)] == [
        ["x", "a+%b.txt", 4, time, 0],
        ["y", "a+%b.txt", 4, time, 2],
    ]


@pytest.mark.parametrize("shares", [1, 2])
def test_a_record_that_cannot_be_read_is_named_with_its_line(shares: int, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"a\n\ncaf\xe9 \t x\r\nb\n")
    text = f'SS402: a row in line 3 of file "{path}" cannot be read: it is no UTF-8: caf� x'
    with pytest.raises(ExecutionError, match=re.escape(text)):
        rows(RecordRows(pa.schema(LINE), {}, TextFormat(DECODER)), path, shares)


@pytest.mark.parametrize("shares", [1, 2, 3])
def test_bad_records_are_rows_where_the_table_tolerates_them(shares: int, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"a\n\ncaf\xe9\r\nb\r\n")
    text = TextFormat(DECODER, tolerant=True, keeps_records=True)
    found = rows(RecordRows(pa.schema({**LINE, BAD: BAD_TYPE}), {}, text), path, shares)
    assert sorted((row["line"], *row[BAD].values()) for row in found if row["line"] is not None) == [
        ("", b"", None, f"{path}:2"),
        ("a", b"a", None, f"{path}:1"),
        ("b", b"b", None, f"{path}:4"),
    ]
    (bad,) = (row[BAD] for row in found if row["line"] is None)
    assert bad == {"record": b"caf\xe9", "error": "SS402: it is no UTF-8", "place": f"{path}:3"}


def test_carriage_returns_alone_end_lines_of_csv_for_dead_letters_too(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"1,x\rno,y\r#z\r,z\r\n5,u\r\r,v\n")
    decoder = CsvDecoder([Field("n", INT), Field("s", STRING)], Dialect(comments=True))
    schema = pa.schema({"n": pa.int32(), BAD: BAD_TYPE})
    required = (RequiredValue("n", "SS403: no number"),)
    reader = RecordRows(schema, {}, TextFormat(decoder, tolerant=True), apart=True, required=required)
    bad = [row[BAD] for row in rows(reader, path) if row[BAD] is not None]
    assert sorted((row["place"], row["record"]) for row in bad) == [
        (f"{path}:2", b"no,y"),
        (f"{path}:4", b",z"),
        (f"{path}:7", b",v"),
    ]


@pytest.mark.parametrize("letters", [True, False])
@pytest.mark.parametrize("shares", [1, 2, 3])
def test_rows_without_a_required_value_are_bad_ones(shares: int, letters: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"1,2024-01-31\n,2024-01-31\n3,\nx,y\n,\n6,2024-01-31\n")
    decoder = CsvDecoder([Field("n", INT), Field("at", TIMESTAMP)])
    required = RequiredValue("at", "SS401: no time", 'event time "at"'), RequiredValue("n", "SS403: no number")
    schema = pa.schema({"n": pa.int32(), BAD: BAD_TYPE})
    text = TextFormat(decoder, tolerant=True)
    found = rows(RecordRows(schema, {}, text, apart=True, letters=letters, required=required), path, shares)
    assert sorted(row["n"] for row in found if row[BAD] is None) == [1, 6]
    bad = sorted((tuple(row[BAD].values()) for row in found if row[BAD] is not None), key=repr)
    reasons = [
        (b",", "SS401: no time", 5),
        (b",2024-01-31", "SS403: no number", 2),
        (b"3,", "SS401: no time", 3),
        (b"x,y", 'SS402: column "n" of type INT is "x", column "at" of type TIMESTAMP is "y"', 4),
    ]
    named = [(record, error, f"{path}:{line}") for record, error, line in reasons]
    assert bad == (named if letters else [(None, "SS402", None)] * 4)


def test_a_required_time_must_be_in_range() -> None:
    times = pa.array([0, None, LATEST, LATEST + 1, EARLIEST - 1], pa.int64()).cast(pa.timestamp("us"))
    required = RequiredValue("at", "SS401: NULL", 'event time "at"')
    errors = required.errors(pa.RecordBatch.from_arrays([times], ["at"]))
    assert errors is not None
    assert errors.to_pylist() == [
        None,
        "SS401: NULL",
        None,
        f'SS430: event time "at" is {LATEST + 1} microseconds after 1970, outside of the years -30000 to 29999',
        f'SS430: event time "at" is {EARLIEST - 1} microseconds after 1970, outside of the years -30000 to 29999',
    ]
    assert required.errors(pa.RecordBatch.from_arrays([times[:1]], ["at"])) is None


def test_records_end_with_their_line_whatever_follows() -> None:
    data = pa.py_buffer(b"a\n\n  \r\nb,\r\n\rc\n\n")
    spans = Decoder.spans(DECODER, data)  # blank lines are no records, as in CSV and JSON
    assert cut(data, *spans).to_pylist() == [b"a", b"b,", b"\rc"]
    quoted = pa.py_buffer(b'1,"a\r\nb"\r\n\n#x\r2,c\r3,d\n')
    decoder = CsvDecoder([Field("n", INT), Field("s", STRING)], Dialect(comments=True, multi_line=True))
    assert cut(quoted, *decoder.spans(quoted)).to_pylist() == [b'1,"a\r\nb"', b"2,c", b"3,d"]


@pytest.mark.parametrize(
    ("text", "lines"),
    [(b"1,a\n2,b\n3,c", [1, 2, 3]), (b"1,a\n\n2,b\r\n3,c\n\n", [1, 3, 4]), (b'1,"a\nb"\n2,b\n\n3,c\n', [1, 3, 5])],
)
@pytest.mark.parametrize("header", [False, True])
def test_rows_may_carry_the_line_in_which_they_begin(
    text: bytes, lines: list[int], header: bool, tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"n,s\n" * header + text)
    decoder = CsvDecoder([Field("n", INT), Field("s", STRING)], Dialect(multi_line=True))
    names = Header("t", ((0, "n"), (1, "s")), decoder.dialect) if header else None
    reader = RecordRows(
        pa.schema({"n": pa.int32(), READ_LINE: pa.int64()}),
        {},
        TextFormat(decoder, dialect=Dialect(multi_line=True), header=names),
    )
    assert [(row["n"], row[READ_LINE] - header) for row in rows(reader, path)] == [*enumerate(lines, 1)]


def test_an_event_time_that_is_null_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('2024-01-31 12:00:00\n\n"NULL"\n')
    decoder = CsvDecoder([Field("ts", TIMESTAMP)], Dialect(null="NULL"))
    columns = {"ts": FromFile("ts", pa.timestamp("us", "UTC"), event_time='event time "ts" of table "t"')}
    reader = RecordRows(pa.schema({"ts": pa.timestamp("us", "UTC")}), columns, TextFormat(decoder))
    message = f'event time "ts" of table "t" is NULL in line 3 of file "{path}"'
    with pytest.raises(ExecutionError, match=re.escape(message)):
        rows(reader, path)


def test_a_null_that_is_not_allowed_is_named_with_its_line(tmp_path: Path) -> None:
    class Nulls(LineDecoder):
        def block(self, data: pa.Buffer) -> Any:
            decoded = LineDecoder.block(self, data)
            lines = [line or None for line in decoded.rows["line"].to_pylist()]
            return type(decoded)(pa.RecordBatch.from_pydict({"line": pa.array(lines, pa.string())}), len(lines))

    path = tmp_path / "a.txt"
    path.write_text("a\nb\n\n")
    columns = {"v": FromFile("line", pa.string(), not_null='column "line" of table "t" is NOT NULL and got NULL')}
    reader = RecordRows(pa.schema({"v": pa.string()}), columns, TextFormat(Nulls(DECODER.field)))
    with pytest.raises(ExecutionError, match=re.escape(f'got NULL in line 3 of file "{path}": {{"line":null}}')):
        rows(reader, path)


@pytest.mark.parametrize("shares", [1, 2, 3, 20])
@pytest.mark.parametrize(
    "text",
    [
        "a,b\r1\r2\n3\n",
        "a,b\r\n1\r\n2\n3",
        "\n  \na,b\n1\n2\n3\n",
        "# a licence\n# of two lines\n\na,b\n1\n2\n3\n",
        "\ufeff# x\n'a','b'\n1\n2\n3\n",
    ],
)
def test_the_header_is_the_first_record_whoever_reads_it(text: str, shares: int, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text, newline="")
    dialect = Dialect(comments=True, quote="'")
    decoder = CsvDecoder([Field("a", INT)], dialect)
    reader = RecordRows(pa.schema({"a": pa.int32()}), {}, TextFormat(decoder, header=Header("t", ((0, "a"),), dialect)))
    assert sorted(row["a"] for row in rows(reader, path, shares)) == [1, 2, 3]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,y\n", 'column 2 in the header of file ".*" is "y", not "b" of table "t"'),
        ("a\n", 'column 2 in the header of file ".*" is no column, not "b" of table "t"'),
        ("a,b,c\n", 'the header of file ".*" has 3 columns, and table "t" has 2: it has no "c"'),
        ('# note\n"A","b"\nx\n', None),
    ],
)
def test_headers_are_checked(text: str, said: str | None, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text)
    header = Header("t", ((0, "a"), (1, "b")), Dialect(comments=True), 2)
    reader = RecordRows(pa.schema(LINE), {}, TextFormat(DECODER, header=header))
    if said is None:
        assert rows(reader, path) == [{"line": "x"}]
    else:
        with pytest.raises(ConnectorError, match=f"SS525: {said}"):
            rows(reader, path)


def test_bytes_that_an_encoding_does_not_have_are_a_fault_that_names_it(tmp_path: Path) -> None:
    fields = (Field("a", INT), Field("b", STRING))
    decoders: dict[str, Decoder] = {
        '1,"\x80"\n2,\x81\n': CsvDecoder(fields),
        '{"a":1,"b":"\x80"}\n{"a":2,"b":"\x81"}\n': JsonDecoder(fields),
        "\x80\n\x81\n": LineDecoder(fields[1]),
    }
    path = tmp_path / "f"
    for text, decoder in decoders.items():
        path.write_bytes(text.encode("latin-1"))
        (decoded, read), *_ = TextFormat(decoder, "cp1252").decoded(str(path))
        assert decoded.rows.column("b").to_pylist() == ["\u20ac"]
        (fault,) = decoded.faults
        assert read.message(fault).startswith("line 2: it is no cp1252")
