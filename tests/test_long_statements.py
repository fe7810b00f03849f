"""Long and deep statements go through every step before Spark, with the whole result."""

from __future__ import annotations

import sys

import pytest

from sqlstream.grammar import format_script, parse_query, parse_script, to_sql
from sqlstream.grammar.nodes import Query
from sqlstream.planner.explain import explain
from sqlstream.plans import RULES, bound_plan
from sqlstream.statements.checking import check_script
from sqlstream.workspace import Workspace
from tests.planner.plans import created

# Python 3.12 and 3.13 bound the depth of C calls, which no larger stack changes.
_DEEP = 400 if sys.version_info < (3, 12) else 100


def _ctes(number: int) -> str:
    queries = (f"c{i} AS (SELECT v + 1 AS v FROM c{i - 1} WHERE v <> {i})" for i in range(1, number))
    return f"WITH c0 AS (SELECT v FROM plain), {', '.join(queries)} SELECT v FROM c{number - 1}"


_TEXTS = {
    "and": f"SELECT v FROM plain WHERE {' AND '.join(f'v <> {i}' for i in range(1000))}",
    "or": f"SELECT v FROM plain WHERE {' OR '.join(f'v = {i}' for i in range(1000))}",
    "in": f"SELECT v FROM plain WHERE v IN ({', '.join(map(str, range(2000)))})",
    "union": " UNION ALL ".join(["SELECT v FROM plain"] * 1000),
    "sum": f"SELECT {' + '.join(['v'] * _DEEP)} AS v FROM plain",
    "with": _ctes(_DEEP),
    "calls": f"SELECT {'ABS(' * _DEEP}v{')' * _DEEP} AS v FROM plain",
    "subqueries": f"SELECT v FROM {'(SELECT v FROM ' * (_DEEP // 2)}plain{')' * (_DEEP // 2)}",
    "cases": f"SELECT {'CASE WHEN v = 1 THEN 1 ELSE ' * (_DEEP // 2)}v{' END' * (_DEEP // 2)} AS v FROM plain",
}


@pytest.fixture(scope="module")
def workspace() -> Workspace:
    return Workspace(created())


@pytest.mark.parametrize("name", _TEXTS)
def test_a_long_statement_goes_through_every_step(name, workspace):
    text = _TEXTS[name]
    (statement,) = parse_script(text)
    assert isinstance(statement, Query)
    assert parse_query(to_sql(statement)) == statement.query
    assert parse_script(format_script(text)) == (statement,)
    assert check_script(text, workspace) == ()
    document = explain(bound_plan(statement, workspace), "JSON", "CHANGELOG_MODE", RULES)
    assert document.count('"node": "Scan"') == (2 * 1000 if name == "union" else 2)


@pytest.mark.parametrize(
    ("terms", "number"),
    [
        (f"CUBE ({', '.join(f'v + {i}' for i in range(20))})", "1,048,576"),
        (f"CUBE ({', '.join(f'v + {i}' for i in range(3000))})", "over 1,000,000,000,000"),
        (", ".join(f"ROLLUP (v + {i}, v - {i})" for i in range(12)), "531,441"),
        (f"GROUPING SETS ({', '.join(['CUBE (k, v, ts)'] * 600)})", "4,800"),
    ],
)
def test_grouping_sets_that_multiply_are_refused_before_they_are_listed(terms, number, workspace):
    (found,) = check_script(f"SELECT COUNT(*) AS n FROM plain GROUP BY {terms}", workspace)
    assert (found.code, found.message) == ("SS289", f"GROUP BY has {number} grouping sets, more than 4,096")
