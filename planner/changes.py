"""Changes of rows: which kinds of rows operators accept, by which key their results change, and where -U is needed.

``Node.changelog_mode`` says which kinds a node emits. The binder refuses inputs whose kinds an operator does not
accept, the physical plan drops -U where no operator above needs it, EXPLAIN CHANGELOG_MODE shows both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

from sqlstream.planner.catalog import APPEND_ONLY, RowKind, Table
from sqlstream.planner.expressions import columns_of
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Insert, Scan
from sqlstream.planner.properties import Kinds, changelog_text

NodeT = TypeVar("NodeT", bound=Node)


def rejected_kinds(node: Node) -> Iterator[tuple[int, Kinds]]:
    """Yields, for each input that emits row kinds which the node does not accept, a pair: the input's index and these
    kinds.
    """
    for port, below in enumerate(node.inputs):
        kinds = below.changelog_mode - node.accepted_kinds(port)
        if kinds:
            yield port, kinds


def producer_of(node: Node, kinds: Kinds) -> Node:
    """The operator or table, at or below ``node``, that first emits rows of one of these kinds."""
    for below in node.inputs:
        if below.changelog_mode & kinds:
            return producer_of(below, kinds)
    return node


def with_final_rows(node: NodeT) -> NodeT:
    """Replaces inputs that update their results by inputs that emit each row once, when it is final. Only done if the
    node works better so (``prefers_inserts``) and such inputs exist; otherwise the node is unchanged.
    """
    inputs = list(node.inputs)
    changing = (port for port, below in enumerate(inputs) if below.changelog_mode != APPEND_ONLY)
    for port in changing if node.prefers_inserts else [port for port, _ in rejected_kinds(node)]:
        final = inputs[port].append_only_variant()
        if final is not None and final.changelog_mode <= node.accepted_kinds(port):
            inputs[port] = final
    final_node = node.with_inputs(tuple(inputs))
    assert isinstance(final_node, type(node))
    return final_node


def drops_update_before(node: Node, above: bool) -> bool:
    """True if -U rows are dropped directly after the node that emits them, because no operator above needs them.
    ``above``: an operator above needs -U.
    """
    if above or RowKind.UPDATE_BEFORE not in node.changelog_mode:
        return False
    if isinstance(node, Scan):
        return node.is_in_upsert_key(set().union(*map(columns_of, node.predicates)))
    return node.keeps_state


@dataclass(frozen=True)
class Changes:
    """The changelog of a node for EXPLAIN: the ``kinds`` of rows that it emits, and the same of the nodes below it.
    ``drops``: its -U rows are dropped directly after it.
    """

    node: Node
    kinds: Kinds
    drops: bool
    inputs: tuple[Changes, ...] = ()

    def walk(self) -> Iterator[Changes]:
        """This node's changes and those of all nodes below, in the order of ``Node.walk``."""
        waiting = [self]
        while waiting:
            changes = waiting.pop()
            yield changes
            waiting.extend(reversed(changes.inputs))

    @property
    def text(self) -> str:
        """The changelog in words: ``append``, ``upsert by k: I,UA,D``, ``retract: I,UB,UA,D``."""
        if self.kinds == APPEND_ONLY:
            return "append"
        kinds = changelog_text(self.kinds)
        if RowKind.UPDATE_BEFORE in self.kinds or RowKind.UPDATE_AFTER not in self.kinds:
            return f"retract: {kinds}"
        keys = sorted(self.node.upsert_keys, key=lambda key: (len(key), sorted(key)))
        keys_text = f" by {', '.join(sorted(keys[0]))}" if keys else ""
        return f"upsert{keys_text}: {kinds}"


def changes_of(node: Node, above: bool = False) -> Changes:
    """Returns the ``Changes`` of a plan's nodes, as the physical plan executes them. ``above``: the reader of the
    plan's result needs -U rows.
    """
    inputs = tuple(changes_of(below, node.reads_update_before(above, port)) for port, below in enumerate(node.inputs))
    drops = drops_update_before(node, above)
    own = not inputs or node.keeps_state or node.changes_row_kinds
    kinds = node.changelog_mode if own else frozenset().union(*(below.kinds for below in inputs))
    return Changes(node, kinds - {RowKind.UPDATE_BEFORE} if drops else kinds, drops, inputs)


def changelog_texts(changes: Changes) -> Iterator[str]:
    """Yields what a node does with the kinds of rows, for EXPLAIN: ``-U dropped``, ``sink upserts by k``."""
    if changes.drops:
        yield "-U dropped"
    node = changes.node
    if isinstance(node, Insert) and changes.kinds != APPEND_ONLY:
        by_key = RowKind.UPDATE_BEFORE not in node.takes
        key = ", ".join(node.table.primary_key)
        yield f"sink upserts by {key}" if by_key and key else f"sink takes {changelog_text(node.takes)}"


# --- tables ---------------------------------------------------------------------------------------------------


def is_upsert(table: Table) -> bool:
    """True where the changelog of a table, by its options, lacks -U, so that the PRIMARY KEY identifies
    updated rows.
    """
    return RowKind.UPDATE_AFTER in table.changelog and RowKind.UPDATE_BEFORE not in table.changelog
