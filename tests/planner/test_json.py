"""Plans as JSON and back."""

import json
import sys
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from sqlstream.grammar import parse_query
from sqlstream.planner import firing, nodes, windows
from sqlstream.planner.catalog import Column, Function, FunctionKind, RowKind, Table, TimeDomain, Watermark
from sqlstream.planner.explain import explain, from_json, to_json
from sqlstream.planner.explain.to_json import VERSION
from sqlstream.planner.fields import Field, Item
from sqlstream.planner.node import Node
from sqlstream.planner.operators.barriers import AlignBarriers
from sqlstream.planner.operators.lookup import FailedRows, Lookup
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.operators.windows import AssignWindows
from sqlstream.planner.rules import optimize, trace
from sqlstream.types import UNKNOWN, DataType, parse_type
from sqlstream.udfs.lookup.options import Cache, LookupOptions, OnError, OnTimeout, Order, Retry
from sqlstream.udfs.lookup.source import Comparison
from tests.planner.corpus import bound_plan_of, corpus, kinds_of_nodes, titles
from tests.planner.plans import plan


def restored(plan: Node) -> Node:
    return from_json(json.dumps(to_json(plan)))


@pytest.mark.parametrize("title", titles())
def test_plans_of_every_stage_come_back_equal(title):
    for _, item in trace(bound_plan_of(title)):
        assert restored(item) == item


def test_every_kind_of_node_is_in_the_corpus():
    plans = [p for bound in corpus().values() for p in (bound, optimize(bound))]
    collected = {type(n) for p in plans for n in p.walk()}
    assert collected == set(kinds_of_nodes())


def test_every_window_and_every_trigger_is_in_the_corpus():
    aggregates = [n for p in corpus().values() for n in optimize(p).walk() if isinstance(n, WindowAggregate)]
    assert {type(n.window) for n in aggregates} == {*get_args(windows.Window), type(None)}
    triggers = {type(t) for n in aggregates if n.firing.trigger for t in parts(n.firing.trigger)}
    assert triggers == {*get_args(firing.Trigger)}
    evictors = {type(n.firing.eviction.evictor) for n in aggregates if n.firing.eviction}
    assert evictors == {firing.KeepRows, firing.KeepInterval, firing.EvictDelta, firing.UserEvictor}


def parts(trigger):
    yield trigger
    match trigger:
        case firing.Purging(inner=inner):
            yield from parts(inner)
        case firing.Combined(left=left, right=right):
            yield from (*parts(left), *parts(right))


def test_expressions_are_sql():
    document = to_json(optimize(plan("SELECT n + 1 AS m FROM bids WHERE item = 'a'")))
    project = document["plan"]["input"]
    assert project["items"][0]["expression"] == "`n` + 1"
    assert project["input"]["predicates"] == ["`item` = 'a'"]


def test_document_has_a_version_and_another_version_is_refused():
    document = to_json(plan("SELECT n FROM bids"))
    assert document["version"] == VERSION == 1
    with pytest.raises(ValueError, match="plan of version 2, but this is version 1"):
        from_json({**document, "version": 2})


@pytest.mark.parametrize(
    "tree",
    [
        [{"c": "antigravity.Select"}],
        [{"c": "sqlglot.expressions.core.Column", "t": [{"c": "antigravity.Type"}]}],
        [{"c": "sqlglot.expressions.core.Column"}, {"i": 0, "k": "this", "c": "os.getcwd"}],
        [{"c": "maybe_parse"}],
        [{"c": "sqlglot.expressions.core.exp"}],
        [{"c": "sqlglot.generator.Generator"}],
    ],
)
def test_a_tree_of_anything_else_than_expressions_is_refused_and_nothing_is_imported(tree):
    document = to_json(plan("SELECT n FROM bids WHERE n > 1"))
    document["plan"]["input"]["items"][0]["expression"] = {"sql": "n", "tree": tree}
    sys.modules.pop("antigravity", None)
    with pytest.raises(ValueError, match="which is no expression of sqlglot"):
        from_json(json.loads(json.dumps(document)))
    assert "antigravity" not in sys.modules


def test_explain_in_json_can_be_loaded():
    bound = plan("SELECT n FROM bids WHERE n > 1")
    assert from_json(explain(bound, "JSON", "LOGICAL")) == bound
    assert from_json(explain(bound, "JSON")) == optimize(bound)
    assert from_json(explain(bound, "JSON", "CHANGELOG_MODE")) == optimize(bound)
    stages = json.loads(explain(bound, "JSON", "TRACE"))["stages"]
    assert [s["name"] for s in stages][:3] == ["bound", "remove_unused_time", "push_filters"]


# --- plans that no query gives --------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "B", "über", "a b", "select", "x`y", "1", "é'"])
TYPES = st.recursive(
    st.sampled_from([
        *(DataType(n) for n in ("BOOLEAN", "INT", "BIGINT", "DOUBLE", "STRING", "BINARY", "DATE", "TIMESTAMP", "VOID")),
        DataType("INTERVAL"), DataType("VARIANT"), DataType("TIMESTAMP_NTZ"), DataType("DECIMAL", (38, 18)), UNKNOWN,
    ]),
    lambda inner: st.one_of(
        inner.filter(lambda t: not t.is_unknown).map(lambda t: DataType("ARRAY", (t,))),
        inner.filter(lambda t: not t.is_unknown).map(lambda t: DataType("MAP", (DataType("STRING"), t))),
        inner.filter(lambda t: not t.is_unknown).map(lambda t: DataType("STRUCT", (("f", t), ("g", DataType("INT"))))),
    ),
    max_leaves=3,
).filter(lambda t: t.is_unknown or parse_type(t.ddl()) == t)  # fmt: skip
TEXTS = st.sampled_from([
    "a + 1", "-x", "CASE WHEN a THEN 'it''s' ELSE NULL END", "COUNT(DISTINCT a)", "SUM(x) FILTER (WHERE y > 1.50)",
    "a.b.c", "m['k'][0]", "x -> x", "CAST(a AS DECIMAL(10, 2))", "ts + INTERVAL '0.005' SECOND", "f(a, g(b))",
    "LISTAGG(DISTINCT a, '|')", "a IN (1, 2) AND NOT b", "ARRAY(1, 2)", "TRANSFORM(a, x -> x + 1)", "a LIKE 'b%'",
    "EXTRACT(YEAR FROM ts)", "x IS NOT NULL", "a BETWEEN 1 AND 2", "DATE '2020-01-01'", "a || b", "1e3",
    r"a RLIKE '\d'", "LAST_VALUE(a) FILTER (WHERE b > 1) IGNORE NULLS", "ARRAY_AGG(DISTINCT a) RESPECT NULLS",
])  # fmt: skip
EXPRESSIONS = st.one_of(
    TEXTS.filter(lambda t: t != "x -> x").map(lambda t: parse_query(f"SELECT {t}").expressions[0]),
    NAMES.map(lambda n: exp.column(exp.to_identifier(n, quoted=True))),
    st.just(exp.Unnest(expressions=[exp.column("a", quoted=True)], offset=True)),
)
DOMAINS = st.sampled_from(TimeDomain)
ITEMS = st.builds(Item, NAMES, EXPRESSIONS, TYPES, st.booleans(), st.none() | DOMAINS)
FIELDS = st.builds(Field, NAMES, TYPES, st.booleans(), st.none() | DOMAINS)
MILLISECONDS = st.integers(-(10**12), 10**12)
ZONES = st.sampled_from([None, "Europe/Berlin"])
ROWS = st.builds(windows.RowCount, st.integers(1, 10**6))
CALLS = st.builds(firing.PythonCall, NAMES, st.lists(EXPRESSIONS, max_size=2).map(tuple))
WINDOWS = st.one_of(
    st.builds(windows.Tumble, MILLISECONDS, MILLISECONDS, ZONES),
    st.builds(windows.Hop, MILLISECONDS, MILLISECONDS, MILLISECONDS, ZONES),
    st.builds(windows.Cumulate, MILLISECONDS, MILLISECONDS, MILLISECONDS, ZONES),
    st.builds(
        windows.Session, MILLISECONDS | EXPRESSIONS, st.none() | MILLISECONDS, st.none() | EXPRESSIONS,
        st.none() | EXPRESSIONS,
    ),
    st.builds(windows.CountWindow, st.integers(1), st.integers(1), st.booleans()),
    st.builds(windows.RowMeasured, ROWS | MILLISECONDS, ROWS | MILLISECONDS, MILLISECONDS),
    st.just(windows.GlobalWindow()),
    st.builds(windows.UserWindow, CALLS),
)  # fmt: skip
PULSES = st.one_of(
    st.builds(firing.EveryRows, st.integers(1)),
    st.builds(firing.EveryInterval, MILLISECONDS, DOMAINS),
    st.builds(firing.When, EXPRESSIONS),
)
TRIGGERS = st.recursive(
    PULSES
    | st.builds(firing.AfterWatermark, st.none() | PULSES, st.none() | PULSES, MILLISECONDS)
    | st.builds(firing.Delta, EXPRESSIONS, EXPRESSIONS, st.booleans())
    | st.builds(firing.AfterSilence, MILLISECONDS)
    | st.builds(firing.UserTrigger, CALLS)
    | st.sampled_from([firing.AfterProcessingTime(), firing.OnBarrier(), firing.Never(), firing.EachBatch()]),
    lambda inner: (
        st.builds(firing.Purging, inner) | st.builds(firing.Combined, st.sampled_from(firing.Combinator), inner, inner)
    ),
    max_leaves=4,
)
EVICTORS = st.one_of(
    st.builds(firing.KeepRows, st.integers(1)),
    st.builds(firing.KeepInterval, MILLISECONDS),
    st.builds(firing.EvictDelta, EXPRESSIONS, EXPRESSIONS, st.booleans()),
    st.builds(firing.UserEvictor, CALLS),
)
COLUMNS = st.builds(windows.WindowColumns, NAMES, NAMES, NAMES)


def tuples(of, least=0):
    return st.lists(of, min_size=least, max_size=3).map(tuple)


TABLE_COLUMNS = st.builds(
    Column, NAMES, TYPES, st.booleans(), st.none() | EXPRESSIONS, st.none() | NAMES, st.none() | DOMAINS
)
TABLES = st.builds(
    Table, NAMES,
    tuples(TABLE_COLUMNS),
    st.just("test"), tuples(st.tuples(NAMES, NAMES)), st.none() | st.builds(Watermark, NAMES, MILLISECONDS),
    tuples(NAMES),
    st.frozensets(st.sampled_from(RowKind)), st.booleans(),
)  # fmt: skip
FIRINGS = st.builds(
    firing.Firing, st.none() | TRIGGERS, st.sampled_from(firing.Accumulation),
    st.none() | st.builds(firing.Eviction, EVICTORS, st.booleans()),
    st.builds(
        firing.LateData, MILLISECONDS, st.sampled_from(firing.LateAction), st.none() | TABLES,
        st.lists(EXPRESSIONS, max_size=2).map(tuple),
    ),
)  # fmt: skip
COMPARISONS = st.builds(
    Comparison, NAMES, st.sampled_from(["=", "<"]),
    st.integers() | st.text() | st.booleans() | st.dates() | st.decimals(allow_nan=False, allow_infinity=False)
    | st.datetimes() | st.floats(allow_nan=False) | tuples(st.integers() | st.dates(), 1) | st.none(),
)  # fmt: skip
LOOKUPS = st.builds(
    LookupOptions, st.booleans(), st.sampled_from(Order), st.integers(1), MILLISECONDS, st.sampled_from(OnTimeout),
    st.sampled_from(OnError),
    tuples(st.builds(Retry, st.integers(1), MILLISECONDS, limit_ms=st.none() | MILLISECONDS)),
    st.none() | st.builds(Cache, st.integers(1), st.none() | MILLISECONDS, st.none() | MILLISECONDS),
)  # fmt: skip
FUNCTIONS = st.builds(
    Function, NAMES, NAMES, st.just(FunctionKind.ASYNC), TYPES, tuples(st.tuples(NAMES, TYPES)), st.integers(0)
)
PLANS = st.recursive(
    st.builds(nodes.Scan, TABLES, tuples(NAMES), tuples(EXPRESSIONS)),
    lambda below: st.one_of(
        st.builds(nodes.AssignTime, below, NAMES, MILLISECONDS, DOMAINS, NAMES),
        st.builds(nodes.Project, below, tuples(ITEMS)),
        st.builds(nodes.Filter, below, EXPRESSIONS),
        st.builds(nodes.Union, tuples(below, 1)),
        st.builds(nodes.Correlate, below, EXPRESSIONS, tuples(FIELDS), st.booleans()),
        st.builds(
            Lookup, below, TABLES | FUNCTIONS, tuples(ITEMS), tuples(FIELDS), tuples(ITEMS), st.booleans(),
            tuples(COMPARISONS), st.none() | EXPRESSIONS, LOOKUPS,
            st.none() | st.builds(FailedRows, TABLES, tuples(EXPRESSIONS)),
        ),
        st.builds(
            AlignBarriers, below, EXPRESSIONS, st.integers(1), EXPRESSIONS, EXPRESSIONS, FIELDS,
            st.none() | EXPRESSIONS, st.none() | EXPRESSIONS, st.booleans(), st.none() | MILLISECONDS, st.integers(1),
        ),
        st.builds(AssignWindows, below, WINDOWS, st.none() | NAMES, tuples(NAMES), COLUMNS, DOMAINS),
        st.builds(
            WindowAggregate, below, tuples(NAMES), tuples(ITEMS), COLUMNS,
            st.none() | WINDOWS, st.none() | NAMES, st.none() | tuples(tuples(NAMES)),
            st.none() | NAMES, DOMAINS, FIRINGS, st.none() | NAMES, st.none() | NAMES,
        ),
        st.builds(nodes.Output, below, tuples(NAMES)),
        st.builds(nodes.Insert, below, TABLES),
    ),
    max_leaves=4,
)  # fmt: skip


@settings(max_examples=150)
@given(PLANS)
def test_any_plan_comes_back_equal(plan):
    assert restored(plan) == plan
