"""The first prompt, shown before the product is imported.

Importing the product takes a second or more, and much longer from a slow disk. A thread imports it and starts Spark
while the first statement is typed, which then runs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import copy_context
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, TextIO

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.lexers import Lexer
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.utils import is_dumb_terminal

from sqlstream.cli.options import pairs, require_text
from sqlstream.errors import ConnectorError
from sqlstream.paths import importable
from sqlstream.shell import GREETING, UNREADABLE_FILE
from sqlstream.shell.line_editor import LineEditor, history_file, line_editor, sql_lexer, startup_file, wants_vi_keys
from sqlstream.spark.tuning.standard_error import keep_stderr

if TYPE_CHECKING:
    from sqlstream.session import Session
    from sqlstream.shell.loop import Shell


_LOOK_SECONDS = 0.1


class Arriving:
    """Creates the shell and its completer on a thread, while the user already types at the prompt. ``make`` creates
    both.
    """

    def __init__(self, make: Callable[[], tuple[Shell, Completer]]) -> None:
        self._make = make
        self._done = Event()
        self._error: BaseException | None = None
        self._made: tuple[Shell, Completer] | None = None
        self._thread: Thread | None = None
        self._after: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Start the thread, if it has not been started."""
        if self._thread is None:
            self._thread = Thread(target=self._run, name="sqlstream-arriving", daemon=True)
            self._thread.start()

    @property
    def failed(self) -> bool:
        """True where ``make`` has raised an error."""
        return self._done.is_set() and self._error is not None

    @property
    def pending(self) -> bool:
        """True until ``make`` has returned or failed."""
        return not self._done.is_set()

    @property
    def completer(self) -> Completer:
        """The completer; waits for it."""
        return self._result()[1]

    @property
    def there(self) -> bool:
        """True if ``make`` has returned, so that the shell can be used."""
        return self._made is not None

    def shell(self) -> Shell:
        """The shell; waits for it and raises the error of ``make``. Ctrl-C interrupts the wait."""
        self.start()
        while not self._done.wait(_LOOK_SECONDS):
            continue
        return self._result()[0]

    def when_done(self, call: Callable[[], None]) -> None:
        """Sets a function that the thread calls when ``make`` has returned or failed."""
        self._after = call

    def _result(self) -> tuple[Shell, Completer]:
        self.start()
        self._done.wait()
        if self._error is not None:
            raise self._error
        assert self._made is not None
        return self._made

    def _run(self) -> None:
        try:
            self._made = self._make()
        except BaseException as error:
            self._error = error
        self._done.set()
        self._after()


class _LateCompleter(Completer):
    """The completer of a session that may not be open yet."""

    def __init__(self, arriving: Arriving) -> None:
        self._arriving = arriving

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        if not self._arriving.failed:
            yield from self._arriving.completer.get_completions(document, complete_event)


def interact_at_once(
    open_session: Callable[[], Session], style: str, parameters: Mapping[str, str] | None = None
) -> int:
    """Runs the shell on the terminal with a prompt that appears before the session is open. ``open_session`` is called
    on a thread meanwhile; errors that it raises are raised here. Returns the exit code.
    """

    keep_stderr()
    out = sys.stdout  # while the prompt stands, that is what writes above it

    def arrive() -> tuple[Shell, Completer]:
        shell = _shell(open_session(), out, style, parameters)
        shell.warm_up.begin()
        return shell, shell.completer

    arriving = Arriving(arrive)
    editor = line_editor(
        history_file(), completer=_LateCompleter(arriving), vi_keys=wants_vi_keys(), lexer=lambda: _colours(arriving)
    )
    try:
        text = _first(editor, arriving)
    except EOFError:
        text = None
    if text is None and arriving.pending:  # there is nothing to close yet; Java ends with this process
        return 0
    shell = arriving.shell()
    try:
        if text is not None:
            shell.interact(editor, text)
    finally:
        shell.close()
    return 0


def _colours(arriving: Arriving) -> Lexer | None:
    return sql_lexer() if arriving.there else None


def _first(editor: LineEditor, arriving: Arriving) -> str:
    """The text of the first prompt; imports begin when it is shown. EOFError for Ctrl-D, and where imports have
    failed."""
    sys.stdout.write(f"{GREETING}\n")
    sys.stdout.flush()
    arriving.when_done(lambda: _tell(editor, arriving))
    with patch_stdout(raw=True):
        while True:
            try:
                return editor.prompt(pre_run=lambda: _once_drawn(editor, arriving))
            except KeyboardInterrupt:
                continue


def _once_drawn(editor: LineEditor, arriving: Arriving) -> None:
    editor.app.after_render += lambda _: arriving.start()


def _tell(editor: LineEditor, arriving: Arriving) -> None:
    """Redraw the prompt with colours, or end it after an error."""
    app = editor.app
    if arriving.failed and app.loop is not None:
        app.loop.call_soon_threadsafe(lambda: app.is_running and app.exit(exception=EOFError))
    else:
        app.invalidate()


# --- the way in -----------------------------------------------------------------------------------------------


def shell_command(
    settings: tuple[str, ...],
    master: str | None,
    commands: tuple[str, ...],
    files: tuple[str, ...],
    stays: bool,
    style: str,
    parameters: tuple[str, ...],
) -> int:
    """Type SQL and see results as they come."""
    with importable(Path.cwd()):
        texts = [require_text(text, "-c") for text in commands]
        given = pairs(parameters, "--param")
        # Opened perhaps on another thread, which must know the profile of the command line.
        opening = partial(copy_context().run, _opened, master, settings)
        return run_shell(opening, files, texts, style=style, stays=stays, parameters=given)


def _opened(master: str | None, settings: Sequence[str]) -> Session:
    from sqlstream.cli.scripts import open_session  # while somebody types

    return open_session(master, settings)


def run_shell(
    session: Session | Callable[[], Session],
    files: Sequence[str] = (),
    commands: Sequence[str] = (),
    *,
    style: str = "table",
    stays: bool = False,
    parameters: Mapping[str, str] | None = None,
) -> int:
    """Run files, then commands, then the shell on the process's terminal or on piped input; returns 1 where one
    failed.

    The shell is skipped after files and commands unless it ``stays``. ``style``: the format of rows.
    ``parameters``: the values of ``${NAME}``. ``session``: the session, or a function that opens it in the
    background.
    """
    typed = sys.stdin is not None and sys.stdin.isatty() and not files and not commands
    if typed and callable(session) and startup_file() is None and not is_dumb_terminal():
        return interact_at_once(session, style, parameters)
    shell = _shell(session() if callable(session) else session, sys.stdout, style, parameters)
    try:
        for name in files:
            shell.run_file(name)
        goes_on = all(map(shell.run, commands))
        if not goes_on or ((files or commands) and not stays):
            return 1 if shell.failures else 0
        if sys.stdin is None:
            raise ConnectorError(UNREADABLE_FILE, "cannot read standard input: it is closed", hint="Pipe SQL into it.")
        if sys.stdin.isatty():
            if (startup := startup_file()) is not None:
                shell.run_file(str(startup))
            shell.warm_up.begin()
            shell.interact(line_editor(history_file(), completer=shell.completer, vi_keys=wants_vi_keys()))
            return 0
        shell.read_bytes(sys.stdin.buffer)
        return 1 if shell.failures else 0
    finally:
        shell.close()


def _shell(session: Session, out: TextIO, style: str, parameters: Mapping[str, str] | None) -> Shell:
    """The shell, for which Spark starts while the rest is imported."""
    from sqlstream.spark.startup import SparkStart  # PySpark, while somebody types

    start = SparkStart(session)
    from sqlstream.shell.loop import Shell  # while Spark starts

    return Shell(session, out, style, parameters, start)
