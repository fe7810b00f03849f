"""IN with a subquery over finished data, where its NULL is seen.

Spark decides IN by an existence join, which knows TRUE and FALSE alone: it is right among the conditions that rows must
fulfil, where NULL has the effect of FALSE. As a value, below NOT, IS NULL and CASE and in ON, IN is written as what
decides it: whether a row is equal, and whether a comparison with some row is NULL (``planner.memberships``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import reduce

from sqlglot import exp

from sqlstream.planner.expressions import conjuncts, has_grouping_sets
from sqlstream.planner.fields import Field
from sqlstream.planner.memberships import UnknownCase, unknown_cases
from sqlstream.planner.row_values import row_values
from sqlstream.planner.type_inference import Types
from sqlstream.types import UNKNOWN

_LISTED = "__listed"


class Memberships:
    """Finds the IN predicates with subqueries for which a NULL result has the same effect as FALSE, for instance
    conditions of WHERE.

    ``filled`` maps the name that a table has in the query to the lower-case names of its NOT NULL columns.
    """

    def __init__(self, filled: Mapping[str, Collection[str]]) -> None:
        self._filled = filled
        self._null_is_false: set[int] = set()

    def visit(self, node: exp.Expr) -> None:
        """Records which operands of ``node`` are conditions for which NULL has the same effect as FALSE. Call it for
        outer nodes before inner ones.
        """
        match node:
            case exp.Where() | exp.Having() | exp.Qualify():
                self._null_is_false.add(id(node.this))
            case exp.And() | exp.Or() | exp.Paren() if id(node) in self._null_is_false:
                self._null_is_false.update(map(id, node.iter_expressions()))
            case exp.Not(this=exp.Expr() as inner) if id(node) in self._null_is_false:
                if isinstance(plain := inner.unnest(), exp.In):  # NOT IN is one operator of Spark
                    self._null_is_false.add(id(plain))
            case exp.Case() if node.this is None:
                self._null_is_false.update(id(branch.this) for branch in node.args["ifs"])

    def replaced(self, written: exp.Expr, node: exp.Expr) -> None:
        """Records that the expression ``node`` has taken the place of ``written`` in the query, so that NULL has the
        same effect in it.
        """
        if id(written) in self._null_is_false:
            self._null_is_false.add(id(node))

    def is_condition(self, node: exp.Expr) -> bool:
        """True if a NULL result of the node has the same effect as FALSE."""
        return id(node) in self._null_is_false

    def unknown(self, node: exp.In, query: exp.Expr) -> list[UnknownCase]:
        """Returns one ``UnknownCase`` for each combination of NULLs, in the value before IN and in a row of the
        subquery ``query``, for which IN is NULL.
        """
        operands = row_values(node.this, _width(query)) or [node.this]
        select = node.find_ancestor(exp.Select)
        own = [not self._is_filled(value, select) for value in operands]
        theirs = [not self._gives_values(query, i) for i in range(len(operands))]
        return unknown_cases(own, theirs)

    # --- what is never NULL -------------------------------------------------------------------------------------

    def _gives_values(self, query: exp.Expr, position: int) -> bool:
        """Whether a column of a query's result is never NULL."""
        match query:
            case exp.Subquery():
                return self._gives_values(query.this, position)
            case exp.SetOperation():
                return self._gives_values(query.this, position) and self._gives_values(query.expression, position)
            case exp.Values():
                rows = (row.expressions if isinstance(row, exp.Tuple) else [row] for row in query.expressions)
                return all(position < len(row) and self._is_filled(row[position], None) for row in rows)
            case exp.Select():
                shown = query.expressions[: position + 1]
                whole = len(shown) > position and not any(e.is_star for e in shown)
                return whole and self._is_filled(shown[position].unalias(), query)
        return False

    def _is_filled(self, value: exp.Expr, select: exp.Expr | None) -> bool:
        """Whether an expression over the tables of a SELECT is certainly not NULL."""
        nullable: dict[str, bool] = {}
        for column in value.find_all(exp.Column):
            nullable[column.name] = nullable.get(column.name, False) or not self._has_value(column, select)
        return not Types(tuple(Field(name, UNKNOWN, n) for name, n in nullable.items())).nullable(value)

    def _has_value(self, column: exp.Column, select: exp.Expr | None) -> bool:
        if not isinstance(select, exp.Select) or len(column.parts) > 2 or has_grouping_sets(select):
            return False
        if any(_says_filled(condition, column) for condition in _where(select)):
            return True
        joins = select.args.get("joins") or []
        if select.args.get("laterals") or any(join.side or join.text("method") for join in joins):
            return False
        return any(self._of_source(source, column) for source in _sources(select))

    def _of_source(self, source: exp.Expr, column: exp.Column) -> bool:
        """Whether a column is one of this table of FROM, and is never NULL."""
        if column.table and column.table.casefold() != source.alias_or_name.casefold():
            return False
        alias = source.args.get("alias")
        renamed = [c.name.casefold() for c in alias.columns] if isinstance(alias, exp.TableAlias) else []
        name = column.name.casefold()
        if isinstance(source, exp.Table):
            return not renamed and not source.args.get("joins") and name in self._filled.get(source.name, ())
        if not isinstance(source, exp.Subquery | exp.Values) or source.args.get("joins"):
            return False
        query = source.this if isinstance(source, exp.Subquery) else source
        if renamed:
            return name in renamed and self._gives_values(query, renamed.index(name))
        if not isinstance(query, exp.Select) or any(e.is_star for e in query.expressions):
            return False
        named = [i for i, e in enumerate(query.expressions) if e.alias_or_name.casefold() == name]
        return len(named) == 1 and self._gives_values(query, named[0])


def with_unknown(membership: exp.In, cases: Sequence[UnknownCase]) -> exp.Expr:
    """Returns the IN predicate with a subquery for Spark SQL, wrapped in CASE so that it is NULL in the ``cases`` in
    which SQL requires that.
    """
    query = membership.args["query"]
    operands = row_values(membership.this, _width(query)) or [membership.this]
    unknown = [_holds(operands, query, case) for case in cases]
    either = reduce(lambda a, b: exp.Or(this=a, expression=b), unknown)
    answers = exp.Case().when(membership, exp.true(), copy=False).when(either, exp.Null(), copy=False)
    return exp.Paren(this=answers.else_(exp.false(), copy=False))


def _holds(operands: Sequence[exp.Expr], query: exp.Expr, case: UnknownCase) -> exp.Expr:
    names = [exp.to_identifier(f"__value_{i}", quoted=True) for i in range(len(operands))]
    rows: exp.Expr = query
    if case.equal or case.theirs:
        alias = exp.TableAlias(this=exp.to_identifier(_LISTED), columns=[name.copy() for name in names])
        shown: list[exp.Expr] = [exp.column(names[i].copy()) for i in case.equal] or [exp.Literal.number(1)]
        select = exp.Select(
            expressions=shown, from_=exp.From(this=exp.Subquery(this=query.unnest().copy(), alias=alias))
        )
        if case.theirs:
            select.set("where", exp.Where(this=_all_null(exp.column(names[i].copy()) for i in case.theirs)))
        rows = exp.Subquery(this=select)
    compared = [operands[i].copy() for i in case.equal]
    if not compared:
        member: exp.Expr = exp.Exists(this=rows.unnest().copy())
    else:
        member = exp.In(this=compared[0] if len(compared) == 1 else exp.Tuple(expressions=compared), query=rows)
    if not case.own:
        return member
    return exp.Paren(this=exp.And(this=_all_null(operands[i].copy() for i in case.own), expression=member))


def _all_null(values: Iterator[exp.Expr]) -> exp.Expr:
    plain = (value if isinstance(value, exp.Column) else exp.Paren(this=value) for value in values)
    checks: Iterator[exp.Expr] = (exp.Is(this=value, expression=exp.Null()) for value in plain)
    return reduce(lambda a, b: exp.And(this=a, expression=b), checks)


def _width(query: exp.Expr) -> int | None:
    """The number of columns of a subquery; None where * is among them."""
    while isinstance(query, exp.Subquery | exp.SetOperation):
        query = query.this
    if isinstance(query, exp.Values):
        first = query.expressions[0]
        return len(first.expressions) if isinstance(first, exp.Tuple) else 1
    return None if not isinstance(query, exp.Select) or query.is_star else len(query.expressions)


def _where(select: exp.Select) -> list[exp.Expression]:
    where = select.args.get("where")
    return conjuncts(where.this) if where is not None else []


def _says_filled(condition: exp.Expr, column: exp.Column) -> bool:
    plain = condition.unnest()
    match plain:
        case exp.Not(this=exp.Is(this=exp.Column() as checked, expression=exp.Null())):
            return checked.sql().casefold() == column.sql().casefold()
    return False


def _sources(select: exp.Select) -> Iterator[exp.Expr]:
    start = select.args.get("from_")
    if start is not None:
        yield start.this
    for join in select.args.get("joins") or ():
        yield join.this
