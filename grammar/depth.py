"""Room for deeply nested SQL: sqlglot takes some twenty Python frames for each level."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

_FRAMES = 8000


@contextmanager
def deep_stack() -> Iterator[None]:
    """Raises Python's recursion limit, which is the whole process's, inside the block."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _FRAMES))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
