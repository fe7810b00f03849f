"""The windows of a table function, moved above the projections and filters over it.

An aggregate that then takes over the windows sees the rows once, not once per window, and can share panes between
windows; a session or a count window then stores aggregates in place of rows.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sqlstream.planner.fields import Item
from sqlstream.planner.naming import Names
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Filter, Project
from sqlstream.planner.operators.windows import AssignWindows
from sqlstream.planner.rewriting import columns_of
from sqlstream.planner.windows import AlignedWindow, WindowColumns


def reads_window(expression: exp.Expr, columns: WindowColumns) -> bool:
    """True where an expression reads one of the window columns."""
    return bool(columns_of(expression) & columns.names)


# --- the table function above projections and filters ---------------------------------------------------------


def windows_on_top(node: Node, spare: set[str]) -> AssignWindows | None:
    """The same rows with the windows assigned last; ``spare`` fields need not be the same. None where impossible."""
    match node:
        case AssignWindows():
            return node
        case Filter():
            below = windows_on_top(node.input, spare)
            return _above_filter(node, below) if below is not None else None
        case Project():
            below = windows_on_top(node.input, _names_below(node, spare))
            return _above_project(node, below, spare) if below is not None else None
    return None


def _above_filter(node: Filter, assign: AssignWindows) -> AssignWindows | None:
    """UNSAFE where rows belong to windows together: a filtered row still holds its session, or fills its count."""
    if not isinstance(assign.window, AlignedWindow) or reads_window(node.condition, assign.columns):
        return None
    return replace(assign, input=Filter(assign.input, node.condition))


def _above_project(node: Project, assign: AssignWindows, spare: set[str]) -> AssignWindows | None:
    """The windows over the projection of all but their columns, which is given the time column to pass on."""
    kept = tuple(i for i in node.items if not reads_window(i.expression, assign.columns))
    dropped = [i for i in node.items if i not in kept and i.name not in spare]
    renamed = {i.expression.name: i.name for i in dropped if isinstance(i.expression, exp.Column)}
    if len(renamed) < len(dropped) or not {assign.columns.start, assign.columns.end} <= set(renamed):
        return None
    names = Names([*(i.name for i in node.items), *spare])
    given = [i.name for i in node.items if i.name in spare and i not in kept]
    window_time = given[0] if given else renamed.get(assign.columns.time) or names.unique("window_time")
    columns = WindowColumns(renamed[assign.columns.start], renamed[assign.columns.end], window_time)
    kept, fields = _passing(_needed(assign), kept, assign.input, names)
    keys = tuple(fields[k] for k in assign.partition_by)
    time = fields[assign.time] if assign.time else None
    window = assign.window.renamed(fields)
    return replace(
        assign, window=window, input=Project(assign.input, kept), columns=columns, partition_by=keys, time=time
    )


def _needed(assign: AssignWindows) -> list[str]:
    time = [assign.time] if assign.time else []
    return [*assign.partition_by, *time, *assign.window.fields_read]


def _names_below(node: Project, names: set[str]) -> set[str]:
    return {i.expression.name for i in node.items if i.name in names and isinstance(i.expression, exp.Column)}


def _passing(
    wanted: list[str], kept: tuple[Item, ...], below: Node, names: Names
) -> tuple[tuple[Item, ...], dict[str, str]]:
    """The items with those fields passed on, and under which names they are."""
    items = list(kept)
    passed_names = {i.expression.name: i.name for i in kept if isinstance(i.expression, exp.Column) and i.time is None}
    for field in below.schema:
        # The items read rows with windows, where no field is a time attribute any more.
        if field.name in wanted and (field.time is not None or field.name not in passed_names):
            passed_names[field.name] = names.unique(field.name)
            items.append(replace(field.as_item, name=passed_names[field.name]))
    return tuple(items), passed_names
