"""Which windows run in the call of the windows below them, and what keeps the others apart."""

from __future__ import annotations

import pytest

from sqlstream.planner.physical import explain_physical
from sqlstream.planner.rules import optimize
from tests.planner.plans import physical, plan

TUMBLE = "TUMBLE(ts, INTERVAL '10' SECOND)"
BELOW = (
    "(SELECT auction AS a, COUNT(*) AS n, MIN(item) AS item, window_start, window_end, window_time AS wt, "
    f"window_start AS begun FROM bids GROUP BY auction, {TUMBLE})"
)
MINUTE = "TUMBLE(wt, INTERVAL '1' MINUTE)"


def top(text):
    """The uppermost operator with state, and the logical plan."""
    optimized = optimize(plan(text))
    return physical(optimized).operators[0], optimized


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        (f"SELECT a AS key, SUM(n) FROM {BELOW} GROUP BY a, {MINUTE}", {"a": "auction", "wt": "window_time", "n": "n"}),
        (f"SELECT a, COUNT(*) FROM {BELOW} GROUP BY a COUNT WINDOW (3 ROWS)", {"a": "auction", "wt": "window_time"}),
        (f"SELECT a, COUNT(1) FROM {BELOW} GROUP BY a, SESSION(wt, INTERVAL '1' MINUTE)",
         {"a": "auction", "wt": "window_time"}),
        (f"SELECT a, MAX(begun) FROM {BELOW} GROUP BY a, window_start, window_end",
         {"a": "auction", "window_start": "window_start", "window_end": "window_end", "begun": "window_start"}),
        (f"SELECT MAX(n) FROM (SELECT COUNT(*) AS n, window_time AS wt FROM bids GROUP BY {TUMBLE}) GROUP BY {MINUTE}",
         {"wt": "window_time", "n": "n"}),
    ],
)  # fmt: skip
def test_windows_over_columns_of_windows_with_their_keys_are_linked(query, fields):
    operator, _ = top(query)
    assert operator.link is not None
    assert dict(operator.link.fields) == fields
    assert operator.apart is None
    assert operator.operator_below.stateful_above is operator.node


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (f"SELECT item, SUM(n) FROM {BELOW} GROUP BY item, {MINUTE}", "its keys are not those"),
        (f"SELECT SUM(n) FROM {BELOW} GROUP BY {MINUTE}", "its keys are not those"),
        (f"SELECT a + 1, SUM(n) FROM {BELOW} GROUP BY a + 1, {MINUTE}", "what it reads is computed"),
        (f"SELECT a, SUM(n + 1) FROM {BELOW} GROUP BY a, {MINUTE}", "it computes what it reads"),
        (f"SELECT a, SUM(m) FROM (SELECT a, n * 2 AS m, wt FROM {BELOW}) GROUP BY a, {MINUTE}",
         "it computes what it reads|what it reads is computed"),
        (f"SELECT a, COLLECT_LIST(n) FROM {BELOW} GROUP BY a, {MINUTE}", "it computes what it reads"),
        (f"SELECT a, SUM(n) FROM {BELOW} WHERE n > 1 GROUP BY a, {MINUTE}", "from Filter"),
        (f"SELECT a, SUM(n) FROM {BELOW} GROUP BY GROUPING SETS ((a), ()), {MINUTE}", "GROUPING SETS"),
        (f"SELECT a, SUM(n) FROM {BELOW} GROUP BY a, {MINUTE} TRIGGER AFTER WATERMARK EARLY WHEN (n > 3)",
         "its trigger or eviction"),
        (f"SELECT a, SUM(n) FROM SESSION(TABLE (SELECT a, n, wt FROM {BELOW}) PARTITION BY a, DESCRIPTOR(wt), "
         "INTERVAL '1' MINUTE, END_WHEN => n > 3) GROUP BY a, window_start, window_end",
         "SESSION reads more"),
        (f"SELECT a, SUM(n) FROM {BELOW} GROUP BY a, {MINUTE} TRIGGER AFTER PROCESSING TIME", "processing time"),
    ],
)  # fmt: skip
def test_what_keeps_operators_apart(query, reason):
    operator, _ = top(query)
    assert operator.link is None
    told = operator.apart
    assert told is not None and any(part in told for part in reason.split("|")), told


def test_windows_over_rows_of_a_table_have_no_operator_below():
    operator, _ = top(f"SELECT auction, COUNT(*) FROM bids GROUP BY auction, {TUMBLE}")
    assert (operator.link, operator.apart) == (None, None)


def test_explain_physical_says_which_operators_share_a_call_and_why_others_do_not():
    _, chained = top(f"SELECT a, SUM(n) FROM {BELOW} GROUP BY a, {MINUTE}")
    upper = "in the call of the operator below, kernel of panes that windows share"
    lines = explain_physical(physical(chained)).splitlines()
    assert [line for line in lines if upper in line] == [lines[2]]
    assert "exchange by key group, kernel of panes" in lines[4]
    assert upper not in explain_physical(physical(chained, chains=False))
    _, apart = top(f"SELECT SUM(n) FROM {BELOW} GROUP BY {MINUTE}")
    reason = " (not in the call of the operator below: its keys are not those of the windows below)"
    assert [line.endswith(reason) for line in explain_physical(physical(apart)).splitlines()].count(True) == 1
    assert reason not in explain_physical(physical(apart, chains=False))
