"""Table functions, windows, triggers, evictors, late data and EMIT: the streaming clauses of a SELECT."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from sqlglot import exp

from sqlstream.grammar.nodes.node import Node, Sql, clause, joined, listed
from sqlstream.grammar.quoting import quote_dotted, quote_name


# --- measures -------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class RowCount(Node):
    """A number of rows: ``n ROWS``."""

    count: int

    def text(self, sql: Sql) -> str:
        return f"{self.count} ROWS"


@dataclass(frozen=True)
class Duration(Node):
    """A time interval: any expression of interval type, most often an ``INTERVAL`` literal."""

    expression: exp.Expression

    def text(self, sql: Sql) -> str:
        return sql(self.expression)


Measure = RowCount | Duration


# --- table functions ------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Descriptor(Node):
    """``DESCRIPTOR(ts, …)``."""

    columns: tuple[exp.Identifier, ...]

    def text(self, sql: Sql) -> str:
        return f"DESCRIPTOR({listed(self.columns, sql)})"


@dataclass(frozen=True)
class TableArgument(Node):
    """``TABLE t [PARTITION BY k, …] [ORDER BY ts, …]``; ``source`` is an ``exp.Table`` or ``exp.Subquery``."""

    source: exp.Expression
    partition_by: tuple[exp.Expression, ...] = ()
    order_by: tuple[exp.Expression, ...] = ()

    def text(self, sql: Sql) -> str:
        return self.enclosed_text(sql, enclosed=False)

    def enclosed_text(self, sql: Sql, enclosed: bool = True) -> str:
        """The text with the keys of PARTITION BY in parentheses; a single key has them only if ``enclosed`` is true."""
        partition = f"PARTITION BY {_keys(self.partition_by, sql, enclosed)}" if self.partition_by else None
        order = f"ORDER BY {_keys(self.order_by, sql, enclosed)}" if self.order_by else None
        return joined("TABLE", sql(self.source), partition, order)


def _keys(keys: tuple[exp.Expression, ...], sql: Sql, enclosed: bool) -> str:
    """In parentheses unless it is one column: a comma between keys looks like the end of the argument."""
    key = keys[0].this if isinstance(keys[0], exp.Ordered) else keys[0]
    plain = len(keys) == 1 and isinstance(key, exp.Column)
    return listed(keys, sql) if plain and not enclosed else f"({listed(keys, sql)})"


@dataclass(frozen=True)
class Argument(Node):
    """One argument of a table function; ``name`` is None where it is positional."""

    name: str | None
    value: exp.Expression | Descriptor | TableArgument | RowCount

    def text(self, sql: Sql) -> str:
        value = self.value.text(sql) if isinstance(self.value, Node) else sql(self.value)
        return f"{quote_name(self.name)} => {value}" if self.name is not None else value


@dataclass(frozen=True)
class TableFunction(Node):
    """``name(args)`` in FROM with at least one TABLE argument; ``wrapped``: inside ``TABLE( )``."""

    name: str
    arguments: tuple[Argument, ...]
    wrapped: bool = False

    def text(self, sql: Sql) -> str:
        following = (*self.arguments[1:], None)
        arguments = (_argument(a, after, sql) for a, after in zip(self.arguments, following, strict=True))
        call = f"{quote_dotted(self.name)}({', '.join(arguments)})"
        return f"TABLE({call})" if self.wrapped else call


def _argument(argument: Argument, following: Argument | None, sql: Sql) -> str:
    """A single key without parentheses would take the expression that follows for another key."""
    table = argument.value
    another_key = following is not None and following.name is None and isinstance(following.value, exp.Expr)
    if not isinstance(table, TableArgument) or not another_key:
        return argument.text(sql)
    name = f"{quote_name(argument.name)} => " if argument.name is not None else ""
    return f"{name}{table.enclosed_text(sql)}"


# --- windows as clauses ---------------------------------------------------------------------------------------
class WindowKind(Enum):
    """The kinds of windows that are functions of a time column."""

    TUMBLE = "TUMBLE"
    HOP = "HOP"
    CUMULATE = "CUMULATE"
    SESSION = "SESSION"


@dataclass(frozen=True)
class GroupWindow(Node):
    """``TUMBLE(ts, size [, offset])`` and so on among the keys of GROUP BY.

    ``measures`` are the arguments after the time column in the order written: TUMBLE size [offset],
    HOP slide size [offset], CUMULATE step size [offset], SESSION gap.
    """

    kind: WindowKind
    time: exp.Expression
    measures: tuple[Measure, ...]

    def text(self, sql: Sql) -> str:
        measures = ", ".join(m.text(sql) for m in self.measures)
        return f"{self.kind.value}({sql(self.time)}, {measures})"


@dataclass(frozen=True)
class CountWindow(Node):
    """``COUNT WINDOW (size [SLIDE slide] [FULL ONLY])``."""

    size: Measure
    slide: Measure | None = None
    full_only: bool = False

    def text(self, sql: Sql) -> str:
        slide = f"SLIDE {self.slide.text(sql)}" if self.slide else None
        inner = joined(self.size.text(sql), slide, "FULL ONLY" if self.full_only else None)
        return f"COUNT WINDOW ({inner})"


@dataclass(frozen=True)
class GlobalWindow(Node):
    """``GLOBAL WINDOW``."""

    def text(self, sql: Sql) -> str:
        return "GLOBAL WINDOW"


@dataclass(frozen=True)
class UserCall(Node):
    """A call ``f(args)`` of a user's Python class: a window assigner, trigger or evictor."""

    name: str
    arguments: tuple[exp.Expression, ...]

    def text(self, sql: Sql) -> str:
        return f"{quote_dotted(self.name)}({listed(self.arguments, sql)})"


@dataclass(frozen=True)
class UserWindow(Node):
    """``WINDOW USING f(args)``."""

    call: UserCall

    def text(self, sql: Sql) -> str:
        return f"WINDOW USING {self.call.text(sql)}"


WindowClause = GroupWindow | CountWindow | GlobalWindow | UserWindow


# --- triggers -------------------------------------------------------------------------------------------------
class Domain(Enum):
    """The time domain of a trigger."""

    EVENT = "EVENT TIME"
    PROCESSING = "PROCESSING TIME"


class Accumulation(Enum):
    """What a later firing of a window emits, compared to earlier ones: all rows so far, only new rows, or all after a
    retraction.
    """

    ACCUMULATING = "ACCUMULATING"
    DISCARDING = "DISCARDING"
    RETRACTING = "RETRACTING"


@dataclass(frozen=True)
class EveryRows(Node):
    """``EVERY n ROWS``."""

    count: int

    def text(self, sql: Sql) -> str:
        return f"EVERY {self.count} ROWS"


@dataclass(frozen=True)
class EveryInterval(Node):
    """``EVERY interval [EVENT TIME | PROCESSING TIME]``."""

    interval: exp.Expression
    domain: Domain | None = None

    def text(self, sql: Sql) -> str:
        return joined("EVERY", sql(self.interval), self.domain.value if self.domain else None)


@dataclass(frozen=True)
class When(Node):
    """``WHEN (condition)``."""

    condition: exp.Expression

    def text(self, sql: Sql) -> str:
        return f"WHEN ({sql(self.condition)})"


Pulse = EveryRows | EveryInterval | When  # what EARLY and LATE take


@dataclass(frozen=True)
class AfterWatermark(Node):
    """``AFTER WATERMARK [EARLY early] [LATE late]``."""

    early: Pulse | None = None
    late: Pulse | None = None

    def text(self, sql: Sql) -> str:
        early = f"EARLY {self.early.text(sql)}" if self.early else None
        late = f"LATE {self.late.text(sql)}" if self.late else None
        return joined("AFTER WATERMARK", early, late)


@dataclass(frozen=True)
class AfterProcessingTime(Node):
    """``AFTER PROCESSING TIME``."""

    def text(self, sql: Sql) -> str:
        return "AFTER PROCESSING TIME"


@dataclass(frozen=True)
class DeltaTrigger(Node):
    """``[ABSOLUTE] DELTA (number) > threshold``."""

    value: exp.Expression
    threshold: exp.Expression
    absolute: bool = False

    def text(self, sql: Sql) -> str:
        return f"{'ABSOLUTE ' if self.absolute else ''}DELTA ({sql(self.value)}) > {sql(self.threshold)}"


@dataclass(frozen=True)
class AfterSilence(Node):
    """``AFTER interval OF SILENCE``."""

    interval: exp.Expression

    def text(self, sql: Sql) -> str:
        return f"AFTER {sql(self.interval)} OF SILENCE"


@dataclass(frozen=True)
class OnBarrier(Node):
    """``ON BARRIER``."""

    def text(self, sql: Sql) -> str:
        return "ON BARRIER"


@dataclass(frozen=True)
class Never(Node):
    """``NEVER``."""

    def text(self, sql: Sql) -> str:
        return "NEVER"


@dataclass(frozen=True)
class UserTrigger(Node):
    """``USING f(args)``."""

    call: UserCall

    def text(self, sql: Sql) -> str:
        return f"USING {self.call.text(sql)}"


@dataclass(frozen=True)
class Purging(Node):
    """``PURGING (expr)``."""

    inner: TriggerExpr

    def text(self, sql: Sql) -> str:
        return f"PURGING ({self.inner.text(sql)})"


class Combinator(Enum):
    """How two triggers are combined."""

    OR = "OR"
    AND = "AND"
    THEN = "THEN"


@dataclass(frozen=True)
class Combined(Node):
    """``left OR|AND|THEN right``; AND binds tighter than OR, THEN weakest; parentheses group."""

    combinator: Combinator
    left: TriggerExpr
    right: TriggerExpr

    def text(self, sql: Sql) -> str:
        strength = _STRENGTH[self.combinator]
        left = _operand(self.left, strength, sql)
        right = _operand(self.right, strength + 1, sql)
        return f"{left} {self.combinator.value} {right}"


_STRENGTH = {Combinator.THEN: 0, Combinator.OR: 1, Combinator.AND: 2}


def _operand(node: TriggerExpr, least: int, sql: Sql) -> str:
    """Parentheses where the operand binds weaker than ``least``."""
    text = node.text(sql)
    weaker = isinstance(node, Combined) and _STRENGTH[node.combinator] < least
    return f"({text})" if weaker else text


TriggerExpr = (
    EveryRows | EveryInterval | When | AfterWatermark | AfterProcessingTime | DeltaTrigger | AfterSilence | OnBarrier
    | Never | UserTrigger | Purging | Combined
)  # fmt: skip


@dataclass(frozen=True)
class Trigger(Node):
    """``TRIGGER expr [accumulation]``."""

    expression: TriggerExpr
    accumulation: Accumulation | None = None

    def text(self, sql: Sql) -> str:
        accumulation = self.accumulation.value if self.accumulation else None
        return joined("TRIGGER", self.expression.text(sql), accumulation)


# --- evictors, late data, emit --------------------------------------------------------------------------------
@dataclass(frozen=True)
class KeepLast(Node):
    """``KEEP LAST n ROWS | interval``."""

    measure: Measure

    def text(self, sql: Sql) -> str:
        return f"KEEP LAST {self.measure.text(sql)}"


@dataclass(frozen=True)
class DeltaEvictor(Node):
    """``[ABSOLUTE] DELTA (number) >= threshold``."""

    value: exp.Expression
    threshold: exp.Expression
    absolute: bool = False

    def text(self, sql: Sql) -> str:
        return f"{'ABSOLUTE ' if self.absolute else ''}DELTA ({sql(self.value)}) >= {sql(self.threshold)}"


@dataclass(frozen=True)
class UserEvictor(Node):
    """``USING f(args)``."""

    call: UserCall

    def text(self, sql: Sql) -> str:
        return f"USING {self.call.text(sql)}"


@dataclass(frozen=True)
class Evict(Node):
    """``EVICT [BEFORE | AFTER] …``; BEFORE is the default."""

    evictor: KeepLast | DeltaEvictor | UserEvictor
    after: bool = False

    def text(self, sql: Sql) -> str:
        return joined("EVICT", "AFTER" if self.after else None, self.evictor.text(sql))


class LateAction(Enum):
    """What happens to rows that are too late."""

    DROP = "DROP"
    TO = "TO"
    FAIL = "FAIL"


@dataclass(frozen=True)
class LateData(Node):
    """``LATE DATA [ALLOW interval] [DROP | TO table | FAIL]``."""

    allow: exp.Expression | None = None
    action: LateAction | None = None
    table: exp.Table | None = None

    def text(self, sql: Sql) -> str:
        action = self.action.value if self.action else None
        return joined("LATE DATA", clause("ALLOW", self.allow, sql), action, sql(self.table) if self.table else None)


class EmitKind(Enum):
    """When results are emitted."""

    ON_WINDOW_CLOSE = "ON WINDOW CLOSE"
    CHANGES = "CHANGES"
    EVERY = "EVERY"


@dataclass(frozen=True)
class Emit(Node):
    """``EMIT …``; ``interval`` is the delay of ON_WINDOW_CLOSE (AFTER WATERMARK WITH DELAY) or the period of EVERY."""

    kind: EmitKind
    interval: exp.Expression | None = None

    def text(self, sql: Sql) -> str:
        if self.kind is EmitKind.ON_WINDOW_CLOSE and self.interval is not None:
            return f"EMIT AFTER WATERMARK WITH DELAY {sql(self.interval)}"
        return joined("EMIT", self.kind.value, sql(self.interval) if self.interval else None)


@dataclass(frozen=True)
class StreamClauses(Node):
    """The streaming clauses of one SELECT, each None if it is absent. ``window`` is written among the keys of GROUP BY
    or after them.
    """

    window: WindowClause | None = None
    trigger: Trigger | None = None
    evict: Evict | None = None
    late_data: LateData | None = None
    emit: Emit | None = None
