"""What the state of windows with aggregates depends on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from sqlstream.planner.catalog import APPEND_ONLY
from sqlstream.planner.explain.window_text import firing_text, window_text
from sqlstream.planner.firing import LateAction
from sqlstream.planner.keeping import Kept, kept
from sqlstream.planner.meanings import Names, meaning, names_of, names_tables
from sqlstream.planner.nodes import Item, Schema
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.operators.window_kernels import WindowKernelKind, kind_of
from sqlstream.planner.operators.windows import kept_by_windows, names_of_columns
from sqlstream.planner.physical.state_facts import keys_fact, reads_windows, state_facts, title_of
from sqlstream.planner.properties import changelog_mode, keeps_rows, window_of


@names_of.register
def _(node: WindowAggregate) -> Names:
    below = names_of(node.input)
    meanings = {key: below[key] for key in node.keys}
    meanings |= {a.name: meaning(a.expression, below) for a in node.aggregates} | _of_window(node, below)
    extra = {"grouping_id": node.grouping_id, "pane": node.pane, "pane_index": node.pane_index}
    return meanings | {name: text for text, name in extra.items() if name is not None}


def _of_window(node: WindowAggregate, below: Names) -> dict[str, str]:
    """Windows that come with the rows keep what they are made of."""
    own = names_of_columns(node.columns, below.get(node.time or ""))
    given = {name: below[name] for name in own if name in below and names_tables()} if node.window is None else {}
    return {**own, **given}


@title_of.register
def _(node: WindowAggregate) -> tuple[str, str]:
    return "window aggregate", "window aggregate"


@reads_windows.register
def _(node: WindowAggregate, above: bool) -> bool:
    return node.window is None


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
    yield "types of aggregates", ", ".join(types_of_aggregate(a, node.input.schema) for a in node.aggregates)
    yield "firing", "; ".join(_firing(node)) or "once, when the window closes"
    if changelog_mode(node.input) != APPEND_ONLY:
        yield "rows", "come and go"
    yield "columns of the pane", ", ".join(n for n, c in (("kind", node.pane), ("index", node.pane_index)) if c)
    # The other kernels may keep rows, under names made of expressions.
    if kind_of(node) not in (WindowKernelKind.PANES, WindowKernelKind.SESSIONS):
        read = {c.name for a in node.aggregates for c in a.expression.find_all(exp.Column)}
        yield "columns", ", ".join(f.name for f in node.input.schema if f.name in read)


def types_of_aggregate(aggregate: Item, rows: Schema) -> str:
    """The type of an aggregate and those of what it reads of its rows."""
    types = {f.name: f.type for f in rows}
    read = [str(types[c.name]) for c in aggregate.expression.find_all(exp.Column) if c.name in types]
    return f"{aggregate.type} of {', '.join(read)}" if read else str(aggregate.type)


def _firing(node: WindowAggregate) -> list[str]:
    """Where late rows go may change; that they go somewhere else than away is part of what the kernel reads."""
    late = node.firing.late
    texts = firing_text(replace(node.firing, late=replace(late, table=None, values=())))
    return [t.removesuffix(" TO") + " TO a table" if late.action is LateAction.TO and t.startswith("LATE") else t
            for t in texts]  # fmt: skip


@kept.register
def _(node: WindowAggregate) -> Iterator[Kept]:
    below = window_of(node)
    window = node.window if node.window is not None or below is None else below.window
    what = "accumulators" if keeps_rows(node) is None else "rows"
    yield from kept_by_windows(what, window, node.domain, keyed=bool(node.keys), allowed_ms=node.firing.late.allow_ms)
