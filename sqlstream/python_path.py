"""Python functions of scripts, golden files and case files live in modules beside these."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def importable(*folders: Path) -> Iterator[None]:
    """Modules of ``folders`` can be imported, after all others."""
    entries = dict.fromkeys(str(folder.resolve()) for folder in folders)
    added = [entry for entry in entries if entry not in sys.path]
    sys.path.extend(added)
    try:
        yield
    finally:
        for entry in added:
            sys.path.remove(entry)
