"""Normalize: changes that say which row is now there for a key become changes that say which row was there as well."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlstream.planner.catalog import ALL_KINDS, RowKind
from sqlstream.planner.changes import made_by, reads_before, takes_changes, where_unread
from sqlstream.planner.durations import readable
from sqlstream.planner.explain.describe import describe
from sqlstream.planner.keeping import Kept, after, kept
from sqlstream.planner.meanings import Names as Meanings
from sqlstream.planner.meanings import names_of
from sqlstream.planner.nodes import Node, Unary
from sqlstream.planner.physical.kernels import keys_of
from sqlstream.planner.physical.native import only_columnar
from sqlstream.planner.physical.state_facts import keys_fact, rows_fact, state_facts, title_of
from sqlstream.planner.physical.text import kernel
from sqlstream.planner.properties import (
    WindowInfo,
    changelog_mode,
    keeps_state,
    unique_keys,
    uses_processing_time,
    window_of,
)
from sqlstream.planner.rules.prune_columns import Names, pruned
from sqlstream.planner.rules.push_filters import passes


@dataclass(frozen=True)
class Normalize(Unary):
    """The table that changes by ``keys`` amount to, as changes with the whole row of before: +I for a key that had no
    row, -U and +U where another row takes its place, -D where it goes, nothing where the same row comes again.

    ``ttl_ms``: a key is forgotten so long after its last change; 0: never.
    """

    keys: tuple[str, ...]
    ttl_ms: int = 0


# --- properties -----------------------------------------------------------------------------------------------


@keeps_state.register
def _(node: Normalize) -> bool:
    return True


@uses_processing_time.register
def _(node: Normalize) -> bool:
    return node.ttl_ms > 0


@changelog_mode.register
def _(node: Normalize) -> frozenset[RowKind]:
    return ALL_KINDS


@takes_changes.register
def _(node: Normalize, port: int = 0) -> frozenset[RowKind]:
    return ALL_KINDS


@reads_before.register
def _(node: Normalize, above: bool, port: int = 0) -> bool:
    return False


@where_unread.register
def _(node: Normalize) -> Node:
    return node.input


@made_by.register
def _(node: Normalize) -> str:
    return made_by(node.input)


@unique_keys.register
def _(node: Normalize) -> frozenset[frozenset[str]]:
    return frozenset({frozenset(node.keys)})


@window_of.register
def _(node: Normalize) -> WindowInfo | None:
    return window_of(node.input)


# --- rules ----------------------------------------------------------------------------------------------------


@pruned.register
def _(node: Normalize, required: Names) -> Normalize:
    """A change of columns that nobody reads is no change."""
    return replace(node, input=pruned(node.input, required | set(node.keys)))


@passes.register
def _(node: Normalize, read: set[str]) -> bool:
    """UNSAFE but on keys: a row that is filtered does not take the place of the one before."""
    return bool(read) and read <= set(node.keys)


# --- texts ----------------------------------------------------------------------------------------------------


@describe.register
def _(node: Normalize) -> str:
    ttl = f"; forgets keys after {readable(node.ttl_ms)}" if node.ttl_ms else ""
    return f"Normalize(keys {', '.join(node.keys)}{ttl})"


# --- what runs ------------------------------------------------------------------------------------------------


@keys_of.register
def _(node: Normalize) -> tuple[str, ...]:
    return node.keys


@only_columnar.register
def _(node: Normalize) -> str | None:
    return "a table with updates by key"


@kernel.register
def _(node: Normalize) -> str:
    return "of the last row of each key"


# --- state ----------------------------------------------------------------------------------------------------


@names_of.register
def _(node: Normalize) -> Meanings:
    return names_of(node.input)


@title_of.register
def _(node: Normalize) -> tuple[str, str]:
    return "normalization of changes", "the normalization of changes"


@state_facts.register
def _(node: Normalize) -> Iterator[tuple[str, str]]:
    yield "keys", keys_fact(node.input, node.keys, names_of(node.input))
    yield "columns", rows_fact(node.input)
    yield "forgets", "keys after a time" if node.ttl_ms else "nothing"


@kept.register
def _(node: Normalize) -> Iterator[Kept]:
    yield Kept("the last row of each key", after(node.ttl_ms, "its last change"))
