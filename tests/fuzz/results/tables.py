"""Random tables of columns of many types, with values at their edges, and the changes that they come by."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from random import Random
from typing import Any

from tests.differential.changes import MS, Act, History, TableKind, with_bags

TYPES = ("INT", "BIGINT", "STRING", "BOOLEAN", "DECIMAL(8, 2)", "DOUBLE", "DATE")

_VALUES: dict[str, tuple[Any, ...]] = {
    "BIGINT": (0, 1, 2, -1, 3_000_000_000, -3_000_000_000),
    "STRING": ("x", "y", "X", "", "xy", "ü", "日本", "a,b", "x ", "100%"),
    "BOOLEAN": (True, False),
    "DECIMAL(8, 2)": tuple(map(Decimal, ("0.00", "1.00", "-1.25", "2.50", "0.10", "99999.99"))),
    "DOUBLE": (0.0, 1.0, -0.5, 2.25, 1e9),
    "DATE": tuple(map(date.fromisoformat, ("1969-12-31", "1970-01-01", "2000-02-29", "2024-12-31"))),
}
_HOUR = 3600 * MS


def random_tables(choice: Random) -> tuple[TableKind, ...]:
    """Two tables with times and one of each mode of changes; each has the columns ``a``, ``b``, ``s`` and others."""

    def fields() -> tuple[tuple[str, str], ...]:
        more = choice.choices(TYPES, k=choice.choice([0, 1, 2, 3]))
        return (("a", "INT"), ("b", "INT"), ("s", "STRING"), *((f"e{i}", kind) for i, kind in enumerate(more)))

    return (
        TableKind("one", "I", timed=True, fields=fields()),
        TableKind("two", "I", timed=True, fields=fields()),
        TableKind("ups", "I,UA,D", key=True, fields=fields()),
        TableKind("pairs", "I,UB,UA,D", key=True, fields=fields()),
        TableKind("bag", "I,D", fields=fields()),
    )


def random_history(choice: Random, tables: tuple[TableKind, ...], least: int = 0) -> History:
    """Changes of the tables. Values are few, so that they repeat; times differ, are odd, and some precede 1970."""
    count = max(least, choice.choice([0, 4, 10, 20, 20, 40, 60]))
    domain, absent = choice.choice([2, 3, 5]), choice.choice([0.0, 0.1, 0.3, 0.5])
    lifted, begin = choice.random() < 0.5, choice.choice([0, -_HOUR])

    def act(number: int) -> Act:
        table = choice.choice(tables)
        key = choice.randrange(domain + 2) if table.key else number
        if table.key and choice.random() < 0.25:
            return Act(table, key, None)
        seconds = number + choice.randrange(6) if lifted else choice.randrange(60)
        time = begin + MS * seconds * (count + 1) + MS * number + choice.choice([0, 0, 1000, 999_000])
        values = (_value(choice, kind, domain, absent) for _, kind in table.fields)
        return Act(table, key, (key, *values, *([time] if table.timed else [])))

    acts = [act(number) for number in range(count)]
    size = 1 + 2 * count // choice.choice([1, 2, 4, 8, 12])
    cuts = tuple(1 + choice.randrange(size) for _ in range(4))
    return History(tuple(with_bags(choice, acts)), cuts, choice.random() < 0.5, lifted, tables)


def _value(choice: Random, kind: str, domain: int, absent: float) -> Any:
    if choice.random() < absent:
        return None
    return choice.randrange(domain) - 1 if kind == "INT" else choice.choice(_VALUES[kind][: domain + 2])
