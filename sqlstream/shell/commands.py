"""The shell's own commands, which need no ``;``: words such as help, and psql's short ones such as ``\\d``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlstream.errors import ParseError, Span
from sqlstream.planner.suggestions import did_you_mean

UNKNOWN_COMMAND = "SS108"

_HEAD = """\
Statements end with ";" and may span several lines:

  CREATE TABLE ticks (value BIGINT, at TIMESTAMP(3), WATERMARK FOR at AS at)
    WITH ('connector' = 'datagen', 'rows-per-second' = '5');
  SELECT window_end, COUNT(*) FROM TUMBLE(TABLE ticks, DESCRIPTOR(at), INTERVAL '2' SECOND)
    GROUP BY window_start, window_end;
  EXPLAIN SELECT …;   SHOW TABLES;   DESCRIBE ticks;   SET 'key' = 'value';

Commands of the shell end with the line, or with ";":

  help, quit, clear and source FILE, or short:
"""
_FOOT = """
Tab completes, Ctrl-R searches what was typed before, Ctrl-X Ctrl-E opens the text in $EDITOR.
Ctrl-C cancels the running query, or clears the line. Ctrl-Z sends a running query or INSERT to the background."""

# A word is a command only where nothing stands behind it; a backslash begins no SQL, so that it is always one.
_COMMAND = re.compile(
    r"""(?: (?P<word> help | quit | exit | clear ) [ \t\r]*
          | (?P<source> source ) [ \t]+ (?P<file> [^;\n]+? ) [ \t\r]*
          | \\ (?P<short> [^\s;]* ) [ \t]* (?P<argument> [^;\n]*? ) [ \t\r]*
        ) (?: ; | \n | \Z )""",
    re.IGNORECASE | re.VERBOSE,
)


@dataclass(frozen=True)
class Command:
    """``name`` is lower-case, that of a short command begins with a backslash; ``argument`` is the rest of the line.

    ``end`` is where the text goes on behind it. ``typed``: the name as it was typed, for messages.
    """

    name: str
    argument: str = ""
    end: int = 0
    typed: str = field(default="", compare=False)


@dataclass(frozen=True)
class Short:
    """What a short command stands for: alone, and with an argument; None where it cannot stand so.

    ``takes`` names the argument in the help, ``help`` says what it does.
    """

    help: str
    alone: str | None = None
    with_argument: str | None = None
    takes: str = ""


# Words of the shell are spelled lower-case here, statements upper-case.
SHORT: Mapping[str, Short] = {
    "\\?": Short("this text", "help"),
    "\\h": Short("this text", "help"),
    "\\q": Short("leave, as Ctrl-D does", "quit"),
    "\\d": Short("tables and views, or the columns of one", "SHOW TABLES", "DESCRIBE {}", "[NAME]"),
    "\\dt": Short("tables and views", "SHOW TABLES"),
    "\\dv": Short("views", "SHOW VIEWS"),
    "\\df": Short("functions", "SHOW FUNCTIONS"),
    "\\dj": Short("jobs, or what one does", "SHOW JOBS", "DESCRIBE JOB {}", "[JOB]"),
    "\\l": Short("catalogs", "SHOW CATALOGS"),
    "\\i": Short("run the statements and commands of a file", None, "source", "FILE"),
    "\\e": Short("edit the last statements in $EDITOR, and run them", "edit"),
    "\\g": Short("run the last statements again", "again"),
    "\\watch": Short("run them again and again, so many seconds apart (2)", "watch", "watch", "[SECONDS]"),
    "\\submit": Short("run an INSERT as a process of its own; the last one", "submit", "submit", "[INSERT …;]"),
    "\\explain": Short("the plan of the last query", "explain"),
    "\\lineage": Short("what the columns of the last query, or of a view, are made of", "lineage", "lineage", "[VIEW]"),
    "\\plot": Short("run the last query, and draw a column of it", None, "plot", "COLUMN [BY COLUMN]"),
    "\\set": Short("settings, or give one a value", "SET", "set", "[KEY VALUE]"),
    "\\mode": Short("how results are shown: table, changelog, tail or vertical", None, "mode", "MODE"),
    "\\pset": Short("pager on or off; format csv, table, …", None, "pset", "NAME [VALUE]"),
    "\\x": Short("rows as a line for each column, on or off", "expanded"),
    "\\timing": Short("how long statements take, on or off", "timing"),
    "\\o": Short("write results into a file; without one, to the terminal", "output", "output", "[FILE]"),
}
TAKES_PATH = frozenset({"\\i", "\\o", "source"})
TAKES_STATEMENT = frozenset({"\\submit"})
"""Their argument is a statement, which may span lines."""


def help_text() -> str:
    """What help and ``\\?`` show."""
    lines = (f"  {f'{name} {short.takes}'.rstrip():26} {short.help}" for name, short in SHORT.items() if name != "\\h")
    return "\n".join([_HEAD, *lines, _FOOT])


def command_at(text: str, start: int = 0) -> Command | None:
    """The command that begins at ``start``; None where SQL does."""
    match = _COMMAND.match(text, start)
    if match is None:
        return None
    if match["word"]:
        return Command(match["word"].lower().replace("exit", "quit"), "", match.end())
    if match["source"]:
        return Command("source", unquoted(match["file"]), match.end())
    return Command("\\" + match["short"], match["argument"], match.end())


def meaning(command: Command, span: Span) -> Command | str:
    """The word command that a command stands for, or the statement; ParseError SS108 where there is none such."""
    if not command.name.startswith("\\"):
        return command
    short = SHORT.get(command.name)
    if short is None:
        hint = did_you_mean(command.name, SHORT, "commands")
        raise ParseError(UNKNOWN_COMMAND, f'"{command.name}" is not a command of the shell', span, hint=hint)
    spelled = short.with_argument if command.argument else short.alone
    if spelled is None:
        wrong = "takes no argument" if command.argument else "needs an argument"
        raise wrong_command(command, wrong, span)
    if spelled.islower():
        argument = command.argument if command.name in TAKES_STATEMENT else unquoted(command.argument)
        return Command(spelled, argument, command.end, command.name)
    return spelled.format(command.argument)


def wrong_command(command: Command, wrong: str, span: Span | None = None) -> ParseError:
    return ParseError(
        UNKNOWN_COMMAND, f'"{command.typed or command.name}" {wrong}', span, hint='"\\?" shows the commands.'
    )


def unquoted(path: str) -> str:
    return path.strip("'\"")
