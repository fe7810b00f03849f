"""Rules: plans stay well-formed, keep their schema and, on Spark, their result."""

import pytest

from sqlstream.grammar import parse_query
from sqlstream.jobs.checkpoints.fingerprint import fingerprint
from sqlstream.planner.explain import explain
from sqlstream.planner.expressions import columns_of, folded
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Correlate, Filter, Project, Scan, Union
from sqlstream.planner.operators.lookup import LOOKUP_ERROR, Lookup
from sqlstream.planner.operators.over import Over
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.operators.windows import AssignWindows
from sqlstream.planner.rules import STAGES, optimize, trace
from tests.depth import usually
from tests.planner.corpus import bound_plan_of, titles
from tests.planner.plans import optimized, physical, plan


def read_fields(node: Node) -> set[str]:
    """The fields of the input that a node's expressions name."""
    match node:
        case Project(items=items) | WindowAggregate(aggregates=items):
            collected = set().union(*(columns_of(i.expression) for i in items))
            if isinstance(node, WindowAggregate):
                own = {node.columns.start, node.columns.end, node.columns.time}
                collected |= {
                    *node.keys,
                    *([node.time] if node.time else []),
                    *(node.window.fields_read if node.window is not None else ()),
                }
                collected |= node.firing.fields_read
                collected = collected - own if node.window else collected | own
            return collected
        case Filter(condition=condition):
            return columns_of(condition)
        case Correlate(function=function):
            return columns_of(function)
        case Lookup():
            return read_by_lookup(node)
        case AssignWindows():
            return {
                *([node.time] if node.time else []),
                *node.partition_by,
                *node.window.fields_read,
            }
    return set()


def read_by_lookup(node: Lookup) -> set[str]:
    """Of the input; the outputs are over what the source answers."""
    assert set().union(*(columns_of(o.expression) for o in node.outputs)) == {f.name for f in node.read}
    failed = set().union(*map(columns_of, node.failed.values)) if node.failed else set()
    condition = columns_of(node.condition) if node.condition is not None else set()
    asked = set().union(*(columns_of(k.expression) for k in node.keys))
    return asked | (failed - {LOOKUP_ERROR}) | (condition - {o.name for o in node.outputs})


def assert_well_formed(root: Node) -> None:
    for node in root.walk():
        names = [f.name.casefold() for f in node.schema]
        assert len(names) == len(set(names)), f"two fields of one name in {node}"
        if isinstance(node, Scan):
            assert set().union(*map(columns_of, node.predicates)) <= set(node.columns)
        elif node.inputs:
            assert read_fields(node) <= {f.name for f in node.inputs[0].schema}, f"a field is missing below {node}"
        if isinstance(node, Union):
            schemas = [[(f.name, f.type) for f in b.schema] for b in node.branches]
            assert all(s == schemas[0] for s in schemas)


@pytest.mark.parametrize("title", titles())
def test_every_stage_gives_a_well_formed_plan_of_the_same_schema(title):
    bound = bound_plan_of(title)
    for name, after in trace(bound):
        assert_well_formed(after)
        assert [(f.name, f.type) for f in after.schema] == [(f.name, f.type) for f in bound.schema], name


@pytest.mark.parametrize("title", titles())
def test_stages_may_run_in_any_order_and_on_their_own(title):
    bound = bound_plan_of(title)
    for stage in STAGES:
        assert_well_formed(stage.rule(bound))
    assert_well_formed(optimize(bound, reversed(STAGES)))


@pytest.mark.parametrize("title", titles())
def test_optimizing_twice_changes_nothing_more(title):
    once = optimize(bound_plan_of(title))
    assert optimize(once) == once


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", "7"),
        ("1 - 2", "-1"),
        ("2147483647 + 1", "2147483647 + 1"),
        ("1.5 + 1.5", "1.5 + 1.5"),
        ("1 / 2", "1 / 2"),
        ("'a' || 'b'", "'a' || 'b'"),
        ("x AND TRUE", "x"),
        ("FALSE AND x", "FALSE"),
        ("x OR TRUE", "TRUE"),
        ("x OR FALSE", "x"),
        ("NOT TRUE", "FALSE"),
        ("NULL AND x", "NULL AND x"),
        ("1 < 2 AND 2 >= 3", "FALSE"),
        ("NULL = NULL", "NULL = NULL"),
        ("((x))", "x"),
        ("(x + 1) * 2", "(x + 1) * 2"),
        ("CASE WHEN 1 = 1 THEN 1 + 1 END", "CASE WHEN TRUE THEN 2 END"),
        ("CAST(1 + 1 AS STRING)", "CAST(2 AS STRING)"),
    ],
)
def test_only_safe_constants_are_folded(text, expected):
    expression = parse_query(f"SELECT {text}").expressions[0]
    before = expression.copy()
    assert folded(expression).sql("spark") == expected
    assert expression == before, "the tree that was given is left alone"


def test_user_functions_are_neither_repeated_nor_moved():
    text = optimized("SELECT a, a + 1 FROM (SELECT twice(auction) AS a FROM bids) WHERE a > 1")
    assert text.count("TWICE(auction)") == 1
    assert text.index("Filter(a > 1)") < text.index("TWICE")


@pytest.mark.parametrize(
    "clauses",
    [
        "WINDOW USING assigner(5)",
        "GLOBAL WINDOW TRIGGER PURGING (EVERY 5 ROWS OR USING trigger())",
        "GLOBAL WINDOW TRIGGER EVERY 5 ROWS EVICT USING evictor()",
    ],
)
def test_python_classes_of_windows_see_all_columns(clauses):
    assert "item" in optimized(f"SELECT COUNT(*) FROM bids GROUP BY {clauses}")
    assert "item" not in optimized("SELECT COUNT(*) FROM bids GROUP BY GLOBAL WINDOW TRIGGER EVERY 5 ROWS")


def test_a_costly_expression_is_merged_when_it_is_read_once():
    assert "Project(UPPER(item) || 'x' AS b)" in optimized(
        "SELECT a || 'x' AS b FROM (SELECT UPPER(item) AS a FROM bids)"
    )
    twice = optimized("SELECT a || a AS b FROM (SELECT UPPER(item) AS a FROM bids)")
    assert "Project(a || a AS b)" in twice


def test_substituted_expressions_keep_their_precedence():
    assert "(n + 1) * 2" in optimized("SELECT m * 2 AS x FROM (SELECT n + 1 AS m FROM bids)")


def test_a_scan_keeps_one_column_to_count_rows_by():
    scan = next(n for n in optimize(plan("SELECT 1 AS one FROM plain")).walk() if isinstance(n, Scan))
    assert scan.columns == ("k",)


# --- on Spark -------------------------------------------------------------------------------------------------

ROWS: dict[str, list[tuple[object, ...]]] = {
    "bids": [("a", 1, 1000), ("b", 2, 1500), ("a", None, 2500), ("c", 4, 9000), ("a", 0, 9500), ("b", -3, 21000)],
    "more": [("a", 7, 1200), ("d", 8, 30000)],
}
TABLES = "".join(
    f"CREATE TABLE {name} (item STRING, n INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) "
    "WITH ('connector' = 'test');"
    for name in ROWS
)
TUMBLE = "TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '2' SECOND)"
SESSION = "SESSION(TABLE bids PARTITION BY item, DESCRIPTOR(ts), INTERVAL '2' SECOND)"
QUERIES = (
    "SELECT item, m * 2 FROM (SELECT item, n + 1 AS m FROM bids WHERE n IS NOT NULL) WHERE m > 1 AND item <> 'c'",
    "SELECT * FROM (SELECT item, n FROM bids UNION ALL SELECT UPPER(item), n FROM more) WHERE n > 1",
    f"SELECT item, c FROM (SELECT item, COUNT(*) AS c, SUM(n) AS s, window_start FROM {TUMBLE} WHERE n >= 0 "
    "GROUP BY item, window_start, window_end) WHERE item = 'a' AND c >= 1",
    f"SELECT item, window_start, window_end, COUNT(n), SUM(n) FROM {SESSION} GROUP BY item, window_start, window_end",
    f"SELECT i, SUM(m) FROM (SELECT item AS i, n * 2 AS m, window_start AS ws, window_end AS we FROM {SESSION}) "
    "GROUP BY i, ws, we",
    f"SELECT item, window_end, COUNT(*) FROM {SESSION} WHERE n > 0 AND item < 'c' GROUP BY item, window_start, "
    "window_end",
    f"SELECT window_end, COUNT(*) FROM (SELECT window_end, n FROM {TUMBLE}) WHERE n > 0 GROUP BY window_end",
)


@pytest.mark.spark
@pytest.mark.parametrize("query", usually(QUERIES, *(QUERIES[i] for i in (0, 2, 5))))
def test_optimized_plan_has_the_result_of_the_bound_plan(spark, tmp_path, query):
    from tests.streams import Streams

    streams = Streams(spark, tmp_path)
    bound = plan(query, TABLES).inputs[0]
    scans = {n.table.name: n.table for n in bound.walk() if isinstance(n, Scan)}
    for name, table in scans.items():
        streams.write(table, ROWS[name])
    expected = streams.run(bound)
    assert expected, "a query without rows tells nothing"
    assert streams.run(optimize(bound)) == expected


def test_rules_leave_the_plan_that_they_are_given_alone():
    bound = bound_plan_of("planner/plans: constants")
    before = explain(bound, stage="LOGICAL")
    optimize(bound)
    assert explain(bound, stage="LOGICAL") == before


@pytest.mark.parametrize(
    "source",
    [
        "SELECT item, n, CURRENT_WATERMARK(ts) AS w FROM bids",
        "SELECT item, n, SUM(n) OVER (PARTITION BY item ORDER BY ts) AS s FROM bids",
        "SELECT item, n, SUM(n) OVER (PARTITION BY item ORDER BY n) AS s FROM bids",
        "SELECT item, n, SUM(n) OVER (PARTITION BY item ORDER BY ts) AS s, CURRENT_WATERMARK(ts) FROM bids",
    ],
)
def test_an_operator_that_nobody_reads_stops_no_filter_and_needs_no_watermark(source):
    query = f"SELECT item FROM ({source}) WHERE n > 3"
    assert optimized(query) == "Output(item)\n└─ Project(item)\n   └─ Scan(bids: item, n where n > 3)"
    assert optimize(optimize(plan(query))) == optimize(plan(query))


def test_an_operator_that_nobody_reads_leaves_the_watermark_of_others():
    rows = "SELECT *, SUM(n) OVER (PARTITION BY item ORDER BY ts) AS s FROM bids"
    query = f"SELECT COUNT(*) FROM TUMBLE(TABLE ({rows}), DESCRIPTOR(ts), INTERVAL '1' MINUTE) GROUP BY window_end"
    assert "AssignTime(ts, watermark ts - 5 s)\n         └─ Scan(bids: ts)" in optimized(query)


def test_checkpoints_go_on_where_an_operator_that_nobody_reads_was_removed_late():
    rows = "SELECT item, SUM(n) OVER (PARTITION BY item ORDER BY ts) AS s, CURRENT_WATERMARK(ts) AS w FROM bids"
    bound = plan(f"SELECT item, COUNT(*) FROM ({rows}) GROUP BY item")
    late = optimize(bound, [stage for stage in STAGES if stage.name != "remove_unread_operators"])
    assert late != optimize(bound)
    assert fingerprint(physical(late)) == fingerprint(physical(optimize(bound)))


def _over_of(text: str) -> Over:
    (over,) = (node for node in optimize(plan(text)).walk() if isinstance(node, Over))
    return over


def test_over_passes_out_what_somebody_reads():
    call = "SUM(n) OVER (PARTITION BY item ORDER BY ts ROWS 2 PRECEDING) AS s"
    over = _over_of(f"SELECT item, {call} FROM bids")
    assert {field.name for field in over.input.schema} == {"item", "ts", "n"}
    assert [field.name for field in over.schema] == ["item", over.results[0].name]
    assert _over_of(f"SELECT item, ts, n, {call} FROM bids").passed is None
