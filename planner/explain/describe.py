"""One line per node: what it does, without its inputs."""

from __future__ import annotations

from functools import singledispatch

from sqlstream.planner.bad_rows import OnError
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.durations import readable
from sqlstream.planner.explain.lookup_text import lookup_text
from sqlstream.planner.explain.window_text import firing_text, sql, window_text
from sqlstream.planner.nodes import (
    AlignBarriers,
    AssignTime,
    AssignWindows,
    Correlate,
    Filter,
    Insert,
    Item,
    Lookup,
    Node,
    Output,
    ProcessInput,
    ProcessTable,
    Project,
    Scan,
    StatementSet,
    Union,
    WindowAggregate,
    WindowColumns,
)
from sqlstream.planner.properties import keeps_rows, window_of


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
        return f"AssignTime({node.column}, watermark {node.column}{delay})"
    return f"AssignTime({node.column}, {node.domain.value})"


@describe.register
def _(node: Project) -> str:
    return f"Project({', '.join(map(_item, node.items))})"


def _item(item: Item) -> str:
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
def _(node: Lookup) -> str:
    return f"Lookup({'; '.join(lookup_text(node))})"


@describe.register
def _(node: AlignBarriers) -> str:
    parts = [f"channel {sql(node.channel)} of {node.channels}", f"marker {sql(node.marker)}", f"id {sql(node.id)}"]
    marks = (("cancel when", node.cancel_when), ("end when", node.end_when))
    parts += [f"{words} {sql(condition)}" for words, condition in marks if condition is not None]
    parts += ["at least once" if node.at_least_once else "exactly once"]
    parts += [f"timeout {readable(node.timeout_ms)}"] if node.timeout_ms is not None else []
    return f"AlignBarriers({'; '.join(parts)}; {node.output.name})"


@describe.register
def _(node: AssignWindows) -> str:
    keys = f" partition by {', '.join(node.partition_by)}" if node.partition_by else ""
    return f"AssignWindows({window_text(node.window)}{_on(node.time)}{keys}{_columns(node.columns)})"


@describe.register
def _(node: WindowAggregate) -> str:
    parts = [f"keys {', '.join(node.keys)}"] if node.keys else []
    if node.grouping_sets is not None:
        sets = ", ".join(f"({', '.join(s)})" for s in node.grouping_sets)
        parts.append(f"sets {sets} as {node.grouping_id}")
    parts.append(f"{_window_of(node)}{_columns(node.columns)}")
    parts += [*firing_text(node.firing), *(["keeping rows"] if keeps_rows(node) else [])]
    panes = [name for name in (node.pane, node.pane_index) if name]
    return f"WindowAggregate({'; '.join([*parts, *map(_item, node.aggregates), *panes])})"


def _window_of(node: WindowAggregate) -> str:
    if node.window is not None:
        return f"{window_text(node.window)}{_on(node.time)}"
    info = window_of(node)
    assert info is not None
    return window_text(info.window)


def _on(time: str | None) -> str:
    return f" on {time}" if time else ""


def _columns(columns: WindowColumns) -> str:
    names = (columns.start, columns.end, columns.time)
    return "" if columns == WindowColumns() else f" as {', '.join(names)}"


@describe.register
def _(node: ProcessTable) -> str:
    parts = [_table_argument(a, node.in_order) for a in node.arguments]
    parts += [f"{c.name} => {sql(c.expression)}" for c in node.constants]
    parts += [f"{name} => DESCRIPTOR({', '.join(columns)})" for name, columns in node.descriptors]
    return f"ProcessTable({node.function}; {'; '.join([*parts, f'uid {node.uid}'])})"


def _table_argument(argument: ProcessInput, in_order: bool) -> str:
    keys = f" partition by {', '.join(argument.partition_by)}" if argument.partition_by else ""
    order = f" in order of {argument.time}" if in_order else _on(argument.time)
    return f"{argument.parameter}({', '.join(argument.fields)}){keys}{order}"


@describe.register
def _(node: Output) -> str:
    return f"Output({', '.join(node.names)})"


@describe.register
def _(node: Insert) -> str:
    return f"Insert({node.table.name}: {', '.join(f.name for f in node.schema)})"


@describe.register
def _(node: StatementSet) -> str:
    return f"StatementSet({', '.join(table.name for table in node.tables)})"
