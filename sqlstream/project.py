"""``sqlstream.toml``: the settings, catalogs, variables and profiles of a project folder.

It is looked for in the working directory and then upwards, so that every command in the folder and below begins alike.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlstream.catalog import Mount
from sqlstream.catalogs.kinds import mounted
from sqlstream.errors import ConnectorError, SqlStreamError
from sqlstream.grammar.nodes import Name
from sqlstream.options import PATH, find
from sqlstream.planner.suggestions import did_you_mean
from sqlstream.settings import OPTIONS
from sqlstream.udfs.texts import reason_of

if TYPE_CHECKING:
    from sqlstream.session import Session

FILE = "sqlstream.toml"
WRONG_PROJECT = "SS535"

_OF_PROFILES = ("catalog", "database", "env-files", "settings", "variables", "catalogs")
_KEYS = ("profile", *_OF_PROFILES, "profiles")
FOLDER = "project"
"""The variable that holds the folder of the file."""


@dataclass(frozen=True)
class Project:
    """The content of a ``sqlstream.toml`` with a profile applied. ``catalogs``: the options of each catalog as
    written, by its name.
    """

    folder: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    catalogs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    env_files: tuple[str, ...] = ()
    catalog: str | None = None
    database: str | None = None

    @property
    def file(self) -> Path:
        """The path of the project's ``sqlstream.toml``."""
        return self.folder / FILE


def find_project(start: Path) -> Path | None:
    """Returns the path of the ``sqlstream.toml`` in the directory, or in the nearest parent directory that has one;
    None if there is none.
    """
    folders = (start, *start.parents)
    return next((folder / FILE for folder in folders if (folder / FILE).is_file()), None)


def read_project(file: Path, profile: str | None = None) -> Project:
    """Reads a ``sqlstream.toml`` and applies a profile: ``profile``, or else the one that the file names.

    Raises ConnectorError SS535 for errors in the file, or if it has no such profile.
    """
    try:
        said = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:  # of TOML, too
        raise _wrong(file, reason_of(error)) from None
    _require_keys(file, said, _KEYS, "")
    base = _read(file, said)
    profiles = _table(file, said, "profiles")
    chosen = profile or said.get("profile")
    if chosen is None:
        return base
    if chosen not in profiles:
        hint = did_you_mean(str(chosen), list(profiles), "profiles") or f"Profiles are {', '.join(profiles) or 'none'}."
        raise _wrong(file, f'there is no profile "{chosen}"', hint)
    given = profiles[chosen]
    if not isinstance(given, dict):
        raise _wrong(file, f'"profiles.{chosen}" is no table')
    _require_keys(file, given, _OF_PROFILES, f"profiles.{chosen}.")
    return _over(base, _read(file, given))


def _over(base: Project, profile: Project) -> Project:
    return replace(
        base,
        settings={**base.settings, **profile.settings},
        variables={**base.variables, **profile.variables},
        catalogs={**base.catalogs, **profile.catalogs},
        env_files=(*base.env_files, *profile.env_files),
        catalog=profile.catalog or base.catalog,
        database=profile.database or (None if profile.catalog else base.database),
    )


def _read(file: Path, said: Mapping[str, Any]) -> Project:
    folder = file.parent
    settings = {key: _in_folder(key, value, folder) for key, value in _flat(file, said, "settings").items()}
    variables = {FOLDER: str(folder), **_flat(file, said, "variables")}
    catalogs = {name: _options(file, name, options, folder) for name, options in _table(file, said, "catalogs").items()}
    env_files = said.get("env-files", [])
    if not isinstance(env_files, list) or not all(isinstance(name, str) for name in env_files):
        raise _wrong(file, '"env-files" is no list of texts')
    names = {key: said.get(key) for key in ("catalog", "database")}
    for key, name in names.items():
        if name is not None and not isinstance(name, str):
            raise _wrong(file, f'"{key}" is no text')
    paths = tuple(str(folder / name) for name in env_files)
    return Project(folder, settings, variables, catalogs, paths, names["catalog"], names["database"])


def _require_keys(file: Path, said: Mapping[str, Any], known: tuple[str, ...], prefix: str) -> None:
    unknown = next((key for key in said if key not in known), None)
    if unknown is not None:
        hint = did_you_mean(unknown, known, "keys") or f"Keys are {', '.join(known)}."
        raise _wrong(file, f'"{prefix}{unknown}" is not known', hint)


def _table(file: Path, said: Mapping[str, Any], key: str) -> dict[str, Any]:
    table = said.get(key, {})
    if not isinstance(table, dict):
        raise _wrong(file, f'"{key}" is no table')
    return table


def _flat(file: Path, said: Mapping[str, Any], key: str) -> dict[str, str]:
    """The values as texts; ``a.b = 1`` and ``[settings.a]`` with ``b = 1`` are the key ``a.b``."""
    flat: dict[str, str] = {}

    def add(prefix: str, table: Mapping[str, Any]) -> None:
        for name, value in table.items():
            if isinstance(value, dict):
                add(f"{prefix}{name}.", value)
            else:
                flat[prefix + name] = _text(file, f"{key}.{prefix}{name}", value)

    add("", _table(file, said, key))
    return flat


def _text(file: Path, key: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise _wrong(file, f'"{key}" is no text, number or boolean')


def _options(file: Path, name: str, options: object, folder: Path) -> dict[str, str]:
    if not isinstance(options, dict):
        raise _wrong(file, f'"catalogs.{name}" is no table')
    texts = {key: _text(file, f"catalogs.{name}.{key}", value) for key, value in options.items()}
    return {key: _path(value, folder) if key == "path" else value for key, value in texts.items()}


def _in_folder(key: str, value: str, folder: Path) -> str:
    """Settings that are paths count from the folder of the file."""
    option = find(OPTIONS, key)
    return _path(value, folder) if option is not None and option.kind is PATH else value


def _path(text: str, folder: Path) -> str:
    return text if "://" in text or text.startswith(("${", "~")) else str(folder / text)


def _wrong(file: Path, reason: str, hint: str | None = None) -> ConnectorError:
    return ConnectorError(WRONG_PROJECT, f'"{file}": {reason}', hint=hint)


# --- sessions -------------------------------------------------------------------------------------------------


def enter(session: Session, project: Project) -> None:
    """Applies a project to a session: sets its settings and variables, mounts its catalogs, and selects its current
    catalog and database.
    """
    catalog = session.workspace.catalog
    try:
        for key, value in project.settings.items():
            session.workspace.settings.set(key, value)
        catalog.variables = dict(project.variables)
        for name, options in project.catalogs.items():
            store = mounted(name, options, catalog.variables, catalog.spark)
            catalog.add_catalog(Mount(name, store, tuple(options.items())), Name((name,)))
        if project.catalog is not None:
            catalog.use_catalog(Name((project.catalog,)))
        if project.database is not None:
            catalog.use_database(Name((project.database,)))
    except SqlStreamError as error:
        raise SqlStreamError.of(
            replace(d, message=f'"{project.file}": {d.message}', span=None) for d in error.diagnostics
        ) from None


def nearest_project(start: str | os.PathLike[str], profile: str | None = None) -> Project | None:
    """Reads the project of ``start``, which is a ``sqlstream.toml`` or a directory in or below a project's. None if
    there is none.
    """
    path = Path(start).absolute()
    file = path if path.is_file() else find_project(path)
    return None if file is None else read_project(file, profile)
