"""What makes a stream of a query, whatever its inputs: clauses of time, of windows and of what leaves them when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from sqlstream.errors import Span
from sqlstream.grammar.depth import with_room
from sqlstream.grammar.spans import span_of
from sqlstream.grammar.trees import clauses_of, match_recognize_of, table_clauses_of, table_function_of
from sqlstream.planner.batch.asof import is_asof, nearest
from sqlstream.planner.batch.inputs import VIEW
from sqlstream.planner.binder.calls import GROUP_WINDOWS, PANES, SPARK_WINDOWS, TIME_MARKERS, WINDOW_PROPERTIES
from sqlstream.planner.binder.lookups import is_time_travel
from sqlstream.planner.catalog import Catalog, FunctionKind
from sqlstream.planner.functions.calls import spark_name

_OF_TIME = GROUP_WINDOWS | WINDOW_PROPERTIES | PANES | SPARK_WINDOWS | TIME_MARKERS | {"current_watermark"}
_HINTS = frozenset({"LOOKUP", "STATE_TTL"})
_SPARK_RUNS = frozenset({FunctionKind.SCALAR, FunctionKind.SQL, FunctionKind.AGGREGATE, FunctionKind.TABLE})


@dataclass(frozen=True)
class Clause:
    """``name`` is what messages call it, ``view`` the view of whose query it is."""

    name: str
    span: Span | None = None
    view: str | None = None


@with_room
def streaming_clause(query: exp.Expr, catalog: Catalog) -> Clause | None:
    """The first clause of a query, whose views are written out, that only a stream has."""
    for node in query.walk():
        for name, at in _clauses(node, catalog):
            return Clause(name, at, node.meta.get(VIEW))
    return None


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
