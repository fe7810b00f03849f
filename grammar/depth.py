"""Room for deeply nested SQL: reading takes some twenty Python frames for each level, and later steps some ten.

A function ``on_deep_stack`` runs as it is. Where Python's recursion limit stops it, it runs again in its own thread
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
from types import FrameType
from typing import ParamSpec, TypeVar

from sqlstream.errors import ParseError

NESTING = "SS107"
TOO_DEEP = "the statement is nested too deeply"
USE_VIEWS = "Put inner queries into views, and long expressions into computed columns."

P = ParamSpec("P")
T = TypeVar("T")

# Address space, of which only what is used becomes memory. Less where the system does not give as much.
_STACKS = tuple(megabytes << 20 for megabytes in (1024, 256, 64))
_PATIENCE_S = 1.0
_BYTES_OF_A_FRAME = 2048  # a call through C takes a quarter of that in a release build of Python


class TooDeep(RecursionError):
    """Raised if an expression is nested so deeply that even the largest stack of a thread is too small."""


class _Here(threading.local):
    """``roomy``: this thread has a large stack. ``trying``: a call runs in its small one."""

    roomy = False
    trying = False


_here = _Here()


def on_deep_stack(function: Callable[P, T]) -> Callable[P, T]:
    """Decorates a function so that it runs with the largest possible stack. The function may be called twice, so it
    must have no effects before it ends.

    :raises ParseError: SS107 where that stack is too small.
    """

    @wraps(function)
    def roomy(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return run_on_deep_stack(lambda: function(*args, **kwargs))
        except TooDeep:
            raise ParseError(NESTING, TOO_DEEP, hint=USE_VIEWS) from None

    return roomy


def run_on_deep_stack(run: Callable[[], T]) -> T:
    """Calls ``run``, with a larger stack if necessary, and returns its result. It may be called twice.

    :raises TooDeep: where the largest stack is too small.
    """
    if _here.roomy:
        try:
            return run()
        except RecursionError:
            raise TooDeep from None
    if _here.trying or _limits.begin():
        outermost, _here.trying = not _here.trying, True
        try:
            return run()
        except RecursionError:
            pass  # not handled here: the frames that the exception holds are freed first
        finally:
            if outermost:
                _here.trying = False
                _limits.end()
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
            results.append(context.run(run_on_deep_stack, run))
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
    """The recursion limit and the size of new stacks, which are the whole process's.

    The limit is raised while calls run in large stacks. Put back while a thread is deeper than it, it ends the process:
    "Cannot recover from stack overflow". And below a raised limit a small stack overflows. So calls in small stacks are
    counted: none begins while the limit is raised, and it changes when those that have begun are over. They take
    milliseconds; a change waits no longer than ``_PATIENCE_S`` for them, as one may wait for what its caller holds.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._small = 0
        self._large = 0
        self._before: int | None = None  # the limit to put back, while it is raised

    def begin(self) -> bool:
        """False where a call is to run in a large stack at once."""
        with self._changed:
            self._put_back()
            if self._large or self._before is not None:
                return False
            self._small += 1
            return True

    def end(self) -> None:
        """A call that ``begin`` has let run is over."""
        with self._changed:
            self._small -= 1
            self._put_back()
            self._changed.notify_all()

    @contextmanager
    def raised(self) -> Iterator[None]:
        """Around a call in a large stack; the one of this thread that waits for it does not count as running."""
        with self._changed:
            self._small -= _here.trying
            self._large += 1
            self._wait_for_small_stacks()
            self._remember_limit()
        try:
            yield
        finally:
            with self._changed:
                self._large -= 1
                if not self._large:
                    self._wait_for_small_stacks()
                self._put_back()
                self._small += _here.trying

    def start(self, body: Callable[[], None], size: int) -> threading.Thread:
        thread = threading.Thread(target=body, name="sqlstream-deep", daemon=True)
        with self._changed:
            before = threading.stack_size(size)
            try:
                sys.setrecursionlimit(max(sys.getrecursionlimit(), size // _BYTES_OF_A_FRAME))
                thread.start()
            finally:
                threading.stack_size(before)
        return thread

    def _remember_limit(self) -> None:
        if self._before is None:
            self._before = sys.getrecursionlimit()

    def _wait_for_small_stacks(self) -> None:
        self._changed.notify_all()
        self._changed.wait_for(lambda: not self._small, _PATIENCE_S)

    def _put_back(self) -> None:
        """The limit as it was, if nothing needs more of it; otherwise the next call that begins or ends does it."""
        if self._before is None or self._small or self._large or _is_any_thread_near(self._before):
            return
        sys.setrecursionlimit(self._before)
        self._before = None


def _is_any_thread_near(limit: int) -> bool:
    """Whether recursion that is none of ours has come near the limit; other threads go on meanwhile."""
    here = threading.get_ident()
    return any(
        _frames_of(top) > (limit - _TO_START_A_THREAD if thread == here else limit // 2)
        for thread, top in sys._current_frames().items()
    )


def _frames_of(frame: FrameType | None) -> int:
    count = 0
    while frame is not None:
        frame, count = frame.f_back, count + 1
    return count


_limits = _Limits()
