"""Where the next match may begin, apart from matches themselves: plans need no arrays."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class SkipTo(Enum):
    PAST_LAST_ROW = "PAST LAST ROW"
    NEXT_ROW = "TO NEXT ROW"
    FIRST = "TO FIRST"
    LAST = "TO LAST"


@dataclass(frozen=True)
class Skip:
    """Where the next match may begin: AFTER MATCH SKIP."""

    to: SkipTo
    variable: str | None = None

    def __str__(self) -> str:
        return f"{self.to.value} {self.variable}" if self.variable is not None else self.to.value
