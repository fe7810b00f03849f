"""Normalize: changes that say which row is now there for a key become changes that say which row was there as well."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlstream.planner.catalog import ALL_KINDS
from sqlstream.planner.durations import readable
from sqlstream.planner.fields import FieldNames, Provenance, keys_fact
from sqlstream.planner.node import Node, Unary, cached_per_node
from sqlstream.planner.properties import Keys, Kinds, StateDescription, WindowInfo, expiry_text


@dataclass(frozen=True)
class Normalize(Unary):
    """The table that changes by ``keys`` amount to, as changes with the whole row of before: +I for a key that had no
    row, -U and +U where another row takes its place, -D where it goes, nothing where the same row comes again.

    ``ttl_ms``: a key is forgotten so long after its last change; 0: never.
    """

    keys: tuple[str, ...]
    ttl_ms: int = 0

    # --- properties -------------------------------------------------------------------------------------------

    keeps_state = True

    @property
    def uses_processing_time(self) -> bool:
        return self.ttl_ms > 0

    changelog_mode = ALL_KINDS

    def accepted_kinds(self, port: int = 0) -> Kinds:
        return ALL_KINDS

    def reads_update_before(self, above: bool, port: int = 0) -> bool:
        return False

    def without_update_before(self) -> Node:
        return self.input

    @property
    def producer_name(self) -> str:
        return self.input.producer_name

    @property
    @cached_per_node
    def unique_keys(self) -> Keys:
        return frozenset({frozenset(self.keys)})

    @property
    @cached_per_node
    def window_info(self) -> WindowInfo | None:
        return self.input.window_info

    # --- rules ------------------------------------------------------------------------------------------------

    def pruned(self, required: FieldNames) -> Normalize:
        """A change of columns that nobody reads is no change."""
        return replace(self, input=self.input.pruned(required | set(self.keys)))

    def passes_filter(self, read: set[str]) -> bool:
        """UNSAFE but on keys: a row that is filtered does not take the place of the one before."""
        return bool(read) and read <= set(self.keys)

    # --- texts ------------------------------------------------------------------------------------------------

    def describe(self) -> str:
        ttl = f"; forgets keys after {readable(self.ttl_ms)}" if self.ttl_ms else ""
        return f"Normalize(keys {', '.join(self.keys)}{ttl})"

    # --- what runs --------------------------------------------------------------------------------------------

    @property
    def exchange_keys(self) -> tuple[str, ...]:
        return self.keys

    columnar_only_clause = "a table with updates by key"

    kernel_text = "of the last row of each key"

    # --- state ------------------------------------------------------------------------------------------------

    @property
    def column_provenance(self) -> Provenance:
        return self.input.column_provenance

    state_title = ("normalization of changes", "the normalization of changes")

    def state_facts(self) -> Iterator[tuple[str, str]]:
        yield "keys", keys_fact(self.input.schema, self.keys, self.input.column_provenance)
        yield "columns", self.input.rows_fact
        yield "forgets", "keys after a time" if self.ttl_ms else "nothing"

    def state_descriptions(self) -> Iterator[StateDescription]:
        yield StateDescription("the last row of each key", expiry_text(self.ttl_ms, "its last change"))
