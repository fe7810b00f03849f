"""What exists is set aside from garbage collection once, and again when modules have come."""

from __future__ import annotations

import gc
import sys
from types import ModuleType

import pytest

from sqlstream.udfs import garbage


@pytest.fixture(autouse=True)
def _nothing_set_aside(monkeypatch):
    monkeypatch.setattr(garbage, "_known", 0)
    yield
    gc.unfreeze()


def test_what_exists_is_set_aside_from_garbage_collection():
    kept: list[list[int]] = [[] for _ in range(1000)]
    garbage.spare_imports()
    assert gc.get_freeze_count() > len(kept)
    assert not any(item is kept for item in gc.get_objects())


def test_a_second_task_sets_aside_only_where_modules_have_come(monkeypatch):
    garbage.spare_imports()
    before = gc.get_freeze_count()
    kept: list[list[int]] = [[] for _ in range(1000)]
    garbage.spare_imports()
    assert gc.get_freeze_count() <= before
    monkeypatch.setitem(sys.modules, "a_module_that_came", ModuleType("a_module_that_came"))
    garbage.spare_imports()
    assert gc.get_freeze_count() > before + len(kept) // 2
