"""Interval join: rows of two sides whose times are not too far apart; state is freed as time passes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.durations import readable
from sqlstream.planner.explain.describe import describe
from sqlstream.planner.joining import Join, equalities_text, fields_of_side, join_facts, pruned_below, timeless
from sqlstream.planner.keeping import Kept, kept
from sqlstream.planner.meanings import names_of
from sqlstream.planner.nodes import Node, Schema
from sqlstream.planner.physical.clocks import held_back_ms, told_time
from sqlstream.planner.physical.readers import FieldsRead, fields_read
from sqlstream.planner.physical.state_facts import state_facts, title_of
from sqlstream.planner.physical.text import kernel
from sqlstream.planner.properties import acts_by_clock, awaited_by, is_joint, uses_processing_time
from sqlstream.planner.rules.prune_columns import Names, pruned
from sqlstream.planner.rules.remove_unused_time import needed_below


@dataclass(frozen=True)
class IntervalJoin(Join):
    """Rows match only where ``lower_us <= left_time - right_time <= upper_us``, in microseconds.

    ``left_time`` and ``right_time`` are time attributes of ``domain``; in processing time they stand for the moment at
    which a row comes. A row without a partner comes out when the watermark says that none comes any more. The fields of
    a side that may be missing are no time attributes above.
    """

    left_time: str = ""
    right_time: str = ""
    lower_us: int = 0
    upper_us: int = 0
    domain: TimeDomain = TimeDomain.EVENT

    @cached_property
    def schema(self) -> Schema:
        return tuple([timeless(field) if field.nullable else field for field in super().schema])

    @property
    def times(self) -> tuple[str, str]:
        return self.left_time, self.right_time

    @property
    def by_clock(self) -> bool:
        return self.domain is TimeDomain.PROCESSING


@pruned.register
def _(node: IntervalJoin, required: Names) -> Node:
    return pruned_below(node, required | node.read | {node.left_time, node.right_time})


@needed_below.register
def _(node: IntervalJoin, needed: Names) -> Names:
    return needed | {node.left_time, node.right_time}


@is_joint.register
def _(node: IntervalJoin) -> bool:
    return node.domain is TimeDomain.EVENT


@awaited_by.register
def _(node: IntervalJoin) -> frozenset[TimeDomain]:
    return frozenset({node.domain})


@uses_processing_time.register
@acts_by_clock.register
def _(node: IntervalJoin) -> bool:
    return node.by_clock


@held_back_ms.register
def _(node: IntervalJoin) -> int:
    """A row meets partners that are older than itself by no more than the bounds say, as Flink delays its watermark."""
    older_us = 0 if node.by_clock else max(node.upper_us, -node.lower_us, 0)
    return max(map(held_back_ms, node.inputs)) - (-older_us // 1000)


# --- what runs ------------------------------------------------------------------------------------------------


@told_time.register
def _(node: IntervalJoin, port: int = 0) -> str | None:
    return None if node.by_clock else node.times[port]


@fields_read.register
def _(node: IntervalJoin, port: int = 0) -> FieldsRead | None:
    return None if node.by_clock else fields_of_side(node, port, node.times[port])


# --- texts and state ------------------------------------------------------------------------------------------


@describe.register
def _(node: IntervalJoin) -> str:
    return f"IntervalJoin({node.kind.value}; {' AND '.join([*equalities_text(node), bounds_text(node)])})"


def bounds_text(node: IntervalJoin) -> str:
    lower, upper = (_moved(node.right_time, bound) for bound in (node.lower_us, node.upper_us))
    return f"{node.left_time} BETWEEN {lower} AND {upper}"


def _moved(time: str, us: int) -> str:
    if us == 0:
        return time
    sign = "-" if us < 0 else "+"
    whole, rest = divmod(abs(us), 1000)
    parts = ([readable(whole)] if whole else []) + ([f"{rest}us"] if rest else [])
    return " ".join([time, sign, *parts])


@kernel.register
def _(node: IntervalJoin) -> str:
    return "that keeps the rows of both sides as long as partners may come"


@title_of.register
def _(node: IntervalJoin) -> tuple[str, str]:
    return "interval join", "join"


@state_facts.register
def _(node: IntervalJoin) -> Iterator[tuple[str, str]]:
    yield from join_facts(node)
    yield "time of the left side", names_of(node.left)[node.left_time]
    yield "time of the right side", names_of(node.right)[node.right_time]
    yield "bounds", f"{node.lower_us} to {node.upper_us} microseconds"
    yield "kind of time", node.domain.value


@kept.register
def _(node: IntervalJoin) -> Iterator[Kept]:
    passes = "the clock passes" if node.by_clock else "the watermark passes"
    yield Kept("the rows of both sides", f"{passes} the bounds within which a partner may come")
