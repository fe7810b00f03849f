"""Savepoints of one job: where they go, and whether there can be any."""

from __future__ import annotations

from dataclasses import dataclass

from sqlstream.jobs.checkpoints.storage import Storage
from sqlstream.jobs.savepoints import create_savepoint, default_savepoint, require_sink


@dataclass(frozen=True)
class SavepointTaking:
    """``checkpoint`` is that of the job with a name. ``directory``: where savepoints go that get no path of their own.

    ``has_sink``: False for a query whose results are fetched, which another job could not go on with.
    """

    name: str
    checkpoint: Storage
    path: str
    directory: str | None
    has_sink: bool

    def require_possible(self) -> None:
        """ExecutionError SS426 where the job has no sink."""
        require_sink(self.name, self.has_sink)

    def take(self, path: str | bool, *, drained: bool = False) -> str:
        """A copy of the last epoch, at ``path`` or, for True, where they go by default; where it is.

        Spark's query must be at rest. ExecutionError SS426 where no savepoint can be taken.
        """
        self.require_possible()
        target = path if isinstance(path, str) else default_savepoint(self.path, self.name, self.directory)
        return create_savepoint(self.checkpoint, target, self.name, drained=drained)
