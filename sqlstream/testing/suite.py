"""The tests of a user's repository, as ``sqlstream test`` runs them: collected below paths, run in one or several
processes."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

from sqlstream.errors import SqlStreamError
from sqlstream.paths import importable
from sqlstream.project import Project
from sqlstream.session import Session
from sqlstream.testing import unit_tests
from sqlstream.testing.cases import run_file
from sqlstream.testing.golden import cause_of, files_of, run_block
from sqlstream.testing.golden_format import Block, GoldenFormatError, parse_golden, render_golden, restart_points
from sqlstream.testing.golden_stream import Outcome, failure_text, first_difference
from sqlstream.testing.report import Result, Verdict
from sqlstream.testing.spark import LocalSession

GOLDEN, CASE, UNIT = ".golden", ".json", ".sql"
_LEFT_OUT = ("node_modules", "site-packages", "__pycache__")


@dataclass(frozen=True)
class Item:
    """A test: block ``index`` of a golden file, statement ``index`` of a SQL file, or a case file below ``root``."""

    path: Path
    name: str
    title: str = ""
    index: int = 0
    restart: bool = False
    root: Path = Path()
    wrong: str | None = None
    """Why the file has no tests."""

    @property
    def id(self) -> str:
        """The path of the file, with the name of the test in it."""
        return self.path.as_posix() if not self.name else f"{self.path.as_posix()}::{self.name}"

    @property
    def searched(self) -> str:
        """The text that ``-k`` searches."""
        return f"{self.id} {self.title}"


@dataclass(frozen=True)
class How:
    """How tests are run. ``bless``: write actual output into the files as expected. ``settings`` override those of
    ``project``.

    ``streaming``: run stream blocks as streaming queries of Spark, which takes many times as long.
    """

    bless: bool = False
    settings: Mapping[str, str] | None = None
    project: Project | None = None
    streaming: bool = False

    def session(self) -> Session:
        """A new session for a test."""
        return LocalSession(self.settings, self.project)


# --- Items: the tests there are --------------------------------------------------------------------------------


def files_with_tests(paths: Iterable[Path]) -> Iterator[Path]:
    """The golden files, and SQL files with unit tests, at or below the paths."""
    for path in paths:
        if path.is_file():
            yield path
            continue
        below = sorted(p for p in path.rglob("*") if p.suffix in (GOLDEN, UNIT) and not _left_out(p, path))
        yield from (p for p in below if p.suffix == GOLDEN or _has_unit_tests(p))


def _left_out(path: Path, root: Path) -> bool:
    return any(part.startswith(".") or part in _LEFT_OUT for part in path.relative_to(root).parts)


def _has_unit_tests(path: Path) -> bool:
    try:
        return "UNIT TEST" in " ".join(path.read_text(encoding="utf-8").upper().split())
    except (OSError, UnicodeDecodeError):
        return False


def items_of(path: Path, restarts: int = 0) -> list[Item]:
    """The tests of a file. ``restarts`` is n: the first stream block, and every n-th after it, also runs with restarts;
    0: none.
    """
    try:
        if path.suffix == UNIT:
            names = unit_tests.names_of(path)
            return [Item(path, f"{line}-{name}", index=index) for index, line, name in names]
        return list(_golden_tests(path, restarts))
    except (GoldenFormatError, OSError, UnicodeDecodeError, SqlStreamError) as error:
        return [Item(path, "", wrong=str(error))]


def _golden_tests(path: Path, restarts: int) -> Iterator[Item]:
    blocks = parse_golden(path.read_text(encoding="utf-8"))
    streams = [i for i, block in enumerate(blocks) if block.kind == "stream" and restart_points(block)]
    restarted = streams[::restarts] if restarts else []
    for index, block in enumerate(blocks):
        if block.expected is None:
            continue
        title = block.comments[0] if block.comments else ""
        yield Item(path, f"{block.line}-{block.kind}", title, index)
        if index in restarted:
            yield Item(path, f"{block.line}-{block.kind}-restart", title, index, restart=True)


def files_behind(path: Path) -> set[Path]:
    """All files on which the tests of a file depend: itself and the SQL files that its tests name."""
    try:
        blocks = parse_golden(path.read_text(encoding="utf-8")) if path.suffix == GOLDEN else ()
        scripts = unit_tests.scripts_of(path) if path.suffix == UNIT else ()
    except (GoldenFormatError, OSError, UnicodeDecodeError):
        return {path}
    return {path, *files_of(blocks, path.parent), *scripts}


# --- one test -------------------------------------------------------------------------------------------------


def run_item(item: Item, how: How) -> Result:
    """Runs a test and returns its result. An unexpected exception is a FAIL that names the exception's type."""
    started = time.monotonic()
    if item.wrong is not None:
        return Result(item.id, Verdict.FAIL, item.wrong)
    if item.path.suffix == CASE:
        return run_file(item.path, how.session, item.root)
    with importable(item.path.parent, Path.cwd()):
        result = _result(item, how)
    return replace(result, title=item.title, seconds=time.monotonic() - started)


def _result(item: Item, how: How) -> Result:
    run = _unit_test if item.path.suffix == UNIT else _golden_test
    try:
        return run(item, how)
    except SqlStreamError as error:
        detail = "\n".join(diagnostic.render() for diagnostic in error.diagnostics)
        return Result(item.id, Verdict.FAIL, error.diagnostic.message, error.code, detail=detail)
    except (Exception, SystemExit) as error:  # functions of users may raise either
        words = str(error).strip().splitlines() or [""]
        return Result(item.id, Verdict.FAIL, f"{type(error).__name__}: {words[0]}", detail="\n".join(words[1:]))


def _golden_test(item: Item, how: How) -> Result:
    blocks = parse_golden(item.path.read_text(encoding="utf-8"))
    block, folder = blocks[item.index], item.path.parent
    outcome = run_block(
        blocks, item.index, restart=item.restart, folder=folder, sessions=how.session, streaming=how.streaming
    )
    if outcome.matches:
        return Result(item.id, Verdict.PASS)
    if how.bless and not item.restart:
        bless(item.path, blocks, item.index, outcome)
        return Result(item.id, Verdict.PASS, note="blessed")
    cause = None if item.restart else cause_of(blocks, item.index, outcome, folder, how.session)
    where = f"after step {first_difference(outcome)[0]}" if outcome.steps else "other lines than expected"
    detail = f"{_indented(block.sql)}\n\n{failure_text(outcome, cause)}"
    return Result(item.id, Verdict.FAIL, where, detail=detail)


def bless(path: Path, blocks: Sequence[Block], index: int, outcome: Outcome) -> None:
    """Write the actual output into the file, and into the files of expected rows that it names."""
    for saved in outcome.saved:
        saved.write()
    written = [block.with_expected(outcome.lines) if i == index else block for i, block in enumerate(blocks)]
    path.write_text(render_golden(tuple(written)), encoding="utf-8")


def _unit_test(item: Item, how: How) -> Result:
    with how.session() as session:
        outcome = unit_tests.run_test_of_file(item.path, item.index, session, streaming=how.streaming)
    if outcome.difference is None:
        return Result(item.id, Verdict.PASS)
    if how.bless:
        unit_tests.bless_test_of_file(item.path, item.index, outcome)
        return Result(item.id, Verdict.PASS, note="blessed")
    return Result(item.id, Verdict.FAIL, "other rows than expected", detail=outcome.difference)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


# --- All tests -------------------------------------------------------------------------------------------------

OnResult = Callable[[Result], object]


def run_items(
    items: Sequence[Item], how: How, on_result: OnResult, *, processes: int = 1, until_failure: bool = False
) -> list[Result]:
    """Run the tests; ``on_result`` gets each result when it is available. ``until_failure``: stop after the first
    failure.
    """
    results: list[Result] = []
    for result in _in_processes(items, how, processes) if processes > 1 else (run_item(item, how) for item in items):
        results.append(result)
        on_result(result)
        if until_failure and result.verdict is Verdict.FAIL:
            break
    return results


def _in_processes(items: Sequence[Item], how: How, processes: int) -> Iterator[Result]:
    """Each process takes the next test; file by file where files are written."""
    shares = [[item] for item in items]
    if how.bless:
        by_file: dict[Path, list[Item]] = {}
        for item in items:
            by_file.setdefault(item.path, []).append(item)
        shares = list(by_file.values())
    pool = ProcessPoolExecutor(max(1, min(processes, len(shares))), mp_context=get_context("spawn"))
    try:
        for future in as_completed([pool.submit(_run_share, share, how) for share in shares]):
            yield from future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _run_share(share: Sequence[Item], how: How) -> list[Result]:
    return [run_item(item, how) for item in share]


# --- -k: tests by words in their names, such as "north and not (late or slow)", in any case --------------------


Selects = Callable[[str], bool]

_TOKEN = re.compile(r'\s*(\(|\)|"[^"]*"|[^\s()]+)')


def selection(text: str) -> Selects:
    """Parses the expression of ``-k``, and returns a function that is true for the names that it selects; ValueError
    for a malformed one.
    """
    tokens = [match[1] for match in _TOKEN.finditer(text)]
    selects = _either(tokens)
    if tokens:
        raise ValueError(f'"{tokens[0]}" is not expected there')
    return selects


def _either(tokens: list[str]) -> Selects:
    choices = [_each(tokens)]
    while tokens[:1] == ["or"]:
        del tokens[0]
        choices.append(_each(tokens))
    return lambda name: any(selects(name) for selects in choices)


def _each(tokens: list[str]) -> Selects:
    conditions = [_single(tokens)]
    while tokens[:1] == ["and"]:
        del tokens[0]
        conditions.append(_single(tokens))
    return lambda name: all(selects(name) for selects in conditions)


def _single(tokens: list[str]) -> Selects:
    if not tokens or tokens[0] in ("and", "or", ")"):
        raise ValueError("a word is missing")
    token = tokens.pop(0)
    if token == "not":
        negated = _single(tokens)
        return lambda name: not negated(name)
    if token == "(":
        inner = _either(tokens)
        if tokens[:1] != [")"]:
            raise ValueError("a closing parenthesis is missing")
        del tokens[0]
        return inner
    word = token.strip('"').casefold()
    return lambda name: word in name.casefold()
