"""What is said while Spark, a query or a job starts."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from sqlstream.cli.status import working
from sqlstream.grammar import to_sql
from sqlstream.grammar.nodes import Query, Statement
from sqlstream.secrets import shown_script
from sqlstream.statements.registry import starts_job

if TYPE_CHECKING:
    from sqlstream.spark.startup import SparkStart


def wait_for_spark(start: SparkStart, shown: bool = True) -> None:
    """Spark is there afterwards. ``shown``: say what takes so long, and once how it takes less, on a terminal."""
    with working("starting Spark", shown):
        start.wait()
    if shown and sys.stderr.isatty() and (advice := start.advice()):
        sys.stderr.write(advice + "\n")
        sys.stderr.flush()


def label(statement: Statement) -> str:
    """What a statement is doing while it has not returned."""
    if isinstance(statement, Query):
        return "starting the query"
    return "starting the job" if starts_job(statement) else shown_script(to_sql(statement)).partition("\n")[0]
