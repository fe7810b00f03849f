"""Which operators run in one call with the operator below them, without an exchange of their own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch

from sqlstream.planner.nodes import Node
from sqlstream.planner.properties import keeps_state


@dataclass(frozen=True)
class Link:
    """``fields`` are what the upper operator reads of its input, with the names that they have ``below``."""

    below: Node
    fields: tuple[tuple[str, str], ...]


def link_of(node: Node, *, rows_wait: bool) -> Link | str | None:
    """The operator in whose call the node runs, or why it has an exchange of its own; None where no operator with state
    is below. ``rows_wait``: rows of the query may wait in state."""
    if not any(below.keeps_state for child in node.inputs for below in child.walk()):
        return None
    return node.chain_link(rows_wait)
