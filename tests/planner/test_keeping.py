"""What operators keep and until when, and pages that show it."""

from __future__ import annotations

from functools import cache
from html.parser import HTMLParser

import pytest

from sqlstream.planner.explain.html import html_page
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Insert, Output, StatementSet
from sqlstream.planner.operators.current_watermark import CurrentWatermark
from sqlstream.planner.rules import optimize
from tests.planner.corpus import bound_plan_of, corpus, kinds_of_nodes, titles
from tests.planner.plans import plan


@cache
def operators() -> tuple[Node, ...]:
    """Those of all plans."""
    return tuple(node for bound in corpus().values() for node in optimize(bound).walk())


@pytest.mark.parametrize("kind", kinds_of_nodes())
def test_every_operator_with_state_says_what_it_keeps(kind):
    stateful = [node for node in operators() if type(node) is kind and node.keeps_state]
    if not stateful:
        return
    assert kind.state_descriptions is not Node.state_descriptions
    assert [*stateful[-1].state_descriptions()] or kind is CurrentWatermark, (
        "which has state for the watermark's sake alone"
    )


def test_operators_without_state_keep_nothing():
    nodes = [node for node in operators() if not node.keeps_state]
    assert nodes
    assert not [one for node in nodes for one in node.state_descriptions()]


def told(text):
    return {(one.what, one.until) for node in optimize(plan(text)).walk() for one in node.state_descriptions()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT COUNT(*) FROM SESSION(TABLE bids PARTITION BY item, DESCRIPTOR(ts), INTERVAL '1' MINUTE) "
         "GROUP BY item, window_start, window_end",
         {("the accumulators of open windows", "the watermark passes their end")}),
        ("SELECT item, COUNT(*) FROM bids GROUP BY item COUNT WINDOW (5 ROWS)",
         {("the accumulators of each key that no window has given back", None)}),
        ("SELECT a.n FROM bids AS a JOIN bids AS b ON a.n = b.n AND a.ts BETWEEN b.ts - INTERVAL '1' MINUTE AND b.ts",
         {("the rows of both sides", "the watermark passes the bounds within which a partner may come")}),
        ("SELECT a.k FROM plain AS a JOIN plain AS b ON a.k = b.k",
         {("the rows of the left side", None), ("the rows of the right side", None)}),
        ("SELECT n, SUM(n) OVER (PARTITION BY item ORDER BY ts RANGE INTERVAL '1' MINUTE PRECEDING) FROM bids",
         {("the rows of frames", "the watermark passes all frames that hold them")}),
        ("SELECT n, SUM(n) OVER (PARTITION BY item ORDER BY ts) FROM bids",
         {("rows that wait for their turn", "the watermark passes them"),
          ("the last rows and totals of each key", None)}),
        ("SELECT id FROM cdc", {("the last row of each key", None)}),
        ("SELECT n FROM bids", set()),
    ],
)  # fmt: skip
def test_what_bounds_state(text, expected):
    assert told(text) == expected


class Tags(HTMLParser):
    """Keeps which tags are open."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag, attrs):
        assert not [value for name, value in attrs if name in ("src", "href")], "a page needs nothing else"
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.mark.parametrize("title", titles()[::9])
def test_every_plan_has_a_page(title):
    root = optimize(bound_plan_of(title))
    assert isinstance(root, Output | Insert | StatementSet)
    tags = Tags()
    tags.feed(html_page(root))
    assert tags.open == []
    assert "Plan" in tags.text


def test_a_page_shows_types_lineage_and_state_and_escapes():
    text = "SELECT item AS `<b>`, COUNT(*) AS n FROM bids GROUP BY item"
    root = optimize(plan(text))
    assert isinstance(root, Output)
    page = html_page(root, f"{text} -- <script>")
    assert "<script>" not in page
    assert "&lt;b&gt;" in page
    assert "bids.item" in page
    assert "nothing bounds it" in page
