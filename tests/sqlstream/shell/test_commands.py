"""The shell's own commands."""

from __future__ import annotations

import pytest

from sqlstream.shell.commands import Command, parse_command


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("help", Command("help")),
        (" QUIT ;\n", Command("quit")),
        ("exit", Command("quit")),
        ("source a b.sql", Command("source", "a b.sql")),
        ("source 'x.sql';", Command("source", "x.sql")),
    ],
)
def test_commands_are_recognised(text, command):
    assert parse_command(text) == command


@pytest.mark.parametrize("text", ["SELECT 1;", "source", "help me", "helpless", "quit; SELECT 1;", ""])
def test_everything_else_is_sql(text):
    assert parse_command(text) is None
