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
    """Flink's ``table.exec.emit.*``, for windows whose query does not say when they fire.

    ``early_ms`` and ``late_ms`` are the delays of early and late firings where those are enabled, 0 for each row;
    ``allow_ms`` is the lateness that they allow. ``zone``: TUMBLE, HOP and CUMULATE start on that zone's wall clock;
    None for UTC. ``lookup`` holds the defaults of ``table.exec.async-lookup.*`` for lookups. ``most_held``: how many
    rows may wait for barriers. ``functions``: what happens to rows for which a scalar function raises an exception,
    with the name of a table. ``state_ttl_ms``: rows of operators whose state does not end by itself are forgotten so
    long after they were written; 0: never. ``repeated_changes``: tables may give a change twice. ``dynamic_options``:
    OPTIONS hints may change the options of tables. ``lengths``: what becomes of a value that is not as long as the type
    of its column in the table that is written, ``drops_nulls``: rows are left out that have no value in one that is
    NOT NULL. ``not_in_star``: the kinds of virtual metadata columns that `*` does not stand for.
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

    @property
    def allowed_ms(self) -> int:
        """How late rows may be. As in Flink, ``allow_ms`` has no effect where late firings are not enabled."""
        return self.allow_ms or 0 if self.late_ms is not None else 0


DEFAULT_SETTINGS = BinderSettings()


# --- relations and the context --------------------------------------------------------------------------------


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
    settings: BinderSettings = DEFAULT_SETTINGS
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


# --- syntax that no part of the binder reads ------------------------------------------------------------------

# Where a part has a refusal of its own; the rest is "syntax".
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
_NAMES = {"with_": "WITH", "from_": "FROM", "for_": "FOR", "global_": "GLOBAL"}


def refuse_rest(node: exp.Expr, consumed: Iterable[str], context: Context) -> None:
    """Refuse each argument of ``node`` that is set and not ``consumed``."""
    bound = set(consumed)
    for key, value in node.args.items():
        if key in bound or value is None or value is False or value == []:
            continue
        feature = _FEATURES.get(key, "syntax")
        name = _NAMES.get(key, key.replace("_", " ").upper())
        detail = f"It is {name} of {type(node).__name__.upper()}." if feature == "syntax" else None
        context.refuse(feature, _at(value) or span_of(node), detail)


def _at(value: object) -> Span | None:
    first = value[0] if isinstance(value, list) and value else value
    return span_of(first) if isinstance(first, exp.Expr) else None
