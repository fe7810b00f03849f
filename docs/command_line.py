"""The page of the command line, made of the commands' own help texts."""

from __future__ import annotations

from typing import Any

import click

from sqlstream.cli import commands
from sqlstream.cli.commands import COMMANDS

_WIDTH: dict[str, Any] = {"terminal_width": 100, "max_content_width": 100}


def page() -> str:
    """The page in Markdown."""
    lines = ["# Command line", "", "Generated from the help texts by `make docs`. `python -m sqlstream` is the same."]
    whole = click.Context(commands, info_name="sqlstream", **commands.context_settings, **_WIDTH)
    lines += _section(whole)
    for name in COMMANDS:
        command = commands.get_command(whole, name)
        assert command is not None
        context = click.Context(command, info_name=name, parent=whole, **_WIDTH)
        lines += _section(context)
        if isinstance(command, click.Group):
            for inner_name, inner in command.commands.items():
                lines += _section(click.Context(inner, info_name=inner_name, parent=context, **_WIDTH))
    return "\n".join(lines) + "\n"


def _section(context: click.Context) -> list[str]:
    return ["", f"## {context.command_path}", "", "```", context.get_help().rstrip(), "```"]
