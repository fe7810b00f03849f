"""Window join: rows of two sides in the same windows; all results of a window come out when it closes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.fields import FieldNames, Schema
from sqlstream.planner.node import Node, cached_per_node
from sqlstream.planner.operators.join import Join, without_time
from sqlstream.planner.properties import StateDescription, WindowInfo


@dataclass(frozen=True)
class WindowJoin(Join):
    """Rows of both sides carry windows of event time, whose bounds are among what must be equal. ``ends``: the fields
    of both sides with the end of the window. Rows come out when the watermark closes their window, those without a
    partner, too; rows of a closed window are late. The fields of a side that may be missing are no time attributes.
    """

    ends: tuple[str, str] = ("", "")

    @cached_property
    def schema(self) -> Schema:
        return tuple([without_time(field) if field.nullable else field for field in super().schema])

    def pruned(self, required: FieldNames) -> Node:
        return self.pruned_below(required | self.read | {*self.ends})

    is_batch_invariant = True

    awaited_domains = frozenset({TimeDomain.EVENT})

    @property
    @cached_per_node
    def window_info(self) -> WindowInfo | None:
        """That of a side whose rows are always there."""
        pads_left, pads_right = self.kind.padded
        if not pads_right:
            return self.left.window_info
        return None if pads_left else self.right.window_info

    def describe(self) -> str:
        return f"WindowJoin({self.kind.value}; {' AND '.join(self.equalities_text)})"

    kernel_text = "that keeps the rows of both sides until their windows close"

    state_title = ("window join", "join")

    def state_facts(self) -> Iterator[tuple[str, str]]:
        yield from self.join_facts()
        for side, below, end in zip(("left", "right"), self.inputs, self.ends, strict=True):
            yield f"end of the windows of the {side} side", below.column_provenance[end]

    def state_descriptions(self) -> Iterator[StateDescription]:
        yield StateDescription("the rows of both sides", "the watermark passes their window")
