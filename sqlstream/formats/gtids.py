"""Which transactions of MySQL's or MariaDB's binary log have been read, by their global identifiers (GTID).

Both servers say it in a text that their replicas understand, too: MariaDB by the last transaction of each domain,
``0-1-270``, and MySQL by ranges of numbers of each server, ``3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:7``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Self


class Gtids(ABC):
    """A set of transactions. Texts of equal sets are equal."""

    @staticmethod
    @abstractmethod
    def of(text: str) -> Gtids:
        """Reads the text of a server. ValueError for what is none."""

    @abstractmethod
    def with_transaction(self, event: bytes) -> Self:
        """The set with the transaction that begins with this event."""

    @abstractmethod
    def __le__(self, other: object) -> bool:
        """True where the other set has all transactions of this one."""

    def __lt__(self, other: object) -> bool:
        return self <= other and self != other


_HEADER = 19


@dataclass(frozen=True)
class MariaDbGtids(Gtids):
    """``last``: of each domain the server and the number of its last transaction; all before it are in the set."""

    last: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    @staticmethod
    def of(text: str) -> MariaDbGtids:
        last = {}
        for gtid in filter(None, text.replace("\n", "").split(",")):
            domain, server, number = map(int, gtid.split("-"))
            last[domain] = server, number
        return MariaDbGtids(last)

    def with_transaction(self, event: bytes) -> MariaDbGtids:
        server = int.from_bytes(event[5:9], "little")
        number = int.from_bytes(event[_HEADER : _HEADER + 8], "little")
        domain = int.from_bytes(event[_HEADER + 8 : _HEADER + 12], "little")
        return MariaDbGtids({**self.last, domain: (server, number)})

    def __le__(self, other: object) -> bool:
        if not isinstance(other, MariaDbGtids):
            return NotImplemented
        return all(d in other.last and n <= other.last[d][1] for d, (_, n) in self.last.items())

    def __str__(self) -> str:
        return ",".join(f"{domain}-{server}-{number}" for domain, (server, number) in sorted(self.last.items()))


Ranges = tuple[tuple[int, int], ...]
"""Numbers from the first of each pair to the last, in order and with gaps between them."""


@dataclass(frozen=True)
class MySqlGtids(Gtids):
    """``numbers``: of each server, or of each tag of one, the numbers of its transactions."""

    numbers: Mapping[str, Ranges] = field(default_factory=dict)

    @staticmethod
    def of(text: str) -> MySqlGtids:
        numbers: dict[str, Ranges] = {}
        for part in filter(None, (part.strip() for part in text.replace("\n", "").split(","))):
            source, *ranges = part.lower().split(":")
            if len(source.replace("-", "")) != 32 or not ranges:
                raise ValueError(text)
            name = source
            for item in ranges:
                if not item[0].isdigit():  # a tag, which holds for what follows
                    name = f"{source}:{item}"
                    continue
                first, _, last = item.partition("-")
                numbers[name] = _joined([*numbers.get(name, ()), (int(first), int(last or first))])
        return MySqlGtids(numbers)

    def with_transaction(self, event: bytes) -> MySqlGtids:
        digits = event[_HEADER + 1 : _HEADER + 17].hex()
        name = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
        number = int.from_bytes(event[_HEADER + 17 : _HEADER + 25], "little")
        ranges = self.numbers.get(name, ())
        if ranges and ranges[-1][1] + 1 == number:
            joined: Ranges = (*ranges[:-1], (ranges[-1][0], number))
        else:
            joined = _joined([*ranges, (number, number)])
        return MySqlGtids({**self.numbers, name: joined})

    def __le__(self, other: object) -> bool:
        if not isinstance(other, MySqlGtids):
            return NotImplemented
        return all(_within(ranges, other.numbers.get(name, ())) for name, ranges in self.numbers.items())

    def __str__(self) -> str:
        return ",".join(
            ":".join((name, *(str(a) if a == b else f"{a}-{b}" for a, b in ranges)))
            for name, ranges in sorted(self.numbers.items())
        )


def _joined(ranges: list[tuple[int, int]]) -> Ranges:
    return tuple(_merged(sorted(ranges)))


def _merged(ranges: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    first, last = ranges[0]
    for begin, end in ranges[1:]:
        if begin > last + 1:
            yield first, last
            first, last = begin, end
        last = max(last, end)
    yield first, last


def _within(ranges: Ranges, others: Ranges) -> bool:
    return all(any(a <= first and last <= b for a, b in others) for first, last in ranges)
