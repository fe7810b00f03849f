"""A catalog that lives as long as its session; and one that holds changes back from a catalog that lasts."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlstream.catalogs.store import Bound, Database, Entry, Kind, Store
from sqlstream.catalogs.written_secrets import refuse_secrets, refuse_secrets_of

_Key = tuple[str, Kind, str]


def _key(database: str, kind: Kind, name: str) -> _Key:
    return database.casefold(), kind, name.casefold()


@dataclass
class InMemory:
    """Implements ``Store``."""

    default_database: str
    refusal: str | None = None
    keeps_text: bool = False
    _databases: dict[str, Database] = field(default_factory=dict)
    _entries: dict[_Key, Entry] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self._databases:
            self.put_database(Database(self.default_database))

    def databases(self) -> list[Database]:
        return list(self._databases.values())

    def put_database(self, database: Database) -> None:
        self._databases[database.name.casefold()] = database

    def drop_database(self, name: str) -> None:
        self._databases.pop(name.casefold(), None)
        self._entries = {key: entry for key, entry in self._entries.items() if key[0] != name.casefold()}

    def names(self, database: str, kind: Kind) -> list[str]:
        return [entry.name for key, entry in self._entries.items() if key[:2] == (database.casefold(), kind)]

    def entry(self, database: str, kind: Kind, name: str) -> Entry | None:
        return self._entries.get(_key(database, kind, name))

    def put(self, database: str, kind: Kind, entry: Entry, *, new: bool = False) -> None:
        self._entries[_key(database, kind, entry.name)] = entry

    def remove(self, database: str, kind: Kind, name: str) -> None:
        self._entries.pop(_key(database, kind, name), None)

    def copy(self) -> InMemory:
        return InMemory(
            self.default_database, self.refusal, self.keeps_text, dict(self._databases), dict(self._entries)
        )


@dataclass
class Trial:
    """Implements ``Store`` over another one, which it leaves as it is: scripts are checked on it."""

    behind: Store
    _databases: dict[str, Database | None] = field(default_factory=dict)
    _entries: dict[_Key, Entry | None] = field(default_factory=dict)

    @property
    def default_database(self) -> str:
        return self.behind.default_database

    @property
    def refusal(self) -> str | None:
        return self.behind.refusal

    @property
    def keeps_text(self) -> bool:
        return self.behind.keeps_text

    def databases(self) -> list[Database]:
        there = {d.name.casefold(): d for d in self.behind.databases()}
        return [database for database in {**there, **self._databases}.values() if database is not None]

    def put_database(self, database: Database) -> None:
        if self.keeps_text:
            refuse_secrets_of(database)
        self._databases[database.name.casefold()] = database

    def drop_database(self, name: str) -> None:
        kinds: tuple[Kind, ...] = ("relation", "function")
        for kind in kinds:
            for inside in self.names(name, kind):
                self.remove(name, kind, inside)
        self._databases[name.casefold()] = None

    def names(self, database: str, kind: Kind) -> list[str]:
        names = {name.casefold(): name for name in self._names_behind(database, kind)}
        for (in_database, of_kind, key), entry in self._entries.items():
            if (in_database, of_kind) == (database.casefold(), kind):
                names.pop(key, None)
                names |= {key: entry.name} if entry is not None else {}
        return list(names.values())

    def _names_behind(self, database: str, kind: Kind) -> list[str]:
        there = {d.name.casefold() for d in self.behind.databases()}
        return self.behind.names(database, kind) if database.casefold() in there else []

    def entry(self, database: str, kind: Kind, name: str) -> Entry | None:
        key = _key(database, kind, name)
        if key in self._entries:
            return self._entries[key]
        there = {d.name.casefold() for d in self.behind.databases()}
        return self.behind.entry(database, kind, name) if database.casefold() in there else None

    def put(self, database: str, kind: Kind, entry: Entry, *, new: bool = False) -> None:
        stored = entry.stored if isinstance(entry, Bound) else entry
        if self.keeps_text and stored is not None:
            refuse_secrets(stored)
        self._entries[_key(database, kind, entry.name)] = entry

    def remove(self, database: str, kind: Kind, name: str) -> None:
        self._entries[_key(database, kind, name)] = None

    def copy(self) -> Trial:
        return Trial(self.behind, dict(self._databases), dict(self._entries))
