"""Runs the blocks of golden files; the outcome is the text that the block should contain."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from enum import Enum
from itertools import pairwise
from pathlib import Path

from sqlglot import exp

from sqlstream.errors import SqlStreamError
from sqlstream.grammar import clauses_of, parse_script, table_clauses_of, table_function_of, to_sql
from sqlstream.grammar.nodes import CreateMaterializedView, Node
from sqlstream.session import Session
from sqlstream.statements.registry import define
from sqlstream.testing.golden_format import SETUP, Block, GoldenFormatError, Step, lines_of, restart_points, steps_of
from sqlstream.testing.golden_rows import LineComparison
from sqlstream.testing.golden_stream import Outcome, StreamRun, first_difference
from sqlstream.testing.spark import LocalSession
from sqlstream.testing.stream_test import StreamTest
from sqlstream.testing.tested_session import define_mocked

# --- Syntax as text, for parse blocks --------------------------------------------------------------------------


def syntax_lines(sql: str) -> tuple[str, ...]:
    """The expected output of a ``syntax`` block: for each statement of a script its SQL, then its syntax nodes in the
    order of the text, without fields that have their default.
    """
    return tuple(line for statement in parse_script(sql) for line in (to_sql(statement), *_nodes(statement)))


def _nodes(statement: Node) -> Iterator[str]:
    queries = list(_queries(statement))
    if not queries:
        yield describe(statement)
    for query in queries:
        for select in query.find_all(exp.Select, bfs=False):
            yield from _described(clauses_of(select))
        for table in query.find_all(exp.Table, bfs=False):
            yield from _described(table_function_of(table))
            yield from _described(table_clauses_of(table))


def _queries(node: object) -> Iterator[exp.Expression]:
    """The queries of a statement, including those of nested statements."""
    if isinstance(node, exp.Expression) and isinstance(node, exp.Query):
        yield node
    elif isinstance(node, tuple):
        for member in node:
            yield from _queries(member)
    elif isinstance(node, Node):
        for field in dataclasses.fields(node):
            yield from _queries(getattr(node, field.name))


def _described(node: Node | None) -> Iterator[str]:
    text = "" if node is None else describe(node)
    if not text.endswith("()") and text:
        yield text


def describe(value: object) -> str:
    """The text of a syntax node: its class with those fields that differ from their defaults; expressions as SQL."""
    match value:
        case exp.Expression():
            return f"`{to_sql(value)}`"
        case Enum():
            return value.name
        case tuple():
            return f"[{', '.join(describe(v) for v in value)}]"
        case Node():
            return f"{type(value).__name__}({', '.join(_fields(value))})"
        case _:
            return repr(value)


def _fields(node: Node) -> Iterator[str]:
    for field in dataclasses.fields(node):
        value = getattr(node, field.name)
        if field.name != "span" and value is not None and value != field.default:
            yield f"{field.name}={describe(value)}"


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
    """Run block number ``index`` (from 0) of a golden file, after the ``statement`` and ``script`` blocks before it.
    Returns its expected and actual output.

    Names of files in the blocks are relative to ``folder``. ``restart``: stop a ``stream`` block and continue it from
    its checkpoint before some of its steps. Output is then read only at the restarts and at the end; otherwise after
    each step that may emit rows. Fewer readings mean fewer micro-batches, with the same results, except that lookups
    request equal keys of one micro-batch once. Runs with restarts are streaming queries of Spark, others are so if
    ``streaming`` (see ``StreamTest``).
    """
    block = blocks[index]
    assert block.expected is not None, f"a {block.kind} block expects nothing"
    here = folder or Path()
    with sessions() as session:
        prepare(blocks[:index], session, here)
        sql = sql_of(block, session, here)
        if block.kind == "stream":
            return _stream(block, sql, session, here, restart=restart, streaming=streaming)
        lines = _RUNNERS[block.kind](block, sql, session)
    return Outcome(lines, lines == block.expected, block.expected)


def prepare(blocks: Iterable[Block], session: Session, folder: Path) -> None:
    """Execute those blocks that set up the session: ``statement`` blocks with SQL, and ``script`` blocks, which name
    SQL files in ``folder``. Other blocks are skipped.
    """
    for block in blocks:
        if block.kind not in SETUP:
            continue
        if block.kind == "statement":
            _carry_out(block.sql, session)
            continue
        for name in block.sql.splitlines():
            define_mocked(_text_of(block, folder / name.strip()), session)


def _carry_out(text: str, session: Session) -> None:
    """Run the statements of a block; define materialized views without starting their jobs."""
    statements = parse_script(text)
    if not any(isinstance(statement, CreateMaterializedView) for statement in statements):
        session.sql(text)
        return
    for statement in statements:
        define(statement, session.workspace, text)


def files_of(blocks: Iterable[Block], folder: Path) -> Iterator[Path]:
    """The paths, below ``folder``, of all SQL files to which the blocks of a golden file refer."""
    for block in blocks:
        if block.kind == "script":
            yield from (folder / name.strip() for name in block.sql.splitlines())
        elif _names_file(block):
            yield folder / block.sql[1:].strip()


def _names_file(block: Block) -> bool:
    return block.sql.startswith("@") and "\n" not in block.sql


def sql_of(block: Block, session: Session, folder: Path) -> str:
    """The SQL text that a block tests. If the block names an SQL file (``@jobs.sql``), the definitions in that file are
    executed first, and the text is that of the file's only query, INSERT or statement set.
    """
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
    """The diagnostics of all mistakes; none where the statements are accepted."""
    return tuple(line for diagnostic in session.check(sql) for line in _lines(diagnostic.render()))


def _lines(text: str) -> tuple[str, ...]:
    """The lines of a text without blank ones, which would end the block."""
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
    """The steps before which output is fetched. It is not fetched between two steps without expected output, except
    that a ``table`` is compared after each step."""
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
    """The steps that are performed together, as slices."""
    bounds = [0, *starts, steps]
    return [slice(start, end) for start, end in pairwise(bounds)]


# --- The row that causes a difference --------------------------------------------------------------------------


_MOST_ROWS = 30
"""Each is a micro-batch of its own."""


def cause_of(
    blocks: Sequence[Block], index: int, outcome: Outcome, folder: Path, sessions: SessionFactory = LocalSession
) -> str | None:
    """Finds the one input row that causes a difference, where a step of a failed stream block inserts several rows:
    runs the block again with each row as a step of its own.

    Returns the row as the golden file writes it; None if the step has one row, or no single row causes the difference.
    """
    if not outcome.steps or outcome.comparison is None:
        return None
    number, step = first_difference(outcome)
    rows = step.inputs
    if not 1 < len(rows) <= _MOST_ROWS:
        return None
    unexpected = _surplus(step.expected, step.actual, outcome.comparison)
    steps = [replace(each, output=()) for each in steps_of(blocks[index])]
    apart = [*steps[: number - 1], *(replace(steps[number - 1], words=words) for words in rows)]
    again = [*blocks[:index], blocks[index].with_expected(lines_of(tuple(apart)))]
    try:
        came = run_block(again, index, folder=folder, sessions=sessions).steps[number - 1 :]
    except (SqlStreamError, ValueError):
        return None
    for words, after in zip(rows, came, strict=True):
        if any(outcome.comparison.alike(line, other) for line in after.actual for other in unexpected):
            return words
    return None


def _surplus(expected: Sequence[str], actual: Sequence[str], comparison: LineComparison) -> list[str]:
    """The actual lines that are not expected."""
    return [line for differs, _, line in comparison.aligned(expected, actual) if differs and line is not None]
