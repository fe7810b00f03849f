"""CURRENT_WATERMARK: rows as they come, with the watermark that holds then."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.changes import taken_by, why_inserts_only
from sqlstream.planner.explain.describe import describe
from sqlstream.planner.keeping import Kept, kept
from sqlstream.planner.meanings import Names as Meanings
from sqlstream.planner.meanings import names_of
from sqlstream.planner.nodes import Field, Node, Schema, Unary
from sqlstream.planner.physical.kernels import keys_of
from sqlstream.planner.physical.native import only_columnar
from sqlstream.planner.physical.state_facts import state_facts, title_of
from sqlstream.planner.physical.text import kernel
from sqlstream.planner.properties import WindowInfo, awaited_by, keeps_state, unique_keys, window_of
from sqlstream.planner.rules.prune_columns import Names, pruned
from sqlstream.planner.rules.push_filters import passes
from sqlstream.planner.rules.remove_unused_time import needed_below


@dataclass(frozen=True)
class CurrentWatermark(Unary):
    """The rows, each with the watermark of ``time`` as the field ``output``: NULL before the first one.

    A micro-batch is judged by the watermark that the rows before it have reached.
    """

    time: str
    output: Field

    @cached_property
    def schema(self) -> Schema:
        return (*self.input.schema, self.output)


# --- properties -----------------------------------------------------------------------------------------------


@keeps_state.register
def _(node: CurrentWatermark) -> bool:
    """It keeps no row, but Spark tells the watermark to operators with state alone."""
    return True


@awaited_by.register
def _(node: CurrentWatermark) -> frozenset[TimeDomain]:
    return frozenset({TimeDomain.EVENT, TimeDomain.INGESTION})


@unique_keys.register
def _(node: CurrentWatermark) -> frozenset[frozenset[str]]:
    return unique_keys(node.input)


@window_of.register
def _(node: CurrentWatermark) -> WindowInfo | None:
    return window_of(node.input)


# --- changes --------------------------------------------------------------------------------------------------


@taken_by.register
def _(node: CurrentWatermark) -> str:
    return "CURRENT_WATERMARK"


@why_inserts_only.register
def _(node: CurrentWatermark) -> str | None:
    return "a row that is taken back would come with another watermark than before"


# --- rules ----------------------------------------------------------------------------------------------------


@pruned.register
def _(node: CurrentWatermark, required: Names) -> Node:
    if node.output.name not in required:
        return pruned(node.input, required)
    return replace(node, input=pruned(node.input, (required - {node.output.name}) | {node.time}))


@passes.register
def _(node: CurrentWatermark, read: set[str]) -> bool:
    return node.output.name not in read


@needed_below.register
def _(node: CurrentWatermark, needed: Names) -> Names:
    return (needed - {node.output.name}) | {node.time}


# --- texts ----------------------------------------------------------------------------------------------------


@describe.register
def _(node: CurrentWatermark) -> str:
    return f"CurrentWatermark({node.time} AS {node.output.name})"


@kernel.register
def _(node: CurrentWatermark) -> str:
    return "that tells rows the watermark"


# --- what runs ------------------------------------------------------------------------------------------------


@keys_of.register
def _(node: CurrentWatermark) -> tuple[str, ...]:
    """None: rows stay in the order in which they came."""
    return ()


@only_columnar.register
def _(node: CurrentWatermark) -> str | None:
    return "CURRENT_WATERMARK"


# --- state ----------------------------------------------------------------------------------------------------


@names_of.register
def _(node: CurrentWatermark) -> Meanings:
    below = names_of(node.input)
    return {**below, node.output.name: f"CURRENT_WATERMARK({below[node.time]})"}


@title_of.register
def _(node: CurrentWatermark) -> tuple[str, str]:
    return "watermark", "CURRENT_WATERMARK"


@kept.register
def _(node: CurrentWatermark) -> Iterator[Kept]:
    yield from ()


@state_facts.register
def _(node: CurrentWatermark) -> Iterator[tuple[str, str]]:
    """Nothing is kept."""
    yield from ()
