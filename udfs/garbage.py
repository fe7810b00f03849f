"""Exempts loaded modules from Python's garbage collector in Spark's worker processes.

A PySpark worker collects garbage after each task. Traversing the objects of all loaded modules takes 60 ms of processor
time, and a micro-batch has three tasks or more: that is longer than all else that they do with a few rows.
"""

from __future__ import annotations

import gc
import sys

_known = 0
"""The number of loaded modules when objects were last excluded."""


def spare_imports() -> None:
    """Excludes all existing objects from garbage collection (``gc.freeze``) if modules were loaded since the last call.
    Called at the start of a task, because scanning imported modules again and again is slow.

    Reference counting still frees these objects. Only reference cycles that are already garbage are never freed.
    """
    global _known
    if len(sys.modules) > _known:
        _known = len(sys.modules)
        gc.freeze()
