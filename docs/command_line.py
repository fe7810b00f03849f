"""The page of the command line, made of the commands' own help texts."""

from __future__ import annotations

import click

from sqlstream.cli import COMMANDS, commands


def page() -> str:
    """The page in Markdown."""
    lines = ["# Command line", "", "Generated from the help texts by `make docs`. `python -m sqlstream` is the same."]
    lines += _section("sqlstream", commands)
    context = click.Context(commands, info_name="sqlstream")
    for name in COMMANDS:
        command = commands.get_command(context, name)
        assert command is not None
        lines += _section(f"sqlstream {name}", command)
    return "\n".join(lines) + "\n"


def _section(title: str, command: click.Command) -> list[str]:
    context = click.Context(command, info_name=title, terminal_width=100, max_content_width=100)
    return ["", f"## {title}", "", "```", command.get_help(context).rstrip(), "```"]
