"""Plans rebuilt: nodes with other inputs, rules applied everywhere, fields replaced in expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from sqlglot import exp

from sqlstream.planner.functions.kinds import kind_of, spark_name
from sqlstream.planner.nodes import Node, Unary, Union

LocalRule = Callable[[Node], Node]

# Functions of Spark that give another result at every call.
_VOLATILE = frozenset({
    "rand", "random", "randn", "randstr", "uniform", "uuid", "shuffle", "monotonically_increasing_id", "now", "curdate",
    "spark_partition_id", "input_file_name", "current_timestamp", "current_date", "localtimestamp", "unix_timestamp",
})  # fmt: skip


def with_inputs(node: Node, inputs: tuple[Node, ...]) -> Node:
    """The node over other inputs; itself where they are the same."""
    if inputs == node.inputs:
        return node
    match node:
        case Unary():
            return replace(node, input=inputs[0])
        case Union():
            return replace(node, branches=inputs)
    raise TypeError(f"{type(node).__name__} has no inputs")


def bottom_up(node: Node, rule: LocalRule) -> Node:
    """``rule`` applied to every node, inputs first."""
    return rule(with_inputs(node, tuple(bottom_up(child, rule) for child in node.inputs)))


def node_of(found: exp.Expr) -> exp.Expression:
    """sqlglot annotates operands with a mixin of its nodes; each is an Expression."""
    assert isinstance(found, exp.Expression)
    return found


def columns_of(expression: exp.Expr) -> set[str]:
    """The fields that an expression reads."""
    return {c.name for c in expression.find_all(exp.Column)}


def substituted(expression: exp.Expr, values: Mapping[str, exp.Expression]) -> exp.Expression:
    """A copy with fields replaced by expressions, which get parentheses where they are no names or calls."""

    def value(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or node.name not in values:
            return node
        found = values[node.name].copy()
        return exp.Paren(this=found) if isinstance(found, (exp.Binary, exp.Unary, exp.Between, exp.In)) else found

    return node_of(expression.copy().transform(value))


def conjuncts(condition: exp.Expr) -> list[exp.Expression]:
    """The operands of AND, in order."""
    match condition:
        case exp.And():
            return [*conjuncts(condition.left), *conjuncts(condition.right)]
        case exp.Paren(this=exp.And() as inner):
            return conjuncts(inner)
    return [node_of(condition)]


def conjunction(conditions: list[exp.Expression]) -> exp.Expression:
    """AND of one or more conditions."""
    result = conditions[0]
    for condition in conditions[1:]:
        result = exp.And(this=_operand(result), expression=_operand(condition))
    return result


def _operand(condition: exp.Expr) -> exp.Expr:
    return exp.Paren(this=condition) if isinstance(condition, exp.Or) else condition


def is_repeatable(expression: exp.Expr) -> bool:
    """True where evaluating twice gives the same and runs no code of the user."""
    for node in expression.walk():
        name = spark_name(node) if isinstance(node, exp.Func) else None
        if name in _VOLATILE or (isinstance(node, exp.Anonymous) and not _is_builtin(node)):
            return False
    return True


def _is_builtin(call: exp.Anonymous) -> bool:
    return kind_of(call.name) is not None
