"""Subqueries that read columns of the query around them, as joins.

Conditions of WHERE become conditions of the join: what they read of the subquery is selected in addition, and grouped
by where the subquery aggregates, as in Flink's SubQueryDecorrelator. Any other subquery is computed for each
combination of the values that it reads, which are joined into its FROM (Neumann and Kemper, "Unnesting Arbitrary
Queries", 2015).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from sqlstream.errors import BindError
from sqlstream.functions.result_types import common_type
from sqlstream.grammar.spans import span_of
from sqlstream.grammar.trees import clauses_of
from sqlstream.planner import unsupported
from sqlstream.planner.binder.calls import aggregate_name
from sqlstream.planner.binder.context import Context
from sqlstream.planner.binder.expressions import ClauseContext, bind, bind_condition, types_of
from sqlstream.planner.binder.joins import join_sides, scope_of_both, with_distinct_fields
from sqlstream.planner.binder.scope import Scope, Visible
from sqlstream.planner.catalog import Catalog
from sqlstream.planner.expressions import (
    as_expression,
    conjunction,
    conjuncts,
    has_grouping_sets,
    has_subquery,
    is_one_group,
    names_in,
    rewritten,
    with_args,
    with_children_changed,
)
from sqlstream.planner.fields import Field, Item, UniqueNames, field_of
from sqlstream.planner.kernel_expressions import pair_condition
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Project, extended
from sqlstream.planner.operators.group_aggregate import GroupAggregate
from sqlstream.planner.type_inference import Types
from sqlstream.types import BIGINT, BOOLEAN
from sqlstream.udfs.joins import JoinKind

_LISTS = frozenset({"collect_list", "collect_set"})
_COUNTS = frozenset({"count", "count_if", "approx_count_distinct", "regr_count"})
_NO_GROUPS = "With HAVING and without GROUP BY it must not read columns of the query around it."
_PLACE = ClauseContext("WHERE")
_WITHOUT_EQUALITY = frozenset({"MAP", "VARIANT"})
_NOT_DISTINCT = "Values of the types MAP and VARIANT cannot be compared, so it is not known which of them are distinct."


@dataclass(frozen=True)
class Limited:
    """ORDER BY and LIMIT of a subquery. In the order ``order``, its result has the rows from number ``first`` to number
    ``last``, counted from 1.

    The subquery selects the values of ``order`` as additional last columns. ``at`` is the syntax of the limit.
    """

    order: tuple[exp.Expr, ...]
    first: int
    last: int
    at: exp.Expr

    @property
    def is_nearest(self) -> bool:
        """Whether the subquery has LIMIT 1 and one ORDER BY value, as in a search for the nearest row."""
        return self.first == self.last == 1 and len(self.order) == 1


@dataclass
class Correlation:
    """How one subquery depends on the outer query. The caller makes it, and binding the subquery fills in the rest.

    From the caller: ``around`` is the scope of the outer query. ``prefix`` begins the names of columns for the join.
    ``is_set``: duplicate rows do not matter, as for IN and EXISTS. ``lists``: the outer query reads the subquery's
    columns; False for EXISTS. ``needs_keys``: the outer query and the subquery can only be joined on equalities.
    ``inner``: the join is an inner join, which may have any condition.

    Filled in: ``conditions`` are the conditions of WHERE that read the outer query. They are evaluated by the join, so
    the subquery selects the values that they need (``selected``), and they name these as ``reference`` does. ``keyed``
    is True if each of them is an equality, or reads only the outer query. ``one_row`` is True if the subquery
    aggregates without GROUP BY; ``defaults`` then are the values of its columns over no rows, None for NULL.
    ``limited`` is its LIMIT, per key if ``keyed``, else per outer row.
    """

    around: Scope
    prefix: str
    is_set: bool
    lists: bool
    needs_keys: bool = False
    inner: bool = False
    conditions: list[exp.Expr] = field(default_factory=list)
    selected: list[exp.Expr] = field(default_factory=list)
    keyed: bool = True
    one_row: bool = False
    defaults: list[exp.Expr | None] = field(default_factory=list)
    limited: Limited | None = None

    def reference(self, name: str) -> exp.Column:
        """The column by which a join condition names a result of the subquery: ``key_0`` is the first value that was
        selected for correlated conditions, ``value_0`` the subquery's first column. A prefix keeps it apart from the
        user's names.
        """
        return exp.column(exp.to_identifier(f"{self.prefix}_{name}", quoted=True))

    def start_of(self, select: exp.Select, context: Context) -> Scope | None:
        """For a subquery whose only source reads columns of the outer query, as in ``FROM UNNEST(o.items)``: returns
        the scope of the distinct outer values, from which its FROM starts. None for other subqueries.
        """
        if not select.args.get("from_"):
            return None
        source: exp.Expr = select.args["from_"].this
        call = source.this if isinstance(source, exp.Table) else source
        joined = any(owner.args.get(key) for owner in (select, source) for key in ("joins", "laterals"))
        if joined or not isinstance(call, exp.Unnest | exp.Lateral | exp.Func) or call.find(exp.Query) is not None:
            return None
        read = [column for column in call.find_all(exp.Column) if self.around.knows(column)]
        if not read:
            return None
        alias, position = source.args.get("alias"), source.args.get("offset")
        named = [*(alias.columns if isinstance(alias, exp.TableAlias) else ()), position]
        own = {*_GENERATED, source.alias_or_name.casefold()}
        own |= {name.name.casefold() for name in named if isinstance(name, exp.Identifier)}
        nothing = Scope(self.around.node, ())
        where = conjuncts(select.args["where"].this) if select.args.get("where") else []
        elsewhere = self._columns_around(select, where, nothing)
        read += [column for column in elsewhere if column.parts[0].name.casefold() not in own]
        values = self._values_around(read, nothing, context)
        columns = (replace(v, qualified=v.qualified or v.name.casefold() in own) for v in values.columns)
        return Scope(values.node, tuple(columns))

    def split(
        self, select: exp.Select, where: exp.Expr | None, inside: Scope, *, aggregates: bool, context: Context
    ) -> tuple[exp.Select, exp.Expr | None, Scope]:
        """Separates a subquery from the outer query. Returns three things: its SELECT without correlated conditions,
        the rest of its WHERE (None if nothing is left), and the scope of its FROM.

        Conditions of WHERE that read the outer query become conditions of the join with it. The subquery selects the
        values that they need, and an aggregation groups by these values. If other clauses read the outer query, FROM is
        first joined with the distinct outer values. ``inside`` is the scope of FROM, ``aggregates`` says whether the
        SELECT aggregates. UnsupportedError SS308 for HAVING without GROUP BY.
        """
        conditions = conjuncts(where) if where is not None else []
        reading = [c for c in conditions if self._reads_around(c, inside)]
        if self.is_set:
            select = with_args(select, distinct=None)
        outer = [*self._columns_around(select, conditions, inside)]
        if self.selected:  # its FROM has started with them
            select = _divided_over(select, self.selected)
        select, is_whole = _of_one_group(select)
        if outer and aggregates and select.args.get("having") and is_whole:
            raise unsupported.refusal("correlated subquery", span_of(outer[0]), _NO_GROUPS)
        self.one_row = aggregates and is_whole and not select.args.get("having")
        self.one_row = self.one_row and clauses_of(select).window is None
        if self.one_row and self.lists:
            self.defaults = [value_of_no_rows(e.unalias(), context.catalog) for e in select.expressions]
        if self._is_direct(select, outer, reading, inside, aggregates, context):
            for condition in reading:
                self._take(condition, inside)
        elif outer:
            reading = [c for c in reading if not has_subquery(c)]
            inside = self._joined_with_values(outer, reading, inside, context)
            select = _divided_over(select, self.selected)
        own = select.expressions if self.lists or aggregates else [] if self.selected else [exp.true()]
        select = with_args(select, expressions=[*map(_named, own), *(s.copy() for s in self.selected)])
        if aggregates and self.selected:
            select.set("group", _with_keys(select.args.get("group"), self.selected))
        if not reading:
            return select, where, inside
        taken = set(map(id, reading))
        rest = [c for c in conditions if id(c) not in taken]
        return select, conjunction(rest) if rest else None, inside

    # --- conditions as those of the join ------------------------------------------------------------------------

    def _is_direct(
        self,
        select: exp.Select,
        outer: Sequence[exp.Column],
        reading: Sequence[exp.Expr],
        inside: Scope,
        aggregates: bool,
        context: Context,
    ) -> bool:
        """Whether conditions of WHERE are all that reads the query around, and can be conditions of a join."""
        in_conditions = {id(column) for condition in reading for column in _columns(condition)}
        if any(id(column) not in in_conditions for column in outer) or any(map(has_subquery, reading)):
            return False
        if reading and not _may_read(select, aggregates):
            return False
        loose = [condition for condition in reading if not self._is_key(condition, inside)]
        if not self.inner and not all(self._has_common_type(c, inside, context) for c in reading if c not in loose):
            return False
        if not loose:
            return True
        if aggregates or select.args.get("distinct") is not None:
            return False
        if self.limited is None:
            return not self.needs_keys and (self.inner or all(self._is_decided(c, inside, context) for c in loose))
        return not self.is_set and len(loose) == 1 and self._is_nearest(select, loose[0], inside, context)

    def _is_key(self, condition: exp.Expr, inside: Scope) -> bool:
        """Whether a condition reads the query around alone, or says that a value of each is equal."""
        plain = condition.unnest()
        if all(self._is_around(column, inside) for column in _columns(plain)):
            return True
        if not isinstance(plain, exp.EQ | exp.NullSafeEQ):
            return False
        reads = [{self._is_around(c, inside) for c in _columns(side)} for side in (plain.left, plain.right)]
        return {True} in reads and {False} in reads

    def _is_decided(self, condition: exp.Expr, inside: Scope, context: Context) -> bool:
        """Whether kernels decide a condition on pairs of rows, as joins other than INNER need it."""
        pair, fields = self._paired(condition, inside, context)
        try:
            pair_condition(pair, self.around.node.schema, fields, context.catalog.function)
        except BindError:
            return False
        return True

    def _has_common_type(self, condition: exp.Expr, inside: Scope, context: Context) -> bool:
        """Whether the values of an equality can be the keys of a join, or their types are not known."""
        pair, fields = self._paired(condition, inside, context)
        if not isinstance(pair, exp.EQ | exp.NullSafeEQ):
            return True
        types = Types((*self.around.node.schema, *fields), context.catalog.function)
        kinds = [types.of(pair.left), types.of(pair.right)]
        return any(kind.is_unknown for kind in kinds) or not common_type(kinds).is_unknown

    def _paired(self, condition: exp.Expr, inside: Scope, context: Context) -> tuple[exp.Expression, tuple[Field, ...]]:
        """A condition over fields of the query around and of the subquery, and the latter."""
        own: dict[str, exp.Expr] = {}

        def bound(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Column):
                return node
            if self._is_around(node, inside):
                return self.around.resolve(node)
            name = self.reference(f"own_{len(own)}").name
            own[name] = inside.resolve(node)
            return field_of(name)

        pair, types = as_expression(rewritten(condition.unnest(), bound)), types_of(inside, context)
        return pair, tuple(Field(name, types.of(value)) for name, value in own.items())

    def _is_nearest(self, select: exp.Select, condition: exp.Expr, inside: Scope, context: Context) -> bool:
        """Whether the wanted row is the nearest one of those that the condition allows: the newest that is not after a
        row around, or the oldest that is not before it."""
        plain = condition.unnest()
        if self.limited is None or not self.limited.is_nearest or type(plain) not in NEWEST_FIRST:
            return False
        assert isinstance(plain, exp.Binary)
        reads = [{self._is_around(c, inside) for c in _columns(side)} for side in (plain.left, plain.right)]
        if reads not in ([{True}, {False}], [{False}, {True}]):
            return False
        own, (order,) = (plain.right if reads[1] == {False} else plain.left), self.limited.order
        newest_first = NEWEST_FIRST[type(plain)] is (reads[1] == {False})
        quiet = replace(context, problems={})
        ordered = select.expressions[-1]
        same = bind(own.unnest().copy(), inside, quiet, _PLACE) == bind(ordered.unnest().copy(), inside, quiet, _PLACE)
        return same and not quiet.problems and bool(order.args.get("desc")) is newest_first

    def _take(self, condition: exp.Expr, inside: Scope) -> None:
        plain = condition.unnest()
        if all(self._is_around(c, inside) for c in plain.find_all(exp.Column)):
            self.conditions.append(condition)
            return
        if self._is_key(plain, inside):
            assert isinstance(plain, exp.Binary)
            sides = [plain.left.unnest(), plain.right.unnest()]
            around, own = sides if self._is_around(next(_columns(sides[0])), inside) else reversed(sides)
            self.conditions.append(type(plain)(this=around.copy(), expression=self._selected(own)))
            return
        self.keyed = False
        self.conditions.append(rewritten(plain, lambda node: self._over_both(node, inside)))

    def _over_both(self, node: exp.Expr, inside: Scope) -> exp.Expr:
        is_own = isinstance(node, exp.Column) and not self._is_around(node, inside)
        return self._selected(node) if is_own else node

    def _selected(self, value: exp.Expr) -> exp.Expr:
        if value not in self.selected:
            self.selected.append(value)
        return self.reference(f"key_{self.selected.index(value)}")

    # --- columns of the query around ----------------------------------------------------------------------------

    def _reads_around(self, condition: exp.Expr, inside: Scope) -> bool:
        return any(self._is_around(column, inside) for column in _columns(condition))

    def _is_around(self, column: exp.Column, inside: Scope) -> bool:
        """Whether a column belongs to the query around. Names of the subquery's own FROM have precedence."""
        return not inside.knows(column) and self.around.knows(column)

    def _columns_around(
        self, select: exp.Select, conditions: Sequence[exp.Expr], inside: Scope
    ) -> Iterator[exp.Column]:
        """The columns of the query around that the subquery reads. Of its own subqueries those that name their table,
        since the others may be columns of theirs."""
        clauses = ("group", "having", "qualify", "windows")
        parts = [*select.expressions, *conditions]
        for key in clauses:
            value = select.args.get(key)
            parts += value if isinstance(value, list) else [value] if value is not None else []
        for part in parts:
            yield from (column for column in _columns(part) if self._is_around(column, inside))
            for query in _queries(part):
                yield from (column for column in names_in(query).outer if self._is_around(column, inside))

    # --- the distinct values that the subquery reads ------------------------------------------------------------

    def _joined_with_values(
        self, outer: Sequence[exp.Column], reading: Sequence[exp.Expr], inside: Scope, context: Context
    ) -> Scope:
        """The rows of the subquery with the values of the query around for which they fulfil the conditions."""
        values = with_distinct_fields(self._values_around(outer, inside, context), inside)
        pairs = scope_of_both(inside, values)
        bound = [bind_condition(condition, pairs, context, _PLACE) for condition in reading]
        context.stop_if_wrong()
        parts = [part for condition in bound for part in conjuncts(condition)]
        return Scope(join_sides(inside, values, JoinKind.INNER, parts, outer[0], context), pairs.columns)

    def _values_around(self, outer: Sequence[exp.Column], inside: Scope, context: Context) -> Scope:
        """Each combination of the values that ``outer`` columns have, once, and the conditions that its own rows
        fulfil."""
        read: dict[str, Visible] = {}
        for column in outer:
            self.around.resolve(column)  # which raises where it is ambiguous
            visible = self.around.visible_of(column)
            assert visible is not None
            if self.around.fields[visible.field].type.name in _WITHOUT_EQUALITY:
                raise unsupported.refusal("correlated subquery", span_of(column), _NOT_DISTINCT)
            read.setdefault(visible.field, visible)
        node: Node = Project(self.around.node, tuple(replace(self.around.fields[f].as_item, time=None) for f in read))
        if not any(key <= read.keys() for key in self.around.node.unique_keys):
            node = GroupAggregate(node, tuple(read), ttl_ms=context.settings.state_ttl_ms)
        columns: list[Visible] = []
        for number, (name, visible) in enumerate(read.items()):
            hidden = f"{self.prefix}_around_{number}"
            columns.append(Visible(hidden, name, starred=False))
            key = self._selected(exp.column(exp.to_identifier(hidden, quoted=True)))
            table = exp.to_identifier(visible.table, quoted=True) if visible.table else None
            written = exp.column(exp.to_identifier(visible.name, quoted=True), table=table)
            equal = exp.NullSafeEQ if self.around.fields[name].nullable else exp.EQ
            self.conditions.append(equal(this=written, expression=key))
        for visible in self.around.columns:
            if visible.field in read:
                hides = visible.qualified or bool(inside.find(visible.name))
                columns.append(replace(visible, starred=False, qualified=hides))
        return Scope(node, tuple(columns))


NEWEST_FIRST = {exp.GTE: True, exp.GT: True, exp.LTE: False, exp.LT: False}
"""For a value of the query around, compared with one of the subquery: whether the nearest is the greatest of those."""

_GENERATED = ("col", "key", "value", "pos", "ordinality")
"""Names of columns that generators without an alias give."""


def _queries(expression: exp.Expr) -> list[exp.Expr]:
    """The subqueries of an expression, without those inside of them."""
    nodes = expression.walk(prune=lambda node: isinstance(node, exp.Query))
    return [node for node in nodes if isinstance(node, exp.Query)]


def _with_keys(group: exp.Expr | None, keys: Sequence[exp.Expr]) -> exp.Group:
    """GROUP BY with further keys, which are part of all of its grouping sets."""
    written = group or exp.Group()
    terms = list(written.expressions)
    for name in ("grouping_sets", "cube", "rollup"):
        for term in written.args.get(name) or ():  # WITH CUBE and WITH ROLLUP are of the keys before, not of these
            terms = [*terms, term] if term.expressions else [type(term)(expressions=[t.copy() for t in terms])]
    return exp.Group(expressions=[*terms, *(key.copy() for key in keys)])


def _divided_over(select: exp.Select, keys: Sequence[exp.Expr]) -> exp.Select:
    """The SELECT whose OVERs see the rows with the same ``keys``."""

    def value(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Query):
            return node
        changed = with_children_changed(node, value)
        if isinstance(node, exp.Window) and not node.args.get("alias"):
            partition = node.args.get("partition_by") or ()
            changed.set("partition_by", [*partition, *(key.copy() for key in keys)])
        return changed

    args: dict[str, object] = {"expressions": [value(e) for e in select.expressions]}
    for key in ("qualify", "windows"):
        clause = select.args.get(key)
        args[key] = [value(one) for one in clause] if isinstance(clause, list) else value(clause) if clause else None
    return with_args(select, **args)


def _named(column: exp.Expr) -> exp.Expr:
    """A selected expression with a short alias if it has a subquery, whose default name would be its whole text."""
    if isinstance(column, exp.Alias | exp.Column) or not has_subquery(column):
        return column
    return exp.Alias(this=column, alias=exp.to_identifier("value", quoted=True))


def _columns(expression: exp.Expr) -> Iterator[exp.Column]:
    """The columns of an expression, without those of its subqueries."""
    nodes = expression.walk(prune=lambda node: isinstance(node, exp.Query))
    return (node for node in nodes if isinstance(node, exp.Column))


def _of_one_group(select: exp.Select) -> tuple[exp.Select, bool]:
    """The SELECT with GROUP BY () in its shortest spelling, and whether all rows are one group where it aggregates."""
    group = select.args.get("group")
    if group is None or not is_one_group(group):
        return select, group is None
    return with_args(select, group=exp.Group(expressions=[exp.Tuple()])), True


def _may_read(select: exp.Select, aggregates: bool) -> bool:
    if select.args.get("qualify") or any(e.find(exp.Window) is not None for e in select.expressions):
        return False
    if select.args.get("having") and (not select.args.get("group") or is_one_group(select.args["group"])):
        return False
    return not (aggregates and has_grouping_sets(select))


def value_of_no_rows(value: exp.Expr, catalog: Catalog) -> exp.Expr | None:
    """The value of an expression of aggregates where there are no rows; None if it is NULL.

    COUNT is 0, Spark's COLLECT_LIST and COLLECT_SET are empty lists, any other aggregate is NULL, also Flink's
    ARRAY_AGG, COLLECT and JSON_ARRAYAGG.
    """

    def alone(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Query):  # whose aggregates are of its own rows
            return with_args(node)
        name = aggregate_name(node, catalog)
        if name is None:
            return node
        if name in _LISTS:
            return exp.Array(expressions=[])
        return exp.Literal.number(0) if name in _COUNTS else exp.Null()

    value_of_none = rewritten(value, alone)
    return None if isinstance(value_of_none, exp.Null) else value_of_none


def without_order(query: exp.Expr, correlation: Correlation) -> exp.Expr:
    """Returns the subquery without parentheses around it. For IN and EXISTS, where the order of rows does not matter,
    ORDER BY without a LIMIT is removed; for EXISTS, a LIMIT above zero is removed too.
    """
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
    """The rows of a subquery. Its methods return them in the forms that joins with the outer query need: all, distinct,
    or one per key.

    ``values`` are the fields of the subquery's own columns, ``keys`` the fields that its correlated conditions read.
    ``ttl_ms``: the time to live, in milliseconds, of the state that makes rows distinct, 0 for no limit. In the
    returned scopes these fields are named ``value_0``, ``key_0``, … with a prefix (see ``reference``).
    """

    node: Node
    values: tuple[Field, ...]
    keys: tuple[Field, ...]
    read: Correlation
    ttl_ms: int

    def reference(self, name: str) -> exp.Column:
        """The column by which a join condition reads a column of the subquery's rows: ``value_0`` is its first own
        column, ``key_0`` the first value that correlated conditions compare, ``there`` is TRUE where a row was found.
        """
        return self.read.reference(name)

    @property
    def names_of_keys(self) -> frozenset[str]:
        """The names of the key columns."""
        return frozenset(self.reference(name).name for name in _numbered("key", self.keys))

    @property
    def at_most_one(self) -> bool:
        """True if the subquery has at most one row for each row of the outer query."""
        if self.read.limited is not None and not self.read.keyed:
            return True
        names = {field.name for field in self.keys}
        return any(key <= names for key in self.node.unique_keys)

    def all(self) -> Scope:
        """The scope of all rows of the subquery."""
        return self._scope(self.node, {})

    def with_there(self) -> Scope:
        """The scope of all rows, with the additional column ``there``, which is TRUE; after an outer join it is NULL
        where no row was found.
        """
        there = self._there()
        return self._scope(extended(self.node, [there]), {"there": there.name})

    def distinct(self, *, values: bool) -> Scope:
        """The scope of the distinct keys, or of distinct keys and ``values``, with the column ``there``, which is
        TRUE.
        """
        there = self._there()
        fields = (*self.keys, *(self.values if values else ()))
        below = Project(self.node, (there, *(field.as_item for field in fields)))
        node = GroupAggregate(below, tuple(f.name for f in below.schema), ttl_ms=self.ttl_ms)
        return self._scope(node, {"there": there.name})

    def nulls(self) -> Scope:
        """The scope with one row per distinct key, and the column ``nulls``: TRUE if one of the subquery's rows with
        that key has the value NULL.
        """
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
        """For an IN that may be NULL: returns a scope with one row per distinct combination of the keys and of the
        values at the positions ``compared``. Its columns count the rows of that combination that have NULLs elsewhere.

        For each i, the column ``nulls_{number}_{i}`` counts the rows in which all values at the positions ``among[i]``
        are NULL. The compared values are named ``value_0_{number}``, and so on; ``number`` makes these names differ
        from those of other calls.
        """
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
        """The scope with one row per distinct key, for a scalar subquery: the value of one of the subquery's rows with
        that key, and the column ``rows``, the number of these rows. More than one is an error, which the reader raises.
        """
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
