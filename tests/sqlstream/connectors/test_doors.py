"""A record is the same row, or the same fault, at each door (tests/doors.py has the records and the doors)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.depth import depth
from tests.doors import DOORS, compare


@pytest.mark.parametrize("form", DOORS)
def test_records_are_the_same_at_each_door(form: str, tmp_path: Path) -> None:
    result = compare(form, tmp_path, step=depth(10, 1))
    assert result.differences == []
    assert result.records > 2_000
    assert all(result.compared.values())
