"""Conditions of ON as kernels decide them: which columns of each side, and what is done with them."""

from __future__ import annotations

import pytest
from sqlglot import exp

from sqlstream.errors import BindError
from sqlstream.planner.catalog import RowKind
from sqlstream.planner.kernel_expressions import PairCondition, pair_condition
from sqlstream.planner.operators.join import RegularJoin
from sqlstream.udfs.expressions.tree import And, Column, Compared, Expression, IsNull, Not, Or
from tests.planner.plans import error, plan
from tests.streams import fields, sql

LEFT = fields(a="INT", s="STRING", t="TIMESTAMP", flag="BOOLEAN", tags="ARRAY<INT>")
RIGHT = fields(b="BIGINT", u="STRING", v="TIMESTAMP", other="ARRAY<INT>")


def text(condition: Expression, names: dict[tuple[int, str], str]) -> str:
    match condition:
        case Column(name, side):
            return names[side, name]
        case Compared(comparison, left, right):
            return f"{text(left, names)} {comparison.value} {text(right, names)}"
        case Not(inner):
            return f"not({text(inner, names)})"
        case IsNull(inner):
            return f"unknown({text(inner, names)})"
        case And(parts):
            return f"({' and '.join(text(part, names) for part in parts)})"
        case Or(parts):
            return f"({' or '.join(text(part, names) for part in parts)})"
    raise AssertionError(condition)


def found(condition: str) -> PairCondition:
    return pair_condition(sql(condition), LEFT, RIGHT)


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("s < u", "l[s] < r[u]"),
        ("u > s", "r[u] > l[s]"),
        ("a = b", "l[CAST(a AS BIGINT)] = r[b]"),
        ("a + 1.5 <> b", "l[CAST(a + 1.5 AS DECIMAL(21, 1))] <> r[CAST(b AS DECIMAL(21, 1))]"),
        ("t > v - INTERVAL '1' HOUR", "l[t] > r[v - INTERVAL '1' HOUR]"),
        ("upper(s) >= u", "l[UPPER(s)] >= r[u]"),
        ("s LIKE 'x%' AND u = 'y'", "(l[s LIKE 'x%'] and r[u = 'y'])"),
        ("flag OR s = u", "(l[flag] or l[s] = r[u])"),
        ("NOT (s = u OR a < b)", "not((l[s] = r[u] or l[CAST(a AS BIGINT)] < r[b]))"),
        ("b BETWEEN a AND a + 10", "(r[b] >= l[CAST(a AS BIGINT)] and r[b] <= l[CAST(a + 10 AS BIGINT)])"),
        ("s IN (u, 'x')", "(l[s] = r[u] or l[s] = l['x'])"),
        ("s NOT IN (u, 'x')", "not((l[s] = r[u] or l[s] = l['x']))"),
        ("s IS NOT DISTINCT FROM u", "l[s] <=> r[u]"),
        ("s IS DISTINCT FROM u", "not(l[s] <=> r[u])"),
        ("(s = u) IS NULL", "unknown(l[s] = r[u])"),
        ("(s = u) IS NOT TRUE", "not((not(unknown(l[s] = r[u])) and l[s] = r[u]))"),
        ("s = u AND s = u", "(l[s] = r[u] and l[s] = r[u])"),
        ("TRUE", "l[TRUE]"),
    ],
)
def test_each_operand_is_a_column_of_one_side(condition: str, wanted: str) -> None:
    decided = found(condition)
    names = {
        (side, name): f"{'lr'[side]}[{value.sql(dialect='spark')}]"
        for side, columns in enumerate(decided.columns)
        for name, value in columns
    }
    assert text(decided.condition, names).replace("`", "") == wanted


@pytest.mark.parametrize(
    ("condition", "code", "marked"),
    [
        ("a + b > 3", "SS291", "a + b"),
        ("3 < a + b", "SS291", "a + b"),
        ("concat(s, u) LIKE 'x%'", "SS291", "concat(s, u) LIKE 'x%'"),
        ("a IN (b + a)", "SS291", "b + a"),
        ("rand() < b", "SS292", "rand() < b"),
        ("tags = other", "SS293", "tags"),
        ("s > b", "SS293", "s"),
    ],
)
def test_other_conditions_are_refused_where_they_stand(condition: str, code: str, marked: str) -> None:
    query = f"SELECT {condition}"
    with pytest.raises(BindError) as raised:
        pair_condition(sql(condition), LEFT, RIGHT)
    span = raised.value.diagnostics[0].span
    assert raised.value.code == code
    assert span is not None and query[span.start : span.end] == marked


def test_a_function_of_python_is_refused() -> None:
    assert "SS292" in error("SELECT b.item FROM bids b LEFT JOIN clicks c ON b.item = c.k AND twice(b.n) > c.v")


@pytest.mark.parametrize(
    ("join", "appends"),
    [("JOIN", True), ("LEFT SEMI JOIN", True), ("LEFT JOIN", False), ("FULL JOIN", False), ("LEFT ANTI JOIN", False)],
)
def test_joins_of_inserts_that_never_withdraw_append(join: str, appends: bool) -> None:
    bound = plan(f"SELECT b.item FROM bids b {join} clicks c ON b.item = c.k")
    joined = next(node for node in bound.walk() if isinstance(node, RegularJoin))
    wanted = frozenset({RowKind.INSERT} if appends else {RowKind.INSERT, RowKind.DELETE})
    assert joined.changelog_mode == wanted


def test_true_is_no_condition() -> None:
    bound = plan("SELECT b.item FROM bids b LEFT JOIN clicks c ON TRUE")
    joined = next(node for node in bound.walk() if isinstance(node, RegularJoin))
    assert (joined.equal, joined.condition) == ((), None)
    assert isinstance(sql("TRUE"), exp.Boolean)


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        ("SELECT c.id, d.id AS other FROM cdc c JOIN cdc d ON c.id = d.id", [{"id"}, {"id_1"}, {"id", "id_1"}]),
        ("SELECT c.id, d.id AS other FROM cdc c JOIN cdc d ON c.id = d.id + 1", [{"id_1"}, {"id", "id_1"}]),
        ("SELECT c.id FROM cdc c JOIN cdc d ON year(c.ts) = year(d.ts)", []),
    ],
)
def test_results_change_by_keys_that_hold_what_must_be_equal(query: str, keys: list[set[str]]) -> None:
    """Changes of other keys come from several key groups, in any order."""
    joined = next(node for node in plan(query).walk() if isinstance(node, RegularJoin))
    assert joined.upsert_keys == frozenset(map(frozenset, keys))
