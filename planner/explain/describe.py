"""One line per node: what it does, without its inputs."""

from __future__ import annotations

from functools import singledispatch

from sqlstream.planner.bad_rows import OnError
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.durations import readable
from sqlstream.planner.explain.window_text import sql
from sqlstream.planner.nodes import (
    AssignTime,
    Correlate,
    Filter,
    Insert,
    Item,
    Node,
    Output,
    Project,
    Scan,
    StatementSet,
    Union,
)


@singledispatch
def describe(node: Node) -> str:
    """``Filter(v > 3)``."""
    raise TypeError(f"no description for {type(node).__name__}")


@describe.register
def _(node: Scan) -> str:
    where = f" where {' and '.join(map(sql, node.predicates))}" if node.predicates else ""
    return f"Scan({node.table.name}: {', '.join(node.columns)}{where}{_bad_rows(node.on_error)})"


def _bad_rows(on_error: OnError) -> str:
    if on_error.table is not None:
        return f"; bad rows to {on_error.table.name}"
    return "; bad rows skipped" if on_error.tolerates else ""


@describe.register
def _(node: AssignTime) -> str:
    if node.domain is TimeDomain.EVENT:
        delay = f" - {readable(node.delay_ms)}" if node.delay_ms else ""
        return f"AssignTime({node.column}, watermark {node.follows or node.column}{delay})"
    return f"AssignTime({node.column}, {node.domain.value})"


@describe.register
def _(node: Project) -> str:
    return f"Project({', '.join(map(item_text, node.items))})"


def item_text(item: Item) -> str:
    """``v + 1 AS w``."""
    text = sql(item.expression)
    return text if text == item.name else f"{text} AS {item.name}"


@describe.register
def _(node: Filter) -> str:
    return f"Filter({sql(node.condition)})"


@describe.register
def _(node: Union) -> str:
    return f"Union({', '.join(f.name for f in node.schema)})"


@describe.register
def _(node: Correlate) -> str:
    outputs = ", ".join(f.name for f in node.outputs)
    return f"Correlate({sql(node.function)} AS {outputs}{', outer' if node.outer else ''})"


@describe.register
def _(node: Output) -> str:
    return f"Output({', '.join(node.names)})"


@describe.register
def _(node: Insert) -> str:
    return f"Insert({node.table.name}: {', '.join(f.name for f in node.schema)})"


@describe.register
def _(node: StatementSet) -> str:
    return f"StatementSet({', '.join(table.name for table in node.tables)})"
