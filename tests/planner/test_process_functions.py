# ruff: noqa: E501
"""Calls of process functions: what is bound, and what is refused with the signature that is expected."""

from __future__ import annotations

import pytest

from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.node import Node
from sqlstream.planner.operators.process_table import ProcessInput, ProcessTable
from sqlstream.planner.rules import optimize
from sqlstream.types import BIGINT
from tests.planner.plans import bound, error, errors, optimized, plan

PROCESS = (
    "Write process(input => TABLE t PARTITION BY k, [columns => DESCRIPTOR(c)], [limit => BIGINT], "
    "[on_time => DESCRIPTOR(ts)], [uid => 'id'])."
)
MERGE = "Write merge(one => TABLE t PARTITION BY k, two => TABLE t PARTITION BY k, [on_time => DESCRIPTOR(ts)], [uid => 'id'])."


def node(query: str) -> ProcessTable:
    (only,) = (n for n in plan(query).walk() if isinstance(n, ProcessTable))
    return only


def columns(plan: Node) -> list[tuple[str, str, TimeDomain | None]]:
    return [(f.name, str(f.type), f.time) for f in plan.schema]


def test_keys_come_first_then_the_row_then_rowtime():
    process_node = node(
        "SELECT * FROM process(input => TABLE bids PARTITION BY item, auction, on_time => DESCRIPTOR(ts))"
    )
    assert columns(process_node) == [
        ("item", "STRING", None), ("auction", "BIGINT", None), ("alert", "STRING", None),
        ("rowtime", "TIMESTAMP", TimeDomain.EVENT),
    ]  # fmt: skip
    assert (process_node.uid, process_node.in_order, process_node.clock, process_node.timed) == (
        "process",
        False,
        False,
        True,
    )


def test_arguments_come_by_name_or_by_position():
    by_name = node(
        "SELECT * FROM process(limit => 2, uid => 'u', on_time => DESCRIPTOR(ts), input => TABLE bids PARTITION BY n, "
        "columns => DESCRIPTOR(Price, n))"
    )
    by_position = node("SELECT * FROM process(TABLE bids PARTITION BY n, DESCRIPTOR(price, n), 2, DESCRIPTOR(ts), 'u')")
    assert by_name == by_position
    assert by_name.descriptors == (("columns", ("price", "n")),)
    assert [c.type for c in by_name.constants] == [BIGINT]


def test_columns_pass_through_in_place_of_keys():
    process_node = node("SELECT * FROM check(TABLE clicks, 3)")
    assert [name for name, *_ in columns(process_node)] == ["k", "v", "pt", "good"]
    assert process_node.keys == ()
    assert process_node.arguments == (
        ProcessInput("input", ("k", "v", "pt"), ("k", "v", "pt"), passed=("k", "v", "pt")),
    )


def test_rows_of_timers_of_processing_time_have_no_event_time():
    query = "SELECT * FROM merge(TABLE bids PARTITION BY item, TABLE bids PARTITION BY item, DESCRIPTOR(ts))"
    assert columns(node(query))[-1] == ("rowtime", "TIMESTAMP", None)


def test_typed_rows_read_what_they_have():
    query = "SELECT * FROM merge(TABLE (SELECT n AS k, auction FROM bids) PARTITION BY k, TABLE bids PARTITION BY n)"
    process_node = node(query)
    assert process_node.arguments[1] == ProcessInput("two", ("n",), ("n",), (BIGINT,), ("n",))
    assert optimized(query).count("Scan(bids: auction, n)") == optimized(query).count("Scan(bids: n)") == 1


def test_windows_are_built_on_rowtime():
    query = """SELECT window_start, COUNT(*) FROM TUMBLE(TABLE (SELECT * FROM process(TABLE bids PARTITION BY n, on_time =>
        DESCRIPTOR(ts))), DESCRIPTOR(rowtime), INTERVAL '1' MINUTE) GROUP BY window_start, window_end"""
    assert "on rowtime" in bound(query)
    assert "AssignTime(ts" in optimized(query)


def test_filters_stay_above():
    query = "SELECT alert FROM process(TABLE bids PARTITION BY n) WHERE n = 1"
    assert optimized(query).splitlines()[2].endswith("Filter(n = 1)")
    assert isinstance(optimize(plan(query)), Node)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("process(TABLE bids)", 'SS262: "process" has state or timers and needs PARTITION BY [TABLE bids] HINT: ' + PROCESS),
        ("process(inpt => TABLE bids)", 'SS260: "process" has no argument "inpt" [inpt => TABLE bids] HINT: Did you mean "input"? ' + PROCESS),
        ("process(limit => 3, TABLE bids)", "SS260: an argument by position cannot follow a named one [TABLE bids] HINT: " + PROCESS),
        ("process(TABLE bids PARTITION BY n, input => TABLE bids)", 'SS260: argument "input" of "process" is given twice [input => TABLE bids] HINT: ' + PROCESS),
        ("process(uid => TABLE bids)", 'SS260: "process" needs the argument "input" [process(uid => TABLE bids)] HINT: ' + PROCESS),
        ("merge(TABLE bids PARTITION BY n, TABLE bids PARTITION BY n, DESCRIPTOR(ts), 'u', 1)", 'SS260: "merge" takes at most 4 arguments [1] HINT: ' + MERGE),
        ("process(TABLE bids PARTITION BY n, limit => DESCRIPTOR(n))", 'SS261: argument "limit" of "process" must be a constant [limit => DESCRIPTOR(n)] HINT: ' + PROCESS),
        ("process(TABLE bids PARTITION BY n, columns => 3)", 'SS261: argument "columns" of "process" must be DESCRIPTOR(…) [columns => 3] HINT: ' + PROCESS),
        ("process(input => DESCRIPTOR(n), uid => TABLE bids)", 'SS261: argument "input" of "process" must be TABLE t [input => DESCRIPTOR(n)] HINT: ' + PROCESS),
        ("process(TABLE bids PARTITION BY n, limit => n)", 'SS261: argument "limit" of "process" must be a constant [limit => n] HINT: The function reads columns of the rows that it gets.'),
        ("process(TABLE bids PARTITION BY n, limit => TRUE)", 'SS261: argument "limit" of "process" is BOOLEAN, not BIGINT [limit => TRUE] HINT: ' + PROCESS),
        ("process(TABLE bids PARTITION BY n, columns => DESCRIPTOR(prise))", 'SS201: column "prise" of DESCRIPTOR does not exist [prise] HINT: Did you mean "price"?'),
        ("process(TABLE bids PARTITION BY n + 1)", 'SS262: PARTITION BY of "process" must name columns [n + 1] HINT: Compute it in a subquery: TABLE (SELECT …, expression AS k FROM t).'),
        ("merge(TABLE bids PARTITION BY n, TABLE bids PARTITION BY auction)", 'SS262: the tables of "merge" are partitioned by (INT) and (BIGINT) [TABLE bids PARTITION BY auction] HINT: Give all tables keys of the same types, in the same order, with CAST in a subquery where needed.'),
        ("process(TABLE bids PARTITION BY n ORDER BY ts)", "SS263: ORDER BY in TABLE must name the column of on_time, ascending, and nothing else [ts] HINT: Write ORDER BY ts and on_time => DESCRIPTOR(ts), with PARTITION BY before it."),
        ("process(TABLE bids PARTITION BY n ORDER BY ts DESC, on_time => DESCRIPTOR(ts))", "SS263: ORDER BY in TABLE must name the column of on_time, ascending, and nothing else [ts DESC] HINT: Write ORDER BY ts and on_time => DESCRIPTOR(ts), with PARTITION BY before it."),
        ("process(TABLE plain PARTITION BY k, on_time => DESCRIPTOR(ts))", 'SS210: column "ts" has no watermark, so on_time cannot tell when a window is complete [ts] HINT: Add WATERMARK FOR ts AS ts - INTERVAL \'5\' SECOND to CREATE TABLE of "plain".'),
        ("process(TABLE bids PARTITION BY n, on_time => DESCRIPTOR(tz))", 'SS264: on_time must name one column of the table of "input", not 0 [DESCRIPTOR(tz)] HINT: The columns are "auction", "price", "item", "tags", "who", "seen", "ts", "n".'),
        ("process(TABLE bids PARTITION BY n, on_time => DESCRIPTOR(ts, n))", 'SS264: on_time must name one column of the table of "input", not 2 [DESCRIPTOR(ts, n)] HINT: Name one for each table.'),
        ("process(TABLE clicks PARTITION BY k, on_time => DESCRIPTOR(pt))", "SS264: on_time must name columns of event time [DESCRIPTOR(pt)] HINT: Processing time is ctx.processing_time, in a class with processing_time = True."),
        ("process(TABLE bids PARTITION BY n, uid => '')", "SS265: uid must be a text that is not empty [uid => ''] HINT: Write uid => 'alerts'."),
        ("merge(TABLE bids PARTITION BY n, TABLE plain PARTITION BY v)", 'SS266: column "n" does not exist in the table of "merge", whose rows have it [TABLE plain PARTITION BY v] HINT: The columns are "k", "v", "ts".'),
        ("merge(TABLE bids PARTITION BY item, TABLE (SELECT item, tags AS n FROM bids) PARTITION BY item)", 'SS266: column "n" in the table of "merge" is ARRAY<STRING>, not BIGINT [TABLE (SELECT item, tags AS n FROM bids) PARTITION BY item] HINT: Convert it: TABLE (SELECT …, CAST(n AS BIGINT) …).'),
        ("process(TABLE (SELECT n AS alert FROM bids) PARTITION BY alert)", 'SS268: the rows of "process" have 2 columns "alert" [process(TABLE (SELECT n AS alert FROM bids) PARTITION BY alert)] HINT: Rename the column in the rows of the function, or in a subquery: TABLE (SELECT …, alert AS x FROM t).'),
    ],
)  # fmt: skip
def test_wrong_calls_show_what_is_expected(call, expected):
    assert error(f"SELECT * FROM {call}") == expected


def test_two_calls_need_two_uids():
    call = "SELECT alert FROM process(TABLE bids PARTITION BY n{})"
    two = f"{call.format('')} UNION ALL {call.format(', limit => 1{}')}"
    assert error(two.format("")) == (
        'SS265: two calls of process functions have the uid "process" '
        "HINT: Add uid => 'process-2' to one of the calls: it names the state of the call."
    )
    assert errors(two.format(", uid => 'other'")) == []
    assert errors(f"{call.format('')} UNION ALL {call.format('')}") == []


def test_event_time_and_windows_on_processing_time_are_two_clocks():
    query = """SELECT COUNT(*) FROM TUMBLE(TABLE clicks, DESCRIPTOR(pt), INTERVAL '1' MINUTE) GROUP BY window_start, window_end
        UNION ALL SELECT n FROM process(TABLE bids PARTITION BY n, on_time => DESCRIPTOR(ts))"""
    assert error(query).startswith("SS327")
