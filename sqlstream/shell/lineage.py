"""\\lineage: the columns of a query as rows, with what they are made of."""

from __future__ import annotations

from sqlstream.batch import Batch, chosen
from sqlstream.grammar import nodes, parse_script
from sqlstream.planner.lineage import lineage
from sqlstream.planner.nodes import StatementSet
from sqlstream.workspace import Workspace

COLUMNS = ("column", "columns of tables", "made of")


def lineage_rows(text: str, workspace: Workspace) -> list[tuple[str, ...]]:
    """Of one query or INSERT. ValueError in words of a message where it is neither, or no stream."""
    (statement,) = parse_script(text)
    if not isinstance(statement, nodes.Query | nodes.Insert):
        raise ValueError("needs a query or an INSERT")
    plan = chosen(statement, workspace)
    if isinstance(plan, Batch | StatementSet):
        raise ValueError("needs a stream, and this query runs over finished data")
    return [(line.column, ", ".join(line.sources), line.expression) for line in lineage(plan)]
