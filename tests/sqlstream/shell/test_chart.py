"""Charts of results: lines of rows that are added, bars of rows that change."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast

import pyarrow as pa
import pytest

from sqlstream.query import Query
from sqlstream.shell.chart import Chart, Plot
from sqlstream.types import parse_type


@dataclass
class _Query:
    """What a chart looks at."""

    columns: tuple[str, ...]
    types: tuple[Any, ...]
    key: tuple[str, ...] = ()
    is_updating: bool = False


def chart_of(columns: dict[str, str], plot: str, *, key: tuple[str, ...] = (), updating: bool = False) -> Chart:
    names = ("op", *columns) if updating else tuple(columns)
    types = tuple(map(parse_type, ("STRING", *columns.values()) if updating else columns.values()))
    wanted = Plot.of(plot)
    assert wanted is not None
    return Chart.of(cast(Query, _Query(names, types, key, updating)), wanted)


@pytest.mark.parametrize(
    ("text", "plot"),
    [
        ("n", Plot("n")),
        ("`n` by k", Plot("n", "k")),
        ("total BY user_id", Plot("total", "user_id")),
        ("n k", None),
        ("", None),
        ("a + b", None),
    ],
)
def test_a_request_names_a_column_and_what_tells_its_lines_apart(text, plot):
    assert Plot.of(text) == plot


def test_rows_make_a_line_for_each_value_over_time():
    chart = chart_of({"at": "TIMESTAMP(3)", "k": "STRING", "n": "INT"}, "n BY k")
    times = [datetime(2024, 1, 1) + timedelta(seconds=i) for i in range(10)]
    chart.add(pa.table({"at": times, "k": ["a", "b"] * 5, "n": list(range(10))}))
    drawn = chart.drawn(60, 12, colours=False)
    assert "n by k" in drawn
    assert re.search("00:00:00 .* 00:00:03 .* 00:00:06 .* 00:00:09", drawn)
    assert all(f" {name} " in drawn for name in "ab")
    assert max(map(len, drawn.splitlines())) <= 60


def test_times_of_several_days_show_the_day():
    chart = chart_of({"at": "TIMESTAMP(3)", "n": "INT"}, "n")
    chart.add(pa.table({"at": [datetime(2024, 1, 1), datetime(2024, 1, 4)], "n": [1, 2]}))
    assert "2024-01-02 00:00" in chart.drawn(100, 10, colours=False)


def test_rows_without_times_are_numbered():
    chart = chart_of({"n": "DOUBLE"}, "N")
    chart.add(pa.table({"n": [1.0, None, 3.0]}))
    chart.add(pa.table({"n": [5.0]}))
    assert [*chart._points[""]] == [(1, 1.0), (2, 3.0), (3, 5.0)]


def test_a_result_by_key_makes_bars_of_what_is_there_now():
    chart = chart_of({"k": "STRING", "n": "BIGINT"}, "n", key=("k",), updating=True)
    chart.add(pa.table({"k": ["a", "b"], "n": [1, 2]}))
    chart.add(pa.table({"k": ["c"], "n": [7]}))
    drawn = chart.drawn(60, 10, colours=False)
    assert "c┤█" in drawn
    assert "a┤" not in drawn and "b┤" not in drawn


def test_the_highest_bars_are_on_top():
    chart = chart_of({"k": "STRING", "n": "BIGINT"}, "n", key=("k",), updating=True)
    chart.add(pa.table({"k": ["low", "high"], "n": [1, 9]}))
    drawn = chart.drawn(60, 12, colours=False)
    assert drawn.index("high┤") < drawn.index("low┤")


def test_a_result_without_a_key_makes_a_line_of_its_changes():
    chart = chart_of({"n": "BIGINT"}, "n", updating=True)
    for n in (3, 1, 4):
        chart.add(pa.table({"n": [n]}))
    assert [*chart._points[""]] == [(1, 3.0), (2, 1.0), (3, 4.0)]


def test_nothing_yet_is_an_empty_chart():
    assert "n" in chart_of({"n": "BIGINT"}, "n").drawn(40, 8)


def test_a_column_that_is_none_is_told():
    with pytest.raises(ValueError, match='needs a column of the query, and "m" is none: it has k, n'):
        chart_of({"k": "STRING", "n": "INT"}, "m")


def test_what_has_no_place_on_an_axis_is_left_out():
    chart = chart_of({"at": "TIMESTAMP(3)", "n": "DOUBLE"}, "n")
    moment = datetime(2024, 1, 1)
    chart.add(pa.table({"at": [moment, moment, moment, None], "n": [float("inf"), float("nan"), 2.0, 3.0]}))
    assert [*chart._points[""]] == [(moment, 2.0)]
    chart.drawn(60, 10)


def test_times_that_datetime_does_not_have_are_left_out():
    chart = chart_of({"at": "TIMESTAMP(3)", "n": "INT"}, "n")
    chart.add(pa.table({"at": pa.array([10**18], pa.timestamp("us")), "n": [1]}))
    assert chart._points == {}
    chart.drawn(60, 10)


def test_a_large_micro_batch_shows_its_newest_rows():
    chart = chart_of({"n": "BIGINT"}, "n")
    chart.add(pa.table({"n": list(range(50_000))}))
    points = chart._points[""]
    assert (len(points), points[-1]) == (2_000, (50_000, 49_999.0))


def test_many_bars_are_the_highest():
    chart = chart_of({"k": "BIGINT", "n": "BIGINT"}, "n", key=("k",), updating=True)
    chart.add(pa.table({"k": list(range(1_000)), "n": list(range(1_000))}))
    assert sorted(map(int, chart._points)) == list(range(980, 1_000))


def test_what_is_no_number_is_told():
    with pytest.raises(ValueError, match='draws numbers, and column "k" is of type STRING'):
        chart_of({"k": "STRING", "n": "INT"}, "k")
