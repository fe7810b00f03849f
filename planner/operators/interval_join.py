"""Interval join: rows of two sides whose times are not too far apart; state is freed as time passes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.fields import FieldNames, Schema
from sqlstream.planner.intervals import readable
from sqlstream.planner.node import Node, cached_per_node
from sqlstream.planner.operators.join import Join, without_time
from sqlstream.planner.properties import FieldsRead, StateDescription


@dataclass(frozen=True)
class IntervalJoin(Join):
    """Joins rows where ``lower_us <= left_time - right_time <= upper_us``, in microseconds.

    ``left_time`` and ``right_time`` are time attributes of ``domain``; in processing time they are the arrival of a
    row. A row without a partner is emitted when the watermark has passed the times of all possible partners. In the
    result, fields of a side that may be padded with NULL are not time attributes.
    """

    left_time: str = ""
    right_time: str = ""
    lower_us: int = 0
    upper_us: int = 0
    domain: TimeDomain = TimeDomain.EVENT

    @cached_property
    def schema(self) -> Schema:
        return tuple([without_time(field) if field.nullable else field for field in super().schema])

    @property
    def times(self) -> tuple[str, str]:
        """The time fields of both sides."""
        return self.left_time, self.right_time

    @property
    def by_clock(self) -> bool:
        """True for a join in processing time, which the clock drives."""
        return self.domain is TimeDomain.PROCESSING

    def pruned(self, required: FieldNames) -> Node:
        return self.pruned_below(required | self.read | {self.left_time, self.right_time})

    def watermark_fields_needed(self, needed: FieldNames) -> FieldNames:
        return needed | {self.left_time, self.right_time}

    @property
    def is_batch_invariant(self) -> bool:
        return self.domain is TimeDomain.EVENT

    @property
    def awaited_domains(self) -> frozenset[TimeDomain]:
        return frozenset({self.domain})

    @property
    def uses_processing_time(self) -> bool:
        return self.by_clock

    @property
    def emits_ahead_of_clock(self) -> bool:
        return self.uses_processing_time

    @property
    @cached_per_node
    def watermark_held_back_ms(self) -> int:
        """How many milliseconds older than the query's watermark an emitted row may be without being late: as much as
        rows of its inputs, plus the length of the join's interval, as in Flink, because a row may be joined with a
        partner that is so much older.
        """
        older_us = 0 if self.by_clock else max(self.upper_us, -self.lower_us, 0)
        return self.operator_held_back_ms - (-older_us // 1000)

    # --- what runs --------------------------------------------------------------------------------------------

    def watermark_field(self, port: int = 0) -> str | None:
        return None if self.by_clock else self.times[port]

    def fields_read(self, port: int = 0) -> FieldsRead | None:
        return None if self.by_clock else self.fields_of_side(port, self.times[port])

    # --- texts and state --------------------------------------------------------------------------------------

    def describe(self) -> str:
        return f"IntervalJoin({self.kind.value}; {' AND '.join([*self.equalities_text, self.bounds_text])})"

    @property
    def bounds_text(self) -> str:
        """The bounds as SQL, for EXPLAIN."""
        lower, upper = (_moved(self.right_time, bound) for bound in (self.lower_us, self.upper_us))
        return f"{self.left_time} BETWEEN {lower} AND {upper}"

    kernel_text = "that keeps the rows of both sides as long as partners may come"

    state_title = ("interval join", "join")

    def state_facts(self) -> Iterator[tuple[str, str]]:
        yield from self.join_facts()
        yield "time of the left side", self.left.column_provenance[self.left_time]
        yield "time of the right side", self.right.column_provenance[self.right_time]
        yield "bounds", f"{self.lower_us} to {self.upper_us} microseconds"
        yield "kind of time", self.domain.value

    def state_descriptions(self) -> Iterator[StateDescription]:
        passes = "the clock passes" if self.by_clock else "the watermark passes"
        yield StateDescription("the rows of both sides", f"{passes} the bounds within which a partner may come")


def _moved(time: str, us: int) -> str:
    if us == 0:
        return time
    sign = "-" if us < 0 else "+"
    whole, rest = divmod(abs(us), 1000)
    parts = ([readable(whole)] if whole else []) + ([f"{rest}us"] if rest else [])
    return " ".join([time, sign, *parts])
