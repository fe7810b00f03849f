"""Expressions: names to fields, functions checked, everything that is no row expression refused.

Mistakes are reported to the context and replaced by NULL, so that all of one query show at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream.errors import SqlStreamError
from sqlstream.grammar.quoting import quote_string
from sqlstream.grammar.spans import is_double_quoted, mark, span_of
from sqlstream.planner import intervals
from sqlstream.planner.binder.calls import aggregate_name, check_call
from sqlstream.planner.binder.context import Context, bind_error
from sqlstream.planner.binder.nulls import TREATMENTS, with_null_treatment
from sqlstream.planner.binder.operands import check_operands
from sqlstream.planner.binder.respelling import respelled
from sqlstream.planner.binder.scope import Scope
from sqlstream.planner.binder.sql_functions import expanded
from sqlstream.planner.functions.calls import AGGREGATE_WRAPPERS
from sqlstream.planner.rewriting import node_of, over_children
from sqlstream.planner.type_inference import Types
from sqlstream.types import BOOLEAN, DataType

Answer = exp.Expr | None


_OF_THE_ROW = "It sees one row. Fire by EVERY n ROWS, or filter the results of all firings in HAVING."
_AGGREGATE_HINTS = {
    "WHERE": "Use HAVING for conditions on aggregates.",
    "WHEN": _OF_THE_ROW,
    "DELTA": _OF_THE_ROW,
    "START_WHEN": "It sees one row.",
    "END_WHEN": "It sees one row.",
    "SESSION": "The gap is that of one row.",
}
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)


def _unknown(_: exp.Expr) -> Answer:
    return None


@dataclass(frozen=True)
class ClauseContext:
    """Where an expression stands, for messages: ``clause`` such as "WHERE"; ``aggregates`` allowed or not.

    Outside of aggregates ``names`` may answer for a column before the scope does, and ``calls`` for a function.
    """

    clause: str
    aggregates: bool = False
    names: Callable[[exp.Column], Answer] = _unknown
    calls: Callable[[exp.Expr], Answer] = _unknown


def bind(expression: exp.Expr, scope: Scope, context: Context, clause: ClauseContext) -> exp.Expression:
    """A copy over the fields of ``scope``."""
    types = types_of(scope, context)
    bound = respelled(_Binder(scope, context, clause).bind(expression), types, context)
    check_operands(bound, types, context)
    return bound


def bind_condition(expression: exp.Expr, scope: Scope, context: Context, clause: ClauseContext) -> exp.Expression:
    """A bound expression that is BOOLEAN, or of unknown type. SS206."""
    bound = bind(expression, scope, context, clause)
    kind = types_of(scope, context).of(bound)
    if not (kind.is_unknown or kind == BOOLEAN or kind.name == "VOID"):
        message = f"{clause.clause} needs a condition of type BOOLEAN, not {kind}"
        context.wrong("SS206", message, expression, "Compare the value, as in a > 0.")
    return bound


def types_of(scope: Scope, context: Context) -> Types:
    return Types(scope.node.schema, context.catalog.function)


def type_in(scope: Scope, context: Context, bound: exp.Expr) -> DataType:
    return types_of(scope, context).of(bound)


@dataclass(frozen=True)
class _Binder:
    """``inside`` is the name of the aggregate around the expression."""

    scope: Scope
    context: Context
    place: ClauseContext
    inside: str | None = None

    def bind(self, node: exp.Expr) -> exp.Expr:
        match node:
            case exp.Column(this=exp.Star()):
                return self._wrong(bind_error("SS207", "* is not allowed here", node))
            case exp.Column():
                return self._column(node)
            case exp.Anonymous() if (made := expanded(node, self.context)) is not None:
                return self.bind(made)
            case exp.Interval():
                return self._interval(node)
            case exp.Literal() if is_double_quoted(node) and self._names_column(node.name):
                return self._wrong(quoted_name(node))
        if isinstance(node, exp.Order | exp.Limit) and not isinstance(node.parent, exp.WithinGroup):
            self.context.refuse("syntax", node, "It is ORDER BY or LIMIT among the arguments of a function.")
            return exp.Null()
        feature = _refused_feature(node)
        if feature is not None:
            self.context.refuse(feature, node)
            return exp.Null()
        return self._special(node) or self._checked(node)

    def _column(self, node: exp.Column) -> exp.Expr:
        try:
            # Inside an aggregate a name means the input's column, elsewhere a name of the select list goes first.
            named = self.place.names(node) if self.inside is None else None
            resolved = named if named is not None else self.scope.resolve(node)
        except SqlStreamError as error:
            if self.context.around(node):
                self.context.refuse("correlated subquery", node, f'"{node.name}" is a column of a query around it.')
                return exp.Null()
            return self._wrong(error)
        span = span_of(node)
        if span is not None:
            mark(node_of(resolved), span.start, span.end)
        return resolved

    def _names_column(self, name: str) -> bool:
        """True where an unqualified column of that name would be found."""
        if self.scope.find(name):
            return True
        return self.inside is None and self.place.names(exp.column(name)) is not None

    def _interval(self, node: exp.Interval) -> exp.Expr:
        """Constant intervals in seconds where Spark does not know the spelling; others stay as they are."""
        if not isinstance(node.this, exp.Literal):
            return self._children(node)
        try:
            return intervals.for_spark(node)
        except intervals.NotAnInterval as error:
            return self._wrong(bind_error("SS212", f"the interval {error.reason}", node, error.hint))

    def _special(self, node: exp.Expr) -> exp.Expr | None:
        """What only this place knows: TUMBLE_START(…), GROUPING(…)."""
        if self.inside is not None or not isinstance(node, exp.Func):
            return None
        try:
            return self.place.calls(node)
        except SqlStreamError as error:
            return self._wrong(error)

    def _checked(self, node: exp.Expr) -> exp.Expr:
        mistakes = len(self.context.problems)
        check_call(node, self.context)
        # A wrong call is wrong once: nothing is concluded from it.
        wrong = len(self.context.problems) > mistakes
        name = aggregate_name(node, self.context.catalog)
        if name is None or isinstance(node, AGGREGATE_WRAPPERS):
            bound = self._children(node)
        else:
            self._check_aggregate(node, name)
            bound = replace(self, inside=name)._children(node)
        if name is not None and not isinstance(node.parent, AGGREGATE_WRAPPERS):
            bound = with_null_treatment(bound, self.context)
        elif name is None and self.inside is None and isinstance(node, TREATMENTS):
            message = "IGNORE NULLS and RESPECT NULLS stand behind aggregates only"
            self.context.wrong("SS207", message, node, "Remove it.")
        return exp.Null() if wrong else bound

    def _check_aggregate(self, node: exp.Expr, name: str) -> None:
        if self.inside is not None:
            message = f'aggregate "{name}" stands inside aggregate "{self.inside}"'
            self.context.wrong("SS209", message, node, "Compute the inner aggregate in a subquery in FROM.")
        elif not self.place.aggregates:
            hint = _AGGREGATE_HINTS.get(self.place.clause)
            self.context.wrong("SS209", f'aggregate "{name}" is not allowed in {self.place.clause}', node, hint)

    def _children(self, node: exp.Expr) -> exp.Expr:
        return over_children(node, self.bind)

    def _wrong(self, error: SqlStreamError) -> exp.Expr:
        self.context.report(error)
        return exp.Null()


def quoted_name(text: exp.Literal) -> SqlStreamError:
    """``"price"`` is a text, as in Spark; in PostgreSQL and standard SQL it is the column."""
    name = text.name
    hint = f"Write `{name.replace('`', '``')}` for the column, or {quote_string(name)} for the text."
    return bind_error("SS234", f'"{name}" in double quotes is a text, and there is a column of that name', text, hint)


def _refused_feature(node: exp.Expr) -> str | None:
    match node:
        case exp.Window():
            return "over here"
        case exp.Query() | exp.Values() | exp.Exists(this=exp.Query()):
            return "subquery"
        case exp.In() if node.args.get("query"):
            return "subquery"
        case exp.Kwarg():
            return "named arguments"
        case exp.Any() | exp.All() if isinstance(node.parent, _COMPARISONS):
            return "quantified"
        case exp.Anonymous() if node.name.upper() == "ALL":
            return "quantified"
        case exp.Placeholder():
            return "parameter"
    return None
