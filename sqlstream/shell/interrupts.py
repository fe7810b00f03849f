"""Ctrl-C and Ctrl-Z: what they end, and what they must not."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import NoReturn


class Stopped(KeyboardInterrupt):
    """Ctrl-C has ended a query or a wait, and that has been said."""


class SentBack(Exception):
    """Ctrl-Z: what runs is to go on in the background."""


@dataclass(frozen=True)
class Pressed:
    """Which of the two keys was pressed while something runs, for loops that look again and again."""

    ctrl_c: threading.Event = field(default_factory=threading.Event)
    ctrl_z: threading.Event = field(default_factory=threading.Event)

    def heed(self) -> None:
        """Raises KeyboardInterrupt after Ctrl-C, SentBack after Ctrl-Z."""
        if self.ctrl_c.is_set():
            raise KeyboardInterrupt
        if self.ctrl_z.is_set():
            raise SentBack

    def interrupt(self, _number: int, _frame: FrameType | None) -> NoReturn:
        """A handler of the signal that remembers it, too: Python drops an exception that comes while it collects
        garbage, with a word on standard error at best, and the query would go on."""
        self.ctrl_c.set()
        raise KeyboardInterrupt


def remembering(pressed: Pressed) -> AbstractContextManager[None]:
    """Ctrl-C in the block is heeded even where its exception is lost."""
    return _handled_by(pressed.interrupt)


def unbroken() -> AbstractContextManager[None]:
    """Ctrl-C does nothing in the block, which ends what an earlier one has interrupted."""
    return _handled_by(lambda *_: None)


@contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """The signal, in the block; threads but the main one never see it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler if before is None else before)
