"""What the state of operators depends on: facts that a checkpoint keeps, and compares with those of a changed query.

Expressions are traced down to the columns of tables (``meanings``), so that a name given on the way, a column more or a
filter change nothing here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import singledispatch

from sqlglot import exp

from sqlstream.planner.explain.window_text import firing_text, window_text
from sqlstream.planner.firing import LateAction
from sqlstream.planner.meanings import Names, meaning, names_of
from sqlstream.planner.nodes import AlignBarriers, AssignWindows, Item, Lookup, Node, ProcessTable, WindowAggregate
from sqlstream.planner.physical.kernels import Kind, kind_of
from sqlstream.planner.properties import keeps_state


@singledispatch
def title_of(node: Node) -> tuple[str, str]:
    """The kind of an operator, and what messages call it."""
    return type(node).__name__, type(node).__name__


@title_of.register
def _(node: AlignBarriers) -> tuple[str, str]:
    return "barriers", "barriers"


@title_of.register
def _(node: AssignWindows) -> tuple[str, str]:
    return "windows", "windows"


@title_of.register
def _(node: WindowAggregate) -> tuple[str, str]:
    return "window aggregate", "window aggregate"


@title_of.register
def _(node: Lookup) -> tuple[str, str]:
    return "lookup that defers rows", f'lookup in "{node.source.name}"'


@title_of.register
def _(node: ProcessTable) -> tuple[str, str]:
    return "process function", f'process function "{node.function}"'


@singledispatch
def state_facts(node: Node) -> Iterator[tuple[str, str]]:
    """What the state of an operator depends on, as names with texts: all that it says of itself, where nobody told."""
    for field in dataclasses.fields(node):
        value = getattr(node, field.name)
        if not isinstance(value, Node) and not (isinstance(value, tuple) and value and isinstance(value[0], Node)):
            yield field.name.replace("_", " "), _text(value)


@state_facts.register
def _(node: AssignWindows) -> Iterator[tuple[str, str]]:
    names = names_of(node.input)
    yield "keys", keys_fact(node.input, node.partition_by, names)
    yield "window", window_text(node.window)
    yield "time", names.get(node.time or "", "the clock")
    yield "kind of time", node.domain.value
    if keeps_state(node):
        yield "columns", rows_fact(node.input)


@state_facts.register
def _(node: WindowAggregate) -> Iterator[tuple[str, str]]:
    names = names_of(node.input)
    yield "keys", keys_fact(node.input, node.keys, names)
    if node.grouping_sets is not None:
        yield "grouping sets", ", ".join(f"({', '.join(names[k] for k in s)})" for s in node.grouping_sets)
    if node.window is not None:
        yield "window", window_text(node.window)
        yield "time", names.get(node.time or "", "the clock")
    yield "kind of time", node.domain.value
    yield "aggregates", ", ".join(meaning(a.expression, names) for a in node.aggregates)
    yield "types of aggregates", ", ".join(_types(a, node) for a in node.aggregates)
    yield "firing", "; ".join(_firing(node)) or "once, when the window closes"
    yield "columns of the pane", ", ".join(n for n, c in (("kind", node.pane), ("index", node.pane_index)) if c)
    if kind_of(node) not in (Kind.PANES, Kind.SESSIONS):  # the others may hold rows, under names made of expressions
        read = {c.name for a in node.aggregates for c in a.expression.find_all(exp.Column)}
        yield "columns", ", ".join(f.name for f in node.input.schema if f.name in read)


@state_facts.register
def _(node: AlignBarriers) -> Iterator[tuple[str, str]]:
    """How many rows may wait, and how long, may change."""
    names = names_of(node.input)
    yield "channel", meaning(node.channel, names)
    yield "number of channels", str(node.channels)
    ways = {"marker": node.marker, "id": node.id, "CANCEL WHEN": node.cancel_when, "END WHEN": node.end_when}
    yield from ((name, meaning(found, names)) for name, found in ways.items() if found is not None)
    yield "guarantee", "at least once" if node.at_least_once else "exactly once"
    yield "type of the id", str(node.output.type)
    yield "columns", rows_fact(node.input)


@state_facts.register
def _(node: Lookup) -> Iterator[tuple[str, str]]:
    names = names_of(node.input)
    yield "table", node.source.name
    yield "keys", ", ".join(f"{k.name} = {meaning(k.expression, names)} {k.type}" for k in node.keys)
    yield "columns that are read", ", ".join(f"{f.name} {f.type}" for f in node.read)
    yield "order", node.options.order.name
    yield "columns", rows_fact(node.input)


@state_facts.register
def _(node: ProcessTable) -> Iterator[tuple[str, str]]:
    yield "uid", node.uid
    yield "function", node.function
    for table, argument in zip(node.tables, node.arguments, strict=True):
        names = names_of(table)
        yield f'keys of "{argument.parameter}"', keys_fact(table, argument.partition_by, names)
        yield f'event time of "{argument.parameter}"', names.get(argument.time or "", "none")
        if node.in_order:
            read = (*argument.fields, *argument.passed)
            types = {f.name: f.type for f in table.schema}
            yield f'columns of "{argument.parameter}"', ", ".join(f"{names[n]} {types[n]}" for n in read)
    yield "order of rows", "by event time" if node.in_order else "as they come"


def keys_fact(rows: Node, keys: tuple[str, ...], names: Names) -> str:
    """Keys among the fields of ``rows``, which have these meanings, with their types."""
    types = {f.name: f.type for f in rows.schema}
    return ", ".join(f"{names[k]} {types[k]}" for k in keys) or "none"


def rows_fact(node: Node) -> str:
    """The rows that state holds whole, by position."""
    names = names_of(node)
    return ", ".join(f"{names[f.name]} {f.type}" for f in node.schema)


def _types(aggregate: Item, node: WindowAggregate) -> str:
    types = {f.name: f.type for f in node.input.schema}
    read = [str(types[c.name]) for c in aggregate.expression.find_all(exp.Column) if c.name in types]
    return f"{aggregate.type} of {', '.join(read)}" if read else str(aggregate.type)


def _firing(node: WindowAggregate) -> list[str]:
    """Where late rows go may change; that they go somewhere else than away is part of what the kernel reads."""
    late = node.firing.late
    plain = dataclasses.replace(late, table=None, values=())
    texts = firing_text(dataclasses.replace(node.firing, late=plain))
    return [t.removesuffix(" TO") + " TO a table" if late.action is LateAction.TO and t.startswith("LATE") else t
            for t in texts]  # fmt: skip


def _text(value: object) -> str:
    if isinstance(value, exp.Expression):
        return value.sql(dialect="spark")
    if isinstance(value, tuple):
        return f"[{', '.join(map(_text, value))}]"
    if dataclasses.is_dataclass(value):
        return f"({', '.join(_text(getattr(value, f.name)) for f in dataclasses.fields(value))})"
    return str(value)
