"""When windows fire: TRIGGER, EMIT, EVICT, LATE DATA and settings, with what is legal for which window."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream.errors import Span, SqlStreamError
from sqlstream.grammar import nodes as syntax
from sqlstream.grammar.nodes import Emit, EmitKind, StreamClauses, UserCall
from sqlstream.grammar.spans import span_of
from sqlstream.planner import firing, unsupported
from sqlstream.planner.binder.barriers import require_barriers
from sqlstream.planner.binder.calls import check_arity
from sqlstream.planner.binder.changelogs import check_changes
from sqlstream.planner.binder.context import BinderSettings, Context, bind_error
from sqlstream.planner.binder.expressions import ClauseContext, bind, bind_condition, type_in
from sqlstream.planner.binder.inserts import SideRowFields, side_table, side_values
from sqlstream.planner.binder.scope import Scope
from sqlstream.planner.catalog import APPEND_ONLY, FunctionKind, TimeDomain
from sqlstream.planner.expressions import columns_of
from sqlstream.planner.fields import Field
from sqlstream.planner.firing import Accumulation, Firing, LateAction, LateData, PythonCall, Trigger
from sqlstream.planner.intervals import interval_ms, readable
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Filter, Project, Union
from sqlstream.planner.operators.join import WindowJoin
from sqlstream.planner.operators.over import Over
from sqlstream.planner.operators.temporal_sort import TemporalSort
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.operators.windows import AssignWindows
from sqlstream.planner.suggestions import did_you_mean
from sqlstream.planner.windows import (
    AlignedWindow,
    CountWindow,
    GlobalWindow,
    RowMeasured,
    Session,
    Window,
    WindowColumns,
)
from sqlstream.types import TIMESTAMP

COUNTED = (CountWindow, RowMeasured)


@dataclass(frozen=True)
class FiringContext:
    """The window and the rows to which firing clauses (TRIGGER, EVICT, EMIT, LATE DATA) belong. ``scope`` has the rows
    before they are assigned to windows; ``has_time``: these rows have a time column.
    """

    window: Window
    columns: WindowColumns
    domain: TimeDomain
    has_time: bool
    scope: Scope
    context: Context
    span: Span | None

    @property
    def clock(self) -> bool:
        """True for windows on processing time, which close by the clock and not by a watermark."""
        return self.domain is TimeDomain.PROCESSING


def bind_firing(clauses: StreamClauses, emit: Emit | None, fired: FiringContext) -> Firing:
    """Binds the clauses that say when a window fires and what it emits: TRIGGER or EMIT, EVICT and LATE DATA. Without
    TRIGGER and EMIT, the session's settings for early and late firings apply. ``fired`` describes the window. BindError
    SS226 to SS229, SS237, SS238 for mistakes in the clauses.
    """
    bound_firing = _when(clauses, emit, fired)
    eviction = bind_eviction(clauses.evict, fired.scope, fired.context, timed=fired.has_time)
    if eviction is not None and isinstance(fired.window, COUNTED):
        assert clauses.evict is not None
        hint = "Write GROUP BY … GLOBAL WINDOW TRIGGER PURGING (EVERY n ROWS) EVICT …."
        raise bind_error("SS227", "a window measured in rows takes no EVICT", clauses.evict.span, hint)
    late = bind_late_data(clauses.late_data, fired.scope, fired.columns, fired.context)
    _check_late_data(clauses.late_data, fired)
    bound_firing = replace(
        bound_firing, eviction=eviction, late=_with_settings(late, clauses.late_data, bound_firing, fired)
    )
    _check_late_pulse(bound_firing, clauses)
    if clauses.trigger is None and emit is None:
        _check_late_settings(bound_firing, fired)
    return _normal(bound_firing, fired)


def _normal(bound_firing: Firing, fired: FiringContext) -> Firing:
    """The firing without a trigger that is the default of its window, and without accumulation where it fires once.

    GLOBAL WINDOW has no default trigger: there AFTER WATERMARK means the end of the input.
    """
    default = firing.AfterProcessingTime() if fired.clock else firing.AfterWatermark()
    if bound_firing.trigger == default and not isinstance(fired.window, GlobalWindow):
        bound_firing = replace(bound_firing, trigger=None)
    return bound_firing if bound_firing.fires_again else replace(bound_firing, accumulation=Accumulation.ACCUMULATING)


# --- which clause says when -----------------------------------------------------------------------------------


def _when(clauses: StreamClauses, emit: Emit | None, fired: FiringContext) -> Firing:
    trigger = clauses.trigger
    if trigger is not None:
        accumulation = Accumulation[trigger.accumulation.name] if trigger.accumulation else Accumulation.ACCUMULATING
        _check_one(trigger, emit)
        if isinstance(fired.window, COUNTED):
            hint = "Write GROUP BY … GLOBAL WINDOW TRIGGER …, with EVICT KEEP LAST n ROWS for its size."
            message = "a window measured in rows fires by its own count and takes no TRIGGER"
            raise bind_error("SS226", message, trigger.span, hint)
        return Firing(bind_trigger(trigger.expression, fired, trigger.span), accumulation)
    if emit is not None:
        return _of_emit(emit, fired)
    if isinstance(fired.window, GlobalWindow):
        hint = "Add one, such as TRIGGER EVERY 100 ROWS, or PURGING (EVERY 100 ROWS) to start anew at each firing."
        raise bind_error("SS226", "GLOBAL WINDOW never closes, so it needs a TRIGGER", fired.span, hint)
    return _of_settings(fired)


def _check_one(trigger: syntax.Trigger, emit: Emit | None) -> None:
    if emit is None:
        return
    default = trigger.expression in (syntax.AfterWatermark(), syntax.AfterProcessingTime())
    if not (default and emit.kind is EmitKind.ON_WINDOW_CLOSE and emit.interval is None):
        raise bind_error("SS229", "TRIGGER and EMIT both say when windows fire", emit.span, "Keep one of the two.")


def _of_emit(emit: Emit, fired: FiringContext) -> Firing:
    counted = isinstance(fired.window, COUNTED)
    endless = isinstance(fired.window, GlobalWindow)
    if emit.kind is EmitKind.ON_WINDOW_CLOSE and not endless and emit.interval is None:
        return Firing()
    if counted:
        raise bind_error(
            "SS229", "a window measured in rows emits when its rows are there", emit.span, "Leave EMIT out."
        )
    match emit.kind:
        case EmitKind.CHANGES:
            return Firing(firing.EachBatch(), Accumulation.RETRACTING)
        case EmitKind.EVERY:
            period = positive_ms(emit.interval, "the interval of EMIT EVERY", emit.span)
            every = firing.EveryInterval(period, TimeDomain.PROCESSING)
            return Firing(every if endless or fired.clock else firing.AfterWatermark(early=every))
    if endless:
        hint = "Write TRIGGER, EMIT CHANGES or EMIT EVERY."
        raise bind_error("SS229", "GLOBAL WINDOW never closes", emit.span, hint)
    assert emit.interval is not None
    if fired.clock:
        raise bind_error("SS229", "EMIT AFTER WATERMARK needs windows on event time", emit.span)
    delay = positive_ms(emit.interval, "the delay of EMIT", emit.span)
    return Firing(firing.AfterWatermark(delay_ms=delay))


def _of_settings(fired: FiringContext) -> Firing:
    """As in Flink, windows that fire again because of settings retract their results; those of clauses do not."""
    settings: BinderSettings = fired.context.settings
    if isinstance(fired.window, COUNTED):
        return Firing()
    early, late = (_pulse_of(ms) for ms in (settings.early_ms, settings.late_ms))
    if early is None and late is None:
        return Firing()
    if not fired.clock:
        return Firing(firing.AfterWatermark(early, late), Accumulation.RETRACTING)
    end = firing.AfterProcessingTime()
    trigger: Trigger = firing.Combined(firing.Combinator.OR, early, end) if early is not None else end
    return Firing(trigger, Accumulation.RETRACTING)


def _pulse_of(ms: int | None) -> firing.EveryRows | firing.EveryInterval | None:
    if ms is None:
        return None
    return firing.EveryInterval(ms, TimeDomain.PROCESSING) if ms else firing.EveryRows(1)


# --- TRIGGER --------------------------------------------------------------------------------------------------


def bind_trigger(trigger: syntax.TriggerExpr, fired: FiringContext, span: Span) -> Trigger:
    """Returns the bound trigger; its expressions read the rows that enter the window. ``span`` is that of the clause.
    Mistakes raise BindError SS226.
    """
    match trigger:
        case syntax.Purging():
            return firing.Purging(bind_trigger(trigger.inner, fired, span))
        case syntax.Combined():
            left, right = (bind_trigger(t, fired, span) for t in (trigger.left, trigger.right))
            return firing.Combined(firing.Combinator[trigger.combinator.name], left, right)
    return _single_trigger(trigger, fired, span)


def _single_trigger(trigger: syntax.TriggerExpr, fired: FiringContext, span: Span) -> Trigger:
    match trigger:
        case syntax.EveryRows() | syntax.EveryInterval() | syntax.When():
            return _pulse(trigger, fired, span, early=False)
        case syntax.AfterWatermark():
            return _after_watermark(trigger, fired, span)
        case syntax.AfterProcessingTime():
            return firing.AfterProcessingTime()
        case syntax.AfterSilence():
            return firing.AfterSilence(positive_ms(trigger.interval, "the interval of SILENCE", span))
        case syntax.DeltaTrigger():
            value = bind_number(trigger.value, "DELTA", fired.scope, fired.context)
            threshold = constant_number(trigger.threshold, "DELTA", fired.scope, fired.context)
            return firing.Delta(value, threshold, trigger.absolute)
        case syntax.OnBarrier():
            require_barriers(fired.scope.node, trigger.span)
            return firing.OnBarrier()
        case syntax.Never():
            return firing.Never()
        case syntax.UserTrigger():
            return firing.UserTrigger(python_call(trigger.call, FunctionKind.TRIGGER, fired.scope, fired.context))
    raise TypeError(type(trigger).__name__)


def _after_watermark(trigger: syntax.AfterWatermark, fired: FiringContext, span: Span) -> firing.AfterWatermark:
    if fired.clock:
        hint = "Write AFTER PROCESSING TIME."
        raise bind_error("SS226", "windows on processing time have no watermark to fire after", span, hint)
    early, late = (_pulse(p, fired, span, early=True) if p is not None else None for p in (trigger.early, trigger.late))
    return firing.AfterWatermark(early, late)


def _pulse(pulse: syntax.Pulse, fired: FiringContext, span: Span, *, early: bool) -> firing.Pulse:
    match pulse:
        case syntax.EveryRows(count=count):
            if count <= 0:
                raise bind_error("SS226", f"EVERY {count} ROWS fires never", pulse.span, "Write 1 or more.")
            return firing.EveryRows(count)
        case syntax.EveryInterval():
            return _every_interval(pulse, fired, span, early=early)
        case syntax.When():
            return firing.When(bind_condition(pulse.condition, fired.scope, fired.context, ClauseContext("WHEN")))


def _every_interval(
    pulse: syntax.EveryInterval, fired: FiringContext, span: Span, *, early: bool
) -> firing.EveryInterval:
    """In the window's own time, or in processing time as EARLY and LATE, unless the clause says which."""
    period = positive_ms(pulse.interval, "the interval of EVERY", span)
    if pulse.domain is syntax.Domain.EVENT and fired.clock:
        hint = "Leave EVENT TIME out, or build the window on event time."
        raise bind_error("SS226", "EVERY … EVENT TIME needs a window on event time", pulse.span, hint)
    clock = fired.clock or pulse.domain is syntax.Domain.PROCESSING or (early and pulse.domain is None)
    return firing.EveryInterval(period, TimeDomain.PROCESSING if clock else TimeDomain.EVENT)


def positive_ms(interval: exp.Expr | None, what: str, span: Span) -> int:
    """The length of a constant interval in milliseconds. BindError SS212 unless it is positive; the message calls the
    interval ``what``.
    """
    assert interval is not None
    at = span_of(interval) or span
    length_ms = interval_ms(interval, what, at)
    if length_ms <= 0:
        raise bind_error("SS212", f"{what} must be positive, not {readable(length_ms)}", at)
    return length_ms


# --- EVICT ----------------------------------------------------------------------------------------------------


def bind_eviction(
    clause: syntax.Evict | None, scope: Scope, context: Context, *, timed: bool
) -> firing.Eviction | None:
    """Binds the clause EVICT. Returns the evictor, whose expressions read the rows of ``scope``; None without the
    clause. ``timed``: these rows have a time. Mistakes raise BindError SS227.
    """
    if clause is None:
        return None
    return firing.Eviction(_evictor(clause, scope, context, timed=timed), clause.after)


def _evictor(
    clause: syntax.Evict, scope: Scope, context: Context, *, timed: bool
) -> firing.KeepRows | firing.KeepInterval | firing.EvictDelta | firing.UserEvictor:
    match clause.evictor:
        case syntax.KeepLast(measure=syntax.RowCount(count=count)):
            if count <= 0:
                raise bind_error("SS227", "KEEP LAST 0 ROWS keeps nothing", clause.span, "Write 1 or more.")
            return firing.KeepRows(count)
        case syntax.KeepLast(measure=syntax.Duration(expression=interval)):
            return _keep_interval(interval_ms(interval, "the interval of KEEP LAST", span_of(interval)), clause, timed)
        case syntax.DeltaEvictor() as delta:
            value = bind_number(delta.value, "DELTA", scope, context)
            return firing.EvictDelta(value, constant_number(delta.threshold, "DELTA", scope, context), delta.absolute)
        case syntax.UserEvictor(call=call):
            return firing.UserEvictor(python_call(call, FunctionKind.EVICTOR, scope, context))
    raise TypeError(type(clause.evictor).__name__)


def _keep_interval(interval: int, clause: syntax.Evict, timed: bool) -> firing.KeepInterval:
    if interval <= 0:
        raise bind_error("SS227", f"KEEP LAST must be positive, not {readable(interval)}", clause.span)
    if not timed:
        hint = "Declare a WATERMARK, or a column pt AS PROCTIME(), in CREATE TABLE, or keep a number of rows."
        raise bind_error("SS227", "KEEP LAST of an interval needs rows with a time attribute", clause.span, hint)
    return firing.KeepInterval(interval)


# --- LATE DATA ------------------------------------------------------------------------------------------------


def bind_late_data(clause: syntax.LateData | None, scope: Scope, columns: WindowColumns, context: Context) -> LateData:
    """Binds the clause LATE DATA of an aggregation in windows. ``scope`` has the rows that enter the windows,
    ``columns`` are the names of the window's columns. Mistakes raise BindError SS202, SS212, SS216.
    """
    if clause is None:
        return LateData()
    allow = 0
    if clause.allow is not None:
        at = span_of(clause.allow) or clause.span
        allow = interval_ms(clause.allow, "the interval of ALLOW", at)
        if allow < 0:
            raise bind_error("SS212", f"the interval of ALLOW must not be negative, but is {readable(allow)}", at)
    action = LateAction[clause.action.name] if clause.action else LateAction.DROP
    if clause.table is None:
        return LateData(allow, action)
    table = side_table(clause.table, context)
    available = _late_row_fields(scope, columns)
    rows = SideRowFields("late", "columns of the window's input, and its bounds", available)
    return LateData(allow, action, table, side_values(table, rows, clause.span, context))


def _late_row_fields(scope: Scope, columns: WindowColumns) -> dict[str, Field]:
    """The columns of a late row: those of the window's input and the bounds of the window, by name."""
    bounds = {"window_start": columns.start, "window_end": columns.end}
    fields = {name: Field(field, TIMESTAMP, False) for name, field in bounds.items()}
    for visible in scope.columns:
        fields.setdefault(visible.name.casefold(), scope.fields[visible.field])
    return fields


def _check_late_data(clause: syntax.LateData | None, fired: FiringContext) -> None:
    if clause is None:
        return
    if isinstance(fired.window, (*COUNTED, GlobalWindow)):
        message = "LATE DATA needs windows that close at a time"
        raise bind_error("SS228", message, clause.span, "No row is late for a window of rows; leave LATE DATA out.")
    if fired.clock and (clause.allow is not None or clause.action is not None):
        raise bind_error("SS228", "no row is late in processing time", clause.span, "Leave LATE DATA out.")


def _with_settings(
    late: firing.LateData, clause: syntax.LateData | None, bound_firing: Firing, fired: FiringContext
) -> firing.LateData:
    """With the lateness that the settings allow, and at least the delay of EMIT AFTER WATERMARK."""
    allow = late.allow_ms
    allowed_by_clause = clause is not None and clause.allow is not None
    if not allowed_by_clause and not fired.clock and not isinstance(fired.window, GlobalWindow):
        counted = isinstance(fired.window, COUNTED)
        allow = 0 if counted else fired.context.settings.allowed_ms
    delay = bound_firing.trigger.delay_ms if isinstance(bound_firing.trigger, firing.AfterWatermark) else 0
    return replace(late, allow_ms=max(allow, delay))


def _check_late_pulse(bound_firing: Firing, clauses: StreamClauses) -> None:
    trigger = bound_firing.trigger
    fires_late = clauses.trigger is not None and isinstance(trigger, firing.AfterWatermark) and trigger.late is not None
    if fires_late and not bound_firing.late.allow_ms:
        assert clauses.trigger is not None
        hint = "Add LATE DATA ALLOW INTERVAL '1' MINUTE."
        raise bind_error("SS226", "LATE fires for late rows, and none are allowed", clauses.trigger.span, hint)


def _check_late_settings(bound_firing: Firing, fired: FiringContext) -> None:
    """As in Flink, the delay of late firings needs an allowed lateness of at least that much."""
    settings: BinderSettings = fired.context.settings
    if settings.late_ms is None or fired.clock or isinstance(fired.window, COUNTED):
        return
    hint = "SET 'table.exec.emit.allow-lateness' = '1 min', or write LATE DATA ALLOW."
    if not bound_firing.late.allow_ms:
        message = 'setting "table.exec.emit.late-fire.enabled" fires for late rows, and none are allowed'
        raise bind_error("SS237", message, fired.span, hint)
    if settings.late_ms > bound_firing.late.allow_ms:
        delay, allowed = readable(settings.late_ms), readable(bound_firing.late.allow_ms)
        message = f'setting "table.exec.emit.late-fire.delay" is {delay}, and rows may be late by {allowed} only'
        raise bind_error("SS238", message, fired.span, hint)


# --- numbers in triggers and evictors -------------------------------------------------------------------------


def bind_number(expression: exp.Expression, clause: str, scope: Scope, context: Context) -> exp.Expression:
    """Binds an expression that must be a number or of unknown type, and returns it. ``clause`` is the name in messages.
    Mistakes raise BindError SS206.
    """
    bound = bind(expression, scope, context, ClauseContext(clause))
    kind = type_in(scope, context, bound)
    if not (kind.is_numeric or kind.is_unknown or kind.name == "VOID"):
        hint = "Make a number of it, such as UNIX_MILLIS(ts) of a time."
        context.wrong("SS206", f"{clause} needs a number, not {kind}", expression, hint)
    return bound


def constant_number(expression: exp.Expression, clause: str, scope: Scope, context: Context) -> exp.Expression:
    """Binds an expression that must be a number and read no column, and returns it. ``clause`` is the name in messages.
    Mistakes raise BindError SS206.
    """
    if expression.find(exp.Column):
        hint = "Subtract it from the value, and compare with 0."
        raise bind_error("SS206", f"the threshold of {clause} must be a constant number", expression, hint)
    return bind_number(expression, clause, scope, context)


# --- USING f(…): Python classes that assign windows, fire them or evict rows ----------------------------------

_USING_TAKES = {
    FunctionKind.ASSIGNER: "a window assigner: a class with a method assign",
    FunctionKind.TRIGGER: "a trigger: a class with a method on_element",
    FunctionKind.EVICTOR: "an evictor: a class with a method evict",
}


def python_call(call: UserCall, kind: FunctionKind, scope: Scope, context: Context) -> PythonCall:
    """Binds the call of a user's Python class (window assigner, trigger or evictor, as ``kind`` says), whose arguments
    must be constants. Mistakes raise BindError SS203, SS207, SS209.
    """
    function = context.catalog.function(call.name)
    if function is None:
        suggestion = did_you_mean(call.name, context.catalog.function_names(), "functions")
        hint = suggestion or f"Write CREATE FUNCTION {call.name} AS 'package.module:Class' LANGUAGE PYTHON."
        raise bind_error("SS203", f'function "{call.name}" does not exist', call.span, hint)
    if function.kind is not kind:
        message = f'"{call.name}" is a function of the kind {function.kind.value}, not {kind.value}'
        raise bind_error("SS209", message, call.span, f"USING takes {_USING_TAKES[kind]}.")
    for argument in call.arguments:
        if argument.find(exp.Column):
            hint = "The class reads columns of the rows that it gets."
            raise bind_error("SS209", f'arguments of "{call.name}" must be constants', argument, hint)
    check_arity(exp.Anonymous(this=call.name, expressions=list(call.arguments)), function, context)
    return PythonCall(function.name, tuple(bind(a, scope, context, ClauseContext("USING")) for a in call.arguments))


# --- windows that only the operator which assigns them can fire -----------------------------------------------


def with_own_windows(node: WindowAggregate, select: exp.Expr) -> WindowAggregate:
    """Returns the aggregate; if its firing requires that the aggregate itself assigns the windows, it is changed to do
    so. BindError SS213, UnsupportedError SS320 or SS349 if that is impossible.
    """
    if node.window is not None or not _must_assign_windows(node):
        return node
    aggregate = node.with_windows_fused()
    if aggregate.window is None:
        raise _cannot_fuse(node, select)
    return aggregate


def _must_assign_windows(node: WindowAggregate) -> bool:
    info = node.window_info
    assert info is not None
    closes = isinstance(info.window, AlignedWindow | Session)
    return not closes or not node.firing.is_default or node.pane is not None or node.pane_index is not None


def _cannot_fuse(node: WindowAggregate, select: exp.Expr) -> SqlStreamError:
    at = select.args.get("group") or select
    info = node.input.window_info
    assert info is not None
    window = {node.columns.start, node.columns.end, node.columns.time}
    if any(columns_of(a.expression) & window for a in node.aggregates):
        return unsupported.refusal("window columns in aggregates", span_of(at))
    if not isinstance(info.window, AlignedWindow) and info.keys is not None and set(info.keys) != set(node.keys):
        kind = info.window.sql_name
        keys = ", ".join(info.keys) if info.keys else "no key"
        message = f"GROUP BY must name the keys of PARTITION BY, {keys}, because each has its own windows of {kind}"
        return bind_error("SS213", message, at, "Name the same columns in PARTITION BY and in GROUP BY.")
    return unsupported.refusal("window apart", span_of(at))


# --- EMIT above windows, and clauses without a window ---------------------------------------------------------


def refuse_clauses(clauses: StreamClauses, context: Context) -> None:
    """Report SS211 for TRIGGER, EVICT and LATE DATA of a SELECT without a window."""
    for name, clause in (("TRIGGER", clauses.trigger), ("EVICT", clauses.evict), ("LATE DATA", clauses.late_data)):
        if clause is not None:
            hint = "Add a window such as TUMBLE to GROUP BY."
            context.wrong("SS211", f"{name} needs a window", clause.span, hint)


def with_emit(emit: Emit | None, node: Node, select: exp.Expr, context: Context) -> Node:
    """Returns the plan of a query with the clause EMIT, which decides when the windows in its subqueries fire. ``node``
    is the plan without EMIT.
    """
    if emit is None:
        return node
    if emit.kind is EmitKind.ON_WINDOW_CLOSE and emit.interval is None:
        return _emitting_on_close(emit, node, context)
    if not any(isinstance(n, WindowAggregate | AssignWindows) for n in node.walk()):
        if emit.kind is not EmitKind.CHANGES:
            context.refuse("emit without window", emit.span)
        return node
    return _emitting(emit, node, select, context)


def _emitting_on_close(emit: Emit, node: Node, context: Context) -> Node:
    """EMIT ON WINDOW CLOSE: windows below emit when they close; without windows, rows wait for the watermark."""
    aggregates = [n for n in node.walk() if isinstance(n, WindowAggregate)]
    if any(n.firing.trigger is not None for n in aggregates):
        context.wrong("SS229", "TRIGGER and EMIT both say when windows fire", emit.span, "Keep one of the two.")
    assigned = any(isinstance(n, AssignWindows) for n in node.walk()) and node.changelog_mode == APPEND_ONLY
    return node if aggregates or assigned else _held_until_watermark(emit, node, context)


def _held_until_watermark(emit: Emit, node: Node, context: Context) -> Node:
    """The final rows, when the watermark has passed their time. Rows of operators that wait for it are final
    already."""
    final = node if node.changelog_mode == APPEND_ONLY else node.append_only_variant()
    if final is not None and all(map(_waits_for_watermark, _row_sources(final))):
        return final
    held = node if final is None else final
    time = next((f.name for f in held.schema if f.time in (TimeDomain.EVENT, TimeDomain.INGESTION)), None)
    if time is None:
        context.refuse("emit on close", emit.span)
        return node
    keys = sorted(held.upsert_keys, key=lambda key: (len(key), sorted(key)))
    return check_changes(TemporalSort(held, time, keys=tuple(sorted(keys[0])) if keys else ()), context, emit.span)


def _row_sources(node: Node) -> Iterator[Node]:
    """The operators with state, and the tables, that the rows come from through operators without state."""
    if node.keeps_state or not node.inputs:
        yield node
    else:
        yield from (source for child in node.inputs for source in _row_sources(child))


def _waits_for_watermark(source: Node) -> bool:
    """Whether the operator emits results when the watermark has passed their time."""
    return isinstance(source, Over | TemporalSort | WindowJoin) and TimeDomain.EVENT in source.awaited_domains


def _emitting(emit: Emit, node: Node, select: exp.Expr, context: Context) -> Node:
    match node:
        case WindowAggregate():
            return _aggregate_emitting(emit, node, select, context)
        case Project() | Filter() | Union():
            return node.with_inputs(tuple(_emitting(emit, child, select, context) for child in node.inputs))
    context.refuse("emit", emit.span)
    return node


def _aggregate_emitting(emit: Emit, node: WindowAggregate, select: exp.Expr, context: Context) -> Node:
    if node.firing.trigger is not None:
        raise bind_error("SS229", "TRIGGER and EMIT both say when windows fire", emit.span, "Keep one of the two.")
    info = node.window_info
    assert info is not None
    timed = node.time is not None or any(isinstance(n, AssignWindows) and n.time for n in node.walk())
    fired = FiringContext(info.window, node.columns, node.domain, timed, Scope(node.input, ()), context, emit.span)
    emitting = bind_firing(StreamClauses(), emit, fired)
    late = replace(node.firing.late, allow_ms=max(node.firing.late.allow_ms, emitting.late.allow_ms))
    firing = replace(node.firing, trigger=emitting.trigger, accumulation=emitting.accumulation, late=late)
    return with_own_windows(replace(node, firing=firing), select)
