"""Makes joins without bounds on times."""

from __future__ import annotations

from tests.differential.queries.basics import Basics
from tests.differential.queries.relations import (
    INT,
    TEXT,
    Column,
    Relation,
    Text,
    equality,
    join_word,
)


class Joins(Basics):
    """Makes joins without bounds on times."""

    def joined(self, depth: int) -> Relation:
        left, right = self.below(depth), self.below(depth)
        kind = self.choice.choice(
            ["", "INNER ", "LEFT ", "RIGHT ", "FULL ", "LEFT SEMI ", "LEFT ANTI ", "LEFT ", "FULL "]
        )
        form = self.choice.choice(["on", "on", "on", "on", "using", "natural", "comma", "three"])
        if form in ("using", "natural"):
            return self.joined_by_name(left, right, kind, form)
        if form == "comma":
            return self.joined_by_comma(left, right)
        one, other = self.alias(), self.alias()
        on = self.on(left, one, right, other)
        shown = [(one, left)] if kind in ("LEFT SEMI ", "LEFT ANTI ") else [(one, left), (other, right)]
        third, more = self.alias(), None
        if form == "three":
            more = self.relation(0)
            also = self.on(left, one, more, third)
            again = self.choice.choice(["", "LEFT ", "FULL "])
            shown.append((third, more))
        columns = [(alias, column) for alias, relation in shown for column in relation.columns]

        def text(dialect: str) -> str:
            items = ", ".join(f"{alias}.{c.name}" for alias, c in columns)
            found = f"SELECT {items} FROM {left.named(one)(dialect)} {join_word(kind, dialect)}"
            found += f"{right.named(other)(dialect)} ON {on(dialect)}"
            if more is not None:
                found += f" {again}JOIN {more.named(third)(dialect)} ON {also(dialect)}"
            return found

        return Relation(text, tuple(c for _, c in columns))

    def on(self, left: Relation, one: str, right: Relation, other: str) -> Text:
        pairs = []
        for _ in range(self.choice.choice([1, 1, 1, 2])):
            kind = self.choice.choice([INT, INT, TEXT])
            if left.of(kind) and right.of(kind):
                x = f"{one}.{self.choice.choice(left.of(kind)).name}"
                y = f"{other}.{self.choice.choice(right.of(kind)).name}"
                if kind == INT and self.choice.random() < 0.2:
                    x = f"{x} + 1"
                pairs.append((x, y, self.choice.random() < 0.2))
        rest = []
        if left.of(INT) and right.of(INT) and (not pairs or self.choice.random() < 0.4):
            x = f"{one}.{self.choice.choice(left.of(INT)).name}"
            y = f"{other}.{self.choice.choice(right.of(INT)).name}"
            rest.append(
                self.choice.choice(
                    [f"{x} < {y}", f"{x} <> {y}", f"({x} >= {y} OR {x} IS NULL)", f"{x} BETWEEN 0 AND 3", f"{y} > 1"]
                )
            )

        def text(dialect: str) -> str:
            equal = [f"{x} {equality(dialect) if safe else '='} {y}" for x, y, safe in pairs]
            return " AND ".join([*equal, *rest]) or "1 = 1"

        return text

    def joined_by_name(self, left: Relation, right: Relation, kind: str, form: str) -> Relation:
        name = self.name("u")
        matching = [k for k in (INT, TEXT) if left.of(k) and right.of(k)]
        if not matching:
            return left
        common = self.choice.choice(matching)
        one, other = self.alias(), self.alias()
        sides = []
        for relation, alias in ((left, one), (right, other)):
            key = self.choice.choice(relation.of(common))
            others = [c for c in relation.columns if c != key]
            sides.append((relation, alias, key, others))
        shown = sides[:1] if kind in ("LEFT SEMI ", "LEFT ANTI ") else sides
        columns = (Column(name, common), *(c for *_, others in shown for c in others))

        def text(dialect: str) -> str:
            sources = []
            for relation, alias, key, others in sides:
                items = ", ".join([f"{key.name} AS {name}", *(c.name for c in others)])
                sources.append(f"(SELECT {items} FROM ({relation.text(dialect)}) AS {alias}i) AS {alias}")
            items = ", ".join(c.name for c in columns)
            join = join_word(kind, dialect)
            if form == "natural":
                return f"SELECT {items} FROM {sources[0]} NATURAL {join}{sources[1]}"
            return f"SELECT {items} FROM {sources[0]} {join}{sources[1]} USING ({name})"

        return Relation(text, columns)

    def joined_by_comma(self, left: Relation, right: Relation) -> Relation:
        one, other = self.alias(), self.alias()
        on = self.on(left, one, right, other)
        columns = [(one, c) for c in left.columns] + [(other, c) for c in right.columns]
        items = ", ".join(f"{alias}.{c.name}" for alias, c in columns)
        first, second = left.named(one), right.named(other)

        def text(dialect: str) -> str:
            return f"SELECT {items} FROM {first(dialect)}, {second(dialect)} WHERE {on(dialect)}"

        return Relation(text, tuple(c for _, c in columns))
