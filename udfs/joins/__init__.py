"""Joins of two streams: which rows match, and the kernels that keep rows of either side until their partners come."""

from __future__ import annotations

from enum import Enum

# --- kinds of joins, and which rows they emit -----------------------------------------------------------------


class JoinKind(Enum):
    INNER = "INNER"
    LEFT = "LEFT"
    RIGHT = "RIGHT"
    FULL = "FULL"
    SEMI = "LEFT SEMI"
    """Rows of the left side that match."""
    ANTI = "LEFT ANTI"
    """Rows of the left side that do not."""

    @property
    def pairs(self) -> bool:
        """True where rows of both sides come out side by side."""
        return self not in (JoinKind.SEMI, JoinKind.ANTI)

    @property
    def padded(self) -> tuple[bool, bool]:
        """For each side: are its rows without a partner emitted, padded with NULL? ANTI emits them unpadded."""
        return self in (JoinKind.LEFT, JoinKind.FULL, JoinKind.ANTI), self in (JoinKind.RIGHT, JoinKind.FULL)
