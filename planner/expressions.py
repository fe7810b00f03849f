"""Expressions of plans: read, rewritten, and written as SQL."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from sqlglot import exp

from sqlstream.functions.catalogue import FUNCTIONS, kind_of
from sqlstream.grammar.dialect import SqlStream
from sqlstream.grammar.trees import balanced
from sqlstream.planner.functions.calls import spark_name

N = TypeVar("N", bound=exp.Expr)

_VOLATILE = frozenset(name for name, function in FUNCTIONS.items() if function.volatile)
"""Functions that give another result at every call."""


def as_expression(expression: exp.Expr) -> exp.Expression:
    """The argument itself, typed as ``Expression``, because sqlglot annotates operands with a mixin of its nodes."""
    assert isinstance(expression, exp.Expression)
    return expression


def columns_of(expression: exp.Expr) -> set[str]:
    """The fields that an expression reads."""
    return {c.name for c in expression.find_all(exp.Column)}


def own_expressions(select: exp.Expr) -> Iterator[exp.Expr]:
    """Yields the nodes of a SELECT, without those of queries inside it, which are bound separately.

    If every outer query walked them too, the time would be quadratic in the depth of nesting.
    """
    return select.walk(prune=lambda node: node is not select and isinstance(node, exp.Query))


@dataclass(frozen=True)
class Names:
    """The column and table names that a query uses, including the queries inside it.

    ``qualified`` has each column written with its table (``t.x``), as a pair of the first part of the name in lower
    case and the column. ``tables`` are the lower-case names or aliases of all tables in FROM. ``columns`` are the
    lower-case names of all columns, written with a table or without.
    """

    qualified: tuple[tuple[str, exp.Column], ...]
    tables: frozenset[str]
    columns: frozenset[str]

    @property
    def outer(self) -> list[exp.Column]:
        """The columns written with a table (``t.x``) that no FROM of these queries has, so that they must belong to an
        outer query.
        """
        return [column for table, column in self.qualified if table not in self.tables]


_NAMES = "_names"
_SOURCES = (exp.Table, exp.Subquery, exp.Unnest, exp.Lateral)


def names_in(query: exp.Expr) -> Names:
    """Returns the names that a query uses. They are cached on the node, because at each level of nesting every outer
    query asks for them.
    """
    known: Names | None = query.__dict__.get(_NAMES)
    if known is not None:
        return known
    qualified, tables, columns = list[tuple[str, exp.Column]](), set[str](), set[str]()
    for node in own_expressions(query):
        if isinstance(node, _SOURCES):
            tables.add(node.alias_or_name.casefold())
        if isinstance(node, exp.Query) and node is not query:
            inner = names_in(node)
            qualified += inner.qualified
            tables |= inner.tables
            columns |= inner.columns
        elif isinstance(node, exp.Column):
            columns.add(node.name.casefold())
            if node.table:
                qualified.append((node.parts[0].name.casefold(), node))
    known = Names(tuple(qualified), frozenset(tables), frozenset(columns))
    query.__dict__[_NAMES] = known  # copies of a node do not have it
    return known


def with_children_changed(node: exp.Expr, change: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """Returns a copy of the node in which ``change(child)`` replaces each child; types are copied.

    All children of a list are set at once, because sqlglot's ``replace`` would renumber the whole list for each.
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
    """Returns a copy of a syntax node with some arguments replaced: ``with_args(select, order=None)`` removes ORDER BY.
    All other arguments are shared with the original, so do not change them in place.
    """
    copy = type(node)()
    if node._meta is not None:
        copy._meta = dict(node._meta)
    copy.args = dict(node.args)
    for key, value in args.items():
        copy.set(key, value)
    return copy


def rewritten(expression: exp.Expr, rule: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """Returns a copy in which ``rule`` was applied to every part of the expression, outer parts first. If it returns
    another expression, this replaces the part and is not visited again.
    """

    def change(node: exp.Expr) -> exp.Expr:
        changed = rule(node)
        return changed if changed is not node else with_children_changed(node, change)

    return change(expression)


def parenthesized(value: exp.Expression) -> exp.Expression:
    """Returns the expression in parentheses, unless it is a name or a call, so that it can replace a field in a larger
    expression.
    """
    return exp.Paren(this=value) if isinstance(value, (exp.Binary, exp.Unary, exp.Between, exp.In)) else value


def substituted(expression: exp.Expr, values: Mapping[str, exp.Expression]) -> exp.Expression:
    """Returns a copy in which fields are replaced by the expressions that ``values`` has for their names, in
    parentheses where necessary.
    """

    def value(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or node.name not in values:
            return node
        return parenthesized(values[node.name].copy())

    return as_expression(rewritten(expression, value))


def conjuncts(condition: exp.Expr) -> list[exp.Expression]:
    """The conditions that AND connects, in order; the condition itself if it is not an AND."""
    operands: list[exp.Expression] = []
    waiting = [condition]
    while waiting:
        match waiting.pop():
            case exp.And() as both:
                waiting += (both.right, both.left)
            case exp.Paren(this=exp.And() as inner):
                waiting.append(inner)
            case operand:
                operands.append(as_expression(operand))
    return operands


def conjunction(conditions: list[exp.Expression]) -> exp.Expression:
    """Connects one or more conditions by AND, nested as the parser does it."""
    if len(conditions) == 1:
        return conditions[0]
    return as_expression(balanced(exp.And, [_operand(c) for c in conditions]))


def both(left: exp.Expression, right: exp.Expression) -> exp.Expression:
    """Returns ``left AND right`` in constant time: unlike ``conjunction``, it does not walk the conditions, which may
    be long chains of AND. The chain that results is balanced later (``with_balanced_condition``).
    """
    return exp.And(this=_operand(left), expression=_operand(right))


def _operand(condition: exp.Expr) -> exp.Expr:
    return exp.Paren(this=condition) if isinstance(condition, exp.Or) else condition


def is_one_group(group: exp.Expr | None) -> bool:
    """True for GROUP BY () and GROUP BY GROUPING SETS (()), which make one group of all rows, even of none."""
    if group is None or any(group.args.get(key) for key in ("all", "cube", "rollup", "grouping_sets")):
        return False
    terms = group.expressions
    if len(terms) == 1 and isinstance(terms[0], exp.GroupingSets):
        terms = terms[0].expressions
        return len(terms) == 1 and isinstance(terms[0], exp.Tuple) and not terms[0].expressions
    return bool(terms) and all(isinstance(term, exp.Tuple) and not term.expressions for term in terms)


def has_grouping_sets(select: exp.Expr) -> bool:
    """Whether GROUP BY of a SELECT has grouping sets, in any spelling: ``GROUPING SETS (…)``, ``CUBE (…)``,
    ``ROLLUP (…)``, or ``WITH ROLLUP`` after the keys.
    """
    group = select.args.get("group")
    if group is None:
        return False
    among = any(isinstance(key.unnest(), exp.GroupingSets | exp.Cube | exp.Rollup) for key in group.expressions)
    return among or any(group.args.get(key) for key in ("grouping_sets", "cube", "rollup"))


def has_subquery(expression: exp.Expr) -> bool:
    """True for a query, and for an expression that contains one, also ``IN (VALUES …)``."""
    return expression.find(exp.Query, exp.Values) is not None


def subquery_of_in(node: exp.In) -> exp.Expr | None:
    """The subquery of IN, also if it is VALUES, which the parser puts into the list; None for lists of values."""
    listed = node.expressions
    return listed[0] if len(listed) == 1 and isinstance(listed[0], exp.Values) else node.args.get("query")


def is_repeatable(expression: exp.Expr) -> bool:
    """True if the expression may be evaluated twice: it has the same result both times and runs no code of the user."""
    return all(map(is_repeatable_alone, expression.walk()))


def is_repeatable_alone(node: exp.Expr) -> bool:
    """Like ``is_repeatable``, but only for the topmost node of an expression; its operands are ignored."""
    name = spark_name(node) if isinstance(node, exp.Func) else None
    return name not in _VOLATILE and not (isinstance(node, exp.Anonymous) and kind_of(node.name) is None)


def is_volatile(expression: exp.Expr) -> bool:
    """Whether a part of the expression may return another result at each call."""
    return any(isinstance(node, exp.Func) and spark_name(node) in _VOLATILE for node in expression.walk())


# --- as SQL ---------------------------------------------------------------------------------------------------

_PLAIN = re.compile(r"[A-Za-z_]\w*")


def sql(expression: exp.Expr) -> str:
    """The SQL text of an expression, with backticks only where a name needs them."""
    if isinstance(expression, exp.Column) and len(expression.parts) == 1:  # most of a plan, the same few over and over
        return _field(expression.name)
    return _spelled(expression.copy())


@lru_cache(4096)
def _field(name: str) -> str:
    return _spelled(exp.column(name, quoted=True))


def _spelled(own: exp.Expr) -> str:
    """The SQL of an expression that nobody else has."""
    for identifier in own.find_all(exp.Identifier):
        if _PLAIN.fullmatch(identifier.name):
            identifier.set("quoted", False)
    return own.sql(SqlStream, comments=False, copy=False)


# --- constant parts of expressions, computed where SQL's NULLs, types and overflows cannot make a difference -----


_INT_LIMIT = 2**31
_INT_DIGITS = 10

_ARITHMETIC = {exp.Add: operator.add, exp.Sub: operator.sub, exp.Mul: operator.mul}
_COMPARISONS = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}


def folded(expression: exp.Expr) -> exp.Expression:
    """A copy with constant parts computed."""
    return as_expression(_fold(with_children_changed(expression, folded)))


def _fold(node: exp.Expr) -> exp.Expr:
    match node:
        case exp.Paren(this=exp.Column() | exp.Literal() | exp.Boolean() | exp.Paren() as inner):
            return inner
        case exp.Not(this=exp.Boolean() as inner):
            return exp.Boolean(this=not inner.this)
        case exp.And() | exp.Or():
            return _logic(node)
        case exp.Add() | exp.Sub() | exp.Mul():
            return _arithmetic(node)
        case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
            return _comparison(node)
    return node


def _logic(node: exp.Connector) -> exp.Expr:
    """``x AND TRUE`` is x and ``x AND FALSE`` is FALSE, also for NULL; OR the other way round."""
    neutral = isinstance(node, exp.And)
    if is_boolean(node.left, neutral):
        return node.right
    if is_boolean(node.right, neutral):
        return node.left
    if is_boolean(node.left, not neutral) or is_boolean(node.right, not neutral):
        return exp.Boolean(this=not neutral)
    return node


def _arithmetic(node: exp.Binary) -> exp.Expr:
    """Of two INT literals whose result is an INT, so that neither the type nor an overflow error changes."""
    values = _integers(node)
    if values is None:
        return node
    result = _ARITHMETIC[type(node)](*values)
    if not -_INT_LIMIT < result < _INT_LIMIT:
        return node
    literal = exp.Literal.number(abs(result))
    return exp.Neg(this=literal) if result < 0 else literal


def _comparison(node: exp.Binary) -> exp.Expr:
    values = _integers(node)
    return node if values is None else exp.Boolean(this=_COMPARISONS[type(node)](*values))


def _integers(node: exp.Binary) -> tuple[int, int] | None:
    left, right = _integer(node.left), _integer(node.right)
    return None if left is None or right is None else (left, right)


def _integer(node: exp.Expr) -> int | None:
    if isinstance(node, exp.Neg):
        inner = _integer(node.this)
        return None if inner is None else -inner
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
        digits = node.name.lstrip("0") or "0"  # Python reads no number of thousands of digits
        return value if len(digits) <= _INT_DIGITS and (value := int(digits)) < _INT_LIMIT else None
    return None


def is_boolean(node: exp.Expr, value: bool) -> bool:
    """True for the literal TRUE or FALSE that equals ``value``."""
    return isinstance(node, exp.Boolean) and node.this is value
