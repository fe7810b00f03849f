"""Names: what an expression may refer to, the columns that a select list stands for, and PROCTIME() among them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from sqlglot import exp

from sqlstream.errors import SqlStreamError
from sqlstream.planner.binder.context import Context, Relation, bind_error, refuse_rest
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.fields import Field, UniqueNames, field_of, shown_name
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import AssignTime, Scan
from sqlstream.planner.suggestions import counted, did_you_mean
from sqlstream.planner.type_inference import Types, member_type


@dataclass(frozen=True)
class Visible:
    """A column name that users may write, and the field that it stands for.

    ``starred``: the column is part of ``*``. ``qualified``: it must be written with its table (``t.x``), as a column
    that JOIN … USING shows once under its plain name.
    """

    name: str
    field: str
    table: str | None = None
    starred: bool = True
    qualified: bool = False

    def matches(self, name: str, table: str | None) -> bool:
        """Whether ``name``, or ``table.name``, refers to this column."""
        if self.name.casefold() != name.casefold():
            return False
        if table is None:
            return not self.qualified
        return self.table is not None and self.table.casefold() == table.casefold()


@dataclass(frozen=True)
class Scope:
    """The names that expressions over the rows of one plan node may use: ``columns`` are these names, ``node`` computes
    the rows.
    """

    node: Node
    columns: tuple[Visible, ...]

    @cached_property
    def fields(self) -> dict[str, Field]:
        """The fields of the node by name."""
        return {f.name: f for f in self.node.schema}

    @cached_property
    def types(self) -> Types:
        """Computes types of expressions over the fields, as ``scope.types.of(expression)``. Calls of users' functions
        are UNKNOWN to it.
        """
        return Types(self.node.schema)

    @cached_property
    def _by_name(self) -> dict[str, list[Visible]]:
        columns: dict[str, list[Visible]] = {}
        for column in self.columns:
            columns.setdefault(column.name.casefold(), []).append(column)
        return columns

    @property
    def tables(self) -> list[str]:
        """The names of the tables, in the order of FROM, each once."""
        return list(dict.fromkeys(c.table for c in self.columns if c.table is not None))

    def over(self, node: Node) -> Scope:
        """The scope with the same names over another node with the same fields."""
        return replace(self, node=node)

    def with_columns(self, node: Node, columns: tuple[Visible, ...]) -> Scope:
        """Returns a scope with the same names and further ``columns``, whose rows ``node`` computes."""
        return Scope(node, (*self.columns, *columns))

    def stars(self, table: str | None) -> list[Visible]:
        """The columns that ``*`` stands for; with ``table``, those of ``table.*`` in the order of that table."""
        wanted = [c for c in self.columns if c.starred]
        if table is None:
            return wanted
        order = {f.name: i for i, f in enumerate(self.node.schema)}
        own = (c for c in self.columns if (c.starred or c.qualified) and (c.table or "").casefold() == table.casefold())
        return sorted(own, key=lambda c: order[c.field])

    def find(self, name: str, table: str | None = None) -> list[Visible]:
        """All columns to which ``name``, or ``table.name``, may refer."""
        return [c for c in self._by_name.get(name.casefold(), ()) if c.matches(name, table)]

    def resolve(self, column: exp.Column) -> exp.Expr:
        """The field, or the member of a struct field, to which a written column refers. Mistakes raise BindError SS201,
        SS202, SS204.
        """
        parts = [p.name for p in column.parts]
        for width, table, name in _readings(parts):
            matching = self.find(name, table)
            if len({c.field for c in matching}) > 1:
                raise self._ambiguous(column, name, matching)
            if matching:
                return self._member(matching[0], parts[width:], column)
        raise self._unknown(column, parts)

    def visible_of(self, column: exp.Column) -> Visible | None:
        """The visible column to which a written column refers; for ``s.x``, a member of a STRUCT, that of the STRUCT.
        None for columns of outer queries.
        """
        parts = [p.name for p in column.parts]
        return next((found[0] for _, table, name in _readings(parts) if (found := self.find(name, table))), None)

    def knows(self, column: exp.Column) -> bool:
        """True where ``resolve`` would find a field, or find several and raise SS204."""
        parts = [p.name for p in column.parts]
        for width, table, name in _readings(parts):
            matching = self.find(name, table)
            if len({c.field for c in matching}) > 1:
                return True
            if matching:
                return width == len(parts) or self._has_member(matching[0], parts[width:], column)
        return False

    def _has_member(self, visible: Visible, path: list[str], column: exp.Column) -> bool:
        try:
            self._member(visible, path, column)
        except SqlStreamError:
            return False
        return True

    def _member(self, visible: Visible, path: list[str], column: exp.Column) -> exp.Expr:
        result: exp.Expr = field_of(visible.field)
        for name in path:
            struct = self.types.of(result)
            if not struct.is_unknown and member_type(struct, name).is_unknown and struct.name != "VARIANT":
                members = [m[0] for m in struct.args if isinstance(m, tuple)]
                message = f'column "{visible.name}" of type {struct} has no field "{name}"'
                raise bind_error("SS201", message, column, did_you_mean(name, members, "fields"))
            result = exp.Dot(this=result, expression=exp.to_identifier(name, quoted=True))
        return result

    def _unknown(self, column: exp.Column, parts: list[str]) -> SqlStreamError:
        name = parts[-1]
        if len(parts) > 1 and self.tables and parts[0].casefold() not in {t.casefold() for t in self.tables}:
            hint = did_you_mean(parts[0], [t for t in self.tables if not t.startswith("__")], "tables of this query")
            return bind_error("SS202", f'table "{".".join(parts[:-1])}" is not in FROM', column, hint)
        in_table = f' in "{parts[0]}"' if len(parts) > 1 else ""
        named = (c for c in self.columns if not c.name.startswith("__"))  # others are those of subqueries
        visible = [c for c in named if len(parts) == 1 or (c.table or "").casefold() == parts[0].casefold()]
        qualified = [f"{c.table}.{c.name}" for c in visible if c.qualified and c.name.casefold() == name.casefold()]
        hint = f"Write {' or '.join(qualified)}." if qualified else None
        hint = hint or did_you_mean(name, [c.name for c in visible], "columns")
        return bind_error("SS201", f'column "{name}" does not exist{in_table}', column, hint)

    def _ambiguous(self, column: exp.Column, name: str, matching: list[Visible]) -> SqlStreamError:
        tables = list(dict.fromkeys(c.table for c in matching if c.table))
        if len(tables) > 1:
            hint = f"Write {' or '.join(f'{t}.{name}' for t in tables)}."
        else:
            hint = "Give the columns different names with AS in the query below."
        return bind_error("SS204", f'column "{name}" is ambiguous', column, hint)


def _readings(parts: list[str]) -> Iterator[tuple[int, str | None, str]]:
    """The ways to read a dotted name, qualified ones first: the parts that name the column, its table, its name."""
    for width in range(len(parts), 1, -1):
        yield width, ".".join(parts[: width - 1]), parts[width - 1]
    yield 1, None, parts[0]


def scope_of(relation: Relation, alias: str | None) -> Scope:
    """The scope of a query or table in FROM. Its columns belong to the table name ``alias``, or to none if that is
    None.
    """
    pairs = zip(relation.names, relation.fields, strict=True)
    return Scope(relation.node, tuple(Visible(name, f.name, alias) for name, f in pairs))


WRONG_WIDTH = "SS650"
COMPARED_VALUES = "compared_values"
"""Metadata of the alias of a subquery after ANY or ALL: with how many values its columns are compared."""


def names_under(alias: exp.Expr | None, table: str, names: Sequence[str]) -> tuple[str, ...]:
    """The column names of a source in FROM: those of its alias (``AS t (a, b)``), else ``names``. SS216 for a wrong
    number, SS650 where nobody wrote the alias (``COMPARED_VALUES``).
    """
    columns = alias.columns if isinstance(alias, exp.TableAlias) else []
    if columns and len(columns) != len(names):
        if alias is not None and (values := alias.meta.get(COMPARED_VALUES)) is not None:
            message = f"ANY and ALL compare {counted(values, 'value')} with {counted(len(names), 'column')}"
            raise bind_error(WRONG_WIDTH, message, alias, "Select as many columns as there are values before them.")
        raise bind_error("SS216", f'"{table}" has {counted(len(names), "column")}, not {len(columns)}', alias)
    return tuple(column.name for column in columns) or tuple(names)


# --- the select list ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Selected:
    """A column of the select list: its name in the result, and the expression as written, without AS.

    ``bound`` is the bound expression if it is known already, as for ``*`` and generators; None otherwise. ``aliases``
    are the names after AS.
    """

    name: str
    expression: exp.Expr
    bound: exp.Expression | None = None
    aliases: tuple[str, ...] = ()


def expand(expressions: Sequence[exp.Expr], scope: Scope, context: Context) -> list[Selected]:
    """Returns the columns of a select list, in which ``*`` is replaced by the columns that it stands for."""
    return [column for e in expressions for column in _columns(e, scope, context)]


def _columns(expression: exp.Expr, scope: Scope, context: Context) -> Iterator[Selected]:
    match expression:
        case exp.Star():
            yield from _star(expression, None, expression, scope, context)
        case exp.Column(this=exp.Star() as star):
            table = ".".join(p.name for p in expression.parts[:-1])
            yield from _star(star, table, expression, scope, context)
        case exp.Alias():
            yield Selected(expression.alias, expression.this, None, (expression.alias,))
        case exp.Aliases():
            names = tuple(a.name for a in expression.aliases)
            yield Selected(names[0] if names else "expr", expression.this, None, names)
        case _:
            yield Selected(shown_name(expression), expression)


def _star(star: exp.Star, table: str | None, at: exp.Expr, scope: Scope, context: Context) -> Iterator[Selected]:
    """All columns of ``table``, or of the scope, without those of EXCEPT."""
    refuse_rest(star, ("except_",), context)
    visible = scope.stars(table)
    if table is not None and not visible and isinstance(at, exp.Column):
        members = _members(at, scope)
        if members:
            yield from members
            return
    if table is not None and not visible:
        hint = did_you_mean(table, scope.tables, "tables of this query")
        context.wrong("SS202", f'table "{table}" is not in FROM', at, hint)
    excluded = _excluded(star, visible, context)
    for column in visible:
        if column.name.casefold() not in excluded:
            yield Selected(column.name, exp.column(column.name, table=column.table), field_of(column.field))


def _members(at: exp.Column, scope: Scope) -> list[Selected]:
    """The members of ``r.*``, where ``r`` is a struct column."""
    names = [p.name for p in at.parts[:-1]]
    try:
        kind = scope.types.of(scope.resolve(_named(names)))
    except SqlStreamError:
        return []
    fields = kind.fields() if kind.name == "STRUCT" else []
    return [Selected(name, _named([*names, name])) for name, _ in fields]


def _named(parts: Sequence[str]) -> exp.Column:
    return exp.column(*(exp.to_identifier(part, quoted=True) for part in reversed(parts)))


def _excluded(star: exp.Star, visible: list[Visible], context: Context) -> set[str]:
    names = [c.name for c in visible]
    excluded = star.args.get("except_") or []
    for name in excluded:
        if name.name.casefold() not in {n.casefold() for n in names}:
            hint = did_you_mean(name.name, names, "columns")
            context.wrong("SS201", f'column "{name.name}" of EXCEPT does not exist', name, hint)
    return {name.name.casefold() for name in excluded}


# --- PROCTIME() as a column -----------------------------------------------------------------------------------


def with_processing_time(columns: list[Selected], scope: Scope) -> tuple[Scope, list[Selected]]:
    """Adds a processing-time attribute to the scope, and replaces PROCTIME() in the columns by it.

    For a query of several tables nothing is changed, because no attribute can be added there; calls of PROCTIME() are
    refused later.
    """
    if not any(map(is_proctime, columns)):
        return scope, columns
    name = next((f.name for f in scope.node.schema if f.time is TimeDomain.PROCESSING), None)
    if name is None:
        tables = {n.table.name for n in scope.node.walk() if isinstance(n, Scan)}
        if len(tables) != 1:
            return scope, columns
        name = UniqueNames(f.name for f in scope.node.schema).unique("proctime")
        scope = scope.over(AssignTime(scope.node, name, 0, TimeDomain.PROCESSING, *tables))
    return scope, [replace(c, bound=field_of(name)) if is_proctime(c) else c for c in columns]


def is_proctime(column: Selected) -> bool:
    """Whether the column is PROCTIME() and nothing else."""
    call = column.expression
    named = isinstance(call, exp.Anonymous) and call.name.upper() == "PROCTIME" and not call.expressions
    return column.bound is None and named
