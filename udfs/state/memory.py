"""A store in memory that counts what it is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlstream.udfs.kernel import StateKey


@dataclass
class Traffic:
    """Calls, entries and bytes that went to and from a store."""

    gets: int = 0
    puts: int = 0
    entries_read: int = 0
    entries_written: int = 0
    bytes_read: int = 0
    bytes_written: int = 0


@dataclass
class MemoryStore:
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
        return dict(self.entries)

    def restore(self, snapshot: Mapping[StateKey, bytes]) -> None:
        self.entries = dict(snapshot)

    def forget_traffic(self) -> None:
        self.traffic = Traffic()

    @property
    def size(self) -> int:
        """Bytes of all entries."""
        return sum(map(len, self.entries.values()))
