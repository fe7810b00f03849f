"""Clauses of a table: WATERMARK … DELAY OF, ALIGN BARRIERS, LOOKUP ASYNC, hints, and MATCH_RECOGNIZE."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from sqlglot import exp

from sqlstream.grammar.nodes.node import Node, Sql, clause, joined
from sqlstream.grammar.quoting import quote_name


# --- clauses of a table ---------------------------------------------------------------------------------------
@dataclass(frozen=True)
class WatermarkDelay(Node):
    """``FROM t WATERMARK ts DELAY OF interval``: a watermark of a table that is declared in the query, in Spark's
    syntax.
    """

    column: exp.Identifier
    delay: exp.Expression

    def text(self, sql: Sql) -> str:
        return f"WATERMARK {sql(self.column)} DELAY OF {sql(self.delay)}"


@dataclass(frozen=True)
class AlignBarriers(Node):
    """The clause ``ALIGN BARRIERS (CHANNEL c OF n, MARKER cond, ID expr, …)`` after a table. Marker rows are barriers:
    a channel waits behind its marker until the markers of all ``n`` channels have arrived.
    """

    channel: exp.Expression
    channels: int
    marker: exp.Expression
    id: exp.Expression
    cancel_when: exp.Expression | None = None
    end_when: exp.Expression | None = None
    at_least_once: bool = False
    timeout: exp.Expression | None = None

    def text(self, sql: Sql) -> str:
        options = (
            f"CHANNEL {sql(self.channel)} OF {self.channels}",
            f"MARKER {sql(self.marker)}",
            f"ID {sql(self.id)}",
            clause("CANCEL WHEN", self.cancel_when, sql),
            clause("END WHEN", self.end_when, sql),
            "MODE AT_LEAST_ONCE" if self.at_least_once else None,
            clause("TIMEOUT", self.timeout, sql),
        )
        return f"ALIGN BARRIERS ({', '.join(o for o in options if o)})"


class LookupOrder(Enum):
    """The order in which an asynchronous lookup emits its results: the option OUTPUT."""

    ORDERED = "ORDERED"
    UNORDERED = "UNORDERED"
    KEY_ORDERED = "KEY ORDERED"


@dataclass(frozen=True)
class Retry(Node):
    """``RETRY [ON MISS|ERROR] n TIMES (FIXED DELAY i | EXPONENTIAL FROM i [TO i])`` of LOOKUP ASYNC. ``on`` is None if
    neither is given: it retries after misses and errors.
    """

    on: str | None
    times: int
    delay: exp.Expression
    exponential: bool = False
    limit: exp.Expression | None = None

    def text(self, sql: Sql) -> str:
        word = "EXPONENTIAL FROM" if self.exponential else "FIXED DELAY"
        delay = joined(word, sql(self.delay), clause("TO", self.limit, sql))
        return joined("RETRY", f"ON {self.on}" if self.on else None, f"{self.times} TIMES ({delay})")


@dataclass(frozen=True)
class Cache(Node):
    """``CACHE n ROWS [TTL i] [NEGATIVE TTL i]`` of LOOKUP ASYNC; the intervals are None if they are not given."""

    rows: int
    ttl: exp.Expression | None = None
    negative_ttl: exp.Expression | None = None

    def text(self, sql: Sql) -> str:
        return joined(
            f"CACHE {self.rows} ROWS", clause("TTL", self.ttl, sql), clause("NEGATIVE TTL", self.negative_ttl, sql)
        )


@dataclass(frozen=True)
class LookupAsync(Node):
    """The clause ``LOOKUP ASYNC (option, …)`` after a table. A field is None if its option is not given."""

    order: LookupOrder | None = None
    capacity: int | None = None
    timeout: exp.Expression | None = None
    on_timeout: str | None = None  # FAIL, NULL, DEFER
    on_error: str | None = None  # FAIL, NULL, TO
    error_table: exp.Table | None = None
    retry: tuple[Retry, ...] = ()
    cache: Cache | None = None
    batch: int | None = None
    batch_within: exp.Expression | None = None

    def text(self, sql: Sql) -> str:
        error = f"ON ERROR {self.on_error}" if self.on_error else None
        options = (
            f"OUTPUT {self.order.value}" if self.order else None,
            f"CAPACITY {self.capacity}" if self.capacity is not None else None,
            clause("TIMEOUT", self.timeout, sql),
            f"ON TIMEOUT {self.on_timeout}" if self.on_timeout else None,
            joined(error, sql(self.error_table) if self.error_table is not None else None),
            *(r.text(sql) for r in self.retry),
            self.cache.text(sql) if self.cache else None,
            self._batch(sql),
        )
        listed = ", ".join(o for o in options if o)
        return f"LOOKUP ASYNC ({listed})" if listed else "LOOKUP ASYNC"

    def _batch(self, sql: Sql) -> str | None:
        return None if self.batch is None else joined(f"BATCH {self.batch}", clause("WITHIN", self.batch_within, sql))


@dataclass(frozen=True)
class TableHint(Node):
    """The hint ``/*+ OPTIONS('k' = 'v') */`` after a table's name. ``hint`` has the calls in it, or its text as a
    string if it could not be parsed.
    """

    hint: exp.Hint

    def text(self, sql: Sql) -> str:
        return sql(self.hint).strip()


@dataclass(frozen=True)
class TableClauses(Node):
    """The clauses after a table and its alias."""

    watermark: WatermarkDelay | None = None
    barriers: AlignBarriers | None = None
    lookup: LookupAsync | None = None
    hint: TableHint | None = None


# --- MATCH_RECOGNIZE -------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class PatternVariable(Node):
    """A variable of a row pattern: ``A``."""

    name: str

    def text(self, sql: Sql) -> str:
        return quote_name(self.name)


@dataclass(frozen=True)
class PatternSequence(Node):
    """Parts of a row pattern one after the other: ``A B C``."""

    parts: tuple[Pattern, ...]

    def text(self, sql: Sql) -> str:
        return " ".join(_grouped(p, sql, PatternAlternation, PatternSequence) for p in self.parts)


@dataclass(frozen=True)
class PatternAlternation(Node):
    """Alternatives in a row pattern: ``A | B``."""

    parts: tuple[Pattern, ...]

    def text(self, sql: Sql) -> str:
        return " | ".join(_grouped(p, sql, PatternAlternation) for p in self.parts)


@dataclass(frozen=True)
class PatternRepetition(Node):
    """A quantified part of a row pattern: ``A*``, ``A+``, ``A?``, ``A{2,3}``; with another ``?`` after it, it is
    reluctant. ``most`` is None without an upper bound.
    """

    pattern: Pattern
    least: int
    most: int | None
    reluctant: bool = False

    def text(self, sql: Sql) -> str:
        least, most = self.least, self.most
        exact = f"{{{least}}}" if least == most else f"{{{least},{'' if most is None else most}}}"
        inner = _grouped(self.pattern, sql, PatternAlternation, PatternSequence, PatternRepetition)
        return f"{inner}{_BOUNDS.get((least, most), exact)}{'?' if self.reluctant else ''}"


_BOUNDS = {(0, None): "*", (1, None): "+", (0, 1): "?"}


def _grouped(node: Pattern, sql: Sql, *weaker: type[Pattern]) -> str:
    """In parentheses where the part would otherwise be read as something else."""
    text = node.text(sql)
    return f"({text})" if isinstance(node, weaker) else text


Pattern = PatternVariable | PatternSequence | PatternAlternation | PatternRepetition


@dataclass(frozen=True)
class Measured(Node):
    """``[FINAL | RUNNING] expression AS name``: one result column in the clause MEASURES of MATCH_RECOGNIZE."""

    expression: exp.Expression
    name: str
    mode: str | None = None

    def text(self, sql: Sql) -> str:
        return joined(self.mode, sql(self.expression), "AS", quote_name(self.name))


@dataclass(frozen=True)
class PatternDefinition(Node):
    """``name AS condition`` in the clause DEFINE of MATCH_RECOGNIZE: the condition that rows of a pattern variable
    meet.
    """

    name: str
    condition: exp.Expression

    def text(self, sql: Sql) -> str:
        return f"{quote_name(self.name)} AS {sql(self.condition)}"


@dataclass(frozen=True)
class MatchRecognize(Node):
    """``MATCH_RECOGNIZE (…)`` after the last table of FROM. ``rows`` is ONE ROW PER MATCH or ALL ROWS PER MATCH,
    ``skip`` what follows AFTER MATCH SKIP; both as written, None if absent.
    """

    pattern: Pattern
    definitions: tuple[PatternDefinition, ...]
    measures: tuple[Measured, ...] = ()
    partition_by: tuple[exp.Expression, ...] = ()
    order_by: tuple[exp.Expression, ...] = ()
    rows: str | None = None
    skip: str | None = None
    within: exp.Expression | None = None

    def text(self, sql: Sql) -> str:
        measures = ", ".join(m.text(sql) for m in self.measures)
        definitions = ", ".join(d.text(sql) for d in self.definitions)
        partition = ", ".join(sql(e) for e in self.partition_by)
        order = ", ".join(sql(e) for e in self.order_by)
        inner = joined(
            f"PARTITION BY {partition}" if partition else None,
            f"ORDER BY {order}" if order else None,
            f"MEASURES {measures}" if measures else None,
            self.rows,
            f"AFTER MATCH SKIP {_skip(self.skip)}" if self.skip else None,
            f"PATTERN ({self.pattern.text(sql)})",
            clause("WITHIN", self.within, sql),
            f"DEFINE {definitions}",
        )
        return f"MATCH_RECOGNIZE ({inner})"


def _skip(words: str) -> str:
    to, end, name = words.split(" ", 2)
    return f"{to} {end} {quote_name(name)}" if to.upper() == "TO" and end.upper() in ("FIRST", "LAST") else words
