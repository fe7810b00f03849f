"""Runs the blocks of golden files: what a block gives, as the lines that its file should have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from sqlstream.session import Session
from sqlstream.testing.changelog import Change, merge
from sqlstream.testing.golden_format import TABLE, Block, Step, lines_of, restart_points, steps_of
from sqlstream.testing.spark import LocalSession
from sqlstream.testing.spelling import read_rows, spell_row
from sqlstream.testing.stream_test import StreamTest
from sqlstream.testing.syntax_text import syntax_lines
from sqlstream.types import DataType

_DEFAULT_STAGE = "optimized"


@dataclass(frozen=True)
class Outcome:
    """``lines`` are what came out, ``expected`` what should; ``matches`` is True where the two say the same."""

    lines: tuple[str, ...]
    matches: bool
    expected: tuple[str, ...]


def run_block(blocks: Sequence[Block], index: int, *, restart: bool = False) -> Outcome:
    """Run one block of a file after the ``statement`` blocks before it; ``restart`` a stream before some inputs.

    Straight through, output is asked for after each step; with restarts only before these and at the end, so that the
    steps between go in as few micro-batches as show no difference. Lookups see one: they ask once for equal keys that
    come together.
    """
    block = blocks[index]
    assert block.expected is not None, f"a {block.kind} block expects nothing"
    with LocalSession() as session:
        for earlier in blocks[:index]:
            if earlier.kind == "statement":
                session.sql(earlier.sql)
        if block.kind == "stream":
            return _stream(block, session, restart=restart)
        lines = _RUNNERS[block.kind](block, session)
    return Outcome(lines, lines == block.expected, block.expected)


def _parse(block: Block, session: Session) -> tuple[str, ...]:
    return syntax_lines(block.sql)


def _plan(block: Block, session: Session) -> tuple[str, ...]:
    return _lines(session.explain(block.sql, stage=block.stage or _DEFAULT_STAGE))


def _error(block: Block, session: Session) -> tuple[str, ...]:
    """All mistakes of the statements; none where they are accepted."""
    return tuple(line for diagnostic in session.check(block.sql) for line in _lines(diagnostic.render()))


def _lines(text: str) -> tuple[str, ...]:
    """Without blank lines, which would end the block."""
    return tuple(line.rstrip() for line in text.splitlines() if line.strip())


_RUNNERS: dict[str, Callable[[Block, Session], tuple[str, ...]]] = {"parse": _parse, "plan": _plan, "error": _error}


# --- streams --------------------------------------------------------------------------------------------------


def _stream(block: Block, session: Session, *, restart: bool) -> Outcome:
    assert block.expected is not None
    steps = steps_of(block)
    parts = _parts(len(steps), restart_points(block) if restart else range(1, len(steps)))
    came: list[list[Change]] = []
    side: list[tuple[str, ...]] = []
    with StreamTest(block.sql, session) as test:
        for run in parts:
            if restart and run.start:
                test.restart()
            for step in steps[run]:
                perform(step.words, test)
                if test.looks_up:
                    test.checkpoint()
            came.append(test.output())
            side.append(_side_lines(test))
        is_table = block.stage == TABLE
        shown = _tables(came, test) if is_table else [_spelled(changes, test) for changes in came]
        lines = [(*rows, *behind) for rows, behind in zip(shown, side, strict=True)]
        wanted = [_in_order_of_tables(steps[run], test, is_table) for run in parts]
        matches = all(_same(expected, actual, test) for expected, actual in zip(wanted, lines, strict=True))
    # Raises where a changelog retracts what it never gave.
    merge((change for changes in came for change in changes), test.output_key)
    expected = block.expected if not restart else lines_of(_with_outputs(steps, parts, wanted))
    return Outcome(lines_of(_with_outputs(steps, parts, lines)), matches, expected)


def _parts(steps: int, starts: Iterable[int]) -> list[slice]:
    """The steps after each of which, taken together, output is asked for."""
    bounds = [0, *starts, steps]
    return [slice(start, end) for start, end in pairwise(bounds)]


def _with_outputs(steps: Sequence[Step], parts: Sequence[slice], lines: Sequence[tuple[str, ...]]) -> tuple[Step, ...]:
    """The steps, the last of each part with what came out."""
    written = [replace(step, output=()) for step in steps]
    for run, output in zip(parts, lines, strict=True):
        written[run.stop - 1] = replace(written[run.stop - 1], output=output)
    return tuple(written)


def _in_order_of_tables(steps: Sequence[Step], test: StreamTest, is_table: bool) -> tuple[str, ...]:
    """What the file expects of steps whose output is asked for at once: the rows of the result come first. Where it
    says what its table is after each step, the last one counts."""
    tables = [f"{name}: " for name in test.side_tables]

    def place(line: str) -> int:
        return next((n for n, start in enumerate(tables) if line.startswith(start)), -1)

    lines = (line for step in steps for line in step.output if step is steps[-1] or not is_table or place(line) >= 0)
    return tuple(sorted(lines, key=place))


def _tables(came: Sequence[Sequence[Change]], test: StreamTest) -> list[tuple[str, ...]]:
    """The rows that are left each time, without kinds, sorted as text: a table has no order."""
    changes: list[Change] = []
    shown = []
    for more in came:
        changes.extend(more)
        rows = merge(changes, test.output_key)
        shown.append(tuple(sorted(spell_row(row, test.output_types).rstrip() for row in rows)))
    return shown


def _spelled(changes: Sequence[Change], test: StreamTest) -> tuple[str, ...]:
    """A line per change, of a statement set behind the name of its table; sorted where their order is Spark's."""
    table = f"{test.first_table}: " if test.first_table is not None else ""
    lines = [f"{table}{_line(change, test.output_types)}" for change in changes]
    return tuple(lines if test.keeps_order else sorted(lines))


def _side_lines(test: StreamTest) -> tuple[str, ...]:
    """What came out to other tables, each line behind the name of its table."""
    changes = ((name, change, test.output_types_of(name)) for name in test.side_tables for change in test.output(name))
    return tuple(f"{name}: {_line(change, types)}" for name, change, types in changes)


def _line(change: Change, types: Sequence[DataType]) -> str:
    kind, *values = change
    return f"{kind} {spell_row(values, types)}".rstrip()


def _same(expected: Sequence[str], actual: Sequence[str], test: StreamTest) -> bool:
    return list(expected) == list(actual) if test.keeps_order else sorted(expected) == sorted(actual)


def perform(words: str, test: StreamTest) -> None:
    """Carry out a ``>`` line: ``bids  1  00:00:01``, ``-D bids  1  00:00:01``, ``watermark bids 00:00:40``, …"""
    match words.split():
        case ["watermark", table, *time] if time:
            test.watermark(table, " ".join(time))
        case ["processing_time", *time] if time:
            test.processing_time(" ".join(time))
        case ["checkpoint"]:
            test.checkpoint()
        case ["restart"]:
            test.restart()
        case ["settle"]:
            test.settle()
        case ["finish"]:
            test.finish()
        case _:
            _rows(words, test)


def _rows(words: str, test: StreamTest) -> None:
    kind = words[:2] if words[:1] in "+-" else "+I"
    table, _, row = words.removeprefix(kind).strip().partition(" ")
    test.rows(table, read_rows(row, test.input_types(table)), kind)
