"""Exempts loaded modules from Python's garbage collector in Spark's worker processes.

A PySpark worker collects garbage after each task. Traversing the objects of all loaded modules takes 60 ms of processor
time, and a micro-batch has three tasks or more: that is longer than all else that they do with a few rows.
"""

from __future__ import annotations

import gc
import sys

_known = 0
"""How many modules there were when what exists was last set aside."""


def spare_imports() -> None:
    """Set aside from garbage collection what exists, if modules have come since the last call: at the start of a task.

    Reference counts still free what is set aside; only cycles that are garbage at this very moment stay.
    """
    global _known
    if len(sys.modules) > _known:
        _known = len(sys.modules)
        gc.freeze()
