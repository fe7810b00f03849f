"""Kernels over changelogs: normalization, set operations, and results that must be retracted with their rows."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

# --- set operations over two inputs ---------------------------------------------------------------------------


class SetKind(Enum):
    """INTERSECT and EXCEPT, with and without ALL."""

    INTERSECT = "INTERSECT"
    INTERSECT_ALL = "INTERSECT ALL"
    EXCEPT = "EXCEPT"
    EXCEPT_ALL = "EXCEPT ALL"

    @property
    def intersects(self) -> bool:
        """True for INTERSECT."""
        return self in (SetKind.INTERSECT, SetKind.INTERSECT_ALL)

    @property
    def repeats(self) -> bool:
        """True for the variants with ALL, whose results may contain a row several times."""
        return self in (SetKind.INTERSECT_ALL, SetKind.EXCEPT_ALL)

    def times(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """How many times each row is in the result. ``left`` and ``right`` have the number of times that it is in each
        input; all are int64 arrays.
        """
        import numpy as np  # which the planner does without

        if self.intersects:
            count: np.ndarray = np.minimum(left, right)
        elif self.repeats:
            count = np.maximum(left - right, 0)
        else:
            count = np.where(right > 0, 0, left)
        return count if self.repeats else np.minimum(count, 1)
