"""What a stream of changes asks of a database server, whichever it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

from sqlstream.connectors.changes.copies import TableCopier
from sqlstream.connectors.changes.positions import Position
from sqlstream.connectors.changes.received_log import ReceivedLog
from sqlstream.errors import ConnectorError, repeating
from sqlstream.udfs.database_changes import CANNOT_READ, ChangedTable, RowsOfChanges, lsn_text

LOG_LOST = repeating("SS621")


class ChangeServer(ABC):
    """A server and a table of it, for the driver. It connects when it is first asked, and again after ``disconnect``;
    until then it can be pickled.

    ``product``: what the server is called in messages; ``anew``: the hint that says how to begin again.
    """

    product: ClassVar[str]
    anew: ClassVar[str]

    @property
    @abstractmethod
    def log(self) -> str:
        """What the log is called in messages."""

    @property
    @abstractmethod
    def table(self) -> ChangedTable:
        """The table that is read."""

    @abstractmethod
    def rows(self) -> RowsOfChanges:
        """What tasks read files with."""

    @abstractmethod
    def first(self) -> Position:
        """Where a job without checkpoint begins."""

    @abstractmethod
    def log_end(self) -> int:
        """Where the log ends: what was committed by now is before this place."""

    def gtids_at(self, place: int) -> str:
        """How other servers that have the same transactions call a place of the log; empty where they have no name for
        it.
        """
        return ""

    def located(self, position: Position) -> Position:
        """The position in the log of the server that answers now. ConnectorError SS621 if it is not in that."""
        return position

    @abstractmethod
    def copier(self, position: Position, folder: Path) -> TableCopier:
        """Opens a snapshot, which has a connection of its own. ConnectorError SS621 if the log behind ``position`` is
        gone.
        """

    @abstractmethod
    def receiver(self, since: int, folder: Path, gtids: str) -> ReceivedLog:
        """Starts to receive the log from this place on, which other servers call ``gtids``. ConnectorError SS621 if it
        is gone.
        """

    @abstractmethod
    def is_broken(self, error: Exception) -> bool:
        """True where a connection broke, so that it is worth while to connect again."""

    @abstractmethod
    def reason_of(self, error: Exception) -> str | None:
        """What the server or its client says, in one line; None for errors of others."""

    @abstractmethod
    def disconnect(self) -> None:
        """Ends the connection."""

    def failed(self, error: Exception) -> Exception:
        """The error to raise for one of the server or of its client: SS562. Others are returned unchanged."""
        reason = self.reason_of(error)
        if reason is None:
            return error
        message = f'changes of table "{self.table.name}" cannot be read: {self.product} says: {reason}'
        return ConnectorError(CANNOT_READ, message)

    def another(self) -> ConnectorError:
        message = f"the server of {self.log} is another one than the job has read before"
        return ConnectorError(LOG_LOST, message, hint=self.anew)

    def sends_no_more(self, place: int, which: str) -> ConnectorError:
        message = f"the server does not send its log up to {self.shown(place)}, {which}"
        return ConnectorError(LOG_LOST, message, hint="Look whether it is the server that the job has read before.")

    def shown(self, place: int) -> str:
        """A place of the log as the server spells it."""
        return lsn_text(place)
