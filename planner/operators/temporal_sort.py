"""Temporal sort: rows in order of event time, as far as the watermark has come."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlstream.planner.catalog import ALL_KINDS, APPEND_ONLY, TimeDomain
from sqlstream.planner.fields import FieldNames, Provenance, keys_fact
from sqlstream.planner.node import Node, Unary, cached_per_node
from sqlstream.planner.operators.over import Sorted, sorted_text
from sqlstream.planner.properties import Keys, Kinds, StateDescription, WindowInfo


@dataclass(frozen=True)
class TemporalSort(Unary):
    """Emits the rows in the order of ``time``, then of ``ties``, then of arrival.

    A row is emitted when the watermark has passed its time; rows older than the watermark are late, and dropped. The
    order holds among rows with equal ``keys``, which all changes of one row share; without keys all rows are in one key
    group.
    """

    time: str
    ties: tuple[Sorted, ...] = ()
    keys: tuple[str, ...] = ()

    # --- properties -------------------------------------------------------------------------------------------

    keeps_state = True

    is_batch_invariant = True

    awaited_domains = frozenset({TimeDomain.EVENT})

    @property
    @cached_per_node
    def unique_keys(self) -> Keys:
        return self.input.unique_keys

    @property
    @cached_per_node
    def window_info(self) -> WindowInfo | None:
        return self.input.window_info

    # Rows are emitted when no change of them is expected any more.
    changelog_mode = APPEND_ONLY

    def accepted_kinds(self, port: int = 0) -> Kinds:
        return ALL_KINDS

    prefers_inserts = True

    # --- rules ------------------------------------------------------------------------------------------------

    def pruned(self, required: FieldNames) -> Node:
        return replace(
            self, input=self.input.pruned(required | {self.time, *self.keys, *(tie.name for tie in self.ties)})
        )

    def passes_filter(self, read: set[str]) -> bool:
        return True

    def watermark_fields_needed(self, needed: FieldNames) -> FieldNames:
        return needed | {self.time}

    # --- texts ------------------------------------------------------------------------------------------------

    def describe(self) -> str:
        keys = f"keys {', '.join(self.keys)}; " if self.keys else ""
        return f"TemporalSort({keys}{', '.join([self.time, *map(sorted_text, self.ties)])})"

    kernel_text = "of rows that wait for the watermark"

    # --- what runs --------------------------------------------------------------------------------------------

    @property
    def exchange_keys(self) -> tuple[str, ...]:
        return self.keys

    columnar_only_clause = "ORDER BY"

    # --- state ------------------------------------------------------------------------------------------------

    @property
    def column_provenance(self) -> Provenance:
        return self.input.column_provenance

    state_title = ("sort", "the sort")

    def state_facts(self) -> Iterator[tuple[str, str]]:
        names = self.input.column_provenance
        yield "time", names[self.time]
        yield (
            "order of rows of one time",
            ", ".join(sorted_text(replace(t, name=names[t.name])) for t in self.ties) or "as they come",
        )
        yield "columns", self.input.rows_fact
        if self.keys:
            yield "keys", keys_fact(self.input.schema, self.keys, names)
        if self.input.changelog_mode != APPEND_ONLY:
            yield "rows", "come and go"

    def state_descriptions(self) -> Iterator[StateDescription]:
        yield StateDescription("rows that wait for their turn", "the watermark passes them")
