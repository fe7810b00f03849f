"""Which sources and functions a query counts the bad rows of."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import quote

METRIC = "bad"
"""What the names of metrics that count bad rows begin with; a number and the name of the source end them."""


@dataclass
class Counted:
    """The sources whose bad rows a query counts: those that are read twice, once."""

    sources: list[tuple[str, str]] = field(default_factory=list)

    def first(self, source: str, what: str = "") -> bool:
        """True where nobody has asked before, for the same reason."""
        is_first = (source, what) not in self.sources
        self.sources.append((source, what))
        return is_first

    @property
    def metric(self) -> str:
        """The name for the source that was asked for last."""
        return f"{METRIC}/{len(self.sources)}/{quote(self.sources[-1][0], safe='')}"
