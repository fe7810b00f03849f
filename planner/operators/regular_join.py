"""Regular join: rows of both sides are kept, for ever or for their time to live, and results are updated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from sqlstream.planner.catalog import ALL_KINDS, APPEND_ONLY, RowKind
from sqlstream.planner.changes import instead_of, takes_changes, upsert_keys
from sqlstream.planner.durations import readable
from sqlstream.planner.explain.describe import describe
from sqlstream.planner.joining import Join, equalities_text, join_facts, timeless
from sqlstream.planner.keeping import Kept, after, kept
from sqlstream.planner.nodes import Schema
from sqlstream.planner.physical.state_facts import state_facts, title_of
from sqlstream.planner.physical.text import kernel
from sqlstream.planner.properties import changelog_mode, unique_keys, uses_processing_time
from sqlstream.planner.rewriting import columns_of
from sqlstream.planner.rules.remove_unused_time import needed_below
from sqlstream.udfs.joins import JoinKind

Names = frozenset[str]


@dataclass(frozen=True)
class RegularJoin(Join):
    """Every row of one side meets every row of the other, however far apart they come; so its rows have no order in
    time, and no time attributes.

    ``ttl_ms``: how long the rows of each side are kept after they came, in processing time; 0 for ever. The results
    with a row that is kept no longer stay as they are.
    """

    ttl_ms: tuple[int, int] = (0, 0)

    @cached_property
    def schema(self) -> Schema:
        return tuple(map(timeless, super().schema))


@changelog_mode.register
def _(node: RegularJoin) -> frozenset[RowKind]:
    """Inserts only from inserts, where no row is taken back because its first partner has come."""
    appends = all(changelog_mode(side) == APPEND_ONLY for side in node.inputs)
    if appends and node.kind in (JoinKind.INNER, JoinKind.SEMI):
        return APPEND_ONLY
    return frozenset({RowKind.INSERT, RowKind.DELETE})


@takes_changes.register
def _(node: RegularJoin, port: int = 0) -> frozenset[RowKind]:
    return ALL_KINDS


@upsert_keys.register
def _(node: RegularJoin) -> frozenset[frozenset[str]]:
    """Changes of a key follow each other in the key group of what must be equal: one side of it must be in the key.
    Not one whose rows may be missing: what then is NULL does not tell the key group."""
    sides = [set().union(*(columns_of((e.left, e.right)[port]) for e in node.equal)) for port in (0, 1)]
    pads_left, pads_right = node.kind.padded
    held = [sides[0]] if not pads_right else []
    held += [sides[1]] if node.kind.pairs and not pads_left else []
    return frozenset(key for key in unique_keys(node) if any(side <= key for side in held))


@instead_of.register
def _(node: RegularJoin) -> str | None:
    if node.kind in (JoinKind.INNER, JoinKind.SEMI):
        return None
    return "bound the distance of time attributes of both sides in ON, so that a row without a partner comes out once"


@uses_processing_time.register
def _(node: RegularJoin) -> bool:
    """Rows must be forgotten."""
    return any(node.ttl_ms)


@needed_below.register
def _(node: RegularJoin, needed: Names) -> Names:
    return frozenset()


@describe.register
def _(node: RegularJoin) -> str:
    parts = [node.kind.value, " AND ".join(equalities_text(node)) or "TRUE", *_lives(node)]
    return f"RegularJoin({'; '.join(parts)})"


def _lives(node: RegularJoin) -> list[str]:
    if not any(node.ttl_ms):
        return []
    left, right = (readable(ms) if ms else "for ever" for ms in node.ttl_ms)
    return [f"rows of the left side live {left}, of the right side {right}"]


@kernel.register
def _(node: RegularJoin) -> str:
    return "that keeps the rows of both sides"


@title_of.register
def _(node: RegularJoin) -> tuple[str, str]:
    return "regular join", "join"


@state_facts.register
def _(node: RegularJoin) -> Iterator[tuple[str, str]]:
    yield from join_facts(node)
    for side, ms in zip(("left", "right"), node.ttl_ms, strict=True):
        yield f"time to live of the {side} side", readable(ms) if ms else "for ever"


@kept.register
def _(node: RegularJoin) -> Iterator[Kept]:
    for side, ms in zip(("left", "right"), node.ttl_ms, strict=True):
        yield Kept(f"the rows of the {side} side", after(ms, "they came"))
