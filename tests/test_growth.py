"""No step before Spark takes more than its share of work as a statement grows.

Calls of functions are counted, no clock is read. Where the text grows by twice as much, the calls may grow by a little
more than twice as many, for what is n log n. What is quadratic grows by four times as many, and what is exponential
does not end.
"""

from __future__ import annotations

import cProfile
import sys
from collections.abc import Callable, Iterator

import pytest
from sqlglot import exp

from sqlstream.errors import SqlStreamError
from sqlstream.grammar import expected_after, format_script, parse_script, to_sql
from sqlstream.grammar.nodes import CreateView, Insert, Query, StatementSet
from sqlstream.planner.batch import resolve
from sqlstream.planner.batch.decision import streaming_clause
from sqlstream.planner.batch.respelling import for_spark
from sqlstream.planner.batch.spark_text import spark_text
from sqlstream.planner.binder import bind_view
from sqlstream.planner.explain import explain, from_json, to_json
from sqlstream.planner.physical import explain_physical
from sqlstream.planner.rules import optimize
from sqlstream.plans import RULES, bound_plan
from sqlstream.statements.checking import check_script
from sqlstream.workspace import Workspace
from tests.planner.plans import created, physical

# What is exponential takes the memory of the machine long before the usual limit; the slowest of these takes 11 s.
pytestmark = pytest.mark.timeout(150)

_SIZE = 6
_MOST = 2.4
_LEAST_CALLS = 300
"""Growth of fewer calls is that of a single list somewhere."""


def _joined(separator: str, part: str) -> Callable[[int], str]:
    return lambda n: separator.join(part.replace("#", str(i)) for i in range(n))


def _of(text: str, **parts: Callable[[int], str]) -> Callable[[int], str]:
    return lambda n: text.format(**{name: part(n) for name, part in parts.items()})


def _nested(text: str) -> Callable[[int], str]:
    """``SELECT [ABS(]v[)] FROM plain``: what stands in brackets, n times."""
    start, opening, inner, closing, end = text.replace("]", "[").split("[")
    return lambda n: start + opening * n + inner + closing * n + end


_SELECT, _WHERE = "SELECT {x} AS x FROM plain", "SELECT v FROM plain WHERE {x}"
_WINDOW = "FROM TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' SECOND) GROUP BY window_start, window_end"

_JOIN = "SELECT p.v FROM plain AS p JOIN clicks AS c ON p.v = c.v AND"

_CHAIN = "c# AS (SELECT v, k FROM c@ WHERE v <> #)"
_DOUBLING = "c# AS (SELECT v + v AS v FROM c@)"


def _ctes(one: str) -> Callable[[int], str]:
    def text(n: int) -> str:
        queries = (one.replace("#", str(i + 1)).replace("@", str(i)) for i in range(n))
        return f"WITH c0 AS (SELECT v, k FROM plain), {', '.join(queries)} SELECT v FROM c{n} WHERE v > 0"

    return text


def _views(one: str) -> Callable[[int], str]:
    """A chain of views, of which the last one is read."""

    def text(n: int) -> str:
        views = (f"CREATE VIEW {one.replace('#', str(i + 1)).replace('@', str(i))}" for i in range(n))
        return f"CREATE VIEW c0 AS SELECT v, k FROM plain; {'; '.join(views)}; SELECT v FROM c{n} WHERE v > 0"

    return text


def _numbered(opening: str, inner: str, closing: str) -> Callable[[int], str]:
    """``opening`` with ``#`` for each number and ``@`` for the one before, around ``inner``."""

    def text(n: int) -> str:
        parts = (opening.replace("#", str(i + 1)).replace("@", str(i)) for i in range(n))
        return f"{''.join(parts)}{inner}{closing * n}"

    return text


_GROWING: dict[str, Callable[[int], str]] = {
    "sum": _of(_SELECT, x=_joined(" + ", "1")),
    "sum of calls": _of(_SELECT, x=_joined(" + ", "COALESCE(v, 0)")),
    "sum to the right": _nested("SELECT [v + (]v[)] AS x FROM plain"),
    "products": _of(_SELECT, x=_joined(" * ", "(v - 1)")),
    "and": _of(_WHERE, x=_joined(" AND ", "v <> #")),
    "or": _of(_WHERE, x=_joined(" OR ", "k LIKE '%#%'")),
    "and of or": _of(_WHERE, x=_joined(" AND ", "(v = # OR k = '#')")),
    "or inside and": _nested("SELECT v FROM plain WHERE [v = 1 AND (v = 2 OR (]v = 3[))]"),
    "case": _of("SELECT CASE {x} ELSE 0 END AS x FROM plain", x=_joined(" ", "WHEN v = # THEN #")),
    "case inside case": _nested("SELECT [CASE WHEN v = 1 THEN 1 ELSE ]v[ END] AS x FROM plain"),
    "in": _of("SELECT v FROM plain WHERE v IN ({x})", x=_joined(", ", "# + 1")),
    "union": _joined(" UNION ALL ", "SELECT v FROM plain"),
    "union inside union": _nested("[SELECT v FROM plain UNION ALL (]SELECT v FROM plain[)]"),
    "queries of WITH": _ctes(_CHAIN),
    "queries of WITH that compute": _ctes(_DOUBLING),
    "calls": _nested("SELECT [ABS(]v[)] AS x FROM plain"),
    "typed calls": _nested("SELECT [COALESCE(v, ]v[)] AS x FROM plain"),
    "arrays": _nested("SELECT [ARRAY(]v[)] AS x FROM plain"),
    "casts": _nested("SELECT [CAST(]v[ AS BIGINT)] AS x FROM plain"),
    "arguments": _of("SELECT COALESCE({x}) AS x FROM plain", x=_joined(", ", "v + #")),
    "subqueries": _nested("SELECT v FROM [(SELECT v FROM ](SELECT v FROM plain)[ AS s WHERE v > 1)] AS s"),
    "columns": _of("SELECT {x} FROM plain", x=_joined(", ", "v + # AS c#")),
    "aggregates": _of(f"SELECT {{x}} {_WINDOW}", x=_joined(", ", "SUM(n + #) AS c#")),
    "sum of aggregates": _of(f"SELECT {{x}} AS x {_WINDOW}", x=_joined(" + ", "SUM(n + #)")),
    "triggers": _of(f"SELECT COUNT(*) AS c {_WINDOW} TRIGGER {{x}}", x=_joined(" OR ", "EVERY 1# ROWS")),
    "over": _of("SELECT {x} FROM bids", x=_joined(", ", "SUM(n + #) OVER (PARTITION BY auction ORDER BY ts) AS c#")),
    "statements": _joined("; ", "SELECT v + # AS x FROM plain"),
    "inserts": _of(
        "EXECUTE STATEMENT SET BEGIN {x} END",
        x=lambda n: _joined(" ", "INSERT INTO late SELECT auction, item, ts FROM bids WHERE n = #;")(n // 2),
    ),
    "declared columns": _of(
        "CREATE TABLE w ({x}) WITH ('connector' = 'test'); SELECT * FROM w", x=_joined(", ", "c# INT")
    ),
    "joins by OR": _of(f"{_JOIN} ({{x}})", x=_joined(" OR ", "p.v + c.v = #")),
    "joins by AND": _of(f"{_JOIN} {{x}}", x=_joined(" AND ", "p.v + c.v <> #")),
    "subqueries of IN": _of(_WHERE, x=_joined(" AND ", "v IN (SELECT v FROM clicks WHERE v > #)")),
    "subqueries of EXISTS": _of(
        _WHERE, x=_joined(" AND ", "EXISTS (SELECT 1 FROM clicks WHERE clicks.v = plain.v AND clicks.v > #)")
    ),
    "scalar subqueries": _of(
        "SELECT {x} FROM plain", x=_joined(", ", "(SELECT MAX(v) FROM clicks WHERE clicks.k = plain.k) AS c#")
    ),
    "union of distinct rows": _joined(" UNION ", "SELECT v FROM plain"),
    "intersect": _joined(" INTERSECT ", "SELECT v FROM plain"),
    "except": _joined(" EXCEPT ", "SELECT v FROM plain"),
    "keys of groups": _of("SELECT COUNT(*) AS c FROM plain GROUP BY {x}", x=_joined(", ", "v + #")),
    "aggregates of groups": _of("SELECT {x} FROM plain GROUP BY k", x=_joined(", ", "SUM(DISTINCT v + #) AS c#")),
    "having": _of("SELECT k FROM plain GROUP BY k HAVING {x}", x=_joined(" AND ", "SUM(v) <> #")),
    "grouping sets": _of(
        "SELECT COUNT(*) AS c FROM plain GROUP BY GROUPING SETS ({x})", x=_joined(", ", "(v + #)")
    ),
    "values": _of("SELECT * FROM (VALUES {x}) AS t(a, b)", x=_joined(", ", "(#, 'a')")),
    "unnest": _of("SELECT n FROM bids {x}", x=_joined(" ", "CROSS JOIN UNNEST(tags) AS u#(x#)")),
    "brackets": lambda n: f"SELECT {'ARRAY[' * n}v{']' * n}{'[0]' * n} AS x FROM plain",
    "fields": lambda n: f"SELECT {'STRUCT(' * n}v{' AS a)' * n}{'.a' * n} AS x FROM plain",
    "mistakes": _of("SELECT {x} FROM plain", x=_joined(", ", "wrong#")),
    "comments": _of("SELECT {x} AS x FROM plain", x=_joined(" + ", "v /* c# */ -- d#\n")),
    "views": _views(_CHAIN.removesuffix(")").replace("(SELECT", "SELECT")),
    "views that compute": _views(_DOUBLING.removesuffix(")").replace("(SELECT", "SELECT")),
    "tables between commas": _of(
        "SELECT p.v FROM plain AS p, {x} WHERE {y}",
        x=_joined(", ", "clicks AS c#"), y=_joined(" AND ", "p.v = c#.v"),
    ),
    "IN inside IN": _nested("SELECT v FROM plain [WHERE v IN (SELECT v FROM clicks ][)]"),
    "NOT IN inside NOT IN": _nested("SELECT v FROM plain [WHERE v NOT IN (SELECT v FROM clicks ][)]"),
    "EXISTS inside EXISTS": lambda n: "SELECT v FROM plain AS c0" + _numbered(
        " WHERE EXISTS (SELECT 1 FROM clicks AS c# WHERE c#.v = c@.v AND c#.v IN (SELECT v FROM plain", "", "))"
    )(n),
    "EXISTS in ON": _nested(
        "SELECT p.v FROM plain AS p [JOIN clicks AS c ON p.v = c.v AND EXISTS (SELECT 1 FROM plain AS p ][)]"
    ),
    "scalar inside scalar": _nested("SELECT [(SELECT MAX(v) + ]1[ FROM clicks)] AS x FROM plain"),
    "scalar in WHERE of scalar": _nested("SELECT v FROM plain [WHERE v > (SELECT MAX(v) FROM clicks ][)]"),
    "array types": _nested("SELECT CAST(NULL AS [ARRAY<]INT[>]) AS x FROM plain"),
    "struct types": _nested("SELECT CAST(NULL AS [STRUCT<a: ]INT[>]) AS x FROM plain"),
    "map types": _nested("SELECT CAST(NULL AS [MAP<INT, ]INT[>]) AS x FROM plain"),
    "members of a type": _of("SELECT CAST(NULL AS STRUCT<{x}>) AS x FROM plain", x=_joined(", ", "c#: INT")),
    "lambdas": lambda n: f"SELECT {_numbered('TRANSFORM(ARRAY(v), x# -> v + ', 'x1', ')')(n)} AS x FROM plain",
    "joins": lambda n: "SELECT p.v FROM plain AS p " + _joined(" ", "JOIN clicks AS c# ON p.v = c#.v")(n),
    "joins within time": lambda n: "SELECT o.n FROM bids AS o " + _joined(
        " ", "JOIN bids AS c# ON c#.auction = o.auction AND c#.ts BETWEEN o.ts - INTERVAL '1' SECOND AND o.ts"
    )(n),
    "lookups": lambda n: "SELECT o.v FROM clicks AS o " + _joined(
        " ", "JOIN lookup FOR SYSTEM_TIME AS OF o.pt AS l# ON l#.id = o.v"
    )(n),
    "groups inside groups": _nested("SELECT SUM(v) AS v FROM [(SELECT SUM(v) AS v, k FROM ]plain[ GROUP BY k)]"),
    "comments in one place": _of("SELECT v {x} FROM plain", x=_joined(" ", "/* c# */")),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _room() -> Iterator[None]:
    """Calls in other threads would not be counted."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000)
    yield
    sys.setrecursionlimit(limit)


@pytest.fixture(scope="module")
def workspace() -> Workspace:
    return Workspace(created())


@pytest.mark.parametrize("name", _GROWING)
def test_calls_grow_with_the_text(name, workspace):
    text = _GROWING[name]
    _counts(text(_SIZE), workspace)  # what is computed once
    counts = [_counts(text(_SIZE * factor), workspace) for factor in (1, 2, 4)]
    steep = {step: actual for step in counts[0] if not _is_even(actual := [c[step] for c in counts])}
    assert steep == {}


def _is_even(calls: list[int]) -> bool:
    small, middle, large = calls
    return large - middle < _LEAST_CALLS or large - middle <= _MOST * max(middle - small, 1)


def _counts(text: str, workspace: Workspace) -> dict[str, int]:
    """By step how many functions it calls."""
    return {step: _calls(run) for step, run in _steps(text, workspace)}


def _steps(text: str, workspace: Workspace) -> Iterator[tuple[str, Callable[[], object]]]:
    statements = parse_script(text)
    yield "parse", lambda: parse_script(text)
    yield "complete", lambda: expected_after(text)
    yield "print", lambda: [to_sql(statement) for statement in statements]
    yield "format", lambda: format_script(text)
    yield "check", lambda: check_script(text, workspace)
    views = [s for s in statements if isinstance(s, CreateView)]
    if views:
        workspace = workspace.copy()
    for view in views:
        workspace.catalog.create(view.name, bind_view(view, workspace.catalog, text))
    planned = [s for s in statements if isinstance(s, Query | Insert | StatementSet)]
    try:
        plans = [bound_plan(statement, workspace) for statement in planned]
    except SqlStreamError:  # a mistake that is wanted, or a table of this script
        return
    for stage, kind in (("TRACE", "JSON"), ("CHANGELOG_MODE", "MERMAID"), ("ADVICE", "TEXT")):
        yield f"explain {stage}", lambda s=stage, k=kind: [explain(plan, k, s, RULES) for plan in plans]  # type: ignore[misc]
    yield "physical", lambda: [explain_physical(physical(optimize(plan, RULES))) for plan in plans]
    queries = [s.query for s in planned if isinstance(s, Query)]
    yield "spell for Spark", lambda: [_spelled(query, workspace) for query in queries]
    documents = [to_json(plan) for plan in plans]
    yield "load", lambda: [from_json(document) for document in documents]


def _spelled(query: exp.Expr, workspace: Workspace) -> str:
    """The query as a batch gives it to Spark; of windows, which are no batches, nothing."""
    if streaming_clause(query, workspace.catalog, {}) is not None:
        return ""
    names: dict[str, str] = {}
    resolved = resolve(query, workspace.catalog, lambda table: names.setdefault(table.name, f"t{len(names)}"))
    return spark_text(for_spark(resolved.query, workspace.catalog)).text


def _calls(run: Callable[[], object]) -> int:
    profile = cProfile.Profile()
    profile.runcall(run)
    return sum(entry.callcount for entry in profile.getstats())
