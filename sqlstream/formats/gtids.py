"""Which transactions of MariaDB's binary log have been read, by their global identifiers (GTID), which are the same in
the logs of all servers that replicate each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_HEADER = 19


@dataclass(frozen=True)
class GtidPosition:
    """``last``: of each domain the server and the number of its last transaction; all before it have been read, too."""

    last: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    @staticmethod
    def of(text: str) -> GtidPosition:
        """Reads a text such as ``0-1-270,7-1-3``. ValueError for what is none."""
        last = {}
        for gtid in filter(None, (part.strip() for part in text.split(","))):
            domain, server, number = map(int, gtid.split("-"))
            last[domain] = server, number
        return GtidPosition(last)

    def with_transaction(self, event: bytes) -> GtidPosition:
        """The position behind the transaction that begins with this event."""
        server = int.from_bytes(event[5:9], "little")
        number = int.from_bytes(event[_HEADER : _HEADER + 8], "little")
        domain = int.from_bytes(event[_HEADER + 8 : _HEADER + 12], "little")
        return GtidPosition({**self.last, domain: (server, number)})

    def __str__(self) -> str:
        return ",".join(f"{domain}-{server}-{number}" for domain, (server, number) in sorted(self.last.items()))
