"""Standard error of this process while Spark starts in it."""

from __future__ import annotations

import contextlib
import os
import sys


def keep_stderr() -> None:
    """Starting Spark takes descriptor 2 for its log; this process's own messages go on to where it led before."""
    with contextlib.suppress(OSError):  # a captured stderr has no descriptor
        if sys.stderr.fileno() == 2:
            sys.stderr = os.fdopen(os.dup(2), "w", buffering=1, encoding=sys.stderr.encoding)
