"""Deduplicate: the first or the last row of each key, in the order of a time attribute."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlstream.planner.catalog import ALL_KINDS, APPEND_ONLY, RowKind, TimeDomain
from sqlstream.planner.fields import FieldNames, Provenance, UniqueNames, keys_fact
from sqlstream.planner.intervals import readable
from sqlstream.planner.node import Node, Unary, cached_per_node
from sqlstream.planner.nodes import Project
from sqlstream.planner.operators.over import Closing, Sorted
from sqlstream.planner.operators.top_n import ROW_NUMBER, TopN
from sqlstream.planner.properties import FieldsRead, Keys, Kinds, StateDescription, WindowInfo, expiry_text


@dataclass(frozen=True)
class Deduplicate(Unary):
    """Emits the first row, or the ``last``, of each value of ``keys`` in the order of ``time``.

    In processing time rows are in order of arrival, so the first one is final. In event time an earlier (or later) row
    replaces the previous result, however late it arrives. ``ttl_ms``: the state of a key expires this many milliseconds
    of processing time after its row arrived; 0: never.

    ``closes`` is set for SELECT DISTINCT below windows, where all fields are ``keys`` and ``time`` is an event time:
    the state of a key then expires when the watermark has closed all windows above that accept its row. A row that
    arrives after that is emitted again.
    """

    keys: tuple[str, ...]
    time: str
    domain: TimeDomain
    last: bool
    ttl_ms: int = 0
    closes: Closing | None = None

    @property
    def timed(self) -> bool:
        """True where the order of rows is that of their event times, not of their arrival."""
        return self.domain is not TimeDomain.PROCESSING

    @property
    def is_distinct(self) -> bool:
        """True for SELECT DISTINCT, which emits a row when it first arrives, over rows that have an event time."""
        return not self.timed and any(f.name == self.time and f.time is TimeDomain.EVENT for f in self.input.schema)

    # --- properties -------------------------------------------------------------------------------------------

    keeps_state = True

    @property
    def uses_processing_time(self) -> bool:
        return self.ttl_ms > 0

    @property
    def awaited_domains(self) -> frozenset[TimeDomain]:
        return frozenset({TimeDomain.EVENT}) if self.closes is not None else frozenset()

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
        """A node that emits the first row of each key once, when the watermark has passed its time so that no earlier
        row can arrive.
        """
        if self.last:
            return None
        number = UniqueNames(f.name for f in self.schema).unique("number")
        best = TopN(self.input, self.keys, (Sorted(self.time),), ROW_NUMBER, 1, 1, number).append_only_variant()
        return None if best is None else Project(best, tuple(field.as_item for field in self.schema))

    # --- rules ------------------------------------------------------------------------------------------------

    def pruned(self, required: FieldNames) -> Node:
        time = {self.time} if self.timed or self.is_distinct else set()
        return replace(self, input=self.input.pruned(required | set(self.keys) | time))

    def distinct_rows_closed(self, time: str, after_ms: int) -> Node:
        if not self.is_distinct or time not in self.keys:
            return self
        return replace(self, closes=Closing(time, after_ms), ttl_ms=0)

    def passes_filter(self, read: set[str]) -> bool:
        """True if a filter above may be moved below: ``read``, the fields of its condition, are all keys.

        A filter on other fields could remove the first or last row of a key, so that another one is emitted.
        """
        return bool(read) and read <= set(self.keys)

    def watermark_fields_needed(self, needed: FieldNames) -> FieldNames:
        return needed | ({self.closes.field} if self.closes is not None else set())

    @property
    def operator_held_back_ms(self) -> int:
        """By how many milliseconds this operator's watermark is earlier than that of the query: as much as at its
        input, and one more for times finer than milliseconds, because windows above accept such rows a millisecond
        longer.
        """
        finer = self.closes is not None and self.has_sub_millisecond_times
        return super().operator_held_back_ms + (1 if finer else 0)

    @property
    @cached_per_node
    def watermark_held_back_ms(self) -> int:
        """How many milliseconds older than the query's watermark an emitted row may be without being late: as much as
        rows of the input, because the operator emits rows at once.
        """
        return super().operator_held_back_ms

    # --- texts ------------------------------------------------------------------------------------------------

    def describe(self) -> str:
        ttl = f"; forgets keys after {readable(self.ttl_ms)}" if self.ttl_ms else ""
        keys = f"keys {', '.join(self.keys)}; " if self.keys else ""
        order = f"in order of {self.time}" if self.timed else "as they come"
        closes = "; forgets keys of closed windows" if self.closes is not None else ""
        return f"Deduplicate({keys}{'last' if self.last else 'first'} row {order}{ttl}{closes})"

    @property
    def kernel_text(self) -> str:
        return "of the keys that came" if self.changelog_mode == APPEND_ONLY else "of one row of each key"

    # --- what runs --------------------------------------------------------------------------------------------

    @property
    def exchange_keys(self) -> tuple[str, ...]:
        return self.keys

    def fields_read(self, port: int = 0) -> FieldsRead | None:
        """All fields of the input, which the exchange can read from files itself. None with ``closes``, because Spark
        must compute the time at which windows close.
        """
        if self.closes is not None:
            return None
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
        forgets = "keys of closed windows" if self.closes is not None else "nothing"
        yield "forgets", "keys after a time" if self.ttl_ms else forgets

    def state_descriptions(self) -> Iterator[StateDescription]:
        if self.closes is not None:
            yield StateDescription("each row of open windows", "the watermark passes the window")
            return
        yield StateDescription(
            "a row of each key" if self.timed or self.last else "each key", expiry_text(self.ttl_ms, "its row came")
        )
