"""A line on standard error that says what takes so long, and goes away.

As cargo and psql do: it is for people at a terminal. Where standard error is none, nothing is written.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock, Timer
from typing import TYPE_CHECKING

from sqlstream.spark.tuning.standard_error import keep_stderr

if TYPE_CHECKING:
    from types import TracebackType

    from rich.live import Live

PATIENCE_SECONDS = 1.0
"""So long nobody wonders what happens."""


class StatusLine:
    """Shows ``text`` at the bottom of the terminal while the block runs, once a second has passed ``since`` a moment of
    the monotonic clock: by default now.

    A terminal that cannot redraw a line gets it once. The block may take it away for its own output (``hidden``).
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
        if sys.stderr.isatty():
            keep_stderr()
            self._timer = Timer(max(0.0, self._since + PATIENCE_SECONDS - time.monotonic()), self._become_due)
            self._timer.daemon = True
            self._timer.start()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            self._closed = True
            self._draw()

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """The line is away while something else is written to the same terminal."""
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
    """Says ``what`` is going on, and for how long, while the block runs; never where it is not ``shown``."""
    begin = time.monotonic()
    status = StatusLine(lambda: f"{what} … {time.monotonic() - begin:.0f} s", since)
    if not shown:
        yield status
        return
    with status:
        yield status
