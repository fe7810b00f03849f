"""Regular join: rows of both sides are kept, for ever or for their time to live, and results are updated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from sqlstream.planner.catalog import ALL_KINDS, APPEND_ONLY, RowKind
from sqlstream.planner.durations import readable
from sqlstream.planner.expressions import columns_of
from sqlstream.planner.fields import Schema
from sqlstream.planner.node import cached_per_node
from sqlstream.planner.operators.join import Join, without_time
from sqlstream.planner.properties import Keys, Kinds, StateDescription, expiry_text
from sqlstream.udfs.joins import JoinKind

Names = frozenset[str]


@dataclass(frozen=True)
class RegularJoin(Join):
    """Every row of one side meets every row of the other, however far apart they arrive; so the results have no order
    in time, and no time attributes.

    ``ttl_ms``: how long the rows of each side are stored after they arrived, in processing time; 0 for ever. Results
    with an expired row are not retracted.
    """

    ttl_ms: tuple[int, int] = (0, 0)

    @cached_property
    def schema(self) -> Schema:
        return tuple(map(without_time, super().schema))

    @property
    @cached_per_node
    def changelog_mode(self) -> Kinds:
        """Inserts only from inserts, where no row is retracted because its first partner has arrived."""
        appends = all(side.changelog_mode == APPEND_ONLY for side in self.inputs)
        if appends and self.kind in (JoinKind.INNER, JoinKind.SEMI):
            return APPEND_ONLY
        return frozenset({RowKind.INSERT, RowKind.DELETE})

    def accepted_kinds(self, port: int = 0) -> Kinds:
        return ALL_KINDS

    @property
    @cached_per_node
    def upsert_keys(self) -> Keys:
        """Changes of a key stay in order if they are in one key group: the key must contain one side of ``equal``.

        Not a side whose rows may be missing, whose NULLs do not determine the key group.
        """
        sides = [set().union(*(columns_of((e.left, e.right)[port]) for e in self.equal)) for port in (0, 1)]
        pads_left, pads_right = self.kind.padded
        held = [sides[0]] if not pads_right else []
        held += [sides[1]] if self.kind.pairs and not pads_left else []
        return frozenset(key for key in self.unique_keys if any(side <= key for side in held))

    @property
    def append_only_hint(self) -> str | None:
        if self.kind in (JoinKind.INNER, JoinKind.SEMI):
            return None
        return (
            "bound the distance of time attributes of both sides in ON, so that a row without a partner comes out once"
        )

    @property
    def uses_processing_time(self) -> bool:
        """Stored rows expire."""
        return any(self.ttl_ms)

    def watermark_fields_needed(self, needed: Names) -> Names:
        return frozenset()

    def describe(self) -> str:
        parts = [self.kind.value, " AND ".join(self.equalities_text) or "TRUE", *self._ttl_texts]
        return f"RegularJoin({'; '.join(parts)})"

    @property
    def _ttl_texts(self) -> list[str]:
        if not any(self.ttl_ms):
            return []
        left, right = (readable(ms) if ms else "for ever" for ms in self.ttl_ms)
        return [f"rows of the left side live {left}, of the right side {right}"]

    kernel_text = "that keeps the rows of both sides"

    state_title = ("regular join", "join")

    def state_facts(self) -> Iterator[tuple[str, str]]:
        yield from self.join_facts()
        for side, ms in zip(("left", "right"), self.ttl_ms, strict=True):
            yield f"time to live of the {side} side", readable(ms) if ms else "for ever"

    def state_descriptions(self) -> Iterator[StateDescription]:
        for side, ms in zip(("left", "right"), self.ttl_ms, strict=True):
            yield StateDescription(f"the rows of the {side} side", expiry_text(ms, "they came"))
