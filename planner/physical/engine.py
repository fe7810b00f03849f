"""The inputs of a physical plan beside the query: settings, checkpoints and who may read a source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Scan

AUTO = "auto"


def never(scan: Scan) -> bool:
    """Spark reads the files of all scans."""
    return False


@dataclass(frozen=True)
class Engine:
    """``gear``: ``auto``, ``columnar`` or ``native``. ``chains``: operators on the same keys may run in one call.

    ``reads_files`` is asked about scans of Parquet files: True where the exchange of an operator may read them itself.
    """

    gear: str = AUTO
    chains: bool = True
    reads_files: Callable[[Scan], bool] = never


class Gear(Enum):
    """Which operators a plan runs on: kernels over columns, or Spark's own."""

    COLUMNAR = "columnar"
    NATIVE = "native"


def gear_of(plan: Node, setting: str) -> Gear:
    """The gear for a setting of ``auto``, ``columnar`` or ``native``.

    ``auto`` runs plans without state on Spark's own operators, which is the same on both gears, and others on kernels.
    """
    if setting == AUTO:
        return Gear.COLUMNAR if any(n.keeps_state or n.needs_columnar for n in plan.walk()) else Gear.NATIVE
    return Gear(setting)
