"""The shell's own commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlstream.errors import ParseError, Span
from sqlstream.shell.commands import SHORT, Command, command_at, help_text, meaning


@pytest.mark.parametrize(
    ("text", "command", "rest"),
    [
        ("help", Command("help", "", 4), ""),
        ("QUIT ;\n", Command("quit", "", 6), "\n"),
        ("exit\r\n", Command("quit", "", 6), ""),
        ("source a b.sql", Command("source", "a b.sql", 14), ""),
        ("source 'x.sql';", Command("source", "x.sql", 15), ""),
        ("quit; SELECT 1;", Command("quit", "", 5), " SELECT 1;"),
        ("\\?\nSELECT 1;", Command("\\?", "", 3), "SELECT 1;"),
        ("\\? ; SELECT 1;", Command("\\?", "", 4), " SELECT 1;"),
        ("\\d bids; SELECT 1;", Command("\\d", "bids", 8), " SELECT 1;"),
    ],
)
def test_commands_end_with_the_line_or_a_semicolon(text, command, rest):
    assert command_at(text) == command
    assert text[command.end :] == rest


@pytest.mark.parametrize("text", ["SELECT 1;", "source", "help me", "helpless", "quit SELECT 1;", ""])
def test_everything_else_is_sql(text):
    assert command_at(text) is None


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("\\?", Command("help", "", 2)),
        ("\\q", Command("quit", "", 2)),
        ("\\i 'a b.sql'", Command("source", "a b.sql", 12)),
        ("\\d", "SHOW TABLES"),
        ("\\d bids", "DESCRIBE bids"),
        ("\\dj `a-b`", "DESCRIBE JOB `a-b`"),
    ],
)
def test_short_commands_stand_for_words_and_statements(text, meant):
    command = command_at(text)
    assert command is not None
    assert meaning(command, Span(0, len(text))) == meant


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\\copy", '"\\copy" is not a command of the shell'),
        ("\\? SELECT 1", '"\\?" takes no argument'),
        ("\\i", '"\\i" needs an argument'),
        ("\\", '"\\" is not a command of the shell'),
    ],
)
def test_what_is_no_command_is_refused_with_its_place(text, message):
    command = command_at(text)
    assert command is not None
    with pytest.raises(ParseError) as raised:
        meaning(command, Span(0, len(text)))
    assert (raised.value.code, raised.value.diagnostic.message) == ("SS108", message)
    assert raised.value.diagnostic.hint


def test_all_commands_are_documented():
    page = Path(__file__).parents[3].joinpath("docs", "shell.md").read_text(encoding="utf-8")
    assert [name for name in SHORT if f"`{name}" not in page and name != "\\h"] == []
    assert [name for name in SHORT if name not in help_text() and name != "\\h"] == []
