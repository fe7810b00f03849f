"""Ctrl-C and Ctrl-Z: what they end, and what they must not."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Stopped(KeyboardInterrupt):
    """Ctrl-C has ended a query or a wait, and that has been said."""


class SentBack(Exception):
    """Ctrl-Z: what runs is to go on in the background."""


@contextmanager
def unbroken() -> Iterator[None]:
    """Ctrl-C does nothing in the block, which ends what an earlier one has interrupted."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler if before is None else before)
