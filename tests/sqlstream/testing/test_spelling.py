"""What golden files spell, they read back."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal

import pytest

from sqlstream.testing.values import columns_of, read, read_row, read_rows, spell, spell_row
from sqlstream.types import BIGINT, BOOLEAN, DOUBLE, INTERVAL, STRING, TIMESTAMP, DataType, parse_type

PAIR = parse_type("struct<t:timestamp,s:string>")
VALUES = [
    (7, BIGINT, "7"),
    (-7, BIGINT, "-7"),
    (None, BIGINT, "NULL"),
    (True, BOOLEAN, "true"),
    (2.0, DOUBLE, "2.0"),
    (float("inf"), DOUBLE, "inf"),
    (Decimal("11.10"), parse_type("decimal(10,2)"), "11.10"),
    ("key1", STRING, "key1"),
    ("NULL", STRING, '"NULL"'),
    ("", STRING, '""'),
    ("two words", STRING, '"two words"'),
    ("two  spaces", STRING, '"two  spaces"'),
    ('a "quote"', STRING, r'"a \"quote\""'),
    ("Grüße", STRING, "Grüße"),
    (datetime(1970, 1, 1, 0, 0, 10), TIMESTAMP, "00:00:10"),
    (datetime(1970, 1, 1, 0, 0, 10, 5000), TIMESTAMP, "00:00:10.005"),
    (datetime(1969, 12, 31, 23, 59, 58), TIMESTAMP, "1969-12-31 23:59:58"),
    (datetime(2024, 2, 29, 12), DataType("TIMESTAMP_NTZ"), "2024-02-29 12:00:00"),
    (date(2024, 2, 29), DataType("DATE"), "2024-02-29"),
    (b"\x00\xff", DataType("BINARY"), "0x00ff"),
    (timedelta(seconds=90), INTERVAL, "90000ms"),
    ([1, None, 3], parse_type("array<int>"), "[1, NULL, 3]"),
    ([], parse_type("array<int>"), "[]"),
    (["a,b", "c"], parse_type("array<string>"), '["a,b", c]'),
    ([[1], [2, 3]], parse_type("array<array<int>>"), "[[1], [2, 3]]"),
    ({"a": 1}, parse_type("map<string,int>"), "{a: 1}"),
    (
        {"t": datetime(1970, 1, 1, 1), "s": "x: y"},
        parse_type("struct<t:timestamp,s:string>"),
        '(t: 01:00:00, s: "x: y")',
    ),
]


@pytest.mark.parametrize(("value", "kind", "text"), VALUES)
def test_spelling_of_a_value_reads_back(value, kind, text):
    assert spell(value, kind) == text
    assert read(text, kind) == value


def test_columns_are_separated_by_two_or_more_spaces():
    assert columns_of('a b  "c  d"   [1,  2]  NULL') == ["a b", '"c  d"', "[1,  2]", "NULL"]
    assert columns_of("") == []


def test_a_row_reads_back():
    kinds = [STRING, TIMESTAMP, BIGINT]
    row = ("a b", datetime(2024, 1, 1, 5), None)
    assert read_row(spell_row(row, kinds), kinds) == row


def test_a_row_with_a_missing_column_is_refused():
    with pytest.raises(ValueError, match="2 columns expected, separated by two or more spaces, and 1 found"):
        read_row("1 2", [BIGINT, BIGINT])


def test_a_line_may_hold_several_rows():
    assert read_rows('1  "a | b"  |  2  "|"', [BIGINT, STRING]) == [(1, "a | b"), (2, "|")]
    assert read_rows("1", [BIGINT]) == [(1,)]
    with pytest.raises(ValueError, match="2 columns expected"):
        read_rows("1  a  |  2", [BIGINT, STRING])
