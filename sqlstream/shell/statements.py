"""What is typed or piped in, cut into statements and commands; a statement ends at ``;`` outside of strings, names and
comments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sqlstream.errors import Span, SqlStreamError
from sqlstream.grammar.script import pieces
from sqlstream.shell.commands import TAKES_STATEMENT, Command, command_at


@dataclass(frozen=True)
class ShellEntry:
    """``text[start:end]`` of the whole input: a statement with its ``;``, or a command of the shell."""

    text: str
    start: int
    end: int
    command: Command | None = None

    @property
    def piece(self) -> str:
        return self.text[self.start : self.end]

    @property
    def span(self) -> Span:
        """What it covers, without the line feed behind a command."""
        return Span(self.start, self.start + len(self.piece.rstrip()))

    def located(self, error: SqlStreamError) -> SqlStreamError:
        """The error with its places in the whole input, so that lines count from the first one of a file."""
        return SqlStreamError.of(
            replace(d, span=Span(d.span.start + self.start, d.span.end + self.start), source=self.text)
            if d.span is not None and d.source in (None, self.piece)
            else d
            for d in error.diagnostics
        )


def split(text: str, start: int = 0) -> tuple[list[ShellEntry], int]:
    """The statements and commands that ``text`` completes behind ``start``, and where the rest begins.

    ``EXECUTE STATEMENT SET BEGIN …; …; END;`` is one statement.
    """
    entries: list[ShellEntry] = []
    while (entry := _entry(text, start)) is not None:
        entries.append(entry)
        start = entry.end
    return entries, start


def rest_of(text: str, start: int) -> list[ShellEntry]:
    """What stands behind all that is complete, where nothing more comes: a statement without its ``;``, or nothing."""
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
    """The parts, statements that follow each other as one: nothing of them runs where any of them is wrong."""
    before: ShellEntry | None = None
    for entry in parts:
        if before is not None and (before.command or entry.command):
            yield before
            before = None
        before = entry if before is None else replace(before, end=entry.end)
    if before is not None:
        yield before


def is_blank(text: str, start: int = 0) -> bool:
    """True where there is nothing but white space and comments."""
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
