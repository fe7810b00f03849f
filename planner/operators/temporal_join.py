"""Temporal join: each row of the left side beside the row of its key that the right side had at its time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from sqlstream.planner.catalog import ALL_KINDS, APPEND_ONLY, RowKind, TimeDomain
from sqlstream.planner.changes import reads_before, takes_changes, upsert_keys, why_inserts_only
from sqlstream.planner.durations import readable
from sqlstream.planner.explain.describe import describe
from sqlstream.planner.joining import (
    Join,
    equalities_text,
    fields_of_side,
    join_facts,
    names_in,
    pruned_below,
    stays_together,
    timeless,
)
from sqlstream.planner.keeping import Kept, after, kept
from sqlstream.planner.meanings import names_of
from sqlstream.planner.nodes import Node, Schema
from sqlstream.planner.physical.clocks import told_time
from sqlstream.planner.physical.kernels import sees_arrival
from sqlstream.planner.physical.readers import FieldsRead, fields_read
from sqlstream.planner.physical.state_facts import state_facts, title_of
from sqlstream.planner.physical.text import kernel
from sqlstream.planner.properties import awaited_by, changelog_mode, is_joint, unique_keys, uses_processing_time
from sqlstream.planner.rewriting import columns_of
from sqlstream.planner.rules.prune_columns import Names, pruned
from sqlstream.planner.rules.push_filters import Conditions, filtered, into, passes
from sqlstream.planner.rules.remove_unused_time import needed_below


@dataclass(frozen=True)
class TemporalJoin(Join):
    """Each row of ``left``, which has one partner at most; ``kind`` is INNER or LEFT. What the right side keeps of a
    key is what the fields of ``equal`` tell apart.

    In event time a left row waits until the watermark reaches its ``left_time``. Its partner is the right row with the
    newest ``right_time`` not after that, with ``strict`` before it. Right rows are changes of which each holds from its
    time on; where ``first_by`` is given (ASOF) they are plain rows, of which the first by these fields counts among
    those of one time. In processing time, without times, the partner is what the right side has when the left row
    comes. ``ttl_ms``: a right row is forgotten so long after it came; 0: never. Left rows that are retracted go with
    the partner that they came with, which is remembered for ``left_ttl_ms``.
    """

    domain: TimeDomain = TimeDomain.EVENT
    left_time: str = ""
    right_time: str = ""
    strict: bool = False
    first_by: tuple[str, ...] | None = None
    ttl_ms: int = 0
    left_ttl_ms: int = 0

    @cached_property
    def schema(self) -> Schema:
        """The times of the right side are older than the watermark when they come out."""
        own = names_in(self.left)
        return tuple([field if field.name in own else timeless(field) for field in super().schema])

    @property
    def timed(self) -> bool:
        return self.domain is not TimeDomain.PROCESSING

    @property
    def times(self) -> tuple[str, ...]:
        return (self.left_time, self.right_time) if self.timed else ()

    @property
    def is_asof(self) -> bool:
        return self.first_by is not None

    @property
    def told_apart_by(self) -> tuple[str, ...]:
        """The fields that tell which left row is retracted: the clock may have moved on since it came."""
        return tuple(field.name for field in self.left.schema if field.time is not TimeDomain.PROCESSING)


# --- properties -----------------------------------------------------------------------------------------------


@is_joint.register
def _(node: TemporalJoin) -> bool:
    return node.domain is TimeDomain.EVENT


@awaited_by.register
def _(node: TemporalJoin) -> frozenset[TimeDomain]:
    return frozenset({node.domain}) if node.timed else frozenset()


@uses_processing_time.register
def _(node: TemporalJoin) -> bool:
    """Rows must be forgotten."""
    return node.ttl_ms > 0 or node.left_ttl_ms > 0


@unique_keys.register
def _(node: TemporalJoin) -> frozenset[frozenset[str]]:
    return unique_keys(node.left)


@upsert_keys.register
def _(node: TemporalJoin) -> frozenset[frozenset[str]]:
    """Changes of a key follow each other where the key groups of its rows are the same."""
    return frozenset(key for key in unique_keys(node.left) if stays_together(node, key, 0))


# --- changes --------------------------------------------------------------------------------------------------


def retracts(node: TemporalJoin) -> bool:
    """Left rows may be retracted: the partners that they came with are remembered for that."""
    return changelog_mode(node.left) != APPEND_ONLY


@changelog_mode.register
def _(node: TemporalJoin) -> frozenset[RowKind]:
    """The row that takes the place of another one may have another partner, or none."""
    return frozenset({RowKind.INSERT, RowKind.DELETE}) if retracts(node) else APPEND_ONLY


@takes_changes.register
def _(node: TemporalJoin, port: int = 0) -> frozenset[RowKind]:
    return APPEND_ONLY if port == 1 and node.is_asof else ALL_KINDS


@reads_before.register
def _(node: TemporalJoin, above: bool, port: int = 0) -> bool:
    """The row that takes the place of another one on the right side says from when on."""
    return port == 0


@why_inserts_only.register
def _(node: TemporalJoin) -> str:
    return "a row that was the nearest one to others could be taken back"


# --- rules ----------------------------------------------------------------------------------------------------


@pruned.register
def _(node: TemporalJoin, required: Names) -> Node:
    return pruned_below(node, required | node.read | {*node.times, *(node.first_by or ())})


@needed_below.register
def _(node: TemporalJoin, needed: Names) -> Names:
    return needed | {*node.times}


@passes.register
def _(node: TemporalJoin, read: set[str]) -> bool:
    """UNSAFE for the right side: without a row, the one before it is valid for longer."""
    return bool(read) and read <= names_in(node.left)


@into.register
def _(node: TemporalJoin, conditions: Conditions) -> Node:
    assert all(columns_of(condition) <= names_in(node.left) for condition in conditions)
    return replace(node, left=filtered(node.left, conditions))


# --- what runs ------------------------------------------------------------------------------------------------


@told_time.register
def _(node: TemporalJoin, port: int = 0) -> str | None:
    return node.times[port] if node.timed else None


@fields_read.register
def _(node: TemporalJoin, port: int = 0) -> FieldsRead | None:
    return fields_of_side(node, port, told_time(node, port))


@sees_arrival.register
def _(node: TemporalJoin) -> bool:
    """Of rows of one time the last one that came counts, but where an order tells which."""
    return not node.first_by or retracts(node)


# --- texts and state ------------------------------------------------------------------------------------------


@describe.register
def _(node: TemporalJoin) -> str:
    when = f"newest {_order(node)}" if node.timed else "what is there when rows come"
    ttl = [f"forgets rows of the right side after {readable(node.ttl_ms)}"] if node.ttl_ms else []
    ttl += [f"forgets partners of the left side after {readable(node.left_ttl_ms)}"] if node.left_ttl_ms else []
    parts = [node.kind.value, " AND ".join(equalities_text(node)) or "TRUE", when, *ttl]
    return f"TemporalJoin({'; '.join(parts)})"


def _order(node: TemporalJoin) -> str:
    first = f", of equal ones the first by {', '.join(node.first_by)}" if node.first_by else ""
    return f"{node.right_time} {'<' if node.strict else '<='} {node.left_time}{first}"


@kernel.register
def _(node: TemporalJoin) -> str:
    keeps = "the last row of each key"
    if node.timed:
        keeps = "rows until the watermark reaches them, and what they may meet"
    remembers = ", and remembers what rows that may be retracted have met" if retracts(node) else ""
    return f"that keeps {keeps}{remembers}"


@title_of.register
def _(node: TemporalJoin) -> tuple[str, str]:
    return "temporal join", "join"


@state_facts.register
def _(node: TemporalJoin) -> Iterator[tuple[str, str]]:
    yield from join_facts(node)
    yield "kind of time", node.domain.value
    if node.timed:
        right = names_of(node.right)
        yield "time of the left side", names_of(node.left)[node.left_time]
        yield "time of the right side", right[node.right_time]
        yield "right rows", "older ones only" if node.strict else "older ones and those of the same time"
        first_by = None if node.first_by is None else ", ".join(right[name] for name in node.first_by)
        yield "of equal times", "the last one" if first_by is None else f"the first one by {first_by or 'arrival'}"
    yield "time to live of the right side", readable(node.ttl_ms) if node.ttl_ms else "for ever"
    if retracts(node):
        left = names_of(node.left)
        yield "left rows", f"retracted by {', '.join(left[name] for name in node.told_apart_by)}"
        yield "time to live of the left side", readable(node.left_ttl_ms) if node.left_ttl_ms else "for ever"


@kept.register
def _(node: TemporalJoin) -> Iterator[Kept]:
    if node.timed:
        yield Kept("rows of the left side", "the watermark reaches them")
    yield Kept("the last row of each key of the right side", after(node.ttl_ms, "it came"))
    if changelog_mode(node.left) != APPEND_ONLY:
        yield Kept("the partners of rows of the left side", after(node.left_ttl_ms, "they came"))
