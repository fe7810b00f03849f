"""What statements read and change."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlstream.catalog import Catalog
from sqlstream.settings import Settings


@dataclass(frozen=True)
class Workspace:
    """The catalog and the settings of a session, which planning needs together."""

    catalog: Catalog = field(default_factory=Catalog)
    settings: Settings = field(default_factory=Settings)

    def copy(self) -> Workspace:
        """Returns an independent copy."""
        return Workspace(self.catalog.copy(), self.settings.copy())
