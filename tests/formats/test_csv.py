"""CSV: what each fault is, and that the quick way reads what a reader of single characters does."""

from __future__ import annotations

import pickle
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.formats.csv import CsvDecoder
from sqlstream.formats.csv_records import Dialect, Lines, lines_without_utf8
from sqlstream.formats.decoder import Decoded, Field, without
from sqlstream.types import parse_type
from tests.depth import depth

NO_ROW = "the record is no CSV row of 2 columns: "


def decoder(columns: str = "a INT; b STRING", unread: str = "", zone: str = "UTC", **dialect: Any) -> CsvDecoder:
    declared = (column.split(" ", 1) for column in columns.split("; "))
    fields = [Field(name, parse_type(kind), name not in unread.split()) for name, kind in declared]
    return CsvDecoder(fields, Dialect(**dialect), zone)


def rows_of(decoded: Decoded) -> list[tuple[Any, ...]]:
    assert decoded.rows.num_rows + len(decoded.faults) == decoded.records
    return [tuple(row.values()) for row in decoded.rows.to_pylist()]


def read(data: bytes, columns: str = "a INT; b STRING", **options: Any) -> Decoded:
    return decoder(columns, **options).block(pa.py_buffer(data))


@pytest.mark.parametrize(
    ("data", "options", "rows"),
    [
        (b"1,x\n2,y", {}, [(1, "x"), (2, "y")]),
        (b"1,x\r\n2,y\r\n", {}, [(1, "x"), (2, "y")]),
        (b"1,x\r2,y\r", {}, [(1, "x"), (2, "y")]),
        (b"\n\n1,x\n\n  \n\t \n2,y\n\n", {}, [(1, "x"), (2, "y")]),
        (b'1,\n2,""\n,x\n', {}, [(1, None), (2, ""), (None, "x")]),
        (b'1,"a,b"\n2,"say ""x"""\n3," "\n4, x \n', {}, [(1, "a,b"), (2, 'say "x"'), (3, " "), (4, " x ")]),
        (b'1,5" pipe\n2, "x"\n3,a""b\n', {}, [(1, '5" pipe'), (2, ' "x"'), (3, 'a""b')]),
        (b"1,'x,y'\n2,it''s\n", {"quote": "'"}, [(1, "x,y"), (2, "it''s")]),
        (b'1,"x"\n', {"quote": None}, [(1, '"x"')]),
        (b"1\tx,y\n\tz\n", {"delimiter": "\t"}, [(1, "x,y"), (None, "z")]),
        ("1§x\n2§«y§z«\n".encode(), {"delimiter": "§", "quote": "«"}, [(1, "x"), (2, "y§z")]),
        (b'1,a\\,b\n2,"a\\"b"\n3,\\"x\\\\\n4,"x""y"\n', {"escape": "\\"},
         [(1, "a,b"), (2, 'a"b'), (3, '"x\\'), (4, 'x"y')]),
        (b'1,a^\xc3\xa9\n2,"^\xc3\xa9"\n', {"escape": "^"}, [(1, "aé"), (2, "é")]),
        (b'1,"C:\\"\n', {"escape": '"'}, [(1, "C:\\")]),
        (b'n/a,n/a\n1,"n/a"\n2,\n3,""\n', {"null": "n/a"}, [(None, None), (1, None), (2, None), (3, "")]),
        (b"# c\n1,#x\n #,y\n#\n", {"comments": True, "columns": "a STRING; b STRING"}, [("1", "#x"), (" #", "y")]),
        (b"# c,d\n", {"columns": "a STRING; b STRING"}, [("# c", "d")]),
        (b'1,"a\r\nb"\n2,"#\n\n"\n', {"multi_line": True, "comments": True}, [(1, "a\r\nb"), (2, "#\n\n")]),
        (b"\xef\xbb\xbf,x\n", {"columns": "a STRING; b STRING"}, [("\ufeff", "x")]),
        (b"1,x\0y\n", {}, [(1, "x\0y")]),
        (b"a b\n \n\nc\n", {"columns": "a STRING"}, [("a b",), ("c",)]),
        (b"", {}, []),
        (b"\n \n", {}, []),
    ],
)  # fmt: skip
def test_rows_are_read(data: bytes, options: dict[str, Any], rows: list[tuple[Any, ...]]) -> None:
    decoded = read(data, **options)
    assert (rows_of(decoded), decoded.faults) == (rows, [])


PAGE = (Path(__file__).parents[2] / "docs" / "formats.md").read_text(encoding="utf-8").split("\n## CSV\n")[1]
EXAMPLES = re.findall(r"^\| `(.*)` \| (.*) \|$", PAGE.split("\n## ")[0], re.MULTILINE)


@pytest.mark.parametrize(("text", "expected"), EXAMPLES)
def test_the_page_of_formats_is_true(text: str, expected: str) -> None:
    decoded = read(text.replace("⏎", "\n").encode())
    faults = {f.record: "fault: " + f.reason.removeprefix(NO_ROW) for f in decoded.faults}
    rows = iter("`" + ",".join("NULL" if v is None else str(v) for v in row) + "`" for row in rows_of(decoded))
    assert " · ".join(faults.get(i) or next(rows) for i in range(decoded.records)) == expected


def test_the_page_has_examples_of_records() -> None:
    assert len(EXAMPLES) >= 8


FAULTS: dict[str, tuple[bytes, dict[str, Any], list[tuple[Any, ...]], list[tuple[int, bytes, str]]]] = {
    "a quote that is never closed": (
        b'1,x\n2,"abc\n3,y\n4,z', {}, [(1, "x"), (3, "y"), (4, "z")],
        [(1, b'2,"abc', NO_ROW + 'the quote of column "b" is never closed')]),
    "a quote that is never closed, with multi-line": (
        b'1,x\n2,"abc\n3,"y"\n4,z', {"multi_line": True}, [(1, "x"), (3, "y"), (4, "z")],
        [(1, b'2,"abc', NO_ROW + 'the quote of column "b" is never closed')]),
    "a quote that is never closed in a field too many": (
        b'1,x,"y\n3,y\n', {}, [(3, "y")], [(0, b'1,x,"y', NO_ROW + "the quote is never closed")]),
    "a quoted line break": (
        b'1,"x\ny"\n2,z\n', {}, [(2, "z")],
        [(0, b'1,"x\ny"', NO_ROW + "a quoted field has a line break, and 'csv.multi-line' is not 'true'")]),
    "a quoted carriage return": (
        b'1,"x\ry"\n2,z\n', {}, [(2, "z")],
        [(0, b'1,"x\ry"', NO_ROW + "a quoted field has a line break, and 'csv.multi-line' is not 'true'")]),
    "something behind quotes": (
        b'1,"a"b\n2,"a" \n3,z\n', {}, [(3, "z")],
        [(0, b'1,"a"b', NO_ROW + 'something follows the quotes of column "b"'),
         (1, b'2,"a" ', NO_ROW + 'something follows the quotes of column "b"')]),
    "too few and too many fields": (
        b"1\n2,b,c\n3,z\n", {}, [(3, "z")], [(0, b"1", NO_ROW + "it has 1"), (1, b"2,b,c", NO_ROW + "it has 3")]),
    "too few quoted fields": (
        b'"1"\n"2","b",""\n3,z\n', {}, [(3, "z")],
        [(0, b'"1"', NO_ROW + "it has 1"), (1, b'"2","b",""', NO_ROW + "it has 3")]),
    "no UTF-8": (
        b"1,caf\xe9\n2,caf\xc3\xa9\n3,\xc3\n\xed\xa0\x80,x\r\n", {}, [(2, "café")],
        [(0, b"1,caf\xe9", "the record is not UTF-8"), (2, b"3,\xc3", "the record is not UTF-8"),
         (3, b"\xed\xa0\x80,x", "the record is not UTF-8")]),
    "values that do not fit": (
        b'x,a\n1.5,b\n"",c\n2147483648,d\r\n5,e\n', {}, [(5, "e")],
        [(0, b"x,a", 'column "a" of type INT is "x"'), (1, b"1.5,b", 'column "a" of type INT is "1.5"'),
         (2, b'"",c', 'column "a" of type INT is ""'), (3, b"2147483648,d", 'column "a" of type INT is "2147483648"')]),
    "two values": (
        b"x,y\n", {"columns": "a INT; b DATE"}, [],
        [(0, b"x,y", 'column "a" of type INT is "x", column "b" of type DATE is "y"')]),
    "an escape at the end": (
        b"1,x\\\n2,y\n", {"escape": "\\"}, [(2, "y")],
        [(0, b"1,x\\", NO_ROW + "the escape character at its end escapes nothing")]),
    "a fault behind lines that are no records": (
        b"#\n\n1,x\n \nq,y\n", {"comments": True}, [(1, "x")], [(1, b"q,y", 'column "a" of type INT is "q"')]),
    "a fault behind a record of two lines": (
        b'1,"x\n,y"\n\nq,"y\n"\n', {"multi_line": True}, [(1, "x\n,y")],
        [(1, b'q,"y\n"', 'column "a" of type INT is "q"')]),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_those_of_their_records(name: str) -> None:
    data, options, rows, faults = FAULTS[name]
    decoded = read(data, **options)
    assert rows_of(decoded) == rows
    assert [(f.record, f.text, f.reason) for f in decoded.faults] == faults
    assert all(data[f.start :].startswith(f.text) for f in decoded.faults)


@pytest.mark.parametrize("name", FAULTS)
def test_columns_that_are_not_wanted_are_checked(name: str) -> None:
    data, options, rows, faults = FAULTS[name]
    for unread in ("a", "b", "a b"):
        decoded = read(data, **options, unread=unread)
        assert [(f.record, f.text, f.reason) for f in decoded.faults] == faults
        assert decoded.rows.num_rows == len(rows)
        kept = [n for n in ("a", "b") if n not in unread.split()]
        assert decoded.rows.schema == decoder(options.get("columns", "a INT; b STRING"), unread).schema
        assert decoded.rows.schema.names == kept


def test_a_column_of_void_is_counted_and_not_looked_at() -> None:
    decoded = read(b"1,x\nz,2\n3\n4,5\n", "a VOID; b INT", unread="a")
    assert rows_of(decoded) == [(2,), (5,)]
    assert [f.reason for f in decoded.faults] == ['column "b" of type INT is "x"', NO_ROW + "it has 1"]


def test_values_are_those_of_their_types() -> None:
    columns = "t TIMESTAMP; d DECIMAL(5, 2); b BOOLEAN; n TIMESTAMP_NTZ; k TIME"
    decoded = read(b"2024-07-31 12:30:00,1.239,yes,2024-07-31T12:30,12:30\n", columns, zone="Europe/Berlin")
    assert decoded.rows.schema == pa.schema(
        [(c.split()[0], parse_type(c.split(" ", 1)[1]).to_arrow()) for c in columns.split("; ")]
    )
    assert list(map(str, rows_of(decoded)[0])) == [
        "2024-07-31 10:30:00+00:00", "1.24", "False", "2024-07-31 12:30:00", "12:30:00"]  # fmt: skip


def test_a_message_is_a_record() -> None:
    values = [b"1,x", None, b"", b"2,y\r\n", b'3,"a\nb"', b"4,a\n5,b", b"x,y", b" ", b'6,"x', b"\xff,a", b"#,b", b"7,z"]
    decoded = pickle.loads(pickle.dumps(decoder(comments=True))).messages(pa.array(values, pa.binary()))
    assert rows_of(decoded) == [(1, "x"), (2, "y"), (3, "a\nb"), (7, "z")]
    assert [(f.record, f.start, f.text, f.reason) for f in decoded.faults] == [
        (1, 0, b"", NO_ROW + "it is empty"),
        (2, 0, b"", NO_ROW + "it is empty"),
        (5, 0, b"4,a\n5,b", NO_ROW + "it has several lines"),
        (6, 0, b"x,y", 'column "a" of type INT is "x"'),
        (7, 0, b" ", NO_ROW + "it is empty"),
        (8, 0, b'6,"x', NO_ROW + 'the quote of column "b" is never closed'),
        (9, 0, b"\xff,a", "the record is not UTF-8"),
        (10, 0, b"#,b", NO_ROW + "it is a comment"),
    ]
    assert rows_of(decoder().messages(pa.array([b"1,x", b"2,y"]).slice(1))) == [(2, "y")]
    assert decoder().messages(pa.array([], pa.binary())).records == 0


def test_an_empty_message_is_the_null_of_a_single_column() -> None:
    one = CsvDecoder([Field("a", parse_type("STRING"))])
    decoded = one.messages(pa.array([b"x", b"", None, b" ", b""], pa.binary()))
    assert rows_of(decoded) == [("x",), (None,), (None,)]
    assert [(f.record, f.text) for f in decoded.faults] == [(2, b""), (3, b" ")]


def test_records_longer_than_a_block_of_arrow_are_read() -> None:
    long = "x" * (5 << 20)
    assert rows_of(read(f"1,{long}\n2,y\n".encode())) == [(1, long), (2, "y")]


def test_lines_that_are_no_utf8_are_found_in_blocks_of_any_size() -> None:
    lines = [b"\xff" if i % 7000 == 3 else "é,1234567890".encode() for i in range(30_000)]
    data = b"\n".join(lines)
    found = lines_without_utf8(data, Lines.of_block(np.frombuffer(data, np.uint8)).starts)
    assert found == [3, 7003, 14003, 21003, 28003]


def test_the_header_is_cut_as_a_record() -> None:
    assert decoder(delimiter=";").split(b'a;"b;c";') == ["a", "b;c", None]
    assert decoder().split(b'a,"b') is None


# --- beside a reader of single characters ---------------------------------------------------------------------


@dataclass
class Plain:
    """The rules of CSV, a character at a time."""

    dialect: Dialect
    columns: int

    def records(self, data: str) -> list[tuple[int, str, list[str | None] | None]]:
        """Start, content and fields of each record; no fields where it has none or another number of them."""
        found, position = [], 0
        while position < len(data):
            end = self.line_end(data, position)
            line = data[position:end]
            blank = not line.strip("".join(map(chr, range(33)))) and self.dialect.delimiter not in line
            if not blank and not (self.dialect.comments and line.startswith("#")):
                end, fields = self.fields(data, position)
                if not self.dialect.multi_line and any(c in data[position:end] for c in "\r\n"):
                    fields = None
                good = fields is not None and len(fields) == self.columns
                found.append((position, data[position:end], fields if good else None))
            position = end + (2 if data[end : end + 2] == "\r\n" else 1)
        return found

    @staticmethod
    def line_end(data: str, position: int) -> int:
        while position < len(data) and data[position] not in "\r\n":
            position += 1
        return position

    def fields(self, data: str, position: int) -> tuple[int, list[str | None] | None]:
        fields: list[str | None] = []
        while True:
            begin = position
            value, after = self.field(data, position)
            if after is None:
                return self.line_end(data, begin), None
            position = after
            fields.append(value)
            if data[position : position + 1] != self.dialect.delimiter:
                return position, fields
            position += 1

    def field(self, data: str, position: int) -> tuple[str | None, int | None]:
        """A field and where it ends; no place where it cannot be read."""
        value, quoted = "", data[position : position + 1] == self.dialect.quote
        position += quoted
        ends = {"\r", "\n", self.dialect.delimiter}
        while position < len(data) and (quoted or data[position] not in ends or data[position] == self.dialect.escape):
            c = data[position]
            doubled = quoted and data[position : position + 2] == 2 * c == 2 * (self.dialect.quote or "")
            if c == self.dialect.escape or doubled:
                if not quoted and data[position + 1 : position + 2] in ("", "\r", "\n"):
                    return None, None
                position += 1
            elif quoted and c == self.dialect.quote:
                break
            value, position = value + data[position : position + 1], position + 1
        if not quoted:
            return value or None, position
        closed = position < len(data) and (position + 1 == len(data) or data[position + 1] in ends)
        return value, position + 1 if closed else None


PIECES = st.sampled_from(
    [
        '"',
        '"',
        ",",
        ",",
        "\n",
        "\n",
        "\r\n",
        "\r",
        "\\",
        "a",
        "b",
        " ",
        "#",
        "é",
        "\t",
        '""',
        '",',
        ',"',
        "\n#",
        "a,b",
        "a,b\n",
        '"a","b"\n',
        '"a\nb",c\n',
    ]
)
DIALECTS = st.builds(
    Dialect,
    st.sampled_from([",", ",", "\t", "é"]),
    st.sampled_from(['"', '"', None]),
    st.sampled_from([None, "\\"]),
    comments=st.booleans(),
    multi_line=st.booleans(),
)


@settings(max_examples=depth(300, 6_000))
@given(st.lists(PIECES, max_size=14).map("".join), DIALECTS, st.integers(1, 3))
def test_records_are_those_of_a_reader_of_characters(text: str, dialect: Dialect, columns: int) -> None:
    fields = [Field(f"c{i}", parse_type("STRING")) for i in range(columns)]
    data = text.encode()
    expected = Plain(dialect, columns).records(text)
    decoded = CsvDecoder(fields, dialect).block(pa.py_buffer(data))
    assert [list(row) for row in rows_of(decoded)] == [f for _, _, f in expected if f is not None]
    wrong = [(i, len(text[:at].encode()), t.encode()) for i, (at, t, f) in enumerate(expected) if f is None]
    assert [(f.record, f.start, f.text) for f in decoded.faults] == wrong


ODD = st.lists(
    PIECES.map(str.encode) | st.sampled_from([b"\xff", b"\xc3", b"7,8\n", b"1\n", b"0x1", b"2,z\n", b"\0", b"1,2\n"]),
    max_size=14,
).map(b"".join)


@settings(max_examples=depth(200, 6_000))
@given(ODD, DIALECTS, st.sampled_from(["a INT; b STRING", "a STRING", "a INT; b DATE; c BOOLEAN"]))
def test_the_quick_way_gives_the_rows_and_faults_of_the_exact_one(data: bytes, dialect: Dialect, columns: str) -> None:
    quick = CsvDecoder(decoder(columns).fields, dialect)
    everything = "sqlstream.formats.csv.irregular_lines"
    with patch.object(CsvDecoder, "_regular", return_value=None):
        mixed = quick.block(pa.py_buffer(data))
        with patch(everything, lambda lines, _: lines.starts >= 0):
            exact = quick.block(pa.py_buffer(data))
    decoded = quick.block(pa.py_buffer(data))
    assert decoded == mixed == exact


@given(st.lists(st.booleans(), max_size=300), st.sampled_from([1, 2, 64]))
def test_rows_are_left_out_in_runs_as_one_by_one(bad: list[bool], few: int) -> None:
    columns = [pa.array([*map(str, range(len(bad)))]), pa.array([n if n % 3 else None for n in range(len(bad))])]
    with patch("sqlstream.formats.decoder._FEW", few):
        left = without(columns, np.array(bad, bool))
    assert [c.type for c in left] == [c.type for c in columns]
    kept = [n for n, is_bad in enumerate(bad) if not is_bad]
    assert [c.to_pylist() for c in left] == [[str(n) for n in kept], [n if n % 3 else None for n in kept]]


@settings(max_examples=depth(100, 6_000))
@given(st.lists(ODD, max_size=4), DIALECTS, st.sampled_from(["a INT; b STRING", "a STRING"]))
def test_messages_together_are_what_they_are_alone(values: list[bytes], dialect: Dialect, columns: str) -> None:
    given_one = CsvDecoder(decoder(columns).fields, dialect)
    together = given_one.messages(pa.array(values, pa.binary()))
    alone = [given_one.messages(pa.array([value], pa.binary())) for value in values]
    assert rows_of(together) == [row for decoded in alone for row in rows_of(decoded)]
    assert [(f.text, f.reason) for f in together.faults] == [(f.text, f.reason) for d in alone for f in d.faults]
    assert [f.record for f in together.faults] == [i for i, d in enumerate(alone) if d.faults]
