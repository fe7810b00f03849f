"""Joins of two streams: pairs of matching rows, conditions on them, and the kernels that store rows of either side."""

from __future__ import annotations

from enum import Enum

# --- kinds of joins, and which rows they emit -----------------------------------------------------------------


class JoinKind(Enum):
    """The kind of a join: INNER, an outer join, SEMI or ANTI."""

    INNER = "INNER"
    LEFT = "LEFT"
    RIGHT = "RIGHT"
    FULL = "FULL"
    SEMI = "LEFT SEMI"
    """Rows of the left side that have a match."""
    ANTI = "LEFT ANTI"
    """Rows of the left side that have no match."""

    @property
    def pairs(self) -> bool:
        """True for joins whose results have columns of both sides."""
        return self not in (JoinKind.SEMI, JoinKind.ANTI)

    @property
    def padded(self) -> tuple[bool, bool]:
        """A pair of booleans, for the left and the right side: true if rows without a partner are emitted. In an outer
        join the columns of the other side are then NULL, an ANTI join has none; LEFT gives ``(True, False)``.
        """
        return self in (JoinKind.LEFT, JoinKind.FULL, JoinKind.ANTI), self in (JoinKind.RIGHT, JoinKind.FULL)
