"""EXPLAIN: which way a query runs and why, and of a batch its text and what Spark makes of it."""

from __future__ import annotations

import contextlib
import io
import json
from typing import TYPE_CHECKING, Any

from sqlstream.batch.choosing import Batch, ends
from sqlstream.errors import SqlStreamError, UnsupportedError
from sqlstream.grammar import nodes, to_sql
from sqlstream.planner.batch import chosen_way, resolve

if TYPE_CHECKING:
    from sqlstream.batch.choosing import Chosen
    from sqlstream.batch.running import Batches
    from sqlstream.workspace import Workspace

NO_PLAN_OF_BATCH = "SS603"

_SPARK_STAGES = {"PHYSICAL": "formatted", "SPARK": "extended"}


def why_stream(statement: Chosen, workspace: Workspace) -> str:
    """The line about a query that runs as a stream."""
    if workspace.settings["execution.runtime-mode"] == "streaming":
        return "stream: 'execution.runtime-mode' is 'streaming'"
    try:
        way = chosen_way(resolve(statement.query, workspace.catalog, lambda table: table.name), workspace.catalog, ends)
    except SqlStreamError:
        return "stream"
    if not way.may_be_batch:
        late = workspace.settings["execution.runtime-mode"] == "batch"
        return f"stream: {way.why}{'; no row of it is late' if late else ''}"
    return "stream: all inputs are bounded, and no clause needs all rows at once"


def explained_batch(batch: Batch, statement: nodes.Explain, workspace: Workspace, batches: Batches) -> str:
    """The batch at a stage; PHYSICAL and SPARK start Spark. SS603 for stages that only streams have."""
    if statement.stage in _SPARK_STAGES:
        return f"{_headline(batch)}\n{_by_spark(batch, _SPARK_STAGES[statement.stage], workspace, batches)}"
    if statement.stage not in ("LOGICAL", "OPTIMIZED", "ADVICE") or statement.format == "MERMAID":
        message = f"EXPLAIN {statement.stage} in the format {statement.format} has nothing to say of a batch"
        hint = "EXPLAIN shows what it reads, EXPLAIN PHYSICAL the plan of Spark."
        raise UnsupportedError(NO_PLAN_OF_BATCH, message, statement.span, hint=hint)
    if statement.format == "JSON":
        return json.dumps(_document(batch), ensure_ascii=False, indent=2)
    lines = [f"Spark SQL: {to_sql(batch.statement)}", *(f"└─ {line}" for line in _tables(batch))]
    return "\n".join([_headline(batch), *lines])


def _headline(batch: Batch) -> str:
    return f"batch: {batch.why}"


def _tables(batch: Batch) -> list[str]:
    return [f'{table.name}: table of connector "{table.connector}"' for table in batch.tables]


def _document(batch: Batch) -> dict[str, Any]:
    tables = [{"name": table.name, "connector": table.connector} for table in batch.tables]
    return {"mode": "batch", "why": batch.why, "sql": to_sql(batch.statement), "tables": tables}


def _by_spark(batch: Batch, mode: str, workspace: Workspace, batches: Batches) -> str:
    printed = io.StringIO()
    with batches.analyzed(batch, workspace) as analyzed, contextlib.redirect_stdout(printed):
        analyzed.rows.explain(mode)
    text = printed.getvalue().strip()
    for table, name in batch.names.items():
        text = text.replace(name, table)
    return analyzed.secrets.hidden(text)
