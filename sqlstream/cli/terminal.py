"""What commands do to the terminal and the process: exit codes, standard streams, the status line."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock, Timer
from typing import TYPE_CHECKING, TextIO

import click.utils

from sqlstream.errors import ExecutionError, SqlStreamError
from sqlstream.spark.tuning.standard_error import keep_stderr

if TYPE_CHECKING:
    from types import TracebackType

    from rich.live import Live

OK = 0
WRONG_SQL = 1
JOB_FAILED = 3
INTERNAL = 70  # this and the next as in sysexits.h
CANNOT_WRITE = 74
INTERRUPTED = 130
BROKEN_PIPE = 141  # 128 + SIGPIPE, as of any program whose reader goes away


def exit_code(error: BaseException) -> int:
    """The exit code of an error: 3 for a failed job, 1 for wrong SQL or options, 70 for an unexpected error."""
    match getattr(error, "error", error):  # of one of several scripts
        case ExecutionError():
            return JOB_FAILED
        case SqlStreamError():
            return WRONG_SQL
    return INTERNAL


# --- Standard streams that are closed, full, or have lost their reader -----------------------------------------


UNWRITTEN_OUTPUT = "SS591"
_PACKAGE = Path(__file__).resolve().parents[1]
_BROKEN = frozenset({errno.ENOSPC, errno.EIO, errno.EBADF, errno.EDQUOT, errno.EFBIG})


class ClosedOutput(io.TextIOBase):
    """Standard output of a process without one: writing results raises an error instead of losing them."""

    def write(self, text: str) -> int:
        """Raise OSError, as writing to a closed stream does."""
        raise OSError(errno.EBADF, "it is closed")


def open_streams() -> None:
    """Open missing standard streams. Otherwise the next file would get their descriptors, and messages of Java.

    A missing standard input stays missing: it is not an empty one.
    """
    before = -1
    while before < 2:
        before = os.open(os.devnull, os.O_RDWR)
    os.close(before)
    if sys.stdout is None:
        sys.stdout = ClosedOutput()
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115


def tell(text: str) -> None:
    """Write a line to standard error, if it can be written."""
    with contextlib.suppress(OSError, ValueError):
        click.utils.echo(printable(text), err=True)


def printable(text: str) -> str:
    """The text with bytes that are not UTF-8, such as those of file names, as escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def failure_of_output(error: BaseException) -> str | None:
    """The message about an error of standard output, which is full or closed. None for any other error."""
    if isinstance(error, OSError) and error.errno in _BROKEN and (_is_broken(sys.stdout) or _comes_of_writing(error)):
        return _message(error.strerror or str(error))
    return None


def _message(reason: str) -> str:
    return (
        f"{UNWRITTEN_OUTPUT}: standard output cannot be written: {reason}\n"
        "HINT: Results that were not written are lost; send them to another file, and run the command again."
    )


def _comes_of_writing(error: OSError) -> bool:
    """True where the error was raised by code that writes results."""
    writer = traceback.extract_tb(error.__traceback__)[-1].filename
    ours = writer == click.utils.__file__ or Path(writer).resolve().is_relative_to(_PACKAGE)
    return ours and error.filename is None


def _is_broken(stream: TextIO) -> bool:
    try:
        stream.flush()
    except (OSError, ValueError):
        return True
    return False


def give_up(stream: TextIO | None) -> None:
    """Redirect a broken stream to nowhere, because Python flushes it once more at exit."""
    with contextlib.suppress(OSError, ValueError):
        if stream is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


# --- The status line -------------------------------------------------------------------------------------------
# As cargo and psql do: it is for people at a terminal. Where standard error is none, nothing is written.


PATIENCE_SECONDS = 1.0
"""So long nobody wonders what happens."""


class StatusLine:
    """Shows ``text`` at the bottom of the terminal while the block runs, after one second. ``since`` is the start of
    that second on the monotonic clock, by default now.

    A terminal that cannot redraw a line shows it once. ``hidden`` removes the line for other output.
    """

    def __init__(self, text: Callable[[], str], since: float | None = None) -> None:
        self._text = text
        self._since = time.monotonic() if since is None else since
        self._lock = RLock()
        self._due = self._hidden = self._closed = False
        self._told = False
        self._live: Live | None = None
        self._timer: Timer | None = None

    def __enter__(self) -> StatusLine:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Show the line after a second, if standard error is a terminal."""
        if sys.stderr.isatty():
            keep_stderr()
            self._timer = Timer(max(0.0, self._since + PATIENCE_SECONDS - time.monotonic()), self._become_due)
            self._timer.daemon = True
            self._timer.start()

    def close(self) -> None:
        """Remove the line for good."""
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            self._closed = True
            self._draw()

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Remove the line while something else is written to the same terminal."""
        with self._lock:
            self._hidden = True
            self._draw()
        try:
            yield
        finally:
            with self._lock:
                self._hidden = False
                self._draw()

    def _become_due(self) -> None:
        with self._lock:
            self._due = True
            self._draw()

    def _draw(self) -> None:
        shown = self._due and not self._hidden and not self._closed
        if shown and self._live is None:
            self._live = self._begun()
        elif not shown and self._live is not None:
            self._live.stop()
            self._live = None

    def _begun(self) -> Live | None:
        from rich.console import Console
        from rich.live import Live
        from rich.spinner import Spinner
        from rich.text import Text

        console = Console(stderr=True, highlight=False)
        if console.is_dumb_terminal:
            if not self._told:
                console.print(Text(self._text()))
            self._told = True
            return None
        spinner = Spinner("dots")

        def line() -> Spinner:
            spinner.update(text=Text(self._text()))  # names in it are no markup
            return spinner

        live = Live(console=console, get_renderable=line, refresh_per_second=4, transient=True, redirect_stdout=False)
        live.start()
        return live


@contextmanager
def working(what: str, shown: bool = True, since: float | None = None) -> Iterator[StatusLine]:
    """Show on the status line what is going on and for how long, while the block runs; nothing unless ``shown``."""
    begin = time.monotonic()
    status = StatusLine(lambda: f"{what} … {time.monotonic() - begin:.0f} s", since)
    if not shown:
        yield status
        return
    with status:
        yield status
