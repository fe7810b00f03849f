"""Catalogs of the type ``file``: a folder of SQL files, one per definition, for version control.

``sales.sql`` has CREATE DATABASE, ``sales/orders.sql`` a table or view of it, ``sales/functions/fee.sql`` a function.
The name of a file is the name of its object. Files are read when their object is used, and again when they have
changed, so changes by other processes and editors take effect at once.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote

from sqlstream.catalogs.declaring import has_types
from sqlstream.catalogs.store import (
    Bound,
    Database,
    Entry,
    Kind,
    Stored,
    Trial,
    refuse_secrets,
    refuse_secrets_of,
    same_name,
)
from sqlstream.errors import ConnectorError, Diagnostic, Span, SqlStreamError
from sqlstream.grammar import format_script, nodes, parse_script, to_sql
from sqlstream.paths import as_segment
from sqlstream.udfs.texts import reason_of

DAMAGED = "SS537"
NO_FOLDER = "SS534"

_ENDING = ".sql"
_FUNCTIONS = "functions"
_Relation = nodes.CreateTable | nodes.CreateView | nodes.CreateMaterializedView
_Statement = _Relation | nodes.CreateFunction | nodes.CreateDatabase
_Stamp = tuple[int, int, int]
T = TypeVar("T", bound=_Statement)


@dataclass
class Files:
    """A catalog ``Store`` in a folder, with one file per definition. Errors in a file raise ConnectorError SS537,
    which names the file.
    """

    folder: Path
    default_database: str = "default"
    refusal: str | None = None
    keeps_text: bool = True
    _read: dict[Path, tuple[_Stamp, Stored]] = field(default_factory=dict)

    # --- databases ---

    def databases(self) -> list[Database]:
        names = {self.default_database.casefold(): self.default_database}
        with self._usable():
            entries = sorted(self.folder.iterdir()) if self.folder.is_dir() else []
        for path in entries:
            name = unquote(path.name.removesuffix(_ENDING))
            if _is_shown(path) and (path.is_dir() or path.suffix == _ENDING):
                names.setdefault(name.casefold(), name)
        return [self._database(name) for name in names.values()]

    def _database(self, name: str) -> Database:
        file = self._database_file(name)
        if not file.is_file():
            return Database(name)
        statement = _statement(file, nodes.CreateDatabase)
        return Database(name, statement.comment, {option.key: option.value for option in statement.options})

    def _database_file(self, name: str) -> Path:
        return self._existing(self.folder, name + _ENDING) or self.folder / (as_segment(name) + _ENDING)

    def put_database(self, database: Database) -> None:
        options = tuple(nodes.Option(key, value) for key, value in database.options.items())
        refuse_secrets_of(database)
        statement = nodes.CreateDatabase(nodes.Name((database.name,)), options, comment=database.comment)
        with self._usable():
            _write(self._database_file(database.name), _text_of(statement))

    def drop_database(self, name: str) -> None:
        with self._usable():
            self._database_file(name).unlink(missing_ok=True)
            shutil.rmtree(self._folder(name, "relation"), ignore_errors=True)

    # --- what is in them ---

    def names(self, database: str, kind: Kind) -> list[str]:
        folder = self._folder(database, kind)
        with self._usable():
            paths = sorted(folder.iterdir()) if folder.is_dir() else []
        return [unquote(path.stem) for path in paths if path.suffix == _ENDING and _is_shown(path)]

    def entry(self, database: str, kind: Kind, name: str) -> Stored | None:
        file = self._file(database, kind, name)
        with self._usable():
            try:
                status = file.stat()
            except FileNotFoundError:
                return None
            stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
        entry = self._read.get(file)
        if entry is not None and entry[0] == stamp:
            return entry[1]
        stored = _stored(file, kind)
        self._read[file] = (stamp, stored)
        return stored

    def put(self, database: str, kind: Kind, entry: Entry, *, new: bool = False) -> None:
        stored = entry.stored if isinstance(entry, Bound) else entry
        assert stored is not None, "only definitions are written into files"
        refuse_secrets(stored)
        statement = replace(stored.statement, if_not_exists=False, replace=False)
        if not isinstance(statement, nodes.CreateMaterializedView):
            statement = replace(statement, temporary=False)
        if isinstance(statement, nodes.CreateTable):
            statement = replace(statement, must_exist=False)
        with self._usable():
            _write(self._file(database, kind, stored.name), _text_of(statement), new=new)

    def remove(self, database: str, kind: Kind, name: str) -> None:
        with self._usable():
            self._file(database, kind, name).unlink(missing_ok=True)

    def copy(self) -> Trial:
        return Trial(self)

    # --- places ---

    def _folder(self, database: str, kind: Kind) -> Path:
        folder = self._existing(self.folder, database) or self.folder / as_segment(database)
        return folder / _FUNCTIONS if kind == "function" else folder

    def _file(self, database: str, kind: Kind, name: str) -> Path:
        folder = self._folder(database, kind)
        return self._existing(folder, name + _ENDING) or folder / (as_segment(name) + _ENDING)

    def _existing(self, folder: Path, name: str) -> Path | None:
        """The path under this name, whose case may differ."""
        with self._usable():
            there = {unquote(path.name): path for path in folder.iterdir()} if folder.is_dir() else {}
        key = name if name in there else same_name(name, sorted(there))
        return there[key] if key is not None else None

    @contextmanager
    def _usable(self) -> Iterator[None]:
        try:
            yield
        except FileExistsError:
            raise
        except (OSError, ValueError) as error:
            message = f'folder "{self.folder}" of a catalog cannot be used: {reason_of(error)}'
            raise ConnectorError(NO_FOLDER, message, hint="Correct the option path of the catalog.") from None


def _is_shown(path: Path) -> bool:
    return not path.name.startswith(".")


# --- texts ----------------------------------------------------------------------------------------------------


def _stored(file: Path, kind: Kind) -> Stored:
    statement, text = _parsed(file)
    wanted = nodes.CreateFunction if kind == "function" else _Relation
    if not isinstance(statement, wanted):
        what = "CREATE FUNCTION" if kind == "function" else "CREATE TABLE or CREATE VIEW"
        raise _damaged(file, f"it holds no {what}", statement.span, text)
    if isinstance(statement, nodes.CreateTable) and (statement.query is not None or statement.like is not None):
        raise _damaged(file, "CREATE TABLE has AS or LIKE", statement.span, text)
    if isinstance(statement, nodes.CreateMaterializedView) and not has_types(statement):
        raise _damaged(file, "columns of a materialized view have no types", statement.span, text)
    assert isinstance(statement, _Relation | nodes.CreateFunction)
    _require_name(statement, file, text)
    return Stored(statement, text, str(file))


def _statement(file: Path, kind: type[T]) -> T:
    statement, text = _parsed(file)
    if not isinstance(statement, kind):
        raise _damaged(file, "it holds no CREATE DATABASE", statement.span, text)
    _require_name(statement, file, text)
    return statement


def _require_name(statement: _Statement, file: Path, text: str) -> None:
    name = statement.name.parts[-1]
    if name.casefold() != unquote(file.stem).casefold():
        raise _damaged(file, f'it defines "{name}"', statement.name.span, text, "File and object have one name.")


def _parsed(file: Path) -> tuple[nodes.Statement, str]:
    """The one statement of a file."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise _damaged(file, "it is no UTF-8 text" if isinstance(error, ValueError) else reason_of(error)) from None
    try:
        statements = parse_script(text)
    except SqlStreamError as error:
        raise in_file(error, str(file), text) from None
    if len(statements) != 1:
        raise _damaged(file, f"it holds {len(statements)} statements instead of one", None, text)
    return statements[0], text


def in_file(error: SqlStreamError, file: str, text: str) -> SqlStreamError:
    """Converts an error in a definition into an SS537 that names the file with the definition. ``text``: the file's
    content.
    """
    return SqlStreamError.of(
        replace(d, code=DAMAGED, message=f'file "{file}" of a catalog is damaged: {d.message}', source=d.source or text)
        for d in error.diagnostics
    )


def _damaged(
    file: Path, reason: str, span: Span | None = None, text: str | None = None, hint: str | None = None
) -> SqlStreamError:
    message = f'file "{file}" of a catalog is damaged: {reason}'
    return SqlStreamError.of([Diagnostic(DAMAGED, message, span, hint=hint, source=text)])


def _text_of(statement: _Statement) -> str:
    printed = to_sql(statement)
    try:
        return format_script(f"{printed};")
    except SqlStreamError:  # the statement is right, its layout is not needed
        return f"{printed};\n"


def _write(file: Path, text: str, *, new: bool = False) -> None:
    """Write the file in one step. ``new``: FileExistsError if it exists."""
    file.parent.mkdir(parents=True, exist_ok=True)
    written = file.with_name(f".{file.name}.{os.getpid()}.new")
    try:
        with written.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        if new:
            os.link(written, file)
        else:
            written.replace(file)
    finally:
        written.unlink(missing_ok=True)
