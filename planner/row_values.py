"""Row values, ``(a, b)`` and ``ROW(a, b)``: compared field by field, and given one type where they meet.

Comparisons follow SQL's rules for rows (ISO/IEC 9075-2, 8.2), as in Flink: ``=`` is TRUE if all fields are equal, FALSE
if one differs, else NULL; ``<`` is decided by the first fields that differ. Spark compares structs of one type alone,
and takes two NULLs for equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sqlglot import exp

from sqlstream.grammar.trees import balanced
from sqlstream.planner.expressions import as_expression, parenthesized, with_children_changed
from sqlstream.planner.type_inference import Types, cast
from sqlstream.types import DataType

COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
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


# --- rows that meet in one expression -------------------------------------------------------------------------

Shape = tuple[tuple[str, "Shape | None"], ...]
"""The names of the fields of a row, and the shapes of those that are rows."""


def with_equal_rows(node: exp.Expr, types: Types) -> exp.Expr:
    """Gives all rows in the branches of CASE, IF, COALESCE or ARRAY the field names of the first one, so that Spark
    finds a common type; likewise a row that ARRAY_CONTAINS and similar calls look for in an array of rows. Other
    expressions are unchanged.
    """
    if isinstance(node, exp.Anonymous):
        return _with_equal_elements(node, types)
    branches = list(_branches(node))
    shapes = [shape for shape in (shape_of(branch, types) for branch in branches) if shape is not None]
    if len(shapes) < 2 or len({len(shape) for shape in shapes}) > 1:
        return node
    return _with_shape(node, shapes[0], types)


_OF_ELEMENTS = frozenset({"array_contains", "array_position", "array_remove", "array_append", "array_prepend"})


def _with_equal_elements(call: exp.Anonymous, types: Types) -> exp.Expr:
    if call.name.lower() not in _OF_ELEMENTS or len(call.expressions) != 2:
        return call
    array, element = call.expressions
    members = [kind for kind in types.of(array).args if isinstance(kind, DataType)]
    shape = _shape_of_type(members[0]) if len(members) == 1 else None
    if shape is None or (equal := shaped(element, shape, types)) is element:
        return call
    return exp.Anonymous(this=call.this, expressions=[array.copy(), equal])


def _with_shape(node: exp.Expr, shape: Shape, types: Types) -> exp.Expr:
    branches = list(_branches(node))
    changed = {id(branch): shaped(branch, shape, types) for branch in branches}
    if all(changed[id(branch)] is branch for branch in branches):
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
        return _with_shape(value, shape, types)
    if fields is None:
        return cast(as_expression(value.copy()), _renamed(types.of(value), shape))
    named = [
        exp.alias_(shaped(field, inner, types).copy() if inner is not None else field.copy(), name, quoted=True)
        for field, (name, inner) in zip(fields, shape, strict=True)
    ]
    return exp.Anonymous(this="STRUCT", expressions=named)


def _branches(node: exp.Expr) -> Iterator[exp.Expr]:
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


def shape_of(value: exp.Expr, types: Types) -> Shape | None:
    """The field names of a row; None for any other value, and where only Spark knows them."""
    fields = row_values(value)
    if fields is None:
        branches = () if isinstance(value, exp.Array) else _branches(value)
        shapes = (shape_of(branch, types) for branch in branches)
        return _shape_of_type(types.of(value)) or next((shape for shape in shapes if shape is not None), None)
    written = value.unnest().expressions
    names = (v.alias_or_name if isinstance(v, exp.Alias | exp.Column) else f"col{i}" for i, v in enumerate(written, 1))
    return tuple((name, shape_of(field, types)) for name, field in zip(names, fields, strict=True))


def _shape_of_type(kind: DataType) -> Shape | None:
    if kind.name != "STRUCT":
        return None
    members = (member for member in kind.args if isinstance(member, tuple))
    return tuple((name, _shape_of_type(member)) for name, member in members)


def _renamed(kind: DataType, shape: Shape) -> DataType:
    members = (member for member in kind.args if isinstance(member, tuple))
    pairs = zip(shape, members, strict=True)
    return DataType(
        "STRUCT",
        tuple((name, member if inner is None else _renamed(member, inner)) for (name, inner), (_, member) in pairs),
    )
