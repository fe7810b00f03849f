"""Tables, JSON lines and CSV."""

from __future__ import annotations

import io
import json
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import pytest

from sqlstream.cli.output import distinct, text_of, writer_for


def _written(style, names, *batches):
    out = io.StringIO()
    writer = writer_for(style, names, out)
    for batch in batches:
        writer.write(batch)
    writer.close()
    return out.getvalue()


def test_table_is_aligned_with_numbers_to_the_right():
    assert _written("table", ["name", "n"], [("a", 5), ("bcdef", 1234)], [("gh", None)]) == (
        " name  | n\n"
        "-------+------\n"
        " a     |    5\n"
        " bcdef | 1234\n"
        " gh    | NULL\n"
        "(3 rows)\n"
    )  # fmt: skip


def test_table_counts_wide_characters_as_two():
    assert _written("table", ["k", "v"], [("東京", 1), ("ab", 2)]).splitlines()[2:4] == [" 東京 | 1", " ab   | 2"]


def test_empty_result_shows_its_columns():
    assert _written("table", ["a", "b"]) == " a | b\n---+---\n(0 rows)\n"


def test_later_long_value_keeps_the_other_columns():
    lines = _written("table", ["a", "b"], [("x", 1)], [("long value", 2)]).splitlines()
    assert lines[3] == " long value | 2"


def test_rows_are_flushed_batch_by_batch():
    class Counting(io.StringIO):
        flushes = 0

        def flush(self):
            self.flushes += 1

    for style in ("table", "jsonl", "csv"):
        out = Counting()
        writer = writer_for(style, ["a"], out)
        writer.write([(1,)])
        assert out.flushes == 1
        assert "1" in out.getvalue()


UTC = timezone.utc  # noqa: UP017


@pytest.mark.parametrize(
    ("value", "text", "as_json"),
    [
        (None, "NULL", None),
        (True, "true", True),
        (1.5, "1.5", 1.5),
        (float("nan"), "nan", "nan"),
        (Decimal("1.50"), "1.50", "1.50"),
        (date(2024, 1, 2), "2024-01-02", "2024-01-02"),
        (datetime(2024, 1, 2, 3, 4, 5), "2024-01-02 03:04:05", "2024-01-02T03:04:05"),
        (datetime(2024, 1, 2, 3, 4, 5, 120000, UTC), "2024-01-02 03:04:05.12", "2024-01-02T03:04:05.12Z"),
        (timedelta(hours=1), "1:00:00", "1:00:00"),
        (b"\x00\xff", "00ff", "AP8="),
        ([1, None], "[1, null]", [1, None]),
        ({"k": datetime(2024, 1, 1, tzinfo=UTC)}, '{"k": "2024-01-01T00:00:00Z"}', {"k": "2024-01-01T00:00:00Z"}),
    ],
)
def test_values_are_spelled(value, text, as_json):
    assert text_of(value) == text
    assert json.loads(_written("jsonl", ["v"], [(value,)])) == {"v": as_json}


def test_json_is_one_list_whatever_comes():
    out = io.StringIO()
    writer = writer_for("json", ["a", "a"], out)
    writer.write([(1, "ü")])
    writer.write([])
    writer.write([(None, 2), (3, 4)])
    writer.close()
    assert json.loads(out.getvalue()) == [{"a": 1, "a_2": "ü"}, {"a": None, "a_2": 2}, {"a": 3, "a_2": 4}]
    assert _written("json", ["a"], []) == "[]\n"


def test_json_keeps_columns_of_the_same_name():
    assert _written("jsonl", ["a", "a"], [(1, 2)]) == '{"a": 1, "a_2": 2}\n'


def test_distinct_names_do_not_collide():
    assert distinct(["a", "a_2", "a"]) == ["a", "a_2", "a_3"]


def test_csv_quotes_and_leaves_null_empty():
    assert _written("csv", ["a", "b"], [('x,"y"', None), (1, 2)]) == 'a,b\n"x,""y""",\n1,2\n'


def test_vertical_rows_have_a_line_for_each_column():
    assert _written("vertical", ["name", "n"], [("a\nb", 5)], [("東京", None)]) == (
        "-[ 1 ]--\nname | a\\nb\nn    | 5\n-[ 2 ]--\nname | 東京\nn    | NULL\n(2 rows)\n"
    )


def test_markdown_escapes_what_would_end_a_cell():
    assert _written("markdown", ["a", "b"], [("x|y", None)]) == "| a | b |\n| --- | --- |\n| x\\|y | NULL |\n"
