"""Positions in a table of a database whose changes are read: in what was there, and in the log behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlstream.udfs.database_changes import SnapshotPart, lsn_of, lsn_text


@dataclass(frozen=True)
class CopiedFile:
    """A file of rows that were there. ``longest``: the bytes of its longest row."""

    name: str
    longest: int


@dataclass(frozen=True)
class Position:
    """How far a job has read, as its checkpoint has it.

    * ``system``: which server it is, as that says itself; its replicas say the same.
    * ``lsn``: transactions whose commit is at or behind this place of the log are still to be read.
    * ``since``: where the micro-batch that ends here began to read the log.
    * ``table``: the number of the table in the server, by which it knows another one of the same name; 0: not known.
    * ``gtids``, ``gtids_since``: how other servers that have the same transactions call these places; empty where they
      have no name for them.
    * ``chunk``: the number of the next part of the rows that were there; None: they are all read.
    * ``after``: the key of the last row that was read of them.
    * ``files``: what the micro-batch that ends here has read of them.
    * ``parts``: the snapshots in which they were read; ``unseen``: these hold nothing of what was committed at or
      behind this place of the log.
    """

    system: str
    lsn: int
    since: int
    chunk: int | None = None
    after: tuple[str, ...] | None = None
    files: tuple[CopiedFile, ...] = ()
    parts: tuple[SnapshotPart, ...] = ()
    unseen: int = 0
    gtids: str = ""
    gtids_since: str = ""
    table: int = 0

    @staticmethod
    def at(system: str, lsn: int, gtids: str = "", table: int = 0, *, with_rows: bool) -> Position:
        """Where a job begins: with the rows that are there, or with what changes from now on."""
        return Position(system, lsn, lsn, 0 if with_rows else None, gtids=gtids, gtids_since=gtids, table=table)

    def to_json(self) -> dict[str, Any]:
        """The position as Spark's offset log holds it."""
        given: dict[str, Any] = {"system": self.system, "lsn": lsn_text(self.lsn), "since": lsn_text(self.since)}
        if self.chunk is not None:
            given |= {"chunk": self.chunk, "after": None if self.after is None else list(self.after)}
        if self.files:
            given["files"] = [[file.name, file.longest] for file in self.files]
        if self.parts:
            given |= {"parts": [part.to_json() for part in self.parts], "unseen": lsn_text(self.unseen)}
        if self.gtids:
            given |= {"gtids": self.gtids, "gtids_since": self.gtids_since}
        if self.table:
            given["table"] = self.table
        return given

    @staticmethod
    def of_json(value: Mapping[str, Any]) -> Position:
        after = value.get("after")
        return Position(
            value["system"],
            lsn_of(value["lsn"]),
            lsn_of(value["since"]),
            value.get("chunk"),
            None if after is None else tuple(after),
            tuple(CopiedFile(*file) for file in value.get("files", ())),
            tuple(map(SnapshotPart.of_json, value.get("parts", ()))),
            lsn_of(value.get("unseen", "0/0")),
            value.get("gtids", ""),
            value.get("gtids_since", ""),
            value.get("table", 0),
        )

    def read_to(self, lsn: int, gtids: str = "") -> Position:
        """The position after a micro-batch that has read the log up to ``lsn``. It forgets snapshots that hold nothing
        of what follows.
        """
        parts = self.parts if self.lsn < self.unseen else ()
        unseen = self.unseen if parts else 0
        return replace(
            self, lsn=lsn, since=self.lsn, files=(), parts=parts, unseen=unseen, gtids=gtids, gtids_since=self.gtids
        )

    def copied(
        self, files: tuple[CopiedFile, ...], until: tuple[str, ...] | None, snapshot: str, unseen: int
    ) -> Position:
        """The position after a micro-batch that has read ``files``, which a ``snapshot`` holds, with keys up to
        ``until``; None: all that were left.
        """
        assert self.chunk is not None, "the rows that were there are all read"
        before = self.parts[:-1] if self.parts and self.parts[-1].snapshot == snapshot else self.parts
        return replace(
            self,
            since=self.lsn,
            gtids_since=self.gtids,
            chunk=None if until is None else self.chunk + 1,
            after=until,
            files=files,
            parts=(*before, SnapshotPart(snapshot, until)),
            unseen=max(self.unseen, unseen),
        )
