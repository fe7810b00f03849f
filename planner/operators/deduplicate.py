"""Deduplicate: the first or the last row of each key, in the order of a time attribute."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlstream.planner.catalog import ALL_KINDS, APPEND_ONLY, RowKind, TimeDomain
from sqlstream.planner.changes import instead_of, made_by, taken_by, upsert_keys, with_inserts
from sqlstream.planner.durations import readable
from sqlstream.planner.explain.describe import describe
from sqlstream.planner.keeping import Kept, after, kept
from sqlstream.planner.meanings import Names as Meanings
from sqlstream.planner.meanings import names_of
from sqlstream.planner.naming import Names as Unique
from sqlstream.planner.naming import passed
from sqlstream.planner.nodes import Node, Project, Unary
from sqlstream.planner.operators.over import Sorted
from sqlstream.planner.operators.top_n import ROW_NUMBER, TopN
from sqlstream.planner.physical.kernels import keys_of
from sqlstream.planner.physical.native import only_columnar
from sqlstream.planner.physical.readers import FieldsRead, fields_read
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
class Deduplicate(Unary):
    """Of the rows with equal ``keys`` the first, or the ``last``, in the order of ``time``. In processing time rows are
    in order of arrival, so the first one is final.

    In event time an earlier, or a later, row takes the place of the one before, however late it comes. ``ttl_ms``: a
    key is forgotten so long after its row came; 0: never.
    """

    keys: tuple[str, ...]
    time: str
    domain: TimeDomain
    last: bool
    ttl_ms: int = 0

    @property
    def timed(self) -> bool:
        return self.domain is not TimeDomain.PROCESSING


# --- properties -----------------------------------------------------------------------------------------------


@keeps_state.register
def _(node: Deduplicate) -> bool:
    return True


@uses_processing_time.register
def _(node: Deduplicate) -> bool:
    return node.ttl_ms > 0


@unique_keys.register
def _(node: Deduplicate) -> frozenset[frozenset[str]]:
    return unique_keys(node.input) | upsert_keys(node)


@window_of.register
def _(node: Deduplicate) -> WindowInfo | None:
    return window_of(node.input)


# --- changes --------------------------------------------------------------------------------------------------


@changelog_mode.register
def _(node: Deduplicate) -> frozenset[RowKind]:
    return ALL_KINDS - {RowKind.DELETE} if node.last or node.timed else APPEND_ONLY


@upsert_keys.register
def _(node: Deduplicate) -> frozenset[frozenset[str]]:
    return frozenset({frozenset(node.keys)}) if node.keys else frozenset()


@taken_by.register
def _(node: Deduplicate) -> str:
    return "a first or last row"


@made_by.register
def _(node: Deduplicate) -> str:
    return f"the {'last' if node.last else 'first'} rows of keys"


@instead_of.register
def _(node: Deduplicate) -> str:
    return "take the first row in the order of event time, or of windows, by PARTITION BY window_start, window_end"


@with_inserts.register
def _(node: Deduplicate) -> Node | None:
    """The first row in event time is final when the watermark has passed it."""
    if node.last:
        return None
    number = Unique(f.name for f in node.schema).unique("number")
    best = with_inserts(TopN(node.input, node.keys, (Sorted(node.time),), ROW_NUMBER, 1, 1, number))
    return None if best is None else Project(best, tuple(map(passed, node.schema)))


# --- rules ----------------------------------------------------------------------------------------------------


@pruned.register
def _(node: Deduplicate, required: Names) -> Node:
    time = {node.time} if node.timed else set()
    return replace(node, input=pruned(node.input, required | set(node.keys) | time))


@passes.register
def _(node: Deduplicate, read: set[str]) -> bool:
    """UNSAFE but on keys: a filtered row still is the first, or the last."""
    return bool(read) and read <= set(node.keys)


# --- texts ----------------------------------------------------------------------------------------------------


@describe.register
def _(node: Deduplicate) -> str:
    ttl = f"; forgets keys after {readable(node.ttl_ms)}" if node.ttl_ms else ""
    keys = f"keys {', '.join(node.keys)}; " if node.keys else ""
    order = f"in order of {node.time}" if node.timed else "as they come"
    return f"Deduplicate({keys}{'last' if node.last else 'first'} row {order}{ttl})"


@kernel.register
def _(node: Deduplicate) -> str:
    return "of the keys that came" if changelog_mode(node) == APPEND_ONLY else "of one row of each key"


# --- what runs ------------------------------------------------------------------------------------------------


@keys_of.register
def _(node: Deduplicate) -> tuple[str, ...]:
    return node.keys


@fields_read.register
def _(node: Deduplicate, port: int = 0) -> FieldsRead:
    return FieldsRead(tuple(f.name for f in node.input.schema), node.keys, node.time if node.timed else None)


@only_columnar.register
def _(node: Deduplicate) -> str | None:
    return "the first or last row of each key"


# --- state ----------------------------------------------------------------------------------------------------


@names_of.register
def _(node: Deduplicate) -> Meanings:
    return names_of(node.input)


@title_of.register
def _(node: Deduplicate) -> tuple[str, str]:
    return "deduplication", "the deduplication"


@state_facts.register
def _(node: Deduplicate) -> Iterator[tuple[str, str]]:
    names = names_of(node.input)
    yield "keys", keys_fact(node.input, node.keys, names)
    yield "row", "last" if node.last else "first"
    yield "order", names[node.time] if node.timed else "as rows come"
    if changelog_mode(node) != APPEND_ONLY:
        yield "columns", rows_fact(node.input)
    yield "forgets", "keys after a time" if node.ttl_ms else "nothing"


@kept.register
def _(node: Deduplicate) -> Iterator[Kept]:
    yield Kept("a row of each key" if node.timed or node.last else "each key", after(node.ttl_ms, "its row came"))
