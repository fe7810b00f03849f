"""INTERSECT and EXCEPT: rows of two inputs are counted, and come out as often as their numbers say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from sqlstream.planner.catalog import ALL_KINDS, APPEND_ONLY, RowKind
from sqlstream.planner.changes import made_by, taken_by, takes_changes
from sqlstream.planner.durations import readable
from sqlstream.planner.explain.describe import describe
from sqlstream.planner.keeping import Kept, after, kept
from sqlstream.planner.meanings import Names as Meanings
from sqlstream.planner.meanings import names_of
from sqlstream.planner.nodes import Node, Schema
from sqlstream.planner.physical.kernels import keys_of, ports_of, sees_arrival
from sqlstream.planner.physical.native import only_columnar
from sqlstream.planner.physical.state_facts import rows_fact, state_facts, title_of
from sqlstream.planner.physical.text import kernel
from sqlstream.planner.properties import (
    ArrivalOrder,
    arrival_order,
    changelog_mode,
    keeps_state,
    unique_keys,
    uses_processing_time,
)
from sqlstream.planner.rewriting import over
from sqlstream.planner.rules.prune_columns import Names, all_fields, pruned
from sqlstream.planner.rules.push_filters import Conditions, filtered, into, passes
from sqlstream.planner.rules.remove_unused_time import needed_below
from sqlstream.udfs.changes import SetKind


@dataclass(frozen=True)
class SetOperation(Node):
    """Rows of ``left`` that ``right`` has, or has not; the inputs have fields of the same names and types. NULL equals
    NULL. ``ttl_ms``: a row is forgotten so long after it came or went on either side; 0: never.
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


# --- properties -----------------------------------------------------------------------------------------------


@keeps_state.register
def _(node: SetOperation) -> bool:
    return True


@uses_processing_time.register
def _(node: SetOperation) -> bool:
    """Rows must be forgotten."""
    return node.ttl_ms > 0


@arrival_order.register
def _(node: SetOperation) -> ArrivalOrder:
    return ArrivalOrder.MIXED


@changelog_mode.register
def _(node: SetOperation) -> frozenset[RowKind]:
    """What the right side gets takes rows out of EXCEPT."""
    appends = all(changelog_mode(side) == APPEND_ONLY for side in node.inputs)
    return APPEND_ONLY if appends and node.kind.intersects else frozenset({RowKind.INSERT, RowKind.DELETE})


@takes_changes.register
def _(node: SetOperation, port: int = 0) -> frozenset[RowKind]:
    return ALL_KINDS


@unique_keys.register
def _(node: SetOperation) -> frozenset[frozenset[str]]:
    return frozenset() if node.kind.repeats else frozenset({all_fields(node)})


@made_by.register
@taken_by.register
def _(node: SetOperation) -> str:
    return node.kind.value


# --- rules ----------------------------------------------------------------------------------------------------


@over.register
def _(node: SetOperation, inputs: tuple[Node, ...]) -> Node:
    left, right = inputs
    return replace(node, left=left, right=right)


@pruned.register
def _(node: SetOperation, required: Names) -> Node:
    """Rows are compared by all their fields."""
    return replace(
        node, left=pruned(node.left, all_fields(node.left)), right=pruned(node.right, all_fields(node.right))
    )


@passes.register
def _(node: SetOperation, read: set[str]) -> bool:
    return bool(read)


@into.register
def _(node: SetOperation, conditions: Conditions) -> Node:
    right = filtered(node.right, [condition.copy() for condition in conditions])
    return replace(node, left=filtered(node.left, conditions), right=right)


@needed_below.register
def _(node: SetOperation, needed: Names) -> Names:
    return frozenset()


# --- what runs ------------------------------------------------------------------------------------------------


@ports_of.register
def _(node: SetOperation) -> int:
    return 2


@keys_of.register
def _(node: SetOperation) -> tuple[str, ...]:
    return tuple(field.name for field in node.schema)


@sees_arrival.register
def _(node: SetOperation) -> bool:
    return changelog_mode(node) != APPEND_ONLY


@only_columnar.register
def _(node: SetOperation) -> str | None:
    return node.kind.value


@kernel.register
def _(node: SetOperation) -> str:
    return "that counts the rows of both sides"


# --- texts and state ------------------------------------------------------------------------------------------


@describe.register
def _(node: SetOperation) -> str:
    ttl = f"; forgets rows after {readable(node.ttl_ms)}" if node.ttl_ms else ""
    return f"SetOperation({node.kind.value}{ttl})"


@names_of.register
def _(node: SetOperation) -> Meanings:
    return names_of(node.left)


@title_of.register
def _(node: SetOperation) -> tuple[str, str]:
    return "set operation", "the set operation"


@state_facts.register
def _(node: SetOperation) -> Iterator[tuple[str, str]]:
    yield "kind", node.kind.value
    yield "columns of the left side", rows_fact(node.left)
    yield "columns of the right side", rows_fact(node.right)
    yield "forgets", "rows after a time" if node.ttl_ms else "nothing"


@kept.register
def _(node: SetOperation) -> Iterator[Kept]:
    yield Kept("how often each row is there", after(node.ttl_ms, "it came or went"))
