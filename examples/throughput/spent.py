"""Processor time by what it was spent on, for benchmarks of kernels without an engine."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")


@dataclass
class Spent:
    """Seconds of processor time by stage, and the rows that came out."""

    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    results: int = 0

    def on(self, stage: str, work: Callable[[], T]) -> T:
        start = time.process_time()
        actual = work()
        self.seconds[stage] += time.process_time() - start
        return actual
