"""Row values, ``(a, b)`` and ``ROW(a, b)``: compared field by field, and given one type where they meet.

Comparisons follow SQL's rules for rows (ISO/IEC 9075-2, 8.2), as in Flink: ``=`` is TRUE if all fields are equal, FALSE
if one differs, else NULL; ``<`` is decided by the first fields that differ. Spark compares structs of one type alone,
and takes two NULLs for equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce

from sqlglot import exp

from sqlstream.functions.result_types import BINARY, NESTED_TYPES, wider
from sqlstream.grammar.trees import balanced
from sqlstream.planner.expressions import as_expression, parenthesized, with_children_changed
from sqlstream.planner.intervals import is_calendar
from sqlstream.planner.type_inference import Types, cast
from sqlstream.types import INTERVAL_OF_MONTHS, DataType

COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
MAY_COMPARE_ROWS = (*COMPARED, exp.In, exp.Between)
_ALL = (exp.EQ, exp.NullSafeEQ)
_SOME = (exp.NEQ, exp.NullSafeNEQ)
_STRICT: dict[type[exp.Expr], type[exp.Expr]] = {exp.LT: exp.LT, exp.LTE: exp.LT, exp.GT: exp.GT, exp.GTE: exp.GT}

Values = Callable[[exp.Expr], list[exp.Expr] | None]
"""The fields of a row value; None for any other expression."""


def row_values(expression: exp.Expr, width: int | None = None) -> list[exp.Expr] | None:
    """The fields of a row constructor such as ``(a, b)``. None for any other expression, and if ``width`` is given and
    the row has another number of fields.
    """
    row = expression.unnest()
    if not (isinstance(row, exp.Tuple) or (isinstance(row, exp.Anonymous) and row.name.upper() == "STRUCT")):
        return None
    values = [value.unalias() for value in row.expressions]
    return values if len(values) > 1 and width in (None, len(values)) else None


# --- comparisons ----------------------------------------------------------------------------------------------


def field_by_field(node: exp.Expr, values: Values = row_values) -> exp.Expr | None:
    """Rewrites a comparison of rows, IN with a list of rows, or BETWEEN rows as comparisons of their fields. None for
    other expressions.
    """
    match node:
        case exp.In(parent=exp.Pivot()):  # its rows become columns
            return None
        case exp.In(expressions=[_, *_] as listed):
            pairs = [_pair(node.this, one, values) for one in listed]
            found = [pair for pair in pairs if pair is not None]
            if len(found) < len(pairs):
                return None
            return exp.Paren(this=balanced(exp.Or, [_compared(exp.EQ, *pair) for pair in found]))
        case exp.Between():
            low, high = (_pair(node.this, node.args[key], values) for key in ("low", "high"))
            if low is None or high is None:
                return None
            return exp.Paren(this=exp.And(this=_compared(exp.GTE, *low), expression=_compared(exp.LTE, *high)))
        case exp.Binary() if isinstance(node, COMPARED):
            pair = _pair(node.left, node.right, values)
            return None if pair is None else _compared(type(node), *pair)
    return None


def _pair(left: exp.Expr, right: exp.Expr, values: Values) -> tuple[list[exp.Expr], list[exp.Expr]] | None:
    one = values(left)
    other = values(right) if one is not None else None
    return (one, other) if one is not None and other is not None and len(one) == len(other) else None


def _compared(kind: type[exp.Expr], left: Sequence[exp.Expr], right: Sequence[exp.Expr]) -> exp.Expr:
    def of_field(kind: type[exp.Expr], i: int) -> exp.Expr:
        one, other = (parenthesized(as_expression(row[i].copy())) for row in (left, right))
        return kind(this=one, expression=other)

    if issubclass(kind, _ALL):
        return exp.Paren(this=balanced(exp.And, [of_field(kind, i) for i in range(len(left))]))
    if issubclass(kind, _SOME):
        return exp.Paren(this=balanced(exp.Or, [of_field(kind, i) for i in range(len(left))]))
    whole = of_field(kind, len(left) - 1)
    for i in reversed(range(len(left) - 1)):
        ties = exp.And(this=of_field(exp.EQ, i), expression=whole)
        whole = exp.Paren(this=exp.Or(this=of_field(_STRICT[kind], i), expression=ties))
    return whole


def differ_in_width(left: DataType, right: DataType) -> bool:
    """Whether both types are rows, of different numbers of fields."""
    return left.name == right.name == "STRUCT" and len(left.args) != len(right.args)


# --- rows that meet in one expression -------------------------------------------------------------------------

Shape = tuple[tuple[str, "Shape | None"], ...]
"""The names of the fields of a row, and the shapes of those that are rows."""


_ALL_ARGUMENTS = (slice(None),)
_MEETING: dict[str, tuple[slice, ...]] = {
    **dict.fromkeys(("equal_null", "greatest", "ifnull", "least", "nullif", "nvl"), _ALL_ARGUMENTS),
    **dict.fromkeys(("if", "nvl2"), (slice(1, None),)),
    "map": (slice(0, None, 2), slice(1, None, 2)),
}
"""Calls by name: the arguments that must have one type."""
_OF_RESULTS = frozenset({"greatest", "if", "ifnull", "least", "nvl", "nvl2"})
"""Those of them whose result is one of these arguments."""
_COMPARING = frozenset({"equal_null", "greatest", "least", "nullif"})
_AS_THEY_ARE = frozenset({"greatest", "least"})
"""Those for which Spark converts no text to the type of the other values."""

MEETING = (exp.Case, exp.If, exp.Coalesce, exp.Array, exp.Anonymous, exp.In, exp.Between, *COMPARED)
"""The kinds of expressions with values that must have one type."""


@dataclass(frozen=True)
class Meeting:
    """Values that get one type in an expression. ``compared``: they are compared, all with each other, or (unless
    ``each_other``) the first one with the others. ``texts``: a text is converted to the type of the others.
    """

    values: tuple[exp.Expr, ...]
    compared: bool = False
    each_other: bool = True
    texts: bool = True


def meetings(node: exp.Expr, types: Types) -> Iterator[Meeting]:
    """The values that must have one type: the operands of a comparison, the results of CASE, IF and COALESCE, the
    elements of an array, and so on. A subquery is none of them, nor is an argument of a user's function.
    """
    match node:
        case exp.Case():
            yield Meeting(tuple(_results(node)))
            if node.this is not None:
                yield Meeting(
                    (node.this, *(branch.this for branch in node.args["ifs"])), compared=True, each_other=False
                )
        case exp.If() | exp.Coalesce() | exp.Array():
            yield Meeting(tuple(_results(node)))
        case exp.Anonymous() if (name := node.name.lower()) in _MEETING and types.function(name) is None:
            texts = name not in _AS_THEY_ARE
            yield from (Meeting(tuple(node.expressions[s]), name in _COMPARING, texts=texts) for s in _MEETING[name])
        case exp.In(expressions=[_, *_] as listed) if not isinstance(node.parent, exp.Pivot):
            yield Meeting((node.this, *listed), compared=True)
        case exp.Between():
            yield Meeting((node.this, node.args["low"], node.args["high"]), compared=True, each_other=False)
        case exp.Binary() if isinstance(node, COMPARED):
            yield Meeting((node.left, node.right), compared=True)


def _results(node: exp.Expr) -> Iterator[exp.Expr]:
    """The values of which one is the result, or the elements of an array."""
    match node:
        case exp.Case():
            yield from (branch.args["true"] for branch in node.args["ifs"])
            if node.args.get("default") is not None:
                yield node.args["default"]
        case exp.If():
            yield node.args["true"]
            if node.args.get("false") is not None:
                yield node.args["false"]
        case exp.Coalesce():
            yield node.this
            yield from node.expressions
        case exp.Array():
            yield from node.expressions
        case exp.Anonymous() if (name := node.name.lower()) in _OF_RESULTS:
            yield from node.expressions[_MEETING[name][0]]


def known_kind(value: exp.Expr, types: Types) -> DataType:
    """The type of a value, also of bytes and of an interval of months. Of a row of which only some fields have a known
    type, a STRUCT with UNKNOWN and VOID.
    """
    plain = value.unnest()
    kind = types.of(plain)
    if not kind.is_unknown:
        return kind
    if isinstance(plain, exp.Interval) and isinstance(plain.this, exp.Literal) and is_calendar(plain):
        return INTERVAL_OF_MONTHS
    if isinstance(plain, exp.HexString):
        return BINARY
    fields = row_values(plain)
    if fields is not None:
        return DataType("STRUCT", tuple((f"col{i}", known_kind(field, types)) for i, field in enumerate(fields, 1)))
    parts = (known_kind(part, types) for part in _results(plain))
    part = next((part for part in parts if part.name != "VOID"), kind)
    return DataType("ARRAY", (part,)) if isinstance(plain, exp.Array) and not part.is_unknown else part


def with_equal_rows(node: exp.Expr, types: Types) -> exp.Expr:
    """Gives all rows that meet in an expression (``meetings``) the field names of the first one, so that Spark finds a
    common type; likewise a row that ARRAY_CONTAINS and similar calls look for in an array of rows. Rows, arrays and
    maps that Spark would not convert itself are converted to the common type. Other expressions are unchanged.
    """
    if isinstance(node, exp.Anonymous) and node.name.lower() in _OF_ELEMENTS:
        return _with_equal_elements(node, types)
    changed: dict[int, exp.Expr] = {}
    for meeting in meetings(node, types):
        alike = of_one_type(meeting.values, types, compared=meeting.compared)
        pairs = zip(meeting.values, alike, strict=True)
        changed |= {id(before): after for before, after in pairs if after is not before}
    return _with_branches(node, changed)


def of_one_type(values: Sequence[exp.Expr], types: Types, *, compared: bool = False) -> Sequence[exp.Expr]:
    """Returns values that meet, changed as in ``with_equal_rows`` where Spark finds no common type. Spark itself
    converts rows of the same names, but those that are ``compared`` only where no field loses digits.
    """
    shaped_values = _of_one_shape(values, types)
    kinds = [known_kind(value, types) for value in shaped_values]
    if not any(kind.name in NESTED_TYPES for kind in kinds) or len(set(kinds)) == 1:
        return shaped_values
    common = reduce(partial(wider, texts=True), kinds)
    if any(part.is_unknown or part.name == "VOID" for part in common.parts()):
        return shaped_values
    names = _names(common)
    converted: list[exp.Expr] = []
    for written, value, kind in zip(values, shaped_values, kinds, strict=True):
        is_sure = not types.of(value).is_unknown  # of the names that Spark gives its fields
        fits = kind.name == "VOID" or (is_sure and (kind == common or not (compared or _names(kind) != names)))
        source = written if isinstance(value, exp.Cast) else value  # one CAST is enough
        converted.append(value if fits else cast(as_expression(source.copy()), common))
    return converted


def _of_one_shape(values: Sequence[exp.Expr], types: Types) -> Sequence[exp.Expr]:
    shapes = [shape for shape in (shape_of(value, types) for value in values) if shape is not None]
    if len(shapes) < 2 or len({len(shape) for shape in shapes}) > 1:
        return values
    return [shaped(value, shapes[0], types) for value in values]


def _names(kind: DataType) -> tuple[object, ...]:
    """The names of all fields in a type."""
    return tuple(name for part in kind.parts() for name, _ in part.fields())


_OF_ELEMENTS = frozenset({"array_contains", "array_position", "array_remove", "array_append", "array_prepend"})


def _with_equal_elements(call: exp.Anonymous, types: Types) -> exp.Expr:
    if len(call.expressions) != 2:
        return call
    array, element = call.expressions
    members = types.of(array).inner
    shape = _shape_of_type(members[0]) if len(members) == 1 else None
    if shape is None or (equal := shaped(element, shape, types)) is element:
        return call
    return exp.Anonymous(this=call.this, expressions=[array.copy(), equal])


def _with_branches(node: exp.Expr, changed: Mapping[int, exp.Expr]) -> exp.Expr:
    """``changed`` has the new values by the id of the old ones. The node itself if there are none."""
    if not changed:
        return node

    def change(child: exp.Expr) -> exp.Expr:
        if id(child) in changed:
            return changed[id(child)]
        return with_children_changed(child, change) if isinstance(child, exp.If) else child.copy()

    return with_children_changed(node, change)


def shaped(value: exp.Expr, shape: Shape, types: Types) -> exp.Expr:
    """Returns the row with the field names of ``shape``. A row that has them already, and a value that is not a row,
    are unchanged.
    """
    own = shape_of(value, types)
    if own is None or own == shape or len(own) != len(shape):
        return value
    fields = row_values(value)
    if fields is None and types.of(value).name != "STRUCT":
        given = {id(branch): shaped(branch, shape, types) for branch in _results(value)}
        return _with_branches(value, {key: new for key, new in given.items() if id(new) != key})
    if fields is None:
        return cast(as_expression(value.copy()), _renamed(types.of(value), shape))
    named = [
        exp.alias_(shaped(field, inner, types).copy() if inner is not None else field.copy(), name, quoted=True)
        for field, (name, inner) in zip(fields, shape, strict=True)
    ]
    return exp.Anonymous(this="STRUCT", expressions=named)


def shape_of(value: exp.Expr, types: Types) -> Shape | None:
    """The field names of a row; None for any other value, and where only Spark knows them."""
    fields = row_values(value)
    if fields is None:
        branches = () if isinstance(value, exp.Array) else _results(value)
        shapes = (shape_of(branch, types) for branch in branches)
        return _shape_of_type(types.of(value)) or next((shape for shape in shapes if shape is not None), None)
    written = value.unnest().expressions
    names = (v.alias_or_name if isinstance(v, exp.Alias | exp.Column) else f"col{i}" for i, v in enumerate(written, 1))
    return tuple((name, shape_of(field, types)) for name, field in zip(names, fields, strict=True))


def _shape_of_type(kind: DataType) -> Shape | None:
    if kind.name != "STRUCT":
        return None
    return tuple((name, _shape_of_type(member)) for name, member in kind.fields())


def _renamed(kind: DataType, shape: Shape) -> DataType:
    if len(kind.fields()) != len(shape):  # which is a mistake that is reported
        return kind
    pairs = zip(shape, kind.fields(), strict=True)
    return DataType(
        "STRUCT",
        tuple((name, member if inner is None else _renamed(member, inner)) for (name, inner), (_, member) in pairs),
    )
