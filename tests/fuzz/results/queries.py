"""Random queries: those of ``tests.differential.queries`` and, in them, columns of more types, CASE and functions,
subqueries in every clause, OVER, and windows of every kind.

A query gives the same rows whatever the order in which those of its tables are read. What DuckDB means otherwise than
the dialect is not generated:

* the order of NULLs, where it is not written;
* groups without keys of no rows: a stream has none until a row comes, as in Flink, so each has HAVING COUNT(*) > 0;
* ``/``, MOD and ``%`` by what may be zero: an error of the row in Spark, NULL in DuckDB;
* AVG and ``/`` of decimals: Spark rounds to the scale of the type, DuckDB computes doubles;
* intervals added to dates, casts of doubles to integers: of other types, and rounded otherwise;
* SUBSTRING from zero or the end, and functions of patterns: of other languages of patterns;
* FIRST_VALUE and the like over ties, and the first of equal times: nobody knows which row that is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.differential.changes import TableKind
from tests.differential.queries import Maker
from tests.differential.queries.relations import INT, OTHER, TEXT, TIME, Column, Relation, Text

JUDGE = "judge"
"""The dialect of the texts: ours, without what our dialect alone has another meaning of."""
BIGINT, DECIMAL, DOUBLE, BOOL, DATE = "bigint", "decimal", "double", "bool", "date"
_KINDS = {"INT": INT, "STRING": TEXT, "BIGINT": BIGINT, "DECIMAL(8, 2)": DECIMAL, "DOUBLE": DOUBLE, "BOOLEAN": BOOL,
          "DATE": DATE}  # fmt: skip
_LITERALS = {
    INT: ("0", "1", "-1"), TEXT: ("'x'", "''", "'ü'"), BIGINT: ("1", "3000000000"), DECIMAL: ("1.00", "-1.25"),
    DOUBLE: ("CAST(1 AS DOUBLE)", "CAST(-0.5 AS DOUBLE)"), BOOL: ("TRUE", "FALSE"),
    DATE: ("DATE '1970-01-01'", "DATE '2000-02-29'"),
}  # fmt: skip


@dataclass
class JudgedMaker(Maker):
    """``nested``: how deep the subquery is that is being made."""

    nested: int = 0

    def text(self) -> str:
        """A query."""
        return self.query().reference(JUDGE)

    def relation(self, depth: int) -> Relation:
        if depth and self.choice.random() < 0.4:
            makers: list[Callable[[int], Relation]] = [
                self.over, self.over, self.computed, self.computed, self.joined_on_subquery, self.grouped_by_window,
                self.aggregates_and_subqueries, self.constants,
            ]  # fmt: skip
            return self.choice.choice(makers)(depth)
        return super().relation(depth)

    # --- expressions ----------------------------------------------------------------------------------------------

    def table(self, table: TableKind) -> Relation:
        kinds = {"id": INT, "ts": TIME, **{name: _KINDS[kind] for name, kind in table.fields}}
        actual = self.renamed(table.name, tuple(Column(name, kinds[name]) for name in table.columns))
        return Relation(actual.text, tuple(c for c in actual.columns if c.kind != TIME), table)

    def value(self, relation: Relation, alias: str) -> tuple[str, str]:
        if self.choice.random() < 0.6:
            return super().value(relation, alias)
        kinds = [kind for kind in _LITERALS if relation.of(kind)]
        if not kinds:
            return super().value(relation, alias)
        kind = self.choice.choice(kinds)
        return self.expression(relation, alias, kind, 2), kind

    def expression(self, relation: Relation, alias: str, kind: str, depth: int = 2) -> str:
        """Of a kind; literals where the relation has no column of it."""
        columns = [f"{alias}.{c.name}" for c in relation.of(kind)]
        if depth == 0 or self.choice.random() < 0.3:
            literal = self.choice.choice(_LITERALS[kind])
            return self.choice.choice(columns) if columns and self.choice.random() < 0.85 else literal

        def deeper(of: str = kind) -> str:
            return self.expression(relation, alias, of, depth - 1)

        def condition() -> str:
            return self.condition(relation, alias, deep=False)

        forms = [
            lambda: f"CASE WHEN {condition()} THEN {deeper()} ELSE {deeper()} END",
            lambda: f"CASE WHEN {condition()} THEN {deeper()} WHEN {condition()} THEN {deeper()} END",
            lambda: f"CASE {deeper()} WHEN {deeper()} THEN {deeper()} ELSE {deeper()} END",
            lambda: f"COALESCE({deeper()}, {deeper()})",
            lambda: f"NULLIF({deeper()}, {deeper()})",
        ]
        numbers = [lambda: f"({deeper()} + {deeper()})", lambda: f"({deeper()} - {deeper()})",
                   lambda: f"(- {deeper()})", lambda: f"ABS({deeper()})", lambda: f"GREATEST({deeper()}, {deeper()})",
                   lambda: f"LEAST({deeper()}, {deeper()})"]  # fmt: skip
        match kind:
            case "int":
                forms += numbers
                forms += [lambda: f"CHAR_LENGTH({deeper(TEXT)})", lambda: f"EXTRACT(YEAR FROM {deeper(DATE)})",
                          lambda: f"EXTRACT(DAY FROM {deeper(DATE)})", lambda: f"({deeper()} % 3)",
                          lambda: f"({deeper()} * 2)", lambda: f"POSITION('x' IN {deeper(TEXT)})",]  # fmt: skip
            case "bigint" | "decimal" | "double":
                forms += numbers
            case "text":
                forms += [lambda: f"UPPER({deeper()})", lambda: f"LOWER({deeper()})", lambda: f"TRIM({deeper()})",
                          lambda: f"({deeper()} || {deeper()})", lambda: f"SUBSTRING({deeper()}, 1, 2)",
                          lambda: f"REPLACE({deeper()}, 'x', 'yy')", lambda: f"REVERSE({deeper()})",
                          lambda: f"LEFT({deeper()}, 1)", lambda: f"CAST({deeper(INT)} AS STRING)",
                          lambda: f"REPEAT({deeper()}, 2)", lambda: f"LPAD({deeper()}, 3, '-')"]  # fmt: skip
            case "bool":
                forms += [lambda: f"({condition()})", lambda: f"(NOT {deeper()})", lambda: f"({deeper()} IS TRUE)",
                          lambda: f"({deeper()} IS NOT FALSE)"]  # fmt: skip
        return self.choice.choice(forms)()

    def condition(self, relation: Relation, alias: str, *, deep: bool = True) -> str:
        if deep and self.nested < 1 and self.choice.random() < 0.15:
            return self.of_rows(relation, alias)
        if self.choice.random() < 0.6:
            return super().condition(relation, alias, deep=deep)
        kinds = [kind for kind in _LITERALS if relation.of(kind)]
        if not kinds:
            return super().condition(relation, alias, deep=deep)
        kind = self.choice.choice(kinds)
        x, y, z = (self.expression(relation, alias, kind, 1) for _ in range(3))
        forms = [
            f"{x} = {y}", f"{x} <> {y}", f"{x} < {y}", f"{x} IS NULL", f"{x} IS DISTINCT FROM {y}",
            f"{x} IS NOT DISTINCT FROM {y}", f"{x} BETWEEN {y} AND {z}", f"{x} IN ({y}, {z}, NULL)",
            f"{x} NOT IN ({y}, {z})", f"({x} = {y}) IS NOT TRUE", f"NOT ({x} >= {y} OR {y} IS NULL)",
            f"({x} < {y}) IS NULL",
        ]  # fmt: skip
        return self.choice.choice(forms)

    def of_rows(self, relation: Relation, alias: str) -> str:
        """A condition with a subquery, which may be correlated."""
        self.nested += 1
        inner, own = self.below(1), self.alias()
        self.nested -= 1
        kinds = [k for k in (INT, TEXT, DECIMAL, BIGINT, DATE) if relation.of(k) and inner.of(k)]
        if not kinds:
            return f"EXISTS (SELECT 1 FROM {inner.named(own)(JUDGE)})"
        kind = self.choice.choice(kinds)
        x, y = (f"{alias}.{self.choice.choice(relation.of(kind)).name}" for _ in range(2))
        c, d = (f"{own}.{self.choice.choice(inner.of(kind)).name}" for _ in range(2))
        rows = f"{inner.named(own)(JUDGE)}"
        rows += self.choice.choice(["", "", f" WHERE {d} = {y}", f" WHERE {self.condition(inner, own, deep=False)}"])
        test = self.choice.choice([
            f"{x} IN (SELECT {c} FROM {rows})", f"{x} NOT IN (SELECT {c} FROM {rows})",
            f"EXISTS (SELECT 1 FROM {rows})", f"NOT EXISTS (SELECT 1 FROM {rows})",
            f"{x} > (SELECT MAX({c}) FROM {rows})", f"{x} = (SELECT MIN({c}) FROM {rows})",
            f"(SELECT COUNT({c}) FROM {rows}) > 1", f"{x} = ANY (SELECT {c} FROM {rows})",
            f"{x} <> ALL (SELECT {c} FROM {rows})", f"{x} >= ALL (SELECT {c} FROM {rows})",
            f"{x} < ANY (SELECT {c} FROM {rows})",
        ])  # fmt: skip
        around = ["{0}", "{0}", "({0}) IS NULL", "({0}) IS NOT TRUE", "NOT ({0})", "COALESCE({0}, FALSE)",
                  f"({{0}} OR {x} IS NULL)"]  # fmt: skip
        return self.choice.choice(around).format(test)

    # --- relations ------------------------------------------------------------------------------------------------

    def computed(self, depth: int) -> Relation:
        """Expressions of all kinds, also of subqueries."""
        below, alias = self.below(depth), self.alias()
        kinds = [kind for kind in _LITERALS if below.of(kind)] or [INT]
        items, columns = [], []
        for _ in range(self.choice.randint(1, 3)):
            kind = self.choice.choice(kinds)
            columns.append(Column(self.name(), kind))
            items.append(f"{self.expression(below, alias, kind)} AS {columns[-1].name}")
        if self.nested < 1 and self.choice.random() < 0.6:
            columns.append(Column(self.name(), BOOL))
            items.append(f"{self.of_rows(below, alias)} AS {columns[-1].name}")
        where = f" WHERE {self.condition(below, alias)}" if self.choice.random() < 0.4 else ""
        source = below.named(alias)
        return Relation(lambda dialect: f"SELECT {', '.join(items)} FROM {source(dialect)}{where}", tuple(columns))

    def joined_on_subquery(self, depth: int) -> Relation:
        """A join of which ON has a subquery of one side."""
        left, right, one, other = self.below(depth), self.below(depth), self.alias(), self.alias()
        kind = self.choice.choice(["", "LEFT ", "RIGHT ", "FULL ", "LEFT SEMI ", "LEFT ANTI "])
        of = self.choice.choice([(left, one), (left, one), (right, other)])
        on, also = self.on(left, one, right, other), self.of_rows(*of)
        shown = [(one, left)] if kind in ("LEFT SEMI ", "LEFT ANTI ") else [(one, left), (other, right)]
        columns = [(alias, column) for alias, relation in shown for column in relation.columns]
        items = ", ".join(f"{alias}.{c.name}" for alias, c in columns)

        def text(dialect: str) -> str:
            sources = f"{left.named(one)(dialect)} {kind}JOIN {right.named(other)(dialect)}"
            return f"SELECT {items} FROM {sources} ON {on(dialect)} AND {also}"

        return Relation(text, tuple(c for _, c in columns))

    def aggregates_and_subqueries(self, depth: int) -> Relation:
        """Subqueries over aggregates, in the SELECT list and in HAVING."""
        below, inner, alias, own = self.below(depth), self.relation(0), self.alias(), self.alias()
        keys = self.some(below.of(INT, TEXT), 1, 0)
        ints, others = below.of(INT), inner.of(INT)
        if not ints or not others:
            return self.grouped(depth)
        best = f"{self.choice.choice(['MIN', 'MAX', 'SUM', 'COUNT'])}({alias}.{self.choice.choice(ints).name})"
        rows = f"(SELECT {own}.{self.choice.choice(others).name} FROM {inner.named(own)(JUDGE)})"
        test = self.choice.choice(["{0} IN {1}", "{0} NOT IN {1}", "{0} = ANY {1}", "({0} IN {1}) IS NULL"])
        test = test.format(best, rows)
        columns = [*(Column(self.name(), key.kind) for key in keys), Column(self.name(), INT)]
        items = [f"{alias}.{key.name}" for key in keys] + [best]
        having = ["COUNT(*) > 0"]
        if self.choice.random() < 0.5:
            having.append(test)
        else:
            columns.append(Column(self.name(), BOOL))
            items.append(test)
        listed = ", ".join(f"{item} AS {c.name}" for item, c in zip(items, columns, strict=True))
        by = f" GROUP BY {', '.join(items[: len(keys)])}" if keys else ""
        source = below.named(alias)
        return Relation(
            lambda dialect: f"SELECT {listed} FROM {source(dialect)}{by} HAVING {' AND '.join(having)}", tuple(columns)
        )

    def over(self, depth: int) -> Relation:
        """Calls with OVER, of one or two specifications whose orders have no ties but of equal rows."""
        below, alias = self.below(depth), self.alias()
        columns, items = list(below.columns), [f"{alias}.{c.name}" for c in below.columns]
        for _ in range(self.choice.choice([1, 1, 2])):
            keys = self.some(below.of(INT, TEXT), 1, 0)
            by = f"PARTITION BY {', '.join(f'{alias}.{k.name}' for k in keys)} " if keys else ""
            order = f"ORDER BY {self.ordered(below, alias, ties=False)}"
            call, kind, framed = self.choice.choice(self._calls(below, alias))
            frame = self.choice.choice(["", *(_FRAMES if framed else [])])
            columns.append(Column(self.name(), kind))
            items.append(f"{call} OVER ({by}{order}{frame})")
        listed = ", ".join(f"{item} AS {c.name}" for item, c in zip(items, columns, strict=True))
        # The same names as below would be of two relations.
        own = [Column(self.name(), c.kind) for c in columns]
        listed = ", ".join(f"{item} AS {c.name}" for item, c in zip(items, own, strict=True))
        source = below.named(alias)
        return Relation(lambda dialect: f"SELECT {listed} FROM {source(dialect)}", tuple(own))

    def _calls(self, below: Relation, alias: str) -> list[tuple[str, str, bool]]:
        """Calls, their kinds, and whether they have a frame."""
        calls = [("ROW_NUMBER()", INT, False), ("RANK()", INT, False), ("COUNT(*)", INT, True)]
        if below.of(INT):
            x = f"{alias}.{self.choice.choice(below.of(INT)).name}"
            calls += [(f"{name}({x})", INT, True) for name in ("SUM", "MIN", "MAX", "COUNT")]
            calls += [(f"LAG({x})", INT, False), (f"LAG({x}, 2)", INT, False), (f"LEAD({x})", INT, False),
                      (f"AVG({x})", OTHER, True), ("DENSE_RANK()", INT, False)]  # fmt: skip
        return calls

    def constants(self, depth: int) -> Relation:
        """A union with rows of VALUES."""
        below, alias, own = self.below(depth), self.alias(), self.alias()
        shown = [c for c in below.columns if c.kind in (INT, TEXT)][:2]
        if not shown:
            return below
        rows = ["(" + ", ".join(self.choice.choice((*_LITERALS[c.kind], _LITERALS[c.kind][0])) for c in shown) + ")"
                for _ in range(2)]  # fmt: skip
        columns = tuple(Column(self.name(), c.kind) for c in shown)
        names = ", ".join(c.name for c in columns)
        first = ", ".join(f"{alias}.{c.name} AS {new.name}" for c, new in zip(shown, columns, strict=True))
        values = f"SELECT {names} FROM (VALUES {', '.join(rows)}) AS {own} ({names})"
        word = self.choice.choice(["UNION ALL", "UNION", "EXCEPT", "INTERSECT", "EXCEPT ALL"])
        source = below.named(alias)
        return Relation(lambda dialect: f"SELECT {first} FROM {source(dialect)} {word} {values}", columns)

    # --- windows --------------------------------------------------------------------------------------------------

    def windows(self, table: TableKind, *, hops: bool) -> Text:
        size = self.choice.choice(["'5' MINUTE", "'7' SECOND", "'0.5' SECOND"]) if not hops else "'10' MINUTE"
        rows = f"TABLE {table.name}, DESCRIPTOR(ts)"
        texts = [f"TUMBLE({rows}, INTERVAL {size})"]
        if hops:
            texts = [f"HOP({rows}, INTERVAL '5' MINUTE, INTERVAL '10' MINUTE)",
                     f"HOP({rows}, INTERVAL '4' SECOND, INTERVAL '10' SECOND)",
                     f"CUMULATE({rows}, INTERVAL '2' SECOND, INTERVAL '6' SECOND)"]  # fmt: skip
        actual = self.choice.choice(texts)
        return lambda dialect: actual

    def grouped_by_window(self, depth: int) -> Relation:
        """Aggregates of windows, of sessions as well."""
        table = self.choice.choice([t for t in self.tables if t.timed and t.mode == "I"])
        key, alias = self.choice.choice(["a", "s", None]), self.alias()
        windows = self.windows(table, hops=self.choice.random() < 0.5)
        if self.choice.random() < 0.4:
            rows = f"TABLE {table.name}{f' PARTITION BY {key}' if key else ''}, DESCRIPTOR(ts)"
            gap = self.choice.choice(["'1' SECOND", "'30' SECOND", "'5' MINUTE"])
            session = f"SESSION({rows}, INTERVAL {gap})"
            windows = lambda dialect: session  # noqa: E731
        kinds = {"id": INT, **{name: _KINDS[kind] for name, kind in table.fields}}
        below = Relation(windows, tuple(Column(name, kind) for name, kind in kinds.items()))
        calls = [self.aggregate(below, alias) for _ in range(self.choice.randint(1, 3))]
        items = [f"{alias}.window_start", f"{alias}.window_end", *([f"{alias}.{key}"] if key else [])]
        columns = [Column(self.name(), OTHER) for _ in items[:2]]
        columns += [Column(self.name(), kinds[key])] if key else []
        columns += [Column(self.name(), kind) for _, kind in calls]
        by = ", ".join(items)

        def text(dialect: str) -> str:
            all_items = [*items, *(call(dialect) for call, _ in calls)]
            listed = ", ".join(f"{item} AS {c.name}" for item, c in zip(all_items, columns, strict=True))
            return f"SELECT {listed} FROM {windows(dialect)} AS {alias} GROUP BY {by}"

        return Relation(text, tuple(columns))

    def temporal_join(self, one: TableKind, other: TableKind) -> Relation:
        """Of versions, which are not rows that are there in the end: ``tests.differential`` has them."""
        return self.asof_join(one, other)


_FRAMES = (
    " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW", " ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    " ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING", " ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
)  # fmt: skip


def random_query(choice: Random, tables: tuple[TableKind, ...]) -> str:
    return JudgedMaker(choice, tables=tables).text()


def random_condition(choice: Random, columns: list[tuple[str, str]]) -> str | None:
    """On the columns of a query named ``q``, of names and types; None where none of them is compared."""
    kinds = {"INT": INT, "BIGINT": BIGINT, "STRING": TEXT, "BOOLEAN": BOOL, "DOUBLE": DOUBLE, "DATE": DATE}
    shown = tuple(Column(name, kinds[kind]) for name, kind in columns if kind in kinds)
    if not shown:
        return None
    maker = JudgedMaker(choice, tables=(), nested=1)
    return maker.condition(Relation(lambda dialect: "", shown), "q")
