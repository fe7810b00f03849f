"""Parameters of a text: what types they must have by what stands beside them, and the text with values for them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqlstream.analysis.answers import Parameter
from sqlstream.analysis.types import type_of
from sqlstream.arguments import parameters_of
from sqlstream.errors import Span
from sqlstream.grammar import nodes, parse_each
from sqlstream.grammar.trees import walk
from sqlstream.planner.catalog import Table
from sqlstream.types import BIGINT, BOOLEAN, STRING, DataType, from_sqlglot
from sqlstream.workspace import Workspace

_MARK = re.compile("\ue000(\\d+)\ue001")
_COUNTED = frozenset({"LIMIT", "OFFSET", "FIRST", "NEXT"})
_COMPARED = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_COMPUTED = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Coalesce)
_SAMPLES = {
    "STRING": "''", "BOOLEAN": "TRUE", "DATE": "DATE '2000-01-01'",
    "TIMESTAMP": "TIMESTAMP '2000-01-01 00:00:00'", "TIMESTAMP_NTZ": "TIMESTAMP_NTZ '2000-01-01 00:00:00'",
}  # fmt: skip


@dataclass(frozen=True)
class FilledText:
    """A text with values in place of its parameters, and how places in it are places of the text before."""

    text: str
    parameters: tuple[Parameter, ...] = ()
    _ends: tuple[int, ...] = ()
    _shifts: tuple[int, ...] = ()

    def back(self, span: Span) -> Span:
        return Span(self._back(span.start), self._back(span.end))

    def _back(self, position: int) -> int:
        """Places inside of a value are the end of its parameter."""
        index = bisect_right(self._ends, position)
        before = position - self._shifts[index - 1] if index else position
        following = [end - shift for end, shift in zip(self._ends[index:], self._shifts[index:], strict=True)]
        return min([before, *following[:1]])


def filled(text: str, workspace: Workspace) -> FilledText:
    """The text with a value of the type that is told for each parameter."""
    marks = parameters_of(text) if "?" in text or ":" in text else []
    if not marks:
        return FilledText(text)
    types = _types(text, marks, workspace)
    by_name = {name: next((types[i] for i in same if i in types), None) for name, same in _same_names(marks)}
    parameters = tuple(
        Parameter(name, _text(by_name[name]), tuple(marks[i][1] for i in same)) for name, same in _same_names(marks)
    )
    values = [_sample(by_name[name], before) for name, _, before in marks]
    whole, ends, shifts = _replaced(text, marks, values)
    return FilledText(whole, parameters, ends, shifts)


Mark = tuple[str, Span, str]
"""The name of a parameter, its place, and the word before it."""


def _same_names(marks: Sequence[Mark]) -> Iterator[tuple[str, list[int]]]:
    names = dict.fromkeys(name for name, _, _ in marks)
    return ((name, [i for i, mark in enumerate(marks) if mark[0] == name]) for name in names)


def _replaced(text: str, marks: Sequence[Mark], values: Sequence[str]) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    pieces, ends, shifts = list[str](), list[int](), list[int]()
    position = length = 0
    for (_, span, _), value in zip(marks, values, strict=True):
        pieces += (text[position : span.start], value)
        length += span.start - position + len(value)
        position = span.end
        ends.append(length)
        shifts.append(length - position)
    return "".join([*pieces, text[position:]]), tuple(ends), tuple(shifts)


def _text(kind: DataType | None) -> str | None:
    return None if kind is None else str(kind)


def _sample(kind: DataType | None, before: str) -> str:
    if before in _COUNTED:
        return "1"
    if before == "INTERVAL":
        return "'1'"
    if kind is None:
        return "NULL"
    return _SAMPLES.get(kind.name) or f"CAST({'1' if kind.is_numeric else 'NULL'} AS {kind.ddl()})"


# --- types ----------------------------------------------------------------------------------------------------


def _types(text: str, marks: Sequence[Mark], workspace: Workspace) -> dict[int, DataType]:
    """By the number of a mark; none of those that nothing tells."""
    values = [
        _sample(None, before) if before in _COUNTED | {"INTERVAL"} else f"'\ue000{i}\ue001'"
        for i, (_, _, before) in enumerate(marks)
    ]
    types = {i: BIGINT for i, (_, _, before) in enumerate(marks) if before in _COUNTED}
    types |= {i: STRING for i, (_, _, before) in enumerate(marks) if before == "INTERVAL"}
    for written in parse_each(_replaced(text, marks, values)[0]):
        if written.statement is None:
            continue
        for expression in walk(written.statement):
            number = _number(expression)
            kind = _told(expression, written.statement, workspace) if number is not None else None
            if number is not None and kind is not None and not kind.is_unknown:
                types[number] = kind
    return types


def _number(expression: exp.Expr) -> int | None:
    if not isinstance(expression, exp.Literal) or not expression.is_string:
        return None
    match = _MARK.fullmatch(expression.name)
    return int(match[1]) if match is not None else None


def _told(mark: exp.Expr, statement: nodes.Statement, workspace: Workspace) -> DataType | None:
    """The type that what stands around a parameter asks for."""
    parent = mark.parent
    while isinstance(parent, exp.Paren):
        mark, parent = parent, parent.parent
    match parent:
        case exp.Cast():
            return from_sqlglot(parent.to)
        case exp.And() | exp.Or() | exp.Not() | exp.Where() | exp.Having():
            return BOOLEAN
        case exp.Like() | exp.ILike() | exp.RegexpLike() | exp.DPipe():
            return STRING
        case exp.Tuple() if isinstance(statement, nodes.Insert):
            return _of_target(mark, parent, statement, workspace)
        case exp.Between() | exp.In() | exp.Binary() | exp.Coalesce():
            beside = [child for child in parent.iter_expressions() if child is not mark and _number(child) is None]
            is_typed = isinstance(parent, (exp.Between, exp.In, *_COMPARED, *_COMPUTED))
            kinds = (type_of(child, workspace.catalog) for child in beside) if is_typed else ()
            return next((kind for kind in kinds if not kind.is_unknown and kind.name != "VOID"), None)
    return None


def _of_target(mark: exp.Expr, row: exp.Tuple, insert: nodes.Insert, workspace: Workspace) -> DataType | None:
    """The type of the column that a value of VALUES goes to."""
    table = workspace.catalog.relation(str(insert.target))
    if not isinstance(table, Table):
        return None
    names = insert.columns or tuple(column.name for column in table.physical_columns)
    place = next((i for i, value in enumerate(row.expressions) if value is mark), len(names))
    kinds = {column.name.casefold(): column.type for column in table.physical_columns}
    return kinds.get(names[place].casefold()) if place < len(names) else None
