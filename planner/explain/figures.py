"""What a running job counts of its plan, to be shown beside the operators: made elsewhere, of a job's reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Figure:
    """A count or a text. ``node``: the position of its operator in ``Node.walk``; None for the whole job. ``name``
    tells it from others of the same operator, ``label`` says what it is, ``more`` what exactly is counted. ``value`` is
    None where nothing is known yet, ``per_second`` where there is no rate. ``words`` stand for the value."""

    node: int | None
    name: str
    label: str
    more: str = ""
    value: int | float | str | None = None
    per_second: float | None = None
    words: str | None = None

    @property
    def id(self) -> str:
        return f"{'job' if self.node is None else self.node}.{self.name}"

    @property
    def text(self) -> str:
        """For people: ``words``, or the value with its rate."""
        if self.words is not None:
            return self.words
        if self.value is None:
            return "–"
        shown = f"{self.value:,}" if isinstance(self.value, int) else str(self.value)
        return shown if self.per_second is None else f"{shown} ({_rate_text(self.per_second)}/s)"


def _rate_text(rate: float) -> str:
    """Slow ones with a decimal, so that they are not taken for none."""
    return f"{rate:,.1f}" if 0 < rate < 10 else f"{rate:,.0f}"


@dataclass(frozen=True)
class Figures:
    """All that is known at a moment; which figures there are depends on the plan alone. ``source``: where a page finds
    newer ones, as ``as_json`` writes them; None for a page that stays as it is."""

    figures: Sequence[Figure]
    source: str | None = None

    def of(self, node: int | None) -> Iterable[Figure]:
        return (figure for figure in self.figures if figure.node == node)

    def as_json(self) -> dict[str, Any]:
        """An object of JSON values."""
        return {
            "figures": [
                {
                    "id": f.id,
                    "node": f.node,
                    "name": f.name,
                    "label": f.label,
                    "value": f.value,
                    "per_second": f.per_second,
                    "text": f.text,
                }
                for f in self.figures
            ]
        }
