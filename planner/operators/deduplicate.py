"""Deduplicate: the first or the last row of each key, in the order of a time attribute."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlstream.planner.catalog import ALL_KINDS, APPEND_ONLY, RowKind, TimeDomain
from sqlstream.planner.fields import FieldNames, Provenance, UniqueNames, keys_fact
from sqlstream.planner.intervals import readable
from sqlstream.planner.node import Node, Unary, cached_per_node
from sqlstream.planner.nodes import Project
from sqlstream.planner.operators.over import Sorted
from sqlstream.planner.operators.top_n import ROW_NUMBER, TopN
from sqlstream.planner.properties import FieldsRead, Keys, Kinds, StateDescription, WindowInfo, expiry_text


@dataclass(frozen=True)
class Deduplicate(Unary):
    """The first row, or the ``last``, of each value of ``keys`` in the order of ``time``.

    In processing time rows are in order of arrival, so the first one is final. In event time an earlier (or later) row
    replaces the previous result, however late it arrives. ``ttl_ms``: the state of a key expires this long after its
    row arrived; 0: never.
    """

    keys: tuple[str, ...]
    time: str
    domain: TimeDomain
    last: bool
    ttl_ms: int = 0

    @property
    def timed(self) -> bool:
        """True where rows are in order of a time of their own, not of arrival."""
        return self.domain is not TimeDomain.PROCESSING

    # --- properties -------------------------------------------------------------------------------------------

    keeps_state = True

    @property
    def uses_processing_time(self) -> bool:
        return self.ttl_ms > 0

    @property
    @cached_per_node
    def unique_keys(self) -> Keys:
        return self.input.unique_keys | self.upsert_keys

    @property
    @cached_per_node
    def window_info(self) -> WindowInfo | None:
        return self.input.window_info

    # --- changes ----------------------------------------------------------------------------------------------

    @property
    @cached_per_node
    def changelog_mode(self) -> Kinds:
        return ALL_KINDS - {RowKind.DELETE} if self.last or self.timed else APPEND_ONLY

    @property
    @cached_per_node
    def upsert_keys(self) -> Keys:
        return frozenset({frozenset(self.keys)}) if self.keys else frozenset()

    consumer_name = "a first or last row"

    @property
    def producer_name(self) -> str:
        return f"the {'last' if self.last else 'first'} rows of keys"

    append_only_hint = (
        "take the first row in the order of event time, or of windows, by PARTITION BY window_start, window_end"
    )

    def append_only_variant(self) -> Node | None:
        """The first row in event time is final when the watermark has passed it."""
        if self.last:
            return None
        number = UniqueNames(f.name for f in self.schema).unique("number")
        best = TopN(self.input, self.keys, (Sorted(self.time),), ROW_NUMBER, 1, 1, number).append_only_variant()
        return None if best is None else Project(best, tuple(field.as_item for field in self.schema))

    # --- rules ------------------------------------------------------------------------------------------------

    def pruned(self, required: FieldNames) -> Node:
        time = {self.time} if self.timed else set()
        return replace(self, input=self.input.pruned(required | set(self.keys) | time))

    def passes_filter(self, read: set[str]) -> bool:
        """UNSAFE but on keys: a filtered row still is the first, or the last."""
        return bool(read) and read <= set(self.keys)

    # --- texts ------------------------------------------------------------------------------------------------

    def describe(self) -> str:
        ttl = f"; forgets keys after {readable(self.ttl_ms)}" if self.ttl_ms else ""
        keys = f"keys {', '.join(self.keys)}; " if self.keys else ""
        order = f"in order of {self.time}" if self.timed else "as they come"
        return f"Deduplicate({keys}{'last' if self.last else 'first'} row {order}{ttl})"

    @property
    def kernel_text(self) -> str:
        return "of the keys that came" if self.changelog_mode == APPEND_ONLY else "of one row of each key"

    # --- what runs --------------------------------------------------------------------------------------------

    @property
    def exchange_keys(self) -> tuple[str, ...]:
        return self.keys

    def fields_read(self, port: int = 0) -> FieldsRead:
        return FieldsRead(tuple(f.name for f in self.input.schema), self.keys, self.time if self.timed else None)

    columnar_only_clause = "the first or last row of each key"

    # --- state ------------------------------------------------------------------------------------------------

    @property
    def column_provenance(self) -> Provenance:
        return self.input.column_provenance

    state_title = ("deduplication", "the deduplication")

    def state_facts(self) -> Iterator[tuple[str, str]]:
        names = self.input.column_provenance
        yield "keys", keys_fact(self.input.schema, self.keys, names)
        yield "row", "last" if self.last else "first"
        yield "order", names[self.time] if self.timed else "as rows come"
        if self.changelog_mode != APPEND_ONLY:
            yield "columns", self.input.rows_fact
        yield "forgets", "keys after a time" if self.ttl_ms else "nothing"

    def state_descriptions(self) -> Iterator[StateDescription]:
        yield StateDescription(
            "a row of each key" if self.timed or self.last else "each key", expiry_text(self.ttl_ms, "its row came")
        )
