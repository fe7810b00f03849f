"""Makes GROUP BY without windows."""

from __future__ import annotations

from collections.abc import Sequence

from tests.differential.queries.basics import Basics
from tests.differential.queries.relations import (
    DUCKDB,
    INT,
    OTHER,
    OURS,
    TEXT,
    Column,
    Relation,
    Text,
    listed,
    same,
)


class Groups(Basics):
    """Makes GROUP BY without windows."""

    def aggregate(self, below: Relation, alias: str) -> tuple[Text, str]:
        ints, texts = below.of(INT), below.of(TEXT)
        kept = f" FILTER (WHERE {self.condition(below, alias)})" if self.choice.random() < 0.25 else ""
        if texts and self.choice.random() < 0.2:
            x = f"{alias}.{self.choice.choice(texts).name}"
            if self.choice.random() < 0.3:
                return listed(x, kept), OTHER
            plain, kind = self.choice.choice(
                [(f"MIN({x})", TEXT), (f"MAX({x})", TEXT), (f"COUNT({x})", INT), (f"COUNT(DISTINCT {x})", INT)]
            )
            return same(plain + kept), kind
        if not ints:
            return same(f"COUNT(*){kept}"), INT
        x = self.value(Relation(below.text, tuple(ints)), alias)[0]
        plain, kind = self.choice.choice([
            ("COUNT(*)", INT), (f"COUNT({x})", INT), (f"COUNT(DISTINCT {x})", INT), (f"SUM({x})", INT),
            (f"SUM(DISTINCT {x})", INT), (f"AVG({x})", OTHER), (f"AVG(DISTINCT {x})", OTHER), (f"MIN({x})", INT),
            (f"MAX({x})", INT), (f"MIN(DISTINCT {x})", INT), (f"VAR_POP({x})", OTHER), (f"STDDEV_SAMP({x})", OTHER),
            (f"BOOL_AND({x} > 1)", OTHER), (f"BOOL_OR({x} > 1)", OTHER), (f"COUNT_IF({x} > 0)", INT),
        ])  # fmt: skip
        if plain.startswith("COUNT_IF"):  # DuckDB's is NULL of NULLs alone
            in_duckdb = f"COUNT(CASE WHEN {x} > 0 THEN 1 END){kept}"
            return (lambda dialect: in_duckdb if dialect == DUCKDB else plain + kept), kind
        return same(plain + kept), kind

    def grouped(self, depth: int) -> Relation:
        """Also without keys."""
        below, alias = self.below(depth), self.alias()
        keys = [(f"{alias}.{key.name}", key.kind) for key in self.some(below.of(INT, TEXT), 2, 0)]
        if self.choice.random() < 0.2:
            keys.append(self.value(below, alias))
        return self._grouped(below, alias, keys)

    def grouping_sets(self, depth: int) -> Relation:
        below, alias = self.below(depth), self.alias()
        keys = self.some(below.of(INT, TEXT), 3)
        if not keys:
            return self._grouped(below, alias, [])
        names = [f"{alias}.{key.name}" for key in keys]
        sets = ", ".join(f"({', '.join(n for n in names if self.choice.random() < 0.6)})" for _ in range(2))
        listed = ", ".join(names)
        by = self.choice.choice([f"CUBE ({listed})", f"ROLLUP ({listed})", f"GROUPING SETS (({listed}), {sets})"])
        told = [(same(f"GROUPING({name})"), INT) for name in names if self.choice.random() < 0.3]
        return self._grouped(below, alias, [(n, key.kind) for n, key in zip(names, keys, strict=True)], by, told)

    def _grouped(
        self,
        below: Relation,
        alias: str,
        keys: Sequence[tuple[str, str]],
        by: str | None = None,
        told: Sequence[tuple[Text, str]] = (),
    ) -> Relation:
        """``keys`` and their kinds; ``by``: the grouping sets; ``told``: what is shown beside aggregates."""
        calls = [*told, *(self.aggregate(below, alias) for _ in range(self.choice.randint(1, 3)))]
        columns = [Column(self.name(), kind) for _, kind in (*keys, *calls)]
        grouping = ", ".join(key for key, _ in keys) if by is None else by
        having = self._having(below, alias)
        # Nothing comes out of no rows, as in Flink; elsewhere groups without keys are always there.
        empty = not keys or by is not None
        source = below.named(alias)
        names = [column.name for column in columns]

        def text(dialect: str) -> str:
            items = [key for key, _ in keys] + [call(dialect) for call, _ in calls]
            listed = ", ".join(f"{item} AS {name}" for item, name in zip(items, names, strict=True))
            conditions = [*having, *(["COUNT(*) > 0"] if empty and dialect != OURS else [])]
            after = f" GROUP BY {grouping}" if grouping else ""
            after += f" HAVING {' AND '.join(conditions)}" if conditions else ""
            return f"SELECT {listed} FROM {source(dialect)}{after}"

        return Relation(text, tuple(columns))

    def _having(self, below: Relation, alias: str) -> list[str]:
        if self.choice.random() < 0.7:
            return []
        ints = below.of(INT)
        x = f"{alias}.{self.choice.choice(ints).name}" if ints else "1"
        return [self.choice.choice(["COUNT(*) > 1", "COUNT(*) < 3", f"SUM({x}) > 2", f"MIN({x}) = 0", f"MAX({x}) > 1"])]
