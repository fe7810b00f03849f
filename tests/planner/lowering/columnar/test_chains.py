"""Windows in the call of the windows below them are one operator of Spark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sqlstream.planner.lowering import explain_spark
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.windows import Tumble
from tests.planner.plans import physical
from tests.streams import item, output, table, timed


@pytest.mark.spark
@pytest.mark.parametrize("chains", [True, False])
def test_spark_gets_one_operator_for_a_chain(streams, chains):
    events = table("events", k="STRING", v="INT", ts="TIMESTAMP")
    below = WindowAggregate(timed(events), ("k",), (item("n", "COUNT(*)"),), window=Tumble(1000), time="ts")
    names = replace(below.columns, start="s", end="e", time="t")
    above = WindowAggregate(
        below, ("k",), (item("m", "SUM(`n`)"),), names, window=Tumble(3000), time=below.columns.time
    )
    text = explain_spark(physical(output(above), "columnar", chains=chains), streams)
    parsed = text.partition("== Analyzed")[0]
    assert parsed.count("TransformWithState") == (1 if chains else 2), parsed
