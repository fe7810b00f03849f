"""Plans rebuilt: nodes with other inputs, rules applied everywhere, fields replaced in expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import singledispatch
from typing import TypeVar

from sqlglot import exp

from sqlstream.functions.catalogue import FUNCTIONS, kind_of
from sqlstream.grammar.chains import balanced
from sqlstream.planner import firing
from sqlstream.planner.firing import Firing
from sqlstream.planner.functions.calls import spark_name
from sqlstream.planner.nodes import Filter, Insert, Node, StatementSet, Unary, Union

LocalRule = Callable[[Node], Node]
N = TypeVar("N", bound=exp.Expr)

_VOLATILE = frozenset(name for name, function in FUNCTIONS.items() if function.volatile)
"""Functions that give another result at every call."""


def with_inputs(node: Node, inputs: tuple[Node, ...]) -> Node:
    """The node over other inputs; itself where they are the same."""
    if all(new is old for new, old in zip(inputs, node.inputs, strict=True)):  # equality compares whole plans
        return node
    return over(node, inputs)


@singledispatch
def over(node: Node, inputs: tuple[Node, ...]) -> Node:
    """The node over other inputs, which need not differ."""
    raise TypeError(f"{type(node).__name__} has no inputs")


@over.register
def _(node: Unary, inputs: tuple[Node, ...]) -> Node:
    return replace(node, input=inputs[0])


@over.register
def _(node: Union, inputs: tuple[Node, ...]) -> Node:
    return replace(node, branches=inputs)


@over.register
def _(node: StatementSet, inputs: tuple[Node, ...]) -> Node:
    return replace(node, inserts=tuple(insert for insert in inputs if isinstance(insert, Insert)))


def bottom_up(node: Node, rule: LocalRule) -> Node:
    """``rule`` applied to every node, inputs first."""
    return rule(with_inputs(node, tuple(bottom_up(child, rule) for child in node.inputs)))


def node_of(expression: exp.Expr) -> exp.Expression:
    """sqlglot annotates operands with a mixin of its nodes; each is an Expression."""
    assert isinstance(expression, exp.Expression)
    return expression


def columns_of(expression: exp.Expr) -> set[str]:
    """The fields that an expression reads."""
    return {c.name for c in expression.find_all(exp.Column)}


def own_expressions(select: exp.Select) -> Iterator[exp.Expr]:
    """What stands in the SELECT but not in a query inside it, which binds by itself: walked with every query around it,
    nested queries would take a time that is quadratic in their depth.
    """
    return select.walk(prune=lambda node: node is not select and isinstance(node, exp.Query))


def over_children(node: exp.Expr, change: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """A copy of the node whose children are what ``change`` makes of its own; types are copied.

    All children of a list are set at once: sqlglot's ``replace`` numbers the whole list again for each.
    """

    def changed(value: object) -> object:
        if not isinstance(value, exp.Expr):
            return value
        return value.copy() if isinstance(value, exp.DataType) else change(value)

    copy = type(node)()
    if node._meta is not None:
        copy._meta = dict(node._meta)
    for key, value in node.args.items():
        copy.set(key, [changed(v) for v in value] if isinstance(value, list) else changed(value))
    return copy


def with_args(node: N, **args: object) -> N:
    """A copy with other ``args``, which shares all others with the node: whoever reads it must not change them."""
    copy = type(node)()
    if node._meta is not None:
        copy._meta = dict(node._meta)
    copy.args = dict(node.args)
    for key, value in args.items():
        copy.set(key, value)
    return copy


def rewritten(expression: exp.Expr, rule: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """A copy in which ``rule`` has replaced expressions, outer ones first; what it returns is not looked into."""

    def change(node: exp.Expr) -> exp.Expr:
        changed = rule(node)
        return changed if changed is not node else over_children(node, change)

    return change(expression)


def fitted(value: exp.Expression) -> exp.Expression:
    """The expression in place of a field: in parentheses unless it is a name or a call."""
    return exp.Paren(this=value) if isinstance(value, (exp.Binary, exp.Unary, exp.Between, exp.In)) else value


def substituted(expression: exp.Expr, values: Mapping[str, exp.Expression]) -> exp.Expression:
    """A copy with fields replaced by expressions, which get parentheses where they are no names or calls."""

    def value(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or node.name not in values:
            return node
        return fitted(values[node.name].copy())

    return node_of(rewritten(expression, value))


def firing_expressions(fires: Firing) -> Iterator[exp.Expression]:
    """What triggers, evictors and late data compute of each row."""
    for trigger in firing.simple_triggers(fires.trigger):
        yield from _trigger_expressions(trigger)
    if fires.eviction is not None and isinstance(fires.eviction.evictor, firing.EvictDelta):
        yield from (fires.eviction.evictor.value, fires.eviction.evictor.threshold)
    yield from fires.late.values


def _trigger_expressions(trigger: firing.Trigger) -> tuple[exp.Expression, ...]:
    match trigger:
        case firing.When(condition=condition):
            return (condition,)
        case firing.Delta(value=value, threshold=threshold):
            return (value, threshold)
    return ()


def read_by_firing(fires: Firing) -> set[str]:
    """The fields that the firing reads; late data may read the bounds of the window among them."""
    return set().union(*map(columns_of, firing_expressions(fires)))


def conjuncts(condition: exp.Expr) -> list[exp.Expression]:
    """The operands of AND, in order."""
    operands: list[exp.Expression] = []
    waiting = [condition]
    while waiting:
        match waiting.pop():
            case exp.And() as both:
                waiting += (both.right, both.left)
            case exp.Paren(this=exp.And() as inner):
                waiting.append(inner)
            case operand:
                operands.append(node_of(operand))
    return operands


def conjunction(conditions: list[exp.Expression]) -> exp.Expression:
    """AND of one or more conditions, as the parser makes it of them."""
    if len(conditions) == 1:
        return conditions[0]
    return node_of(balanced(exp.And, [_operand(c) for c in conditions]))


def with_balanced_condition(node: Node) -> Node:
    """A filter whose conditions came one by one, with all of them as one balanced conjunction."""
    if isinstance(node, Filter) and isinstance(node.condition, exp.And):
        return replace(node, condition=conjunction(conjuncts(node.condition)))
    return node


def both(left: exp.Expression, right: exp.Expression) -> exp.Expression:
    """Two conjunctions as one, whose operands are not looked at: see ``with_balanced_condition``."""
    return exp.And(this=_operand(left), expression=_operand(right))


def _operand(condition: exp.Expr) -> exp.Expr:
    return exp.Paren(this=condition) if isinstance(condition, exp.Or) else condition


def has_subquery(expression: exp.Expr) -> bool:
    """True also of VALUES, which IN takes for a subquery, and of a query itself."""
    return expression.find(exp.Query, exp.Values) is not None


def asked_of(node: exp.In) -> exp.Expr | None:
    """The subquery of IN, as a part of which the parser lists VALUES; None where it compares with values alone."""
    listed = node.expressions
    return listed[0] if len(listed) == 1 and isinstance(listed[0], exp.Values) else node.args.get("query")


def is_repeatable(expression: exp.Expr) -> bool:
    """True where evaluating twice gives the same and runs no code of the user."""
    return all(map(is_repeatable_alone, expression.walk()))


def is_repeatable_alone(node: exp.Expr) -> bool:
    """``is_repeatable`` without what is inside the expression."""
    name = spark_name(node) if isinstance(node, exp.Func) else None
    return name not in _VOLATILE and not (isinstance(node, exp.Anonymous) and not _is_builtin(node))


def _is_builtin(call: exp.Anonymous) -> bool:
    return kind_of(call.name) is not None
