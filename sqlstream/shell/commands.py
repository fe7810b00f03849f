"""The shell's own commands, which need no ``;``: words such as help, and psql's short ones such as ``\\d``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sqlstream.errors import ParseError, Span
from sqlstream.planner.suggestions import did_you_mean

UNKNOWN_COMMAND = "SS108"

HELP = """\
Statements end with ";" and may span several lines:

  CREATE TABLE ticks (value BIGINT, at TIMESTAMP(3), WATERMARK FOR at AS at)
    WITH ('connector' = 'datagen', 'rows-per-second' = '5');
  SELECT window_end, COUNT(*) FROM TUMBLE(TABLE ticks, DESCRIPTOR(at), INTERVAL '2' SECOND)
    GROUP BY window_start, window_end;
  EXPLAIN SELECT …;   SHOW TABLES;   DESCRIBE ticks;   SET 'key' = 'value';

Commands of the shell end with the line, or with ";":

  help           \\?          this text
  source FILE    \\i FILE     run the statements and commands of a file
  quit           \\q          leave, as Ctrl-D does
                 \\d          SHOW TABLES       \\d NAME   DESCRIBE NAME
                 \\dv         SHOW VIEWS        \\df       SHOW FUNCTIONS
                 \\dj         SHOW JOBS         \\dj NAME  DESCRIBE JOB NAME

Ctrl-C cancels the running query, or clears the line."""

# A word is a command only where nothing stands behind it; a backslash begins no SQL, so that it is always one.
_COMMAND = re.compile(
    r"""(?: (?P<word> help | quit | exit ) [ \t\r]*
          | (?P<source> source ) [ \t]+ (?P<file> [^;\n]+? ) [ \t\r]*
          | \\ (?P<short> [^\s;]* ) [ \t]* (?P<argument> [^;\n]*? ) [ \t\r]*
        ) (?: ; | \n | \Z )""",
    re.IGNORECASE | re.VERBOSE,
)


@dataclass(frozen=True)
class Command:
    """``name`` is lower-case, that of a short command begins with a backslash; ``argument`` is the rest of the line.

    ``end`` is where the text goes on behind it.
    """

    name: str
    argument: str = ""
    end: int = 0


@dataclass(frozen=True)
class _Short:
    """What a short command stands for: alone, and with an argument; None where it cannot stand so."""

    alone: str | None
    with_argument: str | None = None


# Words of the shell are spelled lower-case here, statements upper-case.
_SHORT: Mapping[str, _Short] = {
    "\\?": _Short("help"),
    "\\h": _Short("help"),
    "\\q": _Short("quit"),
    "\\i": _Short(None, "source"),
    "\\d": _Short("SHOW TABLES", "DESCRIBE {}"),
    "\\dt": _Short("SHOW TABLES"),
    "\\dv": _Short("SHOW VIEWS"),
    "\\df": _Short("SHOW FUNCTIONS"),
    "\\dj": _Short("SHOW JOBS", "DESCRIBE JOB {}"),
}


def command_at(text: str, start: int = 0) -> Command | None:
    """The command that begins at ``start``; None where SQL does."""
    match = _COMMAND.match(text, start)
    if match is None:
        return None
    if match["word"]:
        return Command(match["word"].lower().replace("exit", "quit"), "", match.end())
    if match["source"]:
        return Command("source", _unquoted(match["file"]), match.end())
    return Command("\\" + match["short"], match["argument"], match.end())


def meaning(command: Command, span: Span) -> Command | str:
    """The word command that a command stands for, or the statement; ParseError SS108 where there is none such."""
    if not command.name.startswith("\\"):
        return command
    short = _SHORT.get(command.name)
    if short is None:
        hint = did_you_mean(command.name, _SHORT, "commands")
        raise ParseError(UNKNOWN_COMMAND, f'"{command.name}" is not a command of the shell', span, hint=hint)
    spelled = short.with_argument if command.argument else short.alone
    if spelled is None:
        wrong = "takes no argument" if command.argument else "needs an argument"
        raise ParseError(UNKNOWN_COMMAND, f'"{command.name}" {wrong}', span, hint='"\\?" shows the commands.')
    if spelled.islower():
        return Command(spelled, _unquoted(command.argument), command.end)
    return spelled.format(command.argument)


def _unquoted(path: str) -> str:
    return path.strip("'\"")
