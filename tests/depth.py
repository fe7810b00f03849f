"""How deep tests go: ``make test`` shows of every feature that it works, ``make test-all`` repeats that at length.

Where a test takes cases, random examples or changed texts from a large number of them, it asks here for how many. The
marker ``long`` is for tests that repeat on more kinds of jobs, or through more processes, what a shorter one shows, and
for most of those that keep Spark busy for ten seconds.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

ALL = bool(os.environ.get("SQLSTREAM_ALL_TESTS"))


def depth(usual: int, at_length: int) -> int:
    """How many examples a test takes."""
    return at_length if ALL else usual


def usually(values: Iterable[Any], *usual: Any) -> Sequence[Any]:
    """The values as parameters of a test, which takes the ``usual`` ones always, and the others only at length; tuples
    where it has several parameters.
    """
    return [
        value
        if value in usual
        else pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.long)
        for value in values
    ]
