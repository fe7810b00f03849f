"""Which operators a plan runs on: kernels over columns, or Spark's own."""

from __future__ import annotations

from enum import Enum

from sqlstream.planner.nodes import (
    AlignBarriers,
    AlignedWindow,
    AssignWindows,
    Lookup,
    Node,
    ProcessTable,
    WindowAggregate,
)


class Gear(Enum):
    COLUMNAR = "columnar"
    NATIVE = "native"


def gear_of(plan: Node, setting: str) -> Gear:
    """The gear for a setting of ``auto``, ``columnar`` or ``native``.

    ``auto`` runs plans without state on Spark's own operators, which is the same on both gears, and others on kernels.
    """
    if setting == "auto":
        return Gear.COLUMNAR if any(keeps_state(n) or _in_zone(n) for n in plan.walk()) else Gear.NATIVE
    return Gear(setting)


def keeps_state(node: Node) -> bool:
    """True for windows that fire, barriers, lookups that defer and process functions by key; the rows of a window
    table function on aligned windows come out at once."""
    match node:
        case WindowAggregate() | AlignBarriers():
            return True
        case AssignWindows(window=window):
            return not isinstance(window, AlignedWindow)
        case Lookup(options=options):
            return options.defers
        case ProcessTable(keys=keys):
            return bool(keys)
    return False


def _in_zone(node: Node) -> bool:
    return isinstance(node, AssignWindows) and getattr(node.window, "zone", None) is not None
