"""What all makers of relations share: names, expressions, tables, projections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from tests.differential.changes import TABLES, TableKind
from tests.differential.queries.relations import (
    INT,
    TEXT,
    TIME,
    Column,
    Relation,
)


@dataclass
class Basics:
    """Makes relations; ``choice`` decides everything. ``view``: the name of the view that a query may have."""

    choice: Random
    tables: tuple[TableKind, ...] = TABLES
    view: str = "shared"
    views: list[tuple[str, Relation]] = field(default_factory=list)
    number: int = 0

    def relation(self, depth: int) -> Relation:
        raise NotImplementedError

    def below(self, depth: int) -> Relation:
        """What a relation of a depth is made of."""
        return self.relation(self.choice.choice([depth - 1, depth - 1, 0]) if depth > 1 else 0)

    def name(self, prefix: str = "c") -> str:
        self.number += 1
        return f"{prefix}{self.number}"

    def alias(self) -> str:
        return self.name("q")

    def some(self, columns: Sequence[Column], most: int = 2, least: int = 1) -> list[Column]:
        count = min(len(columns), self.choice.randint(least, most))
        left, found = list(columns), []
        for _ in range(count):
            found.append(left.pop(self.choice.randrange(len(left))))
        return found

    def value(self, relation: Relation, alias: str) -> tuple[str, str]:
        """An expression and its kind."""
        ints, texts = relation.of(INT), relation.of(TEXT)
        if texts and (not ints or self.choice.random() < 0.2):
            x = f"{alias}.{self.choice.choice(texts).name}"
            return self.choice.choice([x, f"UPPER({x})", f"COALESCE({x}, 'none')", f"{x} || '!'"]), TEXT
        if not ints:
            return "1", INT
        x, y = (f"{alias}.{self.choice.choice(ints).name}" for _ in range(2))
        return self.choice.choice([
            x, x, x, f"{x} + 1", f"{x} - {y}", f"-{x}", f"COALESCE({x}, 7)", f"ABS({x})", f"NULLIF({x}, 2)",
            f"CASE WHEN {x} > 1 THEN {y} ELSE 0 END", f"{x} % 3", f"GREATEST({x}, 2)",
        ]), INT  # fmt: skip

    def condition(self, relation: Relation, alias: str, *, deep: bool = True) -> str:
        ints, texts = relation.of(INT), relation.of(TEXT)
        if deep and self.choice.random() < 0.25:
            left, right = (self.condition(relation, alias, deep=False) for _ in range(2))
            return self.choice.choice([f"({left} AND {right})", f"({left} OR {right})", f"NOT ({left} AND {right})"])
        if texts and (not ints or self.choice.random() < 0.2):
            x = f"{alias}.{self.choice.choice(texts).name}"
            return self.choice.choice([f"{x} <> 'x'", f"{x} IN ('x', 'y')", f"{x} IS NULL", f"{x} LIKE 'x%'"])
        if not ints:
            return "1 = 1"
        x, y = (f"{alias}.{self.choice.choice(ints).name}" for _ in range(2))
        return self.choice.choice([
            f"{x} > 1", f"{x} <= 2", f"{x} <> 0", f"{x} IS NOT NULL", f"{x} IS NULL", f"{x} = {y}", f"{x} < {y}",
            f"{x} BETWEEN 0 AND 3", f"{x} IN (0, 2, 4)", f"{x} NOT IN (1, 3)", f"COALESCE({x}, 0) >= 0",
        ])  # fmt: skip

    def base(self) -> Relation:
        if self.views and self.choice.random() < 0.5:
            name, view = self.choice.choice(self.views)
            return self.renamed(name, view.columns)
        return self.table(self.choice.choice(self.tables))

    def table(self, table: TableKind) -> Relation:
        kinds = {"id": INT, "a": INT, "b": INT, "s": TEXT, "ts": TIME}
        found = self.renamed(table.name, tuple(Column(name, kinds[name]) for name in table.columns))
        return Relation(found.text, tuple(c for c in found.columns if c.kind != TIME), table)

    def renamed(self, name: str, columns: Sequence[Column]) -> Relation:
        shown = [c for c in columns if c.kind != TIME]
        own = [Column(self.name(), c.kind) for c in shown]
        items = ", ".join(f"{c.name} AS {new.name}" for c, new in zip(shown, own, strict=True))
        return Relation(lambda dialect: f"SELECT {items} FROM {name}", tuple(own))

    def chosen(self, depth: int) -> Relation:
        """Projection and filter."""
        below, alias = self.below(depth), self.alias()
        values = [self.value(below, alias) for _ in range(self.choice.randint(1, 3))]
        others = self.some(below.columns, 2, 0)
        columns = [Column(self.name(), kind) for _, kind in values] + [Column(self.name(), c.kind) for c in others]
        texts = [text for text, _ in values] + [f"{alias}.{c.name}" for c in others]
        items = ", ".join(f"{text} AS {column.name}" for text, column in zip(texts, columns, strict=True))
        where = f" WHERE {self.condition(below, alias)}" if self.choice.random() < 0.7 else ""
        source = below.named(alias)
        return Relation(lambda dialect: f"SELECT {items} FROM {source(dialect)}{where}", tuple(columns))

    def distinct(self, depth: int) -> Relation:
        below, alias = self.below(depth), self.alias()
        columns = self.some(below.columns, 3)
        own = [Column(self.name(), c.kind) for c in columns]
        items = ", ".join(f"{alias}.{c.name} AS {new.name}" for c, new in zip(columns, own, strict=True))
        source = below.named(alias)
        return Relation(lambda dialect: f"SELECT DISTINCT {items} FROM {source(dialect)}", tuple(own))
