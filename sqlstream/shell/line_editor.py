"""The line editor: several lines until ``;``, history on disk, colours.

The prompt is shown before the product is imported, so this module imports very little of it.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from itertools import groupby
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import Completer
from prompt_toolkit.filters import Condition, is_searching
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout.processors import HighlightMatchingBracketProcessor
from prompt_toolkit.lexers import DynamicLexer, Lexer, PygmentsLexer
from prompt_toolkit.output import Output

from sqlstream.paths import config_folder, is_there, made, state_folder
from sqlstream.secrets import shown_script

PROMPT = "sqlstream> "
_CLOSED_BY = {"(": ")", "[": "]", "{": "}"}


def history_file() -> Path | None:
    """The file ``$XDG_STATE_HOME/sqlstream/history``, created so that no other user can read it.

    None where it cannot be written: then the history lasts as long as the shell.
    """
    folder = made(state_folder())
    if folder is None:
        return None
    file = folder / "history"
    try:
        file.touch(0o600)
        folder.chmod(0o700)  # older versions left both for all to read
        file.chmod(0o600)
        with file.open("ab"), file.open("rb"):
            return file
    except OSError:  # a home that is read-only
        return None


def startup_file() -> Path | None:
    """The file ``$XDG_CONFIG_HOME/sqlstream/shellrc``, whose statements run first; None where there is none."""
    folder = config_folder()
    return folder / "shellrc" if folder is not None and is_there(folder / "shellrc") else None


def wants_vi_keys() -> bool:
    """Whether readline is configured for the keys of vi, in ``$INPUTRC`` or ``~/.inputrc``."""
    try:
        lines = Path(os.environ.get("INPUTRC") or "~/.inputrc").expanduser().read_text(errors="replace").splitlines()
    except (OSError, RuntimeError):
        return False
    return any(line.split() == ["set", "editing-mode", "vi"] for line in lines)


class LineEditor(PromptSession[str]):
    """Reads statements from the terminal. ``offered`` is a text that the user can insert with Tab at the empty
    prompt.
    """

    offered: str | None = None


def line_editor(
    history: Path | None,
    source: Input | None = None,
    screen: Output | None = None,
    completer: Completer | None = None,
    *,
    vi_keys: bool = False,
    lexer: Callable[[], Lexer | None] | None = None,
) -> LineEditor:
    """Makes a line editor. ``history`` is the file of the history; None: it is not saved. ``source`` and ``screen``
    default to the terminal. ``lexer`` is called for the lexer that colours the text, None for none.
    """
    editor = LineEditor(
        PROMPT,
        multiline=True,
        prompt_continuation=lambda width, line, wraps: _continued(editor.default_buffer.text, line),
        history=InMemoryHistory() if history is None else HistoryWithoutSecrets(str(history)),
        auto_suggest=AutoSuggestFromHistory(),
        lexer=DynamicLexer(lexer or sql_lexer),
        key_bindings=_bindings(lambda: editor.offered),
        completer=completer,
        complete_in_thread=True,
        complete_while_typing=True,
        reserve_space_for_menu=6,
        enable_open_in_editor=True,
        enable_suspend=True,
        vi_mode=vi_keys,
        input_processors=[HighlightMatchingBracketProcessor()],
        input=source,
        output=screen,
    )
    return editor


def _continued(text: str, line: int) -> str:
    """The prompt of a continued line, which shows the open quote or bracket as psql does."""
    return f"{opened(chr(10).join(text.splitlines()[:line]))}-> ".rjust(len(PROMPT))


def opened(text: str) -> str:
    """The quote or bracket that is still open at the end of a text; empty if none is."""
    from sqlstream.grammar.script import pieces  # sqlglot, which the first prompt does without

    brackets: list[str] = []
    for piece in pieces(text):
        if piece.is_open and not piece.text.startswith("--"):
            return piece.text.lstrip("rR")[:1]
        if piece.text in _CLOSED_BY:
            brackets.append(piece.text)
        elif piece.text in _CLOSED_BY.values() and brackets and _CLOSED_BY[brackets[-1]] == piece.text:
            brackets.pop()
    return brackets[-1] if brackets else ""


@cache
def sql_lexer() -> Lexer:
    """The lexer that colours SQL."""
    from sqlstream.shell.completer import SqlStreamLexer  # sqlglot, which the first prompt does without

    return PygmentsLexer(SqlStreamLexer)


class HistoryWithoutSecrets(FileHistory):
    """The history of typed statements. Those with secrets are not written to its file; they are kept only while the
    shell runs.

    Statements of other shells are available at the next prompt.
    """

    def __init__(self, filename: str) -> None:
        super().__init__(filename)
        self._file = Path(filename)
        self._read_bytes = 0

    def load_history_strings(self) -> Iterable[str]:
        """The entries of the file, newest first."""
        self._read_bytes = self._size()
        return super().load_history_strings()

    async def load(self) -> AsyncGenerator[str, None]:
        """The entries of the file, with those that other shells have added."""
        self._take_of_others()
        async for string in super().load():
            yield string

    def append_string(self, string: str) -> None:
        """Add an entry after those that other shells have added."""
        self._take_of_others()
        super().append_string(string)
        self._read_bytes = self._size()

    def store_string(self, string: str) -> None:
        """Write an entry to the file, unless it holds a secret."""
        if shown_script(string) == string:
            with suppress(OSError):  # a full disk ends no shell
                super().store_string(string)

    def _size(self) -> int:
        with suppress(OSError):
            return self._file.stat().st_size
        return self._read_bytes

    def _take_of_others(self) -> None:
        """Read the entries that other shells have added; the newest comes first."""
        if not self._loaded or self._size() <= self._read_bytes:
            return
        with suppress(OSError), self._file.open("rb") as file:
            file.seek(self._read_bytes)
            written = file.read()
            self._read_bytes += len(written)
            self._loaded_strings[:0] = [*_entries(written.decode("utf-8", "replace"))][::-1]


def _entries(written: str) -> Iterator[str]:
    """The entries in a part of the file: lines that begin with ``+``."""
    for of_entry, lines in groupby(written.splitlines(), lambda line: line.startswith("+")):
        if of_entry:
            yield "\n".join(line[1:] for line in lines)


def is_finished(text: str) -> bool:
    """Whether Enter submits the text: its last statement or command is complete."""
    from sqlstream.shell.commands import is_blank, split  # sqlglot, which the first prompt does without

    parts, rest = split(text)
    return is_blank(text) or (bool(parts) and is_blank(text, rest))


def _bindings(offered: Callable[[], str | None]) -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("tab", filter=Condition(lambda: bool(offered()) and not get_app().current_buffer.text))
    def _tab(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text((offered() or "").strip())

    @bindings.add("enter", filter=~is_searching)  # there it takes what was found
    def _enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
            buffer.complete_state = None  # takes what is chosen
        elif is_finished(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return bindings
