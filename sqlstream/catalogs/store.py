"""What a catalog stores: databases, and in them relations (tables and views) and functions by name.

An entry is either a definition, which ``sqlstream.catalog`` binds where it is used, or bound already.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

from sqlstream.errors import ConnectorError, Span
from sqlstream.grammar import nodes
from sqlstream.planner.catalog import Function, Table, View
from sqlstream.secrets import has_secret_name, secret_texts

Kind = Literal["relation", "function"]
"""The two name spaces of a database."""

Definition = nodes.CreateTable | nodes.CreateView | nodes.CreateMaterializedView | nodes.CreateFunction


@dataclass(frozen=True)
class Stored:
    """A definition: a parsed CREATE statement, which is bound when it is used. Its spans refer to ``text``, the
    content of ``file`` if given.
    """

    statement: Definition
    text: str = ""
    file: str | None = None

    @property
    def name(self) -> str:
        return self.statement.name.parts[-1]


@dataclass(frozen=True)
class Bound:
    """An object of a catalog (table, view or function), with its definition if it has one. ``spelled``: the object's
    name in the catalog, if ``item`` has another name.
    """

    item: Table | View | Function
    stored: Stored | None = None
    spelled: str | None = None

    @property
    def name(self) -> str:
        return self.spelled or self.item.name


Entry = Stored | Bound


@dataclass(frozen=True)
class Database:
    """A database of a catalog, with the comment and options of its CREATE DATABASE."""

    name: str
    comment: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)


class Store(Protocol):
    """Where a catalog's databases and definitions are stored. Names are compared case-insensitively.

    * ``default_database``: the name of a database that always exists.
    * ``refusal``: why definitions cannot be changed in this store; None if they can.
    * ``keeps_text``: definitions are stored as text, so they must not contain secrets.
    """

    @property
    def default_database(self) -> str: ...

    @property
    def refusal(self) -> str | None: ...

    @property
    def keeps_text(self) -> bool: ...

    def databases(self) -> list[Database]: ...

    def put_database(self, database: Database) -> None:
        """Creates or replaces a database."""
        ...

    def drop_database(self, name: str) -> None:
        """Removes a database and all definitions in it."""
        ...

    def names(self, database: str, kind: Kind) -> list[str]:
        """Returns the names of all objects of one kind, including those whose definitions are invalid."""
        ...

    def entry(self, database: str, kind: Kind, name: str) -> Entry | None: ...

    def put(self, database: str, kind: Kind, entry: Entry, *, new: bool = False) -> None:
        """Adds or replaces the definition of an object. ``new``: raises FileExistsError if the name is taken."""
        ...

    def remove(self, database: str, kind: Kind, name: str) -> None: ...

    def copy(self) -> Store:
        """Returns an independent copy. Changes to it are kept in memory only."""
        ...


@runtime_checkable
class MakingStore(Protocol):
    """A ``Store`` that makes tables itself, at a place that it knows."""

    def options_of_new(self, database: str, name: str) -> Mapping[str, str]:
        """Returns the options of a table that say where it is, and its connector: CREATE TABLE need not name them."""
        ...


def options_of_new(store: Store, database: str, name: str) -> Mapping[str, str]:
    """Returns the options that a store gives tables which are created in it; none where it only stores definitions."""
    below = store.below if isinstance(store, Trial) else store
    return below.options_of_new(database, name) if isinstance(below, MakingStore) else {}


def same_name(name: str, names: list[str]) -> str | None:
    """Returns the name in ``names`` that is equal ignoring case; None if there is none."""
    return next((n for n in names if n.casefold() == name.casefold()), None)


# --- secrets in definitions that are written down ---------------------------------------------------------------

SECRET = "SS533"


def refuse_secrets(stored: Stored) -> None:
    """Raises ConnectorError SS533 if an option of a table or materialized view contains a secret."""
    if isinstance(stored.statement, nodes.CreateTable | nodes.CreateMaterializedView):
        for option in stored.statement.options:
            if secret_texts(option.key, option.value):
                raise _secret(option.key, f'table "{stored.name}"', option.span)


def refuse_secrets_of(database: Database) -> None:
    """Raises ConnectorError SS533 if an option of a database is one for secrets, by its key, and contains one."""
    for key, value in database.options.items():
        if has_secret_name(key) and secret_texts(key, value):
            raise _secret(key, f'database "{database.name}"', None)


def _secret(key: str, owner: str, span: Span | None) -> ConnectorError:
    message = f'option "{key}" of {owner} holds a secret, which the catalog would write down'
    hint = f"Write '{key}' = '${{NAME}}' and set the environment variable NAME, or give --env-file."
    return ConnectorError(SECRET, message, span, hint=hint)


# --- stores in memory -----------------------------------------------------------------------------------------

_Key = tuple[str, Kind, str]


def _key(database: str, kind: Kind, name: str) -> _Key:
    return database.casefold(), kind, name.casefold()


@dataclass
class InMemory:
    """A ``Store`` in memory, which exists as long as its session."""

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
    """A ``Store`` for checking scripts: changes are kept in memory, and the underlying store is only read."""

    below: Store
    _databases: dict[str, Database | None] = field(default_factory=dict)
    _entries: dict[_Key, Entry | None] = field(default_factory=dict)

    @property
    def default_database(self) -> str:
        return self.below.default_database

    @property
    def refusal(self) -> str | None:
        return self.below.refusal

    @property
    def keeps_text(self) -> bool:
        return self.below.keeps_text

    def databases(self) -> list[Database]:
        there = {d.name.casefold(): d for d in self.below.databases()}
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
        names = {name.casefold(): name for name in self._names_below(database, kind)}
        for (in_database, of_kind, key), entry in self._entries.items():
            if (in_database, of_kind) == (database.casefold(), kind):
                names.pop(key, None)
                names |= {key: entry.name} if entry is not None else {}
        return list(names.values())

    def _names_below(self, database: str, kind: Kind) -> list[str]:
        there = {d.name.casefold() for d in self.below.databases()}
        return self.below.names(database, kind) if database.casefold() in there else []

    def entry(self, database: str, kind: Kind, name: str) -> Entry | None:
        key = _key(database, kind, name)
        if key in self._entries:
            return self._entries[key]
        there = {d.name.casefold() for d in self.below.databases()}
        return self.below.entry(database, kind, name) if database.casefold() in there else None

    def put(self, database: str, kind: Kind, entry: Entry, *, new: bool = False) -> None:
        stored = entry.stored if isinstance(entry, Bound) else entry
        if self.keeps_text and stored is not None:
            refuse_secrets(stored)
        self._entries[_key(database, kind, entry.name)] = entry

    def remove(self, database: str, kind: Kind, name: str) -> None:
        self._entries[_key(database, kind, name)] = None

    def copy(self) -> Trial:
        return Trial(self.below, dict(self._databases), dict(self._entries))
