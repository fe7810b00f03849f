"""``sqlstream test``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sqlstream.cli.options import pairs, require_writable
from sqlstream.cli.output import StatusLine, working
from sqlstream.cli.scripts import current_project
from sqlstream.errors import SqlStreamError
from sqlstream.testing.case_format import case_files, cases_root
from sqlstream.testing.cases import selected
from sqlstream.testing.report import Result, Summary, write_junit
from sqlstream.testing.spark import LocalSession
from sqlstream.testing.suite import How, Item, files_behind, files_with_tests, items_of, run_items, selection

if TYPE_CHECKING:
    from sqlstream.project import Project


_RESTARTS = {"none": 0, "third": 3, "all": 1}


@dataclass(frozen=True)
class _Wanted:
    """Which tests run."""

    paths: tuple[Path, ...]
    cases: Path | None
    select: str | None
    chosen: Callable[[str], bool]
    restarts: int

    def items(self) -> list[Item]:
        # loaded when the command runs: help and errors stay fast
        files = selected(files_with_tests(self.paths), self.select)
        items = [item for path in dict.fromkeys(files) for item in items_of(path, self.restarts)]
        if self.cases is not None:
            root = cases_root(self.cases)
            items += [Item(path, "", root=root) for path in selected(case_files(self.cases), self.select)]
        return [item for item in items if self.chosen(item.searched)]


def test_command(
    paths: tuple[Path, ...],
    cases: Path | None,
    words: str | None,
    select: str | None,
    until_failure: bool,
    bless: bool,
    watch: bool,
    processes: int,
    restarts: str,
    streaming: bool,
    junit: Path | None,
    report: Path | None,
    settings: tuple[str, ...],
) -> int:
    """``sqlstream test``: runs tests, which consist of inputs, clock steps and expected outputs of queries. Returns
    the exit code.
    """
    given = pairs(settings, "--set")
    paths = paths or (() if cases is not None else (Path(),))
    wanted = _Wanted(paths, cases, select, _selection(words), _RESTARTS[restarts])
    items = wanted.items()
    if not items and not watch:
        raise click.UsageError(_nothing(wanted, words))
    for file in (junit, report):
        if file is not None:
            require_writable(file)
    project = current_project()
    _check_settings(given, project)
    run = _Run(How(bless, given, project, streaming), processes, until_failure, junit, report)
    failed = run.all(items)
    if watch:
        for chosen in watched(wanted.items, paths if cases is None else (*paths, cases)):
            run.all(chosen)
    return 1 if failed else 0


def _selection(words: str | None) -> Callable[[str], bool]:
    try:
        return selection(words) if words is not None else lambda name: True
    except ValueError as error:
        raise click.UsageError(f"-k takes words with and, or, not and parentheses: {error}") from error


def _nothing(wanted: _Wanted, words: str | None) -> str:
    where = '", "'.join(str(path) for path in (*wanted.paths, *([wanted.cases] if wanted.cases else [])))
    beside = f' whose path contains "{wanted.select}"' if wanted.select else ""
    beside += f' with the words "{words}"' if words else ""
    what = "test" if wanted.paths else "case file (*.json)"
    return f'there is no {what}{beside} at "{where}"'


def _check_settings(given: Mapping[str, str], project: Project | None) -> None:
    try:
        LocalSession(given, project).close()
    except SqlStreamError as error:
        raise click.UsageError(str(error)) from error


@dataclass(frozen=True)
class _Run:
    how: How
    processes: int
    until_failure: bool
    junit: Path | None
    report: Path | None

    def all(self, items: Sequence[Item]) -> bool:
        """Run the tests and write the reports. True where one fails."""
        # loaded when the command runs: help and errors stay fast
        with working("running tests") as status:
            results = run_items(
                items,
                self.how,
                lambda result: _print(result, status),
                processes=self.processes,
                until_failure=self.until_failure,
            )
        summary = Summary(tuple(results))
        click.echo("\n".join(["", *summary.lines()]))
        if self.report is not None:
            summary.write_json(self.report)
        if self.junit is not None:
            write_junit(self.junit, results)
        return bool(summary.failed)


def _print(result: Result, status: StatusLine) -> None:
    with status.hidden():
        click.echo(result.line() + (f"  {result.seconds:.2f} s" if "::" in result.id else ""))
        if result.detail:
            click.echo("\n" + "\n".join(f"  {line}".rstrip() for line in result.detail.splitlines()) + "\n")


# --- sqlstream test --watch ------------------------------------------------------------------------------------


_EVERY_S = 0.5
_SUFFIXES = (".golden", ".sql", ".json", ".csv", ".jsonl", ".parquet", ".py")

Times = dict[Path, int]


def watched(
    items: Callable[[], Sequence[Item]], paths: Iterable[Path], wait: Callable[[float], object] = time.sleep
) -> Iterator[list[Item]]:
    """Waits for changes of files, until Ctrl-C. After each change yields the tests to run again.

    These are the tests in changed golden files and those whose golden file names a changed file. If any other file has
    changed, they are all tests, because any of them may read it.
    """
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
    behind = {item.path: {path.resolve() for path in files_behind(item.path)} for item in items}
    named = {path for paths in behind.values() for path in paths}
    if not changed <= named:
        return list(items)
    return [item for item in items if behind[item.path] & changed]
