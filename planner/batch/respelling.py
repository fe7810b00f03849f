"""Rewrites whole queries where the dialect differs from Spark SQL in spelling or meaning.

The binder does the same for streams, expression by expression, with the types of their columns; here only Spark knows
these, but for columns of tables whose name stands for nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from sqlglot import exp

from sqlstream.functions.builtin import BuiltinKind
from sqlstream.functions.catalogue import kind_of
from sqlstream.grammar.depth import on_deep_stack
from sqlstream.grammar.spans import is_double_quoted
from sqlstream.planner import intervals
from sqlstream.planner.aggregate_order import in_words_of_spark, with_orders_behind
from sqlstream.planner.batch.asof import as_lateral, is_asof, nearest
from sqlstream.planner.batch.clauses import group_in_words_of_spark, window_in_words_of_spark, with_selects
from sqlstream.planner.batch.memberships import Memberships, with_unknown
from sqlstream.planner.batch.select_lists import (
    names_of_tables,
    qualified_above_groups,
    with_aliases_read,
    with_grouping_of_spark,
)
from sqlstream.planner.batch.unnested import Unnested
from sqlstream.planner.binder import hints
from sqlstream.planner.binder.calls import aggregate_name, check_aggregate_order, expanded
from sqlstream.planner.binder.context import Context, bind_error
from sqlstream.planner.binder.expressions import NULL_DEFAULTS, NULL_TREATMENTS, quoted_name, with_null_treatment
from sqlstream.planner.binder.generators import no_generator, without_table
from sqlstream.planner.binder.over_functions import with_treatment_behind
from sqlstream.planner.binder.quantifiers import spelled_out
from sqlstream.planner.binder.respelling import respelled
from sqlstream.planner.binder.temporal_joins import NO_COMPARISON
from sqlstream.planner.catalog import Catalog, FunctionKind
from sqlstream.planner.expressions import subquery_of_in, with_args, with_children_changed
from sqlstream.planner.fields import Field, Schema, shown_name
from sqlstream.planner.functions.calls import AGGREGATE_WRAPPERS, spark_name
from sqlstream.planner.functions.spelling import filled
from sqlstream.planner.row_values import of_one_type, row_values
from sqlstream.planner.type_inference import Types
from sqlstream.types import DataType

_MAKING_ROWS = (BuiltinKind.GENERATOR, BuiltinKind.TABLE)
_SECONDS_OF_A_DAY = 86_400
_NAME_THE_SIDES = "Write the names of the tables before the columns, as in ON l.k = r.k AND l.x >= r.x."


@on_deep_stack
def for_spark(
    query: exp.Expr,
    catalog: Catalog,
    columns: Mapping[str, DataType] = MappingProxyType({}),
    keys: Mapping[str, Sequence[str]] = MappingProxyType({}),
    filled: Mapping[str, Collection[str]] = MappingProxyType({}),
    tables: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> exp.Expr:
    """Returns a copy of the query in Spark's dialect. SqlStreamError that lists everything that Spark cannot express.

    Of each table, by its name in the query, ``keys`` has the PRIMARY KEY columns, ``filled`` the NOT NULL columns, and
    ``tables`` all columns (both in lower case). ``columns`` maps the lower-case name of each column to its type,
    UNKNOWN if several tables have it with different types; a text in double quotes with such a name is refused (SS234).
    """
    context = Context(catalog)
    for text in query.find_all(exp.Literal):
        if is_double_quoted(text) and text.name.casefold() in columns:
            context.report(quoted_name(text))
    whole = with_orders_behind(query)
    plain = _Respelling(whole, context, keys, columns, filled, tables).of(whole)
    types = Types(_certain(plain, columns))
    spelled = respelled(plain, types, context)
    context.stop_if_wrong()
    _give_branches_equal_rows(spelled, types)
    return in_words_of_spark(spelled)


def _certain(query: exp.Expr, columns: Mapping[str, DataType]) -> Schema:
    """The columns of which the query says nothing else, in each spelling that it has for them."""
    renamed = {alias.alias.casefold() for alias in query.find_all(exp.Alias)}
    renamed |= {name.name.casefold() for alias in query.find_all(exp.TableAlias) for name in alias.columns}
    spellings = {column.name for column in query.find_all(exp.Column)}
    kinds = {name: columns[name.casefold()] for name in spellings if name.casefold() in columns.keys() - renamed}
    return tuple(Field(name, kind) for name, kind in kinds.items())


def _give_branches_equal_rows(query: exp.Expr, types: Types) -> None:
    """The rows that the branches of UNION, INTERSECT and EXCEPT select get the names of the first one's fields."""
    for operation in query.find_all(exp.SetOperation):
        branches = list(_branches(operation)) if not isinstance(operation.parent, exp.SetOperation) else []
        for i, column in enumerate(zip(*(branch.expressions for branch in branches), strict=False)):
            alike = of_one_type([value.unalias() for value in column], types)
            for branch, value in zip(branches, alike, strict=True):
                _set_column(branch, i, value)


def _set_column(select: exp.Select, position: int, value: exp.Expr) -> None:
    written = select.expressions[position]
    if value is not written.unalias():
        named = exp.alias_(value, written.alias_or_name, quoted=True)
        select.set("expressions", [*select.expressions[:position], named, *select.expressions[position + 1 :]])


def _branches(query: exp.Expr) -> Iterator[exp.Select]:
    match query:
        case exp.SetOperation():
            yield from _branches(query.this)
            yield from _branches(query.expression)
        case exp.Subquery():
            yield from _branches(query.this)
        case exp.Select():
            yield query


class _Respelling:
    def __init__(
        self,
        query: exp.Expr,
        context: Context,
        keys: Mapping[str, Sequence[str]],
        columns: Mapping[str, DataType],
        filled: Mapping[str, Collection[str]],
        tables: Mapping[str, Collection[str]],
    ) -> None:
        self._context = context
        self._keys = keys
        self._unnested = Unnested(columns)
        self._memberships = Memberships(filled)
        self._columns = columns
        self._names = names_of_tables(query, tables)

    def of(self, node: exp.Expr) -> exp.Expr:
        written, node = node, spelled_out(node)
        if node is not written:
            node.parent = written.parent  # whose tables it reads
            self._memberships.replaced(written, node)
        self._memberships.visit(node)
        feature = _refused_feature(node)
        if feature is not None:
            self._context.refuse(feature, node)
            return exp.Null()
        match node:
            case exp.Anonymous() if (made := expanded(node, self._context)) is not None:
                return self.of(made)
            case exp.Interval(this=exp.Literal()):
                return self._interval(node)
            case exp.Extract() if node.this.name.upper() == "EPOCH":
                return _epoch(self.of(node.expression))
            case exp.In() if (query := subquery_of_in(node)) is not None:
                return self._membership(node, query)
            case exp.Window(this=call) if (behind := with_treatment_behind(call)) is not call:
                return self.of(with_children_changed(node, lambda child: behind if child is call else child.copy()))
            case exp.Join():
                return self._join(node)
            case exp.From() | exp.Table():
                return self._source(node)
        return self._aggregate(node) if _is_aggregate(node) else self._other(node)

    def _orders_own_aggregate(self, node: exp.Expr) -> bool:
        """Whether WITHIN GROUP stands behind an aggregate of the user's, which Spark gives rows in any order."""
        call = node.this if isinstance(node, exp.WithinGroup) else None
        return isinstance(call, exp.Anonymous) and self._context.catalog.function(call.name) is not None

    def _other(self, node: exp.Expr) -> exp.Expr:
        if self._orders_own_aggregate(node):
            instead = "SET 'execution.runtime-mode' = 'streaming', or add EMIT CHANGES."
            self._context.wrong("SS395", "an aggregate in Python takes no ORDER BY over finished data", node, instead)
            return exp.Null()
        if isinstance(node, exp.Select):
            written = node
            plain = with_aliases_read(written, self._names, self._aggregates)
            node = with_grouping_of_spark(plain)
            node.parent = written.parent
        copy = with_children_changed(node, self.of)
        if isinstance(node, exp.Select):
            hint = node.args.get("hint")
            copy.set("hint", hints.for_spark(hint) if isinstance(hint, exp.Hint) else hint)
            group_in_words_of_spark(copy)
            copy.set("expressions", [_aliased(*pair) for pair in zip(copy.expressions, node.expressions, strict=True)])
            assert isinstance(copy, exp.Select), copy
            return qualified_above_groups(copy, self._columns.__contains__, self._aggregates)
        if isinstance(copy, exp.Window):
            window_in_words_of_spark(copy, self._context)
        return copy

    def _membership(self, node: exp.In, query: exp.Expr) -> exp.Expr:
        cases = [] if self._memberships.is_condition(node) else self._memberships.unknown(node, query)
        rows = self.of(query)
        if isinstance(query, exp.Values):
            # Spark takes VALUES after IN for a function, and so FROM ( … ) without a name after it.
            rows = exp.select("*").from_(exp.alias_(rows, "listed", table=True))
        if row_values(node.this) is not None and _has_one_column(query):
            message = "Spark SQL compares the fields of a row with as many columns of a subquery"
            hint = "Select the fields as columns, as in (a, b) IN (SELECT t.r.a, t.r.b FROM t)."
            self._context.wrong("SS206", message, node, hint)
        membership = exp.In(this=self.of(node.this), query=_in_parentheses(rows))
        return with_unknown(membership, cases) if cases else membership

    def _interval(self, node: exp.Interval) -> exp.Expr:
        try:
            return intervals.for_spark(node)
        except intervals.NotAnInterval as error:
            self._context.report(bind_error("SS212", f"the interval {error.reason}", node, error.hint))
            return exp.Null()

    def _aggregate(self, call: exp.Expr) -> exp.Expr:
        """The aggregate with FILTER and its kin, and what it does with NULLs written out."""
        check_aggregate_order(call, self._context)
        plain = _plain(call)
        copy = with_children_changed(plain, self.of)
        wrappers: list[exp.Expr] = []
        while isinstance(call, AGGREGATE_WRAPPERS):
            wrappers.append(call)
            call = call.this
        for wrapper in reversed(wrappers):
            copy = with_children_changed(wrapper, partial(self._around, wrapper.this, copy))
        stated = any(isinstance(part, NULL_TREATMENTS) for part in (*wrappers, *plain.iter_expressions()))
        if stated or spark_name(plain) in NULL_DEFAULTS:
            copy = with_null_treatment(copy, self._context)
        outermost = wrappers[0] if wrappers else plain
        if spark_name(plain) in _NULL_OF_NO_ROWS and _is_of_all_rows(outermost):
            return filled("CASE WHEN COUNT(*) > 0 THEN p1 END", copy)
        return copy

    def _around(self, inner: exp.Expr, copy: exp.Expr, child: exp.Expr) -> exp.Expr:
        return copy if child is inner else self.of(child)

    def _join(self, join: exp.Join) -> exp.Expr:
        """UNNEST and LATERAL TABLE as a generator of Spark's after LATERAL, ASOF JOIN as a subquery after it."""
        if is_asof(join):
            return self._asof(join)
        right = join.this
        generator = self._generator(right) if isinstance(right, exp.Unnest | exp.Lateral) else None
        if generator is None:
            return with_children_changed(join, lambda child: self.of(with_selects(child) if child is right else child))
        lateral = exp.Lateral(this=generator)
        copy = with_children_changed(join, lambda child: lateral if child is right else self.of(child))
        if self._is_of_map(right) and _keeps_or_drops(join) and isinstance(generator.this, exp.Anonymous):
            # Spark reads a MAP of the left side in a CROSS JOIN only, where …_OUTER keeps rows without entries.
            if join.side:
                generator.this.set("this", f"{generator.this.name}_OUTER")
            copy.set("side", None)
            copy.set("on", None)
        if not (copy.args.get("side") or copy.args.get("kind") or copy.args.get("on")):
            copy.set("kind", "CROSS")  # what a comma means
        return copy

    def _is_of_map(self, source: exp.Expr) -> bool:
        return isinstance(source, exp.Unnest) and self._unnested.type_of_argument(source).name == "MAP"

    def _asof(self, join: exp.Join) -> exp.Expr:
        if nearest(join) is None:
            message = "ASOF JOIN does not tell which of the values that it compares is of the right side"
            self._context.wrong(NO_COMPARISON, message, join, _NAME_THE_SIDES)
            return with_children_changed(join, self.of)
        named = join.this.name if isinstance(join.this, exp.Table) else ""
        conditions = [self.of(join.args[key]) for key in ("on", "match_condition") if join.args.get(key) is not None]
        return as_lateral(join, self.of(join.this), conditions, self._keys.get(named, ()))

    def _generator(self, source: exp.Expr) -> exp.Expr | None:
        """The call under its alias; None for subqueries and for what is Spark's already."""
        call, alias = source.this, source.args.get("alias")
        if isinstance(source, exp.Unnest):
            return exp.Table(this=self._unnest(source), alias=_named(alias, source.args.get("offset")))
        if isinstance(call, exp.Anonymous) and call.name.upper() == "TABLE" and len(call.expressions) == 1:
            call = call.expressions[0]
        user = self._context.catalog.function(call.name) if isinstance(call, exp.Anonymous) else None
        if user is not None and user.kind is FunctionKind.TABLE:
            return exp.Table(this=exp.Anonymous(this="INLINE", expressions=[self.of(call)]), alias=_named(alias))
        return None if isinstance(call, exp.Query) else exp.Table(this=self.of(call), alias=_named(alias))

    def _source(self, node: exp.Expr) -> exp.Expr:
        """FROM that starts with a generator, and a table that is one."""
        match node:
            case exp.From(this=exp.Lateral(this=exp.Subquery() as query) as source):
                return exp.From(this=with_args(self.of(query), alias=source.args.get("alias")))
            case exp.From(this=exp.Unnest() | exp.Lateral() as source) if (made := self._generator(source)) is not None:
                return exp.From(this=made)
            case exp.Table(this=exp.Func()) if (made := self._called(node)) is not None:
                return made
        return self._other(node)

    def _called(self, table: exp.Table) -> exp.Expr | None:
        """TABLE(f(x)) of a generator, and a table function of the user's, in FROM."""
        call = without_table(table.this)
        user = self._context.catalog.function(call.name) if isinstance(call, exp.Anonymous) else None
        if user is None and kind_of(spark_name(call) or "") not in _MAKING_ROWS:
            self._context.report(no_generator(call, self._context))
        if call is table.this and (user is None or user.kind is not FunctionKind.TABLE):
            return None
        return self._generator(exp.Lateral(this=table.this, alias=table.args.get("alias")))

    def _aggregates(self, node: exp.Expr) -> bool:
        return aggregate_name(node, self._context.catalog) is not None

    def _unnest(self, unnest: exp.Unnest) -> exp.Expr:
        """Elements of an array, members of its structs or entries of a map; the position is counted from 1."""
        if len(unnest.expressions) > 1:
            self._context.wrong("SS207", f"UNNEST takes 1 argument, not {len(unnest.expressions)}", unnest)
        values, kind = self.of(unnest.expressions[0]), self._unnested.type_of_argument(unnest)
        alias, position = unnest.args.get("alias"), unnest.args.get("offset")
        names = [column.name for column in alias.columns] if isinstance(alias, exp.TableAlias) else []
        members = _members(kind)
        if kind.name == "MAP":
            values = exp.Anonymous(this="MAP_ENTRIES", expressions=[values])
        if not position:
            several = bool(members) or (kind.is_unknown and len(names) > 1)
            return exp.Anonymous(this="INLINE" if several else "EXPLODE", expressions=[values])
        if kind.is_unknown and len(names) > 1:
            hint = "It is WITH ORDINALITY of a value whose type only Spark knows; CAST the value to its type."
            self._context.refuse("syntax", unnest, hint)
        element, index = exp.to_identifier("e"), exp.to_identifier("i")
        number = exp.Add(this=exp.column("i"), expression=exp.Literal.number(1))
        shown = [_as(exp.Dot(this=exp.column("e"), expression=exp.to_identifier(m, quoted=True)), m) for m in members]
        shown = [*(shown or [_as(exp.column("e"), "col")]), _as(number, "ordinality")]
        row = exp.Anonymous(this="STRUCT", expressions=shown)
        rows = exp.Anonymous(this="TRANSFORM", expressions=[values, exp.Lambda(this=row, expressions=[element, index])])
        return exp.Anonymous(this="INLINE", expressions=[rows])


def _refused_feature(node: exp.Expr) -> str | None:
    match node:
        case exp.Any(this=exp.Query()) | exp.All(this=exp.Query()):
            return "quantified"
        case exp.Placeholder() | exp.SessionParameter():
            return "parameter"
        case exp.Limit(parent=exp.Func()):
            return "aggregate limit"
    return None


def _keeps_or_drops(join: exp.Join) -> bool:
    """Whether it is JOIN or LEFT JOIN … ON TRUE."""
    condition = join.args.get("on")
    return isinstance(condition, exp.Boolean) and bool(condition.this) and join.side in ("", "LEFT")


def _members(kind: DataType) -> list[str]:
    """The columns of UNNEST, where they are not the one of the elements."""
    if kind.name == "MAP":
        return ["key", "value"]
    element = kind.args[0] if kind.name == "ARRAY" and kind.args else None
    if not isinstance(element, DataType) or element.name != "STRUCT":
        return []
    return [str(member[0]) for member in element.args if isinstance(member, tuple)]


def _as(expression: exp.Expr, name: str) -> exp.Alias:
    return exp.Alias(this=expression, alias=exp.to_identifier(name, quoted=True))


def _named(alias: exp.Expr | None, position: object = None) -> exp.TableAlias | None:
    """The alias of a generator, the position being the last of its columns."""
    if not isinstance(alias, exp.TableAlias):
        return None
    columns = [column.copy() for column in alias.columns]
    if isinstance(position, exp.Identifier):
        columns.append(position.copy())
    return exp.TableAlias(this=alias.this.copy() if alias.this else None, columns=columns)


def _aliased(spelled: exp.Expr, written: exp.Expr) -> exp.Expr:
    """A column of a select list under the name that streams give it; stars and generators have several."""
    if isinstance(written, exp.Alias | exp.Aliases | exp.Star | exp.Column | exp.Dot):
        return spelled
    name = spark_name(written) if isinstance(written, exp.Func) else None
    if name is not None and kind_of(name) is BuiltinKind.GENERATOR:
        return spelled
    return exp.Alias(this=spelled, alias=exp.to_identifier(shown_name(written), quoted=True))


def _plain(call: exp.Expr) -> exp.Expr:
    while isinstance(call, AGGREGATE_WRAPPERS):
        call = call.this
    return call


def _is_aggregate(node: exp.Expr) -> bool:
    if not isinstance(node, (exp.Func, *AGGREGATE_WRAPPERS)):
        return False
    name = spark_name(_plain(node))
    return name is not None and kind_of(name) is BuiltinKind.AGGREGATE


_NULL_OF_NO_ROWS = frozenset({"array_agg", "collect", "json_arrayagg", "json_objectagg"})
"""Aggregates that are NULL over no rows, as in SQL and as streams give them, where Spark's lists are empty."""


def _is_of_all_rows(call: exp.Expr) -> bool:
    """Whether an aggregate is one of a SELECT without GROUP BY, which gives a row even for no rows."""
    around = call.find_ancestor(exp.Window, exp.Select, exp.Pivot)
    if isinstance(around, exp.Window) and around.this is not call:
        around = around.find_ancestor(exp.Select)
    return isinstance(around, exp.Select) and not around.args.get("group")


def _has_one_column(query: exp.Expr) -> bool:
    select = query.this if isinstance(query, exp.Subquery) else query
    return isinstance(select, exp.Select) and len(select.selects) == 1 and not select.is_star


def _in_parentheses(query: exp.Expr) -> exp.Expr:
    return query if isinstance(query, exp.Subquery) else exp.Subquery(this=query)


def _epoch(source: exp.Expr) -> exp.Expr:
    """The seconds since 1970 of a DATE, which has no zone, or of a TIMESTAMP."""
    days = exp.Anonymous(this="UNIX_DATE", expressions=[exp.cast(source.copy(), exp.DataType.build("DATE"))])
    whole = exp.Mul(this=exp.cast(days, exp.DataType.build("BIGINT")), expression=exp.Literal.number(_SECONDS_OF_A_DAY))
    instant = exp.cast(source.copy(), exp.DataType.build("TIMESTAMP"))
    is_date = exp.EQ(
        this=exp.Anonymous(this="TYPEOF", expressions=[source.copy()]), expression=exp.Literal.string("date")
    )
    return exp.If(this=is_date, true=whole, false=exp.Anonymous(this="UNIX_SECONDS", expressions=[instant]))
