"""What the pytest plugin collects: the tests of golden files, and those of SQL files."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import pytest

from sqlstream.errors import SqlStreamError
from sqlstream.paths import importable
from sqlstream.testing.golden import cause_of, run_block
from sqlstream.testing.golden_format import Block, parse_golden, render_golden, restart_points
from sqlstream.testing.golden_stream import Outcome, failure_text
from sqlstream.testing.spark import LocalSession
from sqlstream.testing.unit_tests import bless_test_of_file, names_of, run_test_of_file

_EVERY = {"all": 1, "third": 3, "fifth": 5, "tenth": 10}


class GoldenMismatch(Exception):
    """Raised where the output differs from the golden file; the message is the difference."""


class GoldenFile(pytest.File):
    """A golden file as pytest collects it. Its tests are named ``<line>-<kind>``."""

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks of the golden file in order, read from disk: a block is a statement or query with its expected
        output.
        """
        return parse_golden(self.path.read_text(encoding="utf-8"))

    def collect(self) -> Iterator[pytest.Item]:
        """A test for each block that has expected output, and one more with restarts for each stream block."""
        restarted = self._restarted()
        for index, block in enumerate(self.blocks):
            if block.expected is None:
                continue
            yield GoldenItem.from_parent(self, name=f"{block.line}-{block.kind}", index=index, restart=False)
            if index in restarted:
                yield GoldenItem.from_parent(self, name=f"{block.line}-stream-restart", index=index, restart=True)

    def _restarted(self) -> list[int]:
        """The blocks that also run with restarts."""
        if self.config.getoption("--bless"):
            return []
        streams = [i for i, block in enumerate(self.blocks) if block.kind == "stream" and restart_points(block)]
        return streams[:: _EVERY[self.config.getoption("--restarts")]]

    def bless(self, index: int, lines: tuple[str, ...]) -> None:
        """Replace the expected lines of one block in the file."""
        blocks = list(self.blocks)
        blocks[index] = blocks[index].with_expected(lines)
        self.blocks = tuple(blocks)
        self.path.write_text(render_golden(self.blocks), encoding="utf-8")


class GoldenItem(pytest.Item):
    """A pytest item that tests one block of a golden file."""

    def __init__(self, *, index: int, restart: bool, **arguments: Any) -> None:
        super().__init__(**arguments)
        assert isinstance(self.parent, GoldenFile)
        self.file, self.index, self.restart = self.parent, index, restart
        self.streaming = bool(self.config.getoption("--streaming"))
        if self.block.kind == "stream":
            self.add_marker(pytest.mark.spark)

    @property
    def block(self) -> Block:
        """The block of the golden file that this item tests."""
        return self.file.blocks[self.index]

    def runtest(self) -> None:
        """Runs the block. GoldenMismatch if its output differs; with ``--bless`` the file is rewritten instead."""
        with importable(self.path.parent):
            outcome = run_block(
                self.file.blocks,
                self.index,
                restart=self.restart,
                folder=self.path.parent,
                streaming=self.streaming,
            )
        if outcome.matches:
            return
        if not self.config.getoption("--bless"):
            raise GoldenMismatch(self._difference(outcome))
        for saved in outcome.saved:
            saved.write()
        self.file.bless(self.index, outcome.lines)

    def _difference(self, outcome: Outcome) -> str:

        cause = None if self.restart else cause_of(self.file.blocks, self.index, outcome, self.path.parent)
        return failure_text(outcome, cause)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The difference as text; a traceback for unexpected errors."""
        if not excinfo.errisinstance((GoldenMismatch, SqlStreamError)):
            return super().repr_failure(excinfo)
        how = f", restarted before {self._restarts()}" if self.restart else ""
        return (
            f"{self.block.title}{how}\n\n{self.block.sql}\n\n{excinfo.value}\n\nRun pytest --bless and read the diff."
        )

    def _restarts(self) -> str:

        return " and ".join(f"input {number + 1}" for number in restart_points(self.block))

    def reportinfo(self) -> tuple[Any, int, str]:
        """File, line and name of the test."""
        return self.path, self.block.line - 1, f"golden: {self.name}"


class UnitTestFile(pytest.File):
    """A SQL file with unit tests, collected by pytest; its tests are named ``<line>-<name>``."""

    def collect(self) -> Iterator[pytest.Item]:
        """A test for each EXECUTE UNIT TEST."""
        for index, line, name in names_of(self.path):
            yield UnitTestItem.from_parent(self, name=f"{line}-{name}", index=index, line=line)


class UnitTestItem(pytest.Item):
    """A pytest item that runs one EXECUTE UNIT TEST of a SQL file."""

    def __init__(self, *, index: int, line: int, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.index, self.line = index, line
        self.add_marker(pytest.mark.spark)

    def runtest(self) -> None:
        """Runs the unit test. GoldenMismatch if its view has other rows than expected; with ``--bless`` the file is
        rewritten instead.
        """
        with importable(self.path.parent), LocalSession() as session:
            outcome = run_test_of_file(self.path, self.index, session, streaming=self.config.getoption("--streaming"))
        if outcome.difference is None:
            return
        if not self.config.getoption("--bless"):
            raise GoldenMismatch(outcome.difference)
        bless_test_of_file(self.path, self.index, outcome)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The difference as text; a traceback for unexpected errors."""
        if not excinfo.errisinstance((GoldenMismatch, SqlStreamError)):
            return super().repr_failure(excinfo)
        return str(excinfo.value)

    def reportinfo(self) -> tuple[Any, int, str]:
        """File, line and name of the test."""
        return self.path, self.line - 1, f"unit test: {self.name}"
