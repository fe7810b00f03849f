"""Room for deeply nested SQL: reading takes some twenty Python frames for each level, and later steps some ten.

A function ``with_room`` runs as it is. Where Python's recursion limit stops it, it runs again in a thread of its own
whose stack is large, so ordinary statements pay nothing, and the stack of the caller's thread is never at risk.
Python 3.12 and 3.13 bound the depth of C calls as well, whatever the stack, so there fewer levels fit.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from functools import wraps
from typing import ParamSpec, TypeVar

from sqlstream.errors import ParseError

NESTING = "SS107"
TOO_DEEP = "the statement is nested too deeply"
USE_VIEWS = "Put inner queries into views, and long expressions into computed columns."

P = ParamSpec("P")
T = TypeVar("T")

# Address space, of which only what is used becomes memory. Less where the system does not give as much.
_STACKS = tuple(megabytes << 20 for megabytes in (1024, 256, 64))
_BYTES_OF_A_FRAME = 2048  # a call through C takes a quarter of that in a release build of Python


class TooDeep(RecursionError):
    """A large stack is not enough either."""


class _Here(threading.local):
    """``roomy``: this thread has a large stack."""

    roomy = False


_here = _Here()


def with_room(function: Callable[P, T]) -> Callable[P, T]:
    """The function, which has no effects before it ends, with as much room for recursion as there is.

    :raises ParseError: SS107 where that is not enough.
    """

    @wraps(function)
    def roomy(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return run_with_room(lambda: function(*args, **kwargs))
        except TooDeep:
            raise ParseError(NESTING, TOO_DEEP, hint=USE_VIEWS) from None

    return roomy


def run_with_room(run: Callable[[], T]) -> T:
    """What ``run`` returns, which may be called twice.

    :raises TooDeep: where a large stack is not enough.
    """
    if _here.roomy:
        try:
            return run()
        except RecursionError:
            raise TooDeep from None
    try:
        return run()
    except RecursionError:
        pass  # not handled here: the frames that the exception holds are freed first
    _require_frames(_TO_START_A_THREAD)
    return _in_large_stack(run)


_TO_START_A_THREAD = 50


def _require_frames(count: int) -> None:
    """RecursionError, for a caller further out to handle, where the limit is nearer than so many frames."""
    if count:
        _require_frames(count - 1)


def _in_large_stack(run: Callable[[], T]) -> T:
    results: list[T] = []
    errors: list[BaseException] = []
    context = copy_context()

    def body() -> None:
        _here.roomy = True
        try:
            results.append(context.run(run_with_room, run))
        except BaseException as error:  # raised in the thread that waits
            errors.append(error)

    with _limits.raised():
        _started(body).join()
    if errors:
        raise errors.pop()
    return results.pop()


def _started(body: Callable[[], None]) -> threading.Thread:
    for size in _STACKS[:-1]:
        try:
            return _limits.start(body, size)
        except (OverflowError, RuntimeError, ValueError):  # the system gives no such stack
            continue
    return _limits.start(body, _STACKS[-1])


class _Limits:
    """The recursion limit and the size of new stacks, which are the whole process's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._before = 0

    def start(self, body: Callable[[], None], size: int) -> threading.Thread:
        thread = threading.Thread(target=body, name="sqlstream-deep", daemon=True)
        with self._lock:
            before = threading.stack_size(size)
            try:
                sys.setrecursionlimit(max(sys.getrecursionlimit(), size // _BYTES_OF_A_FRAME))
                thread.start()
            finally:
                threading.stack_size(before)
        return thread

    @contextmanager
    def raised(self) -> Iterator[None]:
        """Puts the recursion limit back when the last of several threads has ended."""
        with self._lock:
            self._before = sys.getrecursionlimit() if self._users == 0 else self._before
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    sys.setrecursionlimit(self._before)


_limits = _Limits()
