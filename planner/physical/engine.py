"""The inputs of a physical plan beside the query: settings, checkpoints and who may read a source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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
