"""What binding passes along: the catalog, the session's settings, the queries of WITH, and the mistakes so far."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from sqlstream.errors import BindError, Diagnostic, Span, SqlStreamError
from sqlstream.grammar.spans import span_of
from sqlstream.planner import unsupported
from sqlstream.planner.bad_rows import BadAction
from sqlstream.planner.catalog import Catalog, MetadataColumns, View
from sqlstream.planner.fields import Field
from sqlstream.planner.node import Node
from sqlstream.udfs.barriers import MOST_HELD
from sqlstream.udfs.lookup.options import DEFAULT_LOOKUP, LookupOptions

# --- settings of the session ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class BinderSettings:
    """The session's settings that change how a query is bound.

    ``early_ms``, ``late_ms`` and ``allow_ms`` are Flink's ``table.exec.emit.*``, for windows whose query does not say
    when they fire: the delays of early and late firings in milliseconds (0: at each row; None: disabled), and the
    allowed lateness. ``zone`` is the time zone whose wall clock TUMBLE, HOP and CUMULATE follow, None for UTC.
    ``lookup`` has the defaults of ``table.exec.async-lookup.*``. ``most_held`` limits the number of rows that wait in
    ALIGN BARRIERS. ``functions`` says what happens to rows for which a scalar function raises an exception: an action,
    and the name of the table for dead letters. ``state_ttl_ms`` is Flink's ``table.exec.state.ttl`` in milliseconds, 0
    for no limit. ``repeated_changes``: a source may deliver a change twice. ``dynamic_options``: OPTIONS hints are
    allowed. ``lengths`` says what INSERT does with values that are longer than their column allows. ``drops_nulls``:
    INSERT drops rows with NULL in a NOT NULL column. ``not_in_star`` are the kinds of virtual metadata columns that
    ``*`` leaves out. ``any_order``: the query is over finished data, and Spark SQL executes its ORDER BY, LIMIT and
    OFFSET, so that only their names are bound. ``finished``: the query runs as a stream over finished data, and an
    aggregate without GROUP BY has a result there also without rows.
    """

    early_ms: int | None = None
    late_ms: int | None = None
    allow_ms: int | None = None
    zone: str | None = None
    lookup: LookupOptions = DEFAULT_LOOKUP
    most_held: int = MOST_HELD
    functions: tuple[BadAction, str | None] = (BadAction.FAIL, None)
    state_ttl_ms: int = 0
    repeated_changes: bool = False
    dynamic_options: bool = True
    lengths: str = "IGNORE"
    drops_nulls: bool = False
    not_in_star: frozenset[MetadataColumns] = frozenset()
    any_order: bool = False
    finished: bool = False

    @property
    def allowed_ms(self) -> int:
        """The allowed lateness in milliseconds; as in Flink, ``allow_ms`` has no effect where late firings are
        disabled.
        """
        return self.allow_ms or 0 if self.late_ms is not None else 0


DEFAULT_SETTINGS = BinderSettings()


# --- relations and the context --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Relation:
    """A bound query or table. ``names`` are the column names that users see, one per field of ``node``; they may
    repeat."""

    node: Node
    names: tuple[str, ...]

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.node.schema


BindQuery = Callable[[exp.Expr, "Context"], Relation]
"""Binds a query inside another one: clauses get it from their caller, which binds queries of every shape."""


@dataclass(frozen=True)
class Context:
    """What binding functions pass on while one query is bound: the catalog, the settings, the names in scope, the
    mistakes.

    ``queries`` are those of WITH, by lower-case name; ``views`` the views that are being expanded, outermost first.
    ``problems`` are the mistakes found so far, shared by the whole query. ``ttl_of`` returns, for a table's alias in
    FROM, the time to live of its rows in the state of joins, aggregates and the like, in milliseconds, 0 for no limit.
    ``around`` returns True for a column of an outer query. ``twice`` is the number of outer NOT INs; as each may be
    planned as two joins with its subquery, deep nesting would double the plan too often.
    """

    catalog: Catalog
    queries: Mapping[str, Relation] = field(default_factory=dict)
    views: tuple[str, ...] = ()
    problems: dict[Diagnostic, None] = field(default_factory=dict)
    settings: BinderSettings = DEFAULT_SETTINGS
    ttl_of: Callable[[str], int] = lambda table: 0
    around: Callable[[exp.Column], bool] = lambda column: False
    twice: int = 0

    def with_query(self, name: str, relation: Relation) -> Context:
        """Returns a context in which ``name`` stands for this query of WITH."""
        return replace(self, queries={**self.queries, name.casefold(): relation})

    def inside_view(self, view: View) -> Context:
        """The context for binding a view's query, which sees only the catalog and reports its mistakes separately."""
        views, catalog = (*self.views, view.name.casefold()), self.catalog.within(view.namespace)
        return replace(self, catalog=catalog, queries={}, views=views, problems={}, around=lambda column: False)

    def report(self, error: SqlStreamError | Diagnostic) -> None:
        """Record a mistake without raising it, so that one attempt shows all mistakes of a query."""
        diagnostics = error.diagnostics if isinstance(error, SqlStreamError) else (error,)
        self.problems.update(dict.fromkeys(diagnostics))

    def refuse(self, feature: str, at: exp.Expr | Span | None, detail: str | None = None) -> None:
        """Records that a feature is not supported, without raising. ``feature`` is its name in
        ``planner/unsupported.py``, ``detail`` replaces the detail given there.
        """
        span = span_of(at) if isinstance(at, exp.Expr) else at
        self.report(unsupported.diagnostic(feature, span, detail))

    def wrong(self, code: str, message: str, at: exp.Expr | Span | None, hint: str | None = None) -> None:
        """Reports a BindError with this code and message, without raising it."""
        self.report(bind_error(code, message, at, hint))

    def stop_if_wrong(self) -> None:
        """Raise all recorded mistakes as one SqlStreamError, if there are any."""
        if self.problems:
            raise SqlStreamError.of(self.problems)


def bind_error(
    code: str, message: str, at: exp.Expr | Span | None, hint: str | None = None, detail: str | None = None
) -> BindError:
    """Returns a BindError with this code and message. ``at`` is the expression, or the span of the text, that is
    wrong.
    """
    span = span_of(at) if isinstance(at, exp.Expr) else at
    return BindError(code, message, span, hint=hint, detail=detail)


# --- syntax that no part of the binder reads ------------------------------------------------------------------

_FEATURES: dict[str, str] = {
    "windows": "over here",
    "hint": "hint",
    "hints": "hint",
    "pivots": "pivot",
    "sample": "sample",
    "system_time": "temporal join",
    "version": "temporal join",
    "when": "temporal join",
    "recursive": "recursive",
}
"""Parts of syntax that have a refusal of their own in ``planner/unsupported.py``; the others are "syntax"."""

_NAMES = {"with_": "WITH", "from_": "FROM", "for_": "FOR", "global_": "GLOBAL"}


def refuse_rest(node: exp.Expr, consumed: Iterable[str], context: Context) -> None:
    """Reports each clause of ``node`` that is set although no binding function has read it. ``consumed`` names the
    clauses that were read, as arguments of sqlglot's class.
    """
    bound = set(consumed)
    for key, value in node.args.items():
        if key in bound or value is None or value is False or value == []:
            continue
        feature = _FEATURES.get(key, "syntax")
        name = _NAMES.get(key, key.replace("_", " ").upper())
        detail = f"It is {name} of {type(node).__name__.upper()}." if feature == "syntax" else None
        first = value[0] if isinstance(value, list) else value
        span = span_of(first) if isinstance(first, exp.Expr) else None
        context.refuse(feature, span or span_of(node), detail)
