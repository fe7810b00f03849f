"""Optimizations of Spark must not keep it from running: if one fails, a warning is logged and Spark goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TypeVar

T = TypeVar("T")

_LOG = logging.getLogger("sqlstream.spark")


def guarded(key: str, act: Callable[[], T], otherwise: T) -> T:
    """The result of ``act``, or ``otherwise`` if that fails. ``key`` is the setting that switches it off."""
    try:
        return act()
    except Exception as error:
        _LOG.warning('Spark runs without "%s": %s', key, error)
        return otherwise


@contextmanager
def guarded_context(key: str, context: AbstractContextManager[object]) -> Iterator[None]:
    """Inside ``context``, or without it where it cannot be entered."""
    with ExitStack() as stack:
        guarded(key, lambda: stack.enter_context(context), None)
        yield
