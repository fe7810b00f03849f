"""What is typed at the prompt: history, its search, keys, several lines, brackets, the editor of the user."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pexpect
import pytest
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.layout.processors import HighlightMatchingBracketProcessor
from prompt_toolkit.output import DummyOutput

from sqlstream.shell.line_editor import HistoryWithoutSecrets, LineEditor, line_editor

ROOT = Path(__file__).parents[3]
UP, RIGHT, ESCAPE = "\x1b[A", "\x1b[C", "\x1b"
SEARCH = "\x12"


def typed(keys: str, history: Path | None = None, *, vi_keys: bool = False) -> str:
    """What Enter hands over; the text that stands there where it hands over nothing."""
    with create_pipe_input() as source:
        editor = line_editor(history, source, DummyOutput(), vi_keys=vi_keys)
        source.send_text(f"{keys}\x03")
        try:
            return editor.prompt()
        except KeyboardInterrupt:
            return f"{editor.default_buffer.text}…"


@pytest.fixture
def history(tmp_path: Path) -> Path:
    file = tmp_path / "history"
    remembered = HistoryWithoutSecrets(str(file))
    for statement in ("SHOW VIEWS;", "SELECT 1\n, 2;", "SHOW TABLES;"):
        remembered.store_string(statement)
    return file


@pytest.mark.parametrize(
    ("keys", "found"),
    [
        (f"{SEARCH}VIE\r\r", "SHOW VIEWS;"),
        (f"{SEARCH}VIE\r", "SHOW VIEWS;…"),  # the first Enter only takes it
        (f"{SEARCH}SHOW{SEARCH}\r\r", "SHOW VIEWS;"),  # the one before
        (f"{SEARCH}, 2\r\r", "SELECT 1\n, 2;"),
        (f"{SEARCH}VIE\x07SHOW JOBS;\r", "SHOW JOBS;"),  # Ctrl-G leaves the search
    ],
)
def test_the_history_is_searched_backwards(keys, found, history):
    assert typed(keys, history) == found


def test_what_was_typed_before_is_suggested_and_taken_by_one_key(history):
    with create_pipe_input() as source:
        editor = line_editor(history, source, DummyOutput())

        def take_when_there(buffer: Buffer) -> None:
            if buffer.suggestion is not None:
                source.send_text(f"{RIGHT}\r")

        editor.default_buffer.on_suggestion_set += take_when_there
        source.send_text("SHOW V")
        assert editor.prompt() == "SHOW VIEWS;"


def prompted(editor: LineEditor, source: object, keys: str) -> str:
    source.send_text(keys)  # type: ignore[attr-defined]
    return editor.prompt()


def test_shells_that_run_at_the_same_time_share_their_history(tmp_path):
    file = tmp_path / "history"
    with create_pipe_input() as one, create_pipe_input() as other:
        first, second = line_editor(file, one, DummyOutput()), line_editor(file, other, DummyOutput())
        prompted(first, one, "SHOW VIEWS;\r")
        prompted(second, other, "SHOW TABLES;\r")
        prompted(first, one, "SELECT 1\r+ 'ü';\r")
        assert prompted(second, other, f"{UP}\r") == "SELECT 1\n+ 'ü';"
        prompted(first, one, "SET 'postgres.password' = 'hunter2';\r")
        prompted(second, other, "SHOW JOBS;\r")
        assert prompted(first, one, f"{UP}\r") == "SHOW JOBS;"
        assert "hunter2" in prompted(first, one, f"{SEARCH}hunter\r\r")  # of its own, which no file has
        assert prompted(second, other, f"{SEARCH}hunter\x07SHOW VIEWS;\r") == "SHOW VIEWS;"
    assert "hunter2" not in file.read_text()


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        (f"SHOW VIEWZ;{ESCAPE}hxiS\r", "SHOW VIEWS;"),
        (f"x{ESCAPE}ddiSHOW JOBS;\r", "SHOW JOBS;"),
        (f"{ESCAPE}kk\r", "SELECT 1\n, 2;"),
    ],
)
def test_keys_of_vi(keys, text, history):
    assert typed(keys, history, vi_keys=True) == text


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ("VIEWS;\x01SHOW \r", "SHOW VIEWS;"),  # Ctrl-A
        ("SHOW VIEWS TABLES\x17JOBS\x1bb\x0b;\r", "SHOW VIEWS ;"),  # Ctrl-W, Alt-B, Ctrl-K
        (f"SELECT 1\r, 3;{UP}\x050\x1b[B\x05\r", "SELECT 10\n, 3;"),  # up into the first line, and down again
    ],
)
def test_keys_of_emacs(keys, text, history):
    assert typed(keys, history) == text


def test_partners_of_brackets_are_shown():
    with create_pipe_input() as source:
        processors = line_editor(None, source, DummyOutput()).input_processors or []
    assert any(isinstance(each, HighlightMatchingBracketProcessor) for each in processors)


# --- in a terminal --------------------------------------------------------------------------------------------


@contextmanager
def shell(home: Path) -> Iterator[pexpect.spawn]:
    """A shell without Java: what needs none must do."""
    editor = home / "editor"
    editor.write_text('#!/bin/sh\necho "SHOW VIEWS;" > "$1"\n')
    editor.chmod(0o700)
    variables = {**os.environ, "XDG_CONFIG_HOME": str(home), "XDG_STATE_HOME": str(home), "TERM": "xterm",
                 "PYTHONPATH": str(ROOT), "PROMPT_TOOLKIT_NO_CPR": "1", "JAVA_HOME": str(home), "EDITOR": str(editor),
                 "PATH": "/usr/bin:/bin" if not Path("/usr/bin/java").exists() else str(home)}  # fmt: skip
    program = pexpect.spawn(
        sys.executable, ["-m", "sqlstream", "shell"], env=variables, cwd=home, timeout=60, encoding="utf-8",
        dimensions=(30, 100),
    )  # fmt: skip
    try:
        program.expect("sqlstream>")
        yield program
    finally:
        program.close(force=True)


def test_what_one_shell_ran_another_finds_by_ctrl_r(tmp_path):
    with shell(tmp_path) as first, shell(tmp_path) as second:
        first.send("SHOW VIEWS LIKE 'v%';\r")
        first.expect("view name")
        second.send("SHOW TABLES;\r")
        second.expect("table name")
        second.send(SEARCH)
        second.expect("I-search backward")
        second.send("LIKE\r")
        second.expect("VIEWS")
        second.send("\r")
        second.expect("view name")
        second.send("\\e\r")
        second.expect("SHOW VIEWS;")
        second.expect("view name")
        second.send("SELECT (1\r")
        second.expect(r"\(->")
        second.send("\x03SHOW 'x\r")
        second.expect("'->")
        second.send("\x03\x18\x05")  # Ctrl-X Ctrl-E: what the editor leaves is run by Enter
        second.expect("SHOW.*VIEWS")
        second.send("\r")
        second.expect("view name")
