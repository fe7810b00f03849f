"""Where the columns of a result come from: expressions over columns of tables."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlstream.planner.fields import qualified_by_tables
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Insert, Output

_COLUMN = re.compile(r"(?<![\w.`])(?:`(?:[^`]|``)+`|\w+)(?:\.(?:`(?:[^`]|``)+`|\w+))+")
_PART = re.compile(r"`((?:[^`]|``)+)`|(\w+)")
_NAME_OR_TEXT = re.compile(r"(`(?:[^`]|``)+`)|'(?:[^'\\]|\\.|'')*'")


@dataclass(frozen=True)
class Lineage:
    """The lineage of a column: the expression that computes it from table columns, and these columns."""

    column: str
    sources: tuple[str, ...]
    expression: str


def lineage(plan: Output | Insert) -> tuple[Lineage, ...]:
    """Returns one ``Lineage`` per column of a query's result, or of the table that an INSERT writes."""
    with qualified_by_tables():
        names = plan.column_provenance
    columns = columns_read(plan)
    titles = plan.names if isinstance(plan, Output) else tuple(c.name for c in plan.table.physical_columns)
    texts = (_without_outer(names[f.name]) for f in plan.input.schema)
    return tuple(Lineage(title, _sources(text, columns), text) for title, text in zip(titles, texts, strict=True))


def columns_read(plan: Node) -> dict[str, tuple[str, str]]:
    """The columns, as ``table.column``, that the plan reads or looks up."""
    reads = [read for node in plan.walk() if (read := node.table_read) is not None]
    return {f"{table.name}.{column.name}": (table.name, column.name) for table, _ in reads for column in table.columns}


def without_texts(expression: str) -> str:
    """The expression with its literals empty, in which nothing is a name or a call."""
    return _NAME_OR_TEXT.sub(lambda match: match[1] or "''", expression)


def _sources(text: str, columns: dict[str, tuple[str, str]]) -> tuple[str, ...]:
    """The columns in the text, in order, without what only looks like one inside a literal."""
    named = (match[0] for match in _COLUMN.finditer(without_texts(text)))
    return tuple(dict.fromkeys(name for word in named if (name := _longest(word, columns)) is not None))


def _longest(word: str, columns: dict[str, tuple[str, str]]) -> str | None:
    """The column that a dotted word begins with: what follows it are members."""
    parts = [quoted.replace("``", "`") or plain for quoted, plain in _PART.findall(word)]
    words = (".".join(parts[:count]) for count in range(len(parts), 1, -1))
    return next((word for word in words if word in columns), None)


def _without_outer(text: str) -> str:
    """The text without parentheses around all of it."""
    while text.startswith("(") and _end_of_first(text) == len(text) - 1:
        text = text[1:-1]
    return text


def _end_of_first(text: str) -> int:
    """Where the parenthesis closes with which the text begins; -1 where it does not."""
    depth = 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return position
    return -1
