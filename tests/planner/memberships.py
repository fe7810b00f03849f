"""Random queries with IN and EXISTS over small tables with NULLs, and what they give.

SQLite evaluates each subquery for each row, with SQL's three-valued logic.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from hypothesis import strategies as st

TABLES = {"l": ("a", "b", "id"), "r": ("c", "d", "n")}
"""The last column of each table is NOT NULL."""

Rows = Sequence[tuple[int | None, ...]]


@dataclass(frozen=True)
class Place:
    """What a predicate may read in one place of a query; ``key`` is the column that subqueries may compare."""

    query: str
    operands: tuple[str, ...]
    key: str


_OF_LEFT = ("l.a", "l.b", "l.id", "l.a + 1", "3")
PLACES = (
    Place("SELECT l.id, l.a, {} AS p, {} AS q FROM l", _OF_LEFT, "l.b"),
    Place("SELECT l.id FROM l WHERE {} AND l.id <> 9", _OF_LEFT, "l.b"),
    Place("SELECT l.id, COUNT(*) AS n FROM l GROUP BY l.id HAVING {}", ("MAX(l.a)", "MIN(l.b)", "l.id"), "l.id"),
    Place("SELECT l.b, MAX(l.a) AS m, {} AS p FROM l GROUP BY l.b", ("MAX(l.a)", "l.b", "COUNT(*)"), "l.b"),
    Place("SELECT SUM(CASE WHEN {} THEN 1 ELSE 0 END) AS s, COUNT({}) AS c FROM l GROUP BY l.id", _OF_LEFT, "l.b"),
    *(
        Place(f"SELECT l.id, x.n FROM l {kind} JOIN r AS x ON l.b = x.d AND {{}}", operands, key)
        for kind in ("INNER", "LEFT", "RIGHT", "FULL")
        for operands, key in ((_OF_LEFT, "l.b"), (("x.c", "x.d", "x.n"), "x.d"))
    ),
)  # fmt: skip


def rows() -> st.SearchStrategy[Rows]:
    value = st.none() | st.integers(0, 3)
    return st.lists(st.tuples(value, value, st.integers(0, 3)), max_size=4)


def databases() -> st.SearchStrategy[dict[str, Rows]]:
    return st.fixed_dictionaries({name: rows() for name in TABLES})


def queries(*, unequal: bool = False) -> st.SearchStrategy[str]:
    """``unequal``: subqueries may compare the query around them by inequalities as well."""
    return st.sampled_from(PLACES).flatmap(
        lambda place: st.lists(
            predicates(place, unequal=unequal), min_size=place.query.count("{}"), max_size=place.query.count("{}")
        ).map(lambda found: place.query.format(*found))
    )


def predicates(place: Place, *, unequal: bool = False) -> st.SearchStrategy[str]:
    operand = st.sampled_from(place.operands)
    asked = st.sampled_from(["", f"q.d = {place.key}", "q.d > 1", "q.c IS NOT NULL", "q.n = 2"])
    if unequal:
        asked |= st.sampled_from([f"q.n < {place.key}"])
    where = asked.map(lambda condition: f" WHERE {condition}" if condition else "")

    def selecting(*shown: str) -> st.SearchStrategy[str]:
        return st.builds(lambda columns, w: f"(SELECT {columns} FROM r AS q{w})", st.sampled_from(shown), where)

    one = selecting("q.c", "q.n", "q.c + 1") | st.sampled_from([
        "(SELECT MAX(q.c) FROM r AS q GROUP BY q.d)", "(SELECT q.c FROM r AS q UNION ALL SELECT q.id FROM l AS q)",
        "(SELECT u.a FROM l AS u LEFT JOIN r AS q ON u.a = q.c)", "(VALUES (1), (NULL))", "(VALUES (1), (2))",
        "(SELECT DISTINCT q.c FROM r AS q)",
    ])  # fmt: skip
    is_in = st.sampled_from(["IN", "NOT IN"])
    listed = st.builds(
        lambda a, word, s: f"({a} {word} {s})", operand, is_in | st.sampled_from(["= ANY", "<> ALL"]), one
    )
    listed |= st.builds(
        lambda a, b, word, s: f"(({a}, {b}) {word} {s})", operand, operand, is_in, selecting("q.c, q.d", "q.n, q.c")
    )
    exists = st.builds(
        lambda word, w: f"({word}EXISTS (SELECT 1 FROM r AS q{w}))", st.sampled_from(["", "NOT "]), where
    )
    leaves = listed | listed | exists | st.builds(lambda a: f"({a} > 1)", operand)
    return st.recursive(
        leaves,
        lambda inner: (
            st.builds(lambda p, word, q: f"({p} {word} {q})", inner, st.sampled_from(["AND", "OR", "="]), inner)
            | inner.map(lambda p: f"(NOT {p})")
            | inner.map(lambda p: f"({p} IS NULL)")
            | inner.map(lambda p: f"COALESCE({p}, TRUE)")
            | inner.map(lambda p: f"(CASE WHEN {p} THEN {place.operands[0]} > 1 ELSE TRUE END)")
        ),
        max_leaves=2,
    )


def results(query: str, tables: dict[str, Rows]) -> Counter[tuple[object, ...]]:
    """What SQLite says."""
    plain = query.replace("= ANY (", "IN (").replace("<> ALL (", "NOT IN (")
    with closing(sqlite3.connect(":memory:")) as database:
        for name, columns in TABLES.items():
            database.execute(f"CREATE TABLE {name} ({', '.join(f'{c} INT' for c in columns)})")
            database.executemany(f"INSERT INTO {name} VALUES (?, ?, ?)", tables[name])
        return Counter(database.execute(plain).fetchall())
