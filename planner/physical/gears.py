"""Which operators a plan runs on: kernels over columns, or Spark's own."""

from __future__ import annotations

from enum import Enum
from functools import singledispatch

from sqlstream.planner.nodes import Node
from sqlstream.planner.properties import keeps_state


class Gear(Enum):
    COLUMNAR = "columnar"
    NATIVE = "native"


def gear_of(plan: Node, setting: str) -> Gear:
    """The gear for a setting of ``auto``, ``columnar`` or ``native``.

    ``auto`` runs plans without state on Spark's own operators, which is the same on both gears, and others on kernels.
    """
    if setting == "auto":
        return Gear.COLUMNAR if any(n.keeps_state or n.needs_columnar for n in plan.walk()) else Gear.NATIVE
    return Gear(setting)
