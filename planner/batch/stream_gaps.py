"""Parts of a query that a stream does not execute, found in its syntax and in the columns of its tables.

A query over finished data that has such a part runs as one query of Spark SQL. The binder of streams refuses the same
parts; ``tests/planner/batch/test_stream_gaps.py`` compares the two over all texts of the repository.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp

from sqlstream.errors import BindError, Diagnostic
from sqlstream.functions.builtin import BuiltinKind
from sqlstream.functions.catalogue import kind_of
from sqlstream.functions.result_types import incompatible
from sqlstream.grammar.depth import on_deep_stack
from sqlstream.grammar.trees import table_function_of
from sqlstream.planner.batch.asof import is_asof
from sqlstream.planner.batch.scopes import Queries, Scope, Scopes, columns_outside, parts_of, steps_of
from sqlstream.planner.binder.calls import aggregate_name
from sqlstream.planner.binder.joins import JOIN_KINDS
from sqlstream.planner.binder.ordering import is_ordered, is_row_count
from sqlstream.planner.binder.over_functions import POSITIONAL, name_of, without_treatment
from sqlstream.planner.binder.quantifiers import all_spelled_out, spelled_out
from sqlstream.planner.binder.subqueries import MOST_NULLABLE, tested_group
from sqlstream.planner.catalog import Catalog, FunctionKind, Table, TimeDomain
from sqlstream.planner.expressions import (
    as_expression,
    conjuncts,
    has_subquery,
    is_one_group,
    is_repeatable,
    rewritten,
    subquery_of_in,
    with_args,
)
from sqlstream.planner.fields import Field
from sqlstream.planner.functions.calls import spark_name
from sqlstream.planner.kernel_expressions import pair_condition
from sqlstream.planner.operators.over import NUMBERS, PLACES
from sqlstream.planner.type_inference import Types, call_arguments
from sqlstream.planner.unsupported import FEATURES
from sqlstream.types import BOOLEAN, UNKNOWN
from sqlstream.udfs.joins import JoinKind

ORDER = "an order or a number of rows"
WHOLE_TABLE = "a table that a stream looks up only"
WITH_SAME_NAMES = frozenset({ORDER, WHOLE_TABLE})
"""Gaps that change neither the columns of a query nor their types."""

_FEATURES = (
    "join", "kind of join", "over", "over here", "over function", "subquery", "correlated subquery",
    "subquery of rows", "pivot", "sample", "recursive", "process function",
)  # fmt: skip
_CODES = frozenset(
    {FEATURES[name].code for name in _FEATURES}
    | {"SS217", "SS220", "SS250", "SS291", "SS292", "SS293", "SS506", "SS642", "SS651"}
)
_NOWHERE = tuple(FEATURES[name].what for name in ("array subquery", "over frame"))


def refused_by_streams_alone(mistake: Diagnostic) -> bool:
    """True if the mistake is something that streams do not support but Spark SQL executes, so that a query over
    finished data may contain it.
    """
    return mistake.code in _CODES and not mistake.message.startswith(_NOWHERE)


_SORTS = ("sort", "distribute", "cluster")


@on_deep_stack
def stream_gaps(
    query: exp.Expr, catalog: Catalog, tables: dict[str, Table], is_source: Callable[[Table], bool]
) -> frozenset[str]:
    """The names, for messages, of those parts of a query that streams do not support; empty if a stream can execute it.

    ``tables`` maps the names of tables in the query to the tables. ``is_source`` returns True for a table that a stream
    reads, False for one that it looks up by key.
    """
    return frozenset(_Gaps(catalog, tables, is_source).of_query(query, Queries(), None))


class _Gaps(Scopes):
    def __init__(self, catalog: Catalog, tables: dict[str, Table], is_source: Callable[[Table], bool]) -> None:
        super().__init__(catalog, tables)
        self._is_source = is_source

    # --- queries ------------------------------------------------------------------------------------------------

    def of_query(self, query: exp.Expr, queries: Queries, around: Scope | None, *, sorts: bool = True) -> Iterator[str]:
        """``sorts``: its ORDER BY and LIMIT have an effect."""
        given = query.args.get("with_")
        if given is not None:
            if given.args.get("recursive"):
                yield "a recursive query"
                return
            queries = Queries(queries)
            for cte in given.expressions:
                yield from self.of_query(cte.this, queries, around)
                queries[cte.alias.casefold()] = self.of_cte(cte, queries, around)
        if sorts:
            yield from self._order(query, queries, around)
        match query:
            case exp.Select():
                yield from self._select(query, queries, around)
            case exp.SetOperation():
                yield from self.of_query(query.this, queries, around)
                yield from self.of_query(query.expression, queries, around)
            case exp.Subquery():
                yield from self.of_query(query.this, queries, around)
            case exp.Values():
                yield from self._values(query)
            case exp.Table():
                yield from self.of_query(exp.select("*").from_(query.copy()), queries, around)

    def _order(self, query: exp.Expr, queries: Queries, around: Scope | None) -> Iterator[str]:
        if any(query.args.get(key) is not None for key in _SORTS):
            yield ORDER
        if not is_ordered(query):
            return
        order, limit, offset = (query.args.get(key) for key in ("order", "limit", "offset"))
        is_counted = is_row_count(limit, 0) and is_row_count(offset, 0) and (limit is not None or offset is None)
        if not is_counted or (limit is None and (order is None or not self._is_in_time(query, order, queries, around))):
            yield ORDER
        if order is not None and not isinstance(query, exp.Select):
            yield from (gap for by in order.expressions for gap in self._expression(by.this, Scope(around), queries))

    def _is_in_time(self, query: exp.Expr, order: exp.Expr, queries: Queries, around: Scope | None) -> bool:
        """Whether the rows are ordered by event time first, or by processing time alone, and ascending."""
        first, *ties = order.expressions
        key = first.this
        if first.args.get("desc"):
            return False
        columns = self.columns_of(query, queries, around)
        if isinstance(key, exp.Literal) and key.name.isdigit():
            position = int(key.name) - 1
            named = columns[position] if columns is not None and position < len(columns) else None
        else:
            shown = next((c for c in columns or () if c.name.casefold() == key.name.casefold()), None)
            named = shown if isinstance(key, exp.Column) and not key.table else None
            if named is None and isinstance(query, exp.Select) and self.keeps_time(query, queries, around):
                named = self.scope_of(query, queries, around).column(key)
        time = named.time if named is not None else None
        return time is not None and (time is not TimeDomain.PROCESSING or not ties)

    def _values(self, values: exp.Values) -> Iterator[str]:
        rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in values.expressions]
        types = Types((), self._catalog.function)
        for column in zip(*rows, strict=False):
            kinds = [types.of(value) for value in column]
            strict = any(incompatible(kinds[0], kind) for kind in kinds)
            if strict and not any(incompatible(kinds[0], kind, texts=True) for kind in kinds):
                yield "VALUES of different types"
        yield from (gap for row in rows for value in row for gap in self._expression(value, Scope(), Queries()))

    # --- SELECT -------------------------------------------------------------------------------------------------

    def _select(self, select: exp.Select, queries: Queries, around: Scope | None) -> Iterator[str]:
        scope = self.scope_of(select, queries, around)
        yield from self._from(select, scope, queries)
        shown = [*select.expressions, *parts_of(select, "qualify")]
        order = select.args.get("order")
        ordered = [by.this for by in order.expressions] if order is not None else []
        windows = [window for expression in (*shown, *ordered) for window in _windows(expression)]
        if select.args.get("windows") and not windows and self.is_aggregation(select):
            yield "WINDOW that is not used"
        for window in windows:
            yield from self._window(window, select, scope)
        for place in ("where", "qualify", "having"):
            for part in parts_of(select, place):
                yield from self._conditions(part, scope, queries)
        for expression in (*select.expressions, *parts_of(select, "group"), *ordered):
            yield from self._expression(expression, scope, queries)
        if any(list(_windows(part)) for place in ("where", "having", "group") for part in parts_of(select, place)):
            yield "OVER outside of the select list"

    def _conditions(self, whole: exp.Expr, scope: Scope, queries: Queries) -> Iterator[str]:
        for condition in conjuncts(whole):
            plain = condition.unnest()
            while isinstance(plain, exp.Not):
                plain = plain.this.unnest()
            match plain:
                case exp.Exists(this=exp.Query() as query):
                    yield from self._subquery(query, scope, queries, is_set=True, lists=False)
                case exp.In() if (listed := subquery_of_in(plain)) is not None:
                    yield from self._expression(plain.this, scope, queries)
                    yield from self._subquery(listed, scope, queries, is_set=True)
                case _:
                    yield from self._expression(condition, scope, queries)

    def _expression(self, expression: exp.Expr, scope: Scope, queries: Queries) -> Iterator[str]:
        """Of a value, with its subqueries."""
        node = spelled_out(expression)
        match node:
            case exp.Exists(this=exp.Query() as query):
                yield from self._subquery(query, scope, queries, is_set=True, lists=False, as_value=True)
                return
            case exp.In() if (listed := subquery_of_in(node)) is not None:
                yield from self._expression(node.this, scope, queries)
                if len(node.this.unnest().expressions) > MOST_NULLABLE and not _null_is_false(expression):
                    yield "a subquery of rows"
                yield from self._subquery(listed, scope, queries, is_set=True, as_value=True)
                return
            case exp.Array() if any(isinstance(element, exp.Query) for element in node.expressions):
                return  # no mode executes it
            case exp.Query():
                yield from self._subquery(node, scope, queries, as_value=True)
                return
        yield from self._operator(node)
        for child in node.iter_expressions():
            yield from self._expression(child, scope, queries)

    def _operator(self, node: exp.Expr) -> Iterator[str]:
        """Of an expression without those in it."""
        match node:
            case exp.Window() if any(has_subquery(child) for child in node.iter_expressions()):
                yield "a subquery of OVER"
            case exp.Func() if aggregate_name(node, self._catalog) is not None and _windows(node):
                yield "OVER in an aggregate"
            case exp.Func() if has_subquery(node) and kind_of(spark_name(node) or "") is BuiltinKind.GENERATOR:
                yield "a subquery of UNNEST"

    # --- OVER ---------------------------------------------------------------------------------------------------

    def _window(self, window: exp.Expr, select: exp.Select, scope: Scope) -> Iterator[str]:
        spec, call = _specification(window, select), window.this
        called = name_of(without_treatment(call)[0])
        order, frame = spec.args.get("order"), spec.args.get("spec")
        if called in NUMBERS and not call_arguments(call):
            if order is None:
                yield "numbers of rows without an order"
            return
        first = order.expressions[0] if order is not None else None
        named = scope.column(first.this) if first is not None else None
        time = named.time if named is not None else None
        ascends = first is not None and not first.args.get("desc")
        if time is TimeDomain.PROCESSING and not ascends:
            yield "OVER in the reverse order of processing time"
        if kind_of(called) is BuiltinKind.WINDOW and called not in POSITIONAL:
            yield f"{called.upper()} with OVER"
        if (
            time is TimeDomain.PROCESSING
            and ascends
            and (called in PLACES or (frame is not None and _is_endless(frame)))
        ):
            yield "OVER of all rows in the order of processing time"

    # --- FROM ---------------------------------------------------------------------------------------------------

    def _from(self, select: exp.Select, scope: Scope, queries: Queries) -> Iterator[str]:
        start = select.args.get("from_")
        if start is None:
            return
        yield from self._source(start.this, queries, scope.around)
        seen = Scope(scope.around, self.sources_of(start.this, queries, scope.around))
        for step in steps_of(start.this, select):
            if isinstance(step, exp.Join):
                yield from self._join(step, seen, queries)
                seen = Scope(seen.around, [*seen.sources, *self.sources_of(step.this, queries, seen)])
            elif has_subquery(step.this):  # of LATERAL VIEW
                yield "a subquery of UNNEST"

    def _source(self, source: exp.Expr, queries: Queries, around: Scope | None) -> Iterator[str]:
        match source:
            case exp.Table():
                yield from self._table(source)
            case exp.Subquery(this=exp.Table() as first) if not source.alias and steps_of(first):
                joined = exp.Select(expressions=[exp.Star()], from_=exp.From(this=first.copy()))
                yield from self.of_query(joined, queries, around)
            case exp.Subquery():
                yield from self.of_query(source.this, self.with_queries(source, queries, around), around)
            case exp.Values():
                yield from self._values(source)
        yield from self._sample(source)

    def _sample(self, source: exp.Expr) -> Iterator[str]:
        sample = source.args.get("sample")
        if sample is None:
            return
        if sample.args.get("percent") is None or sample.args.get("seed") is not None:
            yield "a sample of a number of rows, or one that is the same each time"
        elif isinstance(source, exp.Subquery) and self._changes(source.this):
            yield "a sample of rows that change"

    def _table(self, source: exp.Table) -> Iterator[str]:
        call = source.this
        if table_function_of(source) is None and not isinstance(call, exp.Identifier) and not self._gives_rows(call):
            yield "a function without a table before it"
        table = self._tables.get(source.name)
        if table is not None and table.option("role") == "lookup":
            yield "a table that is declared for lookups"
        elif table is not None and not self._is_source(table):
            yield WHOLE_TABLE

    def _gives_rows(self, call: exp.Expr) -> bool:
        """Whether a call is a generator or a table function, also in TABLE(…)."""
        if isinstance(call, exp.Anonymous) and call.name.upper() == "TABLE" and len(call.expressions) == 1:
            call = call.expressions[0]
        user = self._catalog.function(call.name) if isinstance(call, exp.Anonymous) else None
        if user is not None:
            return user.kind is FunctionKind.TABLE
        return isinstance(call, exp.Func) and kind_of(spark_name(call) or "") is BuiltinKind.GENERATOR

    def _changes(self, query: exp.Expr) -> bool:
        """Whether a query may update or delete rows that it has given."""
        for node in query.walk():
            if isinstance(node, exp.Group) or (isinstance(node, exp.Join) and node.text("side")):
                return True
            if isinstance(node, exp.Select) and self.is_aggregation(node):
                return True
        return False

    def _join(self, join: exp.Join, left: Scope, queries: Queries) -> Iterator[str]:
        right = join.this
        match right:
            case exp.Lateral(this=exp.Subquery()):
                yield from self._lateral(join, left, queries)
                return
            case exp.Unnest() | exp.Lateral():
                if not _takes_rows_of_left(join) or (join.args.get("on") is not None and not self._is_in_rows(join)):
                    yield "UNNEST with a condition"
                if has_subquery(right):
                    yield "a subquery of UNNEST"
                return
            case exp.Table() | exp.Subquery() | exp.Values():
                yield from self._source(right, queries, left.around)
            case _:
                yield "a join of this form"
                return
        if right.args.get("pivots") and (join.args.get("on") is not None or join.args.get("using")):
            yield "PIVOT of a joined table"
        kind = JOIN_KINDS.get((join.text("side").upper(), join.text("kind").upper()))
        if not is_asof(join) and (join.text("method").upper() not in ("", "NATURAL") or kind is None):
            yield "a join of this kind"
        yield from self._condition(join, left, queries, kind)

    def _condition(self, join: exp.Join, left: Scope, queries: Queries, kind: JoinKind | None) -> Iterator[str]:
        """Of MATCH_CONDITION and ON of a join."""
        match = join.args.get("match_condition")
        if match is not None and has_subquery(match):
            yield "a subquery in MATCH_CONDITION"
        on = join.args.get("on")
        if on is None:
            return
        both = Scope(left.around, [*left.sources, *self.sources_of(join.this, queries, left)])
        yield from self._conditions(on, both, queries)
        if (is_asof(join) or kind is not JoinKind.INNER) and not self._decided(all_spelled_out(on), left, both):
            yield "a condition of rows of both sides"

    def _is_in_rows(self, join: exp.Join) -> bool:
        """Whether the condition of a join with a generator is evaluated where its rows are made."""
        on, right = join.args["on"], join.this
        if has_subquery(on):
            return False
        of_values = isinstance(right, exp.Unnest) or isinstance(right.this, exp.Subquery)
        if join.text("side").upper() != "LEFT" or of_values or _is_true(on):
            return is_repeatable(on) or join.text("side").upper() != "LEFT" or _is_true(on)
        call = right.this.expressions[0] if right.this.name.upper() == "TABLE" else right.this
        user = self._catalog.function(call.name) if isinstance(call, exp.Anonymous) else None
        return is_repeatable(on) and (user is not None or spark_name(call) in ("explode", "posexplode", "inline"))

    def _decided(self, on: exp.Expr, left: Scope, both: Scope) -> bool:
        """Whether kernels decide a condition on pairs of rows: it compares values that each read one side.

        True also where it names a column that does not exist, which the binder reports.
        """
        if any(both.owner(column) is None for column in columns_outside(on)):
            return True
        fields: tuple[list[Field], list[Field]] = ([], [])
        for condition in conjuncts(on):
            if has_subquery(condition) and len(_sides_of_subquery(condition, left, both)) < 2:
                continue
            if any(len(_sides_of_subquery(query, left, both)) != 1 for query in _subqueries(condition)):
                return False
            pair = rewritten(condition, lambda node: _over_sides(node, left, both, fields)).unnest()
            if not isinstance(pair, exp.Boolean) and not _is_equality(pair):
                try:
                    pair_condition(as_expression(pair), tuple(fields[0]), tuple(fields[1]), self._catalog.function)
                except BindError:
                    return False
        return True

    def _lateral(self, join: exp.Join, left: Scope, queries: Queries) -> Iterator[str]:
        select = join.this.this.unnest()
        if not _takes_rows_of_left(join):
            yield "LATERAL of the rows on its right"
        if isinstance(select, exp.Values):
            if any(map(has_subquery, select.expressions)):
                yield "a subquery of VALUES"
            if join.args.get("on") is not None and not self._is_in_rows(join):
                yield "VALUES with a condition"
            return
        if not isinstance(select, exp.Select) or select.args.get("with_"):
            yield "LATERAL of more than one SELECT"
            return
        if (select.args.get("limit") or select.args.get("offset")) and not _is_limited(select):
            yield ORDER
        yield from self._subquery(select, left, queries, sorts=False)

    # --- subqueries ---------------------------------------------------------------------------------------------

    def _subquery(
        self,
        query: exp.Expr,
        around: Scope,
        queries: Queries,
        *,
        is_set: bool = False,
        lists: bool = True,
        as_value: bool = False,
        sorts: bool = True,
    ) -> Iterator[str]:
        """Of a subquery; ``is_set``: its rows are looked for; ``as_value``: it is no condition of its own."""
        plain = query
        while isinstance(plain, exp.Subquery) and not any(
            v for k, v in plain.args.items() if k not in ("this", "alias")
        ):
            plain = plain.this
        limit = plain.args.get("limit")
        unordered = is_set and plain.args.get("offset") is None
        if unordered and (limit is None or (not lists and is_row_count(limit, 1))):
            sorts = False
        yield from self.of_query(plain, queries, around, sorts=sorts)
        if not isinstance(plain, exp.Select):
            if self._reads_around(plain, queries, around):
                yield "a subquery that reads the query around it"
            return
        is_valued = (not lists or (as_value and not is_set)) and tested_group(plain, self._catalog) is not None
        if is_valued:
            plain = with_args(plain, having=None, expressions=[*plain.expressions, plain.args["having"].this])
        yield from self._correlated(plain, around, queries, sorts and is_ordered(plain))

    def _correlated(self, select: exp.Select, around: Scope, queries: Queries, is_sorted: bool) -> Iterator[str]:
        """Of columns of the query right around a subquery, and of those further outside that name their table."""
        inside = self.scope_of(select, self.with_queries(select, queries, around), around)
        read = {
            child.arg_key: [column for column in columns_outside(child) if inside.is_outer(column)]
            for child in select.iter_expressions()
            if child.arg_key != "with_"
        }
        outer = [column for columns in read.values() for column in columns]
        start = select.args["from_"].this if select.args.get("from_") else None
        call = start.this if isinstance(start, exp.Table) else start
        alone = not any(owner.args.get(key) for owner in (select, start) if owner for key in ("joins", "laterals"))
        of_rows = alone and isinstance(call, exp.Unnest | exp.Lateral | exp.Func)
        of_from = any(read.get(key) for key in (() if of_rows else ("from_", "joins", "laterals")))
        far = any((inside.level(column) or 0) > 1 and not column.table for column in outer)
        unlimited = is_sorted and not _is_limited(select)
        is_whole = not select.args.get("group") or is_one_group(select.args["group"])
        no_groups = self.is_aggregation(select) and select.args.get("having") and is_whole
        if outer and (of_from or far or unlimited or no_groups or select.args.get("with_")):
            yield "a subquery that reads the query around it"

    def _reads_around(self, query: exp.Expr, queries: Queries, around: Scope) -> bool:
        for select in query.find_all(exp.Select):
            scope = self.scope_of(select, queries, around)
            if any(scope.is_outer(column) for child in select.iter_expressions() for column in columns_outside(child)):
                return True
        return False


# --- parts of syntax ------------------------------------------------------------------------------------------


def _is_equality(pair: exp.Expr) -> bool:
    """Whether a condition says that a value of one side is equal to one of the other; columns begin with their side."""
    if not isinstance(pair, exp.EQ | exp.NullSafeEQ):
        return False
    sides = [{column.name[0] for column in value.find_all(exp.Column)} for value in (pair.left, pair.right)]
    return sides in ([{"0"}, {"1"}], [{"1"}, {"0"}])


def _over_sides(node: exp.Expr, left: Scope, both: Scope, fields: tuple[list[Field], list[Field]]) -> exp.Expr:
    """A column as one of its side, whose name begins with the number of the side, and a subquery as a column of the
    side on which it is evaluated. ``fields`` are those of the sides.
    """
    if _is_subquery(node):
        side = min(_sides_of_subquery(node, left, both), default=0)
        field = Field(f"{side}.{len(fields[side])}.subquery", UNKNOWN if isinstance(node, exp.Subquery) else BOOLEAN)
    elif isinstance(node, exp.Column) and both.owner(node) is not None:
        side, column = 0 if left.owner(node) is not None else 1, both.column(node)
        name = f"{side}.{node.table}.{node.name}".casefold()
        field = Field(name, column.type if column is not None else UNKNOWN)
    else:
        return node
    fields[side].append(field)
    return exp.column(field.name)


def _subqueries(condition: exp.Expr) -> Iterator[exp.Expr]:
    """The subqueries of a condition, each with what it is compared with."""
    for node in condition.walk(prune=_is_subquery):
        if _is_subquery(node):
            yield node


def _is_subquery(node: exp.Expr) -> bool:
    return isinstance(node, exp.Exists | exp.Subquery) or (
        isinstance(node, exp.In) and subquery_of_in(node) is not None
    )


def _sides_of_subquery(condition: exp.Expr, left: Scope, both: Scope) -> set[int]:
    """The sides of a join that a condition with a subquery reads; in the subquery only by the names of tables."""
    outside = list(columns_outside(condition))
    inside = (column for column in condition.find_all(exp.Column) if column.table)
    read = [column for column in (*outside, *inside) if both.owner(column) is not None]
    return {0 if left.owner(column) is not None else 1 for column in read}


def _windows(expression: exp.Expr) -> list[exp.Expr]:
    """The calls with OVER of an expression, but for those of its subqueries."""
    nodes = expression.walk(prune=lambda node: isinstance(node, exp.Query | exp.Window))
    return [node for node in nodes if isinstance(node, exp.Window)]


def _specification(window: exp.Expr, select: exp.Select) -> exp.Expr:
    """The parentheses after OVER, or those that WINDOW defines under a name."""
    alias = window.args.get("alias")
    if alias is None:
        return window
    defined = (w for w in select.args.get("windows") or () if w.name.casefold() == alias.name.casefold())
    return next(defined, window)


def _word(node: exp.Expr, key: str) -> str:
    return str(node.args.get(key)).upper()


def _is_endless(frame: exp.Expr) -> bool:
    return (_word(frame, "end"), _word(frame, "end_side")) == ("UNBOUNDED", "FOLLOWING")


def _takes_rows_of_left(join: exp.Join) -> bool:
    """Whether it is JOIN, CROSS JOIN or LEFT JOIN."""
    kinds = ("", "CROSS", "INNER", "OUTER")
    return join.text("side").upper() in ("", "LEFT") and join.text("kind").upper() in kinds


def _is_true(condition: exp.Expr) -> bool:
    return isinstance(condition, exp.Boolean) and bool(condition.this)


def _is_limited(select: exp.Select) -> bool:
    """Whether a subquery has a LIMIT of so many rows, with DISTINCT by columns that it selects."""
    order, limit, offset = (select.args.get(key) for key in ("order", "limit", "offset"))
    if limit is None or not is_row_count(limit, 1) or not is_row_count(offset, 0):
        return False
    shown = [column.unalias() for column in select.expressions]
    return not select.args.get("distinct") or order is None or all(by.this in shown for by in order.expressions)


def _null_is_false(node: exp.Expr) -> bool:
    """Whether NULL has the same effect as FALSE: below AND and OR alone, up to WHERE."""
    around = node.parent
    while isinstance(around, exp.And | exp.Or | exp.Paren):
        around = around.parent
    return isinstance(around, exp.Where) or around is None
