"""The log of a sink in an object store: which objects of a folder count.

Stores rename nothing, so tasks write the objects of an epoch (a micro-batch) at once where they belong, with the number
of the epoch in their names. They count when the epoch has an entry in the log, which is one object and so there or not.
What epochs left behind that were never complete is in no entry; the next start removes it, for readers that do not know
the log.

Each tenth entry is a whole one, which has the objects of all epochs; entries before the last but one of those are
removed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from sqlstream.connectors.stores.paths import StoredObject
from sqlstream.udfs.texts import json_of

LOG = "_sqlstream"
"""The folder with the log, below that of the table."""

INTERVAL = 10
_NAME = re.compile(rf"{LOG}/(\d+)(\.whole)?\.json")
_OBJECT = re.compile(r"(?:.*/)?part-(\d+)-[^/]*")

Read = Callable[[str], bytes | None]


class Store(Protocol):
    """What a log needs of an object store."""

    def below(self, path: str, /) -> Sequence[StoredObject]: ...
    def read(self, path: str, /) -> bytes | None: ...
    def write(self, path: str, data: bytes, /) -> None: ...
    def remove(self, path: str, /) -> None: ...


@dataclass(frozen=True)
class EpochLog:
    """The log of the table in ``folder``, a URL without a slash at its end."""

    store: Store
    folder: str

    def newest(self) -> int | None:
        """The last epoch that is complete; None without a log."""
        return max(self._entries(), default=None)

    def commit(self, epoch: int, objects: Sequence[StoredObject]) -> None:
        """Makes the objects of an epoch count, by one step of the store. Earlier entries must be there."""
        entries = self._entries()
        wholes = sorted(number for number, whole in entries.items() if whole)
        since = sum(number > max(wholes, default=-1) for number in entries)
        is_whole = since >= INTERVAL - 1
        known = list(self.objects()) if is_whole and entries else []
        lines = [_line(self.folder, o) for o in (*known, *objects)]
        name = f"{epoch:012}{'.whole' if is_whole else ''}.json"
        self.store.write(f"{self.folder}/{LOG}/{name}", "\n".join(lines).encode())
        if is_whole and wholes:
            for number in entries:
                if number < wholes[-1]:
                    self.store.remove(self._url(number, entries[number]))

    def objects(self) -> Sequence[StoredObject]:
        """The objects that count."""
        return logged(self.folder, self.store.below(f"{self.folder}/{LOG}"), self.store.read) or []

    def remove_incomplete(self) -> None:
        """Removes the objects of epochs that are not complete."""
        newest = self.newest()
        for stored in self.store.below(self.folder):
            number = epoch_of(stored.url[len(self.folder) + 1 :])
            if number is not None and (newest is None or number > newest):
                self.store.remove(stored.url)

    def _entries(self) -> dict[int, bool]:
        return _entries(self.folder, self.store.below(f"{self.folder}/{LOG}"))

    def _url(self, number: int, whole: bool) -> str:
        return f"{self.folder}/{LOG}/{number:012}{'.whole' if whole else ''}.json"


def object_name(epoch: int) -> str:
    """The beginning of the names of objects that are written for an epoch."""
    return f"part-{epoch:09}"


def epoch_of(name: str) -> int | None:
    """The epoch for which an object was written, by its name below the folder of the table; None for others."""
    found = _OBJECT.fullmatch(name)
    return None if found is None or name.startswith(f"{LOG}/") else int(found[1])


def logged(folder: str, there: Iterable[StoredObject], read: Read) -> list[StoredObject] | None:
    """The objects that count in the folder, by its log; None without a log. ``there``: objects of the folder, among
    them those of the log. Raises FileNotFoundError where entries are removed meanwhile.
    """
    entries = _entries(folder, there)
    if not entries:
        return None
    start = max((number for number, whole in entries.items() if whole), default=min(entries))
    objects = []
    for number in sorted(number for number in entries if number >= start):
        url = f"{folder}/{LOG}/{number:012}{'.whole' if entries[number] else ''}.json"
        content = read(url)
        if content is None:
            raise FileNotFoundError(2, "does not exist", url)
        objects += [_object(folder, line) for line in content.decode().splitlines() if line]
    return objects


def _entries(folder: str, there: Iterable[StoredObject]) -> dict[int, bool]:
    """The numbers of the entries, with whether they are whole."""
    names = (_NAME.fullmatch(o.url[len(folder) + 1 :]) for o in there if o.url.startswith(f"{folder}/{LOG}/"))
    return {int(name[1]): name[2] is not None for name in names if name is not None}


def _line(folder: str, stored: StoredObject) -> str:
    entry = {"name": stored.url[len(folder) + 1 :], "size": stored.size, "modified": stored.modified}
    return json.dumps(entry, separators=(",", ":"))


def _object(folder: str, line: str) -> StoredObject:
    entry = json_of(line)
    return StoredObject(f"{folder}/{entry['name']}", entry["size"], entry["modified"])
