"""Messages of transactions that are received before they are committed.

A server that sends large transactions while they run sends parts of several in turn. Each has a file of its own, in
which tasks read it like any other when it is committed. What a sub-transaction has changed is cut off where it is
rolled back: all that follows it until then is of it, or of sub-transactions in it.
"""

from __future__ import annotations

from array import array
from pathlib import Path

from sqlstream.udfs.database_changes import INDEX

_BYTES_AT_ONCE = 1 << 20


class Spool:
    """The file of a transaction, at ``path``, with ``count`` messages of ``size`` bytes. ``head``: its first message,
    which ``commit`` replaces by one as long as it that says when the transaction was committed.
    """

    def __init__(self, path: Path, head: bytes) -> None:
        self.path, self._index_path = path, Path(f"{path}{INDEX}")
        self._content, self._index = path.open("wb"), self._index_path.open("wb")
        self._payloads: list[bytes] = []
        self._lengths = array("I")
        self._head, self._waiting = head, 0
        self._begun: dict[int, tuple[int, int]] = {}
        self._relations: list[tuple[int, int, bytes]] = []
        self.size = self.count = 0
        self._append(head)

    @property
    def relations(self) -> dict[int, bytes]:
        """The last messages that describe the table or a partition, by its number."""
        return {number: payload for _, number, payload in self._relations}

    def add(self, owner: int, payload: bytes, describes: int | None = None) -> None:
        """Adds a message of the transaction, or of the sub-transaction ``owner`` of it. ``describes``: the number of
        the table or of the partition whose columns it names.
        """
        if owner not in self._begun:
            self._begun[owner] = self.size, self.count
        if describes is not None:
            self._relations.append((self.count, describes, payload))
        self._append(payload)

    def undo(self, owner: int) -> None:
        """Removes what a sub-transaction has added."""
        begun = self._begun.get(owner)
        if begun is None:
            return
        self._flush()
        self.size, self.count = begun
        for file, end in ((self._content, self.size), (self._index, 4 * self.count)):
            file.seek(end)
            file.truncate()
        self._begun = {key: place for key, place in self._begun.items() if place < begun}
        self._relations = [described for described in self._relations if described[0] < self.count]

    def commit(self, head: bytes) -> None:
        """Completes the file."""
        assert len(head) == len(self._head), "what follows stays where it is"
        self._flush()
        self._content.seek(0)
        self._content.write(head)
        self._close()

    def discard(self) -> None:
        """Removes the file."""
        self._close()
        self.path.unlink(missing_ok=True)
        self._index_path.unlink(missing_ok=True)

    def _append(self, payload: bytes) -> None:
        self._payloads.append(payload)
        self._lengths.append(len(payload))
        self.size += len(payload)
        self.count += 1
        self._waiting += len(payload)
        if self._waiting > _BYTES_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        self._content.write(b"".join(self._payloads))
        self._index.write(self._lengths.tobytes())
        self._payloads, self._lengths, self._waiting = [], array("I"), 0

    def _close(self) -> None:
        self._content.close()
        self._index.close()
