"""Makes what reads event times: first and last rows, joins by time, windows."""

from __future__ import annotations

from tests.differential.changes import TableKind
from tests.differential.queries.groups import Groups
from tests.differential.queries.relations import (
    DUCKDB,
    INT,
    OTHER,
    OURS,
    TEXT,
    Column,
    Relation,
    Text,
    join_word,
)


class ByTime(Groups):
    """Makes what reads event times: first and last rows, joins by time, windows."""

    def of_time(self, depth: int) -> Relation:
        """Of tables with times: the first or the last row of each key, and joins by time."""
        timed = [table for table in self.tables if table.timed and table.mode == "I"]
        if len(timed) < 2:
            return self.grouped(depth)
        one, other = timed[0], timed[self.choice.randrange(2)]
        makers = [self.first_rows, self.interval_join, self.asof_join, self.temporal_join]
        makers += [self.window_groups, self.window_join, self.window_join, self.window_top_n]
        makers += [self.distinct_in_windows, self.nearest_lateral]
        return self.choice.choice(makers)(one, other)

    def first_rows(self, one: TableKind, other: TableKind) -> Relation:
        alias, keys = self.alias(), self.choice.choice(["a", "s", "a, b"])
        way = self.choice.choice(["ASC", "DESC"])
        columns = [Column(self.name(), kind) for kind in (INT, INT, INT, TEXT)]
        items = ", ".join(f"{n} AS {c.name}" for n, c in zip(("id", "a", "b", "s"), columns, strict=True))
        over = f"ROW_NUMBER() OVER (PARTITION BY {keys} ORDER BY ts {way})"
        return Relation(
            lambda dialect: f"SELECT {items} FROM (SELECT *, {over} AS rn FROM {other.name}) AS {alias} WHERE rn = 1",
            tuple(columns),
        )

    def interval_join(self, one: TableKind, other: TableKind) -> Relation:
        kind = self.choice.choice(["", "LEFT ", "RIGHT ", "FULL ", "LEFT SEMI ", "LEFT ANTI "])
        low, high = self.choice.randrange(40), self.choice.randrange(40)
        on = f"l.a = r.a AND l.ts BETWEEN r.ts - INTERVAL '{low}' SECOND AND r.ts + INTERVAL '{high}' SECOND"
        on += self.choice.choice(["", "", " AND l.b < r.b"])
        return self._by_time(one, lambda dialect: f"{join_word(kind, dialect)}{other.name} AS r ON {on}", kind)

    def asof_join(self, one: TableKind, other: TableKind) -> Relation:
        kind = self.choice.choice(["", "LEFT "])
        than = self.choice.choice([">=", ">"])
        on = f"l.a = r.a AND l.ts {than} r.ts"
        return self._by_time(one, lambda dialect: f"ASOF {kind}JOIN {other.name} AS r ON {on}", kind)

    def nearest_lateral(self, one: TableKind, other: TableKind) -> Relation:
        """The newest row that is not after each row, as a subquery."""
        alias, kind = self.alias(), self.choice.choice(["", "LEFT "])
        than, key = self.choice.choice([">=", ">"]), self.choice.choice(["a", "b", "s"])
        columns = (Column(self.name(), INT), Column(self.name(), OTHER))
        where = f"r.{key} = l.{key} AND l.ts {than} r.ts"
        nearest = f"SELECT r.ts AS v FROM {other.name} AS r WHERE {where} ORDER BY r.ts DESC"
        join = f"{kind}JOIN LATERAL ({nearest} LIMIT 1) AS {alias} ON TRUE"
        text = f"SELECT l.id AS {columns[0].name}, {alias}.v AS {columns[1].name} FROM {one.name} AS l {join}"
        return Relation(lambda dialect: text, columns)

    def distinct_in_windows(self, one: TableKind, other: TableKind) -> Relation:
        """Groups in windows of distinct rows."""
        columns = tuple(Column(self.name(), kind) for kind in (OTHER, INT, INT))
        key = self.choice.choice(["a", "b"])
        both = f"SELECT {key} AS k, ts FROM {one.name} UNION SELECT {key} AS k, ts FROM {other.name}"
        rows = self.choice.choice([both, f"SELECT DISTINCT {key} AS k, ts FROM {other.name}"])
        windowed = self.windows_of(f"({rows}) AS d", hops=self.choice.random() < 0.4, ours=f"({rows})")
        calls = (f"w.window_end AS {columns[0].name}", f"COUNT(*) AS {columns[1].name}", f"SUM(k) AS {columns[2].name}")
        items, by = ", ".join(calls), "w.window_start, w.window_end"
        return Relation(lambda dialect: f"SELECT {items} FROM {windowed(dialect)} AS w GROUP BY {by}", columns)

    def temporal_join(self, one: TableKind, other: TableKind) -> Relation:
        """``history`` has all that happened to the table of versions; what was deleted is there no longer."""
        kind = self.choice.choice(["", "LEFT "])
        if not any(table.name == "versions" for table in self.tables):
            return self.asof_join(one, other)

        def join(dialect: str) -> str:
            if dialect == OURS:
                return f"{kind}JOIN versions FOR SYSTEM_TIME AS OF l.ts AS r ON l.a = r.id"
            past = (
                f"SELECT l.ts AS at, l.id AS lid, h.* FROM {one.name} AS l ASOF JOIN history AS h "
                "ON l.a = h.id AND l.ts >= h.ts"
            )
            return f"{kind}JOIN (SELECT * FROM ({past}) AS p WHERE NOT p.gone) AS r ON r.at = l.ts AND r.lid = l.id"

        return self._by_time(one, join, kind)

    def windows(self, table: TableKind, *, hops: bool) -> Text:
        """In FROM: the rows of a table with ``window_start`` and ``window_end``."""
        return self.windows_of(table.name, hops=hops, ours=table.name)

    def windows_of(self, source: str, *, hops: bool, ours: str) -> Text:
        """The same of a table or a query."""
        slide = "INTERVAL '5' MINUTE"
        count = 2 if hops else 1
        size = f"INTERVAL '{5 * count}' MINUTE"

        def text(dialect: str) -> str:
            if dialect == OURS:
                slides = f"{slide}, " if hops else ""
                return f"{'HOP' if hops else 'TUMBLE'}(TABLE {ours}, DESCRIPTOR(ts), {slides}{size})"
            start = f"time_bucket({slide}, ts)" if dialect == DUCKDB else "window(ts, '5 minutes').start"
            parts = [
                f"SELECT *, {start} - {k} * {slide} AS window_start, {start} - {k} * {slide} + {size} AS window_end "
                f"FROM {source}"
                for k in range(count)
            ]
            return f"({' UNION ALL '.join(parts)})"

        return text

    def window_groups(self, one: TableKind, other: TableKind) -> Relation:
        hops, key = self.choice.random() < 0.4, self.choice.choice(["a", "s", None])
        source = self.windows(other, hops=hops)
        rows = Relation(lambda dialect: "", (Column("id", INT), Column("a", INT), Column("b", INT), Column("s", TEXT)))
        calls = [self.aggregate(rows, "w") for _ in range(self.choice.randint(1, 2))]
        kinds = [OTHER, *([INT if key == "a" else TEXT] if key else []), *(kind for _, kind in calls)]
        columns = tuple(Column(self.name(), kind) for kind in kinds)

        def text(dialect: str) -> str:
            items = ["w.window_end", *([f"w.{key}"] if key else []), *(call(dialect) for call, _ in calls)]
            listed = ", ".join(f"{item} AS {c.name}" for item, c in zip(items, columns, strict=True))
            by = f"w.window_start, w.window_end{f', w.{key}' if key else ''}"
            return f"SELECT {listed} FROM {source(dialect)} AS w GROUP BY {by}"

        return Relation(text, columns)

    def window_join(self, one: TableKind, other: TableKind) -> Relation:
        kind = self.choice.choice(["", "LEFT ", "RIGHT ", "FULL ", "LEFT SEMI ", "LEFT ANTI "])
        hops = self.choice.random() < 0.3
        left, right = self.windows(one, hops=hops), self.windows(other, hops=hops)
        also = self.choice.choice(["l.a = r.a", "l.a = r.b", "l.s = r.s", "l.a = r.a AND l.b < r.b"])
        on = f"l.window_start = r.window_start AND l.window_end = r.window_end AND {also}"
        names = ["l.id", "l.b", "l.window_end"]
        names += [] if kind in ("LEFT SEMI ", "LEFT ANTI ") else ["r.id", "r.s"]
        kinds = {"l.window_end": OTHER, "r.s": TEXT}
        columns = tuple(Column(self.name(), kinds.get(name, INT)) for name in names)
        items = ", ".join(f"{n} AS {c.name}" for n, c in zip(names, columns, strict=True))
        return Relation(
            lambda dialect: (
                f"SELECT {items} FROM {left(dialect)} AS l {join_word(kind, dialect)}{right(dialect)} AS r ON {on}"
            ),
            columns,
        )

    def window_top_n(self, one: TableKind, other: TableKind) -> Relation:
        source = self.windows(other, hops=self.choice.random() < 0.3)
        key, way = self.choice.choice(["", ", a", ", s"]), self.choice.choice(["ASC", "DESC"])
        over = f"ROW_NUMBER() OVER (PARTITION BY window_start, window_end{key} ORDER BY b {way} NULLS LAST, id)"
        names = ("id", "a", "b", "s", "window_end", "rn")
        kinds = (INT, INT, INT, TEXT, OTHER, INT)
        columns = tuple(Column(self.name(), kind) for kind in kinds)
        items = ", ".join(f"{n} AS {c.name}" for n, c in zip(names, columns, strict=True))
        most = self.choice.randint(1, 3)
        return Relation(
            lambda dialect: (
                f"SELECT {items} FROM (SELECT *, {over} AS rn FROM {source(dialect)} AS w) AS n WHERE rn <= {most}"
            ),
            columns,
        )

    def _by_time(self, one: TableKind, join: Text, kind: str) -> Relation:
        names = ["l.id", "l.a", "l.b", "l.s"]
        names += [] if kind in ("LEFT SEMI ", "LEFT ANTI ") else ["r.id", "r.b", "r.s"]
        columns = tuple(Column(self.name(), TEXT if n.endswith("s") else INT) for n in names)
        items = ", ".join(f"{n} AS {c.name}" for n, c in zip(names, columns, strict=True))
        return Relation(lambda dialect: f"SELECT {items} FROM {one.name} AS l {join(dialect)}", columns)
