"""Parameters of scripts: values by position and by name, as literals that nothing of is read as SQL."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from sqlstream.arguments import literal_of_text, with_arguments
from sqlstream.errors import BindError
from sqlstream.grammar import parse_script


@pytest.mark.parametrize(
    ("value", "spelled"),
    [
        (None, "NULL"),
        (True, "TRUE"),
        (-3, "(-3)"),
        (1.5, "1.5E0"),
        (float("nan"), "CAST('nan' AS DOUBLE)"),
        (Decimal("1.50"), "1.50"),
        ("it's; DROP TABLE t --", "'it''s; DROP TABLE t --'"),
        (b"\x01\xff", "X'01ff'"),
        (date(2024, 1, 2), "DATE '2024-01-02'"),
        (datetime(2024, 1, 2, 3, 4, 5), "TIMESTAMP_NTZ '2024-01-02 03:04:05'"),
        (datetime(2024, 1, 2, tzinfo=UTC), "TIMESTAMP_LTZ '2024-01-02 00:00:00+00:00'"),
        (timedelta(seconds=90, microseconds=5), "INTERVAL '90.000005' SECOND"),
        ([1, 2], "ARRAY(1, 2)"),
        ({"a": 1}, "MAP('a', 1)"),
    ],
)
def test_a_value_is_a_literal(value: object, spelled: str) -> None:
    text = with_arguments("SELECT ? AS a", [value])
    assert text == f"SELECT {spelled} AS a"
    assert parse_script(text)


def test_parameters_stand_by_position_and_by_name() -> None:
    assert with_arguments("SELECT * FROM t WHERE a = ? AND b > ? LIMIT ?", [1, "x", 5]) == (
        "SELECT * FROM t WHERE a = 1 AND b > 'x' LIMIT 5"
    )
    assert with_arguments("SELECT :a, ':a', :b -- :a", {"a": 1, "b": 2}) == "SELECT 1, ':a', 2 -- :a"


def test_quantifiers_and_fields_are_no_parameters() -> None:
    assert with_arguments("PATTERN (A? B+? C) AND x = ?", [1]) == "PATTERN (A? B+? C) AND x = 1"
    fields = "SELECT js:item, `j s`:item, value:item, js:items[0]:item, f(a):item, JSON_OBJECT('a':b)"
    assert with_arguments(f"{fields}, :x, a+:x", {"x": 1}) == f"{fields}, 1, a+1"


@pytest.mark.parametrize(
    ("text", "args", "code"),
    [
        ("SELECT ?, ?", [1], "SS345"),
        ("SELECT ?", [1, 2], "SS377"),
        ("SELECT :a, :b", {"a": 1}, "SS345"),
        ("SELECT :a", {"a": 1, "b": 2}, "SS377"),
        ("SELECT ?", [object()], "SS378"),
    ],
)
def test_values_and_parameters_must_be_as_many(text: str, args: list[object] | dict[str, object], code: str) -> None:
    with pytest.raises(BindError) as error:
        with_arguments(text, args)
    assert error.value.code == code


def test_a_value_on_the_command_line_is_a_number_or_a_text() -> None:
    assert [literal_of_text(t) for t in ("5", "-1.5", "true", "NaN", "it's", "null")] == [
        "5", "(-1.5)", "TRUE", "'NaN'", "'it''s'", "NULL",
    ]  # fmt: skip
