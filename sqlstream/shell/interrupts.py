"""Ctrl-C and Ctrl-Z, and the keys that are pressed while a query runs."""

from __future__ import annotations

import select
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from threading import Event, Thread
from types import FrameType
from typing import NoReturn

from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import clear_typeahead, store_typeahead
from prompt_toolkit.keys import Keys


class Stopped(KeyboardInterrupt):
    """Raised after Ctrl-C has ended a query or a wait, and the user has been informed."""


class SentBack(Exception):
    """Raised after Ctrl-Z: the running query is to go on in the background."""


@dataclass(frozen=True)
class Pressed:
    """Records which of Ctrl-C and Ctrl-Z was pressed, for loops that poll."""

    ctrl_c: threading.Event = field(default_factory=threading.Event)
    ctrl_z: threading.Event = field(default_factory=threading.Event)

    def heed(self) -> None:
        """Raise KeyboardInterrupt after Ctrl-C, SentBack after Ctrl-Z."""
        if self.ctrl_c.is_set():
            raise KeyboardInterrupt
        if self.ctrl_z.is_set():
            raise SentBack

    def interrupt(self, _number: int, _frame: FrameType | None) -> NoReturn:
        """Handle the signal of Ctrl-C, and record it.

        Python drops an exception that is raised during garbage collection; without the record the query would
        continue.
        """
        self.ctrl_c.set()
        raise KeyboardInterrupt


def remembering(pressed: Pressed) -> AbstractContextManager[None]:
    """A context manager that records Ctrl-C in ``pressed``, even if Python loses its KeyboardInterrupt."""
    return _handled_by(pressed.interrupt)


def unbroken() -> AbstractContextManager[None]:
    """A context manager in which Ctrl-C has no effect, for work that must be completed after an earlier Ctrl-C."""
    return _handled_by(lambda *_: None)


@contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Install the signal handler for the block; only on the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler if before is None else before)


# --- Keys that are pressed while a query runs: Ctrl-Z is handled, all others wait for the prompt ---------------
# The terminal would make a signal of Ctrl-Z, which stops Spark and whatever has started the shell with it. So the key
# is taken from it while somebody listens.


_LOOK_SECONDS = 0.1


@contextmanager
def listening(source: Input) -> Iterator[Pressed]:
    """A context manager that detects Ctrl-Z and Ctrl-C. Other keys are not echoed; they are kept for the next prompt,
    unless Ctrl-C follows.
    """
    pressed, ended = Pressed(), Event()
    thread = Thread(target=_listen, args=(source, pressed.ctrl_z, ended), name="sqlstream-keys", daemon=True)
    with _keys_one_by_one(source.fileno()), remembering(pressed):
        thread.start()
        try:
            yield pressed
        except KeyboardInterrupt:
            with unbroken():
                clear_typeahead(source)
            raise
        finally:
            with unbroken():
                ended.set()
                thread.join()


def _listen(source: Input, pressed: Event, ended: Event) -> None:
    while not ended.is_set():
        readable, _, _ = select.select([source.fileno()], [], [], _LOOK_SECONDS)
        if not readable:
            continue
        keys = source.read_keys()
        if any(key.key == Keys.ControlZ for key in keys):
            pressed.set()
        store_typeahead(source, [key for key in keys if key.key != Keys.ControlZ])
        if source.closed:
            return


@contextmanager
def _keys_one_by_one(terminal: int) -> Iterator[None]:
    """Read keys without Enter and echo, Ctrl-Z as a key and Ctrl-C as a signal; restore the terminal afterwards."""
    import termios  # Windows has none

    before = termios.tcgetattr(terminal)
    changed = termios.tcgetattr(terminal)
    changed[3] &= ~(termios.ICANON | termios.ECHO)
    changed[3] |= termios.ISIG
    changed[6] = [*changed[6]]
    changed[6][termios.VSUSP] = b"\0"  # none
    termios.tcsetattr(terminal, termios.TCSADRAIN, changed)
    try:
        yield
    finally:
        with unbroken():
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)
