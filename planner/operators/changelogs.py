"""Changes as rows, and rows as changes: TO_CHANGELOG and FROM_CHANGELOG, which keep no state."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from sqlstream.planner.catalog import APPEND_ONLY, RowKind
from sqlstream.planner.fields import Field, FieldNames, Provenance, Schema
from sqlstream.planner.node import Node, Unary, cached_per_node
from sqlstream.planner.properties import Keys, Kinds, WindowInfo
from sqlstream.types import STRING

Codes = tuple[tuple[RowKind, str], ...]
"""Kinds of rows, and the code of each."""


@dataclass(frozen=True)
class ToChangelog(Unary):
    """Each change as an inserted row, with the code of its kind in the field ``op``; kinds without a code are left
    out."""

    op: str
    codes: Codes

    @cached_property
    def schema(self) -> Schema:
        """Rows of before bring old times, so no field is a time attribute where there are some."""
        appended = self.input.changelog_mode == APPEND_ONLY
        fields = (f if appended else replace(f, time=None) for f in self.input.schema)
        return (Field(self.op, STRING, False), *fields)

    # --- properties -------------------------------------------------------------------------------------------

    changelog_mode = APPEND_ONLY

    changes_row_kinds = True

    def reads_update_before(self, above: bool, port: int = 0) -> bool:
        """A deleted row is shown with all its fields."""
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
    """Each row as the change that the code in its field ``op`` means. ``skips``: rows with other codes are left out,
    else they are an error. ``keys`` identify the row that an update without -U is about."""

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
        """At least one field remains next to the operation."""
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
