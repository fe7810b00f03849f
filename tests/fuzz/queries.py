"""Queries of every form that is executed, over finished tables with columns of every type, by seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

TABLES = {
    "t": ("json", "a INT, b BIGINT NOT NULL, s STRING, ts TIMESTAMP(3), d DECIMAL(10, 2), f DOUBLE, dt DATE, "
          "arr ARRAY<INT>, mp MAP<STRING, INT>, st ROW<x INT, y STRING>, WATERMARK FOR ts AS ts"),
    "u": ("csv", "a INT, b BIGINT, s STRING, ts TIMESTAMP(3), PRIMARY KEY (a) NOT ENFORCED"),
    "v": ("parquet", "a INT NOT NULL, b BIGINT, s STRING, ts TIMESTAMP(3), arr ARRAY<INT>, st ROW<x INT, y STRING>, "
          "WATERMARK FOR ts AS ts - INTERVAL '1' SECOND"),
    "w": ("parquet", "a INT, b BIGINT, s STRING, rows_ ARRAY<ROW<x INT, y STRING>>"),
}  # fmt: skip
"""Tables by name: the format and the columns. All have ``a``, ``b`` and ``s``; rows of JSON and of tables with NOT NULL
or a PRIMARY KEY are checked while they are read."""

_OF_T = {"number": ("a", "b", "d", "f"), "text": ("s",), "time": ("ts",), "array": ("arr",), "row": ("st",)}

_ROWS = (
    "({0}.a, {0}.s) IN ((1, 'x'), (2, NULL))", "({0}.a, {0}.b) = (1, 2)", "({0}.a, {0}.b) < (1, 2)",
    "({0}.b, {0}.a) <> (1, NULL)", "ROW({0}.a, {0}.s) = ROW(1, 'x')", "({0}.a, {0}.b) IS NULL",
    "({0}.a, {0}.b) BETWEEN (1, 2) AND (3, 4)", "({0}.a, {0}.b) IS DISTINCT FROM (1, 2)",
    "ROW({0}.a, {0}.b) IN (ROW(1, 2))", "({0}.a, {0}.b) NOT IN ((1, 2))", "{0}.st = ROW(1, 'x')", "{0}.st IS NULL",
    "{0}.st IN (ROW(1, 'x'), NULL)", "{0}.st < ROW(1, 'x')", "ROW({0}.a, 'x') = {0}.st",
)  # fmt: skip
_ROW_VALUES = (
    "ROW({0}.a, {0}.s)", "({0}.a, {0}.b)", "CASE WHEN {0}.a > 1 THEN ROW({0}.a, 'x') ELSE ROW(2, {0}.s) END",
    "COALESCE(ROW({0}.a, {0}.b), ROW(1, 2))", "NULLIF(ROW({0}.a, 1), ROW(1, 1))", "IF({0}.a > 1, {0}.st, ROW(1, 'x'))",
    "ARRAY[ROW({0}.a, 'x'), ROW(1, {0}.s)]", "ROW({0}.a, ROW({0}.b, 'x'))", "CAST(ROW({0}.a, {0}.s) AS ROW<x BIGINT, y STRING>)",
    "{0}.st", "{0}.st.x", "ARRAY[{0}.st]", "MAP['k', ROW({0}.a, 1)]",
)  # fmt: skip
_ARRAYS = (
    "{0}.arr = ARRAY[1, 2]", "ARRAY_CONTAINS({0}.arr, {0}.a)", "CARDINALITY({0}.arr) > 1", "{0}.arr[1] = {0}.a",
    "{0}.arr IN (ARRAY[1], ARRAY[2])", "{0}.a = ANY ({0}.arr)", "{0}.arr < ARRAY[1]", "{0}.arr || ARRAY[1] = {0}.arr",
    "{0}.arr IS NOT DISTINCT FROM ARRAY[{0}.a]", "{0}.b > ALL ({0}.arr)", "ARRAY[{0}.b] = {0}.arr",
)  # fmt: skip
_PLAIN = (
    "{0}.a > 1", "{0}.s LIKE 'x%'", "{0}.a IS NULL", "{0}.b BETWEEN 1 AND 5", "{0}.a IN (1, 2, NULL)", "{0}.s IN ('a', NULL)",
    "NOT ({0}.a = 1 OR {0}.s = 'x')", "{0}.a IS DISTINCT FROM {0}.b", "COALESCE({0}.a, 0) > {0}.b", "{0}.a NOT IN (1, NULL)",
    "CASE WHEN {0}.a > 1 THEN TRUE ELSE {0}.b > 1 END", "{0}.s IS NOT NULL", "{0}.a % 2 = 0", "TRUE", "{0}.a = {0}.s",
)  # fmt: skip
_SUBQUERIES = (
    "{0}.a IN (SELECT {1}.a FROM {1})", "{0}.a NOT IN (SELECT {1}.b FROM {1})", "EXISTS (SELECT 1 FROM {1} WHERE {1}.a = {0}.a)",
    "NOT EXISTS (SELECT 1 FROM {1} WHERE {1}.a = {0}.a AND {1}.b > {0}.b)", "{0}.b > (SELECT MAX({1}.b) FROM {1})",
    "{0}.b > (SELECT MAX({1}.b) FROM {1} WHERE {1}.a = {0}.a)", "{0}.a = ANY (SELECT {1}.a FROM {1})",
    "{0}.b <> ALL (SELECT {1}.b FROM {1} WHERE {1}.s = {0}.s)", "({0}.a, {0}.b) IN (SELECT {1}.a, {1}.b FROM {1})",
    "({0}.a, {0}.b) NOT IN (SELECT {1}.a, {1}.b FROM {1})", "{0}.s IN (SELECT {1}.s FROM {1} WHERE {1}.b < {0}.b)",
    "EXISTS (SELECT 1 FROM {1} WHERE {1}.b > {0}.b)", "EXISTS (SELECT 1 FROM {1})", "{0}.a >= ALL (SELECT {1}.a FROM {1})",
    "(SELECT COUNT(*) FROM {1} WHERE {1}.a = {0}.a) > 1", "{0}.a IN (SELECT {1}.a FROM {1} GROUP BY {1}.a HAVING COUNT(*) > 1)",
    "{0}.a IN (SELECT {1}.a FROM {1} ORDER BY {1}.b LIMIT 3)", "{0}.a < (SELECT {1}.a FROM {1} WHERE {1}.b = {0}.b LIMIT 1)",
    "{0}.a IN (VALUES (1), (2))", "{0}.b IN (SELECT {1}.a FROM {1} UNION ALL SELECT {1}.b FROM {1})",
    "{0}.a IN (SELECT {1}.a FROM {1} WHERE {1}.b IN (SELECT w.b FROM w WHERE w.a = {1}.a))",
    "ROW({0}.a, {0}.s) IN (SELECT ROW({1}.a, {1}.s) FROM {1})", "UNIQUE (SELECT {1}.a FROM {1})",
)  # fmt: skip
_SCALARS = (
    "(SELECT MAX({1}.b) FROM {1})", "(SELECT MAX({1}.b) FROM {1} WHERE {1}.a = {0}.a)", "(SELECT COUNT(*) FROM {1} WHERE {1}.s = {0}.s)",
    "(SELECT {1}.b FROM {1} WHERE {1}.a = {0}.a LIMIT 1)", "(SELECT {1}.b FROM {1} WHERE {1}.a = {0}.a ORDER BY {1}.b DESC LIMIT 1)",
    "(SELECT ARRAY_AGG({1}.a) FROM {1} WHERE {1}.a = {0}.a)", "(SELECT SUM({1}.b) + {0}.a FROM {1})",
    "(SELECT MAX({1}.b) FROM {1} WHERE {1}.a > {0}.a)", "(SELECT {1}.a FROM {1} GROUP BY {1}.a HAVING COUNT(*) > 5)",
    "(SELECT ROW(MAX({1}.a), MIN({1}.s)) FROM {1})", "ARRAY(SELECT {1}.a FROM {1} WHERE {1}.a = {0}.a)",
)  # fmt: skip
_VALUES = (
    "{0}.a", "{0}.b", "{0}.s", "{0}.a + {0}.b", "UPPER({0}.s)", "{0}.a * 2", "COALESCE({0}.s, 'x')", "{0}.ts", "1", "'x'", "NULL",
    "CAST({0}.a AS STRING)", "CASE WHEN {0}.a > 1 THEN {0}.b END", "{0}.arr", "{0}.st", "{0}.mp['k']", "{0}.arr[1]", "{0}.d",
    "TIMESTAMPDIFF(DAY, {0}.ts, {0}.ts)", "{0}.d / {0}.a",
)  # fmt: skip
_AGGREGATES = (
    "COUNT(*)", "COUNT({0}.a)", "COUNT(DISTINCT {0}.s)", "SUM({0}.b)", "MAX({0}.s)", "MIN({0}.ts)", "AVG({0}.a)",
    "SUM({0}.a) FILTER (WHERE {0}.b > 1)", "COUNT(DISTINCT {0}.a, {0}.b)", "ARRAY_AGG({0}.a)", "COLLECT({0}.s)",
    "ARRAY_AGG({0}.a ORDER BY {0}.b)", "LISTAGG({0}.s, ',')", "LISTAGG({0}.s, ',') WITHIN GROUP (ORDER BY {0}.a)",
    "FIRST_VALUE({0}.a)", "LAST_VALUE({0}.s)", "STDDEV_POP({0}.a)", "JSON_ARRAYAGG({0}.a)", "JSON_OBJECTAGG(KEY {0}.s VALUE {0}.a)",
    "MAX({0}.st)", "COUNT(DISTINCT {0}.st)", "MIN(ROW({0}.a, {0}.b))", "ARRAY_AGG({0}.st)", "ARRAY_AGG(ROW({0}.a, {0}.s))",
    "COUNT(DISTINCT {0}.arr)", "MAX({0}.arr)", "ANY_VALUE({0}.st)", "COUNT(DISTINCT ({0}.a, {0}.b))", "SUM(DISTINCT {0}.a)",
    "FIRST_VALUE(ROW({0}.a, {0}.s))", "LAST_VALUE({0}.st)", "MAX_BY({0}.st, {0}.a)", "COUNT({0}.st)", "COUNT(({0}.a, {0}.b))",
    "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY {0}.a)", "SUM({0}.d)", "AVG({0}.d)", "BOOL_OR({0}.a > 1)", "SUM({0}.a + {0}.b) / COUNT(*)",
    "MAX(CASE WHEN {0}.a > 1 THEN {0}.b END)", "GROUPING({0}.a)", "MODE({0}.s)", "APPROX_COUNT_DISTINCT({0}.s)", "SINGLE_VALUE({0}.a)",
)  # fmt: skip
_WINDOWED = (
    "COUNT(*)", "SUM({0}.b)", "MAX({0}.s)", "AVG({0}.a)", "FIRST_VALUE({0}.a)", "LAST_VALUE({0}.s)", "ROW_NUMBER()", "RANK()",
    "DENSE_RANK()", "LAG({0}.a)", "LEAD({0}.b, 2)", "LAG({0}.a, 1, 0)", "NTH_VALUE({0}.a, 2)", "NTILE(4)", "PERCENT_RANK()", "CUME_DIST()",
    "LEAD({0}.a) IGNORE NULLS", "FIRST_VALUE({0}.a) IGNORE NULLS", "LAST_VALUE({0}.a) RESPECT NULLS", "MAX({0}.st)", "LAG({0}.st)",
    "COUNT(DISTINCT {0}.a)", "SUM({0}.a) FILTER (WHERE {0}.b > 1)", "ARRAY_AGG({0}.a)", "COLLECT({0}.a)", "LISTAGG({0}.s)", "MIN(ROW({0}.a, {0}.b))",
    "FIRST_VALUE({0}.st)", "NTH_VALUE({0}.a, 2) FROM LAST", "STDDEV_SAMP({0}.a)", "COUNT({0}.st)", "LAG({0}.a) RESPECT NULLS",
    "ARRAY_AGG({0}.a ORDER BY {0}.b)", "SUM(DISTINCT {0}.a)", "ANY_VALUE({0}.a)", "MAX(SUM({0}.b))", "JSON_ARRAYAGG({0}.a)",
)  # fmt: skip
_BOUNDS = ("UNBOUNDED PRECEDING", "2 PRECEDING", "CURRENT ROW", "2 FOLLOWING", "UNBOUNDED FOLLOWING")
_TIMES = (
    "UNBOUNDED PRECEDING", "INTERVAL '1' MINUTE PRECEDING", "CURRENT ROW", "INTERVAL '1' MINUTE FOLLOWING", "UNBOUNDED FOLLOWING",
)  # fmt: skip
_JOINS = (
    "JOIN {1} ON {0}.a = {1}.a", "LEFT JOIN {1} ON {0}.a = {1}.a AND {0}.b > {1}.b", "RIGHT JOIN {1} ON {0}.a = {1}.a", "FULL JOIN {1} ON {0}.a = {1}.b",
    "CROSS JOIN {1}", "LEFT SEMI JOIN {1} ON {0}.a = {1}.a", "LEFT ANTI JOIN {1} ON {0}.a = {1}.a", "JOIN {1} USING (a)", "LEFT JOIN {1} USING (a, s)",
    "NATURAL JOIN {1}", ", {1}", "JOIN {1} ON {0}.a < {1}.a", "LEFT JOIN {1} ON {0}.a < {1}.a", "FULL JOIN {1} ON {0}.a + {1}.a = 3",
    "ASOF JOIN {1} ON {0}.a = {1}.a AND {0}.b >= {1}.b", "ASOF LEFT JOIN {1} ON {0}.a = {1}.a AND {0}.ts >= {1}.ts",
    "ASOF JOIN {1} MATCH_CONDITION ({0}.ts >= {1}.ts) ON {0}.a = {1}.a", "ASOF JOIN {1} MATCH_CONDITION ({0}.b > {1}.b)",
    "CROSS JOIN LATERAL (SELECT {1}.b AS lb FROM {1} WHERE {1}.a = {0}.a) AS l", "LEFT JOIN LATERAL (SELECT MAX({1}.b) AS lb FROM {1} WHERE {1}.a = {0}.a) AS l ON TRUE",
    "LEFT JOIN LATERAL (SELECT {1}.b AS lb FROM {1} WHERE {1}.ts <= {0}.ts ORDER BY {1}.ts DESC LIMIT 1) AS l ON TRUE",
    ", LATERAL (SELECT {1}.b AS lb FROM {1} WHERE {1}.a > {0}.a) AS l", "CROSS JOIN UNNEST({0}.arr) AS e(el)", "LEFT JOIN UNNEST({0}.arr) AS e(el) ON TRUE",
    "LEFT JOIN UNNEST({0}.arr) AS e(el) ON el > 1", "CROSS JOIN UNNEST({0}.mp) AS e(mk, mv)", "JOIN {1} ON {0}.a IN (SELECT w.a FROM w)",
    "LEFT JOIN {1} ON {0}.a = {1}.a AND {0}.b IN (SELECT w.b FROM w)", "JOIN {1} ON {0}.a = {1}.a AND EXISTS (SELECT 1 FROM w WHERE w.a = {1}.a)",
    "LEFT JOIN {1} ON {0}.a NOT IN (SELECT w.a FROM w)", "JOIN {1} ON {0}.b > (SELECT MAX(w.b) FROM w) AND {0}.a = {1}.a", "FULL JOIN {1} ON {0}.a = {1}.a AND {1}.b IN (SELECT w.b FROM w)",
    "LEFT JOIN {1} ON {0}.a = {1}.a AND {0}.b > (SELECT MAX(w.b) FROM w WHERE w.a = {0}.a)", "JOIN {1} ON ({0}.a, {0}.b) = ({1}.a, {1}.b)", "LEFT JOIN {1} ON ({0}.a, {0}.s) IN (({1}.a, {1}.s))",
    "LEFT JOIN {1} ON {0}.ts BETWEEN {1}.ts - INTERVAL '1' MINUTE AND {1}.ts AND {0}.a = {1}.a", "LEFT JOIN (SELECT a, MAX(b) AS b FROM {1} GROUP BY a) AS j ON {0}.a = j.a",
    "CROSS JOIN UNNEST({0}.arr) WITH ORDINALITY AS e(el, n)", "JOIN {1} ON {0}.st = {1}.st", "JOIN {1} ON {0}.arr = {1}.arr", "LEFT JOIN {1} ON ROW({0}.a, {0}.b) = ROW({1}.a, {1}.b)",
    "LEFT JOIN {1} ON EXISTS (SELECT 1 FROM w WHERE w.a = {0}.a AND w.b = {1}.b)", "LEFT JOIN {1} ON {0}.a = {1}.a OR {0}.b IN (SELECT w.b FROM w)",
)  # fmt: skip
_GROUPS = (
    "{0}.a", "{0}.s", "{0}.a, {0}.s", "{0}.a + 1", "ROLLUP ({0}.a, {0}.s)", "CUBE ({0}.a, {0}.s)", "GROUPING SETS (({0}.a), ({0}.s), ())", "()", "ALL", "1", "{0}.st", "{0}.arr",
    "ROW({0}.a, {0}.s)", "({0}.a, {0}.s)", "{0}.a, ROLLUP ({0}.s)", "UPPER({0}.s)", "{0}.st.x", "k", "{0}.a, ()", "(SELECT MAX(w.a) FROM w)", "{0}.ts", "GROUPING SETS (({0}.a, {0}.s), ROLLUP ({0}.a))",
)  # fmt: skip
_SETS = ("UNION", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL")


class _Maker:
    """Makes parts of queries; the names of tables are their aliases."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def _one(self, forms: Sequence[str], *names: str) -> str:
        return self._random.choice(forms).format(*names)

    def _maybe(self, share: float, make: Callable[[], str]) -> str:
        return make() if self._random.random() < share else ""

    def condition(self, table: str) -> str:
        forms = self._random.choice((_PLAIN, _PLAIN, _ROWS, _ARRAYS, _SUBQUERIES, _SUBQUERIES))
        other = self._random.choice([name for name in TABLES if name != table])
        one = self._one(forms, table, other)
        if self._random.random() < 0.2:
            one = f"NOT ({one})"
        if self._random.random() < 0.15:
            one = f"({one} {self._random.choice(('OR', 'AND'))} {self.condition(table)})"
        return one

    def value(self, table: str) -> str:
        other = self._random.choice([name for name in TABLES if name != table])
        forms = self._random.choice((_VALUES, _VALUES, _VALUES, _ROW_VALUES, _SCALARS, _ROWS, _SUBQUERIES, _ARRAYS))
        one = self._one(forms, table, other)
        if self._random.random() < 0.1:
            one = f"CASE WHEN {self.condition(table)} THEN {one} END"
        return one

    def window(self, table: str) -> str:
        call = self._one(_WINDOWED, table)
        parts = [
            self._maybe(
                0.5,
                lambda: (
                    "PARTITION BY "
                    + self._one(
                        ("{0}.a", "{0}.s", "{0}.a, {0}.s", "{0}.st", "UPPER({0}.s)", "ROW({0}.a, {0}.b)"), table
                    )
                ),
            )
        ]
        order = self._maybe(
            0.85,
            lambda: (
                "ORDER BY "
                + self._one(
                    (
                        "{0}.ts",
                        "{0}.ts",
                        "{0}.ts DESC",
                        "{0}.b",
                        "{0}.a DESC, {0}.b",
                        "{0}.s",
                        "{0}.d",
                        "{0}.st",
                        "{0}.arr",
                    ),
                    table,
                )
            ),
        )
        parts.append(order)
        if self._random.random() < 0.5:
            kind = self._random.choice(("ROWS", "ROWS", "RANGE", "RANGE", "GROUPS"))
            bounds = _TIMES if kind == "RANGE" and "ts" in order else _BOUNDS
            start, end = sorted(self._random.choices(range(5), k=2))
            if self._random.random() < 0.1:
                start, end = end, start
            frame = (
                f"{kind} BETWEEN {bounds[start]} AND {bounds[end]}"
                if self._random.random() < 0.8
                else f"{kind} {bounds[start]}"
            )
            parts.append(frame + self._maybe(0.05, lambda: " EXCLUDE CURRENT ROW"))
        return f"{call} OVER ({' '.join(filter(None, parts))})"

    def select(self, table: str | None = None) -> str:
        table = table or self._random.choice(list(TABLES))
        others = [name for name in TABLES if name != table]
        joined = "".join(
            f" {self._one(_JOINS, table, self._random.choice(others))}"
            for _ in range(self._random.choice((0, 0, 0, 1, 1)))
        ).replace(" ,", ",")
        where = self._maybe(0.5, lambda: f" WHERE {self.condition(table)}")
        kind = self._random.random()
        if kind < 0.35:
            items = [self.value(table) for _ in range(self._random.randint(1, 3))]
            if self._random.random() < 0.1:
                items.append("*")
            distinct = self._maybe(0.15, lambda: "DISTINCT ")
            return f"SELECT {distinct}{', '.join(f'{v} AS k{i}' if v != '*' else v for i, v in enumerate(items))} FROM {table}{joined}{where}"
        if kind < 0.7:
            group = self._one(_GROUPS, table)
            keys = (
                [k for k in (f"{table}.a", f"{table}.s", f"{table}.st") if k in group and "ROW(" not in group]
                if self._random.random() < 0.6
                else []
            )
            if group in ("1", "k"):
                keys = [self.value(table) + (" AS k" if group == "k" else "")]
            items = [*keys, *(self._one(_AGGREGATES, table) for _ in range(self._random.randint(1, 2)))]
            if self._random.random() < 0.1:
                items.append(self._one(_SCALARS, table, self._random.choice(others)))
            if self._random.random() < 0.1:
                items.append(f"SUM({self._one(_SCALARS, table, self._random.choice(others))})")
            if self._random.random() < 0.1:
                items.append(f"MAX({table}.b) IN (SELECT w.b FROM w)")
            by = self._maybe(0.8, lambda: f" GROUP BY {group}")
            having = self._maybe(
                0.25,
                lambda: (
                    " HAVING "
                    + self._one(
                        (
                            "COUNT(*) > 1",
                            "MAX({0}.b) > (SELECT MAX(w.b) FROM w)",
                            "SUM({0}.b) IN (SELECT w.b FROM w)",
                            "MAX({0}.a) > 1 AND COUNT(DISTINCT {0}.s) < 5",
                            "EXISTS (SELECT 1 FROM w WHERE w.a = {0}.a)",
                            "MAX(({0}.a, {0}.b)) > (1, 2)",
                        ),
                        table,
                    )
                ),
            )
            return f"SELECT {', '.join(items)} FROM {table}{joined}{where}{by}{having}"
        items = [self.window(table) + " AS w0", *(self.value(table) for _ in range(self._random.randint(0, 1)))]
        qualify = self._maybe(
            0.2,
            lambda: (
                f" QUALIFY {self._random.choice(('w0 <= 3', 'w0 = 1', self.window(table) + ' > 1', self.condition(table)))}"
            ),
        )
        return f"SELECT {', '.join(items)} FROM {table}{joined}{where}{qualify}"

    def query(self) -> str:
        kind = self._random.random()
        if kind < 0.07:
            table = self._random.choice(list(TABLES))
            values = [", ".join(self.value(table) for _ in range(2)), ", ".join(self.value(table) for _ in range(2))]
            query = f"SELECT {values[0]} FROM {table} {self._random.choice(_SETS)} SELECT {values[1]} FROM {table}"
        elif kind < 0.14:
            query = f"SELECT * FROM ({self.select()}) AS q"
        elif kind < 0.18:
            query = f"WITH q AS ({self.select()}) SELECT COUNT(*) FROM q"
        else:
            query = self.select()
        return query + self._maybe(
            0.15,
            lambda: self._random.choice((" ORDER BY 1", " LIMIT 3", " ORDER BY 1 DESC LIMIT 2 OFFSET 1", " LIMIT 0")),
        )


def random_queries(seed: int, number: int) -> list[str]:
    """So many queries; those whose tables lack a column that they name are refused, and cost little."""
    maker = _Maker(Random(seed))
    return list(dict.fromkeys(maker.query() for _ in range(number)))
