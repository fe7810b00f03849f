"""Window join: rows of two sides in the same windows; all results of a window come out when it closes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.explain.describe import describe
from sqlstream.planner.joining import Join, equalities_text, join_facts, pruned_below, timeless
from sqlstream.planner.keeping import Kept, kept
from sqlstream.planner.meanings import names_of
from sqlstream.planner.nodes import Node, Schema
from sqlstream.planner.physical.state_facts import state_facts, title_of
from sqlstream.planner.physical.text import kernel
from sqlstream.planner.properties import WindowInfo, awaited_by, is_joint, window_of
from sqlstream.planner.rules.prune_columns import Names, pruned


@dataclass(frozen=True)
class WindowJoin(Join):
    """Rows of both sides carry windows of event time, whose bounds are among what must be equal. ``ends``: the fields
    of both sides with the end of the window. Rows come out when the watermark closes their window, those without a
    partner, too; rows of a closed window are late. The fields of a side that may be missing are no time attributes.
    """

    ends: tuple[str, str] = ("", "")

    @cached_property
    def schema(self) -> Schema:
        return tuple([timeless(field) if field.nullable else field for field in super().schema])


@pruned.register
def _(node: WindowJoin, required: Names) -> Node:
    return pruned_below(node, required | node.read | {*node.ends})


@is_joint.register
def _(node: WindowJoin) -> bool:
    return True


@awaited_by.register
def _(node: WindowJoin) -> frozenset[TimeDomain]:
    return frozenset({TimeDomain.EVENT})


@window_of.register
def _(node: WindowJoin) -> WindowInfo | None:
    """That of a side whose rows are always there."""
    pads_left, pads_right = node.kind.padded
    if not pads_right:
        return window_of(node.left)
    return None if pads_left else window_of(node.right)


@describe.register
def _(node: WindowJoin) -> str:
    return f"WindowJoin({node.kind.value}; {' AND '.join(equalities_text(node))})"


@kernel.register
def _(node: WindowJoin) -> str:
    return "that keeps the rows of both sides until their windows close"


@title_of.register
def _(node: WindowJoin) -> tuple[str, str]:
    return "window join", "join"


@state_facts.register
def _(node: WindowJoin) -> Iterator[tuple[str, str]]:
    yield from join_facts(node)
    for side, below, end in zip(("left", "right"), node.inputs, node.ends, strict=True):
        yield f"end of the windows of the {side} side", names_of(below)[end]


@kept.register
def _(node: WindowJoin) -> Iterator[Kept]:
    yield Kept("the rows of both sides", "the watermark passes their window")
