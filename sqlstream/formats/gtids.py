"""Which transactions of a binary log have been read, by their global identifiers (GTID), which are the same in the logs
of all servers that replicate each other: in MariaDB ``0-1-270``, in MySQL ``3e11fa47-71ca-11e1-9e33-c80aa9429562:270``.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

_HEADER = 19


@dataclass(frozen=True)
class GtidPosition:
    """Of MariaDB. ``last``: of each domain the server and the number of its last transaction; those before it have been
    read, too.
    """

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


@dataclass(frozen=True)
class GtidSet:
    """Of MySQL. ``ranges``: the first and the last numbers of the transactions of each server, which its UUID names,
    with the tag of those that have one.

    https://dev.mysql.com/doc/refman/8.4/en/replication-gtids-concepts.html
    """

    ranges: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)

    @staticmethod
    def of(text: str) -> GtidSet:
        """Reads a text such as ``3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:7``. ValueError for what is none."""
        found: dict[str, list[tuple[int, int]]] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            server, *words = part.split(":")
            source = str(uuid.UUID(server.strip()))
            ranges = [*_with_tags(source, words)]
            if not ranges:
                raise ValueError(text)
            for name, numbers in ranges:
                first, _, last = numbers.partition("-")
                found.setdefault(name, []).append((int(first), int(last or first)))
        return GtidSet({name: _merged(ranges) for name, ranges in found.items()})

    def with_transaction(self, event: bytes) -> GtidSet:
        """The set with the transaction that begins with this event."""
        source, number = transaction_of(event)
        before = self.ranges.get(source, ())
        if before and before[-1][1] + 1 == number:
            return GtidSet({**self.ranges, source: (*before[:-1], (before[-1][0], number))})
        return GtidSet({**self.ranges, source: _merged((*before, (number, number)))})

    def __contains__(self, transaction: tuple[str, int]) -> bool:
        source, number = transaction
        return any(first <= number <= last for first, last in self.ranges.get(source, ()))

    def __le__(self, other: GtidSet) -> bool:
        """Whether all transactions are in another set, too."""
        return all(
            any(begin <= first and last <= end for begin, end in other.ranges.get(source, ()))
            for source, ranges in self.ranges.items()
            for first, last in ranges
        )

    def __str__(self) -> str:
        def shown(first: int, last: int) -> str:
            return f"{first}-{last}" if last > first else str(first)

        return ",".join(
            f"{source}:{':'.join(shown(*numbers) for numbers in ranges)}"
            for source, ranges in sorted(self.ranges.items())
        )


def transaction_of(event: bytes) -> tuple[str, int]:
    """The server and the number of the transaction that an event MYSQL_GTID begins."""
    source = uuid.UUID(bytes=event[_HEADER + 1 : _HEADER + 17])
    return str(source), int.from_bytes(event[_HEADER + 17 : _HEADER + 25], "little")


def gtids_of(text: str) -> GtidPosition | GtidSet:
    """Reads either kind. ValueError for what is neither."""
    return GtidSet.of(text) if ":" in text else GtidPosition.of(text)


def _with_tags(source: str, words: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Ranges with the name of their source, to which a tag before them belongs."""
    name = source
    for word in words:
        if word.strip()[:1].isdigit():
            yield name, word
        else:
            name = f"{source}:{word.strip().lower()}"


def _merged(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """In their order, those that touch each other as one."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if first < 1 or last < first:
            raise ValueError(f"{first}-{last}")
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(last, merged[-1][1])
        else:
            merged.append((first, last))
    return tuple(merged)
