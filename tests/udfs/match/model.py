"""MATCH_RECOGNIZE as the standard says it: one mapping after the other is tried, the preferred one first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlstream.grammar import nodes as n
from sqlstream.udfs.match.automaton import Skip, SkipTo

Path = tuple[str, ...]
"""The variables that rows were mapped to, from the first row on."""


@dataclass(frozen=True)
class Partial:
    """Rows of a key, of which those from ``start`` on were mapped as ``path`` says."""

    rows: list[dict[str, Any]]
    start: int
    path: Path

    @property
    def row(self) -> dict[str, Any]:
        return self.rows[self.start + len(self.path) - 1]

    def mapped_to(self, variable: str | None) -> list[dict[str, Any]]:
        return [self.rows[self.start + i] for i, v in enumerate(self.path) if variable in (None, v)]

    def last(self, variable: str | None, offset: int = 0) -> Any:
        mapped = self.mapped_to(variable)
        return mapped[-1 - offset]["v"] if len(mapped) > offset else None

    def first(self, variable: str | None, offset: int = 0) -> Any:
        mapped = self.mapped_to(variable)
        return mapped[offset]["v"] if len(mapped) > offset else None

    def near(self, shift: int) -> Any:
        at = self.start + len(self.path) - 1 + shift
        return self.rows[at]["v"] if 0 <= at < len(self.rows) else None


Condition = Callable[[Partial], bool | None]


@dataclass(frozen=True)
class Model:
    pattern: n.Pattern
    conditions: dict[str, Condition]
    skip: Skip
    within: int | None = None

    def matches(self, rows: list[dict[str, Any]]) -> list[Partial]:
        """Of one key, in order of time."""
        found: list[Partial] = []
        start = 0
        while start < len(rows):
            path = next((p for p in self._paths(self.pattern, rows, start, ()) if p), None)
            if path is None:
                start += 1
                continue
            found.append(Partial(rows, start, path))
            start = self._next(start, path)
        return found

    def _next(self, start: int, path: Path) -> int:
        match self.skip.to:
            case SkipTo.PAST_LAST_ROW:
                return start + len(path)
            case SkipTo.NEXT_ROW:
                return start + 1
        mapped = [i for i, v in enumerate(path) if v == self.skip.variable]
        at = mapped[0 if self.skip.to is SkipTo.FIRST else -1] if mapped else 0
        if at == 0:
            raise LookupError
        return start + at

    def _paths(self, pattern: n.Pattern, rows: list[dict[str, Any]], start: int, path: Path) -> Iterator[Path]:
        match pattern:
            case n.PatternVariable(name=name):
                if self._takes(rows, start, (*path, name)):
                    yield (*path, name)
            case n.PatternSequence(parts=parts):
                if not parts:
                    yield path
                else:
                    for longer in self._paths(parts[0], rows, start, path):
                        yield from self._paths(n.PatternSequence(parts[1:]), rows, start, longer)
            case n.PatternAlternation(parts=parts):
                for part in parts:
                    yield from self._paths(part, rows, start, path)
            case n.PatternRepetition():
                yield from self._repeated(pattern, 0, rows, start, path)

    def _repeated(
        self, pattern: n.PatternRepetition, count: int, rows: list[dict[str, Any]], start: int, path: Path
    ) -> Iterator[Path]:
        if count >= pattern.least and pattern.reluctant:
            yield path
        if pattern.most is None or count < pattern.most:
            for longer in self._paths(pattern.pattern, rows, start, path):
                if longer == path and count >= pattern.least:
                    yield path
                else:
                    yield from self._repeated(pattern, count + 1, rows, start, longer)
        if count >= pattern.least and not pattern.reluctant:
            yield path

    def _takes(self, rows: list[dict[str, Any]], start: int, path: Path) -> bool:
        at = start + len(path) - 1
        if at >= len(rows):
            return False
        if self.within is not None and rows[at]["ts"] - rows[start]["ts"] >= self.within:
            return False
        condition = self.conditions.get(path[-1])
        return condition is None or condition(Partial(rows, start, path)) is True
