"""Where the columns of a result come from: expressions over columns of tables."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlstream.planner.meanings import names_of, tables_named
from sqlstream.planner.nodes import Insert, Output, Scan


@dataclass(frozen=True)
class Lineage:
    """A column with what it is made of, and the columns of tables in that."""

    column: str
    sources: tuple[str, ...]
    expression: str


def lineage(plan: Output | Insert) -> tuple[Lineage, ...]:
    """Of each column of a query, or of each column that an INSERT writes."""
    with tables_named():
        names = names_of(plan)
    columns = [f"{node.table.name}.{f.name}" for node in plan.walk() if isinstance(node, Scan) for f in node.schema]
    titles = plan.names if isinstance(plan, Output) else tuple(c.name for c in plan.table.physical_columns)
    texts = (_without_outer(names[f.name]) for f in plan.input.schema)
    return tuple(
        Lineage(title, tuple(dict.fromkeys(c for c in columns if _is_in(c, text))), text)
        for title, text in zip(titles, texts, strict=True)
    )


def _is_in(column: str, text: str) -> bool:
    return re.search(rf"(?<![\w.`]){re.escape(column)}(?![\w`])", text) is not None


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
