"""Changes as rows, and rows as changes: TO_CHANGELOG and FROM_CHANGELOG, which keep no state."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from sqlstream.planner.catalog import APPEND_ONLY, RowKind
from sqlstream.planner.changes import (
    changes_kinds,
    made_by,
    reads_before,
    taken_by,
    takes_changes,
    upsert_keys,
)
from sqlstream.planner.explain.describe import describe
from sqlstream.planner.meanings import Names as Meanings
from sqlstream.planner.meanings import names_of
from sqlstream.planner.nodes import Field, Node, Schema, Unary
from sqlstream.planner.physical.text import computed
from sqlstream.planner.properties import WindowInfo, changelog_mode, unique_keys, window_of
from sqlstream.planner.rules.prune_columns import Names, pruned
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
        appended = changelog_mode(self.input) == APPEND_ONLY
        fields = (f if appended else replace(f, time=None) for f in self.input.schema)
        return (Field(self.op, STRING, False), *fields)


@dataclass(frozen=True)
class FromChangelog(Unary):
    """Each row as the change that the code in its field ``op`` means. ``skips``: rows with other codes are left out,
    else they are an error. ``keys`` tell of which row an update without the one before is."""

    op: str
    codes: Codes
    skips: bool
    keys: tuple[str, ...] = ()

    @cached_property
    def schema(self) -> Schema:
        return tuple(f for f in self.input.schema if f.name != self.op)


# --- properties -----------------------------------------------------------------------------------------------


@changelog_mode.register
def _(node: ToChangelog) -> frozenset[RowKind]:
    return APPEND_ONLY


@changelog_mode.register
def _(node: FromChangelog) -> frozenset[RowKind]:
    return frozenset(kind for kind, _ in node.codes)


@changes_kinds.register(ToChangelog)
@changes_kinds.register(FromChangelog)
def _(node: Unary) -> bool:
    return True


@takes_changes.register
def _(node: FromChangelog, port: int = 0) -> frozenset[RowKind]:
    return APPEND_ONLY


@reads_before.register
def _(node: ToChangelog, above: bool, port: int = 0) -> bool:
    """A deleted row is shown with all its fields."""
    kinds = {kind for kind, _ in node.codes}
    return bool(kinds & {RowKind.UPDATE_BEFORE, RowKind.DELETE})


@reads_before.register
def _(node: FromChangelog, above: bool, port: int = 0) -> bool:
    return False


@taken_by.register
def _(node: FromChangelog) -> str:
    return "FROM_CHANGELOG"


@made_by.register
def _(node: FromChangelog) -> str:
    return "FROM_CHANGELOG"


@unique_keys.register
def _(node: ToChangelog) -> frozenset[frozenset[str]]:
    return frozenset()


@unique_keys.register
@upsert_keys.register
def _(node: FromChangelog) -> frozenset[frozenset[str]]:
    return frozenset({frozenset(node.keys)} if node.keys else ())


@window_of.register
def _(node: ToChangelog) -> WindowInfo | None:
    return window_of(node.input)


# --- rules ----------------------------------------------------------------------------------------------------


@pruned.register
def _(node: ToChangelog, required: Names) -> Node:
    below = required - {node.op} or frozenset({node.input.schema[0].name})
    return replace(node, input=pruned(node.input, below))


@pruned.register
def _(node: FromChangelog, required: Names) -> Node:
    """One field stays beside the operation."""
    kept = required | set(node.keys) or frozenset({f.name for f in node.schema[:1]})
    return replace(node, input=pruned(node.input, kept | {node.op}))


# --- texts ----------------------------------------------------------------------------------------------------


def _codes(codes: Codes) -> str:
    return ", ".join(f"{kind.value} '{code}'" for kind, code in codes)


@describe.register
def _(node: ToChangelog) -> str:
    return f"ToChangelog({node.op}: {_codes(node.codes)})"


@describe.register
def _(node: FromChangelog) -> str:
    others = "; others skipped" if node.skips else ""
    return f"FromChangelog({node.op}: {_codes(node.codes)}{others})"


@computed.register
def _(node: ToChangelog) -> str:
    return "the kinds of rows as a column"


@computed.register
def _(node: FromChangelog) -> str:
    return "the kinds of rows from a column"


# --- checkpoints ----------------------------------------------------------------------------------------------


@names_of.register
def _(node: ToChangelog) -> Meanings:
    return {**names_of(node.input), node.op: f"kind of change ({_codes(node.codes)})"}


@names_of.register
def _(node: FromChangelog) -> Meanings:
    return {name: text for name, text in names_of(node.input).items() if name != node.op}
