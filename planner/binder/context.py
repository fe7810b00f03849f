"""What binding passes along: the catalog, the queries in scope of WITH, and the mistakes found so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from sqlstream.errors import BindError, Diagnostic, Span, SqlStreamError
from sqlstream.grammar.spans import span_of
from sqlstream.planner import unsupported
from sqlstream.planner.binder.settings import DEFAULT_EMIT, EmitSettings
from sqlstream.planner.catalog import Catalog, View
from sqlstream.planner.fields import Field
from sqlstream.planner.node import Node


@dataclass(frozen=True)
class Relation:
    """A bound query or table: ``names`` are what users see, one per field of ``node``, duplicates allowed."""

    node: Node
    names: tuple[str, ...]

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.node.schema


BindQuery = Callable[[exp.Expr, "Context"], Relation]
"""Makes the relation of a query inside another one: clauses call back to what binds all kinds of queries."""


def _for_ever(table: str) -> int:
    return 0


def _nothing(column: exp.Column) -> bool:
    return False


@dataclass(frozen=True)
class Context:
    """``views`` are being expanded right now; ``problems`` is shared by the whole query and grows. ``ttl_of`` says how
    many milliseconds state without an end remembers rows of a table of FROM, by its alias; 0: for ever. ``around`` says
    of a column whether a query knows it in which this one is a subquery. ``twice``: how many subqueries are around that
    a plan has twice."""

    catalog: Catalog
    queries: Mapping[str, Relation] = field(default_factory=dict)
    views: tuple[str, ...] = ()
    problems: dict[Diagnostic, None] = field(default_factory=dict)
    settings: EmitSettings = DEFAULT_EMIT
    ttl_of: Callable[[str], int] = _for_ever
    around: Callable[[exp.Column], bool] = _nothing
    twice: int = 0

    def with_query(self, name: str, relation: Relation) -> Context:
        return replace(self, queries={**self.queries, name.casefold(): relation})

    def inside_view(self, view: View) -> Context:
        views, catalog = (*self.views, view.name.casefold()), self.catalog.within(view.namespace)
        return replace(self, catalog=catalog, queries={}, views=views, problems={}, around=_nothing)

    def report(self, error: SqlStreamError | Diagnostic) -> None:
        """Note a mistake and go on, so that one attempt shows all of them."""
        diagnostics = error.diagnostics if isinstance(error, SqlStreamError) else (error,)
        self.problems.update(dict.fromkeys(diagnostics))

    def refuse(self, feature: str, at: exp.Expr | Span | None, detail: str | None = None) -> None:
        span = span_of(at) if isinstance(at, exp.Expr) else at
        self.report(unsupported.diagnostic(feature, span, detail))

    def wrong(self, code: str, message: str, at: exp.Expr | Span | None, hint: str | None = None) -> None:
        self.report(bind_error(code, message, at, hint))

    def stop_if_wrong(self) -> None:
        if self.problems:
            raise SqlStreamError.of(self.problems)


def bind_error(
    code: str, message: str, at: exp.Expr | Span | None, hint: str | None = None, detail: str | None = None
) -> BindError:
    span = span_of(at) if isinstance(at, exp.Expr) else at
    return BindError(code, message, span, hint=hint, detail=detail)
