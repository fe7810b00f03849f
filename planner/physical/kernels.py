"""What the exchange of an operator with state looks at of its rows."""

from __future__ import annotations

from functools import singledispatch

from sqlstream.planner.nodes import Node


@singledispatch
def ports_of(node: Node) -> int:
    """The ports of an operator's kernel: its inputs, where each has an exchange of its own."""
    return 1


@singledispatch
def keys_of(node: Node) -> tuple[str, ...]:
    """What the exchange of an operator with state parts rows by; none: all rows go to one key group."""
    return ()


@singledispatch
def sees_arrival(node: Node) -> bool:
    """True where the results of an operator with state show in which order rows arrived; sources then tell it."""
    return True
