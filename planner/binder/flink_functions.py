"""Calls of Flink's functions whose meaning depends on the types of operands, and aggregates made of COLLECT_LIST."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from sqlstream.functions.builtin import BuiltinKind, Origin
from sqlstream.functions.catalogue import FUNCTIONS
from sqlstream.grammar.json_calls import OF_A_PATH, JsonCall, PathInto, member
from sqlstream.grammar.trees import RoundedTime
from sqlstream.planner.binder.context import Context
from sqlstream.planner.functions.spelling import nests, path_of
from sqlstream.planner.functions.templates import called, filled, text
from sqlstream.planner.type_inference import Types
from sqlstream.types import DataType

Again = Callable[[exp.Expr], exp.Expr]

KINDS = (exp.Anonymous, exp.Bracket, exp.Dot, exp.Filter, exp.Window, JsonCall, PathInto, RoundedTime)
_INTEGRAL = ("TINYINT", "SMALLINT", "INT", "BIGINT")
COLLECTING = frozenset(
    name
    for name, function in FUNCTIONS.items()
    if function.origin is Origin.FLINK and function.kind is BuiltinKind.AGGREGATE
)
"""Aggregates of Flink's that are computed from the list of a group's values."""
_OF_DATES = {"DAY": "p1", "WEEK": "TRUNC(p1, 'WEEK')", "MONTH": "TRUNC(p1, 'MONTH')",
             "QUARTER": "TRUNC(p1, 'QUARTER')", "YEAR": "TRUNC(p1, 'YEAR')"}  # fmt: skip
_YEARS = {"DECADE": (10, 0), "CENTURY": (100, 1), "MILLENNIUM": (1000, 1)}
_LENGTHS = {
    "WEEK": "INTERVAL '7' DAY", "QUARTER": "INTERVAL '3' MONTH", "DECADE": "INTERVAL '10' YEAR",
    "CENTURY": "INTERVAL '100' YEAR", "MILLENNIUM": "INTERVAL '1000' YEAR",
    "MILLISECOND": "INTERVAL '0.001' SECOND", "MICROSECOND": "INTERVAL '0.000001' SECOND",
}  # fmt: skip


def flink_function(node: exp.Expr, types: Types, context: Context, again: Again) -> exp.Expr | None:
    """The bound expression as Spark, or the lowering, knows it, with ``again`` for its operands; None for all others.
    SS206, SS207, SS366."""
    match node:
        case RoundedTime():
            return _rounded(again(node.this), node.args["name"], node.args["unit"], types.of(node.this))
        case PathInto() if types.of(node.this).name == "STRING":
            return called("GET_JSON_OBJECT", again(node.this), text(node.args["expression"]))
        case exp.Bracket() if types.of(node.this).name == "VARIANT" and len(node.expressions) == 1:
            return _of_variant(node, again(node.this), node.expressions[0])
        case exp.Dot() if types.of(node.this).name == "VARIANT":
            return called("VARIANT_GET", again(node.this), text("$" + member(node.expression.name)), text("variant"))
        case exp.Window(this=exp.Anonymous() | JsonCall() as call) if call.name.lower() in COLLECTING:
            rest = {key: value for key, value in node.args.items() if key != "this"}
            return _aggregate(call, types, again, lambda collected: exp.Window(this=collected, **rest))
        case exp.Filter(this=exp.Anonymous() | JsonCall() as call) if call.name.lower() in COLLECTING:
            condition = again(node.expression)
            return _aggregate(call, types, again, lambda collected: exp.Filter(this=collected, expression=condition))
        case exp.Anonymous() | JsonCall():
            return _call(node, node.name.lower(), types, context, again)
    return None


def _call(node: exp.Expr, name: str, types: Types, context: Context, again: Again) -> exp.Expr | None:
    operands = node.expressions
    if context.catalog.function(name) is not None and isinstance(node, exp.Anonymous):
        return None
    if name.upper() in OF_A_PATH:
        _check_path(node, name, context)
    elif name in COLLECTING:
        return _aggregate(node, types, again, lambda collected: collected)
    elif name == "to_timestamp_ltz" and operands:
        return _instant([again(o) for o in operands], types.of(operands[0]))
    elif name == "truncate" and (kind := types.of(operands[0])).is_numeric and kind.name != "DECIMAL":
        return exp.cast(called("TRUNCATE", *map(again, operands)), kind.to_sqlglot())
    elif name == "split_index" and len(operands) == 3 and types.of(operands[1]).name in _INTEGRAL:
        text_, code, index = map(again, operands)
        return called("SPLIT_INDEX", text_, called("CHR", code), index)
    elif name in ("parse_json", "try_parse_json") and len(operands) == 2:
        _check_duplicates(node, name, context)
    return None


# --- times ----------------------------------------------------------------------------------------------------


def _rounded(time: exp.Expr, name: str, unit: str, kind: DataType) -> exp.Expr:
    """CEIL is the unit behind the one of the microsecond before."""
    length = _LENGTHS.get(unit, f"INTERVAL '1' {unit}")
    if kind.name == "DATE" and unit in _OF_DATES:
        if name == "FLOOR":
            return filled(_OF_DATES[unit], time)
        if unit == "DAY":
            return time
        return filled(f"CAST({_OF_DATES[unit].replace('p1', 'DATE_SUB(p1, 1)')} + {length} AS DATE)", time)
    if name == "FLOOR":
        return filled(_begin(unit), time)
    before = filled("p1 - INTERVAL '0.000001' SECOND", time)
    return filled(f"p1 + {length}", filled(_begin(unit), before))


def _begin(unit: str) -> str:
    """The template of the begin of a unit. The 21st century begins with 2001, the 203rd decade with 2030."""
    if unit not in _YEARS:
        return f"DATE_TRUNC('{unit}', p1)"
    years, first = _YEARS[unit]
    return f"MAKE_TIMESTAMP(CAST((YEAR(p1) - {first}) DIV {years} * {years} + {first} AS INT), 1, 1, 0, 0, 0)"


def _instant(operands: list[exp.Expr], kind: DataType) -> exp.Expr | None:
    """TO_TIMESTAMP_LTZ of a number of milliseconds or seconds; texts are left to Spark."""
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


# --- documents ------------------------------------------------------------------------------------------------


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


def _check_duplicates(node: exp.Expr, name: str, context: Context) -> None:
    if node.expressions[1] != exp.false():
        context.refuse("duplicate keys", node)


# --- aggregates -----------------------------------------------------------------------------------------------


def _aggregate(call: exp.Expr, types: Types, again: Again, filtered: Again) -> exp.Expr:
    """Rows are collected as texts, or as they are, in the order in which they came."""
    name, operands = call.name.lower(), [again(o) for o in call.expressions]
    on_null = call.args.get("on_null")

    def collected(value: exp.Expr) -> exp.Expr:
        return filtered(exp.ArrayAgg(this=value, nulls_excluded=True))

    if name == "collect":
        return _multiset(collected(operands[0]), types.of(call.expressions[0]))
    if name == "json_arrayagg":
        return filled("CONCAT('[', ARRAY_JOIN(p1, ','), ']')", collected(_element(operands[0], on_null or "ABSENT")))
    key = called("JSON_STRING", exp.cast(operands[0], exp.DataType.build("STRING")))
    pair = called("CONCAT", key, text(":"), _element(operands[1], on_null or "NULL"))
    return filled("CONCAT('{', ARRAY_JOIN(p1, ','), '}')", collected(pair))


def _element(value: exp.Expr, on_null: str) -> exp.Expr:
    if isinstance(value, exp.Distinct):
        return exp.Distinct(expressions=[_element(e, on_null) for e in value.expressions])
    whole = value if nests(value) else called("JSON_STRING", value)
    return whole if on_null == "ABSENT" else called("COALESCE", whole, text("null"))


_COUNTED = "MAP_FROM_ENTRIES(TRANSFORM(ARRAY_DISTINCT(p1), __e -> STRUCT(__e, SIZE(FILTER(p1, __f -> __f = __e)))))"


def _multiset(values: exp.Expr, kind: DataType) -> exp.Expr:
    """How often each value is there."""
    counted = filled(_COUNTED, values)
    return counted if kind.is_unknown else exp.cast(counted, DataType("MAP", (kind, DataType("INT"))).to_sqlglot())
