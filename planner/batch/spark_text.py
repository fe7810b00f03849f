"""A query as Spark SQL reads it, and where each part of that text stands in the script.

Spark locates errors by a range of the text that it was given. While the text is generated, each part that has a span in
the script is enclosed in marks; then the marks are removed, and the range between them is stored with the span.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar

from sqlglot import exp, transforms
from sqlglot.generators.spark import SparkGenerator

from sqlstream.errors import Span
from sqlstream.grammar.depth import on_deep_stack
from sqlstream.grammar.dialect import WithTimeGenerator, member_sql
from sqlstream.grammar.spans import is_marked, span_of
from sqlstream.planner.batch.inputs import VIEW

_BEGIN, _NAMED, _END = "\ue000", "\ue001", "\ue002"
_MARK = re.compile(f"{_BEGIN}(\\d+){_NAMED}|{_END}")


@dataclass(frozen=True)
class SqlFragment:
    """``text[start:end]`` of Spark's text is what stands at ``span`` of the script, or of a view's text."""

    start: int
    end: int
    span: Span
    view: str | None


@dataclass(frozen=True)
class SparkText:
    """The text, with the spans of its fragments in no order."""

    text: str
    parts: tuple[SqlFragment, ...] = ()

    def part_at(self, start: int, end: int) -> SqlFragment | None:
        """The smallest fragment that contains the range; where none does, the fragments inside of it."""
        holding = [fragment for fragment in self.parts if fragment.start <= start and end <= fragment.end]
        inside = [fragment for fragment in self.parts if start <= fragment.start and fragment.end <= end]
        if not inside or (holding and min(map(_width, holding)) == end - start):
            return min(holding, key=_width, default=None)
        spans = [fragment.span for fragment in inside if fragment.view == inside[0].view]
        return SqlFragment(start, end, reduce(Span.to, spans), inside[0].view)


def _width(fragment: SqlFragment) -> int:
    return fragment.end - fragment.start


_OPTIONS: dict[str, Any] = {"dialect": "spark", "comments": False, "normalize_functions": False}


@on_deep_stack
def spark_text(query: exp.Expr) -> SparkText:
    """The text of a query that is spelled for Spark (``respelling``)."""
    query = _without_any(query)
    plain = _SparkSql(**_OPTIONS).generate(query)
    if any(mark in plain for mark in (_BEGIN, _NAMED, _END)):
        return SparkText(plain)
    marking = _Marking(**_OPTIONS)
    marked_text = _without_marks(marking.generate(query), marking.marked)
    # Whoever prints may look at what is printed; a text that marks have changed would be another query.
    return marked_text if marked_text.text == plain else SparkText(plain)


def _without_any(query: exp.Expr) -> exp.Expr:
    """A copy in which ANY of arrays is EXISTS: sqlglot's generator looks for it in each query of a query."""
    copy = query.copy()
    holder = exp.Select(expressions=[copy])
    transforms.any_to_exists(holder)
    return copy


def _without_marks(marked: str, nodes: list[tuple[Span, str | None]]) -> SparkText:
    text: list[str] = []
    length = position = 0
    open_parts: list[tuple[int, int]] = []
    parts: list[SqlFragment] = []
    for mark in _MARK.finditer(marked):
        text.append(marked[position : mark.start()])
        length += mark.start() - position
        position = mark.end()
        if mark[1] is not None:
            open_parts.append((int(mark[1]), length))
        elif open_parts:
            number, start = open_parts.pop()
            parts.append(SqlFragment(start, length, *nodes[number]))
    text.append(marked[position:])
    return SparkText("".join(text), tuple(parts))


class _SparkSql(WithTimeGenerator):
    """What Spark 4 has itself is not written in other words."""

    EXPRESSIONS_WITHOUT_NESTED_CTES: ClassVar[set[Any]] = set()
    WRAP_DERIVED_VALUES = True  # without parentheses a comma behind the rows would go on with them
    TRANSFORMS: ClassVar[dict[Any, Callable[..., str]]] = {
        kind: f for kind, f in SparkGenerator.TRANSFORMS.items() if kind is not exp.Select
    }

    def columndef_sql(self, expression: exp.ColumnDef, sep: str = " ") -> str:
        return member_sql(self, expression) or super().columndef_sql(expression, sep)


class _Marking(_SparkSql):
    """``marked`` are the places of the parts, by their numbers."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.marked: list[tuple[Span, str | None]] = []

    def sql(self, expression: str | exp.Expr | None, key: str | None = None, comment: bool = True) -> str:
        text = super().sql(expression, key, comment)
        if key is not None or not isinstance(expression, exp.Expr) or not text or not is_marked(expression):
            return text
        span = span_of(expression)
        if span is None:
            return text
        self.marked.append((span, expression.meta.get(VIEW)))
        return f"{_BEGIN}{len(self.marked) - 1}{_NAMED}{text}{_END}"
