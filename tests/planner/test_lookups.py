"""Lookups: what is asked, what of ON is decided where, what the options and hints become."""

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from sqlstream.grammar import parse_query, parse_script, to_sql
from sqlstream.grammar.nodes import Query
from sqlstream.jobs.checkpoints.fingerprint import FingerprintPart, fingerprint
from sqlstream.planner.binder import bind_statement
from sqlstream.planner.binder.context import BinderSettings
from sqlstream.planner.expressions import conjuncts
from sqlstream.planner.nodes import Filter, Output
from sqlstream.planner.operators.lookup import LOOKUP_ERROR, Lookup
from sqlstream.planner.properties import ArrivalOrder
from sqlstream.planner.rules import optimize, stages
from sqlstream.planner.rules.push_filters import comparisons
from sqlstream.plans import binder_settings, plan_of
from sqlstream.settings import Settings
from sqlstream.types import parse_type
from sqlstream.udfs.lookup.options import Cache, LookupOptions, OnError, OnTimeout, Order, Retry
from sqlstream.udfs.lookup.source import Comparison
from sqlstream.workspace import Workspace
from tests.planner.plans import created, error, physical, plan

TABLES = """
CREATE TABLE o (x INT, y BIGINT, s STRING, d DOUBLE, ts TIMESTAMP(3), pt AS PROCTIME(), PRIMARY KEY (y) NOT ENFORCED,
    WATERMARK FOR ts AS ts) WITH ('connector' = 'test');
CREATE TABLE c (id BIGINT, name STRING, age INT, born DATE, seen TIMESTAMP(3), rate DECIMAL(4, 2), good BOOLEAN,
    next_age AS age + 1, PRIMARY KEY (id) NOT ENFORCED)
    WITH ('connector' = 'test', 'role' = 'lookup', 'test.delay' = '17 ms');
CREATE TABLE failures (Y BIGINT, x STRING, error STRING, pt TIMESTAMP(3)) WITH ('connector' = 'test');
"""
JOIN = "FROM o JOIN c FOR SYSTEM_TIME AS OF o.pt"


def lookup(text: str, actual=plan) -> Lookup:
    return next(n for n in actual(text, TABLES).walk() if isinstance(n, Lookup))


def asked(clause: str) -> LookupOptions:
    return lookup(f"SELECT * {JOIN} LOOKUP ASYNC ({clause}) ON c.id = o.y").options


def hinted(options: str) -> LookupOptions:
    return lookup(f"SELECT /*+ LOOKUP('table' = 'c', {options}) */ * {JOIN} ON c.id = o.y").options


# --- options --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("clause", "changed"),
    [
        ("", {}),
        ("OUTPUT UNORDERED, CAPACITY 7", {"order": Order.UNORDERED, "capacity": 7}),
        ("OUTPUT KEY ORDERED", {"order": Order.KEY_ORDERED}),
        ("TIMEOUT INTERVAL '0.5' SECOND, ON TIMEOUT NULL", {"timeout_ms": 500, "on_timeout": OnTimeout.NULL}),
        ("ON TIMEOUT DEFER, ON ERROR NULL", {"on_timeout": OnTimeout.DEFER, "on_error": OnError.NULL}),
        ("RETRY 2 TIMES (FIXED DELAY INTERVAL '0' SECOND)", {"retries": (Retry(2, 0),)}),
        ("RETRY ON MISS 0 TIMES (FIXED DELAY INTERVAL '1' SECOND)", {}),
        (
            "RETRY ON MISS 1 TIMES (FIXED DELAY INTERVAL '1' SECOND), "
            "RETRY ON ERROR 5 TIMES (EXPONENTIAL FROM INTERVAL '1' SECOND)",
            {"retries": (Retry(1, 1000, True, False), Retry(5, 1000, False, True, True))},
        ),
        ("CACHE 5 ROWS", {"cache": Cache(5)}),
        ("CACHE 5 ROWS TTL INTERVAL '1' MINUTE NEGATIVE TTL INTERVAL '0' SECOND", {"cache": Cache(5, 60_000, 0)}),
        ("BATCH 5 WITHIN INTERVAL '2' MILLISECOND", {"batch": 5, "batch_within_ms": 2}),
    ],
)
def test_options_of_the_clause(clause, changed):
    assert asked(clause) == replace(LookupOptions(), **changed)


@pytest.mark.parametrize(
    ("options", "changed"),
    [
        ("'async' = 'TRUE'", {}),
        ("'async' = 'false', 'output-mode' = 'allow_unordered'", {"asynchronous": False}),
        ("'output-mode' = 'ALLOW_UNORDERED', 'capacity' = '7'", {"order": Order.UNORDERED, "capacity": 7}),
        ("'timeout' = '1 min'", {"timeout_ms": 60_000}),
        ("'timeout' = '180s', 'shuffle' = 'false'", {}),
        ("'timeout' = '250'", {"timeout_ms": 250}),
        (
            "'retry-predicate' = 'lookup_miss', 'retry-strategy' = 'fixed_delay', 'fixed-delay' = '10s', "
            "'max-attempts' = '3'",
            {"retries": (Retry(3, 10_000, True, False),)},
        ),
    ],
)
def test_options_of_the_hint(options, changed):
    assert hinted(options) == replace(LookupOptions(), **changed)


def test_without_clause_and_hint_a_table_is_asked_row_by_row_and_a_coroutine_at_once():
    assert lookup(f"SELECT * {JOIN} ON c.id = o.y").options == LookupOptions(asynchronous=False)
    assert lookup("SELECT * FROM o, LATERAL TABLE(later(o.s)) AS l").options == LookupOptions()


def test_settings_are_the_defaults_of_clause_and_hint():
    given = Settings()
    given.set("table.exec.async-lookup.buffer-capacity", "9")
    given.set("table.exec.async-lookup.timeout", "9 s")
    given.set("table.exec.async-lookup.output-mode", "allow_unordered")
    catalog = created(TABLES)

    def options(text: str) -> LookupOptions:
        (statement,) = parse_script(text)
        assert isinstance(statement, Query)
        bound = bind_statement(statement, catalog, binder_settings(given))
        return next(n for n in bound.walk() if isinstance(n, Lookup)).options

    defaults = LookupOptions(order=Order.UNORDERED, capacity=9, timeout_ms=9000)
    assert options(f"SELECT * {JOIN} LOOKUP ASYNC ON c.id = o.y") == defaults
    assert options(f"SELECT /*+ LOOKUP('table' = 'c') */ * {JOIN} ON c.id = o.y") == defaults
    own = options(f"SELECT * {JOIN} LOOKUP ASYNC (OUTPUT ORDERED, CAPACITY 1) ON c.id = o.y")
    assert own == replace(defaults, order=Order.ORDERED, capacity=1)
    synchronous = options(f"SELECT * {JOIN} ON c.id = o.y")
    assert synchronous == replace(defaults, asynchronous=False, order=Order.ORDERED)
    assert BinderSettings().lookup == LookupOptions()


def test_a_printed_hint_is_read_again():
    text = f"SELECT /*+ LOOKUP('table' = 'c', 'fixed-delay' = '10s'), LOOKUP('table' = 'd') */ * {JOIN} ON c.id = o.y"
    query = parse_query(text)
    assert "/*+ LOOKUP('table' = 'c', 'fixed-delay' = '10s'), LOOKUP('table' = 'd') */" in to_sql(query)
    assert parse_query(to_sql(query)) == query


def test_a_hint_is_for_its_own_select():
    inner = f"SELECT * {JOIN} ON c.id = o.y"
    below = f"SELECT /*+ LOOKUP('table' = 'c') */ * FROM ({inner}) AS q"
    assert error(below, TABLES).startswith('SS257: the LOOKUP hint names "c", which is no lookup join of this SELECT')
    assert lookup(f"SELECT * FROM ({inner.replace('SELECT', hint())}) AS q").options.asynchronous


def hint() -> str:
    return "SELECT /*+ LOOKUP('table' = 'c') */"


# --- keys and conditions --------------------------------------------------------------------------------------


def keys(condition: str) -> dict[str, str]:
    lookup_node = lookup(f"SELECT * {JOIN} ON {condition}")
    return {k.name: k.expression.sql("spark") for k in lookup_node.keys}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("c.id = o.y", {"id": "`y`"}),
        ("o.x = c.id", {"id": "CAST(`x` AS BIGINT)"}),
        ("(c.id = 3)", {"id": "CAST(3 AS BIGINT)"}),
        ("c.age = o.y", {"age": "TRY_CAST(`y` AS INT)"}),
        ("c.name = LOWER(o.s) AND c.id = o.x + 1", {"name": "LOWER(`s`)", "id": "CAST(`x` + 1 AS BIGINT)"}),
        ("c.born = o.ts", {"born": "CAST(`ts` AS DATE)"}),
        ("c.id = o.y AND c.id = o.x", {"id": "`y`"}),
        ("c.id = o.y AND c.next_age = o.x", {"id": "`y`"}),
        ("c.id = o.y AND c.age = c.id", {"id": "`y`"}),
        ("c.id = NULL", {"id": "CAST(NULL AS BIGINT)"}),
    ],
)
def test_equalities_of_stored_columns_are_keys(condition, expected):
    assert keys(condition) == expected


@pytest.mark.parametrize(
    ("condition", "rest"),
    [
        ("c.age = o.y", None),  # what does not fit is NULL and finds nothing
        ("c.id = o.d", "`id` = `d`"),  # 1.5 would find the rows of 1
        ("c.rate = o.y", None),
        ("c.rate = o.d", "`rate` = `d`"),
        ("c.born = o.ts", "`born` = `ts`"),
        ("c.id = o.y AND c.id = o.x", "`id` = `x`"),
        ("c.id = o.y AND c.name IS NOT DISTINCT FROM o.s", "`name` IS NOT DISTINCT FROM `s`"),
    ],
)
def test_what_a_key_does_not_decide_stays_a_condition(condition, rest):
    lookup_node = lookup(f"SELECT * {JOIN} ON {condition}").condition
    assert (lookup_node.sql("spark") if lookup_node is not None else None) == rest


def test_functions_of_python_stand_above_an_inner_lookup():
    bound = plan(f"SELECT * {JOIN} ON c.id = o.y AND twice(c.age) > o.x AND c.age > 3", TABLES)
    (above,) = (n for n in bound.walk() if isinstance(n, Filter))
    assert isinstance(above.input, Lookup)
    assert above.condition.sql("spark").startswith("TWICE")
    assert above.input.condition is not None
    assert above.input.condition.sql("spark") == "`age` > 3"


ATOMS = ("c.id = o.y", "c.id = o.x", "c.age = o.x", "c.id = 1", "c.age > 0", "o.x > 0", "c.id > o.y", "o.y = o.x")
VALUES = (None, 0, 1)


@settings(max_examples=60)
@given(st.permutations(ATOMS).flatmap(lambda atoms: st.integers(1, 5).map(lambda n: ["c.id = o.y", *atoms[:n]])))
def test_a_lookup_finds_what_the_condition_says(atoms):
    """Left join on small numbers and NULLs, against the condition evaluated on each pair of rows."""
    condition = parse_query(f"SELECT {' AND '.join(atoms)}").expressions[0]
    for word in ("JOIN", "LEFT JOIN"):
        bound = plan(f"SELECT * FROM o {word} c FOR SYSTEM_TIME AS OF o.pt ON {' AND '.join(atoms)}", TABLES)
        node = next(n for n in bound.walk() if isinstance(n, Lookup))
        left = node.input.condition if isinstance(node.input, Filter) else exp.true()
        for x, y, id_, age in product(VALUES, repeat=4):
            row, answer = {"x": x, "y": y}, {"id": id_, "age": age}
            asked_for = {k.name: value(k.expression, row) for k in node.keys}
            actual = value(left, row) is True and all(v is not None and v == answer[n] for n, v in asked_for.items())
            actual = actual and (node.condition is None or value(node.condition, {**row, **answer}) is True)
            assert actual is (value(condition, {**row, **answer}) is True)


def value(node: Any, row: dict[str, int | None]) -> Any:
    """SQL's three-valued logic over integers."""
    match node:
        case exp.Column():
            return row[node.name]
        case exp.Literal():
            return int(node.name)
        case exp.Boolean():
            return bool(node.this)
        case exp.Cast() | exp.Paren():
            return value(node.this, row)
        case exp.Case():
            branch = node.args["ifs"][0]
            return value(branch.args["true"], row) if value(branch.this, row) is True else None
    left, right = value(node.left, row), value(node.right, row)
    if isinstance(node, exp.And):
        return False if False in (left, right) else None if None in (left, right) else True
    if left is None or right is None:
        return None
    return left == right if isinstance(node, exp.EQ) else left > right


# --- names ----------------------------------------------------------------------------------------------------


def names(text: str) -> tuple[str, ...]:
    bound = plan(text, TABLES)
    assert isinstance(bound, Output)
    return bound.names


def test_stars_show_columns_in_declared_order():
    ours, theirs = ("x", "y", "s", "d", "ts", "pt"), ("id", "name", "age", "born", "seen", "rate", "good", "next_age")
    assert names(f"SELECT * {JOIN} ON c.id = o.y") == (*ours, *theirs)
    assert names(f"SELECT c.* {JOIN} ON c.id = o.y") == theirs
    assert names(f"SELECT * {JOIN} AS k (y, a, b, e, f, g, h, i) ON k.y = o.y") == (*ours, *"yabefghi")


def test_using_shows_its_column_once_and_first():
    joined = f"{JOIN} AS k (y, a, b, e, f, g, h, i) USING (y)"
    assert names(f"SELECT * {joined}") == ("y", "x", "s", "d", "ts", "pt", *"abefghi")
    assert names(f"SELECT o.*, k.* {joined}") == ("x", "y", "s", "d", "ts", "pt", *"yabefghi")
    assert names(f"SELECT y, k.y {joined}") == ("y", "y")
    lookup_node = lookup(f"SELECT y {joined}")
    assert [(k.name, k.expression.name) for k in lookup_node.keys] == [("id", "y")]


def test_columns_of_a_left_lookup_may_be_null():
    fields = {f.name: f for f in lookup("SELECT * FROM o LEFT JOIN c FOR SYSTEM_TIME AS OF o.pt ON c.id = o.y").schema}
    assert all(fields[name].nullable for name in ("id", "name", "next_age"))


def test_processing_time_passes_through_subqueries_views_and_lookups():
    inner = f"SELECT y, c.name AS n, pt AS at {JOIN} ON c.id = o.y"
    twice = f"SELECT * FROM ({inner}) AS q JOIN c FOR SYSTEM_TIME AS OF q.at ON c.name = q.n"
    assert len([n for n in plan(twice, TABLES).walk() if isinstance(n, Lookup)]) == 2
    view = f"CREATE VIEW v AS {inner}; SELECT * FROM v JOIN c FOR SYSTEM_TIME AS OF at ON c.name = v.n"
    assert len([n for n in plan(view, TABLES).walk() if isinstance(n, Lookup)]) == 2


# --- failed rows ----------------------------------------------------------------------------------------------


def test_failed_rows_go_by_name_with_the_error():
    lookup_node = lookup(f"SELECT * {JOIN} LOOKUP ASYNC (ON ERROR TO failures) ON c.id = o.y")
    assert lookup_node.failed is not None and lookup_node.options.on_error is OnError.TO
    assert [v.sql("spark") for v in lookup_node.failed.values] == [
        "`y`",
        "CAST(`x` AS STRING)",
        f"`{LOOKUP_ERROR}`",
        "`pt`",
    ]


def test_an_error_column_of_the_left_side_comes_before_the_error_itself():
    left = "(SELECT y, s AS error, pt, x FROM o) AS q"
    join = f"FROM {left} JOIN c FOR SYSTEM_TIME AS OF q.pt LOOKUP ASYNC (ON ERROR TO failures) ON c.id = q.y"
    lookup_node = lookup(f"SELECT * {join}")
    assert lookup_node.failed is not None
    assert lookup_node.failed.values[2].sql("spark") == "`error`"


# --- filters --------------------------------------------------------------------------------------------------

COLUMNS = {
    name: (f"c_{name}", parse_type(kind))
    for name, kind in {
        "n": "INT", "big": "BIGINT", "s": "STRING", "d": "DATE", "t": "TIMESTAMP", "z": "TIMESTAMP_NTZ",
        "r": "DECIMAL(4, 2)", "f": "DOUBLE", "b": "BOOLEAN",
    }.items()
}  # fmt: skip


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("n > 3", [("n", ">", 3)]),
        ("3 >= n", [("n", "<=", 3)]),
        ("n <> -3", [("n", "<>", -3)]),
        ("n = 2.0", [("n", "=", 2)]),
        ("n = 2.5", []),
        ("n = '2'", []),
        ("s = 'a'", [("s", "=", "a")]),
        ("s = 2", []),
        ("s IN ('a', 'b')", [("s", "IN", ("a", "b"))]),
        ("s IN ('a', NULL)", []),
        ("n BETWEEN 1 AND 5", [("n", ">=", 1), ("n", "<=", 5)]),
        ("n IS NULL", [("n", "IS NULL", None)]),
        ("n IS NOT NULL", [("n", "IS NOT NULL", None)]),
        ("b = TRUE", [("b", "=", True)]),
        ("r < 1.25", [("r", "<", Decimal("1.25"))]),
        ("f < 1.25", [("f", "<", 1.25)]),
        ("d >= DATE '2024-02-03'", [("d", ">=", dt.date(2024, 2, 3))]),
        ("d >= '2024-02-03'", []),
        ("t > TIMESTAMP '2024-02-03 04:05:06'", []),
        ("t > TIMESTAMP '2024-02-03 04:05:06+02:00'", [("t", ">", dt.datetime(2024, 2, 3, 2, 5, 6, tzinfo=dt.UTC))]),
        ("n > big", []),
        ("n + 1 > 3", []),
        ("other > 3", []),
        ("n > 3 OR n < 1", []),
    ],
)
def test_comparisons_with_constants_of_the_columns_type(condition, expected):
    parsed = parse_query(f"SELECT {condition}").expressions[0]
    collected = [(c.column.removeprefix("c_"), c.operator, c.value) for c in comparisons(parsed, COLUMNS)]
    assert collected == expected
    assert [type(v) for *_, v in collected] == [type(v) for *_, v in expected]


def test_the_source_gets_the_filters_it_accepts_and_answers_no_column_for_them():
    text = f"SELECT c.name {JOIN} ON c.id = o.y AND c.age > 3 AND c.good <> FALSE AND c.next_age > 4 WHERE c.rate < 2"
    rules = stages(lambda table, comparison: table.name == "c" and comparison.column != "good")
    lookup_node = lookup(text, lambda *a: optimize(plan(*a), rules))
    assert lookup_node.filters == (Comparison("age", ">", 3), Comparison("rate", "<", Decimal(2)))
    assert lookup_node.condition is not None
    assert [c.sql("spark") for c in conjuncts(lookup_node.condition)] == ["`good` <> FALSE", "`next_age` > 4"]
    assert [f.name for f in lookup_node.read] == ["name", "age", "good"]


def test_no_source_no_filters():
    text = f"SELECT c.name {JOIN} ON c.id = o.y AND c.age > 3"
    assert lookup(text, lambda *a: optimize(plan(*a))).filters == ()


# --- properties -----------------------------------------------------------------------------------------------


def test_what_is_known_of_a_lookup():
    lookup_node = lookup(f"SELECT * {JOIN} ON c.id = o.y")
    assert [f.name for f in lookup_node.time_attributes] == ["ts", "pt"]
    assert lookup_node.unique_keys == {frozenset({"y"})}
    assert lookup(f"SELECT * {JOIN} ON c.name = o.s").unique_keys == frozenset()
    assert not lookup_node.bounded
    assert lookup_node.arrival_order is ArrivalOrder.SOURCE
    unordered = lookup(f"SELECT * {JOIN} LOOKUP ASYNC (OUTPUT UNORDERED) ON c.id = o.y")
    assert unordered.arrival_order is ArrivalOrder.ANSWERS


def test_explain_shows_no_options_of_tables():
    assert "17" not in lookup(f"SELECT * {JOIN} ON c.id = o.y").describe()


def test_only_deferred_rows_tie_a_job_to_how_it_looks_up():
    def text(clause: str, on: str = "c.id = o.y") -> tuple[FingerprintPart, ...]:
        return fingerprint(physical(lookup(f"SELECT c.name {JOIN} LOOKUP ASYNC ({clause}) ON {on}")))

    assert text("CAPACITY 3, OUTPUT UNORDERED", "c.id = o.x") == text("CACHE 3 ROWS")
    deferred = text("ON TIMEOUT DEFER")
    assert deferred == text("ON TIMEOUT DEFER, CAPACITY 3, TIMEOUT INTERVAL '1' SECOND, CACHE 5 ROWS, BATCH 2")
    others = [text("ON TIMEOUT DEFER, OUTPUT UNORDERED"), text("ON TIMEOUT DEFER", "c.id = o.x"), text("")]
    assert deferred not in others


def test_a_table_whose_connector_answers_no_lookups_is_refused():
    workspace = Workspace(created(TABLES + "CREATE TABLE p (id INT) WITH ('connector' = 'print');"))
    (statement,) = parse_script("SELECT * FROM o JOIN p FOR SYSTEM_TIME AS OF o.pt ON p.id = o.x")
    assert isinstance(statement, Query)
    with pytest.raises(Exception, match=r'SS512: table "p" cannot be looked up: connector "print" answers no lookups'):
        plan_of(statement, workspace)
