"""GROUP BY: its keys, its grouping sets and its window, and the calls that only a grouped SELECT knows.

Ordinals and aliases of the select list are accepted as in Spark: a column of FROM has precedence over an alias.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import prod

from sqlglot import exp

from sqlstream.errors import Span
from sqlstream.grammar.nodes import CountWindow, GlobalWindow, GroupWindow, WindowClause
from sqlstream.grammar.spans import span_of
from sqlstream.grammar.trees import clauses_of
from sqlstream.planner.binder.calls import PANES, SPARK_WINDOWS, WINDOW_PROPERTIES
from sqlstream.planner.binder.context import Context, bind_error, refuse_rest
from sqlstream.planner.binder.expressions import ClauseContext, bind, is_whole_number
from sqlstream.planner.binder.firing import python_call
from sqlstream.planner.binder.scope import Scope
from sqlstream.planner.binder.windows import (
    SIGNATURES,
    Measured,
    WindowInput,
    default_time,
    spark_window,
    time_field,
    window_of_measures,
)
from sqlstream.planner.catalog import FunctionKind
from sqlstream.planner.expressions import as_expression, with_args
from sqlstream.planner.fields import Field, field_name, field_of, shown_name
from sqlstream.planner.functions.calls import spark_name
from sqlstream.planner.windows import GlobalWindow as GlobalWindowNode
from sqlstream.planner.windows import RowMeasured, Session, UserWindow, Window, WindowColumns

TOO_MANY_SETS = "SS289"

_MOST_SETS = 4_096
_UNCOUNTABLE = 10**12

Set = tuple[exp.Expr, ...]

_GROUPED = (exp.Group, exp.GroupingSets, exp.Cube, exp.Rollup, exp.Tuple, exp.Paren)


@dataclass(frozen=True)
class Key:
    """One expression of GROUP BY, as written and as bound. ``wish`` is the preferred name of the field that holds its
    value.
    """

    written: exp.Expr
    bound: exp.Expression
    wish: str


@dataclass(frozen=True)
class GroupedWindow:
    """A window that is written in GROUP BY. ``spark`` is True if it is a call of Spark's window() or session_window().
    ``time`` is the field by which rows are assigned; None if the clock of processing time assigns them.
    """

    window: Window
    time: Field | None
    spark: bool
    span: Span | None


@dataclass(frozen=True)
class Grouping:
    """A bound GROUP BY. ``sets`` lists the positions of the keys of each grouping set, None without grouping sets."""

    keys: tuple[Key, ...]
    sets: tuple[tuple[int, ...], ...] | None
    window: GroupedWindow | None


def bind_grouping(select: exp.Select, scope: Scope, context: Context) -> Grouping:
    """Binds GROUP BY: its keys, grouping sets and window. Mistakes raise BindError SS207 to SS212, SS220, SS223,
    SS289.
    """
    group = select.args.get("group") or exp.Group()
    terms = [*group.expressions]
    for name in ("grouping_sets", "cube", "rollup"):
        # A bare CUBE or ROLLUP is WITH CUBE or WITH ROLLUP, of all keys before it.
        for term in group.args.get(name) or []:
            terms = [term] if term.expressions else [type(term)(expressions=[t.copy() for t in terms])]
    mistakes = len(context.problems)
    refuse_rest(group, ("expressions", "grouping_sets", "cube", "rollup"), context)
    if group.args.get("all") is False:
        context.refuse("syntax", group, "It is DISTINCT of GROUP.")
    if len(context.problems) > mistakes:
        context.stop_if_wrong()
    window, plain = _window(clauses_of(select).window, terms, scope, context)
    _refuse_too_many(plain, group)
    sets = [sum(combination, ()) for combination in product(*(list(_sets(t)) for t in plain))]
    keys: list[Key] = []
    positions = [tuple(_position(e, keys, select, scope, context) for e in keys_of_set) for keys_of_set in sets]
    grouped = any(isinstance(t, (exp.Cube, exp.Rollup, exp.GroupingSets)) for t in plain)
    return Grouping(tuple(keys), tuple(tuple(dict.fromkeys(p)) for p in positions) if grouped else None, window)


def _refuse_too_many(terms: Sequence[exp.Expr], group: exp.Group) -> None:
    """SS289, before the sets are listed: each key of CUBE doubles them, and several terms multiply theirs."""
    number = prod(map(_count, terms))
    if number > _MOST_SETS:
        shown = f"{number:,}" if number < _UNCOUNTABLE else f"over {_UNCOUNTABLE:,}"
        message = f"GROUP BY has {shown} grouping sets, more than {_MOST_SETS:,}"
        raise bind_error(TOO_MANY_SETS, message, group, "List the ones that are needed: GROUPING SETS ((a, b), (a)).")


# --- grouping sets --------------------------------------------------------------------------------------------


def _sets(term: exp.Expr) -> Iterator[Set]:
    """The grouping sets of one term; a plain key has one."""
    match term:
        case exp.GroupingSets():
            for element in term.expressions:
                yield from _sets(element)
        case exp.Cube():
            units = [_unit(e) for e in term.expressions]
            for size in range(len(units), -1, -1):
                yield from (sum(chosen, ()) for chosen in combinations(units, size))
        case exp.Rollup():
            units = [_unit(e) for e in term.expressions]
            for size in range(len(units), -1, -1):
                yield sum(units[:size], ())
        case _:
            yield _unit(term)


def _count(term: exp.Expr) -> int:
    """The number of sets that ``_sets`` yields."""
    match term:
        case exp.GroupingSets():
            return sum(map(_count, term.expressions))
        case exp.Cube():
            return int(2 ** len(term.expressions))
        case exp.Rollup():
            return len(term.expressions) + 1
    return 1


def _unit(element: exp.Expr) -> Set:
    """The keys of one element of a set: ``(a, b)``, ``(a)``, ``()`` or ``a``; further parentheses mean nothing."""
    inner = element.unnest()
    return tuple(inner.expressions) if isinstance(inner, exp.Tuple) else (inner,)


def _position(expression: exp.Expr, keys: list[Key], select: exp.Select, scope: Scope, context: Context) -> int:
    """The position of a key in ``keys``, where it is added if it is new."""
    written = _named(expression, select, scope, context)
    bound = bind(written, scope, context, ClauseContext("GROUP BY"))
    for position, key in enumerate(keys):
        if key.bound == bound:
            return position
    aliases = (e.alias for e in select.expressions if isinstance(e, exp.Alias) and e.this == written)
    keys.append(Key(written, bound, field_name(next(aliases, None) or shown_name(written), written)))
    return len(keys) - 1


def _named(expression: exp.Expr, select: exp.Select, scope: Scope, context: Context) -> exp.Expr:
    """The expression that an ordinal or an alias of the select list stands for."""
    if is_whole_number(expression):
        return _ordinal(expression, select)
    if isinstance(expression, exp.Column) and not expression.table and not scope.find(expression.name):
        return aliased(expression.name, select.expressions) or expression
    return expression


def _ordinal(literal: exp.Expr, select: exp.Select) -> exp.Expr:
    position, columns = int(literal.name), select.expressions
    if not 1 <= position <= len(columns) or columns[position - 1].is_star:
        raise bind_error("SS223", f"GROUP BY {position} is no position of a column in the select list", literal)
    return as_expression(columns[position - 1].unalias())


def with_written_keys(select: exp.Select, scope: Scope) -> exp.Select:
    """Returns a copy of the SELECT in which positions and aliases in GROUP BY are replaced by the expressions of the
    select list.
    """
    group = select.args.get("group")
    if group is None:
        return with_args(select)

    def value(node: exp.Expr) -> exp.Expr:
        alone = isinstance(node.parent, _GROUPED)
        if alone and is_whole_number(node):
            return _ordinal(node, select).copy()
        if isinstance(node, exp.Column) and alone and not node.table and not scope.find(node.name):
            return (aliased(node.name, select.expressions) or node).copy()
        return node

    return with_args(select, group=group.transform(value))


def aliased(name: str, expressions: Sequence[exp.Expr]) -> exp.Expr | None:
    """The first expression of a select list that has the alias ``name``; None if there is none."""
    matching = (e.this for e in expressions if isinstance(e, exp.Alias) and e.alias.casefold() == name.casefold())
    return next(matching, None)


# --- the window -----------------------------------------------------------------------------------------------


def _window(
    clause: WindowClause | None, terms: Sequence[exp.Expr], scope: Scope, context: Context
) -> tuple[GroupedWindow | None, list[exp.Expr]]:
    """The window of GROUP BY, a clause or a function of Spark, and the other terms. SS211 for a second window."""
    calls = [t for t in terms if isinstance(t, exp.Func) and spark_name(t) in SPARK_WINDOWS]
    if len(calls) + (clause is not None) > 1:
        raise bind_error("SS211", "GROUP BY takes one window", calls[-1])
    plain = [t for t in terms if t not in calls]
    if clause is not None:
        return _clause_window(clause, scope, context), plain
    return (bind_spark_window(calls[0], scope, context) if calls else None), plain


def has_timed_window(select: exp.Select) -> bool:
    """Whether GROUP BY has a window of time, as a clause or a function of Spark."""
    group = select.args.get("group")
    terms = group.expressions if group is not None else ()
    spark = any(isinstance(term, exp.Func) and spark_name(term) in SPARK_WINDOWS for term in terms)
    return spark or isinstance(clauses_of(select).window, GroupWindow)


def _clause_window(clause: WindowClause, scope: Scope, context: Context) -> GroupedWindow:
    match clause:
        case GroupWindow():
            kind = clause.kind.value
            time = _time(clause.time, kind, scope, context)
            values = _by_name(kind, clause.measures, clause.span)
            window = window_of_measures(kind, values, clause.span, WindowInput(scope, context))
            return GroupedWindow(window, time, False, clause.span)
        case CountWindow():
            return _count_window(clause, scope, context)
        case GlobalWindow():
            return GroupedWindow(GlobalWindowNode(), default_time(scope), False, clause.span)
    call = python_call(clause.call, FunctionKind.ASSIGNER, scope, context)
    return GroupedWindow(UserWindow(call), default_time(scope), False, clause.span)


def _count_window(clause: CountWindow, scope: Scope, context: Context) -> GroupedWindow:
    values: dict[str, Measured] = {"SIZE": clause.size, "FULL_ONLY": exp.Boolean(this=clause.full_only)}
    if clause.slide is not None:
        values["SLIDE"] = clause.slide
    window = window_of_measures("COUNT_WINDOW", values, clause.span, WindowInput(scope, context))
    time = default_time(scope)
    if time is None and isinstance(window, RowMeasured):
        hint = "Declare a WATERMARK, or a column pt AS PROCTIME(), in CREATE TABLE."
        raise bind_error("SS210", "COUNT WINDOW with a measure in time needs a time attribute", clause.span, hint)
    return GroupedWindow(window, time, False, clause.span)


def _by_name(kind: str, measures: Sequence[Measured], span: Span | None) -> dict[str, Measured]:
    signature = SIGNATURES[kind]
    least, names = len(signature.measures), signature.measures + signature.optional
    if not least <= len(measures) <= len(names):
        hint = f"Write {kind}(ts, {', '.join(n.lower() for n in signature.measures)})."
        raise bind_error("SS220", f"{kind} takes {least} to {len(names)} intervals, not {len(measures)}", span, hint)
    return dict(zip(names, measures, strict=False))


def bind_spark_window(call: exp.Expr, scope: Scope, context: Context) -> GroupedWindow:
    """Binds Spark's ``window(ts, …)`` or ``session_window(ts, gap)`` in GROUP BY."""
    name, arguments = spark_name(call) or "", list(call.expressions)
    most = 2 if name == "session_window" else 4
    if not 2 <= len(arguments) <= most:
        raise bind_error("SS207", f"{name} takes 2 to {most} arguments, not {len(arguments)}", call)
    time = _time(arguments[0], name, scope, context)
    return GroupedWindow(spark_window(name, call, arguments, WindowInput(scope, context)), time, True, span_of(call))


def bind_property_window(kind: str, call: exp.Expr, scope: Scope, context: Context) -> GroupedWindow:
    """Binds the window that a call such as ``TUMBLE_START(ts, size)`` describes by its arguments. The caller compares
    it with the window in GROUP BY, which must be the same.
    """
    arguments = list(call.expressions)
    if not arguments:
        raise bind_error("SS207", f"{call.name.upper()} repeats the arguments of {kind}", call)
    time = _time(arguments[0], kind, scope, context)
    values = _by_name(kind, arguments[1:], span_of(call))
    window = window_of_measures(kind, values, span_of(call), WindowInput(scope, context))
    return GroupedWindow(window, time, False, span_of(call))


def _time(column: exp.Expr, kind: str, scope: Scope, context: Context) -> Field:
    bound = bind(column, scope, context, ClauseContext(kind))
    if isinstance(bound, exp.Null):
        context.stop_if_wrong()
    return time_field(column, bound, scope, kind)


# --- window_start, TUMBLE_START(…), GROUPING(…): columns and calls of groups ----------------------------------


@dataclass(frozen=True)
class GroupNames:
    """Resolves the columns and calls that exist only in a grouped SELECT, outside of aggregates; its methods return
    None for all others.

    ``scope`` is that of the rows before grouping, where time columns are still time attributes.
    """

    scope: Scope
    columns: WindowColumns
    grouped: GroupedWindow | None
    keys: tuple[exp.Expr, ...]
    grouping_id: str | None
    panes: tuple[str, str] | None
    context: Context

    def column(self, column: exp.Column) -> exp.Expr | None:
        """The field to which a window column refers: ``window_start`` and the like, or ``window`` and ``window.start``
        for Spark's window() in GROUP BY. None for all other columns.
        """
        if self.grouped is None:
            return None
        name, table = column.name.lower(), column.table.lower()
        if self.grouped.spark and table in SPARK_WINDOWS and name in ("start", "end"):
            return field_of(self.columns.start if name == "start" else self.columns.end)
        if table:
            return None
        if self.grouped.spark and name == self._spark_name:
            return self._struct()
        by_name = {"window_start": self.columns.start, "window_end": self.columns.end, "window_time": self.columns.time}
        return field_of(by_name[name]) if name in by_name else None

    def call(self, call: exp.Expr) -> exp.Expr | None:
        """The field or expression for TUMBLE_START(…), GROUPING(…) and similar calls; None for others."""
        name = spark_name(call)
        if name in WINDOW_PROPERTIES:
            return self._property(call, name)
        if name in SPARK_WINDOWS and self.grouped is not None:
            self._check_same(call, bind_spark_window(call, self.scope, self.context))
            return self._struct()
        if name == "window_time" and self.grouped is not None and self.grouped.spark:
            return field_of(self.columns.time)
        if name in ("grouping", "grouping_id"):
            return self._grouping(call, name)
        return self._pane(call, name) if name in PANES else None

    def _pane(self, call: exp.Expr, name: str) -> exp.Expr | None:
        """The field of the pane; None where there is no window, so that the call itself is an error."""
        if self.panes is None:
            return None
        if call.expressions:
            raise bind_error("SS207", f"{name} takes no arguments", call)
        return field_of(self.panes[name == "window_pane_index"])

    @property
    def _spark_name(self) -> str:
        assert self.grouped is not None
        return "session_window" if isinstance(self.grouped.window, Session) else "window"

    def _struct(self) -> exp.Expr:
        text = exp.Literal.string
        start, end = field_of(self.columns.start), field_of(self.columns.end)
        return exp.Anonymous(this="named_struct", expressions=[text("start"), start, text("end"), end])

    def _property(self, call: exp.Expr, name: str) -> exp.Expr | None:
        """The bound of the window; None where there is no window clause, so that the call itself is an error."""
        kind, _, property_name = name.partition("_")
        if self.grouped is None:
            return None
        self._check_same(call, bind_property_window(kind.upper(), call, self.scope, self.context))
        columns = self.columns
        return field_of({"start": columns.start, "end": columns.end}.get(property_name, columns.time))

    def _check_same(self, call: exp.Expr, window: GroupedWindow) -> None:
        assert self.grouped is not None
        if (window.window, window.time) != (self.grouped.window, self.grouped.time):
            message = f"{(spark_name(call) or '').upper()} speaks of another window than GROUP BY"
            raise bind_error(
                "SS221", message, call, "Repeat the arguments of GROUP BY, or use window_start and window_end."
            )

    def _grouping(self, call: exp.Expr, name: str) -> exp.Expr:
        """Bits of the grouping id: 1 where a key is not part of the row's grouping set; the last key is bit 0. Without
        grouping sets every key is part of each row's."""
        if not self.keys and self.grouping_id is None:
            raise bind_error("SS221", f"{name.upper()} needs GROUP BY", call, "It says which keys a row has.")
        if name == "grouping_id" and not call.expressions:
            return _no_bits("BIGINT") if self.grouping_id is None else field_of(self.grouping_id)
        if not call.expressions:
            raise bind_error("SS207", "GROUPING takes 1 argument or more, not 0", call)
        bits = [self._bit(argument, name) for argument in call.expressions]
        is_bit = name == "grouping" and len(bits) == 1  # of several keys it is GROUPING_ID, as in Flink
        if self.grouping_id is None:
            return _no_bits("TINYINT" if is_bit else "BIGINT")
        if is_bit:
            return exp.Cast(this=bits[0], to=exp.DataType.build("TINYINT", dialect="spark"))
        if bits == [self._bit_at(i) for i in range(len(self.keys))]:
            return field_of(self.grouping_id)
        total = bits[0]
        for bit in bits[1:]:
            doubled = exp.Mul(this=exp.paren(total, copy=False), expression=exp.Literal.number(2))
            total = exp.Add(this=doubled, expression=bit)
        return exp.Cast(this=total, to=exp.DataType.build("BIGINT", dialect="spark"))

    def _bit(self, argument: exp.Expr, name: str) -> exp.Expr:
        bound = bind(argument, self.scope, self.context, ClauseContext(name.upper()))
        keys = [key.unnest() for key in self.keys]
        if bound.unnest() not in keys:
            raise bind_error("SS208", f"{name.upper()} needs a key of GROUP BY", argument)
        return self._bit_at(keys.index(bound.unnest()))

    def _bit_at(self, position: int) -> exp.Expr:
        if self.grouping_id is None:
            return exp.Literal.number(0)
        shift = len(self.keys) - 1 - position
        shifted = exp.Anonymous(this="shiftright", expressions=[field_of(self.grouping_id), exp.Literal.number(shift)])
        return exp.Mod(this=shifted, expression=exp.Literal.number(2))


def _no_bits(kind: str) -> exp.Expr:
    return exp.Cast(this=exp.Literal.number(0), to=exp.DataType.build(kind, dialect="spark"))
