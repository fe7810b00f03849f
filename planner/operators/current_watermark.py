"""CURRENT_WATERMARK: each row with the watermark at its arrival."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.fields import Field, FieldNames, Provenance, Schema
from sqlstream.planner.node import Node, Unary, cached_per_node
from sqlstream.planner.properties import Keys, StateDescription, WindowInfo


@dataclass(frozen=True)
class CurrentWatermark(Unary):
    """Adds to each row the watermark of ``time`` as the field ``output``; NULL before the first watermark.

    All rows of a micro-batch get the same value: the watermark that earlier micro-batches reached.
    """

    time: str
    output: Field

    @cached_property
    def schema(self) -> Schema:
        return (*self.input.schema, self.output)

    # --- properties -------------------------------------------------------------------------------------------

    # It stores nothing, but Spark reports the watermark to operators with state only.
    keeps_state = True

    awaited_domains = frozenset({TimeDomain.EVENT, TimeDomain.INGESTION})

    @property
    @cached_per_node
    def unique_keys(self) -> Keys:
        return self.input.unique_keys

    @property
    @cached_per_node
    def window_info(self) -> WindowInfo | None:
        return self.input.window_info

    # --- changes ----------------------------------------------------------------------------------------------

    consumer_name = "CURRENT_WATERMARK"

    why_inserts_only = "a row that is taken back would come with another watermark than before"

    # --- rules ------------------------------------------------------------------------------------------------

    removed_if_unread = True

    def pruned(self, required: FieldNames) -> Node:
        if self.output.name not in required:
            return self.input.pruned(required)
        return replace(self, input=self.input.pruned((required - {self.output.name}) | {self.time}))

    def passes_filter(self, read: set[str]) -> bool:
        return self.output.name not in read

    def watermark_fields_needed(self, needed: FieldNames) -> FieldNames:
        return (needed - {self.output.name}) | {self.time}

    # --- texts ------------------------------------------------------------------------------------------------

    def describe(self) -> str:
        return f"CurrentWatermark({self.time} AS {self.output.name})"

    kernel_text = "that tells rows the watermark"

    # --- what runs --------------------------------------------------------------------------------------------

    # No keys, so that rows leave in the order of arrival.
    exchange_keys = ()

    columnar_only_clause = "CURRENT_WATERMARK"

    # --- state ------------------------------------------------------------------------------------------------

    @property
    def column_provenance(self) -> Provenance:
        below = self.input.column_provenance
        return {**below, self.output.name: f"CURRENT_WATERMARK({below[self.time]})"}

    state_title = ("watermark", "CURRENT_WATERMARK")

    def state_descriptions(self) -> Iterator[StateDescription]:
        yield from ()

    def state_facts(self) -> Iterator[tuple[str, str]]:
        """Yields no facts for a checkpoint to compare, because the operator stores nothing."""
        yield from ()
