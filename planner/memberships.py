"""When IN with a subquery is neither true nor false: SQL's three-valued logic for one value and for rows of values.

``(a, b) IN (SELECT c, d …)`` is TRUE if a row is equal, else NULL if the comparison with some row is NULL, else FALSE.
A comparison is NULL where each position is equal or has a NULL on either side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product


@dataclass(frozen=True)
class UnknownCase:
    """One combination of NULLs for which ``(a, b) IN (SELECT c, d …)`` is NULL. The fields are positions in the row,
    from 0.

    The row before IN is NULL at the positions ``own``. The subquery has a row that is NULL at the positions ``theirs``,
    and equal at the positions ``equal``, which are all the others.
    """

    equal: tuple[int, ...]
    own: tuple[int, ...]
    theirs: tuple[int, ...]

    @property
    def outside(self) -> tuple[int, ...]:
        """The positions at which nothing is compared, because one of the two values is NULL."""
        return tuple(sorted((*self.own, *self.theirs)))


def unknown_cases(own: Sequence[bool], theirs: Sequence[bool]) -> list[UnknownCase]:
    """All cases in which IN is NULL; empty where IN is always TRUE or FALSE.

    ``own`` and ``theirs`` say for each position whether the value before IN, and that of the subquery, may be NULL.
    """
    choices = [
        ("equal", *(("own",) if o else ()), *(("theirs",) if t else ())) for o, t in zip(own, theirs, strict=True)
    ]
    cases = []
    for chosen in product(*choices):
        positions = {name: tuple(i for i, c in enumerate(chosen) if c == name) for name in ("equal", "own", "theirs")}
        if len(positions["equal"]) < len(choices):
            cases.append(UnknownCase(**positions))
    return cases
