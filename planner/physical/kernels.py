"""The columns that the exchange of an operator with state reads."""

from __future__ import annotations

from functools import singledispatch

from sqlstream.planner.nodes import Node


@singledispatch
def ports_of(node: Node) -> int:
    """The ports of an operator's kernel: its inputs, where each has an exchange of its own."""
    return 1


@singledispatch
def keys_of(node: Node) -> tuple[str, ...]:
    """The keys by which the exchange of an operator distributes rows; empty: all rows go to one key group."""
    return ()


@singledispatch
def asks_outside(node: Node) -> bool:
    """True where an operator with state asks a source outside of the plan, so that its requests are counted."""
    return False


@singledispatch
def sees_arrival(node: Node) -> bool:
    """True where the results of an operator with state show in which order rows arrived; sources then tell it."""
    return True
