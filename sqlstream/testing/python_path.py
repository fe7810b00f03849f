"""Python functions of golden files and case files live in modules beside these."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Modules of ``folder`` can be imported, after all others."""
    entry = str(folder.resolve())
    if entry in sys.path:
        yield
        return
    sys.path.append(entry)
    try:
        yield
    finally:
        sys.path.remove(entry)
