"""Standard error of this process while Spark starts."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path


def keep_stderr() -> None:
    """Makes this process's own messages go to the present standard error, because starting Spark redirects file
    descriptor 2 to Spark's log.
    """
    with contextlib.suppress(OSError):  # a captured stderr has no descriptor
        if sys.stderr.fileno() == 2:
            sys.stderr = os.fdopen(os.dup(2), "w", buffering=1, encoding=sys.stderr.encoding)


@contextlib.contextmanager
def messages_to(log: Path) -> Iterator[None]:
    """A context manager: in its block file descriptor 2 (standard error) writes to the file ``log``. A JVM that is
    started there continues to write to it afterwards.

    OSError where this process has no standard error.
    """
    sys.stderr.flush()
    before = os.dup(2)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(before, 2)
        os.close(before)
