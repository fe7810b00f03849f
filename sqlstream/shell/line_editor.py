"""The line editor: several lines until ``;``, history on disk, colours."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import Completer
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout.processors import HighlightMatchingBracketProcessor
from prompt_toolkit.lexers import PygmentsLexer
from prompt_toolkit.output import Output

from sqlstream.secrets import shown_script
from sqlstream.shell.highlighting import SqlStreamLexer
from sqlstream.shell.statements import is_blank, split
from sqlstream.user_folders import config_folder, is_there, made, state_folder

PROMPT = "sqlstream> "
_CONTINUED = "        -> "


def history_file() -> Path | None:
    """``$XDG_STATE_HOME/sqlstream/history``, a file that is there afterwards and that no other user can read.

    None where it cannot be written: what is typed is remembered as long as the shell runs, then.
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
    """``$XDG_CONFIG_HOME/sqlstream/shellrc``, whose statements and commands run first; None where there is none."""
    folder = config_folder()
    return folder / "shellrc" if folder is not None and is_there(folder / "shellrc") else None


def wants_vi_keys() -> bool:
    """Whether the user's readline has the keys of vi, as set in ``$INPUTRC`` or ``~/.inputrc``."""
    try:
        lines = Path(os.environ.get("INPUTRC") or "~/.inputrc").expanduser().read_text(errors="replace").splitlines()
    except (OSError, RuntimeError):
        return False
    return any(line.split() == ["set", "editing-mode", "vi"] for line in lines)


def line_editor(
    history: Path | None,
    source: Input | None = None,
    screen: Output | None = None,
    completer: Completer | None = None,
    *,
    vi_keys: bool = False,
) -> PromptSession[str]:
    """``history``: None where it lasts as long as the editor. ``source`` and ``screen`` default to the terminal."""
    return PromptSession(
        PROMPT,
        multiline=True,
        prompt_continuation=_CONTINUED,
        history=InMemoryHistory() if history is None else HistoryWithoutSecrets(str(history)),
        auto_suggest=AutoSuggestFromHistory(),
        lexer=PygmentsLexer(SqlStreamLexer),
        key_bindings=_bindings(),
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


class HistoryWithoutSecrets(FileHistory):
    """Statements with secrets are remembered while the shell runs, and not written to the file."""

    def store_string(self, string: str) -> None:
        if shown_script(string) == string:
            with suppress(OSError):  # a full disk ends no shell
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
        if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
            buffer.complete_state = None  # takes what is chosen
        elif is_finished(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return bindings
