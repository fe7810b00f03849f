"""EXPLAIN without Spark; what plans look like is in the golden files."""

import pytest

from sqlstream.planner.explain import PLANNER_STAGES, explain, formats_of
from sqlstream.planner.explain.text import mermaid
from sqlstream.planner.node import Node
from tests.planner.plans import plan

QUERY = "SELECT item, COUNT(*) FROM bids WHERE item <> '<\"a\">' GROUP BY item, TUMBLE(ts, INTERVAL '1' HOUR)"


@pytest.mark.parametrize("stage", PLANNER_STAGES)
def test_the_formats_of_a_stage_differ(stage):
    formats = formats_of(stage)
    assert len({explain(plan(QUERY), name, stage) for name in formats}) == len(formats) > 1


def test_a_diagram_of_changelog_modes_shows_them():
    assert "[append] time ts" in explain(plan(QUERY), "MERMAID", "CHANGELOG_MODE")


def test_stages_of_the_lowering_are_not_the_planners():
    with pytest.raises(AssertionError):
        explain(plan(QUERY), "TEXT", "SPARK")


def test_mermaid_has_a_box_per_node_and_an_arrow_per_input():
    root: Node = plan("SELECT item FROM bids WHERE item = '<a>' UNION ALL SELECT k FROM plain")
    lines = mermaid(root, lambda node: node.describe()).splitlines()
    nodes = list(root.walk())
    assert lines[0] == "flowchart TD"
    assert len([line for line in lines if "-->" in line]) == len(nodes) - 1
    assert len([line for line in lines if '["' in line]) == len(nodes)
    assert '    n5["AssignTime(ts, watermark ts - 5 s)"]' in lines
    assert any("'&lt;a&gt;'" in line for line in lines)


def test_nothing_to_advise_is_said():
    assert explain(plan("SELECT k FROM plain"), stage="ADVICE") == "Nothing to say about this plan."


def test_latency_of_processing_time_and_cumulating_windows():
    clicks = "SELECT COUNT(*) FROM clicks GROUP BY TUMBLE(pt, INTERVAL '1' MINUTE)"
    assert "results come when the clock passes the end of the window, so a row waits up to 1 min" in explain(
        plan(clicks), stage="ADVICE"
    )
    cumulate = "SELECT COUNT(*) FROM bids GROUP BY CUMULATE(ts, INTERVAL '1' MINUTE, INTERVAL '1' DAY)"
    assert explain(plan(cumulate), stage="ADVICE").splitlines() == [
        "Latency floor of CUMULATE step 1 min size 1 d: results come 5 s after the end of the window in event time, "
        "so a row waits up to 1 min 5 s for its first result.",
        "CUMULATE step 1 min size 1 d: each row belongs to up to 1440 windows.",
    ]
