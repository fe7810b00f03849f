"""Whether a query runs as a stream or as one query of Spark SQL over finished data, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlglot import exp

from sqlstream.errors import Span
from sqlstream.grammar.depth import on_deep_stack
from sqlstream.grammar.spans import span_of
from sqlstream.grammar.trees import clauses_of, match_recognize_of, table_clauses_of, table_function_of
from sqlstream.planner.bad_rows import action_of
from sqlstream.planner.batch.asof import is_asof, nearest
from sqlstream.planner.batch.spark_gaps import spark_gaps
from sqlstream.planner.batch.spark_text import VIEW, Input, Resolved
from sqlstream.planner.binder.calls import GROUP_WINDOWS, PANES, SPARK_WINDOWS, TIME_MARKERS, WINDOW_PROPERTIES
from sqlstream.planner.binder.lookups import is_time_travel
from sqlstream.planner.catalog import APPEND_ONLY, Catalog, FunctionKind, Table
from sqlstream.planner.functions.calls import spark_name

# --- clauses that only a stream executes ----------------------------------------------------------------------


_OF_TIME = GROUP_WINDOWS | WINDOW_PROPERTIES | PANES | SPARK_WINDOWS | TIME_MARKERS | {"current_watermark"}
_HINTS = frozenset({"LOOKUP", "STATE_TTL"})
_SPARK_RUNS = frozenset({FunctionKind.SCALAR, FunctionKind.SQL, FunctionKind.AGGREGATE, FunctionKind.TABLE})


@dataclass(frozen=True)
class Clause:
    """A clause that only streams support. ``name`` is its name in messages; ``view`` the name of the view whose query
    contains it, None for the query itself.
    """

    name: str
    span: Span | None = None
    view: str | None = None


@on_deep_stack
def streaming_clause(query: exp.Expr, catalog: Catalog, tables: dict[str, Table]) -> Clause | None:
    """Returns the first part of a query that keeps it from running as a batch, None without one: a clause that only
    streams support, or else one that Spark SQL does not execute (``spark_gaps``).

    In the query, views are replaced by their text. ``tables`` maps the names of tables in the query to the tables.
    """
    for node in query.walk():
        for name, at in _clauses(node, catalog):
            return Clause(name, at, node.meta.get(VIEW))
    return next((Clause(name, at) for name, at in spark_gaps(query, catalog, tables)), None)


def _clauses(node: exp.Expr, catalog: Catalog) -> Iterator[tuple[str, Span | None]]:
    of_query, of_table = clauses_of(node), table_clauses_of(node)
    for name, clause in (
        ("a window in GROUP BY", of_query.window),
        ("TRIGGER", of_query.trigger),
        ("EVICT", of_query.evict),
        ("LATE DATA", of_query.late_data),
        ("EMIT", of_query.emit),
        ("WATERMARK", of_table.watermark),
        ("ALIGN BARRIERS", of_table.barriers),
        ("LOOKUP ASYNC", of_table.lookup),
        ("MATCH_RECOGNIZE", match_recognize_of(node)),
    ):
        if clause is not None:
            yield name, clause.span
    match node:
        case exp.Table() if (function := table_function_of(node)) is not None:
            yield f"{function.name.upper()}(TABLE …)", function.span
        case exp.MatchRecognize():
            yield "MATCH_RECOGNIZE", span_of(node)
        case exp.Table() | exp.Subquery() if is_time_travel(node):
            yield "FOR SYSTEM_TIME AS OF", span_of(node)
        case exp.Join() if is_asof(node) and nearest(node) is None:
            yield "ASOF JOIN in this spelling", span_of(node)
        case exp.Join(kind="SEMI" | "ANTI") if node.text("method").upper() == "NATURAL":
            yield f"NATURAL {node.kind} JOIN, which Spark does not have,", span_of(node)
        case exp.Hint():
            yield from _hints(node)
        case exp.Func():
            yield from _functions(node, catalog)


def _hints(hint: exp.Hint) -> Iterator[tuple[str, Span | None]]:
    for call in hint.expressions:
        if isinstance(call, exp.Anonymous) and call.name.upper() in _HINTS:
            yield f"the hint {call.name.upper()}", span_of(call)


def _functions(call: exp.Func, catalog: Catalog) -> Iterator[tuple[str, Span | None]]:
    name = spark_name(call)
    if name in _OF_TIME:
        yield f"{name.upper()}()", span_of(call)
    user = catalog.function(call.name) if isinstance(call, exp.Anonymous) else None
    if user is not None and user.kind not in _SPARK_RUNS:
        yield f'"{user.name}", a function of the kind {user.kind.value},', span_of(call)


ALL_BOUNDED = "all inputs are bounded"


@dataclass(frozen=True)
class BatchDecision:
    """The decision whether a query runs as a batch over finished data. Its fields are the reasons against it, each None
    if it does not apply: a table that does not end, a clause of streams, a table that only streams can read.
    """

    unbounded: Input | None = None
    clause: Clause | None = None
    changing: Input | None = None

    @property
    def may_be_batch(self) -> bool:
        """Whether no reason prevents running as a batch."""
        return self.unbounded is None and self.clause is None and self.changing is None

    @property
    def why(self) -> str:
        """The reason for the decision, for EXPLAIN."""
        if self.unbounded is not None:
            return f'table "{self.unbounded.table.name}" has no end'
        if self.clause is not None:
            return f"{self.clause.name} makes a stream of it"
        if self.changing is not None:
            return f'table "{self.changing.table.name}" has {_of_streams(self.changing.table)}'
        return ALL_BOUNDED


def chosen_way(
    resolved: Resolved, catalog: Catalog, ends: Callable[[Table], bool], named: Callable[[Table], str]
) -> BatchDecision:
    """Decides whether a query runs as a batch, and returns the decision with its reasons. ``ends`` returns True for a
    table whose rows are complete; ``named`` returns the name that a table has in the query.
    """
    tables = {named(table_input.table): table_input.table for table_input in resolved.inputs}
    return BatchDecision(
        next((table_input for table_input in resolved.inputs if not ends(table_input.table)), None),
        streaming_clause(resolved.query, catalog, tables),
        next((table_input for table_input in resolved.inputs if _of_streams(table_input.table)), None),
    )


def _of_streams(table: Table) -> str | None:
    """What of a table only a stream reads."""
    if table.changelog != APPEND_ONLY:
        return "updates and deletions"
    return "a table for its bad rows" if action_of(table)[1] is not None else None
