"""The first prompt, shown before the product is imported.

Importing the product takes a second or more, and much longer from a slow disk. A thread imports it and starts Spark
while the first statement is typed, which then runs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from threading import Event, Thread
from typing import TYPE_CHECKING

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.lexers import Lexer

from sqlstream.shell import GREETING
from sqlstream.shell.line_editor import LineEditor, history_file, line_editor, sql_lexer, wants_vi_keys
from sqlstream.spark.tuning.standard_error import keep_stderr

if TYPE_CHECKING:
    from sqlstream.session import Session
    from sqlstream.shell.loop import Shell
    from sqlstream.spark.startup import SparkStart

_LOOK_SECONDS = 0.1


def start_spark(session: Session) -> SparkStart:
    """Start Spark while the rest is imported."""
    from sqlstream.spark.startup import SparkStart  # loaded while somebody types

    return SparkStart(session)


class Arriving:
    """The result of ``make``, computed on a thread."""

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
        """True where ``make`` has returned."""
        return self._made is not None

    def shell(self) -> Shell:
        """The shell; waits for it and raises the error of ``make``. Ctrl-C interrupts the wait."""
        self.start()
        while not self._done.wait(_LOOK_SECONDS):
            continue
        return self._result()[0]

    def when_done(self, call: Callable[[], None]) -> None:
        """Call a function on the thread at the end."""
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
    """Run the shell on the terminal of this process. ``open_session`` may raise the errors of options."""

    keep_stderr()
    out = sys.stdout  # while the prompt stands, that is what writes above it

    def arrive() -> tuple[Shell, Completer]:
        session = open_session()
        start = start_spark(session)
        from sqlstream.shell.completer import completer_of  # loaded while somebody types
        from sqlstream.shell.loop import Shell

        shell = Shell(session, out, style, parameters, start)
        shell.warm_up.begin()
        return shell, completer_of(session)

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
    from prompt_toolkit.patch_stdout import patch_stdout

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
