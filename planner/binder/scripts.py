"""Whole scripts, without running anything: every statement bound against a scratch catalog."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from sqlstream.errors import Diagnostic, SqlStreamError
from sqlstream.grammar import parse_script_recovering
from sqlstream.grammar.nodes import (
    CreateFunction,
    CreateTable,
    CreateView,
    Describe,
    Drop,
    Explain,
    Insert,
    Name,
    Query,
    Show,
    Statement,
    StatementSet,
)
from sqlstream.planner.binder.context import bind_error
from sqlstream.planner.binder.statements import (
    bind_query,
    bind_statement,
    bind_statement_set,
    bind_view,
    refuse_statement,
)
from sqlstream.planner.binder.tables import bind_table
from sqlstream.planner.catalog import Catalog, Column, Function, FunctionKind, Table, View
from sqlstream.planner.nodes import Field
from sqlstream.planner.suggestions import did_you_mean
from sqlstream.types import UNKNOWN

DescribeFunction = Callable[[CreateFunction], Function]


def any_scalar(create: CreateFunction) -> Function:
    """What is known of a Python function that nobody imported: a scalar of unknown type, any arguments."""
    return Function(str(create.name), create.target, FunctionKind.SCALAR, UNKNOWN)


@dataclass
class ScratchCatalog:
    """Definitions of a script on top of a catalog, which stays as it is."""

    below: Catalog
    relations: dict[str, Table | View | None] = field(default_factory=dict)
    functions: dict[str, Function | None] = field(default_factory=dict)

    def relation(self, name: str) -> Table | View | None:
        key = name.casefold()
        return self.relations[key] if key in self.relations else self.below.relation(name)

    def function(self, name: str) -> Function | None:
        key = name.casefold()
        return self.functions[key] if key in self.functions else self.below.function(name)

    def relation_names(self) -> list[str]:
        own = [r.name for r in self.relations.values() if r is not None]
        return own + [n for n in self.below.relation_names() if n.casefold() not in self.relations]

    def function_names(self) -> list[str]:
        own = [f.name for f in self.functions.values() if f is not None]
        return own + [n for n in self.below.function_names() if n.casefold() not in self.functions]


def check_script(text: str, catalog: Catalog, describe_function: DescribeFunction = any_scalar) -> list[Diagnostic]:
    """All mistakes of a script in the order of its text; empty when every statement binds."""
    statements, errors = parse_script_recovering(text)
    scratch = ScratchCatalog(catalog)
    found = [d for e in errors for d in e.diagnostics]
    for statement in statements:
        try:
            _check(statement, scratch, text, describe_function)
        except SqlStreamError as error:
            found.extend(error.diagnostics)
    attached = [d if d.source is not None else replace(d, source=text) for d in found]
    return sorted(attached, key=lambda d: d.span.start if d.span and d.source == text else len(text))


def _check(statement: Statement, scratch: ScratchCatalog, text: str, describe: DescribeFunction) -> None:
    """Bind one statement and apply what it defines."""
    match statement:
        case CreateTable() | CreateView() | CreateFunction():
            _define(statement, scratch, text, describe)
        case Drop():
            _drop(statement, scratch)
        case Explain(statement=CreateTable() as explained):
            _table(explained, scratch)
        case Explain():
            _check(statement.statement, scratch, text, describe)
        case StatementSet():
            bind_statement_set(statement, scratch)
        case Query() | Insert():
            bind_statement(statement, scratch)
        case Describe(kind="TABLE", name=name) | Show(what="CREATE TABLE", name=Name() as name):
            if scratch.relation(str(name)) is None:
                raise _unknown("table or view", name, scratch.relation_names())
        case _:
            refuse_statement(statement)


def _define(
    statement: CreateTable | CreateView | CreateFunction,
    scratch: ScratchCatalog,
    text: str,
    describe: DescribeFunction,
) -> None:
    key = str(statement.name).casefold()
    if isinstance(statement, CreateFunction):
        if not (statement.if_not_exists and scratch.function(key)):
            scratch.functions[key] = describe(statement)
        return
    found = scratch.relation(key)
    if isinstance(statement, CreateTable):
        defined: Table | View = _table(statement, scratch)
    else:
        defined = bind_view(statement, scratch, text)
        found = None if statement.replace and isinstance(found, View) else found
    if found is None:
        scratch.relations[key] = defined
    elif not statement.if_not_exists:
        kind = "table" if isinstance(found, Table) else "view"
        message, hint = f'{kind} "{found.name}" exists already', "Drop it first, or add IF NOT EXISTS."
        raise bind_error("SS224", message, statement.name.span, hint)


def _table(statement: CreateTable, scratch: ScratchCatalog) -> Table:
    table = bind_table(statement, scratch)
    if statement.query is None:
        return table
    plan = bind_query(statement.query, scratch)
    return replace(table, columns=tuple(map(_column, plan.names, plan.schema)))


def _column(name: str, field: Field) -> Column:
    return Column(name, field.type, field.nullable)


def _drop(statement: Drop, scratch: ScratchCatalog) -> None:
    key = str(statement.name).casefold()
    if statement.kind == "FUNCTION":
        if scratch.function(key) is None and not statement.if_exists:
            raise _unknown("function", statement.name, scratch.function_names())
        scratch.functions[key] = None
        return
    wanted = Table if statement.kind == "TABLE" else View
    if not isinstance(scratch.relation(key), wanted):
        if not statement.if_exists:
            raise _unknown(statement.kind.lower(), statement.name, scratch.relation_names())
        return
    scratch.relations[key] = None


def _unknown(kind: str, name: Name, candidates: list[str]) -> SqlStreamError:
    return bind_error("SS202", f'{kind} "{name}" does not exist', name.span, did_you_mean(str(name), candidates))
