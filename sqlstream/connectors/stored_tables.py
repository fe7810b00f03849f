"""What connectors can do besides that store rows themselves: empty their tables, replace and keep them, hold views."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from sqlstream.connectors.connector import Connector
from sqlstream.connectors.environment import Environment
from sqlstream.connectors.table_options import REPLACED
from sqlstream.planner.catalog import Table


class TruncatableTable(Connector):
    """A connector whose tables can be emptied, by TRUNCATE TABLE and INSERT OVERWRITE."""

    @abstractmethod
    def truncate(self, directory: Path, table: Table) -> None:
        """Removes all rows of the table. ``directory``: the session's scratch folder."""


class ReplacingSink(TruncatableTable):
    """A connector whose sink replaces rows in the step in which it adds the first ones: INSERT OVERWRITE shows readers
    the rows before it or those after it, and two of them do not mix.
    """

    @abstractmethod
    def replacing(self, table: Table, partition: Mapping[str, str | None]) -> Table:
        """The table as the sink is to get it: its first micro-batch in a new checkpoint removes all rows, or those of
        a partition. ``partition``: the texts of values by the names of columns.
        """


def replaced_partition(environment: Environment, table: Table) -> dict[str, str | None] | None:
    """The partition that the first micro-batch of a new checkpoint replaces, by the texts of its values; without any
    the whole table, and None for none. A checkpoint that was restored from a savepoint has replaced it before.
    """
    text = table.option(REPLACED)
    return None if text is None or environment.anew else json.loads(text)


class MaintainedTable(Connector):
    """A connector whose tables need upkeep, which changes no row: ALTER TABLE … COMPACT and EXPIRE SNAPSHOTS."""

    @abstractmethod
    def compact(self, table: Table) -> None:
        """Puts small files of the table together."""

    @abstractmethod
    def expire_snapshots(self, table: Table, before: datetime | None) -> None:
        """Forgets the versions of the table that were replaced before a time; None for the time that the table says.
        What they alone have is removed.
        """


class SessionTable(TruncatableTable):
    """A connector that stores rows in the session's scratch folder, which its methods receive as ``directory``."""

    @abstractmethod
    def drop(self, directory: Path, table: Table) -> None:
        """Removes the rows of a dropped table."""

    @abstractmethod
    def rename(self, directory: Path, before: Table, after: Table) -> None:
        """Moves the stored rows of a table that was renamed. ``before`` and ``after``: the table under its old and its
        new name.
        """

    def truncate(self, directory: Path, table: Table) -> None:
        self.drop(directory, table)


class ViewTable(Connector):
    """A connector that can store materialized views: readers of the table see only complete micro-batches."""

    @abstractmethod
    def is_there(self, table: Table) -> bool:
        """True where a table, or files, already exist at the place where the view would be stored."""

    @abstractmethod
    def is_ours(self, table: Table) -> bool:
        """True where the existing rows were written by a sqlstream job. Only then may a new view replace them."""

    def is_gone(self, table: Table) -> bool:
        """True where the place of a view that has complete micro-batches was removed by somebody else. False where a
        view without rows leaves nothing, either.
        """
        return False

    @abstractmethod
    def remove(self, table: Table) -> None:
        """Removes the stored table or its files."""
