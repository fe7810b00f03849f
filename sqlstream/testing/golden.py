"""Runs the blocks of golden files: what a block gives, as the lines that its file should have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from sqlstream.grammar import parse_script, to_sql
from sqlstream.grammar.nodes import CreateMaterializedView
from sqlstream.session import Session
from sqlstream.statements.defining import define
from sqlstream.testing.golden_format import SETUP, Block, GoldenFormatError, Step, restart_points, steps_of
from sqlstream.testing.golden_stream import Outcome, StreamRun
from sqlstream.testing.spark import LocalSession
from sqlstream.testing.stream_test import StreamTest
from sqlstream.testing.syntax_text import syntax_lines
from sqlstream.testing.tested_session import define_mocked

_DEFAULT_STAGE = "optimized"
SessionFactory = Callable[[], Session]


def run_block(
    blocks: Sequence[Block],
    index: int,
    *,
    restart: bool = False,
    folder: Path | None = None,
    sessions: SessionFactory = LocalSession,
    streaming: bool = False,
) -> Outcome:
    """Run one block of a file after the ``statement`` and ``script`` blocks before it; ``restart`` a stream before
    some inputs. ``folder`` is the one that names of files are relative to.

    Straight through, output is asked for after each step that may give some; with restarts only before these and at
    the end, so that the steps between go in as few micro-batches as show no difference. Lookups see one: they ask once
    for equal keys that come together. Runs with restarts are streaming queries, others with ``streaming`` alone (see
    ``StreamTest``).
    """
    block = blocks[index]
    assert block.expected is not None, f"a {block.kind} block expects nothing"
    here = folder or Path()
    with sessions() as session:
        prepare(blocks[:index], session, here)
        sql = _sql_of(block, session, here)
        if block.kind == "stream":
            return _stream(block, sql, session, here, restart=restart, streaming=streaming)
        lines = _RUNNERS[block.kind](block, sql, session)
    return Outcome(lines, lines == block.expected, block.expected)


def prepare(blocks: Iterable[Block], session: Session, folder: Path) -> None:
    """Carry out the blocks that expect nothing."""
    for block in blocks:
        if block.kind not in SETUP:
            continue
        if block.kind == "statement":
            _carry_out(block.sql, session)
            continue
        for name in block.sql.splitlines():
            define_mocked(_text_of(block, folder / name.strip()), session)


def _carry_out(text: str, session: Session) -> None:
    """The statements of a block; of a materialized view the definition alone, whose job nobody waits for."""
    statements = parse_script(text)
    if not any(isinstance(statement, CreateMaterializedView) for statement in statements):
        session.sql(text)
        return
    for statement in statements:
        define(statement, session.workspace, text)


def files_of(blocks: Iterable[Block], folder: Path) -> Iterator[Path]:
    """The files with SQL that blocks name."""
    for block in blocks:
        if block.kind == "script":
            yield from (folder / name.strip() for name in block.sql.splitlines())
        elif _names_file(block):
            yield folder / block.sql[1:].strip()


def _names_file(block: Block) -> bool:
    return block.sql.startswith("@") and "\n" not in block.sql


def _sql_of(block: Block, session: Session, folder: Path) -> str:
    """The SQL of a block: its own, or the statement that runs in the file that it names, whose definitions are carried
    out."""
    if not _names_file(block):
        return block.sql
    path = folder / block.sql[1:].strip()
    text = _text_of(block, path)
    if block.kind in ("error", "parse"):
        return text
    running = define_mocked(text, session)
    if len(running) != 1:
        raise GoldenFormatError(
            f'line {block.line}: file "{path}" has {len(running)} statements that run; '
            "a test runs one query, INSERT or statement set"
        )
    return to_sql(running[0])


def _text_of(block: Block, path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise GoldenFormatError(f'line {block.line}: file "{path}" cannot be read: {why}') from error


def _parse(block: Block, sql: str, session: Session) -> tuple[str, ...]:
    return syntax_lines(sql)


def _plan(block: Block, sql: str, session: Session) -> tuple[str, ...]:
    return _lines(session.explain(sql, stage=block.stage or _DEFAULT_STAGE))


def _error(block: Block, sql: str, session: Session) -> tuple[str, ...]:
    """All mistakes of the statements; none where they are accepted."""
    return tuple(line for diagnostic in session.check(sql) for line in _lines(diagnostic.render()))


def _lines(text: str) -> tuple[str, ...]:
    """Without blank lines, which would end the block."""
    return tuple(line.rstrip() for line in text.splitlines() if line.strip())


_RUNNERS: dict[str, Callable[[Block, str, Session], tuple[str, ...]]] = {
    "parse": _parse,
    "plan": _plan,
    "error": _error,
}


def _stream(block: Block, sql: str, session: Session, folder: Path, *, restart: bool, streaming: bool) -> Outcome:
    steps = steps_of(block)
    if restart:
        return _streamed(block, sql, session, folder, restart_points(block), restart=True, streaming=True)
    apart, asked = range(1, len(steps)), _asked(block, steps)
    outcome = _streamed(block, sql, session, folder, asked, restart=False, streaming=streaming)
    if outcome.matches or len(asked) == len(apart):
        return outcome
    return _streamed(block, sql, session, folder, apart, restart=False, streaming=streaming)


def _asked(block: Block, steps: Sequence[Step]) -> list[int]:
    """Before which steps output is asked for: not between two after which nothing is to come, as nothing after both is
    nothing after either. What a table has after a step may go with the next."""
    return [i for i in range(1, len(steps)) if block.options.table or steps[i - 1].output or steps[i].output]


def _streamed(
    block: Block, sql: str, session: Session, folder: Path, starts: Iterable[int], *, restart: bool, streaming: bool
) -> Outcome:
    steps = steps_of(block)
    with StreamTest(sql, session, streaming=streaming) as test:
        run = StreamRun(test, block.options, folder, restarts=restart)
        outcomes = [outcome for each in _runs(len(steps), starts) for outcome in run.steps(steps[each])]
    run.check_changelog()
    lines = tuple(line for outcome in outcomes for line in (f"> {outcome.words}", *outcome.written))
    expected = tuple(line for outcome in outcomes for line in (f"> {outcome.words}", *outcome.expected))
    matches = all(outcome.matches for outcome in outcomes)
    return Outcome(lines, matches, expected, tuple(outcomes), run.comparison, run.names, tuple(run.saved))


def _runs(steps: int, starts: Iterable[int]) -> list[slice]:
    """The steps after each of which, performed together, output is asked for."""
    bounds = [0, *starts, steps]
    return [slice(start, end) for start, end in pairwise(bounds)]
