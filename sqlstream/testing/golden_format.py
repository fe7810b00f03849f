"""The text of golden files: blocks separated by blank lines, read and written back without loss.

A block is comment lines (``# …``), a line with its kind (``statement``, ``script``, ``parse``, ``plan [stage]``,
``stream [options]``, ``error``), SQL, and, except for ``statement`` and ``script``, a line ``----`` with the expected
lines behind it. A ``script`` block names files with SQL in place of SQL. Comments alone are a block of kind
``comment``. A blank line always ends a block.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

# --- Options of stream blocks ----------------------------------------------------------------------------------


TABLE = "table"
GRAMMAR = "stream [table [by column, …]] [unordered] [tolerance number]"


@dataclass(frozen=True)
class StreamOptions:
    """How the output of a ``stream`` block is compared.

    ``table``: not the changes are compared, but the rows that result when changes are merged by the columns ``key``.
    ``unordered``: the rows of one step may be in any order. ``tolerance``: the allowed relative difference of FLOAT and
    DOUBLE; None: the precision of the digits that are written.
    """

    table: bool = False
    key: tuple[str, ...] = ()
    unordered: bool = False
    tolerance: float | None = None


def stream_options(text: str) -> StreamOptions:
    """The options of a stream block; ValueError for unknown words."""
    words = text.replace(",", " , ").split()
    table = words[:1] == [TABLE]
    rest = words[table:]
    key: tuple[str, ...] = ()
    if table and rest[:1] == ["by"]:
        key = tuple(_names(rest[1:]))
        rest = rest[2 * len(key) :]
    unordered = rest[:1] == ["unordered"]
    rest = rest[unordered:]
    tolerance = None
    if len(rest) == 2 and rest[0] == "tolerance":
        tolerance, rest = float(rest[1]), []
    if rest or (tolerance is not None and not (math.isfinite(tolerance) and tolerance >= 0)):
        raise ValueError(text)
    return StreamOptions(table, key, unordered, tolerance)


def _names(words: list[str]) -> Iterator[str]:
    """The names separated by commas, up to the first word that no comma precedes."""
    for i in range(0, len(words), 2):
        yield words[i]
        if words[i + 1 : i + 2] != [","]:
            return
    raise ValueError("a column is missing")


KINDS = ("statement", "script", "parse", "plan", "stream", "error")
SETUP = ("statement", "script")
"""Blocks that expect nothing and hold for those behind them."""
STAGES = ("logical", "optimized", "physical", "trace", "changelog_mode", "advice")
FAILS = "!"
"""How an expected line begins that says with which error a step fails."""
FILE = "@"
"""How a line begins that names a file with rows."""
_SEPARATOR = "----"
_STEPS_OF_TWO_RESTARTS = 6


class GoldenFormatError(ValueError):
    """Raised for a malformed golden file; the message has the line number."""


@dataclass(frozen=True)
class Block:
    """A block of a golden file.

    ``kind`` is its first word (``plan``, ``stream``, …) and ``line`` the number of that line, from 1. ``stage`` is the
    rest of that line: the stage of a ``plan``, the options of a ``stream``. ``expected`` are the lines of expected
    output, None for kinds without output.
    """

    kind: str
    line: int
    sql: str
    comments: tuple[str, ...] = ()
    stage: str | None = None
    expected: tuple[str, ...] | None = None

    @property
    def title(self) -> str:
        """The block's first comment; ``line n`` if it has none."""
        return self.comments[0] if self.comments else f"line {self.line}"

    @property
    def options(self) -> StreamOptions:
        """How the output of this ``stream`` block is compared, parsed from its first line."""
        return stream_options(self.stage or "")

    @property
    def fails(self) -> bool:
        """True for a stream that is expected to end with an error."""
        return any(line.startswith(FAILS) for line in self.expected or ())

    def with_expected(self, lines: tuple[str, ...]) -> Block:
        """Returns a copy of the block that expects ``lines`` as its output."""
        return replace(self, expected=lines)


@dataclass(frozen=True)
class Step:
    """One step of a stream block: ``words`` is its input, the text of a line after ``>``, and ``output`` the lines
    expected after it.
    """

    words: str
    output: tuple[str, ...]


def parse_golden(text: str) -> tuple[Block, ...]:
    """The blocks of a file; GoldenFormatError where one is malformed."""
    return tuple(_block(lines, first) for first, lines in _paragraphs(text))


def _paragraphs(text: str) -> Iterator[tuple[int, list[str]]]:
    paragraph: list[str] = []
    for number, line in enumerate([*text.split("\n"), ""], 1):
        if line.strip():
            paragraph.append(line.rstrip())
        elif paragraph:
            yield number - len(paragraph), paragraph
            paragraph = []


def _block(lines: list[str], first: int) -> Block:
    count = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
    comments = tuple(text.removeprefix("#").strip() for text in lines[:count])
    line = first + count
    if count == len(lines):
        return Block("comment", line, "", comments)
    kind, _, stage = lines[count].partition(" ")
    if kind not in KINDS or (stage and not _is_stage(kind, stage)):
        kinds = f"statement, script, parse, plan [{'|'.join(STAGES)}], {GRAMMAR} or error"
        raise GoldenFormatError(f"line {line}: {lines[count]!r} is no kind of block; write {kinds}")
    body = lines[count + 1 :]
    if (_SEPARATOR in body) == (kind in SETUP):
        raise GoldenFormatError(f"line {line}: a {kind} block has {'no' if kind in SETUP else 'a'} line {_SEPARATOR}")
    cut = body.index(_SEPARATOR) if _SEPARATOR in body else len(body)
    if not cut:
        raise GoldenFormatError(f"line {line}: the {kind} block has no {'file' if kind == 'script' else 'SQL'}")
    expected = None if kind in SETUP else tuple(body[cut + 1 :])
    return Block(kind, line, "\n".join(body[:cut]), comments, stage or None, expected)


def _is_stage(kind: str, stage: str) -> bool:
    if kind == "plan":
        return stage in STAGES
    try:
        return kind == "stream" and bool(stream_options(stage))
    except ValueError:
        return False


def render_golden(blocks: tuple[Block, ...]) -> str:
    """The text of a file; ``parse_golden`` of it gives the same blocks."""
    return "\n".join(_render(block) for block in blocks)


def _render(block: Block) -> str:
    head = [f"# {text}".rstrip() for text in block.comments]
    if block.kind == "comment":
        return "\n".join([*head, ""])
    kind = f"{block.kind} {block.stage}" if block.stage else block.kind
    tail = [] if block.expected is None else [_SEPARATOR, *block.expected]
    return "\n".join([*head, kind, block.sql, *tail, ""])


# --- stream blocks --------------------------------------------------------------------------------------------


def steps_of(block: Block) -> tuple[Step, ...]:
    """The steps of a stream block: one for each line that begins with ``>``, with the output expected after it.
    GoldenFormatError where the block has none, or has output before the first.
    """
    assert block.expected is not None
    steps: list[Step] = []
    for line in block.expected:
        if line.startswith(">"):
            steps.append(Step(line[1:].strip(), ()))
        elif steps:
            steps[-1] = replace(steps[-1], output=(*steps[-1].output, line))
        else:
            raise GoldenFormatError(f"line {block.line}: the stream block has output before its first > line")
    if not steps:
        raise GoldenFormatError(f"line {block.line}: the stream block has no > line")
    return tuple(steps)


def lines_of(steps: tuple[Step, ...]) -> tuple[str, ...]:
    """The lines of a stream block that has these steps; the inverse of ``steps_of``."""
    return tuple(line for step in steps for line in (f"> {step.words}", *step.output))


def restart_points(block: Block) -> tuple[int, ...]:
    """The steps, counted from 0, before which a stream block is restarted: one, or two if it has many steps. A hash of
    the block's text chooses them.

    A restart takes as long as several micro-batches, so not every step has one; all blocks together restart at every
    kind of step. A stream that is expected to fail is not restarted.
    """
    if block.fails:
        return ()
    steps = sum(line.startswith(">") for line in block.expected or ())
    restarts = min(2 if steps >= _STEPS_OF_TWO_RESTARTS else 1, steps - 1)
    return tuple(sorted(Random(block.sql).sample(range(1, steps), restarts))) if restarts > 0 else ()
