r"""The shell's own commands, which need no ``;``: words such as help, and psql's short ones such as ``\d``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlstream.errors import ParseError, Span, SqlStreamError
from sqlstream.grammar.script import pieces
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
    """A command that was typed in the shell. ``name`` is its name in lower case; that of a short command begins with a
    backslash. ``argument`` is the rest of the line.

    ``end`` is the position after the command in the text. ``typed`` is the name as the user typed it, for messages.
    """

    name: str
    argument: str = ""
    end: int = 0
    typed: str = field(default="", compare=False)


@dataclass(frozen=True)
class Short:
    """What a short command of the shell stands for: ``alone``, and ``with_argument``; None if that form is not allowed.

    ``takes`` names the argument in the help, ``help`` is its description.
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
    "\\pset": Short("pager on or off; format csv, table, …; result-mode", None, "pset", "NAME [VALUE]"),
    "\\x": Short("rows as a line for each column, on or off", "expanded"),
    "\\timing": Short("how long statements take, on or off", "timing"),
    "\\o": Short("write results into a file; without one, to the terminal", "output", "output", "[FILE]"),
}
TAKES_PATH = frozenset({"\\i", "\\o", "source"})
TAKES_STATEMENT = frozenset({"\\submit"})
"""Their argument is a statement, which may span lines."""


def help_text() -> str:
    r"""The text of the commands help and ``\?``."""
    lines = (f"  {f'{name} {short.takes}'.rstrip():26} {short.help}" for name, short in SHORT.items() if name != "\\h")
    return "\n".join([_HEAD, *lines, _FOOT])


def command_at(text: str, start: int = 0) -> Command | None:
    """The command of the shell that begins at the position ``start``; None if an SQL statement begins there."""
    match = _COMMAND.match(text, start)
    if match is None:
        return None
    if match["word"]:
        return Command(match["word"].lower().replace("exit", "quit"), "", match.end())
    if match["source"]:
        return Command("source", unquoted(match["file"]), match.end())
    return Command("\\" + match["short"], match["argument"], match.end())


def meaning(command: Command, span: Span) -> Command | str:
    """Resolves a short command such as ``\\d``: returns the long command, or the text of the SQL statement, that it
    stands for. Other commands are returned unchanged. ParseError SS108 for an unknown or misused short command.
    """
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
    """Makes the error SS108 for a misused command of the shell. Its message is the command followed by ``wrong``, such
    as "needs an argument".
    """
    return ParseError(
        UNKNOWN_COMMAND, f'"{command.typed or command.name}" {wrong}', span, hint='"\\?" shows the commands.'
    )


def unquoted(path: str) -> str:
    """A path without quotes around it."""
    return path.strip("'\"")


# --- Input cut into statements and commands --------------------------------------------------------------------
# A statement ends at ``;`` outside of strings, names and comments.


@dataclass(frozen=True)
class ShellEntry:
    """A statement with its ``;``, or a command of the shell: ``text[start:end]`` of the whole input."""

    text: str
    start: int
    end: int
    command: Command | None = None

    @property
    def piece(self) -> str:
        """The text of the entry."""
        return self.text[self.start : self.end]

    @property
    def span(self) -> Span:
        """The span of the entry, without the line feed after a command."""
        return Span(self.start, self.start + len(self.piece.rstrip()))

    def located(self, error: SqlStreamError) -> SqlStreamError:
        """Returns the error of this entry with spans that count from the beginning of the whole input, so that the line
        numbers in its message are those of the file.
        """
        return SqlStreamError.of(
            replace(d, span=Span(d.span.start + self.start, d.span.end + self.start), source=self.text)
            if d.span is not None and d.source in (None, self.piece)
            else d
            for d in error.diagnostics
        )


def split(text: str, start: int = 0) -> tuple[list[ShellEntry], int]:
    """Splits input into its complete statements and commands, from the position ``start`` on. Returns a pair: these,
    and the position of the incomplete rest.

    ``EXECUTE STATEMENT SET BEGIN …; …; END;`` is one statement.
    """
    entries: list[ShellEntry] = []
    while (entry := _entry(text, start)) is not None:
        entries.append(entry)
        start = entry.end
    return entries, start


def rest_of(text: str, start: int) -> list[ShellEntry]:
    """What remains at the end of the input, from ``start`` on: a list with the statement that lacks its ``;``, or an
    empty list.
    """
    if is_blank(text, start):
        return []
    ended = _entry(f"{text};", start)
    command = None if ended is None or ended.command is None else replace(ended.command, end=len(text))
    return [ShellEntry(text, start, len(text), command)]


def _entry(text: str, start: int) -> ShellEntry | None:
    """The first statement or command behind ``start``; None where it is not complete."""
    begin = _behind_blank(text, start)
    command = command_at(text, begin)
    if command is not None and command.name in TAKES_STATEMENT and command.argument:
        command = _with_statement(command, text, text.index(command.argument, begin))
        return None if command is None else ShellEntry(text, begin, command.end, command)
    end = _end_of_statement(text, begin) if command is None else command.end
    return None if end is None else ShellEntry(text, begin, end, command)


def _with_statement(command: Command, text: str, begin: int) -> Command | None:
    end = _end_of_statement(text, begin)
    return None if end is None else replace(command, argument=text[begin:end], end=end)


def joined(parts: Sequence[ShellEntry]) -> Iterator[ShellEntry]:
    """Joins adjacent statements into one entry, so that none of them runs if one has mistakes. Commands stay
    separate.
    """
    before: ShellEntry | None = None
    for entry in parts:
        if before is not None and (before.command or entry.command):
            yield before
            before = None
        before = entry if before is None else replace(before, end=entry.end)
    if before is not None:
        yield before


def is_blank(text: str, start: int = 0) -> bool:
    """True where the text from ``start`` on has only white space and comments."""
    return _behind_blank(text, start) == len(text)


def _behind_blank(text: str, start: int) -> int:
    return next((piece.start for piece in pieces(text, start) if not piece.is_blank), len(text))


def _end_of_statement(text: str, start: int) -> int | None:
    """Where the statement's ``;`` ends; None where it has none."""
    words: list[str] = []
    for piece in pieces(text, start):
        if piece.text == ";" and (not _opens_set(words) or words[-2:] == [";", "END"]):
            return piece.end
        if piece.is_word or piece.text == ";":
            words.append(piece.text.upper())
    return None


def _opens_set(words: list[str]) -> bool:
    """Whether the words begin a statement set, be it behind EXPLAIN or COMPILE PLAN."""
    return any(words[i : i + 2] == ["STATEMENT", "SET"] for i in range(min(len(words), 6)))
