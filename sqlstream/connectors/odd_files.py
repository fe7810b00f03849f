"""Files that a directory would give twice, or not at all: links to what is read already, links to nothing, and names
that are no UTF-8.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sqlstream.errors import Diagnostic, SqlStreamError
from sqlstream.planner.catalog import Table
from sqlstream.udfs.listed_files import require_readable, shown_name
from sqlstream.udfs.texts import is_text

WRONG_NAME = "SS530"


@dataclass
class Walk:
    """The files below some paths, each once; ``links`` lead to a file or a directory that is among them anyway."""

    files: list[Path] = field(default_factory=list)
    links: list[Path] = field(default_factory=list)


def walk(roots: Iterable[Path]) -> Walk:
    """Links come last, so that they are what is left out."""
    result, seen = Walk(), set[str]()
    waiting = [*roots]
    while waiting:
        links: list[Path] = []
        for path in waiting:
            _visit(path, result, seen, links)
        waiting = links
    return result


def _visit(path: Path, result: Walk, seen: set[str], links: list[Path]) -> None:
    real = os.path.realpath(path)
    if real in seen:
        result.links.append(path)
        return
    seen.add(real)
    if not path.is_dir():
        result.files.append(path)
        return
    for child in sorted(path.iterdir()):
        if child.name.startswith(("_", ".")):
            continue
        if child.is_symlink():
            links.append(child)
        else:
            _visit(child, result, seen, links)


def wrong_files(table: Table, files: Iterable[Path], format: str) -> Iterator[Diagnostic]:  # noqa: A002
    """SS530 for a name that is no UTF-8, SS528 for a file that is none of the format, SS529 for a link to nothing."""
    for file in files:
        if not is_text(str(file)):
            message = f'the name of file "{shown_name(str(file))}" of table "{table.name}" is no UTF-8'
            yield Diagnostic(WRONG_NAME, message, hint="Rename it: Spark does not find it by this name.")
            continue
        try:
            require_readable(str(file), format)
        except SqlStreamError as error:
            yield error.diagnostic
