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
            [
                "", "", f" WHERE {d} = {y}", f" WHERE {d} = {y}", f" WHERE {self.condition(inner, own)}",
                f" WHERE {d} < {y}", f" WHERE {d} = {y} AND {c} + {y} <= {x}",
            ]
        )  # fmt: skip
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
            "nearest": "(SELECT {c} FROM {source} WHERE {c} <= {x} AND {d} = {y} ORDER BY {c} DESC LIMIT 1)",
            "mixed": "(SELECT {aggregate} + {x} FROM {rows})",
            "case": "CASE WHEN EXISTS (SELECT 1 FROM {rows}) THEN {x} ELSE (SELECT {aggregate} FROM {rows}) END",
        }
        form = self.choice.choice([*forms])

        def asked(dialect: str) -> str:
            rows, matched = f"{source(dialect)}{where}", f"{source(dialect)}{also or where}"
            names = {"x": x, "y": y, "c": c, "d": d, "source": source(dialect), "aggregate": aggregate}
            return forms[form].format(rows=rows, matched=matched, **names)

        outer = below.named(alias)
        if form in ("value", "case", "nearest", "mixed"):
            shown = [*self.some(below.columns, 2), Column(self.name(), INT)]

            def valued(dialect: str) -> str:
                items = [*(f"{alias}.{column.name}" for column in shown[:-1]), f"{asked(dialect)} AS {shown[-1].name}"]
                return f"SELECT {', '.join(items)} FROM {outer(dialect)}"

            return Relation(valued, tuple(shown))
        items = ", ".join(f"{alias}.{column.name}" for column in below.columns)
        return Relation(lambda dialect: f"SELECT {items} FROM {outer(dialect)} WHERE {asked(dialect)}", below.columns)

    def lateral(self, depth: int) -> Relation:
        """Each row with those of a subquery that reads it."""
        below, inner = self.below(depth), self.below(depth)
        alias, own, joined = self.alias(), self.alias(), self.alias()
        if not below.of(INT) or not inner.of(INT):
            return self.grouped(depth)
        x, y = (f"{alias}.{self.choice.choice(below.of(INT)).name}" for _ in range(2))
        c, d = (f"{own}.{self.choice.choice(inner.of(INT)).name}" for _ in range(2))
        where = self.choice.choice(
            [f"{d} = {y}", f"{d} < {y}", f"{d} = {y} AND {c} <= {x}", f"{c} + {d} > {x}", f"{x} > 1", f"{c} IS NULL"]
        )
        way, count = self.choice.choice(["ASC", "DESC"]), self.choice.choice([1, 1, 2])
        shown = self.choice.choice([
            f"SELECT {c} AS v FROM {{rows}} WHERE {where}",
            f"SELECT {c} + {x} AS v FROM {{rows}} WHERE {where}",
            f"SELECT DISTINCT {c} AS v FROM {{rows}} WHERE {where}",
            f"SELECT COUNT(*) + {x} AS v FROM {{rows}} WHERE {where}",
            f"SELECT MAX({c} + {y}) AS v FROM {{rows}} WHERE {where}",
            f"SELECT SUM({d}) AS v FROM {{rows}} WHERE {where} GROUP BY {c}",
            f"SELECT {c} AS v FROM {{rows}} WHERE {where} ORDER BY {c} {way} NULLS LAST LIMIT {count}",
            f"SELECT {c} AS v FROM {{rows}} WHERE {c} <= {x} ORDER BY {c} DESC NULLS LAST LIMIT 1",
            f"SELECT {c} AS v FROM {{rows}} WHERE {x} < {c} AND {d} = {y} ORDER BY {c} LIMIT 1",
            f"SELECT SUM({c}) OVER (PARTITION BY {d}) AS v FROM {{rows}} WHERE {where}",
            f"SELECT {x} + {y} AS v",
            f"SELECT {x} + {y} AS v WHERE {x} > 0",
        ])  # fmt: skip
        value = Column(self.name(), INT)
        join, on = self.choice.choice([("CROSS JOIN", ""), ("JOIN", " ON TRUE"), ("LEFT JOIN", " ON TRUE")])
        if on and self.choice.random() < 0.3:
            on = f" ON {joined}.v > {x}"
        items = ", ".join(f"{alias}.{column.name}" for column in below.columns)

        def text(dialect: str) -> str:
            rows = shown.format(rows=inner.named(own)(dialect))
            outer = below.named(alias)(dialect)
            return f"SELECT {items}, {joined}.v AS {value.name} FROM {outer} {join} LATERAL ({rows}) AS {joined}{on}"

        return Relation(text, (*below.columns, value))

    def aliased(self, depth: int) -> Relation:
        """Columns that read aliases before them, and GROUP BY ALL."""
        below, alias = self.below(depth), self.alias()
        if not below.of(INT):
            return self.grouped(depth)
        x, y = (f"{alias}.{self.choice.choice(below.of(INT)).name}" for _ in range(2))
        one, two, three = (Column(self.name(), INT) for _ in range(3))
        items = self.choice.choice([
            f"{x} AS {one.name}, {one.name} + {y} AS {two.name}, {two.name} - {one.name} AS {three.name}",
            f"{x} % 3 AS {one.name}, COUNT(*) AS {two.name}, {two.name} + {one.name} AS {three.name}",
            f"{x} AS {one.name}, COUNT(*) AS {two.name}, {two.name} * 2 AS {three.name}",
        ])  # fmt: skip
        grouped = " GROUP BY ALL" if "(" in items or self.choice.random() < 0.5 else ""
        return Relation(
            lambda dialect: f"SELECT {items} FROM {below.named(alias)(dialect)}{grouped}", (one, two, three)
        )
