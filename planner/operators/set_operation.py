"""INTERSECT and EXCEPT: the rows of both inputs are counted, and a row is emitted as often as its counts require."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from sqlstream.planner.catalog import ALL_KINDS, APPEND_ONLY, RowKind
from sqlstream.planner.fields import FieldNames, Provenance, Schema
from sqlstream.planner.intervals import readable
from sqlstream.planner.node import Conditions, Node, PushFilters, cached_per_node
from sqlstream.planner.properties import ArrivalOrder, Keys, Kinds, StateDescription, expiry_text
from sqlstream.udfs.changes import SetKind


@dataclass(frozen=True)
class SetOperation(Node):
    """INTERSECT or EXCEPT of ``left`` and ``right``, whose fields have the same names and types. NULL equals NULL.
    ``ttl_ms``: the state of a row expires this many milliseconds of processing time after it was inserted or retracted
    on either side; 0: never.
    """

    left: Node
    right: Node
    kind: SetKind
    ttl_ms: int = 0

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.left, self.right

    @cached_property
    def schema(self) -> Schema:
        return tuple(replace(field, time=None) for field in self.left.schema)

    # --- properties -------------------------------------------------------------------------------------------

    keeps_state = True

    @property
    def uses_processing_time(self) -> bool:
        """True if stored rows expire (``ttl_ms``), which is measured in processing time."""
        return self.ttl_ms > 0

    arrival_order = ArrivalOrder.MIXED

    @property
    @cached_per_node
    def changelog_mode(self) -> Kinds:
        """Inserts only for INTERSECT of inserts; else deletes too, as rows of the right side retract results
        of EXCEPT.
        """
        appends = all(side.changelog_mode == APPEND_ONLY for side in self.inputs)
        return APPEND_ONLY if appends and self.kind.intersects else frozenset({RowKind.INSERT, RowKind.DELETE})

    def accepted_kinds(self, port: int = 0) -> Kinds:
        return ALL_KINDS

    @property
    @cached_per_node
    def unique_keys(self) -> Keys:
        return frozenset() if self.kind.repeats else frozenset({self.field_names})

    @property
    def producer_name(self) -> str:
        return self.kind.value

    @property
    def consumer_name(self) -> str:
        return self.producer_name

    # --- rules ------------------------------------------------------------------------------------------------

    def replace_inputs(self, inputs: tuple[Node, ...]) -> Node:
        left, right = inputs
        return replace(self, left=left, right=right)

    def pruned(self, required: FieldNames) -> Node:
        """The node with all its fields, because it compares whole rows."""
        return replace(
            self, left=self.left.pruned(self.left.field_names), right=self.right.pruned(self.right.field_names)
        )

    def passes_filter(self, read: set[str]) -> bool:
        return bool(read)

    def with_pushed_filters(self, conditions: Conditions, push: PushFilters) -> Node:
        right = push(self.right, [condition.copy() for condition in conditions])
        return replace(self, left=push(self.left, conditions), right=right)

    def watermark_fields_needed(self, needed: FieldNames) -> FieldNames:
        return frozenset()

    # --- what runs --------------------------------------------------------------------------------------------

    port_count = 2

    @property
    def exchange_keys(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.schema)

    @property
    def depends_on_arrival_order(self) -> bool:
        return self.changelog_mode != APPEND_ONLY

    @property
    def columnar_only_clause(self) -> str | None:
        return self.kind.value

    kernel_text = "that counts the rows of both sides"

    # --- texts and state --------------------------------------------------------------------------------------

    def describe(self) -> str:
        ttl = f"; forgets rows after {readable(self.ttl_ms)}" if self.ttl_ms else ""
        return f"SetOperation({self.kind.value}{ttl})"

    @property
    def column_provenance(self) -> Provenance:
        return self.left.column_provenance

    state_title = ("set operation", "the set operation")

    def state_facts(self) -> Iterator[tuple[str, str]]:
        yield "kind", self.kind.value
        yield "columns of the left side", self.left.rows_fact
        yield "columns of the right side", self.right.rows_fact
        yield "forgets", "rows after a time" if self.ttl_ms else "nothing"

    def state_descriptions(self) -> Iterator[StateDescription]:
        yield StateDescription("how often each row is there", expiry_text(self.ttl_ms, "it came or went"))
