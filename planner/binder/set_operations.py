"""UNION, INTERSECT and EXCEPT: which operands each has, and what they make of them.

INTERSECT binds its operands first, as in Flink and Spark; the others go from left to right.
"""

from __future__ import annotations

from sqlglot import exp

from sqlstream.planner.binder.aggregation import bind_distinct
from sqlstream.planner.binder.completeness import refuse_rest
from sqlstream.planner.binder.context import BindQuery, Context, Relation
from sqlstream.planner.binder.unions import Branch, compared, union_all
from sqlstream.udfs.changes import SetKind

_PARTS = ("this", "expression", "distinct")


def bind_set_operation(query: exp.SetOperation, context: Context, bind: BindQuery) -> Relation:
    """The plan of a set operation without what stands around it. ``bind`` makes relations of its operands."""
    operands, operators = _in_order(query, context)
    _intersect(operands, operators, context, bind)
    while operators:
        count = _united(operators)
        query = operators[count - 1] if count else operators[0]
        count = max(count, 1)
        bound = [_bound(operand, context, bind) for operand in operands[: count + 1]]
        operands[: count + 1] = [(_applied(query, bound, context), query)]
        del operators[:count]
    return _bound(operands[0], context, bind)[0]


Operand = exp.Expr | Branch
"""A query, or what it became and where it stands."""


def _in_order(query: exp.SetOperation, context: Context) -> tuple[list[Operand], list[exp.SetOperation]]:
    """The operands from left to right, and the operators between them. The parser goes from left to right, whatever
    the operators; what stands in parentheses is an operand."""
    operands: list[Operand] = []
    operators: list[exp.SetOperation] = []
    leftmost: exp.Expr = query
    while isinstance(leftmost, exp.SetOperation) and (leftmost is query or _is_plain(leftmost)):
        if leftmost is not query:
            refuse_rest(leftmost, _PARTS, context)
        operators.insert(0, leftmost)
        operands.insert(0, leftmost.right)
        leftmost = leftmost.left
    return [leftmost, *operands], operators


def _is_plain(query: exp.SetOperation) -> bool:
    """True without WITH or clauses of its own, which only parentheses give to an operand."""
    return {key for key, value in query.args.items() if value} <= set(_PARTS)


def _intersect(operands: list[Operand], operators: list[exp.SetOperation], context: Context, bind: BindQuery) -> None:
    position = 0
    while position < len(operators):
        query = operators[position]
        if not isinstance(query, exp.Intersect):
            position += 1
            continue
        pair = [_bound(operand, context, bind) for operand in operands[position : position + 2]]
        operands[position : position + 2] = [(_applied(query, pair, context), query)]
        del operators[position]


def _united(operators: list[exp.SetOperation]) -> int:
    """How many of the first operators make one union: nothing but UNION ALLs, or unions of which the last compares."""
    unions = 0
    while unions < len(operators) and isinstance(operators[unions], exp.Union):
        unions += 1
    distinct = [position for position in range(unions) if operators[position].args.get("distinct")]
    return distinct[-1] + 1 if distinct else unions


def _bound(operand: Operand, context: Context, bind: BindQuery) -> Branch:
    return operand if isinstance(operand, tuple) else (bind(operand, context), operand)


def _applied(query: exp.SetOperation, branches: list[Branch], context: Context) -> Relation:
    distinct = bool(query.args.get("distinct"))
    if isinstance(query, exp.Union):
        united = union_all(branches, "UNION" if distinct else "UNION ALL", context)
        return bind_distinct(united, query, (), context) if distinct else united
    left, right = branches
    return compared(left, right, SetKind(f"{type(query).__name__.upper()}{'' if distinct else ' ALL'}"), context)
