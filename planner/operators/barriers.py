"""ALIGN BARRIERS: rows of several channels, of which those behind a marker wait for the markers of the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from sqlglot import exp

from sqlstream.planner.changes import taken_by
from sqlstream.planner.durations import readable
from sqlstream.planner.explain.describe import describe
from sqlstream.planner.explain.window_text import sql
from sqlstream.planner.keeping import Kept, kept
from sqlstream.planner.meanings import Names as Meanings
from sqlstream.planner.meanings import meaning, names_of
from sqlstream.planner.nodes import Field, Node, Schema, Unary
from sqlstream.planner.physical.clocks import WaitsFor, waiting_for
from sqlstream.planner.physical.kernels import keys_of
from sqlstream.planner.physical.native import only_columnar
from sqlstream.planner.physical.state_facts import rows_fact, state_facts, title_of
from sqlstream.planner.physical.text import kernel
from sqlstream.planner.properties import WindowInfo, keeps_state, uses_processing_time, window_of
from sqlstream.planner.rewriting import columns_of
from sqlstream.planner.rules.prune_columns import Names, pruned
from sqlstream.udfs.barriers import MOST_HELD


@dataclass(frozen=True)
class AlignBarriers(Unary):
    """Rows behind the marker of a barrier on one of ``channels`` channels wait for the markers on all of them.

    ``channel`` and ``id`` are expressions over the input, ``marker``, ``cancel_when`` and ``end_when`` conditions; rows
    that meet one of these, looked at in this order, are marks and do not come out. ``output`` is the field that is
    added: the id of the last barrier aligned before a row. At most ``most_held`` rows may wait.
    """

    channel: exp.Expression
    channels: int
    marker: exp.Expression
    id: exp.Expression
    output: Field
    cancel_when: exp.Expression | None = None
    end_when: exp.Expression | None = None
    at_least_once: bool = False
    timeout_ms: int | None = None
    most_held: int = MOST_HELD

    @property
    def holds(self) -> bool:
        """True where rows wait for the markers of other channels."""
        return not self.at_least_once

    @property
    def expressions(self) -> tuple[exp.Expression, ...]:
        """What it computes of each row."""
        computed = (self.channel, self.marker, self.id, self.cancel_when, self.end_when)
        return tuple(e for e in computed if e is not None)

    @cached_property
    def schema(self) -> Schema:
        return (*self.input.schema, self.output)


# --- properties -----------------------------------------------------------------------------------------------


@keeps_state.register
def _(node: AlignBarriers) -> bool:
    return True


@uses_processing_time.register
def _(node: AlignBarriers) -> bool:
    return node.holds or node.timeout_ms is not None


@window_of.register
def _(node: AlignBarriers) -> WindowInfo | None:
    return window_of(node.input)


# --- rules ----------------------------------------------------------------------------------------------------


@pruned.register
def _(node: AlignBarriers, required: Names) -> Node:
    read = frozenset().union(*map(columns_of, node.expressions))
    return replace(node, input=pruned(node.input, (required - {node.output.name}) | read))


# --- texts ----------------------------------------------------------------------------------------------------


@describe.register
def _(node: AlignBarriers) -> str:
    parts = [f"channel {sql(node.channel)} of {node.channels}", f"marker {sql(node.marker)}", f"id {sql(node.id)}"]
    marks = (("cancel when", node.cancel_when), ("end when", node.end_when))
    parts += [f"{words} {sql(condition)}" for words, condition in marks if condition is not None]
    parts += ["at least once" if node.at_least_once else "exactly once"]
    parts += [f"timeout {readable(node.timeout_ms)}"] if node.timeout_ms is not None else []
    return f"AlignBarriers({'; '.join(parts)}; {node.output.name})"


# --- what runs ------------------------------------------------------------------------------------------------


@keys_of.register
def _(node: AlignBarriers) -> tuple[str, ...]:
    """None: channels wait for each other."""
    return ()


@waiting_for.register
def _(node: AlignBarriers) -> WaitsFor | None:
    return WaitsFor.BARRIERS if node.holds else None


@only_columnar.register
def _(node: AlignBarriers) -> str | None:
    return "ALIGN BARRIERS"


@kernel.register
def _(node: AlignBarriers) -> str:
    held = "counts the markers" if node.at_least_once else f"holds up to {node.most_held:,} rows of channels that wait"
    return f"that {held}"


# --- state ----------------------------------------------------------------------------------------------------


@names_of.register
def _(node: AlignBarriers) -> Meanings:
    return {**names_of(node.input), node.output.name: "barrier_id"}


@title_of.register
def _(node: AlignBarriers) -> tuple[str, str]:
    return "barriers", "barriers"


@state_facts.register
def _(node: AlignBarriers) -> Iterator[tuple[str, str]]:
    """How many rows may wait, and how long, may change."""
    names = names_of(node.input)
    yield "channel", meaning(node.channel, names)
    yield "number of channels", str(node.channels)
    ways = {"marker": node.marker, "id": node.id, "CANCEL WHEN": node.cancel_when, "END WHEN": node.end_when}
    yield from ((name, meaning(condition, names)) for name, condition in ways.items() if condition is not None)
    yield "guarantee", "at least once" if node.at_least_once else "exactly once"
    yield "type of the id", str(node.output.type)
    yield "columns", rows_fact(node.input)


# --- changes --------------------------------------------------------------------------------------------------


@taken_by.register
def _(node: AlignBarriers) -> str:
    return "ALIGN BARRIERS"


@kept.register
def _(node: AlignBarriers) -> Iterator[Kept]:
    if node.holds:
        yield Kept("rows behind barriers", f"their barrier is aligned; at most {node.most_held:,} rows")
    else:
        yield Kept("barriers that are pending", "they are aligned")
