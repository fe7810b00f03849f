"""The tests of Ibis that fail with our backend, and why: read from docs/ibis.md, which has one line for each."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/ibis.md"
_LINE = re.compile(r"^\| `(test_\w+\.py::[^`]+)` \| (.+) \|$", re.MULTILINE)
_COUNTS = re.compile(r"`(\d+) passed, (\d+) xfailed`")

EXPECTED_BY_IBIS = frozenset({"test_window.py::test_window_invalid_start_end[int_range]"})
"""The tests that Ibis expects Flink to fail and that fail here, too. The others of this kind must pass."""


def argued(page: str) -> dict[str, str]:
    """The reason by the name of the test, as the page has them."""
    return dict(_LINE.findall(page))


def counts(page: str) -> tuple[int, int]:
    """How many tests pass and how many fail as expected, as the page says."""
    ((passed, failed),) = _COUNTS.findall(page)
    return int(passed), int(failed)
