"""Charts as pictures for browsers."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

import pyarrow as pa

from sqlstream.shell.chart import Chart, svg_of
from tests.sqlstream.shell.test_chart import chart_of

START = datetime(2024, 1, 1, tzinfo=UTC)


def texts(chart: Chart) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg_of(chart)).iter("text")]


def test_rows_make_a_line_over_their_times() -> None:
    chart = chart_of({"at": "TIMESTAMP", "v": "INT"}, "v")
    times = [START + timedelta(seconds=10 * i) for i in range(4)]
    chart.add(pa.table({"at": pa.array(times, pa.timestamp("us", "UTC")), "v": [1, 5, 3, 9]}))
    (points,) = re.findall(r'<polyline points="([^"]+)"', svg_of(chart))
    heights = [float(point.split(",")[1]) for point in points.split()]
    assert sorted(range(4), key=lambda i: -heights[i]) == [0, 2, 1, 3], "the highest value is on top"
    assert texts(chart) == ["v", "1", "3", "5", "7", "9", "00:00:00", "00:00:10", "00:00:20", "00:00:30"]


def test_each_value_of_by_has_a_line_with_its_name() -> None:
    chart = chart_of({"k": "STRING", "v": "INT"}, "v BY k")
    chart.add(pa.table({"k": ["<a>", "b", "<a>"], "v": [1, 2, 3]}))
    assert svg_of(chart).count("<polyline") == 2
    assert {"<a>", "b"} <= set(texts(chart))


def test_results_by_a_key_make_bars_the_longest_first() -> None:
    chart = chart_of({"k": "STRING", "n": "DOUBLE"}, "n", key=("k",), updating=True)
    chart.add(pa.table({"k": ["a", "b", "c"], "n": [1.0, 2.5, -1.0]}))
    assert texts(chart) == ["n by k", "b", "2.5", "a", "1", "c", "-1"]
    widths = [float(width) for width in re.findall(r'<rect [^>]*width="([^"]+)"', svg_of(chart))]
    assert widths[0] > widths[1] == widths[2] > 0


def test_a_chart_without_rows_is_empty() -> None:
    assert texts(chart_of({"v": "INT"}, "v")) == ["v"]
