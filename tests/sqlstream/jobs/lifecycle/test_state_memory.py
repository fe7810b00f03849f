"""``SET 'state.memory'``: in how much memory workers keep state between micro-batches."""

from __future__ import annotations

import pytest

from sqlstream.jobs.lifecycle.specification import execution_of
from sqlstream.settings import Settings
from sqlstream.spark.java import default_state_memory, memory_limit


@pytest.mark.parametrize(("given", "bytes_"), [("64 mb", 64 << 20), ("0", 0)])
def test_the_memory_of_state_is_what_the_setting_says(given, bytes_):
    settings = Settings()
    settings.set("state.memory", given)
    assert execution_of(settings, lambda: 0, named=True).state_memory == bytes_


def test_without_a_setting_it_is_a_share_of_the_memory_there_is():
    assert execution_of(Settings(), lambda: 0, named=True).state_memory == default_state_memory(memory_limit())
    assert default_state_memory(24 << 30) == 1 << 30
    assert default_state_memory(None) == 0
