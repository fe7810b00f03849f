"""A query over finished data for Spark: the tables that it reads, its text as Spark SQL, and where each part of that
text stands in the script.

Spark locates errors by a range of the text that it was given. While the text is generated, each part that has a span in
the script is enclosed in marks; then the marks are removed, and the range between them is stored with the span.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any, ClassVar

from sqlglot import exp, transforms
from sqlglot.generators.spark import SparkGenerator

from sqlstream.errors import Span, SqlStreamError
from sqlstream.grammar.depth import on_deep_stack
from sqlstream.grammar.dialect import WithTimeGenerator, member_sql
from sqlstream.grammar.nodes import TableArgument
from sqlstream.grammar.spans import is_marked, span_of
from sqlstream.grammar.trees import ARG, table_clauses_of, table_function_of
from sqlstream.planner import unsupported
from sqlstream.planner.binder.context import bind_error
from sqlstream.planner.binder.hints import with_hinted_options
from sqlstream.planner.binder.lookups import is_time_travel
from sqlstream.planner.binder.time_travel import as_it_was, constant_as_of
from sqlstream.planner.catalog import Catalog, Table, View
from sqlstream.planner.expressions import as_expression, conjuncts, has_subquery, is_repeatable, with_children_changed
from sqlstream.planner.fields import field_of, shown_name
from sqlstream.planner.suggestions import did_you_mean

# --- the tables that a query reads, and a copy of the query in which Spark finds them -------------------------
# A table is read as a temporary view of Spark whose name no other session uses, a view of the catalog as its query.
# Names of WITH are the same in the copy: scopes in Spark are the same.


VIEW = "of_view"
"""Metadata of the nodes of a view's query: their places are in the view's text."""

_KEPT = ("joins", "laterals", "pivots", "sample")


@dataclass(frozen=True)
class Input:
    """A table that a query reads. ``at`` is where the table is first named: in the text of ``view``, or in the query's
    own text if ``view`` is None.
    """

    table: Table
    at: exp.Expr
    view: View | None = None


@dataclass(frozen=True)
class Resolved:
    """A query with its names resolved. In ``query`` the tables have Spark's names. ``inputs`` are the tables, each
    once; ``views`` are the views that it reads.
    """

    query: exp.Expr
    inputs: tuple[Input, ...]
    views: tuple[View, ...]


@on_deep_stack
def resolve(
    query: exp.Expr, catalog: Catalog, named: Callable[[Table], str], dynamic: bool = True, zone: str | None = None
) -> Resolved:
    """Looks up the tables and views that a query names, and gives the tables Spark's names.

    ``named`` returns Spark's name for a table. ``dynamic``: OPTIONS hints may change a table's options. ``zone``: the
    time zone of the session. BindError SS202 for unknown names, SS222 for a view that refers to itself.
    """
    names = _Resolver(catalog, named, dynamic, zone)
    return Resolved(names.resolved(query, frozenset()), tuple(names.inputs.values()), tuple(names.views.values()))


class _Resolver:
    def __init__(self, catalog: Catalog, named: Callable[[Table], str], dynamic: bool, zone: str | None) -> None:
        self._catalog = catalog
        self._zone = zone
        self._named = named
        self._dynamic = dynamic
        self._inside: tuple[View, ...] = ()
        self.inputs: dict[str, Input] = {}
        self.views: dict[str, View] = {}

    def resolved(self, node: exp.Expr, names: frozenset[str]) -> exp.Expr:
        """A copy; ``names`` are those of the queries of WITH around it, in lower case."""
        given = node.args.get("with_")
        if given is None:
            return self._of(node, lambda child: self.resolved(child, names), names)
        changed = exp.With(recursive=given.args.get("recursive"))
        for cte in given.expressions:
            name = cte.alias.casefold()
            inside = names | {name} if given.args.get("recursive") else names
            changed.append("expressions", with_children_changed(cte, partial(self.resolved, names=inside)))
            names = names | {name}
        return self._of(node, lambda child: changed if child is given else self.resolved(child, names), names)

    def _of(self, node: exp.Expr, change: Callable[[exp.Expr], exp.Expr], names: frozenset[str]) -> exp.Expr:
        copy = with_children_changed(node, change)
        if self._inside:
            copy.meta[VIEW] = self._inside[-1].name
        if isinstance(node, exp.Select):
            copy.set(
                "expressions",
                [_named_as_written(*pair) for pair in zip(copy.expressions, node.expressions, strict=True)],
            )
        function = table_function_of(node) if isinstance(node, exp.Table) else None
        if function is not None:  # of a stream, which Spark does not see: its tables are inputs all the same
            for argument in function.arguments:
                if isinstance(argument.value, TableArgument):
                    self.resolved(argument.value.source, names)
        if not (isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier)):
            return copy
        name = ".".join(identifier.name for identifier in node.parts)
        return copy if name.casefold() in names else self._relation(name, node, copy)

    def _relation(self, name: str, node: exp.Table, copy: exp.Expr) -> exp.Expr:
        relation = self._catalog.relation(name)
        if relation is None:
            names = self._catalog.relation_names()
            hint = did_you_mean(name, names, "tables and views") or "Create it with CREATE TABLE."
            raise self._located(bind_error("SS202", f'table or view "{name}" does not exist', node.this, hint))
        if isinstance(relation, View):
            if constant_as_of(node) is not None:
                raise self._located(unsupported.refusal("past", span_of(node)))
            return self._view(relation, node, copy)
        relation = self._optioned(relation, node)
        inside = self._inside[-1] if self._inside else None
        if not is_time_travel(node):  # else it is looked up, not read
            self.inputs.setdefault(relation.name.casefold(), Input(relation, node, inside))
        if not node.alias:
            copy.set("alias", exp.TableAlias(this=exp.to_identifier(node.name, quoted=True)))
        own = exp.to_identifier(self._named(relation), quoted=True)
        own.meta.update(node.this.meta)
        for key, value in (("this", own), ("db", None), ("catalog", None), (ARG, None)):
            copy.set(key, value)
        if constant_as_of(node) is not None:
            copy.set("version", None)
        return copy

    def _optioned(self, table: Table, node: exp.Table) -> Table:
        """The table with the options of its hint, and as of the time that the query says. One with other options is
        another table, with a name of its own.
        """
        hint = table_clauses_of(node).hint
        changed = table if hint is None else with_hinted_options(table, hint, self._catalog, self._dynamic)
        changed = as_it_was(changed, node, self._catalog, self._zone)
        same = [i.table for i in self.inputs.values() if i.table.options == changed.options]
        if changed.options == table.options:
            return table
        others = [name for name in self.inputs if name.startswith(f"{table.name.casefold()} with other options")]
        number = f" ({len(others) + 1})" if others else ""
        name = next((t.name for t in same), f"{table.name} with other options{number}")
        return replace(changed, name=name)

    def _view(self, view: View, node: exp.Table, copy: exp.Expr) -> exp.Expr:
        if view in self._inside:
            raise self._located(bind_error("SS222", f'view "{view.name}" refers to itself', node))
        self.views.setdefault(view.name.casefold(), view)
        catalog = self._catalog
        self._inside, self._catalog = (*self._inside, view), catalog.within(view.namespace)
        query = self.resolved(view.query, frozenset())
        self._inside, self._catalog = self._inside[:-1], catalog
        given = node.args.get("alias")
        renamed = given.columns if given is not None and given.columns else view.columns
        columns = [c.copy() if isinstance(c, exp.Expr) else exp.to_identifier(c, quoted=True) for c in renamed]
        alias = exp.TableAlias(this=exp.to_identifier(node.alias or node.name, quoted=True), columns=columns)
        subquery = exp.Subquery(this=query, alias=alias)
        for key in _KEPT:
            subquery.set(key, copy.args.get(key))
        return subquery

    def _located(self, error: SqlStreamError) -> SqlStreamError:
        """The error with the text that its places are in, where that is the one of a view."""
        if not self._inside:
            return error
        view = self._inside[-1]
        where = f'In view "{view.name}".'
        return SqlStreamError.of(replace(d, detail=where, source=view.text or None) for d in error.diagnostics)


def _named_as_written(resolved: exp.Expr, written: exp.Expr) -> exp.Expr:
    """A column of a select list that has a subquery, under the name that its text gives it: of tables as users do."""
    if isinstance(written, exp.Alias | exp.Aliases) or not has_subquery(written):
        return resolved
    return exp.Alias(this=resolved, alias=exp.to_identifier(shown_name(written), quoted=True))


# --- conditions that a source may check -----------------------------------------------------------------------


_PRESERVED = ("", "LEFT")


def conditions_of(table: Table, name: str, query: exp.Expr) -> list[exp.Expression]:
    """Returns the conditions of WHERE that read only columns of one table, so that the table's source can apply them.
    ``name`` is the table's name in the query. Empty if the query names the table several times, or if an outer join may
    fill its columns with NULL.
    """
    named = [own_conditions for own_conditions in query.find_all(exp.Table) if own_conditions.name == name]
    select = named[0].find_ancestor(exp.Select) if len(named) == 1 else None
    where = select.args.get("where") if select is not None else None
    if select is None or where is None or not _is_kept(named[0], select):
        return []
    columns = {c.name.casefold(): c.name for c in table.physical_columns}
    alone = not (select.args.get("joins") or select.args.get("laterals"))
    alias = named[0].alias_or_name.casefold()
    own_conditions = (_over(conjunct, alias, columns, alone) for conjunct in conjuncts(where.this))
    return [condition for condition in own_conditions if condition is not None]


def _is_kept(table: exp.Table, select: exp.Select) -> bool:
    joins = select.args.get("joins") or []
    sides = [(join.args.get("side") or "").upper() for join in joins]
    if table.parent is select.args.get("from_"):
        return all(side in _PRESERVED for side in sides) and not table.args.get("joins")
    return table.parent in joins and not any(sides) and not table.args.get("joins")


def _over(condition: exp.Expression, alias: str, columns: dict[str, str], alone: bool) -> exp.Expression | None:
    """The condition over the table's fields; None where it is about anything else."""
    if has_subquery(condition) or not is_repeatable(condition):
        return None
    copy = condition.copy()
    for column in list(copy.find_all(exp.Column)):
        own = column.table.casefold() == alias or (alone and not column.table)
        if not own or len(column.parts) > 2 or column.name.casefold() not in columns:
            return None
        field = field_of(columns[column.name.casefold()])
        if column is copy:
            return as_expression(field)
        column.replace(field)
    return as_expression(copy)


_BEGIN, _NAMED, _END = "\ue000", "\ue001", "\ue002"
_MARK = re.compile(f"{_BEGIN}(\\d+){_NAMED}|{_END}")


@dataclass(frozen=True)
class SqlFragment:
    """Maps a part of the text for Spark to its origin: ``text[start:end]`` was made from ``span`` of the user's script,
    or of the text of ``view``.
    """

    start: int
    end: int
    span: Span
    view: str | None


@dataclass(frozen=True)
class SparkText:
    """The text of a query for Spark. ``parts`` map it to the user's script for error messages; they are in no order and
    may be nested.
    """

    text: str
    parts: tuple[SqlFragment, ...] = ()

    def part_at(self, start: int, end: int) -> SqlFragment | None:
        """The origin of the characters ``start`` to ``end`` (exclusive) of the text: all fragments among them, joined
        to one. If there are none, the smallest fragment around them; None without any.
        """
        holding = [fragment for fragment in self.parts if fragment.start <= start and end <= fragment.end]
        inside = [fragment for fragment in self.parts if start <= fragment.start and fragment.end <= end]
        if not inside or (holding and min(map(_width, holding)) == end - start):
            return min(holding, key=_width, default=None)
        spans = [fragment.span for fragment in inside if fragment.view == inside[0].view]
        return SqlFragment(start, end, reduce(Span.to, spans), inside[0].view)


def _width(fragment: SqlFragment) -> int:
    return fragment.end - fragment.start


_OPTIONS: dict[str, Any] = {"dialect": "spark", "comments": False, "normalize_functions": False}


@on_deep_stack
def spark_text(query: exp.Expr) -> SparkText:
    """Prints a query that ``respelling.for_spark`` has rewritten as text of Spark SQL, with the origin of its parts."""
    query = _without_any(query)
    plain = _SparkSql(**_OPTIONS).generate(query)
    if any(mark in plain for mark in (_BEGIN, _NAMED, _END)):
        return SparkText(plain)
    marking = _Marking(**_OPTIONS)
    marked_text = _without_marks(marking.generate(query), marking.marked)
    # Whoever prints may look at what is printed; a text that marks have changed would be another query.
    return marked_text if marked_text.text == plain else SparkText(plain)


def _without_any(query: exp.Expr) -> exp.Expr:
    """A copy in which ANY of arrays is EXISTS: sqlglot's generator looks for it in each query of a query."""
    copy = query.copy()
    holder = exp.Select(expressions=[copy])
    transforms.any_to_exists(holder)
    return copy


def _without_marks(marked: str, nodes: list[tuple[Span, str | None]]) -> SparkText:
    text: list[str] = []
    length = position = 0
    open_parts: list[tuple[int, int]] = []
    parts: list[SqlFragment] = []
    for mark in _MARK.finditer(marked):
        text.append(marked[position : mark.start()])
        length += mark.start() - position
        position = mark.end()
        if mark[1] is not None:
            open_parts.append((int(mark[1]), length))
        elif open_parts:
            number, start = open_parts.pop()
            parts.append(SqlFragment(start, length, *nodes[number]))
    text.append(marked[position:])
    return SparkText("".join(text), tuple(parts))


class _SparkSql(WithTimeGenerator):
    """What Spark 4 has itself is not written in other words."""

    EXPRESSIONS_WITHOUT_NESTED_CTES: ClassVar[set[Any]] = set()
    WRAP_DERIVED_VALUES = True  # without parentheses a comma after the rows would go on with them
    TRANSFORMS: ClassVar[dict[Any, Callable[..., str]]] = {
        kind: f for kind, f in SparkGenerator.TRANSFORMS.items() if kind is not exp.Select
    }

    def columndef_sql(self, expression: exp.ColumnDef, sep: str = " ") -> str:
        return member_sql(self, expression) or super().columndef_sql(expression, sep)


class _Marking(_SparkSql):
    """``marked`` are the places of the parts, by their numbers."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.marked: list[tuple[Span, str | None]] = []

    def sql(self, expression: str | exp.Expr | None, key: str | None = None, comment: bool = True) -> str:
        text = super().sql(expression, key, comment)
        if key is not None or not isinstance(expression, exp.Expr) or not text or not is_marked(expression):
            return text
        span = span_of(expression)
        if span is None:
            return text
        self.marked.append((span, expression.meta.get(VIEW)))
        return f"{_BEGIN}{len(self.marked) - 1}{_NAMED}{text}{_END}"
