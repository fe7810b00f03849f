"""Temporal join: each row of the left side beside the row of its key that the right side had at its time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from sqlstream.planner.catalog import ALL_KINDS, APPEND_ONLY, RowKind, TimeDomain
from sqlstream.planner.durations import readable
from sqlstream.planner.expressions import columns_of
from sqlstream.planner.fields import FieldNames, Schema
from sqlstream.planner.node import Conditions, Node, PushFilters, cached_per_node
from sqlstream.planner.operators.join import Join, timeless
from sqlstream.planner.properties import FieldsRead, StateDescription, expiry_text


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
        own = self.left.field_names
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

    # --- properties -------------------------------------------------------------------------------------------

    @property
    def is_batch_invariant(self) -> bool:
        return self.domain is TimeDomain.EVENT

    @property
    def awaited_domains(self) -> frozenset[TimeDomain]:
        return frozenset({self.domain}) if self.timed else frozenset()

    @property
    def uses_processing_time(self) -> bool:
        """Rows must be forgotten."""
        return self.ttl_ms > 0 or self.left_ttl_ms > 0

    @property
    @cached_per_node
    def unique_keys(self) -> frozenset[frozenset[str]]:
        return self.left.unique_keys

    @property
    @cached_per_node
    def upsert_keys(self) -> frozenset[frozenset[str]]:
        """Changes of a key follow each other where the key groups of its rows are the same."""
        return frozenset(key for key in self.left.unique_keys if self.stays_together(key, 0))

    # --- changes ----------------------------------------------------------------------------------------------

    @property
    def retracts(self) -> bool:
        """Left rows may be retracted: the partners that they came with are remembered for that."""
        return self.left.changelog_mode != APPEND_ONLY

    @property
    @cached_per_node
    def changelog_mode(self) -> frozenset[RowKind]:
        """The row that takes the place of another one may have another partner, or none."""
        return frozenset({RowKind.INSERT, RowKind.DELETE}) if self.retracts else APPEND_ONLY

    def accepted_kinds(self, port: int = 0) -> frozenset[RowKind]:
        return APPEND_ONLY if port == 1 and self.is_asof else ALL_KINDS

    def reads_update_before(self, above: bool, port: int = 0) -> bool:
        """The row that takes the place of another one on the right side says from when on."""
        return port == 0

    why_inserts_only = "a row that was the nearest one to others could be taken back"

    # --- rules ------------------------------------------------------------------------------------------------

    def pruned(self, required: FieldNames) -> Node:
        return self.pruned_below(required | self.read | {*self.times, *(self.first_by or ())})

    def watermark_fields_needed(self, needed: FieldNames) -> FieldNames:
        return needed | {*self.times}

    def passes_filter(self, read: set[str]) -> bool:
        """UNSAFE for the right side: without a row, the one before it is valid for longer."""
        return bool(read) and read <= self.left.field_names

    def with_pushed_filters(self, conditions: Conditions, push: PushFilters) -> Node:
        assert all(columns_of(condition) <= self.left.field_names for condition in conditions)
        return replace(self, left=push(self.left, conditions))

    # --- what runs --------------------------------------------------------------------------------------------

    def watermark_field(self, port: int = 0) -> str | None:
        return self.times[port] if self.timed else None

    def fields_read(self, port: int = 0) -> FieldsRead | None:
        return self.fields_of_side(port, self.watermark_field(port))

    @property
    def depends_on_arrival_order(self) -> bool:
        """Of rows of one time the last one that came counts, but where an order tells which."""
        return not self.first_by or self.retracts

    # --- texts and state --------------------------------------------------------------------------------------

    def describe(self) -> str:
        when = f"newest {self._order_text}" if self.timed else "what is there when rows come"
        ttl = [f"forgets rows of the right side after {readable(self.ttl_ms)}"] if self.ttl_ms else []
        ttl += [f"forgets partners of the left side after {readable(self.left_ttl_ms)}"] if self.left_ttl_ms else []
        parts = [self.kind.value, " AND ".join(self.equalities_text) or "TRUE", when, *ttl]
        return f"TemporalJoin({'; '.join(parts)})"

    @property
    def _order_text(self) -> str:
        first = f", of equal ones the first by {', '.join(self.first_by)}" if self.first_by else ""
        return f"{self.right_time} {'<' if self.strict else '<='} {self.left_time}{first}"

    @property
    def kernel_text(self) -> str:
        keeps = "the last row of each key"
        if self.timed:
            keeps = "rows until the watermark reaches them, and what they may meet"
        remembers = ", and remembers what rows that may be retracted have met" if self.retracts else ""
        return f"that keeps {keeps}{remembers}"

    state_title = ("temporal join", "join")

    def state_facts(self) -> Iterator[tuple[str, str]]:
        yield from self.join_facts()
        yield "kind of time", self.domain.value
        if self.timed:
            right = self.right.column_provenance
            yield "time of the left side", self.left.column_provenance[self.left_time]
            yield "time of the right side", right[self.right_time]
            yield "right rows", "older ones only" if self.strict else "older ones and those of the same time"
            first_by = None if self.first_by is None else ", ".join(right[name] for name in self.first_by)
            yield "of equal times", "the last one" if first_by is None else f"the first one by {first_by or 'arrival'}"
        yield "time to live of the right side", readable(self.ttl_ms) if self.ttl_ms else "for ever"
        if self.retracts:
            left = self.left.column_provenance
            yield "left rows", f"retracted by {', '.join(left[name] for name in self.told_apart_by)}"
            yield "time to live of the left side", readable(self.left_ttl_ms) if self.left_ttl_ms else "for ever"

    def state_descriptions(self) -> Iterator[StateDescription]:
        if self.timed:
            yield StateDescription("rows of the left side", "the watermark reaches them")
        yield StateDescription("the last row of each key of the right side", expiry_text(self.ttl_ms, "it came"))
        if self.left.changelog_mode != APPEND_ONLY:
            yield StateDescription("the partners of rows of the left side", expiry_text(self.left_ttl_ms, "they came"))
