"""Changelogs: TO_CHANGELOG and FROM_CHANGELOG, which keep no state, and the normalization of upsert changelogs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from sqlstream.planner.catalog import ALL_KINDS, APPEND_ONLY, RowKind
from sqlstream.planner.fields import Field, FieldNames, Provenance, Schema, keys_fact
from sqlstream.planner.intervals import readable
from sqlstream.planner.node import Node, Unary, cached_per_node
from sqlstream.planner.properties import Keys, Kinds, StateDescription, WindowInfo, expiry_text
from sqlstream.types import STRING

Codes = tuple[tuple[RowKind, str], ...]
"""Kinds of rows, and the code of each."""


@dataclass(frozen=True)
class ToChangelog(Unary):
    """TO_CHANGELOG: emits each change as an inserted row whose field ``op`` has the code for the kind of change. Kinds
    without a code are dropped.
    """

    op: str
    codes: Codes

    @cached_property
    def schema(self) -> Schema:
        """The input's fields and ``op``. With -U or -D rows no field is a time attribute, as their times are old."""
        appended = self.input.changelog_mode == APPEND_ONLY
        fields = (f if appended else replace(f, time=None) for f in self.input.schema)
        return (Field(self.op, STRING, False), *fields)

    # --- properties -------------------------------------------------------------------------------------------

    changelog_mode = APPEND_ONLY

    changes_row_kinds = True

    def reads_update_before(self, above: bool, port: int = 0) -> bool:
        """True if -U or -D has a code, because then a retracted row is emitted with all its fields."""
        kinds = {kind for kind, _ in self.codes}
        return bool(kinds & {RowKind.UPDATE_BEFORE, RowKind.DELETE})

    unique_keys = frozenset()

    @property
    @cached_per_node
    def window_info(self) -> WindowInfo | None:
        return self.input.window_info

    # --- rules ------------------------------------------------------------------------------------------------

    def pruned(self, required: FieldNames) -> Node:
        below = required - {self.op} or frozenset({self.input.schema[0].name})
        return replace(self, input=self.input.pruned(below))

    def describe(self) -> str:
        return f"ToChangelog({self.op}: {_codes(self.codes)})"

    compute_text = "the kinds of rows as a column"

    # --- checkpoints ------------------------------------------------------------------------------------------

    @property
    def column_provenance(self) -> Provenance:
        return {**self.input.column_provenance, self.op: f"kind of change ({_codes(self.codes)})"}


@dataclass(frozen=True)
class FromChangelog(Unary):
    """FROM_CHANGELOG: emits each row as a change, of the kind for which the code in its field ``op`` stands.

    ``skips``: rows with unknown codes are dropped instead of raising an error. ``keys`` identify the row of an update
    without -U.
    """

    op: str
    codes: Codes
    skips: bool
    keys: tuple[str, ...] = ()

    @cached_property
    def schema(self) -> Schema:
        return tuple(f for f in self.input.schema if f.name != self.op)

    @property
    @cached_per_node
    def changelog_mode(self) -> Kinds:
        return frozenset(kind for kind, _ in self.codes)

    changes_row_kinds = True

    def accepted_kinds(self, port: int = 0) -> Kinds:
        return APPEND_ONLY

    def reads_update_before(self, above: bool, port: int = 0) -> bool:
        return False

    consumer_name = "FROM_CHANGELOG"

    producer_name = "FROM_CHANGELOG"

    @property
    @cached_per_node
    def unique_keys(self) -> Keys:
        return frozenset({frozenset(self.keys)} if self.keys else ())

    @property
    def upsert_keys(self) -> Keys:
        return self.unique_keys

    def pruned(self, required: FieldNames) -> Node:
        """The node with only the ``required`` fields and its keys, or with its first field if that is none."""
        kept = required | set(self.keys) or frozenset({f.name for f in self.schema[:1]})
        return replace(self, input=self.input.pruned(kept | {self.op}))

    def describe(self) -> str:
        others = "; others skipped" if self.skips else ""
        return f"FromChangelog({self.op}: {_codes(self.codes)}{others})"

    compute_text = "the kinds of rows from a column"

    @property
    def column_provenance(self) -> Provenance:
        return {name: text for name, text in self.input.column_provenance.items() if name != self.op}


# --- texts ----------------------------------------------------------------------------------------------------


def _codes(codes: Codes) -> str:
    return ", ".join(f"{kind.value} '{code}'" for kind, code in codes)


# --- normalization: an upsert changelog becomes a full one, with the previous rows ----------------------------


@dataclass(frozen=True)
class Normalize(Unary):
    """Completes an upsert changelog with the previous rows of ``keys``: emits +I for a new key, -U and +U for a changed
    row, -D with the whole deleted row, nothing for an unchanged row.

    ``ttl_ms``: the state of a key expires this many milliseconds of processing time after its last change; 0: never.
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
        """The node with only its keys and the ``required`` fields. Changes of other columns are then not emitted."""
        return replace(self, input=self.input.pruned(required | set(self.keys)))

    def passes_filter(self, read: set[str]) -> bool:
        """True if a filter above may be moved below: ``read``, the fields of its condition, are all keys.

        A row that a filter on other fields removes would not replace the previous row of its key.
        """
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
