"""Rows in files: CSV, JSON lines and Parquet say the same, and are read as they are written."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal

import pytest

from sqlstream.testing.golden_rows import read_rows_of_file, write_rows_to_file
from sqlstream.types import parse_type

KINDS = {"name": "STRING", "number": "INT", "price": "DECIMAL(10, 2)", "at": "TIMESTAMP", "day": "DATE",
         "tags": "ARRAY<STRING>"}  # fmt: skip
COLUMNS = [(name, parse_type(kind)) for name, kind in KINDS.items()]
ROWS = [
    ("+I", "a b", 1, Decimal("1.50"), datetime(1970, 1, 1, 0, 0, 1), date(2026, 1, 2), ["x", "y z"]),
    ("-D", None, None, None, None, None, None),
]


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_rows_are_read_as_they_are_written(tmp_path, suffix):
    path = tmp_path / f"rows.{suffix}"
    write_rows_to_file(path, COLUMNS, ROWS, kinds=True)
    assert read_rows_of_file(path, COLUMNS) == ROWS
    write_rows_to_file(path, COLUMNS, [], kinds=True)
    assert read_rows_of_file(path, COLUMNS) == []


def test_columns_are_found_by_name_and_kinds_are_left_out(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("B,a\n2,x\n,y\n")
    columns = [("a", parse_type("STRING")), ("b", parse_type("INT"))]
    assert read_rows_of_file(path, columns) == [("+I", "x", 2), ("+I", "y", None)]


def test_values_are_read_as_the_formats_read_them(tmp_path):
    """And as golden files spell them, where the formats read none."""
    kinds = {"b": "BOOLEAN", "n": "INT", "t": "TIMESTAMP", "s": "STRING", "d": "DECIMAL(5, 2)", "x": "BINARY"}
    columns = [(name, parse_type(kind)) for name, kind in kinds.items()]
    path = tmp_path / "rows.csv"
    path.write_text("b,n,t,s,d,x\nyes,+7,2024-01-31T12:00:00+01:00,a,1.235,0xff\ntrue,7,00:00:01,a,1,ff\n")
    first = ("+I", False, 7, datetime(2024, 1, 31, 11), "a", Decimal("1.24"), b"\xff")
    second = ("+I", True, 7, datetime(1970, 1, 1, 0, 0, 1), "a", Decimal("1.00"), b"\xff")
    assert read_rows_of_file(path, columns) == [first, second]
    path = tmp_path / "rows.jsonl"
    path.write_text(
        '{"b": "yes", "n": "7", "t": "2024-01-31T12:00:00+01:00", "s": "a", "d": 1.235, "X": "ff"}\n'
        '{"b": "True", "n": 7.9, "t": 1000, "s": 1.10, "d": "1", "x": "ff"}\n'
        '{"t": "00:00:01", "s": {"k": [1.10, 2]}}\n'
    )
    assert read_rows_of_file(path, columns) == [
        first,
        (*second[:4], "1.10", *second[5:]),
        ("+I", None, None, second[3], '{"k": [1.10, 2]}', None, None),
    ]
    path.write_text('{"n": "x"}\n')
    with pytest.raises(ValueError, match=r'row 1 of file ".*": column "n" of type INT is "x"'):
        read_rows_of_file(path, columns)


@pytest.mark.parametrize("text", ["a\r\nb", "a\rb", "a\u2028b\u0085c\x0bd", "\ufeff"])
def test_what_ends_lines_elsewhere_stays_in_a_text(tmp_path, text):
    columns = [("s", parse_type("STRING"))]
    for name, record in (
        ("rows.csv", f's\r\n"{text}"\r\n'),
        ("rows.jsonl", json.dumps({"s": text}, ensure_ascii=False)),
    ):
        path = tmp_path / name
        path.write_bytes(b"\xef\xbb\xbf" + record.encode())
        assert read_rows_of_file(path, columns) == [("+I", text)]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("rows.csv", "a,c\n1,2\n", 'has the column "c", which is none of the table'),
        ("rows.csv", "a\n1\n", 'lacks the column "b"'),
        ("rows.csv", "a,b\n1,x\n", "row 1 of file"),
        ("rows.csv", "a,b,row_kind\n1,2,+X\n", 'has the kind "\\+X"'),
        ("rows.csv", "a,b\n1,2\n3\n", "row 2 of file .* has 1 fields, and its header 2"),
        ("rows.csv", "a,b\n1,2,3\n", "row 1 of file .* has 3 fields, and its header 2"),
        ("rows.csv", 'a,b\n1,2\n3,"4\n5,6\n', "line 4 of file .*: unexpected end of data"),
        ("rows.csv", "a,b\n1,\udcff\n", "line 2 of file .* is no UTF-8"),
        ("rows.jsonl", "[1, 2]\n", "row 1 of file .* is no object"),
        ("rows.jsonl", '{"a": 1}\n{"a": 2\n', "line 2 of file .* is no JSON"),
        ("rows.txt", "", "is none of .csv, .jsonl, .parquet"),
    ],
)
def test_files_that_do_not_fit_are_refused(tmp_path, name, text, message):
    path = tmp_path / name
    path.write_text(text, errors="surrogateescape")
    with pytest.raises(ValueError, match=message):
        read_rows_of_file(path, [("a", parse_type("INT")), ("b", parse_type("INT"))])


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"gone.csv.* cannot be read"):
        read_rows_of_file(tmp_path / "gone.csv", [])
