"""The catalogs of a session: what a name means, what is there, and what is created, altered and dropped.

A name has up to three parts, ``catalog.database.object``; what is left out is the current catalog and database. A
session begins in Flink's ``default_catalog.default_database``, which lives as long as the session. Names of what is
there are plain, of everything elsewhere with catalog and database: so do messages, plans and checkpoints call it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from sqlstream.catalogs.declaring import KINDS, declared_table, declared_with, materialized_table, stored_view
from sqlstream.catalogs.files import in_file
from sqlstream.catalogs.functions import declared_function
from sqlstream.catalogs.store import Bound, Database, Entry, InMemory, Kind, Store, Stored, same_name
from sqlstream.errors import BindError, Diagnostic, Span, SqlStreamError
from sqlstream.grammar import nodes
from sqlstream.grammar.nodes import Name, Option
from sqlstream.planner.catalog import Function, Table, View
from sqlstream.planner.suggestions import did_you_mean

ALREADY_EXISTS = "SS224"
DOES_NOT_EXIST = "SS202"
NO_CONTAINER = "SS225"
NOT_CHANGED = "SS246"
NOT_EMPTY = "SS247"
IN_USE = "SS248"

DEFAULT = ("default_catalog", "default_database")
"""Where a session begins."""

Path = tuple[str, str, str]
"""Catalog, database and object, each as it was spelled when it was created."""
Item = Table | View | Function
_Key = tuple[Kind, str, str, str]
_Asked = tuple[Kind, tuple[str, str], str]
"""A name that was looked up, and the catalog and database that were the current ones."""
T = TypeVar("T")


def _key(kind: Kind, path: Path) -> _Key:
    catalog, database, name = path
    return kind, catalog.casefold(), database.casefold(), name.casefold()


def full_name(path: Path) -> str:
    """Returns how an object is named in messages and plans: without database if that is the default one, else with
    catalog and database.
    """
    catalog, database, name = path
    return name if (catalog.casefold(), database.casefold()) == DEFAULT else f"{catalog}.{database}.{name}"


@dataclass(frozen=True)
class Mount:
    """A catalog that the session can use. ``options``: those of its CREATE CATALOG, as written, with ``${NAME}`` not
    replaced.
    """

    name: str
    store: Store
    options: tuple[tuple[str, str], ...] = ()
    comment: str | None = None


def _in_memory() -> dict[str, Mount]:
    return {DEFAULT[0]: Mount(DEFAULT[0], InMemory(DEFAULT[1]), (("type", "memory"),))}


@dataclass(frozen=True)
class _Answer:
    """What was made of a view, and all that was looked up for it."""

    view: View
    looked_up: Mapping[_Asked, Item | None]
    value: Any


@dataclass
class Catalog:
    """All catalogs of a session; implements ``planner.catalog.Catalog``. Tables and views share one name space;
    functions have their own.

    Names keep the spelling of their CREATE statement and are compared case-insensitively. Errors are BindErrors SS202,
    SS224, SS225 and SS246 to SS248. ``variables``: values for ``${…}`` in the options of definitions.
    """

    current: tuple[str, str] = DEFAULT
    variables: Mapping[str, str] = field(default_factory=dict)
    _mounts: dict[str, Mount] = field(default_factory=_in_memory)
    _temporary: dict[_Key, Bound] = field(default_factory=dict)
    _system: dict[str, Function] = field(default_factory=dict)
    _lent: dict[str, Function] = field(default_factory=dict)
    _implementations: dict[tuple[str, str], object] = field(default_factory=dict)
    _declared: dict[_Key, tuple[Stored, Item]] = field(default_factory=dict)
    _answers: dict[Hashable, _Answer] = field(default_factory=dict, compare=False, repr=False)
    _looked_up: dict[_Asked, Item | None] | None = field(default=None, compare=False, repr=False)
    _inside_view: bool = False
    _trial: bool = False
    _as_queries: bool = False
    spark: Callable[[], Any] | None = field(default=None, compare=False, repr=False)
    """Starts Spark, for catalogs that show its tables."""

    def copy(self) -> Catalog:
        """Returns a copy for trying out statements; its changes affect neither the original nor any store."""
        mounts = {key: replace(mount, store=mount.store.copy()) for key, mount in self._mounts.items()}
        return Catalog(
            self.current, self.variables, mounts, dict(self._temporary), dict(self._system), dict(self._lent),
            dict(self._implementations), dict(self._declared), dict(self._answers), _trial=True, spark=self.spark,
        )  # fmt: skip

    def within(self, namespace: tuple[str, str] | None) -> Catalog:
        """Returns the same catalogs with ``namespace`` (catalog and database) as the current one, unchanged if None."""
        if namespace is None or namespace == self.current:
            return self
        return replace(self, current=namespace, _inside_view=True)

    def as_queries(self) -> Catalog:
        """Returns a copy in which queries compute materialized views like plain views, and do not read their rows."""
        return replace(self.copy(), _as_queries=True, _declared={}, _answers={})

    def with_queries(self, path: Path, target: Table) -> Catalog:
        """Returns the catalog for the job that maintains a materialized view: other materialized views are computed by
        their queries, and ``path`` is the table that the job writes.
        """
        seen = self.as_queries()
        seen._temporary[_key("relation", path)] = Bound(target, spelled=path[2])
        return seen

    # --- what names mean ---

    def path(self, name: Name) -> Path:
        """Resolves a name and returns catalog, database and object name. Raises BindError SS225 for an unknown catalog
        or database.
        """
        if len(name.parts) > 3:
            message, hint = f'name "{name}" has more than three parts', "Write catalog.database.name."
            raise BindError(NO_CONTAINER, message, name.span, hint=hint)
        catalog, database = self.namespace(Name(name.parts[:-1], span=name.span))
        return catalog, database, name.parts[-1]

    def namespace(self, name: Name) -> tuple[str, str]:
        """Resolves the qualifier of a name (at most two parts) and returns catalog and database."""
        parts = name.parts
        mount = self.mount(parts[0], name) if len(parts) > 1 else self._mounts[self.current[0].casefold()]
        wanted = parts[-1] if parts else self.current[1]
        spelled = same_name(wanted, [d.name for d in mount.store.databases()])
        if spelled is None:
            raise self._no_database(wanted, mount, name)
        return mount.name, spelled

    def _no_database(self, wanted: str, mount: Mount, name: Name) -> BindError:
        names = [d.name for d in mount.store.databases()]
        message = f'database "{wanted}" does not exist in catalog "{mount.name}"'
        hint = did_you_mean(wanted, names, "databases") or f"There are {', '.join(names)}."
        if wanted.casefold() in self._mounts:
            hint = f"There is a catalog of that name: write {wanted}.database.name, or USE CATALOG {wanted}."
        return BindError(NO_CONTAINER, message, name.span, hint=hint)

    def mount(self, catalog: str, name: Name | None = None) -> Mount:
        """Returns the catalog called ``catalog``. Raises BindError SS225, located at ``name``, if there is none."""
        mount = self._mounts.get(catalog.casefold())
        if mount is None:
            names = [m.name for m in self._mounts.values()]
            hint = did_you_mean(catalog, names, "catalogs") or "CREATE CATALOG makes one; SHOW CATALOGS lists them."
            span = name.span if name is not None else None
            raise BindError(NO_CONTAINER, f'catalog "{catalog}" does not exist', span, hint=hint)
        return mount

    def name_of(self, name: Name) -> str:
        """Returns how messages and plans name the object that ``name`` refers to."""
        return full_name(self.path(name))

    def _paths(self, name: str) -> Iterator[Path]:
        """What a dotted text may mean: parts may hold dots, so the plain name is looked for first."""
        catalog, database = self.current
        yield catalog, database, name
        first, dot, rest = name.partition(".")
        if dot:
            yield catalog, first, rest
            second, dot, last = rest.partition(".")
            if dot:
                yield first, second, last

    # --- reading ---

    def relation(self, name: str) -> Table | View | None:
        """Returns the table or view called ``name``, which may be qualified; None if there is none."""
        items = (self.item("relation", path) for path in self._paths(name))
        relation = next((item for item in items if isinstance(item, Table | View)), None)
        self._note("relation", name, relation)
        return relation

    def function(self, name: str) -> Function | None:
        """Returns the function of this name: of the current database, or one that exists in all databases; else
        None.
        """
        function = self._function(name)
        self._note("function", name, function)
        return function

    def _note(self, kind: Kind, name: str, item: Item | None) -> None:
        if self._looked_up is not None:
            self._looked_up[kind, self.current, name] = item

    def _function(self, name: str) -> Function | None:
        system = self._system.get(name.casefold())
        if system is not None:
            return system
        for path in self._paths(name):
            item = self.item("function", path)
            if isinstance(item, Function):
                if self._inside_view:
                    self._lent[name.casefold()] = item
                return item
        return self._lent.get(name.casefold())

    def item(self, kind: Kind, path: Path) -> Item | None:
        """Returns the object at the path; None if there is none. A temporary object hides a stored one."""
        entry = self.entry(kind, path)
        return self._bound(kind, path, entry) if entry is not None else None

    def entry(self, kind: Kind, path: Path) -> Entry | None:
        """Returns the definition of the object at the path, as it is stored; None if there is none. A temporary object
        hides a stored one.
        """
        temporary = self._temporary.get(_key(kind, path))
        mount = self._mounts.get(path[0].casefold())
        if temporary is not None or mount is None:
            return temporary
        return mount.store.entry(path[1], kind, path[2])

    def _bound(self, kind: Kind, path: Path, entry: Entry) -> Item:
        if self._as_queries and (query := definition_of_view(entry)) is not None:
            return stored_view(query[0], full_name((*path[:2], entry.name)), query[1], path[:2])
        if isinstance(entry, Bound):
            return entry.item if entry.spelled is not None else _called(entry.item, (*path[:2], entry.name))
        declared = self._declared.get(_key(kind, path))
        if declared is not None and declared[0] is entry:
            return declared[1]
        catalog, database, _ = path
        try:
            item = self._declare(entry, (catalog, database, entry.name))
        except SqlStreamError as error:
            raise in_file(error, entry.file, entry.text) if entry.file is not None else error from error.__cause__
        self._declared[_key(kind, path)] = (entry, item)
        return item

    def _declare(self, stored: Stored, path: Path) -> Item:
        name, namespace = full_name(path), path[:2]
        match stored.statement:
            case nodes.CreateTable() as statement:
                return declared_table(statement, self.within(namespace), name, self.variables)
            case nodes.CreateMaterializedView() as statement:
                return materialized_table(statement, self.within(namespace), name, path, self.variables)
            case nodes.CreateView() as statement:
                return stored_view(statement, name, stored.text, namespace)
            case nodes.CreateFunction() as statement:
                function, implementation = declared_function(statement, name, self.within(namespace))
                self._implement(function, implementation)
                return function

    def relation_names(self) -> list[str]:
        """Returns the names of the tables and views in the current database."""
        return self.names("relation")

    def function_names(self) -> list[str]:
        """Returns the sorted names of the functions in the current database and of those that exist in all
        databases.
        """
        return sorted({*self.names("function"), *(f.name for f in self._system.values())})

    def names(self, kind: Kind, namespace: tuple[str, str] | None = None) -> list[str]:
        """Returns the sorted names of the objects of one kind in a database, by default the current one."""
        catalog, database = namespace or self.current
        mount = self._mounts[catalog.casefold()]
        temporary = (bound.name for key, bound in self._temporary.items() if key[:3] == self._prefix(kind, namespace))
        return sorted({*mount.store.names(database, kind), *temporary})

    def _prefix(self, kind: Kind, namespace: tuple[str, str] | None) -> tuple[Kind, str, str]:
        catalog, database = namespace or self.current
        return kind, catalog.casefold(), database.casefold()

    def relations(self, namespace: tuple[str, str] | None = None) -> list[Table | View]:
        """Returns all tables and views of a database. If definitions are invalid, raises SqlStreamError with the
        errors of all of them.
        """
        items = self._items("relation", namespace)
        return [item for item in items if isinstance(item, Table | View)]

    def _items(self, kind: Kind, namespace: tuple[str, str] | None) -> list[Item]:
        catalog, database = namespace or self.current
        items: list[Item] = []
        wrong: list[Diagnostic] = []
        for name in self.names(kind, namespace):
            try:
                item = self.item(kind, (catalog, database, name))
            except SqlStreamError as error:
                wrong += error.diagnostics
                continue
            items += [item] if item is not None else []
        if wrong:
            raise SqlStreamError.of(wrong)
        return items

    def tables(self, namespace: tuple[str, str] | None = None) -> list[Table]:
        """Returns the tables of a database, by default the current one."""
        return [r for r in self.relations(namespace) if isinstance(r, Table)]

    def views(self, namespace: tuple[str, str] | None = None) -> list[View]:
        """Returns the views of a database, by default the current one."""
        return [r for r in self.relations(namespace) if isinstance(r, View)]

    def functions(self, namespace: tuple[str, str] | None = None) -> list[Function]:
        """Returns the functions of a database and those that exist in all databases, sorted by name."""
        own = [item for item in self._items("function", namespace) if isinstance(item, Function)]
        return sorted({f.name: f for f in (*own, *self._system.values())}.values(), key=lambda f: f.name)

    def implementation(self, function: Function) -> object:
        """Returns the Python object of a function that was registered as an object. None for functions that are
        imported by name.
        """
        return self._implementations.get((function.name.casefold(), function.target))

    def cached_for_view(self, view: View, settings: Hashable, answer: Callable[[Catalog], T]) -> T:
        """Returns ``answer(catalog)``, such as the bound query of a view, from a cache if possible.

        The value is computed again once an object that ``answer`` looked up has changed, in this session or in files
        that other processes write. ``settings``: the settings that the answer depends on, as a part of the cache key.
        """
        key = view.name.casefold(), settings
        given = self._answers.get(key)
        if given is None or given.view is not view or not self._still(given.looked_up):
            noting = replace(self, _looked_up={})
            value = answer(noting)
            given = self._answers[key] = _Answer(view, noting._looked_up or {}, value)
            if self._looked_up is not None:
                self._looked_up.update(given.looked_up)
        answered: T = given.value
        return answered

    def _still(self, looked_up: Mapping[_Asked, Item | None]) -> bool:
        """Whether all names mean what they did; as they are looked up again, they are noted again, too."""
        try:
            return all(self._means(asked, item) for asked, item in looked_up.items())
        except SqlStreamError:  # one is damaged by now, which is told where it is read
            return False

    def _means(self, asked: _Asked, item: Item | None) -> bool:
        kind, namespace, name = asked
        catalog = self.within(namespace)
        now = catalog.relation(name) if kind == "relation" else catalog.function(name)
        return now is item or (isinstance(now, Table) and now == item)  # foreign catalogs make theirs anew

    def required(self, name: Name) -> Table | View:
        """Returns the table or view called ``name``. Raises BindError SS202 if there is none."""
        item = self.item("relation", self.path(name))
        if not isinstance(item, Table | View):
            raise self._missing("table or view", name, self.relation_names())
        return item

    def with_options(self, table: Table, options: tuple[Option, ...], span: Span) -> Table:
        """Returns the table with options changed by an OPTIONS hint of a query, checked as if given in WITH."""
        return declared_with(table, options, span, self)

    def is_temporary(self, kind: Kind, path: Path) -> bool:
        """True where the object at the path is temporary: it exists only in this session."""
        return _key(kind, path) in self._temporary

    # --- changing objects: each returns whether anything changed ---

    def create(
        self,
        name: Name,
        relation: Table | View,
        *,
        if_not_exists: bool = False,
        replace: bool = False,
        temporary: bool = False,
        stored: Stored | None = None,
    ) -> bool:
        """Adds a table or a view. ``stored``: its definition, if it has one. ``replace``: an existing object of the
        same kind is replaced.

        Returns False if the object exists and ``if_not_exists`` is set, else True.
        """
        return self._add("relation", name, relation, if_not_exists, replace, temporary, stored)

    def create_function(
        self,
        name: Name,
        function: Function,
        *,
        implementation: object = None,
        if_not_exists: bool = False,
        replace: bool = False,
        temporary: bool = False,
        stored: Stored | None = None,
    ) -> bool:
        """Adds a function. ``implementation``: its Python object, if it is not imported by name. ``stored``: its
        definition.

        Returns False if the function exists and ``if_not_exists`` is set, else True.
        """
        created = self._add("function", name, function, if_not_exists, replace, temporary, stored)
        if created:
            self._implement(function, implementation)
        return created

    def _add(
        self, kind: Kind, name: Name, item: Item, if_not_exists: bool, replace: bool, temporary: bool,
        stored: Stored | None,
    ) -> bool:  # fmt: skip
        path = self.path(name)
        existing = self._temporary.get(_key(kind, path)) if temporary else self._there(kind, path, name)
        if existing is not None and if_not_exists:
            return False
        bound = Bound(item, stored, path[2] if item.name == full_name(path) else item.name)
        if existing is not None and not (replace and kind_of(existing) == kind_of(bound)):
            raise _exists(existing, kind_of(bound), name)
        if temporary:
            self._temporary[_key(kind, path)] = bound
            return True
        try:
            self._changeable(path[0], name).put(path[1], kind, bound, new=existing is None)
        except FileExistsError:  # another process has just created it
            raise _exists(bound, kind_of(bound), name) from None
        return True

    def _there(self, kind: Kind, path: Path, name: Name) -> Entry | None:
        return self._changeable(path[0], name).entry(path[1], kind, path[2])

    def _changeable(self, catalog: str, name: Name) -> Store:
        mount = self.mount(catalog, name)
        if mount.store.refusal is not None:
            message = f'nothing can be created, altered or dropped in catalog "{mount.name}"'
            raise BindError(NOT_CHANGED, message, name.span, hint=mount.store.refusal)
        return mount.store

    def register(self, function: Function, implementation: object) -> None:
        """Adds or replaces a function that exists in all databases. ``implementation``: its Python object."""
        self._system[function.name.casefold()] = function
        self._implement(function, implementation)

    def _implement(self, function: Function, implementation: object) -> None:
        key = (function.name.casefold(), function.target)
        self._implementations.pop(key, None)
        if implementation is not None:
            self._implementations[key] = implementation

    def drop(self, kind: str, name: Name, *, if_exists: bool = False, temporary: bool = False) -> Item | None:
        """Removes an object; ``kind``: TABLE, VIEW or FUNCTION. Returns it, or None if its definition is invalid.

        Also returns None if there is no such object and ``if_exists`` is set.
        """
        space: Kind = "function" if kind == "FUNCTION" else "relation"
        system = self._system.get(name.parts[-1].casefold()) if space == "function" and len(name.parts) == 1 else None
        if system is not None:
            del self._system[system.name.casefold()]
            self._implement(system, None)
            return system
        try:
            path = self.path(name)
        except BindError:
            if if_exists:
                return None
            raise
        held = self._temporary.get(_key(space, path))
        if held is None and not temporary:
            return self._drop_lasting(kind, space, path, name, if_exists)
        if held is None:
            self._refuse_absent(kind, name, if_exists)
            return None
        _require_kind(held, kind, name)
        del self._temporary[_key(space, path)]
        return held.item

    def _drop_lasting(self, kind: str, space: Kind, path: Path, name: Name, if_exists: bool) -> Item | None:
        store = self.mount(path[0], name).store
        entry = self._readable(store, path, space)
        if entry is None and same_name(path[2], store.names(path[1], space)) is None:
            self._refuse_absent(kind, name, if_exists)
            return None
        item = None
        if entry is not None:
            _require_kind(entry, kind, name)
            item = self._item_to_drop(space, path, entry)
        self._changeable(path[0], name).remove(path[1], space, path[2])
        if isinstance(item, Function):
            self._implement(item, None)
        return item

    def _readable(self, store: Store, path: Path, space: Kind) -> Entry | None:
        """What is there; None where its definition is damaged, which must not keep it from being dropped."""
        try:
            return store.entry(path[1], space, path[2])
        except SqlStreamError:
            return None

    def _item_to_drop(self, space: Kind, path: Path, entry: Entry) -> Item | None:
        try:
            return self._bound(space, path, entry)
        except SqlStreamError:
            return None

    def _refuse_absent(self, kind: str, name: Name, if_exists: bool) -> None:
        if not if_exists:
            names = self.function_names() if kind == "FUNCTION" else self.relation_names()
            raise self._missing(kind.lower(), name, names)

    def put(self, kind: Kind, path: Path, item: Item, stored: Stored | None, name: Name) -> None:
        """Replaces the object at the path by ``item``. ``stored``: its new definition. ``name``: its name in the
        statement, for the position of errors.
        """
        bound = Bound(item, stored, path[2])
        if self.is_temporary(kind, path):
            self._temporary[_key(kind, path)] = bound
        else:
            self._changeable(path[0], name).put(path[1], kind, bound)

    def rename(self, kind: Kind, path: Path, new: Path, item: Item, stored: Stored | None, name: Name) -> None:
        """Moves an object to another name, possibly in another database. Raises BindError SS224 if that name is taken.

        ``item`` and ``stored``: the object and its definition under the new name. ``name``: its name in the statement,
        for the position of errors.
        """
        existing = self.entry(kind, new)
        if existing is not None and _key(kind, new) != _key(kind, path):
            raise _exists(existing, kind_of(existing), name)
        bound = Bound(item, stored, new[2])
        if self.is_temporary(kind, path):
            del self._temporary[_key(kind, path)]
            self._temporary[_key(kind, new)] = bound
            return
        old_store, new_store = self._changeable(path[0], name), self._changeable(new[0], name)
        if _key(kind, new) == _key(kind, path):  # in another case
            old_store.remove(path[1], kind, path[2])
            new_store.put(new[1], kind, bound)
        else:
            new_store.put(new[1], kind, bound, new=True)
            old_store.remove(path[1], kind, path[2])

    # --- catalogs and databases ---

    def mounts(self) -> list[Mount]:
        """Returns the session's catalogs, sorted by name."""
        return sorted(self._mounts.values(), key=lambda m: m.name)

    def add_catalog(self, mount: Mount, name: Name, *, if_not_exists: bool = False) -> bool:
        """Adds a catalog to the session. Returns False if the name is taken and ``if_not_exists`` is set, else True."""
        if mount.name.casefold() in self._mounts:
            if if_not_exists:
                return False
            hint = "Drop it first, or write CREATE CATALOG IF NOT EXISTS."
            raise BindError(ALREADY_EXISTS, f'catalog "{mount.name}" exists already', name.span, hint=hint)
        self.replace_catalog(mount)
        return True

    def replace_catalog(self, mount: Mount) -> None:
        """Replaces the catalog that has the same name as ``mount``."""
        store = mount.store.copy() if self._trial else mount.store
        self._mounts[mount.name.casefold()] = replace(mount, store=store)
        self._declared.clear()

    def drop_catalog(self, name: Name, *, if_exists: bool = False) -> bool:
        """Removes a catalog from the session. What it stores elsewhere is not deleted."""
        if name.parts[-1].casefold() not in self._mounts and if_exists:
            return False
        mount = self.mount(name.parts[-1], name)
        if mount.name == self.current[0]:
            message = f'catalog "{mount.name}" is the current one'
            raise BindError(IN_USE, message, name.span, hint=f"USE CATALOG {DEFAULT[0]} first.")
        if mount.name == DEFAULT[0]:
            message = f'catalog "{mount.name}" cannot be dropped'
            raise BindError(IN_USE, message, name.span, hint="Drop what is in it.")
        del self._mounts[mount.name.casefold()]
        self._temporary = {k: v for k, v in self._temporary.items() if k[1] != mount.name.casefold()}
        return True

    def use_catalog(self, name: Name) -> None:
        """Makes a catalog the current one; its default database becomes the current database."""
        mount = self.mount(name.parts[-1], name)
        self.current = (mount.name, mount.store.default_database)

    def use_database(self, name: Name) -> None:
        """Makes a database the current one."""
        self.current = self.namespace(name)

    def database(self, name: Name) -> Database:
        """Returns the database with that name. Raises BindError SS225 if there is none."""
        catalog, database = self.namespace(name)
        store = self.mount(catalog, name).store
        return next(d for d in store.databases() if d.name.casefold() == database.casefold())

    def create_database(self, name: Name, database: Database, *, if_not_exists: bool = False) -> bool:
        """Creates a database. Returns False if it exists and ``if_not_exists`` is set, else True."""
        catalog = name.parts[-2] if len(name.parts) > 1 else self.current[0]
        mount = self.mount(catalog, name)
        if same_name(database.name, [d.name for d in mount.store.databases()]) is not None:
            if if_not_exists:
                return False
            message = f'database "{database.name}" exists already in catalog "{mount.name}"'
            hint = "Drop it first, or write CREATE DATABASE IF NOT EXISTS."
            raise BindError(ALREADY_EXISTS, message, name.span, hint=hint)
        self._changeable(catalog, name).put_database(database)
        return True

    def put_database(self, name: Name, database: Database) -> None:
        """Stores a changed definition of a database: its comment and options."""
        self._changeable(self.namespace(name)[0], name).put_database(database)

    def drop_database(self, name: Name, *, if_exists: bool = False, cascade: bool = False) -> list[Item]:
        """Removes a database and returns the objects that were in it. ``cascade``: it need not be empty."""
        try:
            catalog, database = self.namespace(name)
        except BindError:
            if if_exists:
                return []
            raise
        store = self._changeable(catalog, name)
        inside = [*self.names("relation", (catalog, database)), *self.names("function", (catalog, database))]
        if inside and not cascade:
            message = f'database "{database}" is not empty: it has "{inside[0]}"'
            raise BindError(
                NOT_EMPTY, message, name.span, hint=f"Drop what is in it, or write DROP DATABASE {name} CASCADE."
            )
        if (catalog, database) == self.current:
            message = f'database "{database}" is the current one'
            raise BindError(IN_USE, message, name.span, hint="USE another one first.")
        if database == store.default_database:
            message = f'database "{database}" is the one that its catalog begins with'
            raise BindError(IN_USE, message, name.span, hint="Drop what is in it.")
        items = self._items_to_drop((catalog, database))
        store.drop_database(database)
        gone = (catalog.casefold(), database.casefold())
        self._temporary = {k: v for k, v in self._temporary.items() if k[1:3] != gone}
        return items

    def _items_to_drop(self, namespace: tuple[str, str]) -> list[Item]:
        items: list[Item] = []
        for name in self.names("relation", namespace):
            try:
                item = self.item("relation", (*namespace, name))
            except SqlStreamError:  # a damaged definition goes, too
                continue
            items += [item] if item is not None else []
        return items

    def _missing(self, kind: str, name: Name, names: list[str]) -> BindError:
        hint = did_you_mean(str(name), names)
        return BindError(DOES_NOT_EXIST, f'{kind} "{name}" does not exist', name.span, hint=hint)


def _called(item: Item, path: Path) -> Item:
    """What a foreign catalog shows, under its full name."""
    return replace(item, name=full_name(path)) if isinstance(item, Table) else item


def kind_of(item: Item | Entry) -> str:
    """Returns the kind of an object in lower case, such as ``table`` or ``materialized view``."""
    match item:
        case (
            Bound(stored=Stored(statement=nodes.CreateMaterializedView() as statement))
            | Stored(statement=nodes.CreateMaterializedView() as statement)
        ):
            return statement.kind.lower()
        case Bound(item=bound):
            return kind_of(bound)
        case Stored(statement=statement):
            return type(statement).__name__.removeprefix("Create").lower()
    return type(item).__name__.lower()


def _exists(existing: Entry, wanted: str, name: Name) -> BindError:
    kind = kind_of(existing)
    hint = f"Drop it first, or write CREATE {wanted.upper()} IF NOT EXISTS."
    return BindError(ALREADY_EXISTS, f'{kind} "{existing.name}" exists already', name.span, hint=hint)


def definition_of_view(entry: Entry | None) -> tuple[nodes.CreateMaterializedView, str] | None:
    """For a materialized view: returns its CREATE statement and the SQL text that the statement's spans refer to. None
    for other objects.
    """
    stored = entry.stored if isinstance(entry, Bound) else entry
    if stored is None or not isinstance(stored.statement, nodes.CreateMaterializedView):
        return None
    return stored.statement, stored.text


def _require_kind(entry: Entry, kind: str, name: Name) -> None:
    if kind in KINDS and definition_of_view(entry) is not None:
        return
    if kind_of(entry) != kind.lower():
        message = f'"{entry.name}" is a {kind_of(entry)}, not a {kind.lower()}'
        raise BindError(DOES_NOT_EXIST, message, name.span, hint=f"Write DROP {kind_of(entry).upper()}.")
