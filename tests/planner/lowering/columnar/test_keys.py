"""Keys of all types, on kernels."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sqlstream.errors import UnsupportedError
from sqlstream.planner.nodes import Project
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.windows import Tumble
from tests.streams import Streams, item, output, table, timed

pytestmark = pytest.mark.spark

EVENTS = table("events", k="STRING", v="INT", ts="TIMESTAMP")
TIME = item("ts", "ts", "TIMESTAMP")
KEYS = {
    "text": "k",
    "flag": "v > 1",
    "whole": "CAST(v AS TINYINT)",
    "zero": "CAST(v AS DOUBLE) * IF(v > 1, -0.0D, 0.0D)",
    "nothing": "CAST('NaN' AS FLOAT)",
    "exact": "CAST(v AS DECIMAL(20, 3))",
    "bytes": "CAST(k AS BINARY)",
    "day": "CAST(ts AS DATE)",
    "wall": "CAST(DATE'2024-01-01' AS TIMESTAMP_NTZ)",
    "span": "make_dt_interval(0, 0, 0, v)",
    "list": "ARRAY(named_struct('x', k))",
    "pair": "named_struct('a', v, 'b', k)",
    "lookup": "IF(v > 3, map('x', v % 2, coalesce(k, ''), 1), map(coalesce(k, ''), 1, 'x', v % 2))",
}


def aggregated(keys):
    items = tuple(item(name, text, "STRING") for name, text in keys.items())
    below = Project(timed(EVENTS), (*items, TIME))
    return WindowAggregate(below, tuple(keys), (item("n", "COUNT(*)"),), window=Tumble(60_000), time="ts")


@pytest.mark.parametrize("name", ["all", "zero", "lookup"])
def test_rows_of_equal_keys_meet(streams: Streams, name):
    keys = KEYS if name == "all" else {name: KEYS[name]}
    streams = replace(streams, engine="columnar")
    streams.write(EVENTS, [("a", 1, 0), (None, 2, 10), ("a", 1, 20), ("b", 7, 30), (None, 2, 40), ("b", 7, 50)])
    counts = {"all": [2, 2, 2], "zero": [6], "lookup": [4]}
    if name == "lookup":
        streams = replace(streams, folder=streams.folder / "maps")
        streams.write(EVENTS, [("a", 1, 0), ("a", 7, 10), ("a", 1, 20), ("a", 7, 30)])
    result = streams.run(aggregated(keys))
    assert sorted(row[-1] for row in result) == counts[name]


def test_a_type_that_arrow_does_not_have_is_refused(streams: Streams):
    plan = aggregated({"months": "make_ym_interval(v, 1)"})
    with pytest.raises(UnsupportedError, match="types") as raised:
        replace(streams, engine="columnar").lower(output(plan))
    assert raised.value.diagnostic.code == "SS396"
