"""``sqlstream test``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sqlstream.cli.options import current_project, pairs, project_option, require_writable
from sqlstream.cli.terminal import StatusLine, working
from sqlstream.errors import SqlStreamError

if TYPE_CHECKING:
    from sqlstream.project import Project
    from sqlstream.testing.report import Result
    from sqlstream.testing.suite import How, Item

_EPILOG = """\b
Tests are blocks of golden files (*.golden) and EXECUTE UNIT TEST in SQL files (*.sql), below each
PATH, by default the current directory; --cases adds case files (*.json). All run in one process on
one Spark, which starts with the first of them that needs it.

\b
Prints one line a test, PASS or FAIL, below the latter what is different; of case files also
REFUSED with code and message. Then totals. Exit code 1 where a test fails.

\b
Examples:
  sqlstream test
  sqlstream test tests/revenue.golden -k "late and not session" -x
  sqlstream test tests --bless
  sqlstream test tests -n 4 --junit report.xml
  sqlstream test tests --watch
  sqlstream test --cases cases --json report.json --select windows/
"""
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
        from sqlstream.testing.case_format import case_files, cases_root
        from sqlstream.testing.cases import selected
        from sqlstream.testing.suite import Item, files_with_tests, items_of

        files = selected(files_with_tests(self.paths), self.select)
        items = [item for path in dict.fromkeys(files) for item in items_of(path, self.restarts)]
        if self.cases is not None:
            root = cases_root(self.cases)
            items += [Item(path, "", root=root) for path in selected(case_files(self.cases), self.select)]
        return [item for item in items if self.chosen(item.searched)]


@click.command("test", epilog=_EPILOG)
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--cases", metavar="DIR", type=click.Path(exists=True, path_type=Path),
    help="Run the case files (*.json) below DIR.",
)  # fmt: skip
@click.option("-k", "words", metavar="WORDS", help="Only tests whose file, name or title has the words: a and not b.")
@click.option("--select", metavar="TEXT", help="Only the files whose path contains TEXT.")
@click.option("-x", "--exitfirst", "until_failure", is_flag=True, help="Stop at the first test that fails.")
@click.option("--bless", is_flag=True, help="Write what comes out into golden files; read the diff afterwards.")
@click.option("--watch", is_flag=True, help="Stay, and run tests again when their files change.")
@click.option("-n", "processes", metavar="N", type=click.IntRange(1), default=1, help="Run in N processes.")
@click.option(
    "--restarts", type=click.Choice(tuple(_RESTARTS)), default="none", show_default=True,
    help="Which stream blocks also run with restarts between their steps.",
)  # fmt: skip
@click.option("--streaming", is_flag=True, help="Run tests as streaming queries of Spark, as in production: slower.")
@click.option("--junit", metavar="FILE", type=click.Path(path_type=Path), help="Write the results as JUnit XML.")
@click.option("--json", "report", metavar="FILE", type=click.Path(path_type=Path), help="Write the results to FILE.")
@click.option("--set", "-s", "settings", multiple=True, metavar="KEY=VALUE", help="A setting, as with SET.")
@project_option
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
    """Run tests: inputs, clock steps and expected outputs of queries."""
    from sqlstream.testing.suite import How  # loaded when the command runs: help and errors stay fast

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
    from sqlstream.testing.suite import selection  # loaded when the command runs: help and errors stay fast

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
    from sqlstream.testing.spark import LocalSession  # loaded when the command runs: help and errors stay fast

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
        from sqlstream.testing.report import Summary, write_junit
        from sqlstream.testing.suite import run_items

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
    from sqlstream.testing.suite import files_behind  # loaded when the command runs: help and errors stay fast

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
    from sqlstream.testing.suite import files_behind  # loaded when the command runs: help and errors stay fast

    behind = {item.path: {path.resolve() for path in files_behind(item.path)} for item in items}
    named = {path for paths in behind.values() for path in paths}
    if not changed <= named:
        return list(items)
    return [item for item in items if behind[item.path] & changed]
