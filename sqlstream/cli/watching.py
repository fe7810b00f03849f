"""``sqlstream test --watch``: which tests run again when files change."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from sqlstream.testing.suite import Item

_EVERY_S = 0.5
_SUFFIXES = (".golden", ".sql", ".json", ".csv", ".jsonl", ".parquet", ".py")

Times = dict[Path, int]


def watched(
    items: Callable[[], Sequence[Item]], paths: Iterable[Path], wait: Callable[[float], object] = time.sleep
) -> Iterator[list[Item]]:
    """The tests to run, each time files change, until Ctrl-C: those of a golden file that has changed, or of which a
    file that it names has; all of them where another file has, whose rows or functions any test may read."""
    folders = [path if path.is_dir() else path.parent for path in paths]
    before = _times(items(), folders)
    click.echo("\nwaiting for changes; Ctrl-C ends")
    try:
        while True:
            wait(_EVERY_S)
            now = _times(items(), folders)
            changed = {path for path in now.keys() | before.keys() if now.get(path) != before.get(path)}
            if not changed:
                continue
            chosen = _concerned(items(), changed)
            before = now
            if chosen:
                click.echo(f"\nchanged: {', '.join(sorted(path.name for path in changed))}")
                yield chosen
                before = _times(items(), folders)  # --bless writes files itself
                click.echo("\nwaiting for changes; Ctrl-C ends")
    except KeyboardInterrupt:
        click.echo()


def _times(items: Sequence[Item], folders: Iterable[Path]) -> Times:
    """When each file that tests may rest on was last changed."""
    from sqlstream.testing.suite import files_behind

    below = (path for folder in folders for path in folder.rglob("*") if path.suffix in _SUFFIXES)
    named = (path for item in {item.path: item for item in items}.values() for path in files_behind(item.path))
    times: Times = {}
    for path in (*below, *named):
        try:
            times[path.resolve()] = path.stat().st_mtime_ns
        except OSError:
            continue
    return times


def _concerned(items: Sequence[Item], changed: set[Path]) -> list[Item]:
    from sqlstream.testing.suite import files_behind

    behind = {item.path: {path.resolve() for path in files_behind(item.path)} for item in items}
    named = {path for paths in behind.values() for path in paths}
    if not changed <= named:
        return list(items)
    return [item for item in items if behind[item.path] & changed]
