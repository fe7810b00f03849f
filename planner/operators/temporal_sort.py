"""Temporal sort: rows in order of event time, as far as the watermark has come."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlstream.planner.catalog import ALL_KINDS, APPEND_ONLY, RowKind, TimeDomain
from sqlstream.planner.changes import prefers_inserts, takes_changes
from sqlstream.planner.explain.describe import describe
from sqlstream.planner.keeping import Kept, kept
from sqlstream.planner.meanings import Names as Meanings
from sqlstream.planner.meanings import names_of
from sqlstream.planner.nodes import Node, Unary
from sqlstream.planner.operators.over import Sorted, sorted_text
from sqlstream.planner.physical.kernels import keys_of
from sqlstream.planner.physical.native import only_columnar
from sqlstream.planner.physical.state_facts import keys_fact, rows_fact, state_facts, title_of
from sqlstream.planner.physical.text import kernel
from sqlstream.planner.properties import (
    WindowInfo,
    awaited_by,
    changelog_mode,
    is_joint,
    keeps_state,
    unique_keys,
    window_of,
)
from sqlstream.planner.rules.prune_columns import Names, pruned
from sqlstream.planner.rules.push_filters import passes
from sqlstream.planner.rules.remove_unused_time import needed_below


@dataclass(frozen=True)
class TemporalSort(Unary):
    """The rows in the order of ``time``, then of ``ties``, then as they came. A row comes out when the watermark has
    passed it; rows behind the watermark are late, and dropped. Rows are in this order where they have equal ``keys``,
    of which changes of a row have the same; without keys all rows are in one key group."""

    time: str
    ties: tuple[Sorted, ...] = ()
    keys: tuple[str, ...] = ()


# --- properties -----------------------------------------------------------------------------------------------


@keeps_state.register
def _(node: TemporalSort) -> bool:
    return True


@is_joint.register
def _(node: TemporalSort) -> bool:
    return True


@awaited_by.register
def _(node: TemporalSort) -> frozenset[TimeDomain]:
    return frozenset({TimeDomain.EVENT})


@unique_keys.register
def _(node: TemporalSort) -> frozenset[frozenset[str]]:
    return unique_keys(node.input)


@window_of.register
def _(node: TemporalSort) -> WindowInfo | None:
    return window_of(node.input)


@changelog_mode.register
def _(node: TemporalSort) -> frozenset[RowKind]:
    """Rows come out when no change of them is expected any more."""
    return APPEND_ONLY


@takes_changes.register
def _(node: TemporalSort, port: int = 0) -> frozenset[RowKind]:
    return ALL_KINDS


@prefers_inserts.register
def _(node: TemporalSort) -> bool:
    return True


# --- rules ----------------------------------------------------------------------------------------------------


@pruned.register
def _(node: TemporalSort, required: Names) -> Node:
    return replace(node, input=pruned(node.input, required | {node.time, *node.keys, *(tie.name for tie in node.ties)}))


@passes.register
def _(node: TemporalSort, read: set[str]) -> bool:
    return True


@needed_below.register
def _(node: TemporalSort, needed: Names) -> Names:
    return needed | {node.time}


# --- texts ----------------------------------------------------------------------------------------------------


@describe.register
def _(node: TemporalSort) -> str:
    keys = f"keys {', '.join(node.keys)}; " if node.keys else ""
    return f"TemporalSort({keys}{', '.join([node.time, *map(sorted_text, node.ties)])})"


@kernel.register
def _(node: TemporalSort) -> str:
    return "of rows that wait for the watermark"


# --- what runs ------------------------------------------------------------------------------------------------


@keys_of.register
def _(node: TemporalSort) -> tuple[str, ...]:
    return node.keys


@only_columnar.register
def _(node: TemporalSort) -> str | None:
    return "ORDER BY"


# --- state ----------------------------------------------------------------------------------------------------


@names_of.register
def _(node: TemporalSort) -> Meanings:
    return names_of(node.input)


@title_of.register
def _(node: TemporalSort) -> tuple[str, str]:
    return "sort", "the sort"


@state_facts.register
def _(node: TemporalSort) -> Iterator[tuple[str, str]]:
    names = names_of(node.input)
    yield "time", names[node.time]
    yield (
        "order of rows of one time",
        ", ".join(sorted_text(replace(t, name=names[t.name])) for t in node.ties) or "as they come",
    )
    yield "columns", rows_fact(node.input)
    if node.keys:
        yield "keys", keys_fact(node.input, node.keys, names)
    if changelog_mode(node.input) != APPEND_ONLY:
        yield "rows", "come and go"


@kept.register
def _(node: TemporalSort) -> Iterator[Kept]:
    yield Kept("rows that wait for their turn", "the watermark passes them")
