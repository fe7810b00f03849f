"""Settings from files."""

from __future__ import annotations

import click
import pytest

from sqlstream.cli.options import settings_of


def test_a_file_of_settings_has_lines_of_keys_and_values() -> None:
    text = """# of a test
parallelism.default: 4
execution.checkpointing.interval = 10 s
SET 'table.local-time-zone' = 'Europe/Berlin';
set execution.runtime-mode=streaming;
-- the end
"""
    assert settings_of(text) == {
        "parallelism.default": "4",
        "execution.checkpointing.interval": "10 s",
        "table.local-time-zone": "Europe/Berlin",
        "execution.runtime-mode": "streaming",
    }


def test_another_line_is_refused() -> None:
    with pytest.raises(click.UsageError, match="line 2"):
        settings_of("a: b\nSELECT 1")
