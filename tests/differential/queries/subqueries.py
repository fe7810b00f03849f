"""Makes conditions and values of subqueries."""

from __future__ import annotations

from tests.differential.queries.groups import Groups
from tests.differential.queries.relations import (
    INT,
    Column,
    Relation,
)


class Subqueries(Groups):
    """Makes conditions and values of subqueries."""

    def of_subquery(self, depth: int) -> Relation:
        """Rows chosen by a subquery, or with its value."""
        below, inner = self.below(depth), self.below(depth)
        alias, own = self.alias(), self.alias()
        if not below.of(INT) or not inner.of(INT):
            return self.grouped(depth)
        x, y = (f"{alias}.{self.choice.choice(below.of(INT)).name}" for _ in range(2))
        c, d = (f"{own}.{self.choice.choice(inner.of(INT)).name}" for _ in range(2))
        source = inner.named(own)
        where = self.choice.choice(
            ["", "", f" WHERE {d} = {y}", f" WHERE {d} = {y}", f" WHERE {self.condition(inner, own)}"]
        )
        also = self.choice.choice(["", "", f" WHERE {d} = {y} AND {c} < {x}"])
        aggregate = self.choice.choice([f"MAX({c})", "COUNT(*)", f"SUM({c})", f"MIN({c}) + 1", f"COUNT(DISTINCT {c})"])

        forms = {
            "in": "{x} IN (SELECT {c} FROM {rows})",
            "not in": "{x} NOT IN (SELECT {c} FROM {rows})",
            "pair in": "({x}, {y}) IN (SELECT {c}, {d} FROM {rows})",
            "pair not in": "({x}, {y}) NOT IN (SELECT {c}, {d} FROM {rows})",
            "exists": "EXISTS (SELECT 1 FROM {matched})",
            "not exists": "NOT EXISTS (SELECT 1 FROM {matched})",
            "compare": "{x} <= (SELECT {aggregate} FROM {rows})",
            "or": "({x} = 1 OR {x} IN (SELECT {c} FROM {rows}))",
            "value": "(SELECT {aggregate} FROM {rows})",
            "case": "CASE WHEN EXISTS (SELECT 1 FROM {rows}) THEN {x} ELSE (SELECT {aggregate} FROM {rows}) END",
        }
        form = self.choice.choice([*forms])

        def asked(dialect: str) -> str:
            rows, matched = f"{source(dialect)}{where}", f"{source(dialect)}{also or where}"
            return forms[form].format(x=x, y=y, c=c, d=d, rows=rows, matched=matched, aggregate=aggregate)

        outer = below.named(alias)
        if form in ("value", "case"):
            shown = [*self.some(below.columns, 2), Column(self.name(), INT)]

            def valued(dialect: str) -> str:
                items = [*(f"{alias}.{column.name}" for column in shown[:-1]), f"{asked(dialect)} AS {shown[-1].name}"]
                return f"SELECT {', '.join(items)} FROM {outer(dialect)}"

            return Relation(valued, tuple(shown))
        items = ", ".join(f"{alias}.{column.name}" for column in below.columns)
        return Relation(lambda dialect: f"SELECT {items} FROM {outer(dialect)} WHERE {asked(dialect)}", below.columns)
