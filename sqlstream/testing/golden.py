"""Runs the blocks of golden files: what a block gives, as the lines that its file should have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlstream.session import Session
from sqlstream.testing.changelog import Change, merge
from sqlstream.testing.golden_format import Block, lines_of, steps_of
from sqlstream.testing.spark import LocalSession
from sqlstream.testing.spelling import read_rows, spell_row
from sqlstream.testing.stream_test import StreamTest
from sqlstream.testing.syntax_text import syntax_lines
from sqlstream.types import DataType

_DEFAULT_STAGE = "optimized"


@dataclass(frozen=True)
class Outcome:
    """``lines`` are what came out; ``matches`` is True where the file says the same."""

    lines: tuple[str, ...]
    matches: bool


def run_block(blocks: Sequence[Block], index: int, *, restart: bool = False) -> Outcome:
    """Run one block of a file after the ``statement`` blocks before it; ``restart`` a stream before some inputs."""
    block = blocks[index]
    assert block.expected is not None, f"a {block.kind} block expects nothing"
    with LocalSession() as session:
        for earlier in blocks[:index]:
            if earlier.kind == "statement":
                session.sql(earlier.sql)
        if block.kind == "stream":
            return _stream(block, session, restart=restart)
        lines = _RUNNERS[block.kind](block, session)
    return Outcome(lines, lines == block.expected)


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
    steps = steps_of(block)
    restarts = _restarts(len(steps)) if restart else frozenset()
    came: list[list[Change]] = []
    side: list[tuple[str, ...]] = []
    with StreamTest(block.sql, session) as test:
        for number, step in enumerate(steps):
            if number in restarts:
                test.restart()
            perform(step.words, test)
            came.append(test.output())
            side.append(_side_lines(test))
        lines = [(*_spelled(changes, test), *behind) for changes, behind in zip(came, side, strict=True)]
        matches = all(_same(step.output, found, test) for step, found in zip(steps, lines, strict=True))
    merge(change for changes in came for change in changes)  # raises where a changelog withdraws what it never gave
    found_steps = tuple(replace(step, output=found) for step, found in zip(steps, lines, strict=True))
    return Outcome(lines_of(found_steps), matches)


def _restarts(steps: int) -> frozenset[int]:
    """Before which steps to restart: the second, one in the middle, the last. Each restart takes as long as a batch."""
    return frozenset({1, steps // 2, steps - 1} - {0})


def _spelled(changes: Sequence[Change], test: StreamTest) -> tuple[str, ...]:
    """A line per change, of a statement set behind the name of its table; sorted where their order is Spark's."""
    table = f"{test.first_table}: " if test.first_table is not None else ""
    lines = [f"{table}{_line(change, test.output_types)}" for change in changes]
    return tuple(lines if test.keeps_order else sorted(lines))


def _side_lines(test: StreamTest) -> tuple[str, ...]:
    """What came out to other tables, each line behind the name of its table."""
    found = ((name, change, test.output_types_of(name)) for name in test.side_tables for change in test.output(name))
    return tuple(f"{name}: {_line(change, types)}" for name, change, types in found)


def _line(change: Change, types: Sequence[DataType]) -> str:
    kind, *values = change
    return f"{kind} {spell_row(values, types)}".rstrip()


def _same(expected: Sequence[str], found: Sequence[str], test: StreamTest) -> bool:
    return list(expected) == list(found) if test.keeps_order else sorted(expected) == sorted(found)


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
