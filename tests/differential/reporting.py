"""What the commands of differential tests over golden files print."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar


class Named(Protocol):
    @property
    def name(self) -> str: ...


C = TypeVar("C", bound=Named)


def report(cases: Iterable[C], difference: Callable[[C], str | None]) -> None:
    """A line for each case with what differs; the process ends with 1 where anything does."""
    wrong = count = 0
    for case in cases:
        count += 1
        try:
            problem = difference(case)
        except Exception as error:
            problem = f"{type(error).__name__}: {str(error)[:300]}"
        wrong += problem is not None
        print(f"{case.name} {problem or 'same'}", flush=True)
    print(f"{count} queries, {wrong} differ")
    sys.exit(1 if wrong else 0)
