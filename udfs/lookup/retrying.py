"""When a lookup that found nothing, or failed, is tried again."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from sqlstream.udfs.lookup.options import Retry

JITTER = 0.1
"""Exponential delays vary by this share in either direction, so that keys that failed together spread. Fixed ones are
exact."""


class Attempts:
    """How often one key was tried again, by the policy that said so."""

    __slots__ = ("_times",)

    def __init__(self) -> None:
        self._times: dict[Retry, int] = {}

    def delay(
        self, retries: Sequence[Retry], *, missed: bool, spread: Callable[[], float] = random.random
    ) -> float | None:
        """Seconds until the next attempt after a miss or an error, which is counted; None: no more attempts.

        ``spread``: a random number of [0, 1).
        """
        for retry in retries:
            if retry.on_miss if missed else retry.on_error:
                done = self._times.get(retry, 0)
                if done >= retry.times:
                    return None
                self._times[retry] = done + 1
                return delay_ms(retry, done, spread()) / 1000
        return None


def delay_ms(retry: Retry, done: int, spread: float = 0.5) -> float:
    """The delay after ``done`` delays. ``spread`` of 0.5 leaves it exact."""
    if not retry.exponential:
        return retry.delay_ms
    # Larger exponents would overflow, and are past every limit and timeout.
    delay = float(retry.delay_ms * 2 ** min(done, 40))
    if retry.limit_ms is not None:
        delay = min(delay, retry.limit_ms)
    return delay * (1 + JITTER * (2 * spread - 1))
