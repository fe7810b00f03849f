"""A store in memory that counts its traffic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlstream.udfs.kernel import StateKey


@dataclass
class Traffic:
    """Calls, entries and bytes read from and written to a store."""

    gets: int = 0
    puts: int = 0
    entries_read: int = 0
    entries_written: int = 0
    bytes_read: int = 0
    bytes_written: int = 0


@dataclass
class MemoryStore:
    """A ``Store`` in memory."""

    entries: dict[StateKey, bytes] = field(default_factory=dict)
    traffic: Traffic = field(default_factory=Traffic)

    def get(self, keys: Sequence[StateKey]) -> list[bytes | None]:
        values = [self.entries.get(key) for key in keys]
        self.traffic.gets += 1
        self.traffic.entries_read += len(keys)
        self.traffic.bytes_read += sum(len(value) for value in values if value is not None)
        return values

    def put(self, entries: Mapping[StateKey, bytes | None]) -> None:
        self.traffic.puts += 1
        self.traffic.entries_written += len(entries)
        for key, value in entries.items():
            if value is None:
                self.entries.pop(key, None)
            else:
                assert isinstance(value, bytes), f"the store takes bytes, not {type(value).__name__}"
                self.entries[key] = value
                self.traffic.bytes_written += len(value)

    def snapshot(self) -> dict[StateKey, bytes]:
        """A copy of all entries."""
        return dict(self.entries)

    def restore(self, snapshot: Mapping[StateKey, bytes]) -> None:
        """Replaces all entries by those of a snapshot."""
        self.entries = dict(snapshot)

    def forget_traffic(self) -> None:
        """Resets the traffic counters."""
        self.traffic = Traffic()

    @property
    def size(self) -> int:
        """The total size of all entries in bytes."""
        return sum(map(len, self.entries.values()))
