"""The catalog of a session: tables, views and functions by name. Everything lives as long as the session."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sqlstream.errors import BindError
from sqlstream.grammar.nodes import Name
from sqlstream.planner.catalog import Function, Table, View
from sqlstream.planner.suggestions import did_you_mean

ALREADY_EXISTS = "SS224"
DOES_NOT_EXIST = "SS202"
OTHER_CATALOG = "SS225"

T = TypeVar("T")

DEFAULT_CATALOG = ("default_catalog", "default_database")
"""There is one catalog, with one database."""


@dataclass
class Catalog:
    """Implements ``planner.catalog.Catalog``. Tables and views share one name space, functions have their own.

    Names keep the spelling of their CREATE and compare without regard to case. Mistakes are BindErrors
    SS202, SS224 and SS225.
    """

    _relations: dict[str, Table | View] = field(default_factory=dict)
    _functions: dict[str, Function] = field(default_factory=dict)
    _implementations: dict[str, object] = field(default_factory=dict)
    _answers: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)

    def copy(self) -> Catalog:
        """A catalog that changes on its own, to try statements out."""
        return Catalog(dict(self._relations), dict(self._functions), dict(self._implementations), dict(self._answers))

    # --- reading ---

    def relation(self, name: str) -> Table | View | None:
        """The table or view called ``name``, which may be qualified with Flink's default catalog and database."""
        key = name.casefold()
        for prefix in (".".join(DEFAULT_CATALOG) + ".", DEFAULT_CATALOG[1] + "."):
            if key not in self._relations:
                key = key.removeprefix(prefix)
        return self._relations.get(key)

    def function(self, name: str) -> Function | None:
        return self._functions.get(name.casefold())

    def relation_names(self) -> list[str]:
        return sorted(r.name for r in self._relations.values())

    def function_names(self) -> list[str]:
        return sorted(f.name for f in self._functions.values())

    def tables(self) -> list[Table]:
        return sorted((r for r in self._relations.values() if isinstance(r, Table)), key=lambda t: t.name)

    def views(self) -> list[View]:
        return sorted((r for r in self._relations.values() if isinstance(r, View)), key=lambda v: v.name)

    def functions(self) -> list[Function]:
        return sorted(self._functions.values(), key=lambda f: f.name)

    def implementation(self, function: Function) -> object:
        """The Python object behind a function that was registered as an object; None: import its target."""
        return self._implementations.get(function.name.casefold())

    def remembered(self, key: Hashable, answer: Callable[[], T]) -> T:
        """What ``answer`` gives, computed once until something changes that a definition may name."""
        answers = self._answers
        if key not in answers:
            answers[key] = answer()  # of the definitions before, where others change them meanwhile
        found: T = answers[key]
        return found

    def required(self, name: Name) -> Table | View:
        """The table or view called ``name``."""
        relation = self.relation(local_name(name))
        if relation is None:
            raise self._missing("table or view", name, self.relation_names())
        return relation

    # --- changing: each returns whether anything changed ---

    def create(self, name: Name, relation: Table | View, *, if_not_exists: bool = False, replace: bool = False) -> bool:
        """Adds a table or a view; ``replace`` is for a view in place of a view."""
        existing = self.relation(local_name(name))
        if existing is not None and if_not_exists:
            return False
        if existing is not None and not (replace and type(existing) is type(relation)):
            message = f'{_kind(existing)} "{existing.name}" exists already'
            hint = f"Drop it first, or write CREATE {_kind(relation).upper()} IF NOT EXISTS."
            raise BindError(ALREADY_EXISTS, message, name.span, hint=hint)
        if existing is not None:
            self._answers = {}
        self._relations[relation.name.casefold()] = relation
        return True

    def create_function(
        self, name: Name, function: Function, *, implementation: object = None, if_not_exists: bool = False
    ) -> bool:
        existing = self.function(local_name(name))
        if existing is not None and if_not_exists:
            return False
        if existing is not None:
            hint = "Drop it first, or write CREATE FUNCTION IF NOT EXISTS."
            raise BindError(ALREADY_EXISTS, f'function "{existing.name}" exists already', name.span, hint=hint)
        self.register(function, implementation)
        return True

    def register(self, function: Function, implementation: object) -> None:
        """Adds a function or replaces the one of that name."""
        key = function.name.casefold()
        self._answers = {}
        self._functions[key] = function
        self._implementations.pop(key, None)
        if implementation is not None:
            self._implementations[key] = implementation

    def drop(self, kind: str, name: Name, *, if_exists: bool = False) -> Table | View | Function | None:
        """Removes the TABLE, VIEW or FUNCTION and returns it; None where there is none and ``if_exists``."""
        key = local_name(name).casefold()
        dropped = self._functions.get(key) if kind == "FUNCTION" else self._relations.get(key)
        if dropped is None and if_exists:
            return None
        if dropped is None:
            names = self.function_names() if kind == "FUNCTION" else self.relation_names()
            raise self._missing(kind.lower(), name, names)
        if _kind(dropped) != kind.lower():
            message = f'"{dropped.name}" is a {_kind(dropped)}, not a {kind.lower()}'
            raise BindError(DOES_NOT_EXIST, message, name.span, hint=f"Write DROP {_kind(dropped).upper()}.")
        self._answers = {}
        for store in (self._functions, self._implementations) if kind == "FUNCTION" else (self._relations,):
            store.pop(key, None)
        return dropped

    def _missing(self, kind: str, name: Name, names: list[str]) -> BindError:
        hint = did_you_mean(local_name(name), names)
        return BindError(DOES_NOT_EXIST, f'{kind} "{local_name(name)}" does not exist', name.span, hint=hint)


def _kind(item: Table | View | Function) -> str:
    return type(item).__name__.lower()


def local_name(name: Name) -> str:
    """The last part of a name. BindError SS225 for catalogs and databases other than Flink's default ones."""
    prefix = tuple(name_part.casefold() for name_part in name.parts[:-1])
    if prefix not in ((), DEFAULT_CATALOG[1:], DEFAULT_CATALOG):
        message = f'name "{name}" has a catalog or database'
        hint = f"There is one of each: write {name.parts[-1]}."
        raise BindError(OTHER_CATALOG, message, name.span, hint=hint)
    return name.parts[-1]
