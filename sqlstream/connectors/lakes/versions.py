"""What tables of lakes have in common: settings of a source, positions in a table's versions, and what a micro-batch
reads. ``VersionLog`` is what a table format answers.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar

import pyarrow as pa

from sqlstream.errors import ConnectorError, Diagnostic, repeating
from sqlstream.formats.columnar import fits
from sqlstream.options import hint_of
from sqlstream.types import DataType, parse_type
from sqlstream.udfs.files.details import FileDetails
from sqlstream.udfs.lookup.source import Comparison

OLDER_CHECKPOINT = repeating("SS543")
NO_LAKE_TABLE = "SS545"
WRONG_LAKE_COLUMN = repeating("SS546")
UNSUPPORTED_FEATURE = repeating("SS547")
REWRITTEN = repeating("SS548")
VERSION_GONE = repeating("SS549")
NOT_COMMITTED = "SS550"

CHANGE_TYPE = "_change_type"
"""The column of files of the change feed with the kind of each row."""

RENAMED_COLUMNS = "source.renamed-columns"

BOUND, TABLE = "columns", "table"
"""What offsets of streams say besides the position: ``VersionLog.bound`` and ``table_id``."""

RETRACTS = "__retracts"
"""A constant of files of the change feed: whether the rows to read are those that retract, or the others."""


@dataclass(frozen=True)
class LakeSettings:
    """What a source of a table format needs to know, in any process.

    * ``name``: the table in SQL, for messages. ``location`` and ``storage``: where it is, and the options of the
      library for that. ``columns``: those that are read.
    * ``start``: the startup mode, with ``start_at``, a version or a time. ``as_of``: the version or the time (ISO 8601)
      at which a bounded source reads the table; None for the newest one.
    * ``bounded``: the rows of one version are all. ``changes``: rows have kinds. ``skips_rewrites``: versions that
      change or remove rows are left out, where rows have no kinds.
    * ``most_files``, ``most_bytes``: what a micro-batch reads at most, but always one file.
    * ``follows_names``: where a column of the stream has the name of another one by now, it is read by its name.
    * ``bound``: what ``LakeColumns.bound`` said of the columns when the query began, where they must be the same.
    * ``filters``: files may be left out whose rows all fail one of these.
    """

    format: str
    name: str
    location: str
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)
    columns: tuple[tuple[str, str], ...] = ()
    start: str = "snapshot"
    start_at: str | None = None
    as_of: int | str | None = None
    bounded: bool = True
    changes: bool = False
    skips_rewrites: bool = False
    most_files: int | None = None
    most_bytes: int | None = None
    follows_names: bool = False
    bound: Mapping[str, str] = field(default_factory=dict)
    filters: tuple[Comparison, ...] = ()

    @property
    def types(self) -> dict[str, DataType]:
        """The type of each column that is read."""
        return {name: parse_type(kind) for name, kind in self.columns}

    def to_json(self) -> str:
        """The settings without ``filters``, which hold values of Python."""
        return json.dumps(asdict(replace(self, filters=())))

    @staticmethod
    def of_json(text: str) -> LakeSettings:
        values = json.loads(text)
        return LakeSettings(**{**values, "columns": tuple(map(tuple, values["columns"])), "filters": ()})


START_AGAIN = "Start in a new directory ('execution.checkpointing.dir')"
"""The beginning of hints where versions are gone."""


@dataclass(frozen=True)
class LakeColumns(ABC):
    """The columns that a table of a lake has: ``schema`` are their names and types as Arrow's. ``kind`` is the name of
    the table format.
    """

    kind: ClassVar[str]
    schema: pa.Schema

    def own(self, name: str) -> str | None:
        """The stored name of a column, which may differ in case; None where the table lacks it."""
        if name in self.schema.names:
            return name
        alike = [own for own in self.schema.names if own.casefold() == name.casefold()]
        return alike[0] if len(alike) == 1 else None

    def wrong(self, table: str, wanted: Mapping[str, DataType]) -> list[Diagnostic]:
        """Returns diagnostics SS546 for columns that the table lacks or has with another type, and SS547 for those that
        cannot be read.
        """
        return [d for name, declared in wanted.items() for d in self._wrong(table, name, declared)]

    def _wrong(self, table: str, name: str, declared: DataType) -> Iterator[Diagnostic]:
        own = self.own(name)
        if own is None:
            message = f'column "{name}" of table "{table}" does not exist in the {self.kind} table'
            yield Diagnostic(WRONG_LAKE_COLUMN, message, hint=hint_of(name, self.schema.names, "Columns there"))
            return
        there = self.schema.field(own).type
        if not fits(there, declared.to_arrow()):
            message = f'column "{name}" of table "{table}" is {declared}, but {there} in the {self.kind} table'
            yield Diagnostic(WRONG_LAKE_COLUMN, message, hint="Declare it with the type that it has there.")
        else:
            yield from self.unsupported(f'"{name}" of table "{table}"', own, declared)

    def rebound(self, table: str, before: Mapping[str, str]) -> list[Diagnostic]:
        """Returns diagnostics SS546 for columns whose names other columns have than before, as ``bound`` says it."""
        now = self.bound(before)
        return [self._rebound(table, name) for name, stored in before.items() if now.get(name, stored) != stored]

    def _rebound(self, table: str, name: str) -> Diagnostic:
        message = (
            f'column "{name}" of table "{table}" is another column of the {self.kind} table than when the query began'
        )
        detail = "Columns were renamed, or dropped and added again."
        hint = f"{START_AGAIN}, or let the query follow the names: '{RENAMED_COLUMNS}' = 'follow'."
        return Diagnostic(WRONG_LAKE_COLUMN, message, detail=detail, hint=hint)

    def bound(self, names: Iterable[str]) -> dict[str, str]:
        """By column, what files know it by, which remains where it is renamed; without those that the table lacks."""
        own = ((name, self.own(name)) for name in names)
        return {name: self.in_files(stored) for name, stored in own if stored is not None}

    @abstractmethod
    def in_files(self, own: str) -> str:
        """What files know the column with the stored name ``own`` by: its field id, or its name there."""

    @abstractmethod
    def unsupported(self, shown: str, own: str, declared: DataType) -> Iterator[Diagnostic]:
        """Yields diagnostics SS547 where the column with the stored name ``own`` cannot be read. ``shown``: the column
        and the table in messages.
        """


@dataclass(frozen=True)
class LakeFile:
    """A data file of a table: its URL, its size in bytes, and what its rows need to become rows of the table.

    ``pruned``: no row passes the filters of the query. The file has a place among the others, but is not read.
    """

    url: str
    size: int
    details: FileDetails
    pruned: bool = False


@dataclass(frozen=True)
class Position:
    """How far a job has read, as its checkpoint has it: all files up to ``version``, of which ``index`` files are read;
    None for all.

    ``whole``: of this version all files of the table are read, not just those that it has added. ``stop``: it is the
    last one.
    """

    version: int
    index: int | None = 0
    whole: bool = False
    stop: bool = False

    def to_json(self) -> dict[str, Any]:
        """The position as Spark's offset log holds it."""
        return asdict(self)

    @staticmethod
    def of_json(value: Mapping[str, Any]) -> Position:
        return Position(**{key: own for key, own in value.items() if key not in (BOUND, TABLE)})


class VersionLog(ABC):
    """The versions of a table, as its format has them. ``columns``: those of the table, of which the names of now
    count; of finished data those of the version that is read.
    """

    columns: LakeColumns

    def __init__(self, settings: LakeSettings) -> None:
        self._settings = settings
        self._bound = settings.bound

    def bound(self) -> dict[str, str]:
        """``LakeColumns.bound`` of the columns that are read, for ``keep``. Those of a version that was asked for do
        not change.
        """
        if self._settings.as_of is not None:
            return {}
        return self.columns.bound(name for name, _ in self._settings.columns)

    def keep(self, bound: Mapping[str, str]) -> None:
        """Raises ConnectorError SS546 where one of the columns is another one than it was, now and from now on, unless
        the settings follow names.
        """
        if bound and not self._settings.follows_names:
            self._bound = bound
            self._require(self.columns)

    def _require(self, columns: LakeColumns) -> None:
        """Raises SS546 or SS547 where columns are not those that are declared, or not any more."""
        name = self._settings.name
        wrong = columns.wrong(name, self._settings.types) or columns.rebound(name, self._bound)
        if wrong:
            raise ConnectorError.of(wrong)

    @property
    @abstractmethod
    def table_id(self) -> str:
        """What tells the table from others that were made in its place."""

    @abstractmethod
    def require_same(self, table_id: str, version: int) -> None:
        """Raises ConnectorError SS549 where the table is another one than that with an id, which had a version."""

    @abstractmethod
    def newest(self) -> int:
        """Looks for the newest version, and returns it."""

    @abstractmethod
    def first_position(self) -> Position:
        """Where a job without checkpoint begins."""

    def position_of(self, version: int) -> Position:
        """The beginning of all rows of a version, after which nothing is read."""
        return Position(version, whole=True, stop=True)

    @abstractmethod
    def after(self, version: int) -> int | None:
        """The version after another one, as of the last look; None if there is none."""

    @abstractmethod
    def files(self, position: Position) -> Sequence[LakeFile]:
        """The files of the version of a position, always in the same order: all files of the table, or those added."""


def advanced(log: VersionLog, settings: LakeSettings, start: Position, target: int | None = None) -> Position:
    """Returns the position after one micro-batch that begins at ``start``. ``target``: the version to end with, of runs
    that read what is there; None for the newest one.

    A version is read in several micro-batches where it has more than a micro-batch may read, but changes are not: each
    version of them is read whole.
    """
    position, read, size = start, 0, 0
    while True:
        files = log.files(position) if position.index is not None else ()
        for number, file in enumerate(files[position.index :], position.index or 0):
            if file.pruned:
                continue
            full = read > 0 and _is_full(settings, read + 1, size + file.size)
            if full and not settings.changes:
                return replace(position, index=number)
            read, size = read + 1, size + file.size
        position = replace(position, index=None)
        following = None if position.stop or position.version == target else log.after(position.version)
        if following is None or (settings.changes and _is_full(settings, read + 1, size + 1)):
            return position
        position = Position(following)


def _is_full(settings: LakeSettings, files: int, size: int) -> bool:
    too_many = settings.most_files is not None and files > settings.most_files
    return too_many or (settings.most_bytes is not None and size > settings.most_bytes)


def between(log: VersionLog, start: Position, end: Position) -> Iterator[LakeFile]:
    """Yields the files between two positions, in order."""
    position = start
    while position != end:
        if position.index is not None:
            same = (position.version, position.whole) == (end.version, end.whole)
            yield from log.files(position)[position.index : end.index if same else None]
            if same:
                return
        if (position.version, position.whole) == (end.version, end.whole):
            return
        following = log.after(position.version)
        assert following is not None, f"no version after {position.version}"
        position = Position(following)
