"""Rewrites standard SQL and Flink's SQL into forms of Spark that the rest of the binder has; what has none is refused.

``without_quantifiers`` works on a SELECT as it is written, ``respelled`` on bound expressions, whose types are known.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce

from sqlglot import exp

from sqlstream.functions.builtin import BuiltinKind, Origin
from sqlstream.functions.catalogue import FUNCTIONS
from sqlstream.functions.result_types import NESTED_TYPES
from sqlstream.grammar.calls import OF_A_PATH, JsonCall, PathInto, member
from sqlstream.grammar.nodes import StreamClauses
from sqlstream.grammar.spans import mark_as
from sqlstream.grammar.trees import RoundedTime, clauses_of
from sqlstream.planner import intervals
from sqlstream.planner.aggregate_order import order_inside, with_order_behind
from sqlstream.planner.binder.context import Context
from sqlstream.planner.binder.scope import COMPARED_VALUES
from sqlstream.planner.expressions import (
    as_expression,
    own_expressions,
    parenthesized,
    rewritten,
    with_args,
    with_children_changed,
)
from sqlstream.planner.functions.calls import spark_name
from sqlstream.planner.functions.spelling import called, filled, nests, path_of, text
from sqlstream.planner.row_values import COMPARED, MEETING, field_by_field, row_values, with_equal_rows
from sqlstream.planner.type_inference import Types, cast
from sqlstream.types import DataType

# --- comparisons with ANY, SOME and ALL, and SINGLE_VALUE -----------------------------------------------------

_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
_OF_ROWS = (*COMPARED, exp.In, exp.Between)


def without_quantifiers(select: exp.Select) -> exp.Select:
    """Returns the SELECT with some operators rewritten: comparisons with ANY, SOME and ALL, row comparisons,
    SINGLE_VALUE, and ORDER BY in aggregates.

    A comparison of rows becomes comparisons of their fields. A comparison with a list becomes comparisons joined by OR
    or AND. A comparison with a subquery becomes IN or NOT IN, or a comparison with its least or greatest value. A
    comparison with an array is refused later (SS355), as in Flink and Spark.
    """
    if not any(_is_spelled_out(node) for node in own_expressions(select)):
        return select
    plain = with_children_changed(select, lambda child: rewritten(child, _spelled_out_below))
    assert isinstance(plain, exp.Select)
    return plain


def all_spelled_out(expression: exp.Expr) -> exp.Expr:
    """Returns a copy of the expression in which comparisons with ANY, SOME or ALL, row comparisons, SINGLE_VALUE and
    aggregates with ORDER BY are rewritten, at every depth.
    """
    return rewritten(expression, _spelled_out_below)


def spelled_out(node: exp.Expr) -> exp.Expr:
    """The rewritten form of a comparison with ANY, SOME or ALL, or of rows, of SINGLE_VALUE, or of an aggregate with
    ORDER BY.

    Any other expression is unchanged.
    """
    if _is_single_value(node):
        single = filled(_SINGLE, *node.expressions)
        mark_as(single, node)
        return single
    if isinstance(node, _OF_ROWS) and (compared := field_by_field(node)) is not None:
        mark_as(compared, node)
        return compared
    if isinstance(node, exp.In) and (by_columns := _by_columns(node)) is not None:
        mark_as(by_columns, node)
        return by_columns
    if isinstance(node, exp.In) and (by_values := _row_before(node)) is not None:
        mark_as(by_values, node)
        return by_values
    if isinstance(node, exp.Func) and order_inside(node) is not None:
        return with_order_behind(node)
    if not isinstance(node, _COMPARISONS) or (quantifier := _quantifier(node)) is None:
        return node
    is_all, values = quantifier
    plain = (
        _compared_with_subquery(node, values[0], is_all)
        if _is_query(values[0])
        else _compared_with_list(node, values, is_all)
    )
    if plain is not node:
        mark_as(plain, node)
    return plain


def _row_before(node: exp.In) -> exp.Expr | None:
    """``ROW(a, b) IN (SELECT x, y …)`` as ``(a, b) IN (SELECT x, y …)``; None for any other IN."""
    row, query = row_values(node.this), node.args.get("query")
    first = query
    while isinstance(first, exp.Subquery | exp.SetOperation):
        first = first.this
    if row is None or query is None or isinstance(node.this.unnest(), exp.Tuple) or not isinstance(first, exp.Select):
        return None
    if len(first.expressions) != len(row) or first.is_star:
        return None
    return exp.In(this=exp.Tuple(expressions=[value.copy() for value in row]), query=query.copy())


def _is_spelled_out(node: exp.Expr) -> bool:
    if isinstance(node, _OF_ROWS) and row_values(node.this) is not None:
        return True
    if isinstance(node, exp.In) and (_by_columns(node) is not None or _row_before(node) is not None):
        return True
    if isinstance(node, exp.Func) and order_inside(node) is not None:
        return True
    return (isinstance(node, _COMPARISONS) and _quantifier(node) is not None) or _is_single_value(node)


def _by_columns(node: exp.In) -> exp.Expr | None:
    """``(a, b) IN (SELECT ROW(x, y) …)`` with a subquery of columns; None for any other IN."""
    row, query = row_values(node.this), node.args.get("query")
    select = query.this if isinstance(query, exp.Subquery) else query
    if (
        row is None
        or query is None
        or not isinstance(select, exp.Select)
        or len(select.expressions) != 1
        or select.args.get("order")
    ):
        return None
    fields = row_values(select.expressions[0].unalias(), len(row))
    if fields is None:
        return None
    columns = [exp.alias_(field.copy(), f"col{i}") for i, field in enumerate(fields, 1)]

    rows = query.copy()
    plain = rows.this if isinstance(rows, exp.Subquery) else rows
    plain.set("expressions", columns)
    return exp.In(this=exp.Tuple(expressions=[value.copy() for value in row]), query=rows)


def _is_single_value(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.upper() == "SINGLE_VALUE" and len(node.expressions) == 1


_SINGLE = "CASE WHEN COUNT(*) > 1 THEN RAISE_ERROR('SINGLE_VALUE got more than one row') ELSE ANY_VALUE(p1) END"


def _spelled_out_below(node: exp.Expr) -> exp.Expr:
    plain = spelled_out(node)
    return node if plain is node else with_children_changed(plain, lambda child: rewritten(child, _spelled_out_below))


def _quantifier(node: exp.Expr) -> tuple[bool, list[exp.Expr]] | None:
    """Whether all comparisons must hold, and the values or the query; None without ANY, SOME or ALL on the right
    side."""
    match node.expression:
        case exp.Any(this=inner) | exp.All(this=inner):
            if isinstance(inner, exp.Tuple):
                return isinstance(node.expression, exp.All), list(inner.expressions)
            return (isinstance(node.expression, exp.All), [inner]) if _is_query(inner) else None
        case exp.Anonymous(expressions=[first, *others]) as call if call.name.upper() in ("ALL", "SOME"):
            return (call.name.upper() == "ALL", [first, *others]) if others or _is_query(first) else None
    return None


def _is_query(value: exp.Expr) -> bool:
    return isinstance(value, exp.Query | exp.Values)


def _compared_with_subquery(node: exp.Expr, query: exp.Expr, is_all: bool) -> exp.Expr:
    if not (isinstance(node, exp.NEQ) if is_all else isinstance(node, exp.EQ)):
        row = row_values(node.this)
        if row is not None:
            return _rows_compared(node, len(row), query, is_all)
        return _compared_with_extremes(node, query, is_all)
    inner = query.copy()
    values = inner.this if isinstance(inner, exp.Subquery) else inner
    if isinstance(values, exp.Values):
        membership = exp.In(this=node.this.copy(), expressions=[values])
    else:
        membership = exp.In(
            this=node.this.copy(), query=inner if isinstance(inner, exp.Subquery) else exp.Subquery(this=inner)
        )
    mark_as(membership, node)
    return exp.Not(this=membership) if is_all else membership


def _compared_with_extremes(node: exp.Expr, query: exp.Expr, is_all: bool) -> exp.Expr:
    """A comparison with all or any rows of a subquery, as one with its MIN or MAX: all values are less than x if the
    greatest is. Without rows ALL is TRUE and ANY is FALSE; a NULL among the rows makes the result NULL unless the other
    rows decide it."""
    select = _plain_select(query)

    def aggregate(call: str) -> exp.Expr:
        if select is None:
            source = exp.From(this=_compared_source(query, ["v"]))
            return exp.Subquery(this=exp.Select(expressions=[filled(call, exp.column("v"))], from_=source))
        value = as_expression(select.expressions[0].unalias())
        return exp.Subquery(this=with_args(select, expressions=[filled(call, value)], distinct=None, order=None))

    def compared(kind: type[exp.Expr], extreme: str) -> exp.Expr:
        return kind(this=parenthesized(as_expression(node.this.copy())), expression=aggregate(extreme))

    if isinstance(node, (exp.EQ, exp.NEQ)):
        plain = exp.And(this=compared(exp.EQ, "MIN(p1)"), expression=compared(exp.EQ, "MAX(p1)"))
        answer = filled(
            _HOLDS_FOR_ALL, aggregate("COUNT(*)"), exp.Paren(this=plain), aggregate("COUNT(p1)"), aggregate("COUNT(*)")
        )
        return (
            exp.Paren(this=exp.Not(this=exp.Paren(this=answer)))
            if isinstance(node, exp.NEQ)
            else exp.Paren(this=answer)
        )
    greatest = isinstance(node, (exp.GT, exp.GTE)) == is_all
    over_one: exp.Expr = compared(type(node), "MAX(p1)" if greatest else "MIN(p1)")
    template = _HOLDS_FOR_ALL if is_all else _HOLDS_FOR_ANY
    answer = filled(
        template, aggregate("COUNT(*)"), exp.Paren(this=over_one), aggregate("COUNT(p1)"), aggregate("COUNT(*)")
    )
    return exp.Paren(this=answer)


_OF_ONE_ROW = (exp.Cast, exp.Case, exp.If, exp.Coalesce, exp.Connector)


def _plain_select(query: exp.Expr) -> exp.Select | None:
    """The SELECT of one value of each row of its FROM, which may read the query around it; None for any other query,
    whose rows an aggregate reads from FROM.
    """
    select = query.this if isinstance(query, exp.Subquery) and not query.args.get("with_") else query
    if not isinstance(select, exp.Select) or len(select.expressions) != 1 or not select.args.get("from_"):
        return None
    if any(select.args.get(key) for key in ("with_", "group", "having", "qualify", "windows", "limit", "offset")):
        return None
    distinct, (value,) = select.args.get("distinct"), select.expressions
    if (distinct is not None and distinct.args.get("on")) or clauses_of(select) != StreamClauses():
        return None
    is_of_row = not any(
        isinstance(node, exp.Star | exp.Query | exp.Window)
        or (isinstance(node, exp.Func) and not isinstance(node, _OF_ONE_ROW))
        for node in value.walk()
    )
    return select if is_of_row else None


def _compared_source(query: exp.Expr, columns: list[str]) -> exp.Subquery:
    """The subquery in FROM, with such names of its columns."""
    inner = query.this if isinstance(query, exp.Subquery) else query
    named = exp.TableAlias(this=exp.to_identifier("q"), columns=[*map(exp.to_identifier, columns)])
    mark_as(named, query)
    named.meta[COMPARED_VALUES] = len(columns)
    return exp.Subquery(this=inner.copy(), alias=named)


def _rows_compared(node: exp.Expr, width: int, query: exp.Expr, is_all: bool) -> exp.Expr:
    """A comparison of a row of values with all or any rows of a subquery: whether there is a row for which it is false,
    or true, and if not, one for which it is unknown. Rows have no least and greatest one where fields are NULL.
    """
    names = [f"__value_{i}" for i in range(width)]
    columns = exp.Tuple(expressions=[exp.column(name, table="q") for name in names])

    def some(is_so: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
        compared = exp.Paren(this=type(node)(this=node.this.copy(), expression=columns.copy()))
        where = exp.Where(this=is_so(compared))
        source = exp.From(this=_compared_source(query, names))
        return exp.Exists(this=exp.Select(expressions=[exp.Literal.number(1)], from_=source, where=where))

    decides = some(lambda compared: exp.Not(this=compared) if is_all else compared)
    unknown = some(lambda compared: exp.Is(this=compared, expression=exp.Null()))
    decided, otherwise = (exp.false(), exp.true()) if is_all else (exp.true(), exp.false())
    return exp.Paren(this=exp.Case().when(decides, decided).when(unknown, exp.Null()).else_(otherwise))


_HOLDS_FOR_ALL = "p1 = 0 OR (p2 AND CASE WHEN p3 = p4 THEN TRUE END)"
_HOLDS_FOR_ANY = "p1 > 0 AND (p2 OR CASE WHEN p3 = p4 THEN FALSE END)"


def _compared_with_list(node: exp.Expr, values: list[exp.Expr], is_all: bool) -> exp.Expr:
    joined = exp.And if is_all else exp.Or
    comparisons: list[exp.Expr] = [type(node)(this=node.this.copy(), expression=value.copy()) for value in values]
    return exp.Paren(this=reduce(lambda a, b: joined(this=a, expression=b), comparisons))


# --- bound expressions ----------------------------------------------------------------------------------------

Respell = Callable[[exp.Expr], exp.Expr]

FLINK_KINDS = (
    exp.Anonymous, exp.Bracket, exp.Dot, exp.Filter, exp.Window, exp.WithinGroup, JsonCall, PathInto, RoundedTime,
)  # fmt: skip
_INTEGRAL = ("TINYINT", "SMALLINT", "INT", "BIGINT")


_EXTRACTING = frozenset({"extract", "date_part", "datepart"})
_RESPELLED = (exp.SimilarTo, exp.Overlaps, exp.Extract, exp.Interval, exp.Cast, exp.Tuple, *FLINK_KINDS)


def respelled(bound: exp.Expr, types: Types, context: Context) -> exp.Expression:
    """Returns the bound expression in Spark SQL: Flink's functions and operators are replaced. What Spark cannot
    express is reported to the context.
    """
    nested = any(field.type.name in NESTED_TYPES for field in types.fields.values())
    if bound.find(*_RESPELLED, *(MEETING if nested else (exp.Array,))) is None:
        return as_expression(bound)

    def again(node: exp.Expr) -> exp.Expr:
        return _respelled(node, types, context, again)

    return as_expression(rewritten(bound, again))


def _respelled(node: exp.Expr, types: Types, context: Context, again: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    flinks = flink_function(node, types, context, lambda child: rewritten(child, again))
    if flinks is not None:
        return flinks
    if isinstance(node, MEETING) and (alike := _of_rows(node, types, again)) is not node:
        return alike
    match node:
        case exp.Escape(this=exp.SimilarTo() as similar):
            return _similar(similar, node.expression, context)
        case exp.SimilarTo() if not isinstance(node.parent, exp.Escape):
            return _similar(node, None, context)
        case exp.Overlaps():
            return _overlapping(node, types, context, again)
        case exp.Interval(this=exp.Expr() as value) if not isinstance(value, exp.Literal):
            return _multiplied(node)
        case exp.Extract() | exp.Anonymous():
            return _extracted(node, types, context)
        case exp.Cast():
            return cut_to(node, node.to)
    return node


def _of_rows(node: exp.Expr, types: Types, again: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """A comparison with a row that is written as such becomes comparisons of its fields; other rows get one type."""
    if isinstance(node, _OF_ROWS) and any(row_values(value) is not None for value in node.iter_expressions()):
        compared = field_by_field(node, lambda row: _fields_of(row, types))
        if compared is not None:
            return rewritten(compared, again)
    equal = with_equal_rows(node, types)
    return node if equal is node else with_children_changed(equal, lambda child: rewritten(child, again))


def _fields_of(row: exp.Expr, types: Types) -> list[exp.Expr] | None:
    """The fields of a row that is compared with one that is written as such; of a column by their names."""
    written = row_values(row)
    if written is not None or (kind := types.of(row)).name != "STRUCT":
        return written
    names = [name for name, _ in kind.fields()]
    if len({name.casefold() for name in names}) < len(names):  # then no field of the row can be read by its name
        names = [f"col{i}" for i in range(1, len(names) + 1)]
        fields = tuple((name, field) for name, (_, field) in zip(names, kind.fields(), strict=True))
        row = cast(as_expression(row.copy()), DataType("STRUCT", fields))
    return [exp.Dot(this=row.copy(), expression=exp.to_identifier(name, quoted=True)) for name in names]


# --- types with a length --------------------------------------------------------------------------------------

_TEXTS = (exp.DType.CHAR, exp.DType.VARCHAR, exp.DType.NCHAR, exp.DType.NVARCHAR)
_BYTES = (exp.DType.BINARY, exp.DType.VARBINARY)
SIZED = (*_TEXTS, *_BYTES)
"""Types that may have a length."""
_FILLED = (exp.DType.CHAR, exp.DType.NCHAR, exp.DType.BINARY)


def cut_to(value: exp.Expr, kind: exp.DataType) -> exp.Expr:
    """Returns the expression that cuts a text or bytes to the length of the type, and pads it if the type has a fixed
    length, as CAST does.
    """
    if kind.this not in SIZED or not kind.expressions:
        return value
    length = exp.Literal.number(kind.expressions[0].name)
    plain = exp.DataType.build("BINARY" if kind.this in _BYTES else "STRING", dialect="spark")
    whole: exp.Expr = value.copy()
    if isinstance(whole, exp.Cast):
        whole.set("to", plain)
    if kind.this in _FILLED:
        fill = [exp.Literal.string(" ")] if kind.this in _TEXTS else []
        return exp.Anonymous(this="RPAD", expressions=[whole, length, *fill])
    return exp.Anonymous(this="SUBSTRING", expressions=[whole, exp.Literal.number(1), length])


# --- SIMILAR TO -----------------------------------------------------------------------------------------------

_REGEX_SPECIALS = frozenset("|*+?{}()")


def _similar(node: exp.SimilarTo, escape: exp.Expr | None, context: Context) -> exp.Expr:
    pattern, mark = node.expression, escape.name if escape is not None else ""
    constant = isinstance(pattern, exp.Literal) and pattern.is_string
    if not constant or len(mark) > 1:
        context.refuse("similar to", node)
        return exp.Null()
    return exp.RegexpLike(this=node.this, expression=exp.Literal.string(similar_as_regex(pattern.name, mark)))


def similar_as_regex(pattern: str, escape: str = "") -> str:
    """Converts a pattern of SIMILAR TO into a regular expression of Java that must match the whole text. ``escape`` is
    the escape character, empty for none.
    """
    regex, position = "", 0
    while position < len(pattern):
        char = pattern[position]
        if char == escape and position + 1 < len(pattern):
            position += 1
            regex += _literally(pattern[position])
        elif char == "[" and "]" in pattern[position + 2 :]:
            end = pattern.index("]", position + 2)
            regex += f"[{_inside_brackets(pattern[position + 1 : end])}]"
            position = end
        else:
            regex += {"%": ".*", "_": "."}.get(char) or (char if char in _REGEX_SPECIALS else _literally(char))
        position += 1
    return rf"(?s)\A(?:{regex})\z"


def _literally(char: str) -> str:
    return char if char.isalnum() or not char.isascii() else f"\\{char}"


def _inside_brackets(chars: str) -> str:
    return "".join(f"\\{c}" if c in "\\[&" else c for c in chars)


# --- OVERLAPS -------------------------------------------------------------------------------------------------


def _overlapping(node: exp.Overlaps, types: Types, context: Context, again: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """OVERLAPS as in Flink, where periods include both ends: each begins no later than the other one ends. A period is
    two times in any order, or a time and an interval."""
    ends = []
    for period in (node.this.unnest(), node.expression.unnest()):
        if not isinstance(period, exp.Tuple) or len(period.expressions) != 2:
            context.wrong("SS207", "OVERLAPS compares two periods", node, "Write (a, b) OVERLAPS (c, d).")
            return exp.Null()
        first, second = (rewritten(end, again) for end in period.expressions)
        if isinstance(second, exp.Interval) or types.of(second).name == "INTERVAL":
            second = exp.Paren(this=exp.Add(this=first.copy(), expression=second.copy()))
        in_order = exp.LTE(this=first.copy(), expression=second.copy())
        ends.append(
            [
                exp.If(this=in_order.copy(), true=one.copy(), false=other.copy())
                for one, other in ((first, second), (second, first))
            ]
        )
    (start, end), (other_start, other_end) = ends
    reached = exp.GTE(this=end, expression=other_start)
    return exp.Paren(this=exp.And(this=reached, expression=exp.GTE(this=other_end, expression=start)))


# --- INTERVAL and EXTRACT -------------------------------------------------------------------------------------

_DATE_FIELDS = frozenset({
    "YEAR", "Y", "YEARS", "YR", "YRS", "YEAROFWEEK", "QUARTER", "QTR", "MONTH", "MON", "MONS", "MONTHS", "WEEK", "W",
    "WEEKS", "DAY", "D", "DAYS", "DAYOFWEEK", "DOW", "DAYOFWEEK_ISO", "DOW_ISO", "DOY", "HOUR", "H", "HOURS", "HR",
    "HRS", "MINUTE", "M", "MIN", "MINS", "MINUTES", "SECOND", "S", "SEC", "SECONDS", "SECS",
})  # fmt: skip
_INTERVAL_FIELDS = frozenset({
    "DAY", "D", "DAYS", "HOUR", "H", "HOURS", "HR", "HRS", "MINUTE", "M", "MIN", "MINS", "MINUTES", "SECOND", "S",
    "SEC", "SECONDS", "SECS",
})  # fmt: skip
_OTHER_NAMES = {"ISODOW": "DAYOFWEEK_ISO", "ISOYEAR": "YEAROFWEEK", "DAYOFYEAR": "DOY"}
_YEARS = {"DECADE": 10, "CENTURY": 100, "MILLENNIUM": 1000}
_SECONDS_OF_A_DAY = 86_400


def _multiplied(interval: exp.Interval) -> exp.Expr:
    """``INTERVAL n DAY``, where n is an expression, as ``n * INTERVAL '1' DAY``."""
    unit = interval.args.get("unit")
    value = interval.this
    negated = isinstance(value, exp.Neg) and isinstance(value.this, exp.Literal)
    if negated or not isinstance(unit, exp.Var):
        return interval
    unit_interval = intervals.for_spark(exp.Interval(this=exp.Literal.string("1"), unit=unit.copy()))
    return exp.Paren(this=exp.Mul(this=value.copy(), expression=unit_interval))


def _extracted(node: exp.Expr, types: Types, context: Context) -> exp.Expr:
    field_and_source = _field_and_source(node)
    if field_and_source is None:
        return node
    field, source = field_and_source
    kind = types.of(source)
    if field == "EPOCH":
        return _epoch(node, source, kind, context)
    if kind.name == "INTERVAL" or field in _DATE_FIELDS:
        if kind.name == "INTERVAL" and field not in _INTERVAL_FIELDS:
            context.refuse("extract", node, f"{field} is no field of an interval of days and seconds.")
        return node
    if field in _OTHER_NAMES:
        return exp.Anonymous(this="DATE_PART", expressions=[exp.Literal.string(_OTHER_NAMES[field]), source.copy()])
    if field in _YEARS:
        return _period_of_years(field, source)
    context.refuse("extract", node, f"{field} is no field that Spark extracts.")
    return exp.Null()


def _field_and_source(node: exp.Expr) -> tuple[str, exp.Expr] | None:
    if isinstance(node, exp.Extract):
        return node.this.name.upper(), node.expression
    arguments = node.expressions if spark_name(node) in _EXTRACTING else []
    if len(arguments) == 2 and isinstance(arguments[0], exp.Literal) and arguments[0].is_string:
        return arguments[0].name.upper(), arguments[1]
    return None


def _epoch(node: exp.Expr, source: exp.Expr, kind: DataType, context: Context) -> exp.Expr:
    if kind.name == "DATE":
        days = exp.Anonymous(this="UNIX_DATE", expressions=[source.copy()])
        whole = exp.cast(days, exp.DataType.build("BIGINT"))
        return exp.Paren(this=exp.Mul(this=whole, expression=exp.Literal.number(_SECONDS_OF_A_DAY)))
    if kind.name == "TIMESTAMP":
        return exp.Anonymous(this="UNIX_SECONDS", expressions=[source.copy()])
    context.refuse("extract", node, "EPOCH is extracted from a TIMESTAMP or a DATE.")
    return exp.Null()


def _period_of_years(field: str, source: exp.Expr) -> exp.Expr:
    """The number of a decade, century or millennium: century 21 begins with 2001, decade 202 with 2020."""
    length = _YEARS[field]
    year: exp.Expr = exp.Anonymous(this="YEAR", expressions=[source.copy()])
    if field != "DECADE":
        year = exp.Paren(this=exp.Add(this=year, expression=exp.Literal.number(length - 1)))
    return exp.Paren(this=exp.IntDiv(this=year, expression=exp.Literal.number(length)))


# --- Flink's functions ----------------------------------------------------------------------------------------

COLLECTING = frozenset(
    name
    for name, function in FUNCTIONS.items()
    if function.origin is Origin.FLINK and function.kind is BuiltinKind.AGGREGATE
)
"""Aggregates of Flink's that are computed from the list of a group's values."""
_DATE_BEGINS = {"DAY": "p1", "WEEK": "TRUNC(p1, 'WEEK')", "MONTH": "TRUNC(p1, 'MONTH')",
             "QUARTER": "TRUNC(p1, 'QUARTER')", "YEAR": "TRUNC(p1, 'YEAR')"}  # fmt: skip
_LONG_UNITS = {"DECADE": (10, 0), "CENTURY": (100, 1), "MILLENNIUM": (1000, 1)}
_LENGTHS = {
    "WEEK": "INTERVAL '7' DAY", "QUARTER": "INTERVAL '3' MONTH", "DECADE": "INTERVAL '10' YEAR",
    "CENTURY": "INTERVAL '100' YEAR", "MILLENNIUM": "INTERVAL '1000' YEAR",
    "MILLISECOND": "INTERVAL '0.001' SECOND", "MICROSECOND": "INTERVAL '0.000001' SECOND",
}  # fmt: skip


def flink_function(node: exp.Expr, types: Types, context: Context, again: Respell) -> exp.Expr | None:
    """Returns the Spark expression for a bound call of one of Flink's functions, or for an operator whose meaning
    depends on the types of its operands. None for all other expressions.

    ``again`` is called to rewrite the operands in the same way. BindError SS206, SS207, SS366 for wrong arguments.
    """
    match node:
        case RoundedTime():
            return _rounded(again(node.this), node.args["name"], node.args["unit"], types.of(node.this))
        case PathInto() if types.of(node.this).name == "STRING":
            return called("GET_JSON_OBJECT", again(node.this), text(node.args["expression"]))
        case exp.Bracket() if types.of(node.this).name == "VARIANT" and len(node.expressions) == 1:
            return _of_variant(node, again(node.this), node.expressions[0])
        case exp.Dot() if types.of(node.this).name == "VARIANT":
            return called("VARIANT_GET", again(node.this), text("$" + member(node.expression.name)), text("variant"))
        case exp.Window() | exp.Filter() | exp.WithinGroup() if (call := _collecting_call(node)) is not None:
            filtered = partial(_wrapped, node, call, again)
            return _collecting_aggregate(call, types, again, filtered, _lacks_rows(node, context))
        case exp.Expr() if _lacks_rows(node, context) and (call := array_call(node)) is not None:
            return filled(_OF_ROWS_ONLY, _wrapped(node, call, again, with_children_changed(call, again)))
        case exp.Anonymous() | JsonCall():
            return _flink_call(node, node.name.lower(), types, context, again)
    return None


def _flink_call(node: exp.Expr, name: str, types: Types, context: Context, again: Respell) -> exp.Expr | None:
    operands = node.expressions
    if context.catalog.function(name) is not None and isinstance(node, exp.Anonymous):
        return None
    if name.upper() in OF_A_PATH:
        _check_path(node, name, context)
    elif name in COLLECTING:
        return _collecting_aggregate(node, types, again, lambda collected: collected, _lacks_rows(node, context))
    elif name == "to_timestamp_ltz" and operands:
        return _instant([again(o) for o in operands], types.of(operands[0]))
    elif name == "truncate" and (kind := types.of(operands[0])).is_numeric and kind.name != "DECIMAL":
        return exp.cast(called("TRUNCATE", *map(again, operands)), kind.to_sqlglot())
    elif name == "split_index" and len(operands) == 3 and types.of(operands[1]).name in _INTEGRAL:
        text_, code, index = map(again, operands)
        return called("SPLIT_INDEX", text_, called("CHR", code), index)
    elif name in ("parse_json", "try_parse_json") and len(operands) == 2 and operands[1] != exp.false():
        context.refuse("duplicate keys", node)
    return None


# --- rounded and converted times ------------------------------------------------------------------------------


def _rounded(time: exp.Expr, name: str, unit: str, kind: DataType) -> exp.Expr:
    """FLOOR and CEIL of a time. CEIL is the begin of the unit after that of the previous microsecond."""
    length = _LENGTHS.get(unit, f"INTERVAL '1' {unit}")
    if kind.name == "DATE" and unit in _DATE_BEGINS:
        if name == "FLOOR":
            return filled(_DATE_BEGINS[unit], time)
        if unit == "DAY":
            return time
        return filled(f"CAST({_DATE_BEGINS[unit].replace('p1', 'DATE_SUB(p1, 1)')} + {length} AS DATE)", time)
    if name == "FLOOR":
        return filled(_begin_template(unit), time)
    before = filled("p1 - INTERVAL '0.000001' SECOND", time)
    return filled(f"p1 + {length}", filled(_begin_template(unit), before))


def _begin_template(unit: str) -> str:
    """The template for the begin of a unit. The 21st century begins with 2001, decade 203 with 2030."""
    if unit not in _LONG_UNITS:
        return f"DATE_TRUNC('{unit}', p1)"
    years, first = _LONG_UNITS[unit]
    return f"MAKE_TIMESTAMP(CAST((YEAR(p1) - {first}) DIV {years} * {years} + {first} AS INT), 1, 1, 0, 0, 0)"


def _instant(operands: list[exp.Expr], kind: DataType) -> exp.Expr | None:
    """TO_TIMESTAMP_LTZ of a number of milliseconds or seconds; texts are Spark's to convert."""
    precision = operands[1] if len(operands) == 2 else None
    counted = isinstance(precision, exp.Literal) and not precision.is_string
    if not (counted or (kind.is_numeric and len(operands) == 1)):
        return called("TO_TIMESTAMP_LTZ", *operands)
    if precision is None or precision.name == "3":
        whole = operands[0] if kind.name in _INTEGRAL else exp.cast(operands[0], exp.DataType.build("BIGINT"))
        return called("TIMESTAMP_MILLIS", whole)
    if precision.name == "0":
        return called("TIMESTAMP_SECONDS", operands[0])
    return called("TO_TIMESTAMP_LTZ", *operands)


# --- JSON and VARIANT -----------------------------------------------------------------------------------------


def _of_variant(node: exp.Bracket, document: exp.Expr, key: exp.Expr) -> exp.Expr | None:
    if not isinstance(key, exp.Literal):
        return None
    step = member(key.name) if key.is_string else f"[{key.name}]"
    return called("VARIANT_GET", document, text("$" + step), text("variant"))


def _check_path(node: exp.Expr, name: str, context: Context) -> None:
    upper = name.upper()
    if len(node.expressions) != 2:
        return  # the number of arguments is wrong, which is said already
    path = path_of(node)
    if path is None:
        written = node.expressions[1]
        constant = isinstance(written, exp.Literal) and written.is_string
        detail = f'The path is "{written.name}".' if constant else "The path is no constant text."
        context.refuse("json path", written if constant else node, detail)
    elif path.many and name == "json_value":
        hint = "Write JSON_QUERY for all of them, or a number in place of *."
        context.wrong("SS207", f"{upper} gives one value, and a path with [*] leads to many", node, hint)


# --- aggregates over collected rows ---------------------------------------------------------------------------


_OF_ROWS_ONLY = "CASE WHEN SIZE(p1) > 0 THEN p1 END"
_AROUND = (exp.Window, exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)


def may_lack_rows(node: exp.Expr) -> bool:
    """True if an aggregate may be computed over no rows although its group or partition has rows: FILTER and IGNORE
    NULLS may leave none, and a frame of OVER may exclude its own row. An ARRAY_AGG over no rows is NULL, as in Flink
    and standard SQL, but Spark would return an empty array.
    """
    while isinstance(node, _AROUND):
        frame = _frame_of(node) if isinstance(node, exp.Window) else None
        if isinstance(node, exp.Filter | exp.IgnoreNulls) or (frame is not None and leaves_out_the_row(frame)):
            return True
        node = node.this
    return isinstance(node, exp.Func) and isinstance(node.args.get("this"), exp.IgnoreNulls)


def _lacks_rows(node: exp.Expr, context: Context) -> bool:
    return may_lack_rows(node) or (context.settings.finished and not isinstance(node, exp.Window))


def _frame_of(window: exp.Window) -> exp.Expr | None:
    """The frame of OVER, which may stand in WINDOW w AS (…)."""
    name, select = window.args.get("alias"), window.find_ancestor(exp.Select)
    if name is None or select is None:
        return window.args.get("spec")
    named = (w for w in select.args.get("windows") or () if w.name.casefold() == name.name.casefold())
    definition = next(named, None)
    return definition.args.get("spec") if definition is not None else None


def leaves_out_the_row(frame: exp.Expr) -> bool:
    """True if a frame of OVER ends before its own row or begins after it, so that it may be empty."""
    return frame.args.get("end_side") == "PRECEDING" or frame.args.get("start_side") == "FOLLOWING"


def array_call(node: exp.Expr) -> exp.Expr | None:
    """The call of Flink's ARRAY_AGG in an expression such as ``ARRAY_AGG(x) FILTER (WHERE …) OVER (…)``, without
    FILTER, OVER and IGNORE NULLS around it. None for other aggregates, also for COLLECT_LIST, whose result over no rows
    is an empty list instead of NULL.
    """
    while isinstance(node, _AROUND):
        node = node.this
    return node if isinstance(node, exp.Anonymous) and node.name.lower() == "array_agg" else None


def _collecting_call(node: exp.Expr) -> exp.Expr | None:
    """The call of one of COLLECTING inside OVER, FILTER and WITHIN GROUP."""
    while isinstance(node, exp.Window | exp.Filter | exp.WithinGroup):
        node = node.this
    is_collecting = isinstance(node, exp.Anonymous | JsonCall) and node.name.lower() in COLLECTING
    return node if is_collecting else None


def _wrapped(node: exp.Expr, call: exp.Expr, again: Respell, collected: exp.Expr) -> exp.Expr:
    """What stands around the ``call`` in ``node``, around the collected values."""
    if node is call:
        return collected
    return with_children_changed(
        node, lambda child: _wrapped(child, call, again, collected) if child is node.this else again(child)
    )


def _collecting_aggregate(
    call: exp.Expr, types: Types, again: Respell, filtered: Respell, lacks_rows: bool = False
) -> exp.Expr:
    """COLLECT, JSON_ARRAYAGG and JSON_OBJECTAGG over the values of rows collected in order of arrival. ``lacks_rows``:
    there may be none, which gives NULL."""
    name, operands = call.name.lower(), [again(o) for o in call.expressions]
    on_null = call.args.get("on_null")

    def collected(value: exp.Expr) -> exp.Expr:
        values = filtered(exp.ArrayAgg(this=value, nulls_excluded=True))
        return filled(_OF_ROWS_ONLY, values) if lacks_rows else values

    if name == "collect":
        return _multiset(collected(operands[0]), types.of(call.expressions[0]))
    if name == "json_arrayagg":
        return filled(
            "CONCAT('[', ARRAY_JOIN(p1, ','), ']')", collected(_json_element(operands[0], on_null or "ABSENT"))
        )
    key = called("JSON_STRING", exp.cast(operands[0], exp.DataType.build("STRING")))
    pair = called("CONCAT", key, text(":"), _json_element(operands[1], on_null or "NULL"))
    return filled("CONCAT('{', ARRAY_JOIN(p1, ','), '}')", collected(pair))


def _json_element(value: exp.Expr, on_null: str) -> exp.Expr:
    if isinstance(value, exp.Distinct):
        return exp.Distinct(expressions=[_json_element(e, on_null) for e in value.expressions])
    whole = value if nests(value) else called("JSON_STRING", value)
    return whole if on_null == "ABSENT" else called("COALESCE", whole, text("null"))


_COUNTED = "MAP_FROM_ENTRIES(TRANSFORM(ARRAY_DISTINCT(p1), __e -> STRUCT(__e, SIZE(FILTER(p1, __f -> __f = __e)))))"


def _multiset(values: exp.Expr, kind: DataType) -> exp.Expr:
    """A multiset: a map from each value to its number of occurrences."""
    counted = filled(_COUNTED, values)
    return counted if kind.is_unknown else exp.cast(counted, DataType("MAP", (kind, DataType("INT"))).to_sqlglot())
