"""OVER: functions over frames of rows, in the order of a time attribute or in any other order.

Calls with the same partition and order become one node; others are nodes above it. The select list reads the results
as fields. In the order of a time attribute a row is emitted once, when the watermark passes it. In any other order, and
with frames that have no end, rows are emitted at once and updated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream.errors import Span
from sqlstream.grammar.spans import span_of
from sqlstream.planner import unsupported
from sqlstream.planner.binder.calls import aggregate_name, check_aggregate_types
from sqlstream.planner.binder.changelogs import check_changes
from sqlstream.planner.binder.context import Context, bind_error
from sqlstream.planner.binder.expressions import (
    ClauseContext,
    bind,
    bind_condition,
    is_whole_number,
    types_of,
)
from sqlstream.planner.binder.flink_functions import COLLECTING, array_call, leaves_out_the_row, may_lack_rows
from sqlstream.planner.binder.ordering import Ranked, check_order, filter_rank, sorted_by, window_closing
from sqlstream.planner.binder.over_functions import (
    POSITIONAL,
    check_positional,
    name_of,
    needs_all_rows,
    needs_event_time,
    not_over,
    number_argument,
    require_few,
    with_treatment,
    without_treatment,
)
from sqlstream.planner.binder.scope import Scope, Selected, Visible, with_processing_time
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.expressions import as_expression, conjunction, conjuncts, folded, has_subquery, rewritten
from sqlstream.planner.fields import Item, UniqueNames
from sqlstream.planner.functions.calls import spark_name
from sqlstream.planner.functions.spelling import filled
from sqlstream.planner.intervals import interval_ms
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Filter, extended
from sqlstream.planner.operators.over import (
    NTH,
    NUMBERS,
    PLACES,
    Closing,
    Over,
    OverCall,
    Sorted,
    UpdatingOver,
    WindowOver,
)
from sqlstream.planner.operators.top_n import INT
from sqlstream.planner.type_inference import call_arguments
from sqlstream.udfs.over.frames import Frame

_DEFAULT = Frame(rows=False, start=None)
_PLACE = ClauseContext("OVER")


@dataclass(frozen=True)
class _Order:
    """The partition and the order of a call: the time attribute ``time`` and then ``ties``, or ``ties`` alone if
    ``time`` is None."""

    keys: tuple[str, ...]
    time: str | None
    domain: TimeDomain | None
    ties: tuple[Sorted, ...]


def with_overs(
    select: exp.Select, columns: list[Selected], scope: Scope, context: Context
) -> tuple[Scope, list[Selected], list[exp.Expr]]:
    """Binds the OVER calls of a select list and of QUALIFY.

    Returns three things: the scope with a column for each call, filtered by QUALIFY; the select list over that scope;
    and the conditions of QUALIFY with subqueries, which the caller must apply.
    """
    qualify = select.args.get("qualify")
    written = [*(c.expression for c in columns if c.bound is None), *([qualify.this] if qualify is not None else [])]
    calls = [window for expression in written for window in _windows(expression)]
    used = {call.args["alias"].name.casefold() for call in calls if call.args.get("alias")}
    for defined in select.args.get("windows") or ():
        if defined.name.casefold() not in used:
            context.wrong("SS239", f'window "{defined.name}" is not used', defined, "Remove it from WINDOW.")
    if not calls:
        if qualify is not None:
            hint = "Use WHERE, or HAVING for conditions on aggregates."
            context.wrong("SS239", "QUALIFY needs a function with OVER, in it or in the select list", qualify, hint)
        return scope, columns, []
    binding = _Binding(select, scope, context, {w.name.casefold(): w for w in select.args.get("windows") or ()})
    replaced = [c if c.bound is not None else replace(c, expression=binding.replaced(c.expression)) for c in columns]
    if qualify is None:
        return binding.result(), replaced, []
    conditions = conjuncts(binding.replaced(_without_aliases(qualify.this, columns, scope)))
    above = binding.result()
    plain = [condition for condition in conditions if not has_subquery(condition)]
    if plain:
        filtered = Filter(above.node, bind_condition(conjunction(plain), above, context, ClauseContext("QUALIFY")))
        above = above.over(filter_rank(filtered, context, qualify))
    return above, replaced, [condition for condition in conditions if has_subquery(condition)]


def _windows(expression: exp.Expr) -> list[exp.Window]:
    """The OVER calls of an expression, without those of its subqueries."""
    nodes = expression.dfs(prune=lambda node: isinstance(node, exp.Query | exp.Window))
    return [node for node in nodes if isinstance(node, exp.Window)]


def _without_aliases(condition: exp.Expr, columns: Sequence[Selected], scope: Scope) -> exp.Expr:
    """A copy with aliases of the select list replaced by their expressions. Columns of FROM have precedence."""
    named = {name.casefold(): c.expression for c in columns for name in c.aliases}

    def value(node: exp.Expr) -> exp.Expr:
        alias = isinstance(node, exp.Column) and not node.table and node.name.casefold() in named
        return named[node.name.casefold()].copy() if alias and not scope.find(node.name) else node

    return condition.copy().transform(value)


@dataclass(frozen=True)
class _Numbered:
    """A call of ROW_NUMBER, RANK or DENSE_RANK whose result is the field ``name``. ``order`` is set if it is an order
    of time; ``at`` and ``written`` are for messages."""

    keys: tuple[str, ...]
    columns: tuple[Sorted, ...]
    function: str
    name: str
    order: _Order | None
    at: Span | None
    written: exp.Expr


class _Binding:
    """Collects the OVER calls of one SELECT; ``result`` is the scope with their results."""

    def __init__(self, select: exp.Select, scope: Scope, context: Context, named: dict[str, exp.Expr]) -> None:
        self._select = select
        self._scope = scope
        self._context = context
        self._named = named
        self._names = UniqueNames(f.name for f in scope.node.schema)
        self._computed: dict[exp.Expression, Item] = {}
        self._calls: dict[_Order, dict[OverCall, str]] = {}
        self._fields: list[str] = []
        self._numbers: list[_Numbered] = []

    def replaced(self, expression: exp.Expr) -> exp.Expr:
        """A copy of the expression that reads the results of its OVER calls as columns."""

        def value(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Window):
                return node
            name = aggregate_name(node.this, self._context.catalog)
            listed = name in COLLECTING or (array_call(node) is not None and self._may_lack_rows(node))
            return self._collected(node) if listed else exp.column(self._field(node))

        return expression.copy().transform(value)

    def result(self) -> Scope:
        """The scope with the operators of all calls, and their results as columns."""
        node: Node = extended(self._scope.node, self._computed.values()) if self._computed else self._scope.node
        alone = self._boundable_numbers()
        # OVER that gives final rows needs final rows, so it is below OVER that updates its results.
        for order, calls in sorted(self._calls.items(), key=self._changes):
            node = check_changes(self._over(node, order, tuple(calls)), self._context, self._select)
        for number in alone:
            check_order(number.columns, node, number.written)
            node = Ranked(node, number.keys, number.columns, number.function, number.name, self._ttl_ms(), number.at)
        visible = tuple(Visible(name, name, starred=False) for name in self._fields)
        return self._scope.with_columns(node, visible)

    def _changes(self, item: tuple[_Order, Mapping[OverCall, str]]) -> bool:
        """Whether the operator of the calls with one order updates its results."""
        order, calls = item
        return order.time is None and _closing(self._scope.node, order, calls) is None

    def _over(self, node: Node, order: _Order, calls: tuple[OverCall, ...]) -> Node:
        """The operator of the calls with one order."""
        if order.time is None:
            closes = _closing(node, order, calls)
            if closes is not None:
                return WindowOver(node, order.keys, order.ties, calls, closes)
            return UpdatingOver(node, order.keys, order.ties, calls, self._ttl_ms())
        assert order.domain is not None
        return Over(node, order.keys, order.time, calls, order.domain, order.ties)

    def _ttl_ms(self) -> int:
        """The time to live of the rows; a STATE_TTL hint does not apply to rows of several tables."""
        tables = self._scope.tables
        return self._context.ttl_of(tables[0]) if len(tables) == 1 else self._context.settings.state_ttl_ms

    def _boundable_numbers(self) -> list[_Numbered]:
        """The row numbers that a condition above may bound: the only calls of their order. Others become OVER calls."""
        homes = [self._final_order(number) or number.order for number in self._numbers]
        orders = Counter(homes)
        alone = []
        for number, order in zip(self._numbers, homes, strict=True):
            if order is None or (orders[order] == 1 and order not in self._calls):
                alone.append(number)
            else:
                item = Item(number.name, exp.Anonymous(this=number.function, expressions=[]), INT, False)
                self._calls.setdefault(order, {})[OverCall(item, None)] = number.name
        return alone

    def _final_order(self, number: _Numbered) -> _Order | None:
        """The order of calls that are final when a window closes, where the number has the same partition and order."""
        order = _Order(number.keys, None, None, number.columns)
        calls = self._calls.get(order)
        return order if calls and _closing(self._scope.node, order, calls) is not None else None

    # --- calls --------------------------------------------------------------------------------------------------

    def _field(self, window: exp.Window) -> str:
        """The field with the result of an OVER call."""
        called = spark_name(window.this)
        if called in NUMBERS and not call_arguments(window.this):
            return self._ranked(window, called)
        order, frame = self._order_and_frame(window, without_treatment(window.this)[0])
        name = self._names.unique("over")
        self._fields.append(name)
        call = self._call(window.this, name, frame, order.domain, window)
        calls = self._calls.setdefault(order, {})
        calls[call] = name
        return name

    def _collected(self, window: exp.Window) -> exp.Expr:
        """JSON_ARRAYAGG and its kin: what they compute of the values that other aggregates list."""
        order, frame = self._order_and_frame(window, without_treatment(window.this)[0])
        bound = bind(window.this, self._scope, self._context, ClauseContext("OVER", aggregates=True))
        types = types_of(self._scope, self._context)
        lists: dict[exp.Expr, str] = {}

        def listed(node: exp.Expr) -> exp.Expr:
            if aggregate_name(node, self._context.catalog) is None:
                return node
            if node not in lists:
                name = lists[node] = self._names.unique("over")
                self._fields.append(name)
                item = Item(name, as_expression(node), types.of(node), types.nullable(node))
                self._calls.setdefault(order, {})[OverCall(item, frame or _DEFAULT)] = name
            return exp.column(lists[node])

        value = rewritten(bound, listed)
        if not self._leaves_out_the_row(window):
            return value
        return filled("CASE WHEN SIZE(p1) > 0 THEN p2 END", exp.column(next(iter(lists.values()))), value)

    def _may_lack_rows(self, window: exp.Window) -> bool:
        return may_lack_rows(window) or self._leaves_out_the_row(window)

    def _leaves_out_the_row(self, window: exp.Window) -> bool:
        frame = self._spec(window).args.get("spec")
        return frame is not None and leaves_out_the_row(frame)

    def _ranked(self, window: exp.Window, called: str) -> str:
        """The field of a row number, which a condition above may bound. Equal calls share one field."""
        spec = self._spec(window)
        order = spec.args.get("order")
        if order is None:
            raise unsupported.refusal("over", span_of(spec), "It has no ORDER BY.")
        if spec.args.get("spec") is not None:
            raise bind_error("SS239", f"{called.upper()} takes no frame", window, "Leave ROWS or RANGE out.")
        keys = tuple(self._computed_field(key) for key in spec.args.get("partition_by") or ())
        columns = tuple(self._sorted(ordered) for ordered in order.expressions)
        self._context.stop_if_wrong()
        field = self._scope.fields.get(columns[0].name)  # none yet where the column is computed
        time = field.time if field is not None else None
        if columns[0].descending or time is None:
            in_time = None
        elif time is TimeDomain.PROCESSING and len(columns) > 1:
            raise _one_by_one(order.expressions[1])
        else:
            in_time = _Order(keys, columns[0].name, time, columns[1:])
        at = None if self._context.views else span_of(order.expressions[0]) or span_of(spec)
        for numbered in self._numbers:
            if (numbered.keys, numbered.columns, numbered.function) == (keys, columns, called):
                return numbered.name
        name = self._names.unique("over")
        self._fields.append(name)
        self._numbers.append(_Numbered(keys, columns, called, name, in_time, at, order))
        return name

    def _call(
        self, call: exp.Expr, name: str, frame: Frame | None, domain: TimeDomain | None, window: exp.Window
    ) -> OverCall:
        if aggregate_name(call, self._context.catalog) is not None:
            bound = bind(call, self._scope, self._context, ClauseContext("OVER", aggregates=True))
            check_aggregate_types(bound, self._scope.node.schema, self._context)
            frame = frame or _DEFAULT
        else:
            plain, treatment = without_treatment(call)
            called = name_of(plain)
            if called not in POSITIONAL:
                raise not_over(call, called)
            bound = with_treatment(self._positional(plain, called, self._spec(window), domain), treatment, call)
            frame = (frame or _DEFAULT) if called == NTH else None
        types = types_of(self._scope, self._context)
        return OverCall(Item(name, bound, types.of(bound), types.nullable(bound)), frame)

    def _positional(self, call: exp.Expr, called: str, spec: exp.Expr, domain: TimeDomain | None) -> exp.Expression:
        """A call that is no aggregate, with bound arguments. SS239, SS245."""
        arguments = [bind(a, self._scope, self._context, _PLACE) for a in call_arguments(call)]
        number = number_argument(called)
        arguments[number : number + 1] = map(folded, arguments[number : number + 1])
        check_positional(call, called, arguments, spec, domain)
        return exp.Anonymous(this=called, expressions=arguments)

    # --- partition, order and frame -----------------------------------------------------------------------------

    def _order_and_frame(self, window: exp.Window, call: exp.Expr) -> tuple[_Order, Frame | None]:
        """The order and the frame of a ``call``, which is without what it says of NULLs."""
        spec = self._spec(window)
        needs_all = spark_name(call) in PLACES
        keys = tuple(self._computed_field(key) for key in spec.args.get("partition_by") or ())
        order = spec.args.get("order")
        ordered = list(order.expressions) if order is not None else []
        columns = tuple(self._sorted(o) for o in ordered)
        self._context.stop_if_wrong()
        frame = spec.args.get("spec")
        first = self._scope.fields.get(columns[0].name) if columns else None  # none yet where the column is computed
        domain = first.time if first is not None else None
        if domain is TimeDomain.PROCESSING:
            if columns[0].descending:
                raise unsupported.refusal("over", span_of(ordered[0]))
            if len(columns) > 1:
                raise _one_by_one(ordered[1])
            if needs_all or _is_endless(frame):
                what = (spark_name(call) or "").upper() if needs_all else "UNBOUNDED FOLLOWING"
                raise needs_all_rows(what, call)
        elif domain is None or columns[0].descending or _is_endless(frame) or needs_all:
            return self._in_any_order(keys, columns, ordered, frame)
        bounds = _frame(frame, _milliseconds, domain) if frame is not None else None
        if bounds is not None and columns[1:] and not bounds.rows and (bounds.start or bounds.end):
            raise bind_error("SS239", "RANGE with an interval needs one column in ORDER BY", frame or window)
        return _Order(keys, columns[0].name, domain, columns[1:]), bounds

    def _in_any_order(
        self, keys: tuple[str, ...], columns: tuple[Sorted, ...], ordered: list[exp.Expr], frame: exp.Expr | None
    ) -> tuple[_Order, Frame | None]:
        """The order and frame of an operator that has all rows of a key: its frame may have no end, and RANGE measures
        distances between the values of ORDER BY."""
        if ordered:
            check_order(columns, extended(self._scope.node, self._computed.values()), ordered[0])
        order = _Order(keys, None, None, columns)
        if frame is None:
            return order, Frame(rows=False, start=None, end=0 if ordered else None)
        types = {f.name: f.type.name for f in extended(self._scope.node, self._computed.values()).schema}
        kind = types[columns[0].name] if columns else ""
        bounds = _frame(frame, _milliseconds if kind in _TIMES else _distance)
        if not bounds.rows and (bounds.start or bounds.end) and (len(columns) != 1 or kind not in _MEASURED):
            hint = "Write ORDER BY with one column that is a whole number, a FLOAT, a DOUBLE, a DATE or a TIMESTAMP."
            raise bind_error("SS239", "RANGE with a distance needs one number or time in ORDER BY", frame, hint)
        if bounds.rows and not columns:
            raise bind_error("SS239", "ROWS needs an order", frame, "Write ORDER BY into the parentheses of OVER.")
        return order, bounds

    def _spec(self, window: exp.Window) -> exp.Expr:
        """The specification of a window: the parentheses after OVER, or those of WINDOW w AS (…)."""
        name = window.args.get("alias")
        if name is None:
            return window
        definition = self._named.get(name.name.casefold())
        own = any(window.args.get(clause) for clause in ("partition_by", "order", "spec"))
        if definition is None or own:
            message = (
                f'window "{name.name}" is not defined' if definition is None else f'window "{name.name}" is changed'
            )
            raise bind_error("SS239", message, name, f"Write WINDOW {name.name} AS (PARTITION BY … ORDER BY …).")
        return definition

    def _sorted(self, ordered: exp.Expr) -> Sorted:
        """A column of ORDER BY, which may be PROCTIME()."""
        self._scope, (marked,) = with_processing_time([Selected("time", ordered.this)], self._scope)
        if marked.bound is None:
            return sorted_by(ordered, self._computed_field(ordered.this))
        return Sorted(marked.bound.name, bool(ordered.args.get("desc")))

    def _computed_field(self, expression: exp.Expr) -> str:
        """The field of an expression, which is computed below if it is not a field already."""
        bound = bind(expression, self._scope, self._context, _PLACE)
        if isinstance(bound, exp.Column):
            return bound.name
        if bound not in self._computed:
            types = types_of(self._scope, self._context)
            name = self._names.unique("key")
            self._computed[bound] = Item(name, bound, types.of(bound), types.nullable(bound))
        return self._computed[bound].name


def _closing(node: Node, order: _Order, calls: Iterable[OverCall]) -> Closing | None:
    """When calls of PLACES, and those beside them, are final: where the partition is a window of event time. All other
    calls update their results in windows, too."""
    of_all = any(call.positional is not None and call.positional.name in PLACES for call in calls)
    return window_closing(node, order.keys) if of_all else None


def _one_by_one(further: exp.Expr) -> Exception:
    hint = "Rows come out one by one, as they arrive: leave the other columns out."
    return bind_error("SS239", "an order of processing time has no further columns", further, hint)


_TIMES = ("TIMESTAMP", "TIMESTAMP_NTZ", "DATE")
_MEASURED = (*_TIMES, "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE")
"""Types whose values RANGE can measure distances between."""


def _is_endless(frame: exp.Expr | None) -> bool:
    """Whether a frame ends with UNBOUNDED FOLLOWING, so that no watermark completes it."""
    return (
        frame is not None
        and str(frame.args.get("end")).upper() == "UNBOUNDED"
        and str(frame.args.get("end_side")).upper() == "FOLLOWING"
    )


def _frame(spec: exp.Expr, distance: Callable[[exp.Expr], int], domain: TimeDomain | None = None) -> Frame:
    """The bounds of a frame; ``distance`` reads those of RANGE."""
    kind = str(spec.args.get("kind")).upper()
    if kind not in ("ROWS", "RANGE"):
        raise unsupported.refusal("over frame", span_of(spec))
    measure = _rows if kind == "ROWS" else distance
    start = _offset(spec.args.get("start"), spec.args.get("start_side"), measure)
    end = _offset(spec.args.get("end"), spec.args.get("end_side"), measure)
    starts_late = start is None and str(spec.args.get("start_side")).upper() == "FOLLOWING"
    ends_early = end is None and not _is_endless(spec)
    if starts_late or ends_early or (start is not None and end is not None and start > end):
        raise bind_error(
            "SS239", "the frame ends before it begins", spec, "Write BETWEEN the earlier AND the later bound."
        )
    if end and end > 0 and domain is TimeDomain.PROCESSING:
        raise needs_event_time("FOLLOWING", spec)
    return Frame(kind == "ROWS", start, end)


def _offset(value: object, side: object, measure: Callable[[exp.Expr], int]) -> int | None:
    """An offset from the current row, negative for PRECEDING; None for UNBOUNDED."""
    if isinstance(value, str):
        return 0 if value.upper() == "CURRENT ROW" else None
    assert isinstance(value, exp.Expr)
    distance = measure(value)
    if distance < 0:
        raise bind_error("SS239", "a frame's distance must not be negative", value)
    return -distance if str(side).upper() == "PRECEDING" else distance


def _rows(value: exp.Expr) -> int:
    if not is_whole_number(value):
        raise bind_error("SS239", "ROWS needs a whole number, written as such", value)
    require_few(value, "a number of ROWS")
    return int(value.name)


def _distance(value: exp.Expr) -> int:
    """A distance between values of ORDER BY that are numbers."""
    if not is_whole_number(value):
        raise bind_error("SS239", "RANGE over numbers needs a whole number, written as such", value)
    require_few(value, "the distance of RANGE")
    return int(value.name)


def _milliseconds(value: exp.Expr) -> int:
    return interval_ms(value, "the distance of RANGE", span_of(value))
