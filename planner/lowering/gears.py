"""Which operators a plan runs on: kernels over columns, or Spark's own."""

from __future__ import annotations

from enum import Enum

from sqlstream.planner.nodes import Node


class Gear(Enum):
    COLUMNAR = "columnar"
    NATIVE = "native"


def gear_of(plan: Node, setting: str) -> Gear:
    """The gear for a setting of ``auto``, ``columnar`` or ``native``."""
    return Gear.COLUMNAR if setting == "columnar" else Gear.NATIVE
