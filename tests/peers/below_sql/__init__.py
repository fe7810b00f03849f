"""Cases below SQL: their steps on a part of the kernels, with one driver per mechanism. They need no Spark,
except for formats of messages.

A case's ``category`` names its mechanism up to the first ``/``; ``input`` are the steps with what is expected of each,
``config`` the parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlstream.testing.case_format import Case
from sqlstream.testing.cases import NotDriven
from tests.peers.below_sql import barriers, change_formats, lookups, merging, missing, timers, triggers

__all__ = ["NotDriven", "run_kernel_case"]

_DRIVERS: Mapping[str, Callable[[Case], None]] = {
    "async": lookups.run,
    "checkpoint": barriers.run,
    "session": merging.run,
    "timers": timers.run,
    "trigger": triggers.run,
    **dict.fromkeys(change_formats.MECHANISMS, change_formats.run),
}


def run_kernel_case(case: Case) -> None:
    """``Different`` with the first difference; ``NotDriven`` where there is no such part."""
    mechanism = case.category.partition("/")[0]
    driver = _DRIVERS.get(mechanism)
    if driver is None:
        raise missing.not_driven(mechanism)
    driver(case)
