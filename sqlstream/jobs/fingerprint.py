"""What of a plan its checkpoint depends on: its sources and the operators that keep state, top down.

Expressions are traced down to the columns of tables, so that a name given on the way, a column more or a filter change
nothing here. What is compared, and in which words it differs: ``compatibility``.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import singledispatch

from sqlglot import exp

from sqlstream.connectors.secrets import masked
from sqlstream.grammar.depth import with_room
from sqlstream.jobs.meanings import Names, meaning, names_of
from sqlstream.planner.catalog import Table
from sqlstream.planner.explain.window_text import firing_text, window_text
from sqlstream.planner.firing import LateAction
from sqlstream.planner.lowering.columnar.chaining import link_of
from sqlstream.planner.lowering.columnar.kernels import Kind, kind_of
from sqlstream.planner.lowering.lower import watermarked_nodes
from sqlstream.planner.nodes import (
    AlignBarriers,
    AlignedWindow,
    AssignTime,
    AssignWindows,
    Item,
    Lookup,
    Node,
    ProcessTable,
    Scan,
    WindowAggregate,
)
from sqlstream.planner.properties import keeps_state

Declared = Callable[[str], str]
"""What a process function declares as its state, as text, by the function's name."""

VERSION = 4
"""Also counts how kernels lay out their state: what another version has written is refused."""

CHAIN = "chaining"
"""The fact of operators that run in the call of another one, so that state and timers are kept with those of that."""

_READ_BY = {
    "datagen": ("seed", "fields."),
    "filesystem": ("path",),
    "kafka": ("topic", "topic-pattern"),
    "rate": ("rows-per-second", "ramp-up-time"),
    "socket": ("hostname", "port"),
}
"""Options, or what they begin with, that say which rows a source gives; all others may change."""


@dataclass(frozen=True)
class Part:
    """A source, a watermark or an operator. ``depth`` counts the parts above it; ``facts`` are names with texts."""

    kind: str
    name: str
    depth: int
    facts: tuple[tuple[str, str], ...] = ()


@with_room
def fingerprint(plan: Node, declared: Declared | None = None) -> tuple[Part, ...]:
    """The parts of a plan in the order in which Spark numbers its operators and sources.

    Without ``declared`` the state of process functions is taken to be as it was.
    """
    watermarked = frozenset(map(id, watermarked_nodes(plan)))
    return tuple(_parts(plan, 0, _Surroundings(plan, watermarked, declared)))


def laid_out_as(parts: tuple[Part, ...], *, chained: bool) -> tuple[Part, ...]:
    """The parts for state that is kept together where operators run in one call, or apart nevertheless."""
    if chained:
        return parts
    return tuple(dataclasses.replace(p, facts=tuple(f for f in p.facts if f[0] != CHAIN)) for p in parts)


def to_text(parts: tuple[Part, ...]) -> str:
    return json.dumps({"version": VERSION, "parts": [dataclasses.asdict(p) for p in parts]}, indent=1)


def from_text(text: str) -> tuple[Part, ...] | None:
    """None for what no ``to_text`` of this version has written."""
    try:
        found = json.loads(text)
        if found["version"] != VERSION:
            return None
        return tuple(Part(p["kind"], p["name"], p["depth"], tuple(map(tuple, p["facts"]))) for p in found["parts"])
    except (ValueError, KeyError, TypeError):
        return None


@dataclass(frozen=True)
class _Surroundings:
    """``windowed``: an operator above reads the windows of the rows."""

    plan: Node
    watermarked: frozenset[int]
    declared: Declared | None
    windowed: bool = False


def _parts(node: Node, depth: int, around: _Surroundings) -> Iterator[Part]:
    found = _part(node, depth, around)
    if found is not None:
        yield found
        depth += 1
    if isinstance(node, WindowAggregate):
        around = dataclasses.replace(around, windowed=node.window is None)
    for child in node.inputs:
        yield from _parts(child, depth, around)


def _part(node: Node, depth: int, around: _Surroundings) -> Part | None:
    match node:
        case Scan():
            return Part("source", f'source "{node.table.name}"', depth, tuple(_source(node.table)))
        case AssignTime() if id(node) in around.watermarked:
            facts = (("column", node.column), ("kind of time", node.domain.value))
            return Part("watermark", f'watermark of table "{node.table}"', depth, facts)
        case AssignWindows(window=window) if isinstance(window, AlignedWindow) and around.windowed:
            return Part("windows", "windows", depth, tuple(_facts(node, around)))
    if not keeps_state(node):
        return None
    chain = ((CHAIN, "with the operator below"),) if link_of(node, around.plan) is not None else ()
    return Part(_kind(node), _name(node), depth, (*_facts(node, around), *chain))


_KINDS: dict[type[Node], str] = {
    AlignBarriers: "barriers",
    AssignWindows: "windows",
    Lookup: "lookup that defers rows",
    ProcessTable: "process function",
    WindowAggregate: "window aggregate",
}


def _kind(node: Node) -> str:
    return _KINDS.get(type(node), type(node).__name__)


def _name(node: Node) -> str:
    match node:
        case Lookup():
            return f'lookup in "{node.source.name}"'
        case ProcessTable():
            return f'process function "{node.function}"'
    return _kind(node)


# --- facts ----------------------------------------------------------------------------------------------------


def _source(table: Table) -> Iterator[tuple[str, str]]:
    yield "table", table.name
    yield "connector", table.connector
    for key, value in sorted(masked(table.options)):  # who asks may change, so that secrets are no part of it
        if key.startswith(_READ_BY.get(table.connector, ())):
            yield f'option "{key}"', value.rstrip("/") if key == "path" else value


@singledispatch
def _facts(node: Node, around: _Surroundings) -> Iterator[tuple[str, str]]:
    """All that an operator says of itself, where nobody has told what its state depends on."""
    for field in dataclasses.fields(node):
        value = getattr(node, field.name)
        if not isinstance(value, Node) and not (isinstance(value, tuple) and value and isinstance(value[0], Node)):
            yield field.name.replace("_", " "), _text(value)


@_facts.register
def _(node: AssignWindows, around: _Surroundings) -> Iterator[tuple[str, str]]:
    names = names_of(node.input)
    yield "keys", _keys(node, node.partition_by, names)
    yield "window", window_text(node.window)
    yield "time", names.get(node.time or "", "the clock")
    yield "kind of time", node.domain.value
    if keeps_state(node):
        yield "columns", _columns(node.input)


@_facts.register
def _(node: WindowAggregate, around: _Surroundings) -> Iterator[tuple[str, str]]:
    names = names_of(node.input)
    yield "keys", _keys(node, node.keys, names)
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


@_facts.register
def _(node: AlignBarriers, around: _Surroundings) -> Iterator[tuple[str, str]]:
    """How many rows may wait, and how long, may change."""
    names = names_of(node.input)
    yield "channel", meaning(node.channel, names)
    yield "number of channels", str(node.channels)
    ways = {"marker": node.marker, "id": node.id, "CANCEL WHEN": node.cancel_when, "END WHEN": node.end_when}
    yield from ((name, meaning(found, names)) for name, found in ways.items() if found is not None)
    yield "guarantee", "at least once" if node.at_least_once else "exactly once"
    yield "type of the id", str(node.output.type)
    yield "columns", _columns(node.input)


@_facts.register
def _(node: Lookup, around: _Surroundings) -> Iterator[tuple[str, str]]:
    names = names_of(node.input)
    yield "table", node.source.name
    yield "keys", ", ".join(f"{k.name} = {meaning(k.expression, names)} {k.type}" for k in node.keys)
    yield "columns that are read", ", ".join(f"{f.name} {f.type}" for f in node.read)
    yield "order", node.options.order.name
    yield "columns", _columns(node.input)


@_facts.register
def _(node: ProcessTable, around: _Surroundings) -> Iterator[tuple[str, str]]:
    yield "uid", node.uid
    yield "function", node.function
    for table, argument in zip(node.tables, node.arguments, strict=True):
        names = names_of(table)
        yield f'keys of "{argument.parameter}"', _keys(table, argument.partition_by, names, known=True)
        yield f'event time of "{argument.parameter}"', names.get(argument.time or "", "none")
        if node.in_order:
            read = (*argument.fields, *argument.passed)
            types = {f.name: f.type for f in table.schema}
            yield f'columns of "{argument.parameter}"', ", ".join(f"{names[n]} {types[n]}" for n in read)
    yield "order of rows", "by event time" if node.in_order else "as they come"
    if around.declared is not None:
        yield "state", around.declared(node.function)


def _keys(node: Node, keys: tuple[str, ...], names: Names, *, known: bool = False) -> str:
    schema = node.schema if known else node.inputs[0].schema
    types = {f.name: f.type for f in schema}
    return ", ".join(f"{names[k]} {types[k]}" for k in keys) or "none"


def _columns(node: Node) -> str:
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
