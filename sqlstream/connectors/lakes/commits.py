"""Commits to tables that others write, too: repeated after conflicts, for a limited time."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from sqlstream.connectors.lakes.versions import NOT_COMMITTED
from sqlstream.errors import ConnectorError
from sqlstream.udfs.texts import one_line

COMMIT_TIMEOUT = "sink.commit-timeout"

_LOG = logging.getLogger("sqlstream.lake")
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 2.0
T = TypeVar("T")


@dataclass(frozen=True)
class CommitRetry:
    """Repeats a commit until it succeeds, for at most ``timeout_ms``. Pauses between attempts double up to two seconds,
    of which a random half is left out: two jobs that conflict do not meet again.

    ``clock``, ``sleep`` (both in seconds) and ``chance`` (from 0 to 1) are those of the process, except in tests.
    """

    timeout_ms: int = 120_000
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random

    def commit(
        self, table: str, opened: Callable[[], T], is_committed: Callable[[T], bool], attempt: Callable[[T], None],
        is_passing: Callable[[Exception], bool],
    ) -> None:  # fmt: skip
        """Commits to ``table``, which is its name in messages. ``opened`` reads its newest version, and
        ``is_committed`` looks whether that has the micro-batch: before each attempt, because the answer of the one
        before may be lost, and after the last one. ``is_passing``: whether a commit that failed may succeed later.

        ConnectorError SS550 after the time, or at once for other errors.
        """
        start, attempts = self.clock(), 1
        first = opened()
        if is_committed(first):
            return
        failure = _failure(attempt, first)
        while failure is not None:
            passing = is_passing(failure)
            left = self.timeout_ms / 1000 - (self.clock() - start)
            again = passing and left > 0
            if again:
                _LOG.info("the commit to %s is repeated: %s", table, one_line(failure))
                self.sleep(min(left, self._pause(attempts)))
            newest = _newest(table, opened)
            if newest is not None and is_committed(newest):
                return
            if not again:
                raise _not_committed(table, failure, attempts, self.clock() - start, passing) from None
            if newest is not None:
                attempts += 1
                failure = _failure(attempt, newest)

    def _pause(self, attempts: int) -> float:
        longest = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(attempts - 1, 10))
        return longest * (0.5 + 0.5 * self.chance())


def _failure(attempt: Callable[[T], None], newest: T) -> Exception | None:
    try:
        attempt(newest)
    except Exception as error:  # of any client of a catalog or a store
        return error
    return None


def _newest(table: str, opened: Callable[[], T]) -> T | None:
    """The newest version; None where the store does not answer this, either."""
    try:
        return opened()
    except ConnectorError as error:
        _LOG.info("%s cannot be read after a failed commit: %s", table, one_line(error))
        return None


def _not_committed(table: str, failure: Exception, attempts: int, seconds: float, passing: bool) -> ConnectorError:
    if not passing:
        return ConnectorError(NOT_COMMITTED, f"rows are not committed to {table}: {one_line(failure)}")
    tried = f"{attempts} attempts" if attempts > 1 else "one attempt"
    message = f"rows are not committed to {table} after {tried} in {seconds:.0f} s: {one_line(failure)}"
    hint = "Let other writers commit less often, or raise 'sink.commit-timeout'; then start again."
    return ConnectorError(NOT_COMMITTED, message, hint=hint)
