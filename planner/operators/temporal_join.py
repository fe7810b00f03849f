"""Joins of each left row with one row of the right side: temporal joins, by time, and ASOF joins, by any value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from sqlglot import exp

from sqlstream.planner.catalog import ALL_KINDS, APPEND_ONLY, RowKind, TimeDomain
from sqlstream.planner.expressions import columns_of, sql
from sqlstream.planner.fields import FieldNames, Schema, traced
from sqlstream.planner.intervals import readable
from sqlstream.planner.node import Conditions, Node, PushFilters, cached_per_node
from sqlstream.planner.operators.join import Join, without_time
from sqlstream.planner.properties import FieldsRead, Keys, Kinds, StateDescription, expiry_text
from sqlstream.udfs.expressions.tree import Comparison


@dataclass(frozen=True)
class TemporalJoin(Join):
    """Joins each row of ``left`` with at most one row of ``right``, the one that was valid at the time of the left row;
    ``kind`` is INNER or LEFT.

    Right rows are stored by the fields of ``equal``. In event time a left row waits until the watermark reaches its
    ``left_time``. It is then joined with the right row that has the newest ``right_time`` not after that time; with
    ``strict``, before it. Right rows are versions, each valid from its time on. In an ASOF JOIN they are plain rows,
    and the fields ``first_by`` order those of the same time: the first one is joined.

    In processing time, without times, a left row is joined with the current right row when it arrives. ``ttl_ms``: a
    right row expires this many milliseconds of processing time after its arrival; 0: never. If left rows may be
    retracted, the right rows with which they were joined are stored for ``left_ttl_ms``, so that a retraction is
    emitted with the same one.
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
        """The fields of both sides. Times of the right side are not time attributes, because the watermark has passed
        them.
        """
        own = self.left.field_names
        return tuple([field if field.name in own else without_time(field) for field in super().schema])

    @property
    def timed(self) -> bool:
        """True for a join in event or ingestion time."""
        return self.domain is not TimeDomain.PROCESSING

    @property
    def times(self) -> tuple[str, ...]:
        """The time fields of the left and the right side; empty in processing time."""
        return (self.left_time, self.right_time) if self.timed else ()

    @property
    def is_asof(self) -> bool:
        """True where the right rows are plain rows, not versions."""
        return self.first_by is not None

    @property
    def left_row_identity(self) -> tuple[str, ...]:
        """The fields that identify a left row that is retracted: all except processing times, which differ at the
        retraction.
        """
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
        """True if stored rows expire (``ttl_ms``), which is measured in processing time."""
        return self.ttl_ms > 0 or self.left_ttl_ms > 0

    @property
    @cached_per_node
    def unique_keys(self) -> Keys:
        return self.left.unique_keys

    @property
    @cached_per_node
    def upsert_keys(self) -> Keys:
        """Those unique keys of the left side by which rows are distributed to key groups, so that changes of a row stay
        in order.
        """
        return frozenset(key for key in self.left.unique_keys if self.stays_together(key, 0))

    # --- changes ----------------------------------------------------------------------------------------------

    @property
    def retracts(self) -> bool:
        """True where left rows may be retracted: their partners are stored, to be retracted too."""
        return self.left.changelog_mode != APPEND_ONLY

    @property
    @cached_per_node
    def changelog_mode(self) -> Kinds:
        """Inserts, and deletes where the left side has changes: an updated row may have another partner than before, or
        none.
        """
        return frozenset({RowKind.INSERT, RowKind.DELETE}) if self.retracts else APPEND_ONLY

    def accepted_kinds(self, port: int = 0) -> Kinds:
        return APPEND_ONLY if port == 1 and self.is_asof else ALL_KINDS

    def reads_update_before(self, above: bool, port: int = 0) -> bool:
        """True for the left side. The right side needs no -U, because a +U says from when on a row is valid."""
        return port == 0

    why_inserts_only = "a row that was the nearest one to others could be taken back"

    # --- rules ------------------------------------------------------------------------------------------------

    def pruned(self, required: FieldNames) -> Node:
        return self.pruned_below(required | self.read | {*self.times, *(self.first_by or ())})

    def watermark_fields_needed(self, needed: FieldNames) -> FieldNames:
        return needed | {*self.times}

    def passes_filter(self, read: set[str]) -> bool:
        """True if a filter above may be moved below: ``read``, the fields of its condition, are all of the left side.

        If a filter removed a row of the right side, the version before it would be valid for longer.
        """
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
        """True unless ``first_by`` orders the right rows of one time and no left row is retracted. Otherwise the last
        right row to arrive counts.
        """
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
            yield "left rows", f"retracted by {', '.join(left[name] for name in self.left_row_identity)}"
            yield "time to live of the left side", readable(self.left_ttl_ms) if self.left_ttl_ms else "for ever"

    def state_descriptions(self) -> Iterator[StateDescription]:
        if self.timed:
            yield StateDescription("rows of the left side", "the watermark reaches them")
        yield StateDescription("the last row of each key of the right side", expiry_text(self.ttl_ms, "it came"))
        if self.left.changelog_mode != APPEND_ONLY:
            yield StateDescription("the partners of rows of the left side", expiry_text(self.left_ttl_ms, "they came"))


# --- ASOF join of updating rows: the nearest right row of the key, by any value -------------------------------


@dataclass(frozen=True, kw_only=True)
class AsofJoin(Join):
    """An ASOF JOIN with results that are updated: joins each row of ``left`` with at most one row of ``right``;
    ``kind`` is INNER or LEFT.

    Candidates are the right rows for which ``left_value comparison right_value`` and ``condition`` are true. The one
    with the nearest ``right_value`` is the partner; of equal values the first by ``first_by``, then the first to
    arrive. Rows of either side arrive in any order, so a nearer row may replace a partner. ``ttl_ms``: the rows of a
    key expire this many milliseconds of processing time after the last of them arrived; 0: never.
    """

    left_value: exp.Expression
    right_value: exp.Expression
    comparison: Comparison
    first_by: tuple[str, ...]
    ttl_ms: int = 0

    @cached_property
    def schema(self) -> Schema:
        return tuple(map(without_time, super().schema))

    @property
    def values(self) -> tuple[exp.Expression, exp.Expression]:
        """A pair: the left and the right expression that the join compares."""
        return self.left_value, self.right_value

    @property
    def above(self) -> bool:
        """True if the nearest right value is the least one above the left value (or equal to it); False if it is the
        greatest one below.
        """
        return self.comparison in (Comparison.LESS, Comparison.LESS_OR_EQUAL)

    @property
    def strict(self) -> bool:
        """True where equal values do not match."""
        return self.comparison in (Comparison.LESS, Comparison.GREATER)

    @property
    def match_text(self) -> str:
        """The comparison of the two values as SQL."""
        return f"{sql(self.left_value)} {self.comparison.value} {sql(self.right_value)}"

    # --- properties and changes -------------------------------------------------------------------------------

    @property
    @cached_per_node
    def unique_keys(self) -> Keys:
        return self.left.unique_keys

    changelog_mode = frozenset({RowKind.INSERT, RowKind.DELETE})

    def accepted_kinds(self, port: int = 0) -> Kinds:
        return ALL_KINDS

    append_only_hint = (
        "compare the columns of a WATERMARK of both sides with >= or >, so that a row comes out when the watermark "
        "reaches it"
    )

    @property
    def uses_processing_time(self) -> bool:
        """True if the state of keys expires (``ttl_ms``), which is measured in processing time."""
        return self.ttl_ms > 0

    # --- rules ------------------------------------------------------------------------------------------------

    def pruned(self, required: FieldNames) -> Node:
        read = frozenset().union(*map(columns_of, self.values))
        return self.pruned_below(required | self.read | read | {*self.first_by})

    def watermark_fields_needed(self, needed: FieldNames) -> FieldNames:
        return frozenset()

    def passes_filter(self, read: set[str]) -> bool:
        """True if a filter above may be moved below: ``read``, the fields of its condition, are all of the left side.

        If a filter removed the nearest row of the right side, a left row would be joined with the next nearest one.
        """
        return bool(read) and read <= self.left.field_names

    def with_pushed_filters(self, conditions: Conditions, push: PushFilters) -> Node:
        assert all(columns_of(condition) <= self.left.field_names for condition in conditions)
        return replace(self, left=push(self.left, conditions))

    # --- what runs --------------------------------------------------------------------------------------------

    def fields_read(self, port: int = 0) -> FieldsRead | None:
        """None: the exchange cannot read the fields from files itself, because Spark must compute the values to
        compare.
        """
        return None

    depends_on_arrival_order = True

    # --- texts and state --------------------------------------------------------------------------------------

    def describe(self) -> str:
        first = [f"of equal ones the first by {', '.join(self.first_by)}"] if self.first_by else []
        parts = [self.kind.value, " AND ".join(self.equalities_text) or "TRUE", f"nearest {self.match_text}", *first]
        parts += [f"forgets keys after {readable(self.ttl_ms)}"] if self.ttl_ms else []
        return f"AsofJoin({'; '.join(parts)})"

    kernel_text = "that keeps the rows of both sides, and compares the nearest ones before and after each change"

    state_title = ("ASOF join", "join")

    def state_facts(self) -> Iterator[tuple[str, str]]:
        yield from self.join_facts()
        left, right = self.left.column_provenance, self.right.column_provenance
        yield "nearest", f"{traced(self.left_value, left)} {self.comparison.value} {traced(self.right_value, right)}"
        yield "of equal values", f"the first one by {', '.join(right[name] for name in self.first_by) or 'arrival'}"
        yield "forgets", "keys after a time" if self.ttl_ms else "nothing"

    def state_descriptions(self) -> Iterator[StateDescription]:
        yield StateDescription("the rows of both sides", expiry_text(self.ttl_ms, "the last row of their key came"))
