"""Subqueries that read columns of the query around them: those conditions of WHERE become conditions of a join.

What such a condition reads of the subquery is selected in addition, and grouped by where the subquery aggregates, as in
Flink's SubQueryDecorrelator.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from sqlstream.grammar.spans import span_of
from sqlstream.grammar.trees import clauses_of
from sqlstream.planner import unsupported
from sqlstream.planner.binder.calls import aggregate_name
from sqlstream.planner.binder.scope import Scope, Visible
from sqlstream.planner.catalog import Catalog
from sqlstream.planner.expressions import conjunction, conjuncts, has_subquery, rewritten, with_args
from sqlstream.planner.fields import Field, Item, UniqueNames, field_of
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Project, extended
from sqlstream.planner.operators.group_aggregate import GroupAggregate
from sqlstream.types import BIGINT, BOOLEAN

_COUNTS = frozenset({"count", "count_if", "approx_count_distinct", "regr_count"})
_GROUPED = "With aggregates and DISTINCT it may read columns of the query around it in equalities alone."
_ABOVE = "With OVER, GROUPING SETS, or HAVING without GROUP BY it must not read columns of the query around it."


@dataclass
class Correlation:
    """What one subquery reads of the query ``around`` it, collected while the subquery is bound.

    ``is_set``: only the set of its rows matters, as for IN and EXISTS; ``lists``: its columns are used. ``conditions``
    are as written, except that the expressions over the subquery, listed in ``selected``, are replaced by
    ``reference``. ``keyed``: all conditions are equalities, or read only the query around. ``one_row``: it aggregates
    without GROUP BY, and ``default`` is the value of its aggregate over no rows, None for NULL.
    """

    around: Scope
    prefix: str
    is_set: bool
    lists: bool
    conditions: list[exp.Expr] = field(default_factory=list)
    selected: list[exp.Expr] = field(default_factory=list)
    keyed: bool = True
    one_row: bool = False
    default: exp.Expr | None = None

    def reference(self, name: str) -> exp.Column:
        """The name by which conditions refer to the subquery's results: ``key_0`` is the first of ``selected``."""
        return exp.column(exp.to_identifier(f"{self.prefix}_{name}", quoted=True))

    def split_where(
        self, select: exp.Select, where: exp.Expr | None, inside: Scope, *, aggregates: bool, catalog: Catalog
    ) -> tuple[exp.Select, exp.Expr | None]:
        """Takes the conditions that read the query around out of the subquery's WHERE. UnsupportedError SS308.

        Returns the subquery, which selects what those conditions need of it, and the rest of WHERE.
        """
        conditions = conjuncts(where) if where is not None else []
        reading = [c for c in conditions if self._reads_around(c, inside)]
        if self.is_set:
            select = with_args(select, distinct=None)
        if reading and not _may_read(select, aggregates):
            raise unsupported.refusal("correlated subquery", span_of(reading[0]), _ABOVE)
        window = clauses_of(select).window
        divided = aggregates or select.args.get("distinct") is not None
        for condition in reading:
            self._take(condition, inside, divided=divided)
        self.one_row = aggregates and not select.args.get("group") and not select.args.get("having") and window is None
        if self.one_row and self.lists:
            self.default = value_of_no_rows(select.expressions[0].unalias(), catalog)
        own = select.expressions if self.lists or aggregates else [] if self.selected else [exp.true()]
        select = with_args(select, expressions=[*map(_named, own), *(s.copy() for s in self.selected)])
        if aggregates and self.selected:
            keys = select.args["group"].expressions if select.args.get("group") else []
            select.set("group", exp.Group(expressions=[*keys, *(s.copy() for s in self.selected)]))
        if not reading:
            return select, where
        correlated = set(map(id, reading))
        rest = [c for c in conditions if id(c) not in correlated]
        return select, conjunction(rest) if rest else None

    def _take(self, condition: exp.Expr, inside: Scope, *, divided: bool) -> None:
        plain = condition.unnest()
        if has_subquery(plain):
            detail = "The condition reads columns of the query around it, and has a subquery itself."
            raise unsupported.refusal("correlated subquery", span_of(condition), detail)
        if all(self._is_around(c, inside) for c in plain.find_all(exp.Column)):
            self.conditions.append(condition)
            return
        if isinstance(plain, exp.EQ | exp.NullSafeEQ):
            sides = [plain.left.unnest(), plain.right.unnest()]
            reads = [{self._is_around(c, inside) for c in side.find_all(exp.Column)} for side in sides]
            if {True} in reads and {False} in reads:
                around, own = sides[reads.index({True})], sides[reads.index({False})]
                self.conditions.append(type(plain)(this=around.copy(), expression=self._selected(own)))
                return
        if divided:
            raise unsupported.refusal("correlated subquery", span_of(condition), _GROUPED)
        self.keyed = False
        self.conditions.append(rewritten(plain, lambda node: self._over_both(node, inside)))

    def _over_both(self, node: exp.Expr, inside: Scope) -> exp.Expr:
        is_own = isinstance(node, exp.Column) and not self._is_around(node, inside)
        return self._selected(node) if is_own else node

    def _selected(self, value: exp.Expr) -> exp.Expr:
        if value not in self.selected:
            self.selected.append(value)
        return self.reference(f"key_{self.selected.index(value)}")

    def _reads_around(self, condition: exp.Expr, inside: Scope) -> bool:
        return any(self._is_around(column, inside) for column in _columns(condition))

    def _is_around(self, column: exp.Column, inside: Scope) -> bool:
        """Whether a column belongs to the query around. Names of the subquery's own FROM have precedence."""
        return not inside.knows(column) and self.around.knows(column)


def _named(column: exp.Expr) -> exp.Expr:
    """A selected expression with a short alias if it has a subquery, whose default name would be its whole text."""
    if isinstance(column, exp.Alias | exp.Column) or not has_subquery(column):
        return column
    return exp.Alias(this=column, alias=exp.to_identifier("value", quoted=True))


def _columns(expression: exp.Expr) -> Iterator[exp.Column]:
    """The columns of an expression, without those of its subqueries."""
    nodes = expression.walk(prune=lambda node: isinstance(node, exp.Query))
    return (node for node in nodes if isinstance(node, exp.Column))


def _may_read(select: exp.Select, aggregates: bool) -> bool:
    group = select.args.get("group")
    if select.args.get("qualify") or any(e.find(exp.Window) is not None for e in select.expressions):
        return False
    if select.args.get("having") and not group:
        return False
    sets = group is not None and any(group.args.get(key) for key in ("grouping_sets", "cube", "rollup"))
    return not (aggregates and sets)


def value_of_no_rows(value: exp.Expr, catalog: Catalog) -> exp.Expr | None:
    """The value of an expression of aggregates over no rows: a count is 0, other aggregates NULL. None if it is
    NULL."""

    def alone(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Query):  # whose aggregates are of its own rows
            return with_args(node)
        name = aggregate_name(node, catalog)
        if name is None:
            return node
        return exp.Literal.number(0) if name in _COUNTS else exp.Null()

    value_of_none = rewritten(value, alone)
    return None if isinstance(value_of_none, exp.Null) else value_of_none


def without_order(query: exp.Expr, correlation: Correlation) -> exp.Expr:
    """The subquery without parentheses; as a set without ORDER BY, and for EXISTS without a LIMIT of at least one
    row."""
    plain = query
    while isinstance(plain, exp.Subquery) and not any(v for k, v in plain.args.items() if k not in ("this", "alias")):
        plain = plain.this
    limit = plain.args.get("limit")
    if not correlation.is_set or plain.args.get("offset") is not None:
        return plain
    if limit is not None and (correlation.lists or not _is_positive(limit.expression)):
        return plain
    return with_args(plain, order=None, limit=None)


def _is_positive(count: exp.Expr | None) -> bool:
    return isinstance(count, exp.Literal) and count.name.isdigit() and int(count.name) > 0


# --- the rows of a subquery as the side of a join -------------------------------------------------------------


@dataclass(frozen=True)
class SubqueryRows:
    """The rows of a subquery: all of them, each once, or one per key.

    ``values`` are the fields of the subquery's own columns, ``keys`` those that its conditions read. ``ttl_ms`` is the
    time to live of rows in state that makes them distinct, 0 for no limit. The scopes made here name the fields by
    ``reference``: ``value_0``, ``key_0``, ….
    """

    node: Node
    values: tuple[Field, ...]
    keys: tuple[Field, ...]
    read: Correlation
    ttl_ms: int

    def reference(self, name: str) -> exp.Column:
        """The column that conditions use for ``value_0``, ``key_0``, ``there``, and so on."""
        return self.read.reference(name)

    @property
    def names_of_keys(self) -> frozenset[str]:
        """The names of the key columns."""
        return frozenset(self.reference(name).name for name in _numbered("key", self.keys))

    @property
    def at_most_one(self) -> bool:
        """Whether the subquery gives at most one row for each row of the query around."""
        names = {field.name for field in self.keys}
        return any(key <= names for key in self.node.unique_keys)

    def all(self) -> Scope:
        """All rows."""
        return self._scope(self.node, {})

    def with_there(self) -> Scope:
        """All rows, with ``there``, which is TRUE."""
        there = self._there()
        return self._scope(extended(self.node, [there]), {"there": there.name})

    def distinct(self, *, values: bool) -> Scope:
        """Each key once, with or without its ``values``, and with ``there``, which is TRUE."""
        there = self._there()
        fields = (*self.keys, *(self.values if values else ()))
        below = Project(self.node, (there, *(field.as_item for field in fields)))
        node = GroupAggregate(below, tuple(f.name for f in below.schema), ttl_ms=self.ttl_ms)
        return self._scope(node, {"there": there.name})

    def nulls(self) -> Scope:
        """Each key once, with ``nulls``: whether the value of one of its rows is NULL."""
        (value,), names = self.values, self._names()
        rows, filled = (
            Item(names.unique(name), exp.Count(this=this), BIGINT, False)
            for name, this in (("rows", exp.Star()), ("filled", field_of(value.name)))
        )
        node = self._grouped(rows, filled)
        some = exp.GT(this=field_of(rows.name), expression=field_of(filled.name))
        nulls = Item(names.unique("nulls"), some, BOOLEAN, False)
        return self._scope(
            Project(node, (*(field.as_item for field in node.schema[: len(self.keys)]), nulls)), {"nulls": nulls.name}
        )

    def nulls_outside(self, compared: Sequence[int], among: Sequence[Sequence[int]], number: int) -> Scope:
        """Each key and each of the values at the positions ``compared`` once, as ``value_0_{number}``, and in how many
        of its rows all values at the positions ``among[i]`` are NULL, as ``nulls_{number}_{i}``."""
        names = self._names()
        checks = [_all_null(self.values[i] for i in nulls) for nulls in among if nulls]
        flags = [Item(names.unique("is_null"), exp.Case().when(check, exp.true()), BOOLEAN) for check in checks]
        counted = (field_of(flag.name) for flag in flags)
        these = [next(counted) if nulls else exp.Star() for nulls in among]
        counts = tuple(Item(names.unique("nulls"), exp.Count(this=this), BIGINT, False) for this in these)
        keys = {**_numbered("key", self.keys), **{f"value_{i}_{number}": self.values[i].name for i in compared}}
        below = extended(self.node, flags) if flags else self.node
        node = GroupAggregate(below, tuple(dict.fromkeys(keys.values())), counts, ttl_ms=self.ttl_ms)
        shown = {**keys, **{f"nulls_{number}_{i}": count.name for i, count in enumerate(counts)}}
        return Scope(node, tuple(Visible(self.reference(n).name, f, starred=False) for n, f in shown.items()))

    def single(self) -> Scope:
        """Each key once, with one value and ``rows``, the number of its rows."""
        (value,), names = self.values, self._names()
        any_value = Item(value.name, exp.AnyValue(this=field_of(value.name)), value.type, True)
        rows = Item(names.unique("rows"), exp.Count(this=exp.Star()), BIGINT, False)
        return self._scope(self._grouped(any_value, rows), {"rows": rows.name})

    def _grouped(self, *aggregates: Item) -> GroupAggregate:
        return GroupAggregate(self.node, tuple(f.name for f in self.keys), aggregates, ttl_ms=self.ttl_ms)

    def _there(self) -> Item:
        return Item(self._names().unique("there"), exp.true(), BOOLEAN, False)

    def _names(self) -> UniqueNames:
        return UniqueNames(f.name for f in self.node.schema)

    def _scope(self, node: Node, also: dict[str, str]) -> Scope:
        names = {**_numbered("key", self.keys), **_numbered("value", self.values), **also}
        own = {field.name for field in node.schema}
        return Scope(
            node,
            tuple(Visible(self.reference(n).name, f, starred=False) for n, f in names.items() if f in own),
        )


def _all_null(values: Iterable[Field]) -> exp.Expr:
    return exp.and_(*(exp.Is(this=field_of(value.name), expression=exp.Null()) for value in values), copy=False)


def _numbered(name: str, fields: Iterable[Field]) -> dict[str, str]:
    return {f"{name}_{i}": field.name for i, field in enumerate(fields)}
