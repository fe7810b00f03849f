"""Every golden file is collected, and every kind of block is in use."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlstream.testing.collected import GoldenFile
from sqlstream.testing.golden_format import KINDS, parse_golden, render_golden
from sqlstream.testing.plugin import SUFFIX, pytest_collect_file

HERE = Path(__file__).parent
FILES = sorted(HERE.rglob(f"*{SUFFIX}"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_has_tests_and_is_written_as_it_would_be_blessed(path):
    text = path.read_text(encoding="utf-8")
    blocks = parse_golden(text)
    assert any(block.expected is not None for block in blocks)
    assert render_golden(blocks) == text


def test_every_file_here_is_collected(request):
    others = (".py", ".pyc", ".sql", ".csv", ".jsonl")
    files = [path for path in HERE.rglob("*") if path.is_file() and path.suffix not in others]
    for path in files:
        actual = pytest_collect_file(path, request.session)
        assert isinstance(actual, GoldenFile), path
        assert list(actual.collect()), path


def test_every_kind_of_block_is_in_use():
    used = {block.kind for path in FILES for block in parse_golden(path.read_text(encoding="utf-8"))}
    assert used >= set(KINDS)
