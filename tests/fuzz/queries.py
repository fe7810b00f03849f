"""Queries of every form over finished tables with columns of every type, by seed, right ones and wrong ones.

``query_parts.txt`` has the parts that they are made of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

_COLUMNS = (
    "b BIGINT, s STRING, ts TIMESTAMP(3), d DECIMAL(10, 2), arr ARRAY<INT>, mp MAP<STRING, INT>, "
    "st ROW<x INT, y STRING>"
)
TABLES = {
    "t": ("json", f"a INT NOT NULL, {_COLUMNS}, WATERMARK FOR ts AS ts"),
    "u": ("json", f"a INT, {_COLUMNS}, PRIMARY KEY (a) NOT ENFORCED"),
    "v": ("orc", f"a INT NOT NULL, {_COLUMNS}, WATERMARK FOR ts AS ts - INTERVAL '1' SECOND"),
    "w": ("orc", f"a INT, {_COLUMNS}"),
}
"""Tables by name: the format and the columns. Rows of JSON, and of tables with NOT NULL or a PRIMARY KEY, are checked
while they are read."""

_SETS = ("UNION", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL")
_BOUNDS = ("UNBOUNDED PRECEDING", "2 PRECEDING", "CURRENT ROW", "2 FOLLOWING", "UNBOUNDED FOLLOWING")
_MINUTE = "INTERVAL '1' MINUTE"
_TIMES = (_BOUNDS[0], f"{_MINUTE} PRECEDING", _BOUNDS[2], f"{_MINUTE} FOLLOWING", _BOUNDS[4])
_CONDITIONS = (
    "conditions",
    "conditions of rows",
    "conditions of arrays",
    "conditions with subqueries",
    "conditions with subqueries",
)
_VALUES = ("values", "values", "values", "values of rows", "scalar subqueries", *_CONDITIONS[1:])


def random_queries(seed: int, number: int) -> list[str]:
    """So many queries, each once."""
    maker = _Maker(Random(seed))
    return list(dict.fromkeys(maker.query() for _ in range(number)))


def _parts() -> dict[str, list[str]]:
    parts: dict[str, list[str]] = {}
    for line in (Path(__file__).parent / "query_parts.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            parts[line.strip("[]")] = []
        elif line and not line.startswith("#"):
            parts[list(parts)[-1]].append(line)
    return parts


class _Maker:
    """Makes queries of random parts."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._parts = _parts()

    def query(self) -> str:
        table = self._table()
        match self._random.randrange(12):
            case 0:
                lists = (f"{self._value(table)}, {self._value(table)}" for _ in range(2))
                one, other = (f"SELECT {values} FROM {table}" for values in lists)
                text = f"{one} {self._random.choice(_SETS)} {other}"
            case 1:
                text = f"SELECT * FROM ({self._select()}) AS q"
            case 2:
                text = f"WITH q AS ({self._select()}) SELECT COUNT(*) FROM q"
            case _:
                text = self._select()
        return text + self._maybe(0.15, lambda: f" {self._part('ends')}")

    # --- parts --------------------------------------------------------------------------------------------------

    def _table(self, other_than: str = "") -> str:
        return self._random.choice([name for name in TABLES if name != other_than])

    def _part(self, kind: str, table: str = "") -> str:
        return self._random.choice(self._parts[kind]).format(table, self._table(table))

    def _maybe(self, share: float, make: Callable[[], str]) -> str:
        return make() if self._random.random() < share else ""

    def _condition(self, table: str) -> str:
        text = self._part(self._random.choice(_CONDITIONS), table)
        text = f"NOT ({text})" if self._random.random() < 0.2 else text
        operator = self._random.choice(("OR", "AND"))
        return text + self._maybe(0.15, lambda: f" {operator} {self._condition(table)}")

    def _value(self, table: str) -> str:
        text = self._part(self._random.choice(_VALUES), table)
        return f"CASE WHEN {self._condition(table)} THEN {text} END" if self._random.random() < 0.1 else text

    # --- SELECT -------------------------------------------------------------------------------------------------

    def _select(self) -> str:
        table = self._table()
        source = table + self._maybe(0.4, lambda: self._joined(table))
        where = self._maybe(0.5, lambda: f" WHERE {self._condition(table)}")
        form = self._random.choice((self._rows, self._groups, self._windows))
        return form(table, f"FROM {source}{where}")

    def _joined(self, table: str) -> str:
        join = self._part("joins", table)
        return join if join.startswith(",") else f" {join}"

    def _rows(self, table: str, source: str) -> str:
        values = (f"{self._value(table)} AS k{i}" for i in range(self._random.randint(1, 3)))
        distinct = self._maybe(0.15, lambda: "DISTINCT ")
        return f"SELECT {distinct}{', '.join(values)}{self._maybe(0.1, lambda: ', *')} {source}"

    def _groups(self, table: str, source: str) -> str:
        group = self._part("group by", table)
        items = list(self._keys(table, group))
        items += [self._part("aggregates", table) for _ in range(self._random.randint(1, 2))]
        more = (
            lambda: self._part("scalar subqueries", table),
            lambda: f"SUM({self._part('scalar subqueries', table)})",
            lambda: f"MAX({table}.b) IN (SELECT w.b FROM w)",
        )
        items += [part for make in more if (part := self._maybe(0.1, make))]
        by = self._maybe(0.8, lambda: f" GROUP BY {group}")
        having = self._maybe(0.25, lambda: f" HAVING {self._part('having', table)}")
        return f"SELECT {', '.join(items)} {source}{by}{having}"

    def _keys(self, table: str, group: str) -> Iterator[str]:
        """What GROUP BY names, in the select list: most often right."""
        if group in ("1", "k"):
            yield self._value(table) + (" AS k" if group == "k" else "")
        elif "ROW(" not in group and self._random.random() < 0.6:
            yield from (f"{table}.{name}" for name in ("a", "s", "st") if f"{table}.{name}" in group)

    def _windows(self, table: str, source: str) -> str:
        items = [f"{self._over(table)} AS w0", *(self._value(table) for _ in range(self._random.randint(0, 1)))]
        conditions = ("w0 <= 3", "w0 = 1", f"{self._over(table)} > 1", self._condition(table))
        qualify = self._maybe(0.2, lambda: f" QUALIFY {self._random.choice(conditions)}")
        return f"SELECT {', '.join(items)} {source}{qualify}"

    def _over(self, table: str) -> str:
        keys = self._maybe(0.5, lambda: f"PARTITION BY {self._part('partitions', table)}")
        order = self._maybe(0.85, lambda: f"ORDER BY {self._part('orders', table)}")
        frame = self._maybe(0.5, lambda: self._frame(order))
        return f"{self._part('over', table)} OVER ({' '.join(filter(None, (keys, order, frame)))})"

    def _frame(self, order: str) -> str:
        kind = self._random.choice(("ROWS", "ROWS", "RANGE", "RANGE", "GROUPS"))
        bounds = _TIMES if kind == "RANGE" and ".ts" in order else _BOUNDS
        start, end = self._random.choices(range(5), k=2)
        if self._random.random() < 0.9:
            start, end = sorted((start, end))
        if self._random.random() < 0.2:
            return f"{kind} {bounds[start]}"
        return f"{kind} BETWEEN {bounds[start]} AND {bounds[end]}"
