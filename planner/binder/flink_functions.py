"""Flink's functions in forms of Spark: rounded times, JSON, VARIANT, and aggregates over collected rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from sqlglot import exp

from sqlstream.functions.builtin import BuiltinKind, Origin
from sqlstream.functions.catalogue import FUNCTIONS
from sqlstream.grammar.calls import OF_A_PATH, JsonCall, PathInto, member
from sqlstream.grammar.trees import RoundedTime
from sqlstream.planner.binder.context import Context
from sqlstream.planner.expressions import with_children_changed
from sqlstream.planner.functions.spelling import called, filled, nests, path_of, text
from sqlstream.planner.type_inference import Types
from sqlstream.types import DataType

Respell = Callable[[exp.Expr], exp.Expr]

FLINK_KINDS = (
    exp.Anonymous, exp.Bracket, exp.Dot, exp.Filter, exp.Window, exp.WithinGroup, JsonCall, PathInto, RoundedTime,
)  # fmt: skip
_INTEGRAL = ("TINYINT", "SMALLINT", "INT", "BIGINT")


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
