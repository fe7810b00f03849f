"""Types of bound expressions by Spark's rules (ANSI mode); UNKNOWN where only Spark can tell.

Expressions name fields of a schema by quoted columns without a table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp

from sqlstream.functions.catalogue import result_type
from sqlstream.functions.result_types import as_decimal, common_type, precision_and_scale, wider
from sqlstream.grammar.calls import JsonCall, PathInto
from sqlstream.grammar.trees import RoundedTime
from sqlstream.planner.catalog import Function
from sqlstream.planner.fields import Field, Schema
from sqlstream.planner.functions.calls import spark_name
from sqlstream.planner.intervals import is_calendar
from sqlstream.types import BIGINT, BOOLEAN, DOUBLE, INT, INTERVAL, STRING, TIMESTAMP, UNKNOWN, DataType, from_sqlglot

_INTEGRAL = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})
_TIME = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_NTZ"})


class Types:
    """The types of expressions over one schema; ``function`` returns functions of the catalog.

    The type of each expression object is computed once, because the checks need it at every operand. So an
    expression must not be changed in place afterwards.
    """

    def __init__(self, schema: Schema, function: Callable[[str], Function | None] = lambda _: None) -> None:
        self.fields: Mapping[str, Field] = {f.name: f for f in schema}
        self.function = function
        # Keyed by identity, because equality compares whole trees; holding the expression keeps its id in use.
        self._known: dict[int, tuple[exp.Expr, DataType]] = {}

    def of(self, expression: exp.Expr) -> DataType:
        """The type of a bound expression; UNKNOWN where only Spark can tell."""
        known = self._known.get(id(expression))
        if known is None:
            known = self._known[id(expression)] = (expression, _rule_of(type(expression))(expression, self))
        return known[1]

    def nullable(self, expression: exp.Expr) -> bool:
        """False if the expression is certainly never NULL; else True."""
        match expression:
            case exp.Column():
                field = self.fields.get(expression.name)
                return field is None or field.nullable
            case exp.Literal() | exp.Boolean() | exp.Count() | exp.Interval():
                return False
            case exp.TryCast() if expression.args.get("safe"):
                return True
            case exp.Paren() | exp.Not() | exp.Neg() | exp.Cast() | exp.Alias():
                return self.nullable(expression.this)
            case exp.Is():
                return False
            case exp.Coalesce():
                return all(self.nullable(e) for e in (expression.this, *expression.expressions))
            case exp.EQ() | exp.NEQ() | exp.GT() | exp.GTE() | exp.LT() | exp.LTE() | exp.And() | exp.Or():
                return self.nullable(expression.left) or self.nullable(expression.right)
            case exp.Add() | exp.Sub() | exp.Mul():
                return self.nullable(expression.left) or self.nullable(expression.right)
        return True


def _unknown(node: exp.Expr, types: Types) -> DataType:
    return UNKNOWN


def _column(node: exp.Column, types: Types) -> DataType:
    field = types.fields.get(node.name)
    return field.type if field else UNKNOWN


def _literal(node: exp.Literal, types: Types) -> DataType:
    if node.is_string:
        return STRING
    return number_type(node.name)


def number_type(text: str) -> DataType:
    """The type of a numeric literal: INT, BIGINT, DECIMAL for a point, DOUBLE for an exponent."""
    if "e" in text.lower():
        return DOUBLE
    if "." in text:
        whole, _, fraction = text.partition(".")
        digits = len(whole.lstrip("0")) + len(fraction)
        return DataType("DECIMAL", (max(digits, len(fraction), 1), len(fraction)))
    spelled = text.lstrip("0")
    if len(spelled) > _DIGITS_OF_BIGINT:  # Python reads no number of thousands of digits
        return DataType("DECIMAL", (len(spelled), 0))
    value = int(spelled or "0")
    if value < 2**31:
        return INT
    return BIGINT if value < 2**63 else DataType("DECIMAL", (len(spelled), 0))


_DIGITS_OF_BIGINT = 19


def _boolean(node: exp.Expr, types: Types) -> DataType:
    return BOOLEAN


def _null(node: exp.Null, types: Types) -> DataType:
    return DataType("VOID")


def _interval(node: exp.Interval, types: Types) -> DataType:
    """Intervals of months are another type in Spark."""
    return UNKNOWN if is_calendar(node) or not node.find(exp.Literal) else INTERVAL


def _inner(node: exp.Expr, types: Types) -> DataType:
    return types.of(node.this)


def _negated(node: exp.Neg, types: Types) -> DataType:
    return result_type("negative", [types.of(node.this)])


_VALUE_IN_ORDER = frozenset({"mode", "percentile_cont", "percentile_disc"})


def _within_group(node: exp.WithinGroup, types: Types) -> DataType:
    return UNKNOWN if spark_name(node.this) in _VALUE_IN_ORDER else types.of(node.this)


def _distinct(node: exp.Distinct, types: Types) -> DataType:
    return types.of(node.expressions[0]) if node.expressions else UNKNOWN


def _cast(node: exp.Cast, types: Types) -> DataType:
    return from_sqlglot(node.to)


def _sum(node: exp.Binary, types: Types) -> DataType:
    left, right = types.of(node.left), types.of(node.right)
    if left.is_numeric and right.is_numeric:
        return _arithmetic(node, left, right)
    names = (left.name, right.name)
    if left.name in ("TIMESTAMP", "TIMESTAMP_NTZ") and right == INTERVAL:
        return left
    if isinstance(node, exp.Add) and left == INTERVAL and right.name in ("TIMESTAMP", "TIMESTAMP_NTZ"):
        return right
    if isinstance(node, exp.Sub) and left.name in _TIME and right.name in _TIME:
        return INTERVAL
    return INTERVAL if names == ("INTERVAL", "INTERVAL") else UNKNOWN


def _product(node: exp.Binary, types: Types) -> DataType:
    left, right = types.of(node.left), types.of(node.right)
    if left.is_numeric and right.is_numeric:
        return _arithmetic(node, left, right)
    return INTERVAL if {left.name, right.name} & {"INTERVAL"} and (left.is_numeric or right.is_numeric) else UNKNOWN


def _quotient(node: exp.Div, types: Types) -> DataType:
    left, right = types.of(node.left), types.of(node.right)
    if left == INTERVAL and right.is_numeric:
        return INTERVAL
    if not (left.is_numeric and right.is_numeric):
        return UNKNOWN
    return _arithmetic(node, left, right) if "DECIMAL" in (left.name, right.name) else DOUBLE


def _integral_quotient(node: exp.IntDiv, types: Types) -> DataType:
    return BIGINT


def _arithmetic(node: exp.Binary, left: DataType, right: DataType) -> DataType:
    """The type of an operation on two numbers of these types."""
    left, right = _as_small_decimal(node.left, left, right), _as_small_decimal(node.right, right, left)
    if "DECIMAL" not in (left.name, right.name) or {left.name, right.name} & {"FLOAT", "DOUBLE"}:
        return wider(left, right)
    left_decimal, right_decimal = as_decimal(left), as_decimal(right)
    assert left_decimal is not None and right_decimal is not None
    return _decimal_result(type(node), *precision_and_scale(left_decimal), *precision_and_scale(right_decimal))


def _as_small_decimal(operand: exp.Expr, own: DataType, other: DataType) -> DataType:
    """The type of an operand; an integer literal next to a decimal is the smallest decimal that holds it. In Spark its
    sign belongs to it.
    """
    literal = operand.unnest()
    literal = literal.this if isinstance(literal, exp.Neg) else literal
    if isinstance(literal, exp.Literal) and own.name in _INTEGRAL and other.name == "DECIMAL":
        return smallest_decimal(literal.name)
    return own


def smallest_decimal(digits: str) -> DataType:
    """The DECIMAL that holds a whole number and no more."""
    return DataType("DECIMAL", (len(digits.lstrip("0")) or 1, 0))


def _decimal_result(operator: type[exp.Binary], p1: int, s1: int, p2: int, s2: int) -> DataType:
    """Spark's DecimalPrecision; results of more than 38 digits are left to Spark."""
    if issubclass(operator, (exp.Add, exp.Sub)):
        scale = max(s1, s2)
        precision = max(p1 - s1, p2 - s2) + scale + 1
    elif issubclass(operator, exp.Mul):
        precision, scale = p1 + p2 + 1, s1 + s2
    elif issubclass(operator, exp.Div):
        scale = max(6, s1 + p2 + 1)
        precision = p1 - s1 + s2 + scale
    else:
        scale = max(s1, s2)
        precision = min(p1 - s1, p2 - s2) + scale
    return DataType("DECIMAL", (precision, scale)) if precision <= 38 else UNKNOWN


def _case(node: exp.Case, types: Types) -> DataType:
    branches = [types.of(branch.args["true"]) for branch in node.args["ifs"]]
    default = node.args.get("default")
    return common_type([*branches, types.of(default)] if default else branches)


def _if(node: exp.If, types: Types) -> DataType:
    otherwise = node.args.get("false")
    return common_type([types.of(node.args["true"]), *([types.of(otherwise)] if otherwise else [])])


def _concatenation(node: exp.DPipe, types: Types) -> DataType:
    return result_type("concat", [types.of(node.left), types.of(node.right)])


def _array(node: exp.Array, types: Types) -> DataType:
    element = common_type(types.of(e) for e in node.expressions)
    return UNKNOWN if element.is_unknown else DataType("ARRAY", (element,))


def _bracket(node: exp.Bracket, types: Types) -> DataType:
    match types.of(node.this):
        case DataType("ARRAY", (DataType() as element,)) | DataType("MAP", (_, DataType() as element)):
            return element
        case DataType("VARIANT") as variant:
            return variant
    return UNKNOWN


def _dot(node: exp.Dot, types: Types) -> DataType:
    if types.of(node.this).name == "VARIANT":
        return types.of(node.this)
    return member_type(types.of(node.this), node.expression.name)


def member_type(struct: DataType, name: str) -> DataType:
    """The type of a struct's member; UNKNOWN where it has none of that name."""
    members = struct.args if struct.name == "STRUCT" else ()
    kinds = (m[1] for m in members if isinstance(m, tuple) and m[0].casefold() == name.casefold())
    return next(kinds, UNKNOWN)


def _path_into(node: PathInto, types: Types) -> DataType:
    kind = types.of(node.this)
    return kind if kind.name in ("STRING", "VARIANT") else UNKNOWN


def _rounded(node: RoundedTime, types: Types) -> DataType:
    kind = types.of(node.this)
    return kind if kind.name == "DATE" else TIMESTAMP


def _json_call(node: JsonCall, types: Types) -> DataType:
    returning = node.args.get("returning")
    if returning is not None:
        return from_sqlglot(returning)
    return result_type(node.name.lower(), [])


def _function(node: exp.Func, types: Types) -> DataType:
    name = spark_name(node)
    if name is None:
        return UNKNOWN
    user = types.function(name) if isinstance(node, exp.Anonymous) else None
    if user is not None:
        return user.returns
    if name == "named_struct":
        return _struct(node, types)
    if name == "struct":
        return _struct_by_columns(node, types)
    return result_type(name, [types.of(a) for a in call_arguments(node)])


def _struct(call: exp.Func, types: Types) -> DataType:
    names, values = call.expressions[::2], [types.of(value) for value in call.expressions[1::2]]
    constant = all(isinstance(name, exp.Literal) and name.is_string for name in names)
    if not constant or len(names) != len(values) or any(v.is_unknown or v.name == "VOID" for v in values):
        return UNKNOWN
    return DataType("STRUCT", tuple((name.name, kind) for name, kind in zip(names, values, strict=True)))


def _struct_by_columns(call: exp.Expr, types: Types) -> DataType:
    """STRUCT(a, b AS c, …): a member without a name is named by its position, as ``col2``."""
    members = [
        (value.alias_or_name if isinstance(value, exp.Alias | exp.Column) else f"col{position}", types.of(value))
        for position, value in enumerate(call_arguments(call), 1)
        if not value.is_star
    ]
    certain = len(members) == len(call_arguments(call))
    if not certain or any(kind.is_unknown or kind.name == "VOID" for _, kind in members):
        return UNKNOWN
    return DataType("STRUCT", tuple(members))


def call_arguments(call: exp.Expr) -> list[exp.Expr]:
    """The arguments of a call that are expressions, in the order in which sqlglot's class declares them."""
    if isinstance(call, exp.Anonymous | JsonCall | exp.Tuple):
        return list(call.expressions)
    arguments: list[exp.Expr] = []
    for key in call.arg_types:
        value = call.args.get(key)
        values = value if isinstance(value, list) else [value]
        arguments += [v for v in values if isinstance(v, exp.Expr)]
    return arguments


def cast(value: exp.Expression, kind: DataType) -> exp.Expression:
    """The expression ``CAST(value AS kind)``."""
    return exp.Cast(this=value, to=kind.to_sqlglot())


_Rule = Callable[[Any, Types], DataType]

_RULES: dict[type[exp.Expr], _Rule] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Boolean: _boolean,
    exp.Not: _boolean,
    exp.And: _boolean,
    exp.Or: _boolean,
    exp.Predicate: _boolean,
    exp.RegexpLike: _boolean,
    exp.Null: _null,
    exp.Interval: _interval,
    exp.Paren: _inner,
    exp.Alias: _inner,
    exp.Filter: _inner,
    exp.IgnoreNulls: _inner,
    exp.RespectNulls: _inner,
    exp.Neg: _negated,
    exp.WithinGroup: _within_group,
    exp.Distinct: _distinct,
    exp.Cast: _cast,
    exp.Add: _sum,
    exp.Sub: _sum,
    exp.Mul: _product,
    exp.Mod: _product,
    exp.Div: _quotient,
    exp.IntDiv: _integral_quotient,
    exp.Case: _case,
    exp.If: _if,
    exp.DPipe: _concatenation,
    exp.Array: _array,
    exp.Bracket: _bracket,
    exp.Dot: _dot,
    PathInto: _path_into,
    RoundedTime: _rounded,
    JsonCall: _json_call,
    exp.Tuple: _struct_by_columns,
    exp.Func: _function,
}
"""The rules by class of expression; a class without a rule of its own has that of the first class it extends."""


def _rule_of(kind: type[exp.Expr]) -> _Rule:
    rule = _RULES.get(kind)
    if rule is None:
        rule = _RULES[kind] = next((_RULES[base] for base in kind.__mro__ if base in _RULES), _unknown)
    return rule
