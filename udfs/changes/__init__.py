"""Changes of rows: kernels that keep what is there by key."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

# --- set operations over two inputs ---------------------------------------------------------------------------


class SetKind(Enum):
    INTERSECT = "INTERSECT"
    INTERSECT_ALL = "INTERSECT ALL"
    EXCEPT = "EXCEPT"
    EXCEPT_ALL = "EXCEPT ALL"

    @property
    def intersects(self) -> bool:
        return self in (SetKind.INTERSECT, SetKind.INTERSECT_ALL)

    @property
    def repeats(self) -> bool:
        """True where a row may come out several times."""
        return self in (SetKind.INTERSECT_ALL, SetKind.EXCEPT_ALL)

    def times(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """How often a row comes out that the sides have so often."""
        import numpy as np  # which the planner does without

        if self.intersects:
            count: np.ndarray = np.minimum(left, right)
        elif self.repeats:
            count = np.maximum(left - right, 0)
        else:
            count = np.where(right > 0, 0, left)
        return count if self.repeats else np.minimum(count, 1)
