"""What MATCH_RECOGNIZE reads of matches: values in single rows, aggregates over rows, and what is of the match."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from sqlglot import exp

from sqlstream.planner.fields import Item


class Reads(Enum):
    """What an operand is of."""

    ROW = "row"
    ROWS = "rows"
    """An aggregate."""
    CLASSIFIER = "classifier"
    NUMBER = "number"


@dataclass(frozen=True)
class MatchOperand:
    """What a condition or a measure reads of the rows of a match, by the name of ``item``, whose expression is over the
    fields of the input.

    ``variable`` None: of all rows. A value of a ROW is in the last or first row of the variable, or ``offset`` of its
    rows away from there, and ``shift`` rows behind that; with ``current`` in the row that is about to be mapped.
    ``absent``: the value where there is no such row, NULL if None. ``running``: what comes behind a row does not count.
    """

    item: Item
    reads: Reads = Reads.ROW
    variable: str | None = None
    last: bool = True
    offset: int = 0
    shift: int = 0
    current: bool = False
    running: bool = True
    absent: exp.Expression | None = None

    @property
    def name(self) -> str:
        return self.item.name


@dataclass(frozen=True)
class Defined:
    """The condition on rows of a variable, over operands."""

    variable: str
    condition: exp.Expression
