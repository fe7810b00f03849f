"""Expressions: names become fields, function calls and operands are checked, whatever is no row expression is refused.

Mistakes are reported to the context and replaced by NULL, so that one attempt shows all mistakes of a query.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from sqlstream.errors import SqlStreamError
from sqlstream.functions.builtin import Aggregate, NullTreatment
from sqlstream.functions.catalogue import FUNCTIONS, aggregate_of
from sqlstream.functions.result_types import NESTED_TYPES, incompatible
from sqlstream.grammar.dialect import SqlStream
from sqlstream.grammar.quoting import quote_string
from sqlstream.grammar.spans import is_double_quoted, mark, span_of
from sqlstream.planner import intervals
from sqlstream.planner.binder.calls import aggregate_name, check_aggregate_order, check_call, expanded
from sqlstream.planner.binder.context import Context, bind_error
from sqlstream.planner.binder.respelling import respelled
from sqlstream.planner.binder.scope import Scope
from sqlstream.planner.expressions import as_expression, with_children_changed
from sqlstream.planner.functions.calls import AGGREGATE_WRAPPERS, spark_name
from sqlstream.planner.functions.patterns import misused_escape
from sqlstream.planner.row_values import MEETING, Meeting, differ_in_width, known_kind, meetings
from sqlstream.planner.type_inference import Types, call_arguments, member_type
from sqlstream.types import BOOLEAN, DataType, from_sqlglot

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


@dataclass(frozen=True)
class ClauseContext:
    """Describes the clause to which an expression belongs: its name for messages, and whether ``aggregates`` are
    allowed.

    ``names`` and ``calls`` are tried before the usual resolution, outside of aggregates: ``names`` returns the
    expression for a column, ``calls`` that for a function call. Both return None for what they do not know.
    """

    clause: str
    aggregates: bool = False
    names: Callable[[exp.Column], Answer] = lambda column: None
    calls: Callable[[exp.Expr], Answer] = lambda call: None


def bind(expression: exp.Expr, scope: Scope, context: Context, clause: ClauseContext) -> exp.Expression:
    """Binds an expression: returns a copy in which names are fields of the rows of ``scope``. Mistakes are reported to
    the context. ``clause`` says to which clause it belongs.
    """
    types = types_of(scope, context)
    bound = respelled(_Binder(scope, context, clause).bind(expression), types, context)
    check_operands(bound, types, context)
    return bound


def bind_condition(expression: exp.Expr, scope: Scope, context: Context, clause: ClauseContext) -> exp.Expression:
    """Binds a condition: returns a copy in which names are fields of the rows of ``scope``. Mistakes are reported to
    the context, with SS206 for a type other than BOOLEAN, unless it is unknown. ``clause`` says to which clause the
    condition belongs.
    """
    bound = bind(expression, scope, context, clause)
    kind = types_of(scope, context).of(bound)
    if not (kind.is_unknown or kind == BOOLEAN or kind.name == "VOID"):
        message = f"{clause.clause} needs a condition of type BOOLEAN, not {kind}"
        context.wrong("SS206", message, expression, "Compare the value, as in a > 0.")
    return bound


def types_of(scope: Scope, context: Context) -> Types:
    """Returns the object that computes types of expressions over the scope, calls of users' functions included."""
    return Types(scope.node.schema, context.catalog.function)


def type_in(scope: Scope, context: Context, bound: exp.Expr) -> DataType:
    """The type of a bound expression over ``scope``."""
    return types_of(scope, context).of(bound)


def is_whole_number(value: object) -> bool:
    """True if the expression is a literal integer without a sign."""
    return isinstance(value, exp.Literal) and not value.is_string and value.name.isdigit()


WRITTEN_NAME = "written_name"
"""Metadata of a bound column: what the query calls it, which is another name than its field's where two are alike."""


@dataclass(frozen=True)
class _Binder:
    """``inside`` is the name of the aggregate around the expression, None outside of aggregates."""

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
        if isinstance(node, exp.Limit):
            self.context.refuse("aggregate limit", node)
            return exp.Null()
        if isinstance(node, exp.Order) and not isinstance(node.parent, exp.WithinGroup):
            self.context.refuse("syntax", node, "It is a second ORDER BY of the same aggregate.")
            return exp.Null()
        feature = _refused_feature(node)
        if feature is not None:
            self.context.refuse(feature, node)
            return exp.Null()
        return self._special(node) or self._checked(node)

    def _column(self, node: exp.Column) -> exp.Expr:
        try:
            # Inside an aggregate, a name means a column of the input; elsewhere the clause's own names come first.
            named = self.place.names(node) if self.inside is None else None
            resolved = named if named is not None else self.scope.resolve(node)
        except SqlStreamError as error:
            if self.context.around(node):
                self.context.refuse("correlated subquery", node, f'"{node.name}" is a column of a query around it.')
                return exp.Null()
            return self._wrong(error)
        span = span_of(node)
        if span is not None:
            mark(as_expression(resolved), span.start, span.end)
        resolved.meta[WRITTEN_NAME] = ".".join(part.name for part in node.parts)
        return resolved

    def _names_column(self, name: str) -> bool:
        """Whether an unqualified column of that name would be found."""
        if self.scope.find(name):
            return True
        return self.inside is None and self.place.names(exp.column(name)) is not None

    def _interval(self, node: exp.Interval) -> exp.Expr:
        """Constant intervals in Spark's spelling; others are bound like any expression."""
        if not isinstance(node.this, exp.Literal):
            return self._children(node)
        try:
            return intervals.for_spark(node)
        except intervals.NotAnInterval as error:
            return self._wrong(bind_error("SS212", f"the interval {error.reason}", node, error.hint))

    def _special(self, node: exp.Expr) -> exp.Expr | None:
        """Calls that only the clause knows, such as TUMBLE_START(…) and GROUPING(…)."""
        if self.inside is not None or not isinstance(node, exp.Func):
            return None
        try:
            return self.place.calls(node)
        except SqlStreamError as error:
            return self._wrong(error)

    def _checked(self, node: exp.Expr) -> exp.Expr:
        mistakes = len(self.context.problems)
        check_call(node, self.context)
        # A wrong call is reported once and becomes NULL, so that no further mistakes follow from it.
        wrong = len(self.context.problems) > mistakes
        name = aggregate_name(node, self.context.catalog)
        if name is None or isinstance(node, AGGREGATE_WRAPPERS):
            bound = self._children(node)
        else:
            self._check_aggregate(node, name)
            bound = replace(self, inside=name)._children(node)
        if isinstance(node, exp.WithinGroup):
            check_aggregate_order(node, self.context)
            wrong = wrong or len(self.context.problems) > mistakes
        if name is not None and not isinstance(node.parent, AGGREGATE_WRAPPERS):
            bound = with_null_treatment(bound, self.context)
        elif name is None and self.inside is None and isinstance(node, NULL_TREATMENTS):
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
        return with_children_changed(node, self.bind)

    def _wrong(self, error: SqlStreamError) -> exp.Expr:
        self.context.report(error)
        return exp.Null()


def quoted_name(text: exp.Literal) -> SqlStreamError:
    """Returns the error SS234 for a column name in double quotes: ``"price"`` is a string, as in Spark; in standard SQL
    it would be a column.
    """
    name = text.name
    hint = f"Write `{name.replace('`', '``')}` for the column, or {quote_string(name)} for the text."
    return bind_error("SS234", f'"{name}" in double quotes is a text, and there is a column of that name', text, hint)


def _refused_feature(node: exp.Expr) -> str | None:
    match node:
        case exp.Window():
            return "over here"
        case exp.Query() if isinstance(node.parent, exp.Array):
            return "array subquery"
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


# --- IGNORE NULLS and RESPECT NULLS ---------------------------------------------------------------------------

NULL_TREATMENTS = (exp.IgnoreNulls, exp.RespectNulls)

_TREATMENTS: dict[NullTreatment, type[exp.Expression]] = {
    NullTreatment.IGNORE: exp.IgnoreNulls,
    NullTreatment.RESPECT: exp.RespectNulls,
}
NULL_DEFAULTS: dict[str | None, type[exp.Expression]] = {
    name: _TREATMENTS[function.nulls]
    for name, function in FUNCTIONS.items()
    if isinstance(function, Aggregate) and function.nulls is not None and function.flink
}
"""Flink's defaults, for the names that Flink has. FIRST, LAST and COLLECT_LIST behave as in Spark."""


def with_null_treatment(call: exp.Expr, context: Context) -> exp.Expr:
    """Returns the bound aggregate call with IGNORE NULLS or RESPECT NULLS where Spark expects it. BindError SS207 if
    the function accepts neither.

    Users may write it after the argument or after the parentheses. Where none is written and Flink's default differs
    from Spark's, the default is made explicit.
    """
    treatments = [node for node in call.walk() if isinstance(node, NULL_TREATMENTS)]
    name = spark_name(_plain_call(call))
    aggregate = aggregate_of(name)
    if treatments and (aggregate is None or aggregate.nulls is None):
        context.wrong(
            "SS207", f'aggregate "{name}" takes neither IGNORE NULLS nor RESPECT NULLS', treatments[0], _NULLS_HINT
        )
        return exp.Null()
    if len(treatments) > 1:
        context.wrong("SS207", f'"{name}" is told twice what to do with NULLs', treatments[1], "Remove one of the two.")
        return exp.Null()
    if treatments:
        return type(treatments[0])(this=_without_treatment(call, treatments[0]))
    default = NULL_DEFAULTS.get(name)
    return default(this=call) if default is not None and len(call_arguments(_plain_call(call))) == 1 else call


_NULLS_HINT = "FILTER (WHERE x IS NOT NULL) leaves rows out of any aggregate."


def _plain_call(call: exp.Expr) -> exp.Expr:
    """The call inside FILTER and the other wrappers of aggregates."""
    while isinstance(call, AGGREGATE_WRAPPERS):
        call = call.this
    return call


def _without_treatment(call: exp.Expr, treatment: exp.Expr) -> exp.Expr:
    if call is treatment:
        inner: exp.Expr = treatment.this
        return inner
    treatment.replace(treatment.this)
    return call


# --- types of operands ----------------------------------------------------------------------------------------

_TEXT_AS_TIME = frozenset({"to_timestamp_ltz", "to_timestamp_ntz"})
_NEVER_CALCULATED = (*NESTED_TYPES, "BOOLEAN", "BINARY", "VARIANT")
_WORDS = {exp.And: "AND", exp.Or: "OR", exp.Not: "NOT"}


def check_operands(bound: exp.Expr, types: Types, context: Context) -> None:
    """Report operands whose types certainly do not fit (SS206), and escapes of LIKE that Spark rejects (SS235)."""
    for node in bound.walk():
        for kinds, check in _CHECKS:
            if isinstance(node, kinds):
                check(node, types, context)


def _check_conditions(node: exp.Expr, types: Types, context: Context) -> None:
    match node:
        case exp.And() | exp.Or():
            _check_condition(_WORDS[type(node)], node.left, types, context)
            _check_condition(_WORDS[type(node)], node.right, types, context)
        case exp.Not():
            _check_condition("NOT", node.this, types, context)
        case exp.Is(expression=exp.Boolean()):
            _check_condition("IS", node.this, types, context)
        case exp.Case() if node.this is None:
            for branch in node.args["ifs"]:
                _check_condition("WHEN", branch.this, types, context)
        case exp.Filter(expression=exp.Where(this=condition)):
            _check_condition("FILTER", condition, types, context)


def _check_distinct(node: exp.Distinct, types: Types, context: Context) -> None:
    if not node.expressions:
        context.wrong("SS207", "DISTINCT needs a value", node.parent, "Write COUNT(DISTINCT a).")


def _check_condition(clause: str, operand: exp.Expr, types: Types, context: Context) -> None:
    kind = types.of(operand)
    # Spark reads strings such as 'true' as conditions.
    if kind == BOOLEAN or kind.is_unknown or kind.name in ("VOID", "STRING"):
        return
    message = f"{clause} needs a condition of type BOOLEAN, not {kind}"
    context.wrong("SS206", message, operand, "Compare the value, as in a > 0.")


def _check_type(node: exp.Cast, types: Types, context: Context) -> None:
    target = node.to
    defect = from_sqlglot(target).defect
    if defect is not None:
        context.wrong("SS206", f"type {target.sql(SqlStream)} {defect}", target)


def _check_one_type(node: exp.Expr, types: Types, context: Context) -> None:
    """Values that are compared, or of which one is the result, must have a common type."""
    for meeting in meetings(node, types):
        kinds = [known_kind(value, types) for value in meeting.values]
        unordered = next((kind for kind in kinds if _is_unordered(kind)), None) if meeting.compared else None
        if unordered is not None:
            message = f"values of type {unordered} cannot be compared"
            context.wrong("SS206", message, node, "Compare parts of them, as in m['k'] = 1.")
            return
        pair = _unlike(kinds, meeting)
        if pair is not None:
            at = node if meeting.compared else meeting.values[pair[1]]
            _report_unlike(kinds[pair[0]], kinds[pair[1]], meeting.compared, at, context)
            return


def _unlike(kinds: Sequence[DataType], meeting: Meeting) -> tuple[int, int] | None:
    """The positions of the first two values of a meeting, which have these types, without a common type."""
    first: dict[DataType, int] = {}
    for i, kind in enumerate(kinds):
        first.setdefault(kind, i)
    positions = [*first.values()]  # a list of IN may have thousands of values
    for number, j in enumerate(positions):
        for i in positions[:number] if meeting.each_other else positions[: min(number, 1)]:
            if incompatible(kinds[i], kinds[j], texts=meeting.texts):
                return i, j
    return None


def _is_unordered(kind: DataType) -> bool:
    return any(part.name in ("MAP", "VARIANT") for part in kind.parts())


def _report_unlike(left: DataType, right: DataType, compared: bool, at: exp.Expr, context: Context) -> None:
    if differ_in_width(left, right):
        widths = f"{len(left.args)} and {len(right.args)}"
        what = "cannot be compared" if compared else "have no common type"
        context.wrong("SS206", f"rows of {widths} values {what}", at, "Write as many values in each row.")
    elif compared:
        in_array = right.name == "ARRAY" and isinstance(at, exp.In)
        hint = _IN_ARRAY if in_array else "Convert one of them with CAST."
        context.wrong("SS206", f"values of type {left} and {right} cannot be compared", at, hint)
    else:
        message = f"values of type {left} and {right} have no common type"
        context.wrong("SS206", message, at, "Convert one of them with CAST.")


def _check_like(node: exp.Expr, types: Types, context: Context) -> None:
    misuse = misused_escape(node)
    if misuse is not None:
        where = f'stands before "{misuse.behind}"' if misuse.behind else "stands at the end of the pattern"
        hint = f"It goes before %, _ and itself only: write {misuse.better} where it means itself."
        context.wrong("SS235", f"the escape character of LIKE {where}", misuse.pattern, hint)


def _check_text_as_time(call: exp.Func, types: Types, context: Context) -> None:
    """Flink's TO_TIMESTAMP_LTZ takes numbers, Spark's function of that name takes text."""
    if spark_name(call) not in _TEXT_AS_TIME:
        return
    arguments = call_arguments(call)
    kind = types.of(arguments[0]) if arguments else None
    if kind is not None and kind.is_numeric:
        hint = "Write TO_TIMESTAMP_LTZ(n, 3) for milliseconds since 1970, TO_TIMESTAMP_LTZ(n, 0) for seconds."
        context.wrong("SS206", f"{(spark_name(call) or '').upper()} needs a text, not {kind}", call, hint)


def _check_arithmetic(node: exp.Expr, types: Types, context: Context) -> None:
    operands = [node.this] if isinstance(node, exp.Neg) else [node.this, node.expression]
    kinds = [types.of(operand) for operand in operands]
    wrong = [kind for kind in kinds if kind.name in _NEVER_CALCULATED]
    if wrong:
        context.wrong("SS206", f"a value of type {wrong[0]} is no number", node, "Convert it, as in CAST(x AS INT).")
    elif [kind.name for kind in kinds] == ["STRING", "STRING"]:
        hint = "Write a || b for a text of both, or convert one of them, as in CAST(x AS INT)."
        context.wrong("SS206", "two texts cannot be calculated with", node, hint)
    elif any(kind.is_timestamp for kind in kinds) and any(kind.is_numeric for kind in kinds):
        hint = "Write ts + INTERVAL '1' SECOND."
        context.wrong("SS206", "a timestamp and a number cannot be calculated with", node, hint)


def _check_text(node: exp.Expr, types: Types, context: Context) -> None:
    kind = types.of(node.this)
    if kind.name in NESTED_TYPES:
        context.wrong("SS206", f"a pattern needs a text, not {kind}", node.this)


def _check_container(node: exp.Bracket, types: Types, context: Context) -> None:
    kind = types.of(node.this)
    if not (kind.is_unknown or kind.name in (*NESTED_TYPES, "VARIANT", "VOID")):
        context.wrong("SS206", f"a value of type {kind} has no elements", node, "Brackets read from arrays and maps.")
    key = node.expressions[0] if node.expressions else None
    if kind.name == "STRUCT" and isinstance(key, exp.Literal) and member_type(kind, key.name).is_unknown:
        context.wrong("SS206", f'a value of type {kind} has no field "{key.name}"', key)


_IN_ARRAY = "Write ARRAY_CONTAINS(b, a) to look for a value in an array; otherwise convert one of them with CAST."


def _check_cast(node: exp.Cast, types: Types, context: Context) -> None:
    """An ARRAY, MAP or STRUCT is cast from its own kind only; any type casts to STRING."""
    source, target = types.of(node.this), from_sqlglot(node.to)
    nested = [kind for kind in (source, target) if kind.name in NESTED_TYPES]
    free = source.is_unknown or target.is_unknown or {"VOID", "VARIANT"} & {source.name, target.name}
    if nested and not free and source.name != target.name and target.name != "STRING":
        context.wrong("SS206", f"a value of type {source} cannot be converted to {target}", node)
    elif target.name == "VOID":
        context.wrong("SS206", "nothing can be converted to VOID", node, "Write NULL.")


_CHECKS: tuple[tuple[Any, Callable[..., None]], ...] = (
    ((exp.And, exp.Or, exp.Not, exp.Is, exp.Case, exp.Filter), _check_conditions),
    (exp.Cast, _check_type),
    (exp.Cast, _check_cast),
    (exp.Distinct, _check_distinct),
    (MEETING, _check_one_type),
    ((exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg), _check_arithmetic),
    ((exp.Like, exp.ILike, exp.RegexpLike), _check_text),
    (exp.Bracket, _check_container),
    (exp.Func, _check_text_as_time),
    ((exp.Func, exp.Like, exp.ILike), _check_like),
)
"""The checks by class of expression. An expression may have several."""
