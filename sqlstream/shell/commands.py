"""The shell's own commands, which need no ``;``: help, quit and source."""

from __future__ import annotations

import re
from dataclasses import dataclass

HELP = """\
Statements end with ";" and may span several lines:

  CREATE TABLE ticks (value BIGINT, at TIMESTAMP(3), WATERMARK FOR at AS at)
    WITH ('connector' = 'datagen', 'rows-per-second' = '5');
  SELECT window_end, COUNT(*) FROM TUMBLE(TABLE ticks, DESCRIPTOR(at), INTERVAL '2' SECOND)
    GROUP BY window_start, window_end;
  EXPLAIN SELECT …;   SHOW TABLES;   DESCRIBE ticks;   SET 'key' = 'value';

Commands of the shell:

  help              this text
  source FILE       run the statements of a file
  quit              leave, as Ctrl-D does

Ctrl-C cancels the running query, or clears the line."""

_COMMAND = re.compile(r"\s*(?P<name>help|quit|exit|source)\b(?P<argument>[^;]*);?\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Command:
    """``name`` is lower-case; ``argument`` is the rest of the line."""

    name: str
    argument: str = ""


def parse_command(text: str) -> Command | None:
    """The command that a line is; None where it is SQL."""
    match = _COMMAND.fullmatch(text)
    if match is None:
        return None
    name, argument = match["name"].lower(), match["argument"].strip().strip("'\"")
    if (name == "source") != bool(argument):
        return None
    return Command("quit" if name == "exit" else name, argument)


def is_command(text: str) -> bool:
    return parse_command(text) is not None
