"""Bound expressions of standard SQL and Flink's SQL in forms of Spark; what has none is refused."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from sqlstream.functions.result_types import NESTED_TYPES
from sqlstream.planner import intervals
from sqlstream.planner.binder.context import Context
from sqlstream.planner.binder.flink_functions import FLINK_KINDS, flink_function
from sqlstream.planner.expressions import as_expression, rewritten, with_children_changed
from sqlstream.planner.functions.calls import spark_name
from sqlstream.planner.row_values import MAY_COMPARE_ROWS, MEETING, field_by_field, row_values, with_equal_rows
from sqlstream.planner.type_inference import Types, cast
from sqlstream.types import DataType

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
    if isinstance(node, MAY_COMPARE_ROWS) and any(row_values(value) is not None for value in node.iter_expressions()):
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
