"""What planning asks about the tables and functions of a plan, and the session that runs it."""

from __future__ import annotations

from typing import Protocol

from sqlstream.planner.catalog import Function, Table
from sqlstream.planner.nodes import Scan

Source = tuple[str, tuple[tuple[str, str], ...]]
"""The name of a table, and its options."""


def source_of(scan: Scan) -> Source:
    """What a scan reads: scans of the same may have one source (``shared_sources``). An OPTIONS hint, or the time of
    FOR SYSTEM_TIME, makes a table another one.
    """
    return scan.table.name, scan.table.options


class PlannedSources(Protocol):
    """What planning asks about the tables and functions of a plan, and the session that runs it."""

    @property
    def zone(self) -> str | None:
        """The session's time zone by a name that Arrow knows; None where it knows none."""
        ...

    def reads_files(self, scan: Scan) -> bool:
        """True for a scan whose files or messages tasks may read themselves, instead of Spark."""
        ...

    def discards(self, table: Table) -> bool:
        """True for a table whose connector keeps no rows, so that tasks need not hand them to Spark."""
        ...

    def function(self, name: str) -> Function | None:
        """The user's function of a name; None where there is none."""
        ...


class ThroughSpark:
    """The default of ``EngineSettings.sources``: Spark reads all files, and every sink keeps its rows."""

    @property
    def zone(self) -> str | None:
        """None: nothing is known of the session."""
        return None

    def reads_files(self, scan: Scan) -> bool:
        """False for every scan."""
        return False

    def discards(self, table: Table) -> bool:
        """False for every table."""
        return False

    def function(self, name: str) -> Function | None:
        """None for every name."""
        return None
