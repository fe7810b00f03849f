"""Sources of messages without Spark: ``Stream`` asks for positions and reads what is between them, as Spark does."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlstream.connectors import source_connector, validate
from sqlstream.connectors.on_spark.received import MessageStream, ReceivingSettings
from sqlstream.connectors.receiving import MessageSource
from sqlstream.connectors.secrets import secrets_of
from sqlstream.planner.catalog import Table

COLUMNS = ("value", "id", "subject", "headers")


def settings_of(table: Table, folder: Path, **changes: Any) -> ReceivingSettings:
    """What the source of a table receives, with ``changes``."""
    kind = source_connector(table.connector)
    assert isinstance(kind, MessageSource)
    assert validate(table, {}) == ()
    values = kind.resolved_values(table)
    settings = ReceivingSettings(
        receiver=kind.receiver(table, values, 0),
        secrets=secrets_of(table),
        folder=str(folder / "received" / "t"),
        columns=COLUMNS,
        most=values["source.max-rows-per-trigger"],
        most_bytes=values["spool.max-bytes"],
        remembered=kind.remembered(values),
        lasting=True,
    )
    return replace(settings, **changes)


class Stream:
    """A source. ``offsets``: the positions that are in the checkpoint, the last of which may be of a micro-batch that
    is not complete.
    """

    def __init__(self, settings: ReceivingSettings) -> None:
        self.settings = settings
        self.offsets: list[str] = []
        self.reader = MessageStream(settings)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.reader.stop()

    def restart(self) -> None:
        """As another process does that goes on with the checkpoint."""
        self.reader.stop()
        self.reader = MessageStream(self.settings)

    def plan(self) -> bool:
        """Writes the position of the next micro-batch down. False if nothing is new."""
        if not self.offsets:
            self.offsets.append(json.dumps(self.reader.initialOffset()))
        start = json.loads(self.offsets[-1])
        end = self.reader.latestOffset(start, None)
        if end == start:
            return False
        self.offsets.append(json.dumps(end))
        return True

    def read(self) -> list[dict[str, Any]]:
        """The messages of the last micro-batch that is written down, as its tasks read them."""
        start, end = (json.loads(offset) for offset in self.offsets[-2:])
        shares = self.reader.partitions(start, end)
        return [row for share in shares for batch in self.reader.read(share) for row in batch.to_pylist()]

    def values(self, count: int, seconds: float = 10) -> list[Any]:
        """What the next messages hold, which are ``count``."""
        return [message["value"] for message in self.messages(count, seconds)]

    def messages(self, count: int, seconds: float = 10) -> list[dict[str, Any]]:
        """The next messages, which are ``count``."""
        found: list[dict[str, Any]] = []

        def are_enough() -> bool:
            found.extend(self._next())
            return len(found) >= count

        self.wait(are_enough, seconds)
        assert len(found) == count
        return found

    def _next(self) -> list[dict[str, Any]]:
        return self.read() if self.plan() else []

    def wait(self, holds: Callable[[], bool], seconds: float = 10) -> None:
        end = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < end, "nothing comes"
            time.sleep(0.01)
