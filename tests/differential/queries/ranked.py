"""Makes Top-N and set operations."""

from __future__ import annotations

from tests.differential.queries.basics import Basics
from tests.differential.queries.relations import (
    INT,
    SPARK,
    TEXT,
    Column,
    Relation,
)


class Ranked(Basics):
    """Makes Top-N and set operations."""

    def ordered(self, relation: Relation, alias: str, *, ties: bool) -> str:
        """An order of rows; without ``ties`` of all columns."""
        first = self.some(relation.of(INT, TEXT), 2) or list(relation.columns[:1])
        rest = [] if ties else [c for c in relation.columns if c not in first]
        items = []
        for column in [*first, *rest]:
            way, nulls = self.choice.choice(["ASC", "DESC"]), self.choice.choice(["FIRST", "LAST"])
            items.append(f"{alias}.{column.name} {way} NULLS {nulls}")
        return ", ".join(items)

    def top_n(self, depth: int) -> Relation:
        below, alias, outer = self.below(depth), self.alias(), self.alias()
        function = self.choice.choice(["ROW_NUMBER", "ROW_NUMBER", "RANK", "DENSE_RANK"])
        order = self.ordered(below, alias, ties=function != "ROW_NUMBER")
        keys = self.some(below.of(INT, TEXT), 2, 0)
        by = f"PARTITION BY {', '.join(f'{alias}.{k.name}' for k in keys)} " if keys else ""
        n = self.choice.randint(1, 3)
        number = Column(self.name(), INT)
        bound = self.choice.choice(["<= {n}", "= 1", "= {n}", "BETWEEN 2 AND 3", "< {n} + 1"]).replace("{n}", str(n))
        if "+" in bound:
            bound = f"< {n + 1}"
        shown = self.choice.random() < 0.5
        columns = (*below.columns, *([number] if shown else []))
        items = ", ".join(f"{alias}.{c.name}" for c in below.columns)
        over = f"{function}() OVER ({by}ORDER BY {order})"
        source, outside = below.named(alias), ", ".join(f"{outer}.{c.name}" for c in columns)
        qualify = not shown and self.choice.random() < 0.5

        def text(dialect: str) -> str:
            if qualify and dialect != SPARK:
                return f"SELECT {items} FROM {source(dialect)} QUALIFY {over} {bound}"
            inner = f"SELECT {items}, {over} AS {number.name} FROM {source(dialect)}"
            return f"SELECT {outside} FROM ({inner}) AS {outer} WHERE {outer}.{number.name} {bound}"

        return Relation(text, columns)

    def limited(self, depth: int) -> Relation:
        below, alias = self.below(depth), self.alias()
        order, limit = self.ordered(below, alias, ties=False), self.choice.randint(1, 5)
        offset = self.choice.choice(["", "", " OFFSET 2"])
        items = ", ".join(f"{alias}.{c.name}" for c in below.columns)
        source = below.named(alias)
        return Relation(
            lambda dialect: f"SELECT {items} FROM {source(dialect)} ORDER BY {order} LIMIT {limit}{offset}",
            below.columns,
        )

    def set_operation(self, depth: int) -> Relation:
        left, right = self.below(depth), self.below(depth)
        pairs = []
        for kind in (INT, TEXT):
            pairs += list(zip(left.of(kind), right.of(kind), strict=False))
        if not pairs:
            return left
        pairs = pairs[: self.choice.randint(1, 3)]
        word = self.choice.choice(["UNION ALL", "UNION", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"])
        one, other = self.alias(), self.alias()
        columns = tuple(Column(self.name(), c.kind) for c, _ in pairs)
        first = ", ".join(f"{one}.{c.name} AS {new.name}" for (c, _), new in zip(pairs, columns, strict=True))
        second = ", ".join(f"{other}.{c.name}" for _, c in pairs)
        sources = left.named(one), right.named(other)

        def text(dialect: str) -> str:
            return f"SELECT {first} FROM {sources[0](dialect)} {word} SELECT {second} FROM {sources[1](dialect)}"

        return Relation(text, columns)
