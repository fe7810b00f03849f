"""Constant intervals in every spelling."""

from fractions import Fraction

import pytest
from sqlglot import exp

from sqlstream.errors import BindError
from sqlstream.grammar import parse_query
from sqlstream.planner.intervals import (
    LONGEST_MS,
    NotAnInterval,
    as_interval,
    fold,
    for_spark,
    interval_ms,
    readable,
    text_ms,
)


def expression(text: str) -> exp.Expression:
    parsed = parse_query(f"SELECT {text}").expressions[0]
    assert isinstance(parsed, exp.Expression)
    return parsed


def interval(text: str) -> exp.Interval:
    actual = expression(text)
    assert isinstance(actual, exp.Interval)
    return actual


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("INTERVAL '5' SECOND", 5000),
        ("INTERVAL '5' SECONDS", 5000),
        ("INTERVAL 5 MINUTES", 300_000),
        ("INTERVAL '0.005' SECOND", 5),
        ("INTERVAL '90' MINUTE", 5_400_000),
        ("INTERVAL '1.5' HOURS", 5_400_000),
        ("INTERVAL '250' MILLISECOND", 250),
        ("INTERVAL '2' WEEK", 1_209_600_000),
        ("INTERVAL '1' DAY", 86_400_000),
        ("INTERVAL '-8' HOUR", -28_800_000),
        ("-INTERVAL '8' HOUR", -28_800_000),
        ("(INTERVAL '8' HOUR)", 28_800_000),
        ("INTERVAL '33:20' MINUTE TO SECOND", 2_000_000),
        ("INTERVAL '1 02:03:04.5' DAY TO SECOND", 93_784_500),
        ("INTERVAL '-1 02:03:04.5' DAY TO SECOND", -93_784_500),
        ("INTERVAL '10:30' HOUR TO MINUTE", 37_800_000),
        ("INTERVAL '1' DAY + INTERVAL '1' HOUR", 90_000_000),
        ("INTERVAL '1' DAY - INTERVAL '1' HOUR", 82_800_000),
        ("INTERVAL '2' SECOND * 3", 6000),
        ("3 * INTERVAL '2' SECOND", 6000),
        ("INTERVAL '3' SECOND / 2", 1500),
    ],
)
def test_interval_has_exact_milliseconds(text, milliseconds):
    assert fold(expression(text)) == Fraction(milliseconds)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("INTERVAL '1' MONTH", "must not be in months, whose length varies"),
        ("INTERVAL '1' YEAR", "must not be in years, whose length varies"),
        ("INTERVAL 'x' SECOND", "has the value 'x', which is not a number"),
        ("INTERVAL '1:2:3' MINUTE TO SECOND", "'1:2:3' is not an interval from minute to second"),
        ("'5 seconds'", "must be an interval, not '5 seconds'"),
        ("5", "must be an interval, not 5"),
        ("a", "must be a constant interval"),
        ("INTERVAL '1' SECOND / 0", "must be an interval, not INTERVAL '1' SECOND / 0"),
    ],
)
def test_what_is_no_constant_interval_says_why(text, reason):
    with pytest.raises(NotAnInterval) as caught:
        fold(expression(text))
    assert caught.value.reason == reason


def test_less_than_a_millisecond_is_refused():
    with pytest.raises(BindError) as caught:
        interval_ms(expression("INTERVAL '0.0005' SECOND"), "size of TUMBLE", None)
    assert caught.value.diagnostic.message == "size of TUMBLE has a part of less than a millisecond"


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("5 minutes", 300_000), ("1 hour 30 min", 5_400_000), ("interval 10 seconds", 10_000), ("1.5s, 2 ms", 1502)],
)
def test_text_of_sparks_window_function_is_read(text, milliseconds):
    assert text_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["", "five minutes", "5 parsecs", "5 minutes!"])
def test_wrong_text_is_no_interval(text):
    with pytest.raises(NotAnInterval):
        text_ms(text)


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("INTERVAL '5' MILLISECOND", "INTERVAL '0.005' SECOND"),
        ("INTERVAL '-1.5' HOURS", "INTERVAL '-5400' SECOND"),
        ("INTERVAL '1.000001' SECOND", "INTERVAL '1.000001' SECOND"),
        ("INTERVAL '3' DAY", "INTERVAL '3' DAY"),
        ("INTERVAL '33:20' MINUTE TO SECOND", "INTERVAL '33:20' MINUTE TO SECOND"),
    ],
)
def test_interval_is_spelled_as_spark_reads_it(text, spelled):
    assert for_spark(interval(text)).sql("spark") == spelled


def test_less_than_a_microsecond_is_refused():
    with pytest.raises(NotAnInterval, match="less than a microsecond"):
        for_spark(interval("INTERVAL '0.0001' MILLISECOND"))


@pytest.mark.parametrize(
    ("milliseconds", "text", "spelled"),
    [
        (0, "0 ms", "INTERVAL '0' DAY"),
        (90_000, "1 min 30 s", "INTERVAL '90' SECOND"),
        (-28_800_000, "-8 h", "INTERVAL '-8' HOUR"),
        (86_400_001, "1 d 1 ms", "INTERVAL '86400.001' SECOND"),
        (-5, "-5 ms", "INTERVAL '-0.005' SECOND"),
    ],
)
def test_durations_are_readable_and_become_intervals_again(milliseconds, text, spelled):
    assert readable(milliseconds) == text
    assert as_interval(milliseconds) == spelled
    assert fold(expression(spelled)) == milliseconds


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("INTERVAL '1000000000000' DAY", "is longer than 10,000 years"),
        ("INTERVAL '-3652426' DAY", "is longer than 10,000 years"),
        ("INTERVAL '99999999999 23:59:59' DAY TO SECOND", "is longer than 10,000 years"),
        ("INTERVAL '1' DAY * 10000000", "is longer than 10,000 years"),
        (f"INTERVAL '{'9' * 5000}' SECOND", "which is too long a number"),
    ],
)
def test_what_kernels_cannot_calculate_with_is_refused(text, reason):
    with pytest.raises(BindError, match=f"SS212: size of TUMBLE .*{reason}"):
        interval_ms(expression(text), "size of TUMBLE", None)


def test_ten_thousand_years_are_the_longest():
    assert interval_ms(expression("INTERVAL '3652425' DAY"), "size", None) == LONGEST_MS
    with pytest.raises(NotAnInterval, match="longer than 10,000 years"):
        text_ms("3652426 days")


@pytest.mark.parametrize(
    "text",
    ["INTERVAL '1000000000000' DAY", "INTERVAL '999999' YEAR", "INTERVAL '106751992 00:00:00' DAY TO SECOND"],
)
def test_what_spark_cannot_calculate_with_is_refused(text):
    with pytest.raises(NotAnInterval, match="longer than Spark's longest"):
        for_spark(interval(text))
