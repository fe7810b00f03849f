"""The contract of a catalog: databases, and in them relations (tables and views) and functions by name.

What a store holds is either a definition, a statement with its text, which ``sqlstream.catalog`` binds where it is
used, or what is bound already.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from sqlstream.grammar import nodes
from sqlstream.planner.catalog import Function, Table, View

Kind = Literal["relation", "function"]
"""The two name spaces of a database."""

Definition = nodes.CreateTable | nodes.CreateView | nodes.CreateMaterializedView | nodes.CreateFunction


@dataclass(frozen=True)
class Stored:
    """A definition under its bare name; its spans point into ``text``, and ``file`` is where that was read."""

    statement: Definition
    text: str = ""
    file: str | None = None

    @property
    def name(self) -> str:
        return self.statement.name.parts[-1]


@dataclass(frozen=True)
class Bound:
    """What is bound already, with its definition where it has one."""

    item: Table | View | Function
    stored: Stored | None = None
    spelled: str | None = None

    @property
    def name(self) -> str:
        return self.spelled or self.item.name


Entry = Stored | Bound


@dataclass(frozen=True)
class Database:
    name: str
    comment: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)


class Store(Protocol):
    """Names compare without regard to case. ``refusal`` is why nothing can be created, changed or dropped in the
    store; None where that is possible. ``default_database`` is there without a CREATE. ``keeps_text``: definitions
    are written down, so that no secret may be in them."""

    @property
    def default_database(self) -> str: ...

    @property
    def refusal(self) -> str | None: ...

    @property
    def keeps_text(self) -> bool: ...

    def databases(self) -> list[Database]: ...

    def put_database(self, database: Database) -> None:
        """Creates the database, or takes the place of the one of that name."""
        ...

    def drop_database(self, name: str) -> None:
        """Removes the database with all that is in it."""
        ...

    def names(self, database: str, kind: Kind) -> list[str]:
        """All names, also of definitions that cannot be read."""
        ...

    def entry(self, database: str, kind: Kind, name: str) -> Entry | None: ...

    def put(self, database: str, kind: Kind, entry: Entry, *, new: bool = False) -> None:
        """Adds the entry, or takes the place of the one of that name; ``new``: FileExistsError where there is one."""
        ...

    def remove(self, database: str, kind: Kind, name: str) -> None: ...

    def copy(self) -> Store:
        """A store that changes on its own, and nothing outside of this process with it."""
        ...


def same_name(name: str, names: list[str]) -> str | None:
    """The name among ``names`` that is equal but for case."""
    return next((n for n in names if n.casefold() == name.casefold()), None)
