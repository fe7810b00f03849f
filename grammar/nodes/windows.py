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
    """``DESCRIPTOR(ts, …)``: an argument of a table function that names columns, most often the time column."""

    columns: tuple[exp.Identifier, ...]

    def text(self, sql: Sql) -> str:
        return f"DESCRIPTOR({listed(self.columns, sql)})"


@dataclass(frozen=True)
class TableArgument(Node):
    """``TABLE t [PARTITION BY k, …] [ORDER BY ts, …]``: a table as an argument of a table function. ``source`` is an
    ``exp.Table`` or ``exp.Subquery``.
    """

    source: exp.Expression
    partition_by: tuple[exp.Expression, ...] = ()
    order_by: tuple[exp.Expression, ...] = ()

    def text(self, sql: Sql) -> str:
        return self.enclosed_text(sql, enclosed=False)

    def enclosed_text(self, sql: Sql, enclosed: bool = True) -> str:
        """The SQL text with parentheses around the keys of PARTITION BY. If ``enclosed`` is False, a single key gets
        none.
        """
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
    """A call ``name(args)`` in FROM with at least one TABLE argument. ``wrapped``: it is written as
    ``TABLE(name(args))``.
    """

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
    """A window among the keys of GROUP BY, such as ``TUMBLE(ts, size [, offset])``.

    ``measures`` are the arguments after the time column in the order written: TUMBLE size [offset], HOP slide size
    [offset], CUMULATE step size [offset], SESSION gap.
    """

    kind: WindowKind
    time: exp.Expression
    measures: tuple[Measure, ...]

    def text(self, sql: Sql) -> str:
        measures = ", ".join(m.text(sql) for m in self.measures)
        return f"{self.kind.value}({sql(self.time)}, {measures})"


@dataclass(frozen=True)
class CountWindow(Node):
    """The window ``COUNT WINDOW (size [SLIDE slide] [FULL ONLY])`` of GROUP BY, measured in rows. FULL ONLY: no result
    before the window has ``size`` rows.
    """

    size: Measure
    slide: Measure | None = None
    full_only: bool = False

    def text(self, sql: Sql) -> str:
        slide = f"SLIDE {self.slide.text(sql)}" if self.slide else None
        inner = joined(self.size.text(sql), slide, "FULL ONLY" if self.full_only else None)
        return f"COUNT WINDOW ({inner})"


@dataclass(frozen=True)
class GlobalWindow(Node):
    """The window ``GLOBAL WINDOW`` of GROUP BY: one window per key, which never ends."""

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
    """The window ``WINDOW USING f(args)`` of GROUP BY, which a user's assigner computes."""

    call: UserCall

    def text(self, sql: Sql) -> str:
        return f"WINDOW USING {self.call.text(sql)}"


WindowClause = GroupWindow | CountWindow | GlobalWindow | UserWindow


# --- triggers -------------------------------------------------------------------------------------------------
class Domain(Enum):
    """The clock of a trigger: event time or processing time."""

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
    """The trigger ``EVERY n ROWS``: fires with every n-th row of a window."""

    count: int

    def text(self, sql: Sql) -> str:
        return f"EVERY {self.count} ROWS"


@dataclass(frozen=True)
class EveryInterval(Node):
    """The trigger ``EVERY interval [EVENT TIME | PROCESSING TIME]``: fires at each multiple of the interval, and at the
    end of the window.
    """

    interval: exp.Expression
    domain: Domain | None = None

    def text(self, sql: Sql) -> str:
        return joined("EVERY", sql(self.interval), self.domain.value if self.domain else None)


@dataclass(frozen=True)
class When(Node):
    """The trigger ``WHEN (condition)``: fires with each row that meets the condition."""

    condition: exp.Expression

    def text(self, sql: Sql) -> str:
        return f"WHEN ({sql(self.condition)})"


Pulse = EveryRows | EveryInterval | When  # what EARLY and LATE take


@dataclass(frozen=True)
class AfterWatermark(Node):
    """The trigger ``AFTER WATERMARK [EARLY early] [LATE late]``: fires when the watermark passes the end of the window;
    ``early`` and ``late`` are triggers for the time before and after.
    """

    early: Pulse | None = None
    late: Pulse | None = None

    def text(self, sql: Sql) -> str:
        early = f"EARLY {self.early.text(sql)}" if self.early else None
        late = f"LATE {self.late.text(sql)}" if self.late else None
        return joined("AFTER WATERMARK", early, late)


@dataclass(frozen=True)
class AfterProcessingTime(Node):
    """The trigger ``AFTER PROCESSING TIME``: fires when the processing-time clock passes the end of the window."""

    def text(self, sql: Sql) -> str:
        return "AFTER PROCESSING TIME"


@dataclass(frozen=True)
class DeltaTrigger(Node):
    """The trigger ``[ABSOLUTE] DELTA (number) > threshold``: fires when the number has grown (ABSOLUTE: changed) by
    more than the threshold since the row of the last firing.
    """

    value: exp.Expression
    threshold: exp.Expression
    absolute: bool = False

    def text(self, sql: Sql) -> str:
        return f"{'ABSOLUTE ' if self.absolute else ''}DELTA ({sql(self.value)}) > {sql(self.threshold)}"


@dataclass(frozen=True)
class AfterSilence(Node):
    """The trigger ``AFTER interval OF SILENCE``: fires when no row has arrived for that long."""

    interval: exp.Expression

    def text(self, sql: Sql) -> str:
        return f"AFTER {sql(self.interval)} OF SILENCE"


@dataclass(frozen=True)
class OnBarrier(Node):
    """The trigger ``ON BARRIER``: fires when a barrier is aligned (see ALIGN BARRIERS)."""

    def text(self, sql: Sql) -> str:
        return "ON BARRIER"


@dataclass(frozen=True)
class Never(Node):
    """The trigger ``NEVER``, which never fires."""

    def text(self, sql: Sql) -> str:
        return "NEVER"


@dataclass(frozen=True)
class UserTrigger(Node):
    """The trigger ``USING f(args)``: a user's Python class decides when to fire."""

    call: UserCall

    def text(self, sql: Sql) -> str:
        return f"USING {self.call.text(sql)}"


@dataclass(frozen=True)
class Purging(Node):
    """The trigger ``PURGING (expr)``: fires with the trigger in parentheses, and clears the window's rows at each
    firing.
    """

    inner: TriggerExpr

    def text(self, sql: Sql) -> str:
        return f"PURGING ({self.inner.text(sql)})"


class Combinator(Enum):
    """How two triggers are combined: fires with either (OR), when both have fired (AND), or once with the first, then
    with the second (THEN).
    """

    OR = "OR"
    AND = "AND"
    THEN = "THEN"


@dataclass(frozen=True)
class Combined(Node):
    """Two triggers combined: ``left OR|AND|THEN right``. AND binds tighter than OR, and OR tighter than THEN;
    parentheses group.
    """

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
    """The clause ``TRIGGER expr [accumulation]``: when windows fire, and what later firings emit."""

    expression: TriggerExpr
    accumulation: Accumulation | None = None

    def text(self, sql: Sql) -> str:
        accumulation = self.accumulation.value if self.accumulation else None
        return joined("TRIGGER", self.expression.text(sql), accumulation)


# --- evictors, late data, emit --------------------------------------------------------------------------------
@dataclass(frozen=True)
class KeepLast(Node):
    """The evictor ``KEEP LAST n ROWS`` or ``KEEP LAST interval``: removes all older rows from the window."""

    measure: Measure

    def text(self, sql: Sql) -> str:
        return f"KEEP LAST {self.measure.text(sql)}"


@dataclass(frozen=True)
class DeltaEvictor(Node):
    """The evictor ``[ABSOLUTE] DELTA (number) >= threshold``: removes a row if the number of the window's last row
    minus its own reaches the threshold.
    """

    value: exp.Expression
    threshold: exp.Expression
    absolute: bool = False

    def text(self, sql: Sql) -> str:
        return f"{'ABSOLUTE ' if self.absolute else ''}DELTA ({sql(self.value)}) >= {sql(self.threshold)}"


@dataclass(frozen=True)
class UserEvictor(Node):
    """The evictor ``USING f(args)``: a user's Python class decides which rows to remove."""

    call: UserCall

    def text(self, sql: Sql) -> str:
        return f"USING {self.call.text(sql)}"


@dataclass(frozen=True)
class Evict(Node):
    """The clause ``EVICT [BEFORE | AFTER] …``, which removes rows from a window before (default) or after its
    aggregates are computed.
    """

    evictor: KeepLast | DeltaEvictor | UserEvictor
    after: bool = False

    def text(self, sql: Sql) -> str:
        return joined("EVICT", "AFTER" if self.after else None, self.evictor.text(sql))


class LateAction(Enum):
    """What happens to rows that are late for their window: they are dropped, sent to a table, or they fail the job."""

    DROP = "DROP"
    TO = "TO"
    FAIL = "FAIL"


@dataclass(frozen=True)
class LateData(Node):
    """The clause ``LATE DATA [ALLOW interval] [DROP | TO table | FAIL]``. ``allow``: how long late rows still update a
    window.
    """

    allow: exp.Expression | None = None
    action: LateAction | None = None
    table: exp.Table | None = None

    def text(self, sql: Sql) -> str:
        action = self.action.value if self.action else None
        return joined("LATE DATA", clause("ALLOW", self.allow, sql), action, sql(self.table) if self.table else None)


class EmitKind(Enum):
    """When results are emitted: once a window is over, at each change, or at regular intervals before the window is
    over.
    """

    ON_WINDOW_CLOSE = "ON WINDOW CLOSE"
    CHANGES = "CHANGES"
    EVERY = "EVERY"


@dataclass(frozen=True)
class Emit(Node):
    """The clause ``EMIT …`` of a query. ``interval`` is the delay for ON_WINDOW_CLOSE (AFTER WATERMARK WITH DELAY) or
    the period for EVERY, else None.
    """

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
