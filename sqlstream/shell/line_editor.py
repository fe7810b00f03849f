"""The line editor: several lines until ``;``, history on disk, colours."""

from __future__ import annotations

import os
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.history import FileHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from prompt_toolkit.output import Output

from sqlstream.secrets import shown_script
from sqlstream.shell.highlighting import SqlStreamLexer
from sqlstream.shell.statements import is_blank, split

PROMPT = "sqlstream> "
_CONTINUED = "        -> "


def history_file() -> Path:
    """``$XDG_STATE_HOME/sqlstream/history``; its directory exists afterwards."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    directory = state / "sqlstream"
    directory.mkdir(parents=True, exist_ok=True)
    return directory / "history"


def line_editor(history: Path, source: Input | None = None, screen: Output | None = None) -> PromptSession[str]:
    """``source`` and ``screen`` default to the terminal."""
    return PromptSession(
        PROMPT,
        multiline=True,
        prompt_continuation=_CONTINUED,
        history=HistoryWithoutSecrets(str(history)),
        auto_suggest=AutoSuggestFromHistory(),
        lexer=PygmentsLexer(SqlStreamLexer),
        key_bindings=_bindings(),
        input=source,
        output=screen,
    )


class HistoryWithoutSecrets(FileHistory):
    """Statements with secrets are remembered while the shell runs, and not written to the file."""

    def store_string(self, string: str) -> None:
        if shown_script(string) == string:
            super().store_string(string)


def is_finished(text: str) -> bool:
    """Whether Enter hands the text over: its last statement or command ends."""
    parts, rest = split(text)
    return is_blank(text) or (bool(parts) and is_blank(text, rest))


def _bindings() -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("enter")
    def _enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_finished(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return bindings
